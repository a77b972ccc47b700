"""Control flow and data-dependent sizes on a GPU, compared with onnxruntime: a recurrence as a loop whose number of
steps is known only at run time, and the non-maximum suppression of a detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..vm_models import recurrence


def suppression() -> Any:
    """Return the boxes that non-maximum suppression keeps, at most five of a class."""
    import onnx
    from onnx import helper, numpy_helper

    def const(name: str, value: Any) -> Any:
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))

    info = helper.make_tensor_value_info
    nodes = [
        const("most", [5]), const("iou", np.float32([0.4])), const("score", np.float32([0.3])), const("two", [2]),
        const("flat", [-1]), const("first", [0]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "score"], ["picked"]),
        helper.make_node("Gather", ["picked", "two"], ["column"], axis=1),
        helper.make_node("Reshape", ["column", "flat"], ["places"]),
        helper.make_node("Squeeze", ["boxes", "first"], ["all"]),
        helper.make_node("Gather", ["all", "places"], ["out"], axis=0),
    ]  # fmt: skip
    inputs = [info("boxes", onnx.TensorProto.FLOAT, [1, "n", 4]), info("scores", onnx.TensorProto.FLOAT, [1, "c", "n"])]
    graph = helper.make_graph(nodes, "suppression", inputs, [info("out", onnx.TensorProto.FLOAT, ["k", 4])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def boxes(rng: np.random.Generator, count: int, classes: int) -> dict[str, np.ndarray]:
    corner = rng.random((1, count, 2), dtype="float32")
    far = corner + 0.1 + 0.4 * rng.random((1, count, 2), dtype="float32")
    return {"boxes": np.concatenate([corner, far], 2), "scores": rng.random((1, classes, count), dtype="float32")}


def cases() -> dict[str, tuple[Any, list[dict[str, np.ndarray]]]]:
    rng = np.random.default_rng(0)
    steps = [{"x": rng.standard_normal((s, n, 64), dtype="float32")} for s, n in ((3, 1), (40, 2), (1, 4))]
    found = [boxes(rng, count, classes) for count, classes in ((8, 1), (100, 3), (1000, 2))]
    loops = {kind: (recurrence(kind, 64), steps) for kind in ("lstm", "gru")}
    return {**loops, "nms": (suppression(), found)}


def check(target: str, say: Callable[[dict], None]) -> None:
    """Compile each model once, run it at every size on the device, and report the comparison."""
    for name, (model, inputs) in cases().items():
        try:
            for row in compared(model, inputs, target):
                say({"check": name, **row})
        except Exception as problem:
            say({"check": name, "failed": f"{type(problem).__name__}: {str(problem)[-1500:]}"})


def compared(model: Any, inputs: list[dict[str, np.ndarray]], target: str) -> Iterator[dict]:
    """Return for each size whether the output equals that of onnxruntime."""
    import onnxruntime

    import tvm
    from tvm import relay

    device = tvm.device(target.split()[0], 0)
    mod, params = relay.frontend.from_onnx(model)
    with tvm.transform.PassContext(opt_level=3):
        made = relay.vm.compile(mod, tvm.target.Target(target, host="llvm"), params=params)
    machine = tvm.runtime.vm.VirtualMachine(made, device)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feeds in inputs:
        (wanted,) = session.run(None, feeds)
        machine.set_input("main", **{k: tvm.nd.array(v, device) for k, v in feeds.items()})
        got = machine.run().numpy()
        good = got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-3, atol=1e-3)
        yield {"shapes": {k: v.shape for k, v in feeds.items()}, "result": got.shape, "good": bool(good)}


__all__ = ["check"]
