"""Write the models of tests/relay/frontend/keras/keras_cases.py, and their outputs in Keras, into cases.tar.xz beside
them.

Run it with a Python that has keras, tf_keras and tensorflow: ``python tools/keras_reference.py``. Weights are small
multiples of a sixteenth, so that the archive is small.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "relay" / "frontend" / "keras"
sys.path[:0] = [str(FOLDER)]


def module_of(name: str):
    """Return the module of Keras that builds a case."""
    if name.startswith("v2_"):
        import tf_keras

        return tf_keras
    import keras

    return keras


def numbers(name: str):
    import numpy as np

    return np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)


def built(name: str):
    """Return the model of a case with weights drawn by its name, and inputs by their names."""
    import numpy as np
    from keras_cases import CASES

    state = numbers(name)
    model = CASES[name][1](module_of(name))
    drawn = []
    for w in model.weights:
        value = np.round(state.uniform(-0.7, 0.7, w.shape) * 16) / 16
        path = getattr(w, "path", w.name)
        if "variance" in path or "gamma" in path:
            value = np.abs(value) + 0.5
        drawn.append(value.astype(str(np.asarray(w).dtype)))
    model.set_weights(drawn)
    feeds = {}
    inputs = model.inputs if isinstance(model.inputs, (list, tuple)) else [model.inputs]
    for tensor, key in zip(inputs, model.input_names if hasattr(model, "input_names") else [t.name for t in inputs]):
        shape = [2 if d is None else d for d in tensor.shape]
        kind = getattr(tensor.dtype, "name", tensor.dtype)
        if kind.startswith("float"):
            feeds[key] = (np.round(state.uniform(-2, 2, shape) * 16) / 16).astype(kind)
            if "embedding" in name:
                feeds[key] = np.abs(np.round(feeds[key]))
        else:
            feeds[key] = state.randint(0, 4, shape).astype(kind)
    return model, feeds


def outputs(model, feeds: dict) -> list:
    """Return the outputs of Keras for the inputs, dictionaries in the order of their keys."""
    import numpy as np

    given = (
        feeds
        if len(feeds) > 1
        and isinstance(model._inputs_struct if hasattr(model, "_inputs_struct") else model._nested_inputs, dict)
        else list(feeds.values())
    )
    got = model(given if len(feeds) > 1 else next(iter(feeds.values())), training=False)
    if isinstance(got, dict):
        got = [got[k] for k in sorted(got)]
    flat = []
    work = [got]
    while work:
        found = work.pop(0)
        if isinstance(found, (list, tuple)):
            work = list(found) + work
        else:
            flat.append(np.asarray(found))
    return flat


def channels_first(model, feeds: dict) -> list:
    """Return the outputs of a model with channels first. TensorFlow has no CPU kernels for it: the same model with
    channels last computes them on transposed data."""
    import keras
    import numpy as np

    config = json.loads(model.to_json().replace("channels_first", "channels_last"))
    for row in config["config"]["layers"]:
        row.pop("build_config", None)
        if row["class_name"] == "InputLayer":
            shape = row["config"]["batch_shape"]
            row["config"]["batch_shape"] = [shape[0], *shape[2:], shape[1]]
    other = keras.models.model_from_json(json.dumps(config))
    other.set_weights(model.get_weights())
    moved = {k: np.ascontiguousarray(np.moveaxis(v, 1, -1)) for k, v in feeds.items()}
    return [np.ascontiguousarray(np.moveaxis(v, -1, 1)) if v.ndim > 2 else v for v in outputs(other, moved)]


def files(model) -> dict[str, bytes]:
    """Return the model as files, by suffix."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("h5", "keras"):
            path = Path(folder) / f"model.{ending}"
            model.save(path)
            out[ending] = path.read_bytes()
    return out


def main() -> int:
    import warnings

    warnings.filterwarnings("ignore")
    import numpy as np
    from keras_cases import CASES

    failed, rows = 0, {}
    with tarfile.open(FOLDER / "cases.tar.xz", "w:xz", preset=9) as archive:

        def add(name: str, data: bytes) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

        made = {}
        for name in CASES:
            try:
                model, feeds = built(name)
                reference = channels_first if "_first_" in name and "flatten" not in name else outputs
                made[name] = (files(model), feeds, reference(model, feeds))
            except Exception as problem:
                failed += 1
                print(f"{name}: {type(problem).__name__}: {' '.join(str(problem).split())[:300]}")
        # Files of the same format are adjacent, which makes the archive small.
        for name, (found, _, _) in made.items():
            add(f"{name}.h5", found["h5"])
        for name, (found, _, _) in made.items():
            with zipfile.ZipFile(io.BytesIO(found["keras"])) as inner:
                for member in ("config.json", "model.weights.h5", "metadata.json"):
                    add(f"{name}.keras/{member}", inner.read(member))
        for name, (_, feeds, wanted) in made.items():
            rows[name] = {"inputs": {}, "outputs": []}
            for key, value in feeds.items():
                rows[name]["inputs"][key] = [str(value.dtype), list(value.shape)]
                add(f"{name}/in/{key}", np.ascontiguousarray(value).tobytes())
            for i, value in enumerate(wanted):
                rows[name]["outputs"].append([str(value.dtype), list(value.shape)])
                add(f"{name}/out/{i}", np.ascontiguousarray(value).tobytes())
        add("index.json", json.dumps(rows).encode())
    print(f"{len(CASES) - failed} of {len(CASES)} models")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
