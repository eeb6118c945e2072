#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the demo prints, from the results that run.sh left in DIR.

report.py DIR plan|check|times
"""

import json
import statistics
import sys
from pathlib import Path

DIR = Path(sys.argv[1])


def load(name):
    return json.loads((DIR / f"{name}.json").read_text())


def size(path):
    return (DIR / path).stat().st_size / 1e6


def what_is_fused(kernel):
    loads = [v for side in kernel["prologue"].values() for v in side]
    parts = ["loads: " + " ".join(loads)] if loads else []
    if kernel["epilogue"]:
        parts.append("stores: " + " ".join(kernel["epilogue"]))
    return "; ".join(parts)


def plan():
    p = load("plan")
    dims = ", ".join(f"{k} = {v}" for k, v in p["dims"].items())
    print(f"One encoder layer of all-MiniLM-L6-v2, {dims}, real sentences")
    print(f"weights: int8 (attention) and 4 bits in groups of 32 (feed-forward): "
          f"{size('minilm.safetensors'):.1f} MB, in f32 {size('original.safetensors'):.1f} MB\n")
    moved = p["bytes"]
    print("$ proem explain minilm.proem     # and what runs in kernels' loads and stores")
    for k in p["kernels"]:
        kind, name = k["name"].split("_", 1)[1].split("_", 1)
        traffic = (k["reads"] + k["writes"]) / 1e6
        print(f"  {k['id']:2} {kind:9} {name:9} {traffic:5.2f} MB  {what_is_fused(k)}".rstrip())
    print(f"  {len(p['kernels'])} kernels move {moved['fused'] / 1e6:.1f} MB; "
          f"a kernel an operator would move {moved['unfused'] / 1e6:.1f} MB\n")


def check():
    c = load("check")
    print("$ proem run minilm.proem --check   # against the interpreter, operator by operator")
    for o in c["outputs"]:
        shape = ", ".join(map(str, o["shape"]))
        print(f"  {o['name']}: {o['dtype']}[{shape}]  {o['checked']} values checked, "
              f"max_err {o['max_err']:.2g}, bound_ratio {o['bound_ratio']:.2f}: "
              f"{'ok' if o['ok'] else 'FAILED'}")
    print()


def times():
    b, cold = load("bench"), load("cold")
    warm = statistics.median(load(f"warm{i}")["ready_ms"] for i in range(1, 6))
    blas_us, error = map(float, (DIR / "openblas.txt").read_text().split())
    fused = b["median_us"]
    threads = b["threads"]
    title = f"median time of a run, {threads} thread{'s' * (threads != 1)}"
    print(f"{title:<46}{'ms':>8}    fused is")
    rows = [
        (f"proem, fused ({b['kernels']} kernels)", fused),
        (f"proem, --fuse never ({b['unfused_kernels']} kernels)", b["unfused_us"]),
        ("f32 weights, OpenBLAS, operator by operator", blas_us),
    ]
    for name, us in rows:
        faster = "" if us is fused else f"    {us / fused:6.2f} times as fast"
        print(f"  {name:<44}{us / 1e3:8.2f}{faster}")
    print("from the command's start to the first kernel")
    compiler = f"nothing cached (C compiler: {cold['passes_ms']['compile']:.0f} ms)"
    print(f"  {compiler:<44}{cold['ready_ms']:8.0f}")
    print(f"  {'kernels in the cache':<44}{warm:8.1f}")
    print(f"distance from the f32 model (what small weights cost): {100 * error:.1f} %")


{"plan": plan, "check": check, "times": times}[sys.argv[2]]()
