"""Compare models that are compiled ahead of time with the graph executor, bit for bit.

Each model runs on random inputs: on the runtime (target llvm), as a C program (target c), which the C compiler of this
machine compiles as for a microcontroller, and as a shared bundle (target llvm).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
MODELS = Path(os.environ.get("TVM_TEST_MODELS") or ROOT.parent / "shared" / "models")

# The models, with the shapes of inputs whose dimensions are dynamic.
CASES: dict[str, dict[str, list[int]]] = {
    "imagenet/mobilenet_v2.onnx": {"data": [1, 3, 224, 224]},
    "imagenet/resnet50.onnx": {"input_1": [1, 224, 224, 3]},
    "onnx/mobilenet_v2_int8_qdq.onnx": {"image": [1, 3, 244, 244]},
    "onnx/ppocr_v4_det.onnx": {"x": [1, 3, 64, 96]},
    "onnx/ppocr_cls.onnx": {"x": [1, 3, 48, 192]},
    "onnx/magika.onnx": {"bytes": [1, 2048]},
    "onnx/ultraface_rfb320.onnx": {},
    "onnx/style_candy.onnx": {"inputImage": [1, 3, 720, 720]},
    "formats/caffe/hyperlpr/SegmenationFree-Inception.prototxt": {},
    "formats/caffe/ultraface/RFB-320.prototxt": {},
    "formats/caffe2/super_resolution/predict_net.pb": {},
    "formats/cntk/ResNet20_CIFAR10_DataAug.dnn": {},
    "formats/cntk/cifar10.pretrained.cmf": {},
    "formats/coreml/crepe_tiny.mlpackage": {"frames": [2, 1024]},
    "formats/darknet/yolo-fastest-1.1.cfg": {},
    "formats/mlperf_tiny/kws_ref_model": {"input_1": [1, 49, 10, 1]},
    "formats/mlperf_tiny/kws_ref_model.tflite": {},
    "formats/mlperf_tiny/kws_ref_model_float32.tflite": {},
    "formats/mlperf_tiny/pretrainedResnet.h5": {},
    "formats/mlperf_tiny/pretrainedResnet.tflite": {},
    "formats/mlperf_tiny/pretrainedResnet_quant.tflite": {},
    "formats/paddle/ch_PP-OCRv4_det_infer/inference.pdmodel": {"x": [1, 3, 64, 96]},
    "formats/paddle/ch_ppocr_mobile_v2_cls_infer/inference.pdmodel": {"x": [1, 3, 48, 192]},
    "formats/tf_frozen/FSRCNN-small_x2.pb": {"IteratorGetNext": [1, 20, 24, 1]},
    "formats/tflite/version-RFB-320_without_postprocessing.tflite": {},
}


def load(name: str):
    """Return the module of a model and its weights by name."""
    from tvm.driver.tvmc.frontends import load_model

    model = load_model(str(MODELS / name), shape_dict=CASES[name] or None)
    return model.mod, model.params


def random_inputs(mod, params, seed: int) -> dict:
    """Return random values of the inputs of a model."""
    import numpy as np

    from tvm.testing.aot import get_dtype_range

    rng = np.random.default_rng(seed)
    values = {}
    for param in mod["main"].params:
        if param.name_hint in params:
            continue
        t = param.type_annotation
        shape, (low, high) = [int(d) for d in t.shape], get_dtype_range(t.dtype)
        if t.dtype.startswith("float"):
            values[param.name_hint] = rng.uniform(low, high, shape).astype(t.dtype)
        else:
            values[param.name_hint] = rng.integers(max(low, -128), min(high, 127), shape).astype(t.dtype)
    return values


def outputs(lib, values, flush: bool = False) -> list:
    """Return the outputs of a factory; with ``flush``, denormal numbers are flushed to zero."""
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    runner = GraphModule(lib["default"](tvm.cpu()))
    runner.flush_denormals(flush)
    runner.run(**values)
    return [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]


def compare_bundle(name: str, seed: int) -> str:
    """Return "pass", or the difference between a bundle and the graph executor."""
    from tools.run_bundle import run_bundle
    from tvm import relay
    from tvm.relay.backend.bundle import export_bundle

    mod, params = load(name)
    values = random_inputs(mod, params, seed)
    wanted = outputs(relay.build(mod, "llvm", params=params), values, flush=True)
    with tempfile.TemporaryDirectory(prefix="tvm-bundle-") as folder:
        path = Path(folder, "model.so")
        export_bundle(relay.build(mod, "llvm", params=params, executor=relay.backend.Executor("aot")), path)
        return difference(wanted, run_bundle(path, list(values.values())))


def compare(name: str, seed: int, as_c: bool) -> str:
    """Return "pass", or the difference between the two executors."""
    from tvm import relay
    from tvm.testing.aot import PlainBatch

    mod, params = load(name)
    values = random_inputs(mod, params, seed)
    if as_c:
        wanted = outputs(relay.build(mod, "c -num-cores=1", params=params), values)
        with tempfile.TemporaryDirectory(prefix="tvm-aot-") as folder:
            runner = PlainBatch(Path(folder)).add(mod, params)
            for key, value in values.items():
                runner.set_input(key, value)
            runner.run()
            found = runner.found
    else:
        wanted = outputs(relay.build(mod, "llvm", params=params), values)
        found = outputs(relay.build(mod, "llvm", params=params, executor="aot"), values)
    return difference(wanted, found)


def difference(wanted: list, found: list) -> str:
    """Return "pass" if the outputs are equal, or their difference."""
    import numpy as np

    for number, (a, b) in enumerate(zip(wanted, found)):
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return f"output {number} differs"
    return "pass" if len(wanted) == len(found) else f"{len(found)} outputs, not {len(wanted)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="only models whose path contains this text")
    parser.add_argument("--seed", type=int, default=0, help="selects the inputs")
    args = parser.parse_args()
    failed = 0
    for name in (n for n in CASES if args.match in n):
        if not (MODELS / name).exists():
            print(f"{name}: not there")
            continue
        for kind in ("runtime", "C program", "bundle"):
            began = time.monotonic()
            is_bundle = kind == "bundle"
            result = compare_bundle(name, args.seed) if is_bundle else compare(name, args.seed, kind == "C program")
            failed += result != "pass"
            print(f"{name}, {kind}: {result} ({time.monotonic() - began:.1f} s)", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
