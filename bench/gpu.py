#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times of bench/graphs on a GPU beside PyTorch, in one process.

gpu.py --lib build/gpu/libproem.so [--rows int8,plain] [--rounds 5] [--peers mm,eager,inductor]
       [--json FILE] [--markdown bench/results/h200.md]

proem is called through its C interface with PyTorch's tensors (DLPack structures, PyTorch's
stream). Each side is a CUDA graph of runs that go round sets of inputs, together larger than four
times the L2; rounds take turns between the sides. Peers: the bare bf16 product of the same shape
(cuBLAS), the graph in PyTorch op by op, torch.compile with max-autotune. Printed: medians of the
rounds' medians in microseconds, the spread over rounds in per cent, and the ratio to the bare
product. Results are compared with PyTorch's before anything is timed.
"""
import argparse
import ctypes as C
import json
import math
import os
import re
import sys
import time

import torch
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BF16 = torch.bfloat16

# ---- the C interface ---------------------------------------------------------------------------


class Device(C.Structure):
    _fields_ = [("type", C.c_int), ("id", C.c_int32)]


class DType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device", Device), ("ndim", C.c_int32), ("dtype", DType),
                ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


class ContextOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("alloc", C.c_void_p), ("free", C.c_void_p),
                ("user", C.c_void_p), ("cache_dir", C.c_char_p), ("compiler", C.c_char_p),
                ("threads", C.c_int), ("cuda_device", C.c_int)]


class CompileOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("device", C.c_int), ("precision", C.c_int),
                ("fuse", C.c_int), ("force", C.c_void_p), ("n_force", C.c_size_t),
                ("assume_bandwidth", C.c_bool), ("strict", C.c_bool), ("arch", C.c_char_p),
                ("dim_names", C.POINTER(C.c_char_p)), ("dim_values", C.POINTER(C.c_int64)),
                ("n_dims", C.c_size_t), ("tune", C.c_int), ("progress", C.c_void_p),
                ("progress_user", C.c_void_p)]


DEVICE_CUDA = 2
DL_CUDA = 2
FUSE_NEVER = 2
# dtype of a graph's text: DLPack's code and bits, and the tensor that holds it in PyTorch
DTYPES = {
    "f32": (2, 32, torch.float32), "f16": (2, 16, torch.float16), "bf16": (4, 16, BF16),
    "i8": (0, 8, torch.int8), "u8": (1, 8, torch.uint8), "i32": (0, 32, torch.int32),
    "i64": (0, 64, torch.int64), "u4": (1, 4, torch.uint8), "i4": (0, 4, torch.uint8),
    "f8e4m3fn": (10, 8, torch.float8_e4m3fn),
}


class Proem:
    def __init__(self, path, cache):
        self.lib = C.CDLL(path)
        self.lib.proem_error_text.restype = C.c_char_p
        self.lib.proem_execution_error.restype = C.c_char_p
        o = ContextOptions()
        self.lib.proem_context_options_init(C.byref(o))
        assert o.size == C.sizeof(o), "the library's options are not this script's"
        o.cache_dir = cache.encode() if cache else None
        self.context = C.c_void_p()
        self.check(self.lib.proem_context_create(C.byref(o), C.byref(self.context)))

    def check(self, status, execution=None):
        if status == 0:
            return
        text = (self.lib.proem_execution_error(execution) if execution
                else self.lib.proem_error_text(self.context, None, None))
        self.lib.proem_error_clear(self.context)
        raise RuntimeError((text or b"failed").decode())


class Program:
    """A graph of bench/graphs for given sizes, with an execution."""

    def __init__(self, proem, name, dims, fuse=0):
        self.p, lib = proem, proem.lib
        with open(os.path.join(ROOT, "bench", "graphs", name + ".proem")) as f:
            self.text = f.read()
        text = self.text.encode()
        g = C.c_void_p()
        proem.check(lib.proem_graph_parse(proem.context, text, C.c_size_t(len(text)),
                                          name.encode(), None, C.byref(g)))
        o = CompileOptions()
        lib.proem_compile_options_init(C.byref(o))
        assert o.size == C.sizeof(o), "the library's options are not this script's"
        o.device, o.fuse, o.n_dims = DEVICE_CUDA, fuse, len(dims)
        o.dim_names = (C.c_char_p * len(dims))(*[d.encode() for d in dims])
        o.dim_values = (C.c_int64 * len(dims))(*dims.values())
        self.program = C.c_void_p()
        start = time.time()
        status = lib.proem_compile(g, C.byref(o), C.byref(self.program))
        self.compile_s = time.time() - start
        lib.proem_graph_destroy(g)
        proem.check(status)
        self.x = C.c_void_p()
        proem.check(lib.proem_execution_create(self.program, C.byref(self.x)))
        lib.proem_program_kernels.restype = C.c_size_t
        self.kernels = lib.proem_program_kernels(self.program)
        head = re.search(r"\((.*?)\)\s*{", re.sub(r"#[^\n]*", "", self.text), re.S).group(1)
        self.params = [(n, d, [eval(e.replace("/", "//") if "//" not in e else e, {}, dict(dims))
                               for e in s.split(",") if e.strip()])
                       for n, d, s in re.findall(r"(\w+):\s*(\w+)\[([^\]]*)\]", head)]

    def tensor(self, t, dtype, shape):
        code, bits, _ = DTYPES[dtype]
        dims = (C.c_int64 * max(len(shape), 1))(*shape)
        return Tensor(t.data_ptr(), Device(DL_CUDA, 0), len(shape), DType(code, bits, 1), dims,
                      None, 0)

    def prepare(self, inputs):
        """Outputs for inputs (PyTorch tensors in the parameters' order), and what a run needs."""
        ts = [self.tensor(t, d, s) for t, (_, d, s) in zip(inputs, self.params)]
        ins = (C.POINTER(Tensor) * len(ts))(*[C.pointer(t) for t in ts])
        self.p.check(self.p.lib.proem_execution_prepare(self.x, ins, C.c_size_t(len(ts))), self.x)
        n, outs, held = self.p.lib.proem_program_outputs(self.program), [], []
        for i in range(n):
            rank, dims, dt = C.c_int(), C.POINTER(C.c_int64)(), DType()
            self.p.check(self.p.lib.proem_execution_output_shape(
                self.x, C.c_size_t(i), C.byref(rank), C.byref(dims), C.byref(dt)), self.x)
            name = next(k for k, v in DTYPES.items() if v[:2] == (dt.code, dt.bits))
            shape = [dims[k] for k in range(rank.value)]
            out = torch.full(shape, float("nan"), device="cuda", dtype=DTYPES[name][2])
            held.append(out)
            outs.append(self.tensor(out, name, shape))
        return ins, (C.POINTER(Tensor) * n)(*[C.pointer(t) for t in outs]), held, (ts, outs, inputs)

    def run(self, prepared):
        ins, outs = prepared[0], prepared[1]
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.p.check(self.p.lib.proem_execution_set_stream(self.x, stream), self.x)
        self.p.check(self.p.lib.proem_run(self.x, ins, C.c_size_t(len(ins)), outs,
                                          C.c_size_t(len(outs))), self.x)

    def close(self):
        torch.cuda.synchronize()
        self.p.lib.proem_execution_destroy(self.x)
        self.p.lib.proem_program_destroy(self.program)


# ---- the rows ----------------------------------------------------------------------------------


def unpack4(w, shape):
    return torch.stack((w & 15, w >> 4), -1).reshape(shape).to(BF16)


def int4_g128(x, w, s, z):
    n = s.shape[0]
    q = unpack4(w, (n, -1, 128)) - unpack4(z, (n, -1, 1))
    return x @ (q * s[:, :, None]).reshape(n, -1).t()


def rms(x, g):
    v = x.float()
    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * g.float()).to(BF16)


TORCH = {  # the graph in PyTorch, parameters in the graph's order
    "plain": lambda x, w: x @ w.t(),
    "plain_8192": lambda x, w: x @ w.t(),
    "relu": lambda x, w: torch.relu(x) @ w.t(),
    "sigmoid": lambda x, w: torch.sigmoid(x) @ w.t(),
    "int8": lambda x, w, s: x @ (w.to(BF16) * s[:, None]).t(),
    "int4_g128": int4_g128,
    "fp8": lambda x, w, s: x @ (w.to(BF16) * s[:, None]).t(),
    "gather": lambda x, i, w: x[i] @ w.t(),
    "rms_norm": lambda x, g, w: rms(x, g) @ w.t(),
    "swiglu": lambda g, u, w: (F.silu(g) * u) @ w.t(),
    "bmm_int8": lambda x, w, s: torch.bmm(x, (w.to(BF16) * s).transpose(1, 2)),
}

ROWS = ([("int8", m) for m in (1, 16, 64, 256, 4096)] +
        [("int4_g128", m) for m in (1, 16, 64, 256, 4096)] +
        [("fp8", m) for m in (1, 16, 4096)] + [("int8_cast", 16)] +
        [("int8_silu_residual", 4096)] + [("gather", m) for m in (16, 4096)] +
        [("rms_norm", m) for m in (16, 4096)] + [("swiglu", m) for m in (16, 4096)] +
        [("fp8_fp8", m) for m in (16, 4096)] +
        [(n, 4096) for n in ("plain", "relu", "sigmoid", "gelu_residual")] +
        [("plain_8192", 8192), ("bmm_int8", 512)])


# What a row should reach: microseconds, or times the bare product.
BARS_US = {("int8", 1): 17, ("int8", 16): 17, ("int8", 64): 20, ("int8", 256): 48,
           ("int4_g128", 1): 11, ("int4_g128", 16): 14, ("int4_g128", 64): 18,
           ("int4_g128", 256): 48, ("fp8", 1): 17, ("fp8", 16): 17, ("int8_cast", 16): 17,
           ("gather", 16): 33, ("rms_norm", 16): 32, ("swiglu", 16): 33, ("fp8_fp8", 16): 17,
           ("bmm_int8", 512): 15}
BARS_MM = {("int8", 4096): 1.10, ("int4_g128", 4096): 1.10, ("fp8", 4096): 1.10,
           ("int8_silu_residual", 4096): 1.06, ("gather", 4096): 1.03, ("rms_norm", 4096): 1.03,
           ("swiglu", 4096): 1.06, ("fp8_fp8", 4096): 1.03, ("plain", 4096): 1.00,
           ("relu", 4096): 1.02, ("sigmoid", 4096): 1.05, ("gelu_residual", 4096): 1.03,
           ("plain_8192", 8192): 1.00}


def random_tensor(dtype, shape, first):
    _, bits, held = DTYPES[dtype]
    if dtype in ("i32", "i64"):
        return torch.randint(0, first, shape, device="cuda", dtype=held)
    if bits == 4:
        return torch.randint(0, 256, (math.prod(shape) // 2,), device="cuda", dtype=torch.uint8)
    if dtype in ("i8", "u8"):
        info = torch.iinfo(held)
        return torch.randint(info.min, info.max + 1, shape, device="cuda", dtype=held)
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(held)


def make_inputs(params):
    return [random_tensor(d, s, params[0][2][0]) for _, d, s in params]


def product_shape(params):
    """N and K of the product: K is x's last dim, N the other dim of the weights."""
    k = params[0][2][-1]
    w = max((s for _, _, s in params[1:] if len(s) == 2 and k in s), key=lambda s: s[0] * s[1])
    return (w[0] if w[1] == k else w[1]), k


# ---- times -------------------------------------------------------------------------------------


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors if torch.is_tensor(t))


def n_sets(nbytes):
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return int(min(24, max(2, math.ceil(4 * l2 / max(nbytes, 1)))))


def capture(run, sets):
    """A CUDA graph of one run for each set, at least 20 runs."""
    times = max(1, math.ceil(20 / len(sets)))
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for a in sets[:2]:
            run(a)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(times):
            for a in sets:
                run(a)
    return g, times * len(sets)


def replay(side, most, seconds=0.25):
    """Median of replays: at most so many, at least three, in about so many seconds."""
    g, runs = side
    g.replay()
    torch.cuda.synchronize()
    times, start = [], time.time()
    while len(times) < 3 or (len(times) < most and time.time() - start < seconds):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        g.replay()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1000 / runs)
    return sorted(times)[len(times) // 2]


def compare(got, want):
    got, want = got.float(), want.float()
    if not torch.isfinite(got).all():
        return float("inf")
    return float((got - want).norm() / want.norm())


def measure(proem, name, m, args):
    dims = {"M": m} if re.search(r"\bM\b", open(
        os.path.join(ROOT, "bench", "graphs", name + ".proem")).read()) else {}
    program = Program(proem, name, dims)
    row = {"row": name, "M": m, "kernels": program.kernels, "compile_s": program.compile_s}
    first = make_inputs(program.params)
    prepared = program.prepare(first)
    program.run(prepared)
    proem.check(proem.lib.proem_program_check(program.x), program.x)
    fn = TORCH.get(name)
    if fn is not None:
        row["error"] = compare(prepared[2][0], fn(*first))
    count = n_sets(bytes_of(first) + bytes_of(prepared[2]))
    sets = [prepared] + [program.prepare(make_inputs(program.params)) for _ in range(count - 1)]
    sides = {"proem": capture(program.run, sets)}
    keep = [sets]
    if args.unfused:
        unfused = Program(proem, name, dims, FUSE_NEVER)
        keep.append([unfused.prepare(s[3][2]) for s in sets])
        sides["unfused"] = capture(unfused.run, keep[-1])
    if "mm" in args.peers and name == "fp8_fp8":
        sides["mm"] = capture(scaled_mm, sets)
    elif "mm" in args.peers and name != "bmm_int8":
        n, k = product_shape(program.params)
        mm = [(torch.randn(m, k, device="cuda").to(BF16), torch.randn(n, k, device="cuda").to(BF16))
              for _ in range(n_sets(2 * (m * k + n * k + m * n)))]
        keep.append(mm)
        sides["mm"] = capture(lambda a: a[0] @ a[1].t(), mm)
    if fn is not None and "eager" in args.peers:
        sides["eager"] = capture(lambda s: fn(*s[3][2]), sets)
    if fn is not None and "inductor" in args.peers:
        torch._dynamo.reset()
        tuned = torch.compile(fn, fullgraph=True, dynamic=False, options={
            "max_autotune": True, "prologue_fusion": True, "epilogue_fusion": True})
        sides["inductor"] = capture(lambda s: tuned(*s[3][2]), sets)
    times = {k: [] for k in sides}
    for _ in range(args.rounds):
        for k, side in sides.items():
            times[k].append(replay(side, 9))
    for k, t in times.items():
        t.sort()
        row[k] = t[len(t) // 2]
        row[k + "_spread"] = (t[-1] - t[0]) / t[len(t) // 2]
    del sides, sets, keep
    program.close()
    if args.unfused:
        unfused.close()
    return row


def scaled_mm(s):
    """PyTorch's product of two fp8 matrices with scales for rows and columns."""
    x, sx, w, sw = s[3][2]
    return torch._scaled_mm(x, w.t(), scale_a=sx, scale_b=sw[None, :], out_dtype=BF16)


def bar_of(row):
    """The bar in words, and whether the row meets it (None: nobody knows)."""
    key = (row["row"], row["M"])
    if key in BARS_US:
        return f"<= {BARS_US[key]} us", row["proem"] <= BARS_US[key]
    if key in BARS_MM:
        ratio = row["proem"] / row["mm"] if "mm" in row else None
        return f"<= {BARS_MM[key]:.2f} x bare", ratio and ratio <= BARS_MM[key]
    return "", None


def write_markdown(path, rows):
    peers = [k for k in ("unfused", "mm", "eager", "inductor") if any(k in r for r in rows)]
    head = ["row", "M", "proem"] + ["bare product" if k == "mm" else k for k in peers]
    lines = [f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}", "",
             "Microseconds: median over rounds (spread over rounds). bench/README.md says how.", "",
             "| " + " | ".join(head + ["/ bare", "bar"]) + " |",
             "|" + "---|" * (len(head) + 2)]
    missed = []
    for r in rows:
        if "failed" in r:
            lines.append(f"| {r['row']} | {r['M']} | failed: {r['failed'][:80]} |" +
                         " |" * (len(peers) + 2))
            missed.append(r)
            continue
        cells = [r["row"], str(r["M"])]
        for k in ["proem"] + peers:
            cells.append(f"{r[k]:.1f} ({r[k + '_spread'] * 100:.0f} %)" if k in r else "")
        bar, met = bar_of(r)
        cells += [f"{r['proem'] / r['mm']:.3f}" if "mm" in r else "", bar]
        lines.append("| " + " | ".join(cells) + " |")
        if met is False:
            missed.append(r)
    lines += ["", "Short of their bars: " + (", ".join(
        f"{r['row']} M={r['M']}" for r in missed) or "none") + "."]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def show(row):
    cells = [f"{row['row']:20s} M={row['M']:<5d}"]
    for k in ("proem", "unfused", "mm", "eager", "inductor"):
        if k in row:
            cells.append(f"{k} {row[k]:8.2f} us ({row[k + '_spread'] * 100:.0f}%)")
    if "mm" in row:
        cells.append(f"x{row['proem'] / row['mm']:.3f}")
    cells.append(f"{row['kernels']} kernels, {row['compile_s']:.2f} s")
    if "error" in row:
        cells.append(f"error {row['error']:.1e}")
    if bar_of(row)[1] is False:
        cells.append("short of " + bar_of(row)[0])
    print("  ".join(cells), flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--lib", required=True, help="libproem.so")
    a.add_argument("--rows", default="", help="names, or NAME:M, separated by commas")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--peers", default="mm", type=lambda s: s.split(","))
    a.add_argument("--unfused", action="store_true")
    a.add_argument("--seconds", type=float, default=1e9, help="start no row after so long")
    a.add_argument("--cache", help="folder of compiled kernels; none: each run compiles")
    a.add_argument("--json", help="append one object a row")
    a.add_argument("--markdown", help="write a table")
    args = a.parse_args()
    wanted = [w for w in args.rows.split(",") if w]
    torch.manual_seed(0)
    proem = Proem(os.path.abspath(args.lib), args.cache)
    start, rows = time.time(), []
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    for name, m in ROWS:
        if wanted and name not in wanted and f"{name}:{m}" not in wanted:
            continue
        if time.time() - start > args.seconds:
            print("left out for lack of time:", name, m)
            continue
        try:
            row = measure(proem, name, m, args)
            show(row)
        except Exception as e:  # a row that fails must not hide the others
            row = {"row": name, "M": m, "failed": str(e)[:300]}
            print(f"{name:20s} M={m:<5d} FAILED: {str(e)[:300]}", flush=True)
        rows.append(row)
        torch.cuda.empty_cache()
        if args.json:
            with open(args.json, "a") as f:
                f.write(json.dumps(row) + "\n")
    if args.markdown:
        write_markdown(args.markdown, rows)
    return any("failed" in r for r in rows)


if __name__ == "__main__":
    sys.exit(main())
