"""Processor time of importing a model from each format: the first import in a process.

    python -m benchmarks.importers [FORM ...] [--models resnet50,bert_base]

The formats trace, export and onnx need torch (with torchvision and transformers); tensorflow, tflite and keras need
TensorFlow. Few environments have both: without FORM, the formats that this Python can create are measured. Models have
their full sizes and seeded weights. Each import runs in its own process, after the framework was loaded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from typing import Any

from . import result_file

MODELS = {"resnet50": 1.5, "bert_base": 2.5}
FORMS = {"trace": "torch", "export": "torch", "onnx": "torch", "tensorflow": "tensorflow", "tflite": "tensorflow",
         "keras": "tensorflow"}  # fmt: skip
TITLES = {
    "trace": "TorchScript", "export": "exported program", "onnx": "ONNX", "tensorflow": "frozen graph of TensorFlow",
    "tflite": "TFLite", "keras": "live Keras 3", "resnet50": "ResNet-50", "bert_base": "BERT-base",
}  # fmt: skip
TOKENS = 128


def _of_torch(form: str, name: str) -> tuple[Any, tuple]:
    """Return the importer and its arguments."""
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision
    from tvm import relay

    from .torch_compile import build

    torchvision()
    model, inputs = build(name, 1)
    with torch.no_grad():
        if form == "trace":
            infos = [("x", (tuple(inputs[0].shape), str(inputs[0].dtype).removeprefix("torch.")))]
            return relay.frontend.from_pytorch, (torch.jit.trace(model, tuple(inputs)), infos)
        if form == "export":
            return relay.frontend.from_exported_program, (torch.export.export(model, tuple(inputs)),)
        import onnx

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            torch.onnx.export(model, tuple(inputs), path, dynamo=True, external_data=False, verbose=False)
            return relay.frontend.from_onnx, (onnx.load(path),)


def _bert(keras: Any) -> Any:
    """Return BERT-base built from Keras layers: token and position embeddings, and twelve attention layers."""
    layers, width = keras.layers, 768
    tokens, places = (keras.Input((TOKENS,), dtype="int32", name=n) for n in ("tokens", "places"))
    x = layers.Embedding(30522, width)(tokens) + layers.Embedding(512, width)(places)
    x = layers.LayerNormalization(epsilon=1e-12)(x)
    for _ in range(12):
        attended = layers.MultiHeadAttention(12, width // 12)(x, x)
        x = layers.LayerNormalization(epsilon=1e-12)(x + attended)
        inner = layers.Dense(4 * width, activation="gelu")(x)
        x = layers.LayerNormalization(epsilon=1e-12)(x + layers.Dense(width)(inner))
    return keras.Model([tokens, places], x)


def _of_tensorflow(form: str, name: str) -> tuple[Any, tuple]:
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    from tvm import relay

    tf.keras.utils.set_random_seed(0)
    model = tf.keras.applications.ResNet50(weights=None) if name == "resnet50" else _bert(tf.keras)
    if form == "keras":
        return relay.frontend.from_keras, (model,)
    specs = [tf.TensorSpec((1, *t.shape[1:]), t.dtype) for t in model.inputs]
    entry = tf.function(lambda *xs: model(list(xs) if len(xs) > 1 else xs[0], training=False))
    frozen = convert_variables_to_constants_v2(entry.get_concrete_function(*specs))
    if form == "tflite":
        return relay.frontend.from_tflite, (tf.lite.TFLiteConverter.from_concrete_functions([frozen]).convert(),)
    return relay.frontend.from_tensorflow, (frozen.graph.as_graph_def(),)


def seconds(form: str, name: str) -> float:
    """Return the processor seconds of one import."""
    importer, given = (_of_torch if FORMS[form] == "torch" else _of_tensorflow)(form, name)
    started = time.process_time()
    importer(*given)
    return time.process_time() - started


def result_rows(found: dict[str, dict[str, float]]) -> list[dict]:
    """Return the rows of a result file from the seconds of each format and model."""
    return [
        {"name": TITLES[form], "values": {TITLES[name]: value for name, value in values.items()}}
        for form, values in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="*", metavar="FORM", default=[f for f in FORMS if find_spec(FORMS[f])])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--here", action="store_true", help="measure in this process and print only the number")
    result_file.add_option(parser)
    asked = parser.parse_args()
    if asked.here:
        print("seconds", seconds(asked.forms[0], asked.models))
        return
    found_seconds: dict[str, dict[str, float]] = {}
    print("| model | format | processor seconds | target |\n|---|---|---|---|")
    for name in asked.models.split(","):
        for form in asked.forms:
            command = [sys.executable, "-m", "benchmarks.importers", form, "--models", name, "--here"]
            done = subprocess.run(command, capture_output=True, text=True)
            found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("seconds ")]
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            cell = format(float(found[0]), ".2f") if found else f"ended with {done.returncode}: {said}"
            print(f"| {name} | {form} | {cell} | {MODELS[name]} |", flush=True)
            if found:
                found_seconds.setdefault(form, {})[name] = float(found[0])
    result_file.record(
        asked.record, "importers", result_rows(found_seconds), unit="s", command="python -m benchmarks.importers",
        versions=result_file.installed({"PyTorch": "torch", "TensorFlow": "tensorflow", "Keras": "keras"}),
        method="processor time of the first import in a process; models of full size, BERT-base with 128 tokens",
    )  # fmt: skip


if __name__ == "__main__":
    main()
