#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Block formats against the gguf package: random blocks, every bit equal.

    run.py PROEM [N [SEED]]

For each format: N tensors of random bytes, whatever their scales are (infinities and NaN among
them), read from a .npy and from a GGUF file, on the interpreter and on the CPU; then one product,
which must be one kernel. numpy and gguf are fetched beside PROEM where Python has none; where that
fails all is skipped. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

FORMATS = ("q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs tq1_0 tq2_0 mxfp4 "
           "nvfp4").split()
SOURCES = ("npy", "gguf")
DEVICES = ("ref", "cpu")


def command(*words):
    r = subprocess.run(words, capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr.strip()


def packages(folder):
    """numpy and gguf, or None."""
    for fetch in (False, True):
        if fetch:
            command(sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1",
                    "--disable-pip-version-check", "--target", folder, "numpy", "gguf")
            sys.path.insert(0, folder)
        try:
            import gguf
            import numpy
            return numpy, gguf
        except ImportError:
            pass
    return None


def write_gguf(path, name, kind, dims, data):
    """One tensor, version 3, alignment 32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
    head += struct.pack(f"<{len(dims)}QIQ", *reversed(dims), kind, 0)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def equal(np, got, want):
    same = got.view(np.uint32) == want.view(np.uint32)
    return got.shape == want.shape and bool(np.all(same | (np.isnan(got) & np.isnan(want))))


def one_kernel(proem, name):
    with open("m.proem", "w") as f:
        f.write(f"graph m(x: f32[16, 512], const w: {name}[256, 512]) {{\n"
                "  return matmul(x, permute(dequantize(w), [1, 0]))\n}\n")
    code, out, err = command(proem, "explain", "m.proem", "--json")
    return err if code else "" if len(json.loads(out)["kernels"]) == 1 else "more than one kernel"


def check(np, gguf, proem, name, raw, source, device):
    kind = getattr(gguf.GGMLQuantizationType, name.upper())
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    dims = (raw.shape[0], raw.shape[1] // size * elements)
    with np.errstate(all="ignore"):
        want = gguf.quants.dequantize(raw, kind).astype(np.float32)
    if source == "npy":
        np.save("w.npy", raw)
    else:
        write_gguf("w.gguf", "w", kind.value, dims, raw.tobytes())
    with open("g.proem", "w") as f:
        f.write(f"graph g(w: {name}[N, K]) {{\n  y = dequantize(w)\n  return y\n}}\n")
    given = ("--in", "w=w.npy") if source == "npy" else ("--weights", "w.gguf")
    code, _, err = command(proem, "run", "g.proem", *given, "--device", device, "--out", "y=y.npy")
    if code:
        return err
    return "" if equal(np, np.load("y.npy"), want) else "values differ"


def main():
    proem = os.path.abspath(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    total = len(FORMATS) * (n * len(SOURCES) * len(DEVICES) + 1)
    found = packages(os.path.join(os.path.dirname(proem), "blocks-python"))
    if found is None:
        print(f"there is no Python with numpy and gguf\n0 passed, 0 failed, {total} skipped")
        return 0
    np, gguf = found
    passed = failed = 0
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in FORMATS:
            kind = getattr(gguf.GGMLQuantizationType, name.upper())
            size = gguf.GGML_QUANT_SIZES[kind][1]
            faults = [("matmul", one_kernel(proem, name))]
            for i in range(n):
                rows, blocks = random.integers(1, 9), random.integers(1, 5)
                raw = random.integers(0, 256, (rows, blocks * size), dtype=np.uint8)
                faults += [(f"tensor {i}, {s}, {d}", check(np, gguf, proem, name, raw, s, d))
                           for s in SOURCES for d in DEVICES]
            for what, fault in faults:
                passed += fault == ""
                failed += fault != ""
                if fault:
                    print(f"{name}, {what}: {fault}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
