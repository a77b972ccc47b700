"""TorchScript that keeps state in attributes: what a run finds is an input, what it leaves a result."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm
from tests.relay.frontend.pytorch.support import array, flat, run
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import TVMError
from tvm.relay.frontend.common.importer import UnknownInput


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.total = torch.zeros(2)

    def forward(self, x):
        self.total = self.total * 0.5 + x
        return self.total


class Running(torch.nn.Module):
    """A running sum in a submodule, a number that says whether there was a call before."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.size: int = 0

    def forward(self, x):
        if self.size != 0 and self.size != x.shape[0]:
            self.inner.total = torch.zeros(2)
        self.size = x.shape[0]
        return self.inner(x) + 1


INFOS = [("x", (2,)), ("inner.total", (2,)), ("size", 2)]


def test_state_becomes_an_input_and_a_result():
    model, state = Running().eval(), np.zeros(2, "float32")
    mod, params = relay.frontend.from_pytorch(torch.jit.script(model), INFOS)
    for _ in range(3):
        x = torch.randn(2)
        got, state = run(mod, params, {"x": array(x), "inner.total": state})
        want = model(x)
        np.testing.assert_allclose(got, array(want), rtol=1e-6)
        np.testing.assert_allclose(state, array(model.inner.total), rtol=1e-6)


def test_state_that_is_not_named_is_refused_with_what_to_name():
    script = torch.jit.script(Running())
    with pytest.raises(TVMError, match=r"'inner.total'; add it to input_infos after the inputs, as \('inner.total', "):
        relay.frontend.from_pytorch(script, [INFOS[0], INFOS[2]])
    with pytest.raises(TVMError, match="changes its attribute 'size' from 0 to 2"):
        relay.frontend.from_pytorch(script, INFOS[:2])
    with pytest.raises(UnknownInput, match="entries after the inputs must be attributes that contain state"):
        relay.frontend.from_pytorch(script, [*INFOS, ("missing", (2,))])


class Chosen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.best = torch.zeros(2)

    def forward(self, x):
        if bool(x.sum() > self.best.sum()):
            self.best = x
        return self.best * 2


class Looping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.best = torch.zeros(2)

    def forward(self, x):
        for _ in range(int(x.sum())):
            self.best = self.best + x
        return self.best


def test_data_decides_on_state():
    model, state = torch.jit.script(Chosen()), np.zeros(2, "float32")
    mod, params = relay.frontend.from_pytorch(model, [("x", (2,)), ("best", (2,))])
    for values in ([1.0, 2.0], [2.0, -3.0], [4.0, 5.0]):
        x = torch.tensor(values)
        got, state = run(mod, params, {"x": array(x), "best": state}, "vm")
        np.testing.assert_array_equal(got, array(model(x)))
        np.testing.assert_array_equal(state, array(model.best))


def test_state_that_a_loop_of_an_unknown_course_changes_is_refused():
    with pytest.raises(TVMError, match="in a loop with a run-time number of iterations"):
        relay.frontend.from_pytorch(torch.jit.script(Looping()), [("x", (2,)), ("best", (2,))])


def _model_file() -> Path | None:
    """The voice detector: under TVM_TEST_MODELS, or in shared/models of a folder above."""
    roots = (
        [Path(os.environ["TVM_TEST_MODELS"])]
        if os.environ.get("TVM_TEST_MODELS")
        else [folder / "shared" / "models" for folder in Path(__file__).resolve().parents]
    )
    found = [root / "formats" / "torchscript" / "silero_vad.jit" for root in roots]
    return next((path for path in found if path.is_file()), None)


@pytest.mark.skipif(_model_file() is None, reason="the trained models are not beside the checkout")
def test_a_voice_detector_gives_what_pytorch_gave():
    path = _model_file()
    assert path is not None
    data = np.load(path.with_suffix(".npz"))
    infos = [
        ("x", (1, 512)),
        ("sr", 16000),
        ("_state", (2, 1, 128)),
        ("_context", (1, 64)),
        ("_last_sr", 16000),
        ("_last_batch_size", 1),
    ]
    mod, params = relay.frontend.from_pytorch(torch.jit.load(str(path), map_location="cpu").eval(), infos)
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    state, context = np.zeros((2, 1, 128), "float32"), np.zeros((1, 64), "float32")
    for x, want in zip(data["in_x"], data["out_0"]):
        module.run(x=x, _state=state, _context=context)
        got, state, context = (module.get_output(i).numpy() for i in range(3))
        np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.skipif(_model_file() is None, reason="the trained models are not beside the checkout")
def test_a_voice_detector_without_shapes_takes_both_rates_and_any_batch():
    """State begins anew where the rate or the batch changes, as in PyTorch."""
    model = torch.jit.load(str(_model_file()), map_location="cpu").eval()
    mod, params = relay.frontend.from_pytorch(model)
    with tvm.transform.PassContext(opt_level=3):
        machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, target="llvm", params=params), tvm.cpu())
    start = {
        "_context": np.zeros((0, 0), "float32"),
        "_state": np.zeros((0, 0, 128), "float32"),
        "_last_sr": np.int64(0),
        "_last_batch_size": np.int64(0),
    }
    names = [p.name_hint for p in mod["main"].params if p.name_hint not in params]
    assert names == ["x", "sr", *start]

    def step(x, rate: int, state: dict) -> tuple[np.ndarray, dict]:
        given = {"x": array(x), "sr": np.int64(rate), **state}
        got, *left = flat(machine.run(*[tvm.nd.array(np.asarray(given[n])) for n in names]))
        return got, dict(zip(state, left))

    model.reset_states()
    state = start
    for rate, batch, size in (
        (16000, 1, 512),
        (16000, 1, 512),
        (16000, 3, 512),
        (8000, 3, 256),
        (8000, 3, 256),
        (8000, 1, 256),
        (48000, 1, 1536),
        (16000, 1, 512),
    ):
        x = torch.randn(batch, size) * 0.3
        got, state = step(x, rate, state)
        np.testing.assert_allclose(got, array(model(x, rate)), atol=1e-5)
        np.testing.assert_allclose(state["_state"], array(model._state), atol=1e-5)
        np.testing.assert_array_equal(state["_context"], array(model._context))
        assert (state["_last_sr"], state["_last_batch_size"]) == (model._last_sr, model._last_batch_size)
    for rate, size, words in (
        (8000, 512, "Provided number of samples"),
        (16000, 500, "chunk is too short"),
        (11025, 512, "Supported sampling rates"),
        (-16000, 512, "step of a slice"),
    ):
        with pytest.raises(TVMError, match=words):
            step(torch.zeros(1, size), rate, start)
