"""``torch.compile`` with PyTorch's own back end for TVM, and with ours."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm
from tvm import relay
from tvm.contrib.torch import tvm_classic
from tvm.contrib.torch.dynamo import CompiledGraph
from tvm.contrib.torch.options import Options
from tvm.error import TVMError


def tvm_classic_with(options, graph, inputs):
    """The back end with options of another kind."""
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=lambda inner, given: CompiledGraph(inner, given, options).boxed())(graph, inputs)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x))).mean((2, 3))
        return self.last(y), y.sum() > 0


DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.slow("PyTorch traces a whole model")
@pytest.mark.parametrize("backend", ["tvm", tvm_classic])
def test_a_compiled_model_gives_what_pytorch_gives(backend):
    if backend == "tvm" and "tvm.relax" in inspect.getsource(importlib.import_module("torch._dynamo.backends.tvm")):
        pytest.skip("the back end 'tvm' of this PyTorch needs Relax, the IR after Relay; 'tvm_classic' needs none")
    model, x = Network().eval(), torch.randn(2, 3, 9, 7)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for got, want in zip(compiled(x), model(x)):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"cuda_graphs": False}])
@pytest.mark.parametrize("device", DEVICES)
def test_a_model_runs_where_its_tensors_lie(device, options):
    model, x = Network().eval().to(device), torch.randn(2, 3, 9, 7, device=device)
    compiled = torch.compile(model, backend=tvm_classic, options=options)
    with torch.no_grad():
        for shift in (0, 1, 2):
            for got, want in zip(compiled(x + shift), model(x + shift)):
                assert got.device == want.device
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_runs_on_the_stream_that_pytorch_works_on(device):
    model, x = Network().eval().to(device), torch.randn(2, 3, 9, 7, device=device)
    compiled = torch.compile(model, backend=tvm_classic)
    side = contextlib.nullcontext()
    if device == "cuda":
        torch.cuda.synchronize()
        side = torch.cuda.stream(torch.cuda.Stream())
    with torch.no_grad(), side:
        for shift in (0, 1, 2):
            torch.testing.assert_close(compiled(x + shift)[0], model(x + shift)[0], rtol=1e-4, atol=1e-5)


def test_a_model_in_half_precision_gives_results_of_its_own_type():
    model, x = Network().eval(), torch.randn(2, 3, 9, 7)
    compiled = torch.compile(model, backend=tvm_classic, options={"precision": "float16"})
    with torch.no_grad():
        got, want = compiled(x)[0], model(x)[0]
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
    assert not torch.equal(got, want)


def test_a_model_of_half_precision_is_computed_in_it_on_a_gpu():
    found = []
    model, x = Network().eval().half(), torch.randn(2, 3, 9, 7).half()

    class Seen(Options):
        def converted(self, mod, device):
            found.append(str(super().converted(mod, "cuda")))
            return super().converted(mod, device)

    with torch.no_grad():
        got = torch.compile(model, backend=lambda graph, inputs: tvm_classic_with(Seen(), graph, inputs))(x)[0]
        torch.testing.assert_close(got, model(x)[0], rtol=1e-2, atol=1e-2)
    # The convolution reads the input as it is, and the norm the convolution.
    assert re.search(r'nn.conv2d\(%arg\w+, .*out_dtype="float16"', found[0])
    assert re.search(r"nn.batch_norm\(%\d+, .*float16", found[0])


def test_attention_of_half_precision_moves_its_operands_without_casts_on_a_gpu():
    """A matmul reads an operand where it lies only if nothing but moves is between."""
    x = relay.var("x", shape=(1, 8, 2, 4), dtype="float16")
    wide = relay.reshape(relay.transpose(relay.cast(x, "float32"), [0, 2, 1, 3]), (2, 8, 4))
    scores = relay.cast(relay.nn.batch_matmul(wide, wide), "float16")
    mod = Options().converted(tvm.IRModule.from_expr(relay.Function([x], scores)), "cuda")
    assert "float32" not in str(mod).replace('out_dtype="float32"', "").partition("nn.batch_matmul")[0]
    data = np.random.RandomState(0).uniform(-1, 1, (1, 8, 2, 4)).astype("float16")
    got = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(data).numpy()
    rows = data.astype("float64").transpose(0, 2, 1, 3).reshape(2, 8, 4)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, rows @ rows.transpose(0, 2, 1), rtol=2e-3, atol=2e-3)


@pytest.mark.slow("starts TorchDynamo")
def test_types_that_decompositions_promote_are_converted():
    """Graphs of bfloat16 models hold this operator where PyTorch decomposes others."""

    def promoted(x):
        wide = torch.ops.prims.convert_element_type(x, torch.float32)
        return torch.ops.prims.convert_element_type(wide * 3, torch.bfloat16), wide > 0

    x = torch.randn(3, 4).bfloat16()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = torch.compile(promoted, backend=tvm_classic)(x)
    for value, want in zip(got, promoted(x)):
        torch.testing.assert_close(value, want, rtol=0, atol=0)


@pytest.mark.slow("compiles a graph with dynamic sizes")
def test_a_sum_of_dynamic_sizes_is_converted():
    """PyTorch adds three or more sizes, as those of joined tensors, with one operator."""

    def scaled(x, y):
        return x * torch.sym_sum([x.shape[0], y.shape[0], 2, y.shape[1]])

    compiled = torch.compile(scaled, backend=tvm_classic, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (3, 5):
            x, y = torch.randn(rows, 2), torch.randn(rows + 1, 4)
            torch.testing.assert_close(compiled(x, y), scaled(x, y))


def test_compiled_kernels_are_found_by_the_next_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("TVM_NO_CACHE", raising=False)
    model, x = torch.nn.Linear(5, 7).eval(), torch.randn(3, 5)
    for _ in range(2):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend=tvm_classic)(x), model(x), rtol=1e-4, atol=1e-5)
        assert len(list((tmp_path / "kept").glob("*.lib"))) == 1


def test_a_changed_weight_is_seen():
    model, x = Network().eval(), torch.randn(2, 3, 9, 7)
    compiled = torch.compile(model, backend=tvm_classic)
    with torch.no_grad():
        compiled(x)
        model.last.bias.add_(1.0)
        torch.testing.assert_close(compiled(x)[0], model(x)[0], rtol=1e-4, atol=1e-5)


def test_a_weight_with_other_memory_is_seen():
    model, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
    compiled = torch.compile(model, backend=tvm_classic)
    with torch.no_grad():
        compiled(x)
        model.weight.data = model.weight.data + 1
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_one_compile_serves_every_batch(monkeypatch):
    made = []
    whole = CompiledGraph._compiled
    monkeypatch.setattr(CompiledGraph, "_compiled", lambda self, values: made.append(self) or whole(self, values))
    model = Network().eval()
    compiled = torch.compile(model, backend=tvm_classic, dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 5):
            x = torch.randn(batch, 3, 9, 7)
            torch.testing.assert_close(compiled(x)[0], model(x)[0], rtol=1e-4, atol=1e-5)
    assert len(made) == 1


def test_results_of_one_run_are_not_overwritten_by_the_next():
    model = torch.nn.Linear(4, 4).eval()
    compiled = torch.compile(model, backend=tvm_classic)
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
    with pytest.warns(UserWarning, match="(?s)tvm_classic: a graph could not be compiled.*svd"):
        got = torch.compile(function, backend=tvm_classic)(x)
    torch.testing.assert_close(got, function(x))


def test_gradients_are_those_of_pytorch():
    model, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.compile(model, backend=tvm_classic)(x).square().sum().backward()
    got = model.weight.grad.clone()
    model.zero_grad()
    model(x).square().sum().backward()
    torch.testing.assert_close(got, model.weight.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speed": 3}, "unknown option 'speed'"),
        ({"opt_level": "3"}, "opt_level must be an integer"),
        ({"precision": "int8"}, "the option precision must be one of float32, float16, bfloat16"),
        ({"tuning_records": "missing.log"}, "the option tuning_records: 'missing.log' is not a file"),
    ],
)
def test_an_option_that_is_not_known_is_refused(options, words):
    with pytest.raises(Exception, match=words) as found:
        torch.compile(torch.nn.ReLU(), backend=tvm_classic, options=options)(torch.ones(2))
    assert isinstance(found.value, TVMError) or "TVMError" in repr(found.value)


def test_a_target_of_another_device_is_refused():
    with pytest.warns(UserWarning, match="the option target is 'cuda', but the graph's tensors are on"):
        torch.compile(torch.nn.ReLU(), backend=tvm_classic, options={"target": "cuda"})(torch.ones(2))


def test_tuning_records_are_applied_while_compiling(tmp_path, monkeypatch):
    """Records of a matmul, whose history is asked for the kernel's configuration."""
    from tvm.autotvm.task.dispatcher import ApplyHistoryBest

    asked = []
    whole = ApplyHistoryBest._query_inside
    monkeypatch.setattr(ApplyHistoryBest, "_query_inside", lambda *args: asked.append(args[2]) or whole(*args))
    path = tmp_path / "records.json"
    path.write_text("")
    model = torch.nn.Linear(5, 7).eval()
    with torch.no_grad():
        torch.compile(model, backend=tvm_classic, options={"tuning_records": str(path)})(torch.randn(3, 5))
    assert asked
