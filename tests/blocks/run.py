#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Block formats against the gguf package: random blocks, every bit equal.

    run.py PROEM [N [SEED]]

For each format: N tensors of random bytes, whatever their scales are (infinities and NaN among
them), read from a .npy and from a GGUF file, on the interpreter and on the CPU; then one product,
which must be one kernel. Then the packings of examples/packings.proem, likewise. numpy and gguf
are fetched beside PROEM where Python has none; where that fails all is skipped. The last line is
`N passed, N failed, N skipped`.
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
PACKINGS = ("gptq", "awq", "nf4", "pack_quantized")


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


# ---- packings of checkpoints, as examples/packings.proem reads them ----------------------------


def words(np, numbers):
    """Eight 4-bit numbers of the last axis a word, the first in the low bits."""
    n = numbers.reshape(*numbers.shape[:-1], -1, 8).astype(np.uint32)
    return (n << (np.arange(8, dtype=np.uint32) * 4)).sum(-1, dtype=np.uint32).view(np.int32)


def packing(np, random, name, k, n, groups):
    """Parameters, and the weights [k, n] that they stand for."""
    q = random.integers(0, 16, (k, n))
    z = random.integers(0, 16, (groups, n))
    s = random.standard_normal((groups, n)).astype(np.float16)
    g = np.arange(k) // (k // groups)
    if name == "gptq":
        g = random.permutation(g)
        w = (q - z[g] - 1).astype(np.float32) * s[g].astype(np.float32)
        return w, {"qweight": words(np, q.T).T.copy(), "qzeros": words(np, z), "scales": s,
                   "g_idx": g.astype(np.int32)}
    if name == "awq":
        order = np.array([0, 2, 4, 6, 1, 3, 5, 7])
        pack = lambda a: words(np, a.reshape(len(a), -1, 8)[:, :, order].reshape(a.shape))
        w = (q - z[g]).astype(np.float32) * s[g].astype(np.float32)
        return w, {"qweight": pack(q), "qzeros": pack(z), "scales": s}
    if name == "nf4":
        levels = np.sort(random.standard_normal(16)).astype(np.float32)
        rows, absmax = q.T.reshape(-1), random.random(n * k // 64, dtype=np.float32)
        w = (levels[rows].reshape(-1, 64) * absmax[:, None]).reshape(n, k).T
        packed = (rows[0::2] << 4 | rows[1::2]).astype(np.uint8)[:, None]
        return w, {"weight": packed, "absmax": absmax, "quant_map": levels}
    scale = (s.T.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).copy()  # bf16
    wide = (scale.astype(np.uint32) << 16).view(np.float32)
    w = (q - 8).astype(np.float32) * wide.T[g]
    return w, {"weight_packed": words(np, q.T.copy()), "weight_scale": scale}


def check_packing(np, proem, file, name, want, given, device):
    """The product with the identity is the weights."""
    sizes = {"M": want.shape[0], "K": want.shape[0], "N": want.shape[1]}
    np.save("x.npy", np.eye(want.shape[0], dtype=np.float32))
    args = ["--in", "x=x.npy"]
    for key, value in given.items():
        np.save(f"{key}.npy", value)
        args += ["--in", f"{key}={key}.npy"]
    for key, value in sizes.items():
        args += ["--dim", f"{key}={value}"]
    code, _, err = command(proem, "run", file, "--graph", name, *args, "--device", device, "--out",
                           "y=y.npy")
    if code:
        return err
    return "" if np.array_equal(np.load("y.npy"), want) else "values differ"


def packings(np, random, proem, file):
    for name in PACKINGS:
        want, given = packing(np, random, name, 256, 64, 4)
        for device in DEVICES:
            yield f"{name}, {device}", check_packing(np, proem, file, name, want, given, device)


def main():
    proem = os.path.abspath(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    total = (len(FORMATS) * (n * len(SOURCES) * len(DEVICES) + 1) +
             len(PACKINGS) * len(DEVICES))
    found = packages(os.path.join(os.path.dirname(proem), "blocks-python"))
    if found is None:
        print(f"there is no Python with numpy and gguf\n0 passed, 0 failed, {total} skipped")
        return 0
    np, gguf = found
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/packings.proem")
    passed = failed = 0
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for what, fault in packings(np, random, proem, file):
            passed += fault == ""
            failed += fault != ""
            if fault:
                print(f"{what}: {fault}")
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
