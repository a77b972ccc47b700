"""Compare whole TensorFlow models with TensorFlow and write docs/tensorflow_models.md.

Run it with a Python that has TensorFlow and this package's dependencies: ``python tools/tensorflow_models.py``; with
``--only NAME``, only models whose name contains NAME run, and their rows are replaced. Weights are random with a fixed
seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
TABLE = ROOT / "docs" / "tensorflow_models.md"
HEAD = """# TensorFlow models

This page lists how closely imported TensorFlow models match TensorFlow, for users who want to know whether a model
imports. `python -m tools models tensorflow` writes the table: models with random weights run beside TensorFlow 2.21
on the same inputs; the difference is relative to the largest output value. Frozen graphs and SavedModels have a
dynamic batch.

| model | from | equal to TensorFlow | difference |
|---|---|---|---|""".splitlines()
MODELS: dict[str, tuple] = {}

# Models of keras.applications; the image size is the smallest that a network accepts, to save time.
APPLICATIONS = {
    "ResNet50": 64, "ResNet50V2": 64, "ResNet101": 64, "VGG16": 32, "VGG19": 32, "InceptionV3": 75,
    "InceptionResNetV2": 75, "Xception": 71, "MobileNet": 64, "MobileNetV2": 64, "MobileNetV3Small": 64,
    "MobileNetV3Large": 64, "DenseNet121": 64, "NASNetMobile": 224, "EfficientNetB0": 64, "EfficientNetV2B0": 64,
    "ConvNeXtTiny": 64,
}  # fmt: skip


def model(name: str, kind: str):
    """Register a builder: of a Keras model or a module with signatures (saved), of a function (frozen), or of a
    graph of TensorFlow 1 (graph)."""

    def add(build):
        MODELS[name] = (kind, build)
        return build

    return add


def _application(name: str, size: int):
    def build(tf, rng):
        made = getattr(tf.keras.applications, name)(
            weights=None, input_shape=(size, size, 3), classes=100, classifier_activation=None
        )
        # With initial statistics, all images would have nearly equal, small outputs.
        for weight in made.weights:
            drawn = {"moving_variance": (0.5, 1.5), "variance": (0.5, 1.5), "gamma": (0.8, 1.2)}
            if len(weight.shape) == 1:
                weight.assign(rng.uniform(*drawn.get(weight.name, (-0.2, 0.2)), weight.shape))
        return made, [rng.uniform(-1, 1, (2, size, size, 3)).astype("float32")]

    return build


@model("BERT frozen", "frozen")
def bert(tf, rng):
    return _bert(tf), [rng.integers(0, 100, (2, 12)).astype("int32"), rng.integers(0, 2, (2, 12)).astype("int32")]


@model("BERT SavedModel", "saved")
def bert_saved(tf, rng):
    return bert(tf, rng)


def _bert(tf, layers: int = 3, width: int = 48, heads: int = 4):
    """Return token embeddings and attention layers with a mask, and erf in the activation."""
    keras = tf.keras
    tokens, mask = (keras.Input((None,), dtype="int32", name=n) for n in ("tokens", "mask"))

    class Places(keras.layers.Layer):
        def build(self, shape):
            self.table = self.add_weight(name="table", shape=(64, width))

        def call(self, x):
            return x + tf.gather(self.table, tf.range(tf.shape(x)[1]))

    x = keras.layers.LayerNormalization(epsilon=1e-12)(Places()(keras.layers.Embedding(100, width)(tokens)))
    seen = keras.layers.Lambda(lambda m: tf.cast(m, "bool")[:, None, :])(mask)
    for _ in range(layers):
        attended = keras.layers.MultiHeadAttention(heads, width // heads)(x, x, attention_mask=seen)
        x = keras.layers.LayerNormalization(epsilon=1e-12)(x + attended)
        inner = keras.layers.Dense(4 * width, activation="gelu")(x)
        x = keras.layers.LayerNormalization(epsilon=1e-12)(x + keras.layers.Dense(width)(inner))
    first = keras.layers.Lambda(lambda v: v[:, 0])(x)
    return keras.Model([tokens, mask], [x, keras.layers.Dense(width, activation="tanh")(first)])


def _recurrent(layer: str, **options):
    def build(tf, rng):
        x = tf.keras.Input((7, 5))
        out = getattr(tf.keras.layers, layer)(6, return_sequences=True, **options)(x)
        return tf.keras.Model(x, out), [rng.uniform(-1, 1, (2, 7, 5)).astype("float32")]

    return build


model("LSTM SavedModel", "saved")(_recurrent("LSTM"))
model("GRU frozen", "frozen")(_recurrent("GRU"))
model("SimpleRNN backwards SavedModel", "saved")(_recurrent("SimpleRNN", go_backwards=True))


@model("bidirectional LSTM frozen", "frozen")
def bidirectional(tf, rng):
    x = tf.keras.Input((7, 5))
    out = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(4))(x)
    return tf.keras.Model(x, out), [rng.uniform(-1, 1, (2, 7, 5)).astype("float32")]


@model("U-Net SavedModel", "saved")
def unet(tf, rng):
    layers = tf.keras.layers
    x = tf.keras.Input((32, 48, 3))
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(a))
    c = layers.SeparableConv2D(24, 3, padding="same", activation="swish")(layers.AveragePooling2D(2)(b))
    up = layers.Conv2DTranspose(16, 3, strides=2, padding="same")(c)
    up = layers.UpSampling2D(2, interpolation="bilinear")(layers.Concatenate()([up, b]))
    return tf.keras.Model(x, layers.Conv2D(2, 1)(layers.Concatenate()([up, a]))), [
        rng.uniform(-1, 1, (1, 32, 48, 3)).astype("float32")
    ]


@model("3-D network frozen", "frozen")
def volumes(tf, rng):
    layers = tf.keras.layers
    x = tf.keras.Input((6, 12, 12, 2))
    y = layers.BatchNormalization()(layers.Conv3D(4, 3, strides=(1, 2, 2), padding="same")(x))
    y = layers.Conv3DTranspose(3, 3, strides=(1, 2, 2), padding="same")(layers.MaxPooling3D((2, 1, 1))(y))
    data = rng.uniform(-1, 1, (1, 6, 12, 12, 2)).astype("float32")
    return tf.keras.Model(x, layers.GlobalAveragePooling3D()(y)), [data]


@model("module with signatures", "saved")
def module(tf, rng):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable(rng.uniform(-1, 1, (4, 3)).astype("float32"))
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(tf.constant([3, 5, 8], "int64"), tf.constant([0.5, 1.5, 2.5])), -1.0
            )

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x):
            y = tf.matmul(x, self.weight)
            while tf.reduce_sum(tf.abs(y)) < 50.0:
                y = y * 2.0 + tf.reduce_mean(y)
            if tf.reduce_sum(y) > 0:
                return {"out": y, "gap": tf.reduce_max(y)}
            return {"out": -y, "gap": tf.reduce_min(y)}

    return Module(), [rng.uniform(-1, 1, (3, 4)).astype("float32")]


@model("TensorFlow 1 loop", "graph")
def v1_loop(tf, rng):
    v1 = tf.compat.v1
    x = v1.placeholder("float32", [3, 4], "x")
    steps = v1.placeholder("int32", [], "n")
    out = v1.while_loop(
        lambda i, a: tf.logical_and(i < steps, tf.reduce_sum(a) < 1e6),
        lambda i, a: (i + 1, a * 1.5 + tf.cast(i, "float32")),
        [tf.constant(0), x],
    )
    return [out[0], out[1]], {x: rng.uniform(0, 1, (3, 4)).astype("float32"), steps: 6}


@model("TensorFlow 1 branches", "graph")
def v1_branches(tf, rng):
    v1 = tf.compat.v1
    x = v1.placeholder("float32", [3, 4], "x")
    inner = v1.cond(tf.reduce_max(x) > 0.5, lambda: x * 2, lambda: x - 1)
    out = v1.cond(tf.reduce_sum(x) > 100, lambda: x, lambda: v1.cond(x[0, 0] > 0, lambda: inner + 1, lambda: inner * 3))
    return [out], {x: rng.uniform(-1, 1, (3, 4)).astype("float32")}


@model("TensorFlow 1 dynamic RNN", "graph")
def v1_rnn(tf, rng):
    v1 = tf.compat.v1
    x = v1.placeholder("float32", [2, 5, 3], "x")
    w, u = (tf.constant(rng.uniform(-1, 1, s).astype("float32")) for s in ((3, 4), (4, 4)))
    rows = tf.TensorArray("float32", size=5).unstack(tf.transpose(x, [1, 0, 2]))

    def step(i, h, out):
        h = tf.tanh(tf.matmul(rows.read(i), w) + tf.matmul(h, u))
        return i + 1, h, out.write(i, h)

    _, last, out = v1.while_loop(lambda i, *_: i < 5, step, [0, tf.zeros([2, 4]), tf.TensorArray("float32", size=5)])
    return [last, tf.transpose(out.stack(), [1, 0, 2])], {x: rng.uniform(-1, 1, (2, 5, 3)).astype("float32")}


@model("TensorFlow 1 detector", "graph")
def v1_detector(tf, rng):
    v1 = tf.compat.v1
    x = v1.placeholder("float32", [1, 32, 32, 3], "x")
    k = tf.constant(rng.uniform(-1, 1, (3, 3, 3, 6)).astype("float32"))
    y = tf.nn.conv2d(v1.image.resize_bilinear(x, [24, 24]), k, 2, "SAME")
    rows = tf.reshape(y, [-1, 6])
    low = tf.sigmoid(rows[:, :2])
    boxes = tf.concat([low, low + 0.1 + tf.sigmoid(rows[:, 2:4])], 1)
    kept = tf.image.non_max_suppression(boxes, tf.sigmoid(rows[:, 4]), 8, 0.5, 0.3)
    return [tf.gather(boxes, kept), tf.gather(tf.sigmoid(rows[:, 4]), kept)], {
        x: rng.uniform(-1, 1, (1, 32, 32, 3)).astype("float32")
    }


# The larger models come last.
for _name, _size in APPLICATIONS.items():
    model(f"{_name} frozen", "frozen")(_application(_name, _size))
model("MobileNetV2 SavedModel", "saved")(_application("MobileNetV2", 64))
model("ResNet50 SavedModel", "saved")(_application("ResNet50", 64))


# -- comparing --------------------------------------------------------------------------------------------------------


def _frozen(tf, built, data: list) -> tuple:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    shapes = [tf.TensorSpec(t.shape, t.dtype) for t in built.inputs]
    function = tf.function(lambda *xs: built(list(xs) if len(xs) > 1 else xs[0], training=False))
    made = convert_variables_to_constants_v2(function.get_concrete_function(*shapes))
    graph = made.graph.as_graph_def()
    names = [t.name.split(":")[0] for t in made.inputs]
    feeds = dict(zip(names, data))
    wanted = made(*[tf.constant(d) for d in data])
    outputs = [t.name for t in made.outputs]
    return graph.SerializeToString(), outputs, feeds, [w.numpy() for w in wanted]


def _saved(tf, built, data: list, folder: str) -> tuple:
    if hasattr(built, "inputs"):
        built.export(folder, verbose=False)
    else:
        tf.saved_model.save(built, folder, signatures=built.serve)
    entry = tf.saved_model.load(folder).signatures["serving_default"]
    names = list(entry.structured_input_signature[1])
    if hasattr(built, "inputs"):
        # Keras names the inputs of a SavedModel in the order of the model.
        names = [n for n in (t.name for t in built.inputs) if n in names] or names
    feeds = dict(zip(names, data))
    wanted = entry(**{k: tf.constant(v) for k, v in feeds.items()})
    return folder, None, feeds, [wanted[k].numpy() for k in sorted(wanted)]


def _of_graph(tf, build, rng) -> tuple:
    tf.compat.v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        results, given = build(tf, rng)
        with tf.compat.v1.Session() as session:
            wanted = session.run(results, given)
        data = graph.as_graph_def().SerializeToString()
    import numpy as np

    feeds = {t.op.name: np.asarray(v, t.dtype.as_numpy_dtype) for t, v in given.items()}
    return data, [r.name for r in results], feeds, [np.asarray(w) for w in wanted]


def compare(name: str) -> tuple[str, str, float, float]:
    """Return the problem ("" if there is none), the largest relative difference, and the seconds of the import."""
    try:
        import numpy as np
        import tensorflow as tf
        from tensorflow_conformance import run_module

        from tvm.relay.frontend import from_tensorflow

        tf.keras.utils.set_random_seed(1)
        kind, build = MODELS[name]
        rng = np.random.default_rng(1)
        with tempfile.TemporaryDirectory() as folder:
            if kind == "graph":
                source, outputs, feeds, wanted = _of_graph(tf, build, rng)
            else:
                made = build(tf, rng)
                source, outputs, feeds, wanted = _frozen(tf, *made) if kind == "frozen" else _saved(tf, *made, folder)
            begin = time.perf_counter()
            mod = from_tensorflow(source, outputs=outputs)[0]
            seconds = time.perf_counter() - begin
        got = run_module(mod, feeds)
        worst = max(float(np.abs(g - w).max() / max(np.abs(w).max(), 1e-6)) for g, w in zip(got, wanted, strict=True))
        wrong = [g.shape != w.shape or g.dtype != w.dtype for g, w in zip(got, wanted)]
        problem = "shapes or types differ" if any(wrong) else "" if worst <= 1e-4 else "numbers differ"
        return name, problem, worst, seconds
    except Exception as problem:
        traceback.print_exc()
        return name, f"{type(problem).__name__}: {' '.join(str(problem).split())[:160]}", float("nan"), 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only models whose name contains this text")
    only = parser.parse_args().only
    rows, wrong = _rows(), 0
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name, problem, worst, seconds in pool.imap(compare, [n for n in MODELS if only in n]):
            rows[name] = f"| {name} | {MODELS[name][0]} | {problem or 'yes'} | {worst:.1e} |"
            wrong += bool(problem)
            print(f"{name}: {problem or 'ok'} {worst:.1e}, import {seconds:.2f} s", flush=True)
            TABLE.write_text("\n".join([*HEAD, *(rows[n] for n in MODELS if n in rows), ""]))
    return 1 if wrong else 0


def _rows() -> dict[str, str]:
    """Return the rows of the existing table."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}


if __name__ == "__main__":
    sys.exit(main())
