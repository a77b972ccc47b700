"""Whole models through the importer, against onnxruntime. They lie beside the checkout, in shared/models."""

from __future__ import annotations

import os

import numpy as np
import pytest
from model_files import model_file

import tvm
from tests.cpus import IS_X86
from tests.speed import loops
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.frontend import from_onnx
from tvm.topi.cpu.dot_products import lanes

pytest.importorskip("onnx")


def compare(name: str, shape: dict, rng, check) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = str(model_file(name))
    module, params = from_onnx(path, shape=shape)
    lib = relay.build(module, "llvm", params=params)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {}
    for value in session.get_inputs():
        dims = shape.get(value.name, value.shape)
        if "int32" in value.type:
            feed[value.name] = rng.integers(0, 256, dims).astype("int32")
        else:
            feed[value.name] = rng.random(dims, dtype="float32")
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    executor.run(**feed)
    for i, want in enumerate(session.run(None, feed)):
        check(executor.get_output(i).numpy(), want)


def close(got, want) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_a_model_agrees_with_onnxruntime(rng):
    compare("onnx/magika.onnx", {"bytes": [1, 2048]}, rng, close)


LARGER = {
    "onnx/ultraface_rfb320.onnx": {},
    "onnx/ppocr_cls.onnx": {"x": [1, 3, 48, 192]},
    "onnx/ppocr_v4_det.onnx": {"x": [1, 3, 64, 96]},
    "imagenet/mobilenet_v2.onnx": {"data": [1, 3, 224, 224]},
    "imagenet/resnet50.onnx": {"input_1": [1, 224, 224, 3]},
}


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_larger_model_agrees_with_onnxruntime(rng):
    """Every seed has another one; TVM_CONFORMANCE_CASES=all has all of them."""
    for name in LARGER if os.environ.get("TVM_CONFORMANCE_CASES") else [str(rng.choice(list(LARGER)))]:
        compare(name, LARGER[name], rng, close)


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.usefixtures("quick_code")
def test_the_quantized_model_agrees_within_one_step_when_fully_optimized(rng):
    """onnxruntime computes with integers; sums that fall halfway between two steps must go to the same side, or 50
    layers make that four steps. On x86 it adds all constant parts first, in single precision, which brings some sums
    from just below the middle to above it; on CPUs without dot products of bytes it saturates sums of two products as
    well."""
    runtime = pytest.importorskip("onnxruntime")
    path = str(model_file("onnx/mobilenet_v2_int8_qdq.onnx"))
    module, params = from_onnx(path, shape={"image": [1, 3, 244, 244]})
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(module, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    steps = (4 if lanes(tvm.target.Target("llvm")) else 10) if IS_X86 else 1
    for _ in range(3):
        image = rng.standard_normal((1, 3, 244, 244)).astype("float32")
        executor.run(image=image)
        want = session.run(None, {"image": image})[0]
        step = np.diff(np.unique(want)).min()
        np.testing.assert_allclose(executor.get_output(0).numpy(), want, rtol=0, atol=1.01 * steps * step)


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_the_style_model_agrees_as_closely_as_onnxruntime_does_with_itself(rng):
    """Fifteen instance normalizations enlarge the last digit of every convolution: onnxruntime's own runs with and
    without graph optimizations leave the tolerance in up to three values in a million. What is tested is that
    ours leaves it in fewer than a hundred in a million; planes summed in another order give 1,200."""
    runtime = pytest.importorskip("onnxruntime")
    path = str(model_file("onnx/style_candy.onnx"))
    pixels = rng.integers(0, 256, (1, 3, 720, 720)).astype("float32")
    module, params = from_onnx(path, shape={"inputImage": list(pixels.shape)})
    lib = relay.build(module, "llvm", params=params)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    executor.run(inputImage=pixels)
    got = executor.get_output(0).numpy()
    want = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"inputImage": pixels})[0]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-2)
    assert np.mean(~np.isclose(got, want, rtol=1e-3, atol=1e-4)) < 1e-4


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_one_program_detects_voices_at_both_rates_with_its_state_carried(rng):
    """Branches for 8 and 16 kHz, and in each of them tensors whose rank and size the run decides."""
    runtime = pytest.importorskip("onnxruntime")
    path = str(model_file("onnx/silero_vad.onnx"))
    module, params = from_onnx(path, shape={"input": [1, relay.Any()], "state": [2, 1, 128]})
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(module, "llvm", params=params), tvm.cpu())
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for rate, size in ((16000, 576), (8000, 288), (8000, 256)):
        ours = theirs = np.zeros((2, 1, 128), "float32")
        for _ in range(3):
            sound = (rng.standard_normal((1, size)) / 3).astype("float32")
            machine.set_input("main", input=sound, state=ours, sr=np.array(rate))
            voice, ours = (r.numpy() for r in machine.invoke("main"))
            want, theirs = session.run(None, {"input": sound, "state": theirs, "sr": np.array(rate)})
            np.testing.assert_allclose(voice, want, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_a_branch_that_contradicts_the_given_shapes_is_refused_clearly():
    """The length for 16 kHz does not fit the branch for 8 kHz."""
    with pytest.raises(tvm.error.TVMError, match="If node 'If_0': the condition is computed at run time"):
        from_onnx(str(model_file("onnx/silero_vad.onnx")), shape={"input": [1, 576], "state": [2, 1, 128]})


def test_import_alone_is_quick():
    """Types are kept node by node: importing takes time in proportion to the model."""
    path = str(model_file("imagenet/resnet50.onnx"))
    assert loops(lambda: from_onnx(path, shape={"input_1": [1, 224, 224, 3]})) < 40
