#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From a model and some sentences to the files of the demo: prepare.py MODEL_DIR OUT_DIR.

MODEL_DIR holds model.safetensors and vocab.txt of all-MiniLM-L6-v2. Written to OUT_DIR:
  minilm.safetensors    layer 0 with small weights, which minilm.proem reads
  original.safetensors  layer 0 in f32, as it was, which openblas_layer.c reads
  tokens.safetensors    x: embeddings of the sentences after the first layer norm; length: tokens
                        of each

Weights of the attention become int8 with one scale per row, symmetric; those of the feed-forward
part become 4 bits with a scale and a zero point for each group of 32 along a row. A group's range
always holds 0, and the scale is rounded to f16 before it is used, so what is stored is what was
measured. Only the standard library is used.
"""

import json
import math
import struct
import sys
import unicodedata
from array import array
from pathlib import Path

LENGTH = 64  # tokens per sentence, padding included
GROUP = 32
HIDDEN = 384
NORM_EPS = 1e-12

SENTENCES = [
    "A compiler reads a description of what to compute and decides how it is done.",
    "Fusing two operators means that the value between them never travels to memory and back.",
    "The kettle whistled, the cat looked up from the window sill, and somebody in the next room "
    "went on playing the same four bars of a waltz, slower each time, as if the piano had to be "
    "persuaded.",
    "How many apples are left if Ada buys a dozen, eats two, and gives half of the rest to her "
    "neighbour?",
    "Rain is expected along the coast tonight; by morning the wind turns to the north-west and "
    "it clears up.",
    "Weights of four bits fit into half a byte each, so a matrix that took nine megabytes takes "
    "little more than one, and reading it is most of the work when only a few rows are multiplied.",
    "Good morning!",
    "In 1843 a note on the analytical engine described, step by step, how a machine of brass and "
    "punched cards could compute the numbers of Bernoulli; nobody had built the machine, but the "
    "program was ready.",
]


# ---- safetensors ----


class SafeTensors:
    """The f32 tensors of a file, rows of them read when asked for."""

    def __init__(self, path):
        self.file = open(path, "rb")
        (size,) = struct.unpack("<Q", self.file.read(8))
        self.header = json.loads(self.file.read(size))
        self.start = 8 + size

    def shape(self, name):
        return self.header[name]["shape"]

    def rows(self, name, first, count):
        info = self.header[name]
        if info["dtype"] != "F32":
            sys.exit(f"prepare: {name} is {info['dtype']}, not F32")
        width = info["shape"][-1]
        self.file.seek(self.start + info["data_offsets"][0] + 4 * first * width)
        out = array("f", self.file.read(4 * count * width))
        if sys.byteorder == "big":
            out.byteswap()
        return out

    def all(self, name):
        shape = self.shape(name)
        return self.rows(name, 0, math.prod(shape[:-1]))


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        end = offset + len(data)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def f32(shape, values):
    return "F32", shape, struct.pack(f"<{len(values)}f", *values)


# ---- tokens ----


def words(text):
    """Lower case without accents; every mark of punctuation is a word."""
    out, word = [], ""
    for c in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(c)
        if kind == "Mn":
            continue
        if c.isspace() or kind[0] in "PS":
            out += [word, c.strip()]
            word = ""
        else:
            word += c
    return [w for w in out + [word] if w]


def word_pieces(word, vocabulary):
    """The longest piece that the vocabulary has, again and again."""
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start and ("##" * (start > 0) + word[start:end]) not in vocabulary:
            end -= 1
        if end == start:
            return [vocabulary["[UNK]"]]
        pieces.append(vocabulary["##" * (start > 0) + word[start:end]])
        start = end
    return pieces


def tokens(text, vocabulary):
    ids = [p for w in words(text) for p in word_pieces(w, vocabulary)]
    return [vocabulary["[CLS]"], *ids[: LENGTH - 2], vocabulary["[SEP]"]]


def layer_norm(row, weight, bias):
    mean = math.fsum(row) / len(row)
    variance = math.fsum((v - mean) ** 2 for v in row) / len(row)
    r = 1 / math.sqrt(variance + NORM_EPS)
    return [(v - mean) * r * w + b for v, w, b in zip(row, weight, bias)]


def embed(model, ids):
    """What enters layer 0: word, position and type embeddings, added and normalised."""
    e = "embeddings."
    weight, bias = model.all(e + "LayerNorm.weight"), model.all(e + "LayerNorm.bias")
    kind = model.rows(e + "token_type_embeddings.weight", 0, 1)
    out = []
    for position, token in enumerate(ids):
        word = model.rows(e + "word_embeddings.weight", token, 1)
        place = model.rows(e + "position_embeddings.weight", position, 1)
        out += layer_norm([a + b + c for a, b, c in zip(word, place, kind)], weight, bias)
    return out


# ---- small weights ----


def to_int8(values, width):
    """One scale per row, codes in -127..127."""
    codes, scales = bytearray(), []
    for at in range(0, len(values), width):
        row = values[at : at + width]
        (scale,) = struct.unpack("<f", struct.pack("<f", max(max(row), -min(row)) / 127 or 1.0))
        scales.append(scale)
        codes += bytes(max(-127, min(127, round(v / scale))) & 255 for v in row)
    return codes, scales


def to_uint4(values):
    """A scale (f16) and a zero point for each group: value = (code - zero) * scale."""
    codes, scales, zeros = [], [], []
    for at in range(0, len(values), GROUP):
        group = values[at : at + GROUP]
        low, high = min(0.0, min(group)), max(0.0, max(group))
        (scale,) = struct.unpack("<e", struct.pack("<e", (high - low) / 15 or 1.0))
        zero = max(0, min(15, round(-low / scale)))
        scales.append(scale)
        zeros.append(zero)
        codes += [max(0, min(15, round(v / scale) + zero)) for v in group]
    return codes, scales, zeros


def uint4(codes):
    """Two in a byte, the first in the low bits; the format has no type for them but bytes."""
    data = bytes(a | b << 4 for a, b in zip(codes[::2], codes[1::2]))
    return "U8", [len(data)], data


# ---- the layer ----

PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "ffn1": "intermediate.dense",
    "ffn2": "output.dense",
    "norm2": "output.LayerNorm",
}


def convert_layer(model, small, original):
    for part, name in PARTS.items():
        name = f"encoder.layer.0.{name}"
        shape = model.shape(name + ".weight")
        values, bias = model.all(name + ".weight"), model.all(name + ".bias")
        original[part + ".weight"] = f32(shape, values)
        original[part + ".bias"] = small[part + ".bias"] = f32([len(bias)], bias)
        if part.startswith("ffn"):
            codes, scales, zeros = to_uint4(values)
            small[part + ".weight"] = uint4(codes)
            groups = [shape[0], shape[1] // GROUP]
            small[part + ".scale"] = "F16", groups, struct.pack(f"<{len(scales)}e", *scales)
            small[part + ".zero"] = uint4(zeros)
        elif part.startswith("norm"):
            small[part + ".weight"] = original[part + ".weight"]
        else:
            codes, scales = to_int8(values, shape[1])
            small[part + ".weight"] = "I8", shape, bytes(codes)
            small[part + ".scale"] = f32([shape[0]], scales)


def main():
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    model = SafeTensors(source / "model.safetensors")
    with open(source / "vocab.txt", encoding="utf-8") as f:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(f)}
    small, original = {}, {}
    convert_layer(model, small, original)
    write_safetensors(target / "minilm.safetensors", small)
    write_safetensors(target / "original.safetensors", original)

    ids = [tokens(s, vocabulary) for s in SENTENCES]
    lengths = [len(i) for i in ids]
    x = []
    for i in ids:
        x += embed(model, i + [vocabulary["[PAD]"]] * (LENGTH - len(i)))
    write_safetensors(
        target / "tokens.safetensors",
        {
            "x": f32([len(ids), LENGTH, HIDDEN], x),
            "length": ("I32", [len(ids)], struct.pack(f"<{len(ids)}i", *lengths)),
        },
    )


if __name__ == "__main__":
    main()
