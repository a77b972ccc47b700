"""Accuracy of quantized models: how often they and the float32 model predict the same class on crops of photos.

    python -m benchmarks.quantization --write

The two models of ``shared/models/imagenet`` are quantized with each calibration mode of ours and by onnxruntime
(``quantize_static``, QDQ, per-channel scales), all from the same crops, and evaluated on the same other crops.
``--models`` and ``--methods`` select some of them. ``--write`` writes a result file with the new rows and the other
rows of the newest result file; ``--table`` prints the newest result file.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import result_file

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("TVM_TEST_MODELS") or ROOT.parent / "shared" / "models") / "imagenet"
PHOTOS = ("chelsea.png", "coffee.png")
MODES = ("max", "percentile", "kl_divergence")
Run = Callable[[np.ndarray], np.ndarray]


class Model(NamedTuple):
    """A file, its input, and the function that maps RGB pixels from 0 to 255 to its values."""

    name: str
    input: str
    shape: tuple[int, ...]
    prepare: Callable[[np.ndarray], np.ndarray]


def _torch_pixels(pixels: np.ndarray) -> np.ndarray:
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return np.ascontiguousarray(((pixels / np.float32(255) - mean) / deviation).transpose(2, 0, 1)[None])


def _caffe_pixels(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels[None, :, :, ::-1] - np.float32([103.939, 116.779, 123.68]))


MODELS = (
    Model("mobilenet_v2", "data", (1, 3, 224, 224), _torch_pixels),
    Model("resnet50", "input_1", (1, 224, 224, 3), _caffe_pixels),
)


def crops(model: Model, count: int, seed: int) -> list[np.ndarray]:
    """Return random squares of the photos, half to all of the short side, every second one mirrored on average."""
    from PIL import Image

    photos = [Image.open(FOLDER / name).convert("RGB") for name in PHOTOS]
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        photo = photos[i % len(photos)]
        side = int(min(photo.size) * rng.uniform(0.5, 1.0))
        left, top = (int(rng.integers(0, size - side + 1)) for size in photo.size)
        cut = photo.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
        pixels = np.asarray(cut, "float32")
        out.append(model.prepare(pixels[:, ::-1] if rng.integers(2) else pixels))
    return out


def whole_photos(model: Model) -> list[np.ndarray]:
    """Return the center of every photo, cropped as by ``tvmc run --inputs``."""
    from tvm.driver.tvmc.image import load_image

    shape = [1, 224, 224, 3]
    pixels = [load_image(str(FOLDER / n), shape, "float32", (0, 0, 0), (1, 1, 1), "NHWC", scale=1.0) for n in PHOTOS]
    return [model.prepare(p[0]) for p in pixels]


def onnxruntime_run(path: str, model: Model) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {model.input: x})[0]


def by_onnxruntime(model: Model, samples: Sequence[np.ndarray], folder: str) -> Run:
    """Return the model quantized by onnxruntime, after shape inference and constant folding as its documentation
    advises."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(samples)

        def get_next(self):
            sample = next(self.left, None)
            return None if sample is None else {model.input: sample}

    ready, made = os.path.join(folder, "ready.onnx"), os.path.join(folder, "int8.onnx")
    quant_pre_process(str(FOLDER / f"{model.name}.onnx"), ready, skip_symbolic_shape=True)
    quantize_static(ready, made, Reader(), quant_format=QuantFormat.QDQ, per_channel=True)
    return onnxruntime_run(made, model)


def by_us(model: Model, samples: Sequence[np.ndarray], mode: str) -> Run:
    """Return the model quantized as by ``tvmc compile --quantize int8 --calibration-mode MODE``."""
    import onnx

    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    loaded = onnx.load(str(FOLDER / f"{model.name}.onnx"))
    mod, params = relay.frontend.from_onnx(loaded, {model.input: model.shape})
    with relay.quantize.qconfig(calibrate_mode=mode, weight_scale="channel", skip_conv_layers=None,
                                skip_dense_layer=False):  # fmt: skip
        mod = relay.quantize.quantize(mod, params, [{model.input: x} for x in samples])
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(mod, "llvm -mcpu=" + tvm.target.codegen.llvm_get_system_cpu())
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))

    def run(x: np.ndarray) -> np.ndarray:
        executor.run(**{model.input: x})
        return executor.get_output(0).numpy()

    return run


def measured(run: Run, inputs: Sequence[np.ndarray], photos: Sequence[np.ndarray], wanted: Any) -> dict:
    """Return the share of crops and the number of photos with the class of the float model, and the signal-to-noise
    ratio."""
    outputs = [run(x).reshape(-1) for x in inputs]
    classes, expected = [int(o.argmax()) for o in outputs], [int(o.argmax()) for o in wanted[0]]
    noise = sum(float(np.square(a.astype("float64") - b).sum()) for a, b in zip(outputs, wanted[0]))
    signal = sum(float(np.square(b, dtype="float64").sum()) for b in wanted[0])
    kept = sum(int(run(x).argmax()) == int(o.argmax()) for x, o in zip(photos, wanted[1]))
    agreement = sum(a == b for a, b in zip(classes, expected)) / len(inputs)
    return {"agreement": round(agreement, 4), "crops": len(inputs), "photos kept": kept, "photos": len(photos),
            "decibels": round(float(10 * np.log10(signal / noise)), 2)}  # fmt: skip


def table(rows: Sequence[dict]) -> str:
    lines = ["| model | quantized by | samples | top-1 as float32 | photos kept | signal to noise |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for r in rows:
        lines.append(f"| {r['model']} | {r['method']} | {r['samples']} | {100 * r['agreement']:.1f} % of {r['crops']} "
                     f"| {r['photos kept']} of {r['photos']} | {r['decibels']:.1f} dB |")  # fmt: skip
    return "\n".join(lines)


def _merged(old: Sequence[dict], new: Sequence[dict]) -> list[dict]:
    """Merge rows by model, method and number of samples; new rows replace old ones."""
    rows = {(r["model"], r["method"], r["samples"]): r for r in (*old, *new)}
    methods = (*MODES, "onnxruntime")
    names = [m.name for m in MODELS]
    return sorted(rows.values(), key=lambda r: (names.index(r["model"]), -r["samples"], methods.index(r["method"])))


def kept_rows(folder: Path = result_file.FOLDER) -> list[dict]:
    """Return the rows of the newest result file, or an empty list where there is no file."""
    path = result_file.newest("quantization", "any", folder)
    return [row["details"] for row in result_file.load(path)["rows"]] if path else []


def write(rows: Sequence[dict], seed: int, folder: Path = result_file.FOLDER) -> Path:
    """Write the rows as a result file and return its path."""
    found = [
        {
            "name": row["model"],
            "input": f"{row['samples']} samples",
            "group": row["method"],
            "values": {"agreement": row["agreement"], "decibels": row["decibels"]},
            "details": row,
        }
        for row in rows
    ]
    method = f"agreement of top-1 with float32 on crops of photos, and signal to noise in decibels; seed {seed}"
    return result_file.write("quantization", "any", found, unit="share", method=method, versions={}, folder=folder,
                             description="accuracy; independent of the machine",
                             command="python -m tools bench quantization")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [m.name for m in MODELS]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--methods", nargs="+", choices=[*MODES, "onnxruntime"], default=[*MODES, "onnxruntime"])
    parser.add_argument("--samples", type=int, default=50, help="number of crops for calibration")
    parser.add_argument("--crops", type=int, default=500, help="number of crops for the comparison")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--write", action="store_true", help="write a result file of these and the newest other rows")
    parser.add_argument("--table", action="store_true", help="print the newest result file and exit")
    args = parser.parse_args()
    if args.table:
        print(table(kept_rows()))
        return
    rows: list[dict] = []
    for model in (m for m in MODELS if m.name in args.models):
        samples, inputs = crops(model, args.samples, args.seed), crops(model, args.crops, args.seed + 1)
        photos = whole_photos(model)
        plain = onnxruntime_run(str(FOLDER / f"{model.name}.onnx"), model)
        wanted = [[plain(x).reshape(-1) for x in xs] for xs in (inputs, photos)]
        for method in args.methods:
            start = time.time()
            with tempfile.TemporaryDirectory() as folder:
                theirs = method == "onnxruntime"
                run = by_onnxruntime(model, samples, folder) if theirs else by_us(model, samples, method)
                row = {"model": model.name, "method": method, "samples": args.samples,
                       **measured(run, inputs, photos, wanted)}  # fmt: skip
            print(f"{row} ({time.time() - start:.0f} s)", flush=True)
            rows.append(row)
    if args.write:
        rows = _merged(kept_rows(), rows)
        write(rows, args.seed)
    print(table(rows))


if __name__ == "__main__":
    main()
