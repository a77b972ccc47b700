"""TorchScript whose inputs nobody gives shapes for: what the model's code takes decides."""

from __future__ import annotations

import io
from typing import List, Optional  # noqa: UP035

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from tests.relay.frontend.pytorch.support import array, run, same
from tvm import relay
from tvm.error import OpNotImplemented, TVMError
from tvm.relay import Any
from tvm.relay.frontend.common.importer import UnknownInput
from tvm.relay.frontend.pytorch import torchscript
from tvm.relay.frontend.pytorch.dynamic_inputs import UnknownShapes

CONV = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


def loaded(script):
    """A script as its file gives it: the shapes of a trace are gone."""
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file).eval()


def types(mod, params) -> dict[str, str]:
    return {p.name_hint: str(p.type_annotation) for p in mod["main"].params if p.name_hint not in params}


def checked(script, *calls, **arguments) -> dict[str, str]:
    """The types of the inputs; results are PyTorch's for each of the calls."""
    mod, params = relay.frontend.from_pytorch(script, **arguments)
    inputs = types(mod, params)
    for values in calls:
        given = {n: array(torch.as_tensor(v)) for n, v in zip(inputs, values)}
        same(run(mod, params, given, "vm"), [script(*values)])
    return inputs


@pytest.fixture
def imports(monkeypatch) -> list:
    """One entry for each import of a whole graph."""
    made: list = []
    start = torchscript.ScriptReader.__init__
    monkeypatch.setattr(torchscript.ScriptReader, "__init__", lambda self, *a: (made.append(self), start(self, *a))[1])
    return made


@pytest.mark.parametrize("layers, shape, size", [
    ([nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)], "(?, 4)", (4,)),
    ([nn.Linear(4, 8), nn.BatchNorm1d(8)], "(?, 4)", (4,)),
    (CONV, "(?, 3, ?, ?)", (3, 9, 7)),
    ([nn.Conv1d(3, 4, 3), nn.ReflectionPad1d((0, 2))], "(?, 3, ?)", (3, 8)),
    ([nn.Conv3d(3, 2, 2)], "(?, 3, ?, ?, ?)", (3, 4, 5, 6)),
    ([nn.ReLU()], "(?, ?)", (5,)),
])  # fmt: skip
def test_layers_say_how_many_dimensions_and_weights_what_sizes_an_input_has(layers, shape, size, imports):
    script = loaded(torch.jit.script(nn.Sequential(*layers).eval()))
    with torch.no_grad():
        found = checked(script, [torch.randn(1, *size)], [torch.randn(3, *size)])
    assert found == {"input": f"Tensor[{shape}, float32]"}
    assert len(imports) <= 4


def test_a_trace_that_was_saved_is_imported_like_a_script():
    script = loaded(torch.jit.trace(nn.Sequential(*CONV).eval(), torch.randn(1, 3, 8, 8)))
    with torch.no_grad():
        assert checked(script, [torch.randn(2, 3, 11, 6)]) == {"input": "Tensor[(?, 3, ?, ?), float32]"}


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4, 5), (1, 2, 2, 2, 2, 3)])
def test_a_model_of_any_rank_takes_the_rank_of_its_trace_or_the_given_one(shape):
    def model(x):
        return torch.relu(x) * 2

    wanted = f"Tensor[({', '.join('?' * len(shape))}), float32]" if shape else "float32"
    trace = torch.jit.trace(model, torch.randn(shape))
    assert checked(trace, [torch.randn([d + 1 for d in shape])]) == {"x": wanted}
    given = {"x": (Any(),) * len(shape)}
    assert checked(loaded(trace), [torch.randn(shape)], input_infos=given) == {"x": wanted}
    # A file has no rank; an input of another rank is rejected when the model runs.
    mod, params = relay.frontend.from_pytorch(loaded(trace))
    assert types(mod, params) == {"x": "Tensor[(?, ?), float32]"}
    with pytest.raises(TVMError, match=rf"'x' of function 'main' has {len(shape)} dimensions, but the model expects 2"):
        run(mod, params, {"x": array(torch.randn(shape))}, "vm")


def test_a_model_that_adds_a_dimension_to_one_sample_takes_a_batch():
    @torch.jit.script
    def softmax(x):
        if x.dim() == 1:
            x = x.unsqueeze(0)
        if x.dim() > 2:
            raise ValueError("Too many dimensions")
        return x.softmax(1)

    assert checked(softmax, [torch.randn(2, 5)]) == {"x": "Tensor[(?, ?), float32]"}

    @torch.jit.script
    def volumes(x):
        if x.dim() == 3:
            x = x.unsqueeze(0)
        return torch.max_pool2d(x, [2, 2])

    assert checked(volumes, [torch.randn(2, 3, 4, 4)]) == {"x": "Tensor[(?, ?, ?, ?), float32]"}


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
def test_an_exception_that_the_model_raises_rules_a_number_of_dimensions_out(rank, imports):
    def wanted(x, rank: int = rank):
        if x.dim() != rank:
            raise ValueError("other dimensions")
        return x * 2

    assert checked(torch.jit.script(wanted), [torch.randn([2] * rank)]) == {
        "x": f"Tensor[({', '.join('?' * rank)}), float32]" if rank else "float32"
    }
    assert len(imports) <= 6


def test_inputs_have_numbers_of_dimensions_of_their_own(imports):
    @torch.jit.script
    def several(image, q, bias):
        assert bias.dim() == 1
        return torch.conv2d(image, torch.ones(2, 3, 1, 1)).mean([2, 3]) + torch.bmm(q, q)[:, 0, :2] + bias

    inputs = torch.randn(4, 3, 5, 5), torch.randn(4, 6, 6), torch.randn(2)
    assert list(checked(several, inputs).values()) == [
        "Tensor[(?, 3, ?, ?), float32]",
        "Tensor[(?, ?, ?), float32]",
        "Tensor[(?), float32]",
    ]
    assert len(imports) <= 12


def test_indices_and_masks_have_their_types_numbers_are_inputs_and_defaults_are_taken():
    def every(x, at, hidden, scale: float, flag: bool, times: int = 2, other: Optional[torch.Tensor] = None):  # noqa: UP045
        y = x.gather(1, at.view(-1, 2)).masked_fill(hidden, 0.0) * times
        if flag:
            y = y * scale
        return y if other is None else y + other

    x, at, hidden = torch.randn(2, 3), torch.tensor([[0, 2], [1, 1]]), torch.tensor([[True, False], [False, False]])
    script = torch.jit.script(every)
    mod, params = relay.frontend.from_pytorch(script)
    assert list(types(mod, params).values()) == [
        "Tensor[(?, ?), float32]",
        "Tensor[(?, ?), int64]",
        "Tensor[(?, ?), bool]",
        "float64",
        "bool",
    ]
    given = {"x": array(x), "at": array(at), "hidden": array(hidden), "scale": np.float64(3)}
    for flag in (True, False):
        same(run(mod, params, {**given, "flag": np.bool_(flag)}, "vm"), [script(x, at, hidden, 3.0, flag)])


def test_some_shapes_may_be_given():
    @torch.jit.script
    def product(x, y):
        return x @ y

    given = {"y": (4, 5)}
    found = checked(product, [torch.randn(3, 4), torch.randn(4, 5)], input_infos=given)
    assert found == {"x": "Tensor[(?, 4), float32]", "y": "Tensor[(4, 5), float32]"}
    with pytest.raises(UnknownInput, match="the model has 2 inputs"):
        relay.frontend.from_pytorch(product, {"z": (4, 5)})
    with pytest.raises(TypeError, match="must be a list of .name, shape. or a dictionary"):
        relay.frontend.from_pytorch(product, "x")


def test_inputs_that_nothing_decides_are_refused_with_their_names(imports):
    def nine(x):
        if x.dim() < 9:
            raise ValueError("nine dimensions are wanted")
        return x

    with pytest.raises(UnknownShapes, match="shape of 'x', and the import failed for all ranks .*nine dim") as error:
        relay.frontend.from_pytorch(torch.jit.script(nine))
    assert error.value.names == ["x"] and len(imports) == 6

    def joined(parts: List[torch.Tensor]):  # noqa: UP006
        return torch.cat(parts)

    def zeta(x):
        return torch.special.zeta(x, x)

    with pytest.raises(TVMError, match=r"the input 'parts' is a List\[Tensor\], .*; pass the shape of each field"):
        relay.frontend.from_pytorch(torch.jit.script(joined))
    with pytest.raises(OpNotImplemented, match="special_zeta"):
        relay.frontend.from_pytorch(torch.jit.script(zeta))


class Counting(nn.Module):
    """A number, a tensor that grows from none, and a running sum that data may clear."""

    def __init__(self):
        super().__init__()
        self.calls: int = 0
        self.last = torch.zeros([0])
        self.total = torch.zeros(3)

    def forward(self, x, again: bool):
        if again:
            self.calls = 0
            self.last = torch.zeros([0])
            self.total = torch.zeros(3)
        if len(self.last) == 0:
            self.last = torch.zeros(x.size(0), 3)
        self.calls += 1
        self.total = self.total * 0.5 + x.sum(0)
        self.last = self.last + x
        return self.total * self.calls + self.last


def test_state_becomes_inputs_and_results_without_being_named():
    model = torch.jit.script(Counting())
    mod, params = relay.frontend.from_pytorch(model)
    assert types(mod, params) == {
        "x": "Tensor[(?, ?), float32]",
        "again": "bool",
        "calls": "int64",
        "last": "Tensor[(?, 3), float32]",
        "total": "Tensor[(3), float32]",
    }
    state = {"calls": np.int64(0), "last": np.zeros((0, 3), "float32"), "total": np.zeros(3, "float32")}
    for again, rows in ((False, 2), (False, 2), (True, 4), (False, 4), (True, 1)):
        x = torch.randn(rows, 3)
        got, *left = run(mod, params, {"x": array(x), "again": np.bool_(again), **state}, "vm")
        same([got], [model(x, again)])
        state = dict(zip(state, left))
        same(left[1:], [model.last, model.total])
        assert left[0] == model.calls
