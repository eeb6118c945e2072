#!/usr/bin/env python3
"""ONNX's own runner of its node tests, onnx.backend.test, on proem: backend.py PROEM DIR DEVICE JOBS
[ONLY]. DIR holds the cases; DEVICE is ref or cpu. A model is prepared by keeping it and run by the
command: its inputs as .npy files, its results from .npy files. Failures are printed, with the
runner's words; the last line is `N passed, N failed, N skipped`.
"""
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
import onnx.backend.base
from onnx.backend.test import loader, runner

proem, device, made = "", "", None
# of what NumPy's files lack, the bits or the values that stand for it there
CARRIED = {"bfloat16": "uint16", "int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def stored(array):
    """As proem reads it from a .npy file: bits, or for integers below a byte one element a byte."""
    name = array.dtype.name
    if name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(CARRIED[name])
    if name == "bfloat16" or name.startswith("float8") or name.startswith("float4"):
        return array.view(CARRIED.get(name, "uint8"))
    return array


def loaded(array, elem_type, shape):
    """What proem wrote, in the model's element type: packed elements lie low bits first."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    bits = BITS.get(dtype.name)
    if bits is None:
        return array if array.dtype == dtype else array.view(dtype)
    count = int(numpy.prod(shape))
    each = (array[:, None] >> numpy.arange(0, 8, bits, dtype=numpy.uint8)) & (2 ** bits - 1)
    each = each.reshape(-1)[:count].reshape(shape)
    if dtype.name.startswith("float"):
        return each.astype(numpy.uint8).view(dtype)
    if dtype.name.startswith("int"):
        each = each.astype(numpy.int8)
        each = numpy.where(each >= 2 ** (bits - 1), each - 2 ** bits, each)
    return each.astype(dtype)


class Prepared(onnx.backend.base.BackendRep):
    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "model.onnx")
            onnx.save(self.model, path)
            command = [proem, "run", path, "--device", device, "--json", "--threads", "1"]
            for i, (info, value) in enumerate(zip(self.model.graph.input, inputs)):
                file = os.path.join(scratch, "in%d.npy" % i)
                numpy.save(file, stored(numpy.asarray(value)))
                command += ["--in", info.name + "=" + file]
            results = self.model.graph.output
            files = [os.path.join(scratch, "out%d.npy" % i) for i in range(len(results))]
            for info, file in zip(results, files):
                command += ["--out", info.name + "=" + file]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip())
            shapes = [o["shape"] for o in json.loads(done.stdout)["outputs"]]
            return [loaded(numpy.load(f), r.type.tensor_type.elem_type, s)
                    for f, r, s in zip(files, results, shapes)]


class Proem(onnx.backend.base.Backend):
    @classmethod
    def supports_device(cls, name):
        return name == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        return Prepared(model)


def cases(folder, only):
    """The runner's test functions by name, of the cases in a folder instead of the package's."""
    folder = os.path.realpath(folder)
    read = loader.load_model_tests

    def load(data_dir=None, kind=None):
        if kind != "node":
            return []
        return read(os.path.dirname(folder), os.path.basename(folder))

    runner.load_model_tests = load
    made = runner.Runner(Proem).test_cases["OnnxBackendNodeModelTest"]
    names = [n for n in dir(made) if n.startswith("test_") and n.endswith("_cpu") and only in n]
    return made, sorted(names)


def one(name):
    result = unittest.TestResult()
    made(name).run(result)
    if result.skipped:
        return name, "skipped", result.skipped[0][1]
    wrong = result.failures + result.errors
    return name, "failed" if wrong else "passed", wrong[0][1] if wrong else ""


def main():
    global proem, device, made
    proem, device = os.path.abspath(sys.argv[1]), sys.argv[3]
    made, names = cases(sys.argv[2], sys.argv[5] if len(sys.argv) > 5 else "")
    count = {"passed": 0, "failed": 0, "skipped": 0}
    with multiprocessing.get_context("fork").Pool(int(sys.argv[4])) as pool:
        for name, state, text in pool.imap(one, names, chunksize=4):
            count[state] += 1
            if state != "passed":
                print("%s %s: %s" % (state.upper(), name, " ".join(text.split()[-60:])), flush=True)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % count)
    return count["failed"] > 0 or count["passed"] == 0


if __name__ == "__main__":
    sys.exit(main())
