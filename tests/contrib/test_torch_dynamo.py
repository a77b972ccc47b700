"""``torch.compile`` with PyTorch's own back end for TVM, and with ours."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from tvm.contrib.torch import pytvm
from tvm.contrib.torch.dynamo import CompiledGraph
from tvm.error import TVMError


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x))).mean((2, 3))
        return self.last(y), y.sum() > 0


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["tvm", pytvm])
def test_a_compiled_model_gives_what_pytorch_gives(backend):
    model, x = Network().eval(), torch.randn(2, 3, 9, 7)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for got, want in zip(compiled(x), model(x)):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_a_changed_weight_is_seen():
    model, x = Network().eval(), torch.randn(2, 3, 9, 7)
    compiled = torch.compile(model, backend=pytvm)
    with torch.no_grad():
        compiled(x)
        model.last.bias.add_(1.0)
        torch.testing.assert_close(compiled(x)[0], model(x)[0], rtol=1e-4, atol=1e-5)


def test_one_compile_serves_every_batch(monkeypatch):
    made = []
    whole = CompiledGraph._compiled
    monkeypatch.setattr(CompiledGraph, "_compiled", lambda self, values: made.append(self) or whole(self, values))
    model = Network().eval()
    compiled = torch.compile(model, backend=pytvm, dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 5):
            x = torch.randn(batch, 3, 9, 7)
            torch.testing.assert_close(compiled(x)[0], model(x)[0], rtol=1e-4, atol=1e-5)
    assert len(made) == 1


def test_results_of_one_run_are_not_overwritten_by_the_next():
    model = torch.nn.Linear(4, 4).eval()
    compiled = torch.compile(model, backend=pytvm)
    with torch.no_grad():
        x = torch.randn(3, 4)
        first = compiled(x)
        kept = first.clone()
        compiled(x + 1)
    assert torch.equal(first, kept)


def test_a_graph_that_cannot_be_compiled_runs_in_pytorch_with_a_warning():
    def function(x):
        return torch.linalg.svdvals(x) + 1

    x = torch.randn(3, 3)
    with pytest.warns(UserWarning, match="(?s)pytvm: a graph runs in PyTorch.*svd"):
        got = torch.compile(function, backend=pytvm)(x)
    torch.testing.assert_close(got, function(x))


def test_gradients_are_those_of_pytorch():
    model, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.compile(model, backend=pytvm)(x).square().sum().backward()
    got = model.weight.grad.clone()
    model.zero_grad()
    model(x).square().sum().backward()
    torch.testing.assert_close(got, model.weight.grad, rtol=1e-4, atol=1e-5)


def test_an_unknown_option_is_refused():
    with pytest.raises(Exception, match="there is no option 'speed'") as found:
        torch.compile(torch.nn.ReLU(), backend=pytvm, options={"speed": 3})(torch.ones(2))
    assert isinstance(found.value, TVMError) or "TVMError" in repr(found.value)
