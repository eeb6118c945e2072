#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matmul_wgmma.cu alone, with the hooks of wgmma_hooks.cu.

wgmma.py build DIR [NAME..]   every variant to DIR/NAME.cubin with nvcc (no GPU needed); fails on spills
                              and on wgmma that the compiler serialises
wgmma.py nvrtc DIR [NAME..]   compile times and messages with NVRTC (no GPU needed)
wgmma.py check DIR [NAME..]   on a GPU, against float64: random numbers, whole numbers (bits equal), odd
                              sizes, NaN in all memory around the operands and in the outputs
wgmma.py time DIR [NAME..]    on a GPU, next to cuBLAS in interleaved rounds
"""
import ctypes
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BF16, F16, E4M3, E5M2, F32, I8, U8 = range(1, 8)
TMA, COPY, VALUE = 1, 2, 3
PLAIN, RELU, AFFINE, GATHER, CONCAT, ACROSS, SCALED_I8, SCALED_I4, SCALED_FP8, GELU, SILU = range(11)

BASE = dict(MM_ACC_S="float", MM_OB_=2, MM_NB=1, MM_A_DTYPE=BF16, MM_B0_DTYPE=BF16, MM_A_AXIS=1, MM_B0_AXIS=1,
            MM_A_FEED=TMA, MM_B0_FEED=TMA, MM_A_PLAIN=1, MM_B0_PLAIN=1, MM_A_GROUP=0, MM_B0_GROUP=0, MM_A_LEAVES=1,
            MM_B0_LEAVES=1, MM_A_LEAF0_BITS=16, MM_B0_LEAF0_BITS=16, MM_SWAP=0, MM_SPREAD=0, MM_REGS=0, MM_ROWS=128, MM_COLS=256,
            MM_STAGES=4, MM_CONSUMERS=2, MM_CLUSTER=1, MM_RASTER=8, MM_PRODUCER_REGS=40,
            MM_CONSUMER_REGS=232, HOOK_A=PLAIN, HOOK_B=PLAIN, HOOK_C=PLAIN, ALIGNED=0)


def cfg(*parts, **kw):
    d = dict(BASE)
    for p in parts:
        d.update(p)
    d.update(kw)
    return d


C2 = dict(MM_CLUSTER=2)
BATCH = dict(MM_INTERLEAVE=0)
SPREAD = dict(MM_SPREAD=1)
TURNS = dict(MM_TURNS=1, MM_ROWS=64, MM_STAGES=5)
VAL_REGS = dict(MM_PRODUCER_REGS=136, MM_CONSUMER_REGS=184)
A_REGS = dict(MM_REGS=1, MM_A_PLAIN=0)
W8 = dict(MM_REGS=1, MM_SWAP=1, HOOK_B=SCALED_I8, MM_B0_PLAIN=0, MM_B0_LEAF0_BITS=8, MM_STAGES=4)
W4 = dict(W8, HOOK_B=SCALED_I4, MM_B0_LEAF0_BITS=4, MM_B0_GROUP=128)
WF8 = dict(W8, HOOK_B=SCALED_FP8)
TWO_B = dict(MM_NB=2, MM_COLS=128, MM_B1_DTYPE=BF16, MM_B1_AXIS=1, MM_B1_FEED=TMA, MM_B1_PLAIN=1, MM_B1_LEAVES=1, MM_B1_LEAF0_BITS=16)
A_SILU = dict(MM_REGS=1, MM_A_PLAIN=0, MM_A_LEAVES=2, MM_A_LEAF1_BITS=16, HOOK_A=SILU, MM_STAGES=3)
A_VALUE = dict(VAL_REGS, MM_A_FEED=VALUE, MM_A_PLAIN=0, MM_A_LEAVES=0)
B_VALUE = dict(VAL_REGS, MM_B0_FEED=VALUE, MM_B0_PLAIN=0, MM_B0_LEAVES=0)
A_COPY = dict(MM_A_FEED=COPY, MM_PRODUCER_REGS=88, MM_CONSUMER_REGS=208)
FP8 = dict(MM_OB_=1, MM_A_DTYPE=E4M3, MM_B0_DTYPE=E4M3, MM_COLS=128, MM_STAGES=5, MM_A_LEAF0_BITS=8, MM_B0_LEAF0_BITS=8)
OUT = dict(HOOK_C=32)
SMALL = [(1, 384, 512, 512), (1, 200, 328, 200), (3, 256, 264, 128), (1, 1000, 520, 1096), (1, 40, 16, 64)]
OF_32 = [(1, 384, 512, 512), (1, 200, 352, 200), (1, 1000, 544, 1096), (1, 40, 32, 64)]
ODD = [(1, 131, 77, 67), (2, 300, 257, 129), (1, 129, 259, 64)]
CHECKS = {
    "plain": (cfg(OUT), SMALL),
    "plain_c2": (cfg(OUT, C2), SMALL),
    "plain_t": (cfg(OUT, TURNS), SMALL),
    "spread": (cfg(OUT, SPREAD), OF_32),
    "spread_t": (cfg(OUT, SPREAD, TURNS), OF_32),
    "spread_t_c2": (cfg(OUT, SPREAD, TURNS, C2), OF_32),
    "spread_two": (cfg(OUT, SPREAD, TWO_B), OF_32),
    "spread_fp8": (cfg(OUT, SPREAD, FP8), OF_32),
    "spread_relu": (cfg(OUT, SPREAD, A_REGS, HOOK_A=RELU), OF_32),
    "spread_gelu_t": (cfg(SPREAD, TURNS, HOOK_C=GELU), OF_32),
    "gelu_swap": (cfg(HOOK_C=GELU, MM_SWAP=1), SMALL),
    "plain_t_c2": (cfg(OUT, TURNS, C2, MM_COLS=192), SMALL),
    "plain_t128_c2": (cfg(OUT, TURNS, C2, MM_ROWS=128, MM_COLS=128, MM_STAGES=6), SMALL),
    "rs_t_c1": (cfg(OUT, TURNS, MM_REGS=1), SMALL),
    "i8w_t_c2": (cfg(OUT, W8, TURNS, C2, MM_COLS=192), SMALL),
    "i4w_t_c1": (cfg(OUT, W4, TURNS), SMALL[:1] + [(1, 200, 328, 256), (2, 520, 200, 1152)]),
    "gelu_t_c2": (cfg(TURNS, C2, HOOK_C=GELU), SMALL),
    "concat_copy": (cfg(OUT, A_COPY, HOOK_A=CONCAT, MM_A_LEAF0_EACH=1), SMALL),
    "concat_copy_rs": (cfg(OUT, A_COPY, HOOK_A=CONCAT, MM_A_LEAF0_EACH=1, MM_REGS=1), SMALL),
    "plain_r256": (cfg(OUT, MM_ROWS=256, MM_COLS=128), SMALL),
    "plain_r64": (cfg(OUT, MM_ROWS=64, MM_COLS=256, MM_CONSUMERS=1, MM_STAGES=5), SMALL),
    "plain_n192": (cfg(OUT, MM_COLS=192), SMALL),
    "plain_n64": (cfg(OUT, MM_COLS=64, MM_STAGES=6), SMALL),
    "plain_swap": (cfg(OUT, MM_SWAP=1, MM_STAGES=4), SMALL),
    "f16": (cfg(OUT, MM_A_DTYPE=F16, MM_B0_DTYPE=F16), SMALL),
    "tf32": (cfg(OUT, MM_OB_=4, MM_A_DTYPE=F32, MM_B0_DTYPE=F32, MM_A_LEAF0_BITS=32, MM_B0_LEAF0_BITS=32), SMALL),
    "fp8": (cfg(OUT, FP8), SMALL),
    "fp8_r256": (cfg(OUT, FP8, MM_ROWS=256, MM_STAGES=4), SMALL),
    "i8": (cfg(OUT, FP8, MM_ACC_S="int", MM_A_DTYPE=I8, MM_B0_DTYPE=I8), SMALL),
    "across_b": (cfg(OUT, MM_B0_AXIS=0, HOOK_B=ACROSS), SMALL),
    "across_a": (cfg(OUT, MM_A_AXIS=0, HOOK_A=ACROSS), SMALL),
    "across_ab_c2": (cfg(OUT, C2, MM_A_AXIS=0, HOOK_A=ACROSS, MM_B0_AXIS=0, HOOK_B=ACROSS), SMALL),
    "across_b_value": (cfg(OUT, B_VALUE, MM_B0_AXIS=0, HOOK_B=ACROSS), SMALL + ODD),
    "across_a_value": (cfg(OUT, A_VALUE, MM_A_AXIS=0, HOOK_A=ACROSS), SMALL + ODD),
    "gelu": (cfg(HOOK_C=GELU), SMALL),
    "i8w": (cfg(OUT, W8), SMALL),
    "i8w_c2": (cfg(OUT, W8, C2), SMALL),
    "i8w_n64": (cfg(OUT, W8, MM_COLS=64), SMALL),
    "i4w": (cfg(OUT, W4), SMALL[:1] + [(1, 200, 328, 256), (2, 520, 200, 1152)]),
    "i4w_c2": (cfg(OUT, W4, C2), SMALL[:1] + [(1, 200, 328, 256), (2, 520, 200, 1152)]),
    "fp8w": (cfg(OUT, WF8), SMALL),
    "plain_rs": (cfg(OUT, MM_REGS=1), SMALL),
    "plain_rs_swap_c2": (cfg(OUT, C2, MM_REGS=1, MM_SWAP=1), SMALL),
    "relu": (cfg(OUT, A_REGS, HOOK_A=RELU), SMALL),
    "relu_copy": (cfg(OUT, A_REGS, A_COPY, HOOK_A=RELU, MM_A_PLAIN=0), SMALL),
    "affine_c2": (cfg(OUT, A_REGS, C2, HOOK_A=AFFINE), SMALL),
    "silu": (cfg(A_SILU), SMALL),
    "two": (cfg(OUT, TWO_B), SMALL),
    "two_c2": (cfg(OUT, C2, TWO_B), SMALL),
    "two_swap_rs": (cfg(OUT, TWO_B, MM_SWAP=1, MM_REGS=1, MM_STAGES=3, MM_COLS=64), SMALL),
    "two_t": (cfg(OUT, TWO_B, TURNS, MM_STAGES=4, MM_PRODUCER_REGS=24, MM_CONSUMER_REGS=240), SMALL),
    "empty": (cfg(OUT), [(2, 100, 72, 0)]),
    "gather": (cfg(OUT, A_COPY, HOOK_A=GATHER), SMALL),
    "value_a": (cfg(OUT, A_VALUE, HOOK_A=AFFINE), SMALL + ODD),
    "value_ab": (cfg(OUT, A_VALUE, B_VALUE, HOOK_A=AFFINE, HOOK_B=SCALED_I8), SMALL + ODD),
    "value_ab_i4": (cfg(OUT, A_VALUE, B_VALUE, HOOK_A=AFFINE, HOOK_B=SCALED_I4, MM_B0_GROUP=128), SMALL[:1] + [(2, 200, 330, 384)]),
    "value_a_i8w": (cfg(OUT, W8, A_VALUE, HOOK_A=AFFINE, MM_COLS=192, MM_PRODUCER_REGS=88, MM_CONSUMER_REGS=208), SMALL),
    "concat": (cfg(OUT, A_VALUE, HOOK_A=CONCAT), SMALL),
}
S4, S8, SW, SD = (1, 4096, 4096, 4096), (1, 8192, 8192, 8192), (1, 4096, 14336, 4096), (1, 4096, 4096, 14336)
TIMES = {}


def timed(name, shapes, *parts, **kw):
    TIMES[name] = (cfg(*parts, **kw), shapes)


timed("t_c1", [S4, S8, SW])
timed("t_c2", [S4, S8, SW], C2)
timed("t_r256", [S4, S8, SW], MM_ROWS=256, MM_COLS=128)
timed("t_rs_b", [S4, S8, SW], MM_REGS=1, **BATCH)
timed("t_t_c1", [S4, S8, SW], TURNS)
timed("t_t_c2", [S4, S8], TURNS, C2)
timed("t_s_c1", [S4, S8, SW], SPREAD)
timed("t_s_t_c1", [S4, S8, SW], SPREAD, TURNS)
timed("t_gelu_s_c1", [S4], SPREAD, HOOK_C=GELU, ALIGNED=1)
timed("t_gelu_s_t_c1", [S4], SPREAD, TURNS, HOOK_C=GELU, ALIGNED=1)
timed("t_kn_c1", [S4], MM_B0_AXIS=0, HOOK_B=ACROSS)
timed("t_al_c1", [S4], ALIGNED=1)
timed("t_gelu_c1", [S4], HOOK_C=GELU, ALIGNED=1)
timed("t_gelu_t_c1", [S4], TURNS, HOOK_C=GELU, ALIGNED=1)
timed("t_relu_b", [S4], A_REGS, HOOK_A=RELU, **BATCH)
timed("t_relu_i", [S4], A_REGS, HOOK_A=RELU)
timed("t_affine_b", [S4], A_REGS, HOOK_A=AFFINE, **BATCH)
timed("t_affine_i", [S4], A_REGS, HOOK_A=AFFINE)
timed("t_affine_b_c2", [S4], A_REGS, C2, HOOK_A=AFFINE, **BATCH)
timed("t_gather", [S4], A_COPY, HOOK_A=GATHER)
timed("t_concat_v", [S4], A_VALUE, HOOK_A=CONCAT, ALIGNED=1)
timed("t_concat", [S4], A_COPY, HOOK_A=CONCAT, ALIGNED=1, MM_A_LEAF0_EACH=1)
timed("t_swap_c1", [S4, SW], MM_SWAP=1)
timed("t_swap_t_c1", [SW], TURNS, MM_SWAP=1)
timed("t_i8w_b", [SW], W8, **BATCH)
timed("t_i8w_i", [SW], W8)
timed("t_i8w_b_s5", [SW], W8, MM_STAGES=5, **BATCH)
timed("t_i8w_i_s5", [SW], W8, MM_STAGES=5)
timed("t_i8w_t_b", [SW], W8, TURNS, **BATCH)
timed("t_i8w_t_i", [SW], W8, TURNS)
timed("t_i4w_b", [SW], W4, **BATCH)
timed("t_i4w_i", [SW], W4)
timed("t_fp8w_b", [SW], WF8, **BATCH)
timed("t_fp8w_i", [SW], WF8)
timed("t_fp8_r256", [SW], FP8, MM_ROWS=256, MM_STAGES=4)
timed("t_fp8_n192", [SW], FP8, MM_COLS=192, MM_STAGES=5)
timed("t_silu_b", [SD], A_SILU, **BATCH)
timed("t_silu_i", [SD], A_SILU)


def variants(names):
    all_ = dict(CHECKS)
    all_.update(TIMES)
    return {n: all_[n] for n in all_ if not names or n in names}


def build(folder, names):
    os.makedirs(folder, exist_ok=True)
    bad, running = 0, []

    def finish():
        nonlocal bad
        name, p, t0 = running.pop(0)
        text = p.communicate()[0]
        regs = re.search(r"Used (\d+) registers", text)
        spill = re.search(r"(\d+) bytes spill stores", text)
        serial = re.findall(r"C75\d\d", text)
        ms = re.search(r"Compile time = ([\d.]+)", text)
        ok = p.returncode == 0 and spill and int(spill.group(1)) == 0 and not serial
        bad += not ok
        print("%-18s %s regs %s spill %s %s ptxas %s ms, %.1f s" %
              (name, "ok  " if ok else "FAIL", regs and regs.group(1), spill and spill.group(1), " ".join(serial),
               ms and ms.group(1), time.time() - t0), flush=True)
        if p.returncode:
            print(text[-3000:])

    for name, (d, _) in variants(names).items():
        cmd = ["nvcc", "-cubin", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", "--fmad=false",
               "-diag-suppress", "177", "-DPK_HANG_LIMIT=2000000", "-o", os.path.join(folder, name + ".cubin"),
               os.path.join(HERE, "wgmma_hooks.cu")] + ["-D%s=%s" % kv for kv in d.items()]
        running.append((name, subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True), time.time()))
        if len(running) >= os.cpu_count():
            finish()
    while running:
        finish()
    print("%d failed" % bad)
    return bad != 0


def text_of(path):
    """A file with its includes in their place, as the generator writes templates."""
    out = []
    for line in open(path):
        m = re.match(r'#include "(.*)"', line)
        out.append(text_of(os.path.join(os.path.dirname(path), m.group(1))) if m else line)
    return "".join(out)


def nvrtc(folder, names):
    lib = None
    for name in ("libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError:
            pass
    if lib is None:
        print("no NVRTC")
        return 1
    text = text_of(os.path.join(HERE, "wgmma_hooks.cu")).encode()
    bad = 0
    for name, (d, _) in variants(names).items():
        p, size = ctypes.c_void_p(), ctypes.c_size_t()
        lib.nvrtcCreateProgram(ctypes.byref(p), text, b"k.cu", 0, None, None)
        options = ["--gpu-architecture=sm_90a", "--fmad=false", "-std=c++17", "--ptxas-options=-v",
                   "-diag-suppress=177"] + ["-D%s=%s" % kv for kv in d.items()]
        t0, c0 = time.time(), time.process_time()
        r = lib.nvrtcCompileProgram(p, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
        t1, c1 = time.time(), time.process_time()
        lib.nvrtcGetProgramLogSize(p, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetProgramLog(p, log)
        log = log.value.decode()
        lib.nvrtcDestroyProgram(ctypes.byref(p))
        bad += r != 0
        print("%-18s %.2f s (processor %.2f) %s" % (name, t1 - t0, c1 - c0,
              " ".join(re.findall(r"\d+ bytes spill stores|C75\d\d", log)) if r == 0 else log[-1500:]), flush=True)
    return bad != 0


# ---- on the GPU --------------------------------------------------------------------------------------


class Args(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_uint64 * 8), ("sym", ctypes.c_int64 * 8), ("scratch", ctypes.c_uint64),
                ("fault", ctypes.c_uint64)]


class Map(ctypes.Structure):
    _fields_ = [("b", ctypes.c_char * 128)]


def aligned_map():
    raw = (ctypes.c_char * 192)()
    at = (ctypes.addressof(raw) + 63) & ~63
    m = Map.from_address(at)
    m.keep = raw
    return m


cuda = None


def cu(call, *args):
    r = getattr(cuda, call)(*args)
    if r:
        s = ctypes.c_char_p()
        cuda.cuGetErrorName(r, ctypes.byref(s))
        raise RuntimeError("%s: %s" % (call, s.value))


def encode(tensor_ptr, size, dims, strides, box):
    """size: bytes of an element; strides in bytes of dims 1.."""
    m = aligned_map()
    dt = {1: 0, 2: 9, 4: 7}[size]
    line = box[0] * size
    swizzle = {32: 1, 64: 2, 128: 3}[line]
    n = len(dims)
    cu("cuTensorMapEncodeTiled", ctypes.byref(m), dt, n, ctypes.c_void_p(tensor_ptr), (ctypes.c_uint64 * n)(*dims),
       (ctypes.c_uint64 * (n - 1))(*strides), (ctypes.c_uint32 * n)(*box), (ctypes.c_uint32 * n)(*([1] * n)), 0, swizzle,
       int(os.environ.get("L2PROMO", "2")), 0)
    return m


class Kernel:
    def __init__(self, path):
        data = open(path, "rb").read()
        mod = ctypes.c_void_p()
        cu("cuModuleLoadData", ctypes.byref(mod), data)
        self.fn = ctypes.c_void_p()
        cu("cuModuleGetFunction", ctypes.byref(self.fn), mod, b"k0_main")
        self.shared, self.threads = self.const(mod, b"k0_shared"), self.const(mod, b"k0_threads")
        cu("cuFuncSetAttribute", self.fn, 8, self.shared)

    def const(self, mod, name):
        p, n, v = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_int()
        cu("cuModuleGetGlobal_v2", ctypes.byref(p), ctypes.byref(n), mod, name)
        cu("cuMemcpyDtoH_v2", ctypes.byref(v), p, ctypes.c_size_t(4))
        return v.value

    def launch(self, blocks, args, maps, stream):
        params = [ctypes.addressof(args)] + [ctypes.addressof(m) for m in maps]
        arr = (ctypes.c_void_p * len(params))(*params)
        cu("cuLaunchKernel", self.fn, blocks, 1, 1, self.threads, 1, 1, self.shared, ctypes.c_void_p(stream), arr, None)


class Problem:
    """Operands of variant d at a shape, as the hooks want them, and the right result."""

    def __init__(self, torch, d, shape, whole, pad=True):
        Z, M, N, K = shape
        self.torch, self.d, self.shape = torch, d, shape
        dev = "cuda"
        ob = d["MM_OB_"]
        dt = {BF16: torch.bfloat16, F16: torch.float16, F32: torch.float32, E4M3: torch.float8_e4m3fn,
              I8: torch.int8}[d["MM_A_DTYPE"]]
        step = 16 // ob
        odd = d["MM_B0_FEED"] == VALUE

        def numbers(*s):
            if whole:
                return torch.randint(-4, 5, s, device=dev).float()
            return torch.randn(*s, device=dev)

        def stored(x, across, value):
            """[Z, rows, K] in memory with NaN around it: tensor, leading dimension, rows a batch."""
            if across:
                x = x.transpose(1, 2).contiguous()
            z, r, c = x.shape
            ld = c
            if pad:
                ld = (c + step - 1) // step * step + step if not value else c + 3
            full = torch.full((z * r * ld + 4096,), float("nan") if dt.is_floating_point else 77, device=dev)
            full[:z * r * ld].view(z, r, ld)[:, :, :c] = x
            return full.to(dt), ld

        a = numbers(Z, M, K)
        if d["MM_A_DTYPE"] == I8:
            a = torch.randint(-128, 128, (Z, M, K), device=dev).float()
        a = a.to(dt).float()
        hook = d["HOOK_A"]
        self.buf = [None] * 8
        sym = [Z, M, N, K, 0, M, 0, 0]
        ae = a
        if hook == CONCAT:
            k1 = K // 2 // 8 * 8
            first = a[:, :, :k1].contiguous()
            self.buf[0] = torch.cat([first.to(dt).flatten(), torch.full((64,), float("nan"), device=dev, dtype=dt)])
            self.buf[6] = torch.cat([a[:, :, k1:].contiguous().to(dt).flatten(), torch.full((64,), float("nan"), device=dev, dtype=dt)])
            sym[4], sym[7] = k1, k1
        else:
            self.buf[0], sym[4] = stored(a, hook == ACROSS, d["MM_A_FEED"] == VALUE)
            if hook == ACROSS:
                sym[5] = K
        if hook == GATHER:
            idx = torch.randint(0, M, (M,), device=dev, dtype=torch.int32)
            self.buf[5] = idx
            ae = a[:, idx.long()]
        elif hook == RELU:
            ae = a.clamp(min=0)
        elif hook == SILU:
            u = numbers(Z, M, K).to(dt).float()
            self.buf[6], _ = stored(u, False, False)
            ae = (torch.nn.functional.silu(a) * u).to(dt).float()
        elif hook == AFFINE:
            ae = (a * 1.5 + 0.25).to(dt).float()
        hb = d["HOOK_B"]
        if hb in (PLAIN, ACROSS):
            b = numbers(Z, N, K)
            if d["MM_B0_DTYPE"] == I8:
                b = torch.randint(-128, 128, (Z, N, K), device=dev).float()
            be = b = b.to(dt).float()
            self.buf[1], sym[6] = stored(b, hb == ACROSS, d["MM_B0_FEED"] == VALUE)
            if d["MM_NB"] > 1:
                b1 = numbers(Z, N, K).to(dt).float()
                self.buf[7], _ = stored(b1, False, False)
                self.be1 = b1
        else:
            tail = torch.full((4096,), 0x7f, device=dev, dtype=torch.uint8)
            sym[6] = K
            if hb == SCALED_I4:
                q = torch.randint(0, 16, (Z, N, K), device=dev)
                w = (q[:, :, 0::2] | q[:, :, 1::2] << 4).to(torch.uint8)
                zero = torch.randint(0, 16, (Z, N, K // 128), device=dev)
                s = (2.0 ** torch.randint(-2, 2, (Z, N, K // 128), device=dev)) if whole else torch.rand(Z, N, K // 128, device=dev) + 0.5
                s = s.to(torch.bfloat16)
                be = ((q - zero.repeat_interleave(128, 2)).float() * s.float().repeat_interleave(128, 2)).to(torch.bfloat16).float()
                self.buf[3], self.buf[4] = s.contiguous(), torch.cat([zero.to(torch.uint8).flatten(), tail])
            else:
                s = (2.0 ** torch.randint(-2, 2, (N,), device=dev)) if whole else torch.rand(N, device=dev) + 0.5
                s = s.to(torch.bfloat16)
                if hb == SCALED_I8:
                    q = torch.randint(-128, 128, (Z, N, K), device=dev)
                    w, qf = q.to(torch.int8).view(torch.uint8), q.float()
                else:
                    q = numbers(Z, N, K).to(torch.float8_e4m3fn)
                    w, qf = q.view(torch.uint8), q.float()
                if pad and not odd:
                    sym[6] = (K + 15) // 16 * 16 + 16
                    w2 = torch.full((Z, N, sym[6]), 0x7f, device=dev, dtype=torch.uint8)
                    w2[:, :, :K] = w
                    w = w2
                be = (qf * s.float()[None, :, None]).to(torch.bfloat16).float()
                self.buf[3] = s
            self.buf[1] = torch.cat([w.flatten(), tail])
        self.ae, self.be = ae, be
        out32 = d["HOOK_C"] == 32
        cdt = (torch.int32 if d["MM_ACC_S"] == "int" else torch.float32) if out32 else torch.bfloat16
        self.out = torch.empty(Z * M * N + 64, device=dev, dtype=cdt)
        self.buf[2] = self.out
        if d["HOOK_C"] == GELU:
            self.buf[3] = torch.randn(N + 8, device=dev).to(torch.bfloat16)
            self.buf[4] = torch.randn(Z * M * N + 8, device=dev).to(torch.bfloat16)
        self.sym = sym
        self.args = Args()
        for i, b in enumerate(self.buf):
            self.args.buf[i] = b.data_ptr() if b is not None else 0
        for i, s in enumerate(sym):
            self.args.sym[i] = s
        self.maps = []
        cl = d["MM_CLUSTER"]
        bk = 128 // ob
        if K == 0:
            m = aligned_map()
            self.maps = [m, m]
            return
        maps = [("A", 0, M, sym[4], sym[5]), ("B0", 1, N, sym[6], N)]
        if d["MM_NB"] > 1:
            maps.append(("B1", 7, N, sym[6], N))
        if hook == SILU:
            maps.insert(1, ("A", 6, M, sym[4], sym[5]))
        for x, buf, rows, ld, per in maps:
            if d["MM_%s_FEED" % x] != TMA:
                continue
            on_rows = (x == "A") != bool(d["MM_SWAP"])
            box_rows = d["MM_ROWS"] if on_rows else d["MM_COLS"] // cl
            p = self.buf[buf].data_ptr()
            if not d["MM_%s_AXIS" % x]:
                self.maps.append(encode(p, ob, [rows, K, Z], [ld * ob, ld * K * ob], [bk, bk, 1]))
                continue
            if d["MM_SPREAD"] and not on_rows:
                self.maps.append(encode(p, ob, [K, 2, 4, 4, rows // 32], [ld * ob * s for s in (1, 8, 2, 32)],
                                        [bk, 2, 4, 4, box_rows // 32]))
                continue
            bits = d["MM_%s_LEAF0_BITS" % x]
            if bits < 8:
                self.maps.append(encode(p, 1, [K * bits // 8, rows, Z], [ld * bits // 8, ld * bits // 8 * per],
                                        [bk * bits // 8, box_rows, 1]))
            else:
                size = bits // 8
                self.maps.append(encode(p, size, [K, rows, Z], [ld * size, ld * size * per], [bk, box_rows, 1]))

    def blocks(self):
        d = self.d
        Z, M, N, K = self.shape
        rows, cols = (N, M) if d["MM_SWAP"] else (M, N)
        cl = d["MM_CLUSTER"]
        n = -(-rows // (d["MM_ROWS"] * cl)) * -(-cols // d["MM_COLS"]) * Z * cl
        return max(cl, min(n, 132 // cl * cl))

    def want(self):
        torch = self.torch
        r = torch.matmul(self.ae.double(), self.be.double().transpose(1, 2))
        if self.d["MM_NB"] > 1:
            r *= torch.matmul(self.ae.double(), self.be1.double().transpose(1, 2))
        if self.d["HOOK_C"] == GELU:
            Z, M, N, K = self.shape
            x = r + self.buf[3][:N].double()
            r = torch.nn.functional.gelu(x, approximate="tanh") + self.buf[4][:Z * M * N].double().view(Z, M, N)
        return r

    def run(self, kernel):
        kernel.launch(self.blocks(), self.args, self.maps, self.torch.cuda.current_stream().cuda_stream)


def compare(torch, p, kernel, whole):
    whole = whole and p.d["HOOK_A"] != SILU
    Z, M, N, K = p.shape
    p.out.fill_(float("nan") if p.out.dtype.is_floating_point else -12345)
    p.run(kernel)
    torch.cuda.synchronize()
    got = p.out[:Z * M * N].view(Z, M, N).double()
    if not (p.out[Z * M * N:].isnan().all() if p.out.dtype.is_floating_point else True):
        return "wrote past the end"
    want = p.want()
    if got.isnan().any():
        return "NaN in %d of %d" % (got.isnan().sum(), got.numel())
    if whole and p.out.dtype != torch.bfloat16:
        n = int((got != want).sum())
        return "" if n == 0 else "%d of %d differ, largest %g" % (n, got.numel(), (got - want).abs().max())
    err = float((got - want).norm() / max(float(want.norm()), 1e-30))
    bound = 4e-3 if p.out.dtype == torch.bfloat16 else 1e-3 if p.d["MM_A_DTYPE"] == F32 else 2e-5
    if p.d["MM_A_DTYPE"] in (E4M3,):
        bound = max(bound, 1e-3)
    return "" if err < bound else "error %.2e" % err


def setup():
    global cuda
    import torch
    cuda = ctypes.CDLL("libcuda.so.1")
    return torch


def check_one(torch, folder, name, d, shapes):
    out = []
    try:
        torch.manual_seed(1)
        k = Kernel(os.path.join(folder, name + ".cubin"))
        for s in shapes:
            for whole in (True, False):
                e = compare(torch, Problem(torch, d, s, whole, pad=not d["ALIGNED"]), k, whole)
                if e:
                    out.append("%s%s: %s" % ("x".join(map(str, s)), " whole" if whole else "", e))
    except Exception as e:
        out.append("%s: %s" % (type(e).__name__, str(e)[:200].replace("\n", " ")))
    return "; ".join(out)


def check(folder, names):
    """In forked processes: a kernel that hangs or faults ends only its own."""
    import select

    import torch  # noqa: F401 - loaded before the forks
    todo = variants(names)
    result, workers = {}, {}
    limit = float(os.environ.get("CHECK_SECONDS", "600"))

    def fork(mine):
        if not mine:
            return
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            torch = setup()
            torch.zeros(1, device="cuda")
            for n in mine:
                d, shapes = todo[n]
                if n in TIMES:
                    shapes = [(1, 520, 800, 512), (1, 300, 288, 384)] if d["MM_SPREAD"] else [(1, 520, 776, 512), (1, 300, 272, 384)]
                e = check_one(torch, folder, n, d, shapes)
                os.write(w, ("%s\t%s\n" % (n, e)).encode())
                if "Error" in e:
                    break
            os._exit(0)
        os.close(w)
        workers[r] = [pid, mine, time.time(), False]

    names, n_workers, start = list(todo), min(8, os.cpu_count()), time.time()
    for i in range(n_workers):
        fork(names[i::n_workers])
    while workers and time.time() - start < limit:
        ready = select.select(list(workers), [], [], 1)[0]
        for r in list(workers):
            pid, mine, last, erred = workers[r]
            dead = False
            if r in ready:
                text = os.read(r, 65536).decode()
                dead = text == ""
                for line in text.splitlines():
                    n, e = line.split("\t", 1)
                    result[n] = e
                    mine.remove(n)
                    if e:
                        print("%-18s %s" % (n, e[:500]), flush=True)
                    erred = "Error" in e
                workers[r][2:] = [time.time(), erred]
            elif time.time() - last > 15:
                os.kill(pid, 9)
                dead = True
            if dead:
                os.close(r)
                os.waitpid(pid, 0)
                del workers[r]
                if mine and not erred:
                    print("%-18s died or does not end" % mine[0], flush=True)
                    result[mine.pop(0)] = "died"
                fork(mine)
    for pid, _, _, _ in workers.values():
        os.kill(pid, 9)
    failed = [n for n in todo if result.get(n, "not run")]
    with open(os.path.join(folder, "passed"), "w") as f:
        f.write("\n".join(n for n in todo if n not in failed))
    print("%d passed, %d failed: %s" % (len(todo) - len(failed), len(failed), " ".join(failed)), flush=True)
    return bool(failed)


def times(folder, names):
    torch = setup()
    torch.manual_seed(2)
    rounds, reps = int(os.environ.get("ROUNDS", "7")), 6
    only = [n for n in names if n in TIMES] or list(TIMES)
    good = os.path.join(folder, "passed")
    if os.path.exists(good):
        good = set(open(good).read().split())
        only = [n for n in only if n in good]
    for shape in (S4, S8, SW, SD):
        todo = {n: TIMES[n] for n in only if shape in TIMES[n][1]}
        if not todo:
            continue
        Z, M, N, K = shape
        sets = 2
        base = [(torch.randn(M, K, device="cuda").to(torch.bfloat16), torch.randn(N, K, device="cuda").to(torch.bfloat16),
                 torch.empty(M, N, device="cuda", dtype=torch.bfloat16)) for _ in range(sets)]
        runs = {"cublas": lambda i: torch.matmul(base[i % sets][0], base[i % sets][1].t(), out=base[i % sets][2])}
        problems = {}
        for n, (d, _) in todo.items():
            def load(n=n, d=d):
                k = Kernel(os.path.join(folder, n + ".cubin"))
                ps = []
                for i in range(sets):
                    p = Problem(torch, d, shape, False, pad=False)
                    if i == 0 and shape != S8:
                        e = compare(torch, p, k, False)
                        if e:
                            print("%-18s WRONG %s" % (n, e), flush=True)
                    p.ae = p.be = None
                    ps.append(p)
                return k, ps
            try:
                k, ps = load()
                problems[n] = ps
                runs[n] = lambda i, k=k, ps=ps: ps[i % sets].run(k)
                runs[n](0)
                torch.cuda.synchronize()
            except RuntimeError as e:
                print("%-18s %s" % (n, str(e)[:200]), flush=True)
                runs.pop(n, None)
                if "CUDA error" in str(e) or "cuLaunch" in str(e) or "illegal" in str(e):
                    raise
        got = {n: [] for n in runs}
        for n in runs:
            for i in range(3):
                runs[n](i)
        def clock(n):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            runs[n](1)
            a.record()
            for i in range(reps):
                runs[n](i)
            b.record()
            b.synchronize()
            return a.elapsed_time(b) * 1000 / reps

        # every variant right behind cuBLAS: the card's clock follows what it did before
        ratio = {n: [] for n in runs}
        for r in range(rounds):
            order = list(runs)
            order = order[r % len(order):] + order[:r % len(order)]
            for n in order:
                base_t, t = clock("cublas"), clock(n)
                got[n].append(t)
                ratio[n].append(t / base_t)
        print("%s, us: median (least, most), x cuBLAS right before: median (least, most)" % "x".join(map(str, shape)))
        for n, t in got.items():
            t, q = sorted(t), sorted(ratio[n])
            print("  %-18s %7.1f (%.1f, %.1f) %.3f (%.3f, %.3f)" %
                  (n, t[rounds // 2], t[0], t[-1], q[rounds // 2], q[0], q[-1]), flush=True)
        problems.clear()
        runs.clear()
        del base
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("build", "nvrtc", "check", "time"):
        sys.exit(__doc__)
    sys.exit({"build": build, "nvrtc": nvrtc, "check": check, "time": times}[sys.argv[1]](sys.argv[2], sys.argv[3:]))
