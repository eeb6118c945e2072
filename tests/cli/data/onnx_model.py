#!/usr/bin/env python3
"""Writes small ONNX models for the transcripts, without the package onnx: onnx_model.py KIND FILE.

A message is a list of (field number, value): an int is a varint, text and bytes are themselves, a
list is a message. The numbers are those of ONNX's schema.
"""
import struct
import sys

F32, I64 = 1, 7


def varint(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def encode(message):
    out = b""
    for field, v in message:
        if isinstance(v, int):
            out += varint(field << 3) + varint(v % 2**64)
            continue
        if isinstance(v, list):
            v = encode(v)
        elif isinstance(v, str):
            v = v.encode()
        out += varint(field << 3 | 2) + varint(len(v)) + v
    return out


def node(op, ins, outs, domain="", attributes=()):
    fields = [(1, i) for i in ins] + [(2, o) for o in outs] + [(3, "node of " + outs[0]), (4, op)]
    return fields + [(5, a) for a in attributes] + [(7, domain)]


def value(name, dims, kind=F32):
    shape = [(1, [(1, d)] if isinstance(d, int) else [(2, d)]) for d in dims]
    return [(1, name), (2, [(1, [(1, kind), (2, shape)])])]


def tensor(name, dims, numbers, kind=F32):
    raw = struct.pack("<%d%s" % (len(numbers), "f" if kind == F32 else "q"), *numbers)
    return [(1, d) for d in dims] + [(2, kind), (8, name), (9, raw)]


def outside(name, dims, path, offset):
    entry = [(13, [(1, k), (2, v)]) for k, v in (("location", path), ("offset", str(offset)))]
    return [(1, d) for d in dims] + [(2, F32), (8, name), (14, 1)] + entry


def model(nodes, inputs, outputs, tensors=()):
    graph = [(1, n) for n in nodes] + [(2, "layer")] + [(5, t) for t in tensors]
    graph += [(11, i) for i in inputs] + [(12, o) for o in outputs]
    opsets = [(8, [(1, ""), (2, 21)]), (8, [(1, "com.example"), (2, 1)])]
    return [(1, 8), (7, graph)] + opsets


def layer(weight):
    return model(
        [node("MatMul", ["x", "w"], ["/layer/MatMul_output_0"]),
         node("Relu", ["/layer/MatMul_output_0"], ["y"])],
        [value("x", ["batch", 3])], [value("y", ["batch", 2])], [weight])


def large(weight):
    """More than what is read whole."""
    made = layer(weight)
    made[1][1].append((5, tensor("unused", [1 << 17], [0] * (1 << 17))))
    return made


def wide():
    return model([node("MatMul", ["x", "w"], ["y"])], [value("x", ["batch", 256])],
                 [value("y", ["batch", 256])], [outside("w", [256, 256], "wide.safetensors", 0)])


def shaped():
    return model([node("Reshape", ["x", "shape"], ["y"])],
                 [value("x", [2, 6]), value("shape", ["rank"], I64)], [value("y", ["a", "b"])])


def lacking():
    return model([node("Conv", ["x", "w"], ["a"]), node("Gizmo", ["a"], ["b"], "com.example"),
                  node("Conv", ["b", "w"], ["y"])],
                 [value("x", [1, 1, 4, 4]), value("w", [1, 1, 2, 2])], [value("y", [1, 1, 2, 2])])


WEIGHT = [1, 2, 3, 4, 5, 6]
KINDS = {
    "layer": lambda: layer(tensor("w", [3, 2], WEIGHT)),
    "outside": lambda: layer(outside("w", [3, 2], "data/w.bin", 8)),
    "escaping": lambda: layer(outside("w", [3, 2], "../w.bin", 0)),
    "short": lambda: layer(tensor("w", [3, 2], WEIGHT[:5])),
    "nowhere": lambda: layer(outside("w", [3, 2], "", 0)),
    "large_nowhere": lambda: large(outside("w", [3, 2], "", 0)),
    "wide": wide,
    "shaped": shaped,
    "lacking": lacking,
    "unnamed": lambda: layer(tensor("v", [3, 2], WEIGHT)),
}

if __name__ == "__main__":
    with open(sys.argv[2], "wb") as f:
        f.write(encode(KINDS[sys.argv[1]]()))
