#!/usr/bin/env python3
"""Random models of com.microsoft's operators as node tests, with what ONNX Runtime computes as the
expected outputs: contrib.py OUT N SEED [OPERATOR]. N models an operator, each in a folder
OUT/OPERATOR-I with model.onnx and test_data_set_0/{input,output}_J.pb; the driver of the node tests
runs them. A model that ONNX Runtime refuses is left out and counted on the last line.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F32, F16 = np.float32, np.float16


class Case:
    """One model: a node, its inputs as graph inputs or initializers, its attributes."""

    def __init__(self, op, random, domain="com.microsoft"):
        self.op, self.r, self.domain = op, random, domain
        self.names, self.given, self.fixed, self.attributes = [], [], [], {}
        self.outputs = ["y"]
        self.compared = None  # so many outputs, from the first on; None: all
        self.near = None  # millionths of the largest element that may be between results

    def normal(self, *shape, dtype=F32, scale=1.0):
        return (self.r.standard_normal(shape) * scale).astype(dtype)

    def pick(self, *values):
        return values[self.r.integers(len(values))]

    def size(self, low, high):
        return int(self.r.integers(low, high + 1))

    def chance(self, p=0.5):
        return bool(self.r.random() < p)

    def add(self, array, fixed=False):
        """The next input; None leaves it out."""
        if array is None:
            self.names.append("")
            return
        name = "i%d" % len(self.names)
        self.names.append(name)
        (self.fixed if fixed else self.given).append((name, np.asarray(array)))

    def model(self):
        names = list(self.names)
        while names and names[-1] == "":
            names.pop()
        node = helper.make_node(self.op, names, self.outputs, domain=self.domain, **self.attributes)
        def info(name, a):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        graph = helper.make_graph(
            [node], "g", [info(n, a) for n, a in self.given],
            [helper.make_empty_tensor_value_info(o) for o in self.outputs if o],
            [numpy_helper.from_array(a, n) for n, a in self.fixed])
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


def activation(c, bias):
    n = c.size(1, 40)
    shape = [c.size(1, 4) for _ in range(c.size(0, 2))] + [n]
    c.add(c.normal(*shape, scale=3))
    if bias == "always" or (bias == "maybe" and c.chance()):
        c.add(c.normal(n), fixed=c.chance())


def quick_gelu(c):
    activation(c, "no")
    if c.chance():
        c.attributes["alpha"] = float(c.r.uniform(0.5, 2.5))


def skip_norm(c, simplified):
    b, s, h = c.size(1, 3), c.size(1, 5), c.size(1, 70)
    t = c.pick(F32, F32, F16)
    c.add(c.normal(b, s, h, dtype=t))
    c.add(c.normal(*c.pick((b, s, h), (1, s, h), (s, h)), dtype=t))
    c.add(c.normal(h, dtype=t), fixed=True)
    if not simplified:
        c.add(c.normal(h, dtype=t) if c.chance() else None, fixed=True)
    c.add(c.normal(h, dtype=t) if c.chance() else None, fixed=True)
    c.attributes["epsilon"] = c.pick(1e-5, 1e-12, 1e-3)
    statistics = ["", ""] if simplified or c.chance() else ["mean", "deviation"]
    if c.chance():
        c.outputs = ["y", *statistics, "sum"]


def root_norm(c):
    c.domain = ""
    dims = [c.size(1, 4) for _ in range(c.size(1, 3))] + [c.size(1, 40)]
    axis = c.size(-len(dims), -1)
    t = c.pick(F32, F32, F16, np.float64)
    c.add(c.normal(*dims, dtype=t))
    c.add(c.normal(*dims[axis:], dtype=t), fixed=True)
    c.attributes.update(axis=axis, epsilon=c.pick(1e-5, 1e-3), stash_type=1)
    if c.chance() and t != np.float64:
        c.outputs = ["y", "root"]


def fused_matmul(c):
    m, k, n = c.size(1, 9), c.size(1, 40), c.size(1, 20)
    batch = [c.size(1, 3) for _ in range(c.size(0, 2))]
    for side, (rows, cols) in (("A", (m, k)), ("B", (k, n))):
        swap, front = c.chance(), bool(batch) and c.chance(0.3)
        dims = batch + ([cols, rows] if swap else [rows, cols])
        if front:  # the row dim of what is multiplied stands first
            dims = [dims[-2]] + batch + [dims[-1]]
        c.add(c.normal(*dims), fixed=side == "B" and c.chance())
        c.attributes["trans" + side] = int(swap)
        c.attributes["transBatch" + side] = int(front)
    c.attributes["alpha"] = c.pick(1.0, 0.125, -1.5)


def integer_matmul(c, dynamic):
    m, k, n = c.size(1, 9), c.size(1, 70), c.size(1, 20)
    batch = [c.size(1, 3)] if c.chance(0.4) else []
    # ONNX Runtime's u8 x i8 kernels saturate pairs on some machines: small weights do not meet that
    kind = c.pick(np.uint8, np.int8)
    low, high = (0, 128) if kind == np.uint8 else (-64, 64)
    columns, zeros = c.chance(), c.chance()
    if dynamic:
        c.add(c.normal(*batch, m, k))
    else:
        c.add(c.r.integers(0, 256, batch + [m, k]).astype(np.uint8))
    c.add(c.r.integers(low, high, (k, n)).astype(kind), fixed=True)
    scale = np.abs(c.normal(*([n] if columns else []), scale=0.01)) + F32(0.001)
    if not dynamic:
        c.add(F32(0.02))
    c.add(scale, fixed=True)
    if not dynamic:
        c.add(np.uint8(c.size(0, 255)) if zeros else None)
    point = c.r.integers(max(low, 0), high, [n] if columns else []).astype(kind)
    c.add(point if zeros else None, fixed=True)
    c.add(c.normal(n) if c.chance() else None, fixed=True)


def matmul_nbits(c):
    bits = c.pick(2, 4, 8)
    block = c.pick(16, 32, 64, 128)
    n, k, m = c.size(1, 24), c.size(1, 200), c.size(1, 5)
    if c.chance(0.3):
        k = block * c.size(1, 3)
    count = -(-k // block)
    t = c.pick(F32, F32, F16)
    # with packed zero points, and with 2 bits, ONNX Runtime takes other blocks than documented
    order = c.chance(0.2) and bits == 4
    if order:
        k = count * block
    c.add(c.normal(*([c.size(1, 3)] if c.chance(0.3) else []), m, k, dtype=t))
    c.add(c.r.integers(0, 256, (n, count, block * bits // 8)).astype(np.uint8), fixed=True)
    c.add(c.normal(n, count, scale=0.1, dtype=t), fixed=True)
    zero = c.pick("none", "float") if order else c.pick("none", "packed", "float")
    row = -(-count * bits // 8)
    if zero == "packed":
        c.add(c.r.integers(0, 256, (n, row)).astype(np.uint8), fixed=True)
    elif zero == "float":
        c.add((c.r.random((n, count)) * 2**bits).astype(t), fixed=True)
    else:
        c.add(None)
    c.add(c.r.integers(0, count, k).astype(np.int32) if order else None, fixed=True)
    c.add(c.normal(n, dtype=t) if c.chance(0.3) else None, fixed=True)
    c.attributes.update(K=k, N=n, bits=bits, block_size=block)
    if t == F16:  # where weights are rounded is anybody's
        c.near = 2000


def matmul_bnb4(c):
    block = c.pick(16, 32, 64)
    n, k, m = c.size(1, 24), c.size(1, 100), c.size(1, 5)
    c.add(c.normal(m, k))
    c.add(c.r.integers(0, 256, -(-n * k // 2)).astype(np.uint8), fixed=True)
    c.add(np.abs(c.normal(-(-n * k // block))), fixed=True)
    c.attributes.update(K=k, N=n, block_size=block, quant_type=c.pick(0, 1))


def gather_blocks(c):
    kind = c.pick("u4", "i4", "bytes4", "bytes8", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
    rows, cols, block = c.size(2, 20), c.size(1, 90), c.pick(16, 32, 64)
    bits = 8 if kind == "bytes8" else 4
    if kind == "bytes4":
        cols += cols % 2
    count = -(-cols // block)
    zero = c.chance()
    index = c.r.integers(-rows, rows, [c.size(1, 4) for _ in range(c.size(1, 2))]).astype(np.int64)
    if kind in ("u4", "i4"):
        import ml_dtypes
        low, dtype = (0, ml_dtypes.uint4) if kind == "u4" else (-8, ml_dtypes.int4)
        data = c.r.integers(low, low + 16, (rows, cols)).astype(dtype)
        points = c.r.integers(low, low + 16, (rows, count)).astype(dtype)
    elif kind.startswith("float"):
        import ml_dtypes
        data, zero = c.normal(rows, cols).astype(getattr(ml_dtypes, kind)), False
    else:
        data = c.r.integers(0, 256, (rows, cols * bits // 8)).astype(np.uint8)
        points = c.r.integers(0, 256, (rows, -(-count * bits // 8))).astype(np.uint8)
    c.add(data, fixed=True)
    c.add(index)
    c.add(c.normal(rows, count, dtype=c.pick(F32, F16)), fixed=True)
    c.add(points if zero else None, fixed=True)
    c.attributes.update(block_size=block, gather_axis=0, quantize_axis=1)
    if kind.startswith("bytes"):
        c.attributes["bits"] = bits


def cache(c, positions, half):
    angle = np.outer(np.arange(positions), 1.0 / 10000 ** (np.arange(half) / half))
    return np.cos(angle).astype(F32), np.sin(angle).astype(F32)


def rotary(c):
    b, s, heads, half = c.size(1, 3), c.size(1, 6), c.size(1, 4), 8 * c.size(1, 3)
    d, most = 2 * half, 16
    part = c.chance(0.4)
    rot = half // 2 if part else half
    t = c.pick(F32, F32, F16)
    c.add(c.normal(*(([b, heads, s, d]) if c.chance() else [b, s, heads * d]), dtype=t))
    if c.chance():
        c.add(np.array([c.size(0, most - s)], np.int64))
    else:
        c.add(c.r.integers(0, most, (b, s)).astype(np.int64))
    for table in cache(c, most, rot):
        c.add(table.astype(t), fixed=True)
    c.attributes["interleaved"] = int(c.chance())
    if part or c.chance():
        c.attributes["num_heads"] = heads
    if part:
        c.attributes["rotary_embedding_dim"] = 2 * rot


def multi_head(c):
    b, s, heads, d = c.size(1, 3), c.size(1, 6), c.size(1, 4), c.size(1, 20)
    e = c.pick(d, d, c.size(1, 20))
    kind = c.pick("three", "packed", "kv", "cross", "past", "room")
    room = kind == "room"  # a cache that has room, for one row more
    if room:
        kind, s = "past", 1
    length = s if kind in ("packed", "past") else c.size(1, 9)
    past = c.size(1, 5) if kind == "past" else 0
    if kind in ("packed", "kv", "past"):
        e = d
    if kind == "packed":
        c.add(c.normal(b, s, heads, 3, d))
        c.add(None), c.add(None)
    elif kind == "kv":
        c.add(c.normal(b, s, heads * d))
        c.add(c.normal(b, length, heads, 2, d))
        c.add(None)
    elif kind == "cross":
        c.add(c.normal(b, s, heads * d))
        c.add(c.normal(b, heads, length, d))
        c.add(c.normal(b, heads, length, e))
    else:
        c.add(c.normal(b, s, heads * d))
        c.add(c.normal(b, length, heads * d))
        c.add(c.normal(b, length, heads * e))
    bias = kind in ("three", "packed", "past") and c.chance()
    c.add(c.normal((2 * d + e) * heads) if bias else None, fixed=True)
    total = past + length
    mask = kind != "cross" and not room and c.chance(0.4)
    if mask and c.chance():
        c.add(c.r.integers(1, total + 1, b).astype(np.int32))
    elif mask:
        seen = c.r.integers(0, 2, (b, total)).astype(np.int32)
        seen[:, 0] = 1
        c.add(seen)
    else:
        c.add(None)
    add = not room and c.chance(0.4)
    c.add(c.normal(c.pick(1, b), c.pick(1, heads), s, total) if add else None)
    if past:
        c.add(c.normal(b, heads, past + 3 * room, d))
        c.add(c.normal(b, heads, past + 3 * room, e))
        c.outputs = ["y", "key", "value"]
    if room:
        c.add(np.array([past], np.int32))
    c.attributes["num_heads"] = heads
    if c.chance(0.3):
        c.attributes["scale"] = float(c.r.uniform(0.1, 0.5))
    # with other numbers of keys than queries ONNX Runtime lets the last query see all of them
    if kind in ("three", "past") and length == s and not mask and c.chance(0.3):
        c.attributes["unidirectional"] = 1


def kept(c, kind, bits, *shape):
    """A cache of integers and its scales."""
    b, group, past, d = shape
    scale = F32(0.02) * (1 + c.r.random((1,) if kind == "PER_TENSOR" else (group * d,))).astype(F32)
    if bits == 4:
        return c.r.integers(0, 256, (b, group, past, d // 2)).astype(np.uint8), scale * 10
    return c.r.integers(-127, 128, (b, group, past, d)).astype(np.int8), scale


def grouped_query(c):
    b, group, repeat, half = c.size(1, 3), c.size(1, 3), c.size(1, 3), 8 * c.size(1, 2)
    d, heads, most = 2 * half, group * repeat, 24
    t = c.pick(F32, F32, F32, F16)
    if t == F16:  # where scores and weights are rounded is anybody's
        c.near = 2000
    past = c.pick(0, c.size(1, 8))
    s = c.pick(1, c.size(1, 5)) if past == 0 else c.pick(1, 1, c.size(1, 4))
    total = past + s
    packed = c.chance(0.3)
    c.add(c.normal(b, s, (heads + 2 * group if packed else heads) * d, dtype=t))
    c.add(None if packed else c.normal(b, s, group * d, dtype=t))
    c.add(None if packed else c.normal(b, s, group * d, dtype=t))
    integers = c.chance(0.3)
    kinds, bits = [c.pick("PER_TENSOR", "PER_CHANNEL") for _ in range(2)], c.pick(8, 8, 4)
    caches = [kept(c, kind, bits, b, group, past, d) for kind in kinds]
    for i in range(2):
        c.add(caches[i][0] if integers else c.normal(b, group, past, d, dtype=t))
    # Batches of other lengths: what stands behind their rows in the caches is anything.
    uneven = s == 1 and past > 0 and c.chance()
    lengths = c.r.integers(1, total + 1, b) if uneven else np.full(b, total)
    lengths[c.size(0, b - 1)] = total
    c.add((lengths - 1).astype(np.int32))
    c.add(np.array(total, np.int32), fixed=True)
    rotate = c.chance()
    for table in cache(c, most, half):
        c.add(table.astype(t) if rotate else None, fixed=True)
    # of a first prompt's positions ONNX Runtime looks at the first alone
    places = rotate and past > 0 and c.chance(0.2)
    c.add(c.r.integers(0, most, (b, s)).astype(np.int64) if places else None)
    bias = c.chance(0.2)
    c.add(c.normal(c.pick(1, b), c.pick(1, heads), s, total, dtype=t) if bias else None)
    sink = c.pick("", "", "", "weights", "smooth")
    c.add(c.normal(heads, dtype=t) if sink == "weights" else None, fixed=True)
    c.attributes.update(num_heads=heads, kv_num_heads=group, do_rotary=int(rotate))
    if integers:
        c.add(caches[0][1], fixed=True)
        c.add(caches[1][1], fixed=True)
        c.attributes.update(k_quant_type=kinds[0], v_quant_type=kinds[1], kv_cache_bit_width=bits)
    if sink == "smooth":
        c.attributes["smooth_softmax"] = 1
    if rotate:
        c.attributes["rotary_interleaved"] = int(c.chance())
    if c.chance(0.3):
        c.attributes["scale"] = float(c.r.uniform(0.1, 0.5))
    if c.chance(0.3):
        c.attributes["softcap"] = float(c.r.uniform(1, 10))
    if c.chance(0.3):
        c.attributes["local_window_size"] = c.size(1, 6)
    elif c.chance(0.1):
        c.attributes["causal"] = 0
    c.outputs = ["y", "key", "value"]
    if c.chance(0.15) and not uneven:
        c.attributes["qk_output"] = c.pick(1, 2)
        c.outputs.append("weights")
    if uneven:
        c.compared = 1


def experts(c, packed):
    tokens, size, count = c.size(1, 9), 16 * c.size(1, 4), c.size(1, 6)
    inter, kind = 16 * c.size(1, 4), c.pick("relu", "gelu", "silu", "identity", "swiglu")
    # blocks of 8 bits are left out: there ONNX Runtime rounds activations to 8 bits, too
    block = c.pick(0, 0, 16, 32)
    widths = [c.pick(2, 4) if block else c.pick(4, 8)] * 2
    if not block and c.chance(0.3):
        widths[1] = c.pick(4, 8)
    twice = 2 if kind == "swiglu" else 1
    t = c.pick(F32, F32, F16) if packed else F32
    if t == F16:  # where weights are rounded is anybody's
        c.near = 4000
    c.add(c.normal(*([1, tokens, size] if c.chance() else [tokens, size]), dtype=t))
    c.add(c.normal(tokens, count, scale=2, dtype=t))
    bias, points, zeros = c.chance(), packed and c.chance(0.3), []
    for (rows, cols), bits in zip([(twice * inter, size), (size, inter)], widths):
        if packed:
            c.add(c.r.integers(0, 256, (count, rows, cols * bits // 8)).astype(np.uint8), fixed=True)
            blocks = [-(-cols // block)] if block else []
            scale = np.abs(c.normal(count, rows, *blocks, scale=0.02)) + F32(0.01)
            c.add(scale.astype(t), fixed=True)
            packs = [rows, -(-blocks[0] * bits // 8)] if block else [-(-rows * bits // 8)]
            zeros.append(c.r.integers(0, 256, [count] + packs).astype(np.uint8))
        else:
            c.add(c.normal(count, rows, cols, scale=0.2), fixed=True)
        c.add(c.normal(count, rows, dtype=t) if bias else None, fixed=True)
    c.attributes.update(activation_type=kind, k=c.size(1, min(count, 3)),
                        normalize_routing_weights=int(c.chance()))
    if packed:
        c.attributes["expert_weight_bits"] = widths[0]
        if widths[1] != widths[0]:
            c.attributes["fc2_expert_weight_bits"] = widths[1]
        if block:
            c.attributes["block_size"] = block
        for _ in range(3):
            c.add(None)
        for zero in zeros + [None]:
            c.add(zero if points else None, fixed=True)
        c.add(np.abs(c.normal(tokens, count)).astype(t) if c.chance(0.2) else None)
    if kind == "swiglu":
        c.attributes["swiglu_fusion"] = c.pick(1, 2)
        if c.chance():
            c.attributes.update(activation_alpha=1.702, activation_beta=1.0, swiglu_limit=1.5)


OPERATORS = {
    "Gelu": lambda c: activation(c, "no"),
    "BiasGelu": lambda c: activation(c, "always"),
    "FastGelu": lambda c: activation(c, "maybe"),
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": lambda c: skip_norm(c, False),
    "SkipSimplifiedLayerNormalization": lambda c: skip_norm(c, True),
    "SimplifiedLayerNormalization": root_norm,
    "FusedMatMul": fused_matmul,
    "MatMulIntegerToFloat": lambda c: integer_matmul(c, False),
    "DynamicQuantizeMatMul": lambda c: integer_matmul(c, True),
    "MatMulNBits": matmul_nbits,
    "MatMulBnb4": matmul_bnb4,
    "GatherBlockQuantized": gather_blocks,
    "RotaryEmbedding": rotary,
    "MultiHeadAttention": multi_head,
    "GroupQueryAttention": grouped_query,
    "MoE": lambda c: experts(c, False),
    "QMoE": lambda c: experts(c, True),
}


def write(path, array):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(array).SerializeToString())


def make(folder, case):
    model = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    results = session.run(None, dict(case.given))
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    if case.near is not None:
        with open(os.path.join(folder, "near"), "w") as f:
            f.write("%d" % case.near)
    for i, (_, array) in enumerate(case.given):
        write(os.path.join(data, "input_%d.pb" % i), array)
    for i, array in enumerate(results[:case.compared]):
        write(os.path.join(data, "output_%d.pb" % i), array)


def main():
    out, n, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    refused = made = 0
    for number, (op, fill) in enumerate(OPERATORS.items()):
        if only not in ("", op):
            continue
        reason = ""
        for i in range(n):
            for attempt in range(20):
                case = Case(op, np.random.default_rng([seed, number, i, attempt]))
                fill(case)
                try:
                    make(os.path.join(out, "%s-%d" % (op, i)), case)
                    made += 1
                    break
                except Exception as error:  # what ONNX Runtime's kernel does not take
                    refused += 1
                    reason = str(error).splitlines()[0][:160]
        if reason:
            print("%s: ONNX Runtime refuses some, such as: %s" % (op, reason))
    print("%d models, %d others refused by ONNX Runtime %s" % (made, refused, onnxruntime.__version__))


main()
