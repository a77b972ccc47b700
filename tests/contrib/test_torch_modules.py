"""Compiled models and functions as modules of PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tvm import relay, te
from tvm.contrib.torch import as_torch, compile, optimize_torch
from tvm.error import TVMError


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 3)

    def forward(self, x, y):
        return torch.relu(self.layer(x)) + y, x.sum()


def inputs():
    torch.manual_seed(3)
    return Network().eval(), (torch.randn(4, 5), torch.randn(4, 3))


def test_a_traced_model_gives_what_pytorch_gives():
    model, given = inputs()
    compiled = optimize_torch(model, given)
    assert isinstance(compiled, torch.nn.Module)
    for shift in (0, 1):
        other = tuple(v + shift for v in given)
        for got, want in zip(compiled(*other), model(*other)):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    single = optimize_torch(torch.jit.script(torch.nn.ReLU()), given[0], {"opt_level": 1}, target="llvm")
    torch.testing.assert_close(single(given[0]), given[0].relu())


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_saved_model_gives_the_same_results_when_it_is_loaded(tmp_path, is_dynamic):
    model, given = inputs()
    if is_dynamic:
        infos = [("x", (relay.Any(), 5)), ("y", (relay.Any(), 3))]
        compiled = compile(torch.jit.trace(model, given), {"input_infos": infos})
    else:
        compiled = optimize_torch(model, given)
    torch.save(compiled, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    torch.save(loaded, tmp_path / "again.pt")
    for one in (loaded, torch.load(tmp_path / "again.pt", weights_only=False)):
        for got, want in zip(one(*given), compiled(*given)):
            torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_a_script_is_compiled_by_its_options():
    model, given = inputs()
    script = torch.jit.trace(model, given)
    compiled = compile(script, {"input_infos": [("x", (4, 5)), ("y", (4, 3))], "target": "llvm"})
    torch.testing.assert_close(compiled(*given)[0], model(*given)[0], rtol=1e-5, atol=1e-5)


def test_a_function_writes_into_the_tensors_it_is_given():
    a = te.placeholder((6,), name="a")
    b = te.compute((6,), lambda i: a[i] * 2.0 + 1.0, name="b")
    twice = as_torch(te.create_prim_func([a, b]))
    x, out = torch.arange(6.0), torch.zeros(6)
    twice(x, out)
    torch.testing.assert_close(out, x * 2 + 1)
    with pytest.raises(TVMError, match="expected contiguous tensors"):
        twice(torch.zeros(12)[::2], out)


def test_what_cannot_be_compiled_is_refused():
    model, given = inputs()
    script = torch.jit.trace(model, given)
    for option, words in (({}, "input_infos is missing"), ({"input_infos": [], "num_outputs": 8}, "num_outputs"),
                          ({"input_infos": [], "target": "opencl"}, "no tensors for the target")):  # fmt: skip
        with pytest.raises(TVMError, match=words):
            compile(script, option)
    with pytest.raises(TVMError, match="unknown option 'trials'"):
        optimize_torch(model, given, {"trials": 8})
    with pytest.raises(TypeError, match="a PrimFunc or an IRModule, got Network"):
        as_torch(model)
