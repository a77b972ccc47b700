"""TorchScript that keeps state in attributes: what a run finds is an input, what it leaves a result."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm
from tests.relay.frontend.pytorch.support import array, run
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
    with pytest.raises(TVMError, match=r"'inner.total'; name it in input_infos after the inputs, as \('inner.total', "):
        relay.frontend.from_pytorch(script, [INFOS[0], INFOS[2]])
    with pytest.raises(TVMError, match="changes its attribute 'size' from 0 to 2"):
        relay.frontend.from_pytorch(script, INFOS[:2])
    with pytest.raises(UnknownInput, match="those after the inputs must be attributes that hold state"):
        relay.frontend.from_pytorch(script, [*INFOS, ("missing", (2,))])


def test_state_that_data_decides_on_is_refused():
    class Chosen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.best = torch.zeros(2)

        def forward(self, x):
            if bool(x.sum() > self.best.sum()):
                self.best = x
            return self.best

    with pytest.raises(TVMError, match="in a branch that data decides on"):
        relay.frontend.from_pytorch(torch.jit.script(Chosen()), [("x", (2,)), ("best", (2,))])


def _model_file() -> Path | None:
    """The voice detector: under TVM_TEST_MODELS, or in shared/models of a folder above."""
    roots = [Path(os.environ["TVM_TEST_MODELS"])] if os.environ.get("TVM_TEST_MODELS") else [
        folder / "shared" / "models" for folder in Path(__file__).resolve().parents]
    found = [root / "formats" / "torchscript" / "silero_vad.jit" for root in roots]
    return next((path for path in found if path.is_file()), None)


@pytest.mark.skipif(_model_file() is None, reason="the models of the issues are not beside the checkout")
def test_a_voice_detector_gives_what_pytorch_gave():
    path = _model_file()
    assert path is not None
    data = np.load(path.with_suffix(".npz"))
    infos = [("x", (1, 512)), ("sr", 16000), ("_state", (2, 1, 128)), ("_context", (1, 64)), ("_last_sr", 16000),
             ("_last_batch_size", 1)]
    mod, params = relay.frontend.from_pytorch(torch.jit.load(str(path), map_location="cpu").eval(), infos)
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    state, context = np.zeros((2, 1, 128), "float32"), np.zeros((1, 64), "float32")
    for x, want in zip(data["in_x"], data["out_0"]):
        module.run(x=x, _state=state, _context=context)
        got, state, context = (module.get_output(i).numpy() for i in range(3))
        np.testing.assert_allclose(got, want, rtol=1e-4)
