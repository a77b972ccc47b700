"""Compare every model of keras.applications with Keras, live and from both file formats, with Keras 3 and Keras 2.

The results are the table of docs/keras_models.md, which is written after each model; an interrupted run continues. Each
model runs in its own process, with seeded weights, at a small image size.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "keras_models.md"
_HEAD = """# Keras models

This page lists how closely imported Keras models match Keras, for users who want to know whether a model imports.
`python -m tools models keras` writes the table: each model of `keras.applications` has seeded weights, is imported
and compiled for the CPU at the given image size and is compared with Keras {version}. A number is the largest
difference divided by the largest output value; "same" means that the HDF5 file or the archive (.keras) becomes the
same graph as the live model.

| model | image | live | HDF5 file | archive | importing, seconds of a CPU |
|---|---|---|---|---|---|
"""
# The models, one of each size of a family first; the largest need several gigabytes for compilation.
MODELS = (
    "MobileNet MobileNetV2 MobileNetV3Small MobileNetV3Large EfficientNetB0 EfficientNetB1 EfficientNetB2 "
    "EfficientNetB3 EfficientNetV2B0 EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3 NASNetMobile DenseNet121 "
    "DenseNet169 DenseNet201 ResNet50 ResNet50V2 ResNet101 ResNet101V2 ResNet152 ResNet152V2 Xception InceptionV3 "
    "InceptionResNetV2 VGG16 VGG19 ConvNeXtTiny ConvNeXtSmall ConvNeXtBase EfficientNetB4 EfficientNetB5 "
    "EfficientNetB6 EfficientNetB7 EfficientNetV2S EfficientNetV2M EfficientNetV2L NASNetLarge ConvNeXtLarge "
    "ConvNeXtXLarge"
).split()
SIZES = {"Xception": 71, "InceptionV3": 75, "InceptionResNetV2": 75, "NASNetMobile": 32, "NASNetLarge": 331}
_ONE = """
import os, sys, tempfile, time, warnings
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")
import numpy as np
name, size, version = sys.argv[1], int(sys.argv[2]), sys.argv[3]
import importlib
keras = importlib.import_module("keras" if version == "3" else "tf_keras")
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir import structural_equal
build = getattr(keras.applications, name)
given = {"include_top": False, "pooling": "avg"} if not name.startswith("NASNet") else {}
model = build(weights=None, input_shape=(size, size, 3), **given)
state = np.random.RandomState(7)
drawn = []
for w in model.weights:
    path, shape = getattr(w, "path", w.name), tuple(w.shape)
    fan = max(int(np.prod(shape[:-1])), 1)
    value = state.uniform(-1, 1, shape) * np.sqrt(3 / fan)
    if "variance" in path or "gamma" in path:
        value = 0.5 + state.uniform(0, 1, shape)
    drawn.append(value.astype("float32"))
model.set_weights(drawn)
x = state.uniform(0, 255, (1, size, size, 3)).astype("float32")
wanted = np.asarray(model(x, training=False))
begin = time.process_time()
live = relay.frontend.from_keras(model, layout="NHWC")[0]
cost = time.process_time() - begin
found = []
with tempfile.TemporaryDirectory() as folder:
    for ending in ("h5", "keras"):
        path = os.path.join(folder, "model." + ending)
        model.save(path)
        try:
            file = relay.frontend.from_keras(path, layout="NHWC")[0]
            found.append("same" if structural_equal(file, live) else "another")
        except Exception as problem:
            found.append(" ".join(str(problem).split())[:120])
del model, drawn
with tvm.transform.PassContext(opt_level=3):
    compiled = relay.build(live, "llvm")
module = graph_executor.GraphModule(compiled["default"](tvm.cpu()))
module.set_input(0, x)
module.run()
got = module.get_output(0).numpy()
off = np.abs(got - wanted).max() / np.abs(wanted).max()
print("RESULT", format(off, ".1e"), found[0], found[1], format(cost, ".2f"), sep="|")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only models whose name begins with this text")
    parser.add_argument("--seconds", type=int, default=900, help="time limit of a model")
    parser.add_argument("--again", action="store_true", help="also run models whose row is complete")
    parser.add_argument("--version", default="3", choices=["2", "3"], help="version of Keras")
    given = parser.parse_args()
    import keras

    rows = kept_rows()
    for name in MODELS:
        label = name if given.version == "3" else f"{name} (Keras 2)"
        if name.startswith(given.only) and (given.again or not is_done(rows.get(label, []))):
            rows[label] = outcome(name, given.seconds, given.version)
            print(label, *rows[label], sep=" | ", flush=True)
            text = "".join(f"| {n} | {' | '.join(rows[n])} |\n" for n in sorted(rows))
            DOCUMENT.write_text(_HEAD.format(version=keras.__version__) + text)
    return 0


def kept_rows() -> dict[str, list[str]]:
    """Return the existing table; a run of some models replaces their rows."""
    if not DOCUMENT.exists():
        return {}
    found = re.findall(r"^\| (\S+(?: \(Keras 2\))?) \| (.*) \|$", DOCUMENT.read_text(), re.M)
    return {name: cells.split(" | ") for name, cells in found if name != "model"}


def is_done(row: list[str]) -> bool:
    return len(row) == 5 and re.fullmatch(r"\d\.\de[+-]\d\d", row[1]) is not None and row[2:4] == ["same", "same"]


def outcome(name: str, seconds: int, version: str) -> list[str]:
    size = SIZES.get(name, 32)
    try:
        done = subprocess.run([sys.executable, "-c", _ONE, name, str(size), version], cwd=ROOT, capture_output=True,
                              text=True, timeout=seconds, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    except subprocess.TimeoutExpired:
        return [str(size), f"more than {seconds} s", "", "", ""]
    found = re.findall(r"^RESULT\|(.*)$", done.stdout, re.M)
    if found:
        return [str(size), *found[-1].split("|")]
    lines = done.stderr.strip().splitlines()
    words = (lines[-1][:160] if lines else "").replace("|", "/")
    return [str(size), f"ended with {done.returncode}: {words}", "", "", ""]


if __name__ == "__main__":
    sys.exit(main())
