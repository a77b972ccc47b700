"""Tuples and lists of tensors as inputs of TorchScript: one parameter of tuple type."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.driver import tvmc
from tvm.error import TVMError
from tvm.runtime.vm import VirtualMachine

torch = pytest.importorskip("torch")


class Cell(torch.nn.Module):
    """A step of an LSTM, whose state is a tuple."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell = torch.nn.LSTMCell(3, 4)

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        return self.cell(x, state)


class Sum(torch.nn.Module):
    """Of the tensors of a list."""

    def forward(self, parts: list[torch.Tensor]):
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


def arrays(*shapes) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def expected(model, *args) -> list[np.ndarray]:
    given = [tuple(map(torch.tensor, a)) if isinstance(a, tuple) else torch.tensor(a) for a in args]
    with torch.no_grad():
        return [v.numpy() for v in model(*given)]


SHAPES = [("x", (2, 3)), ("state", ((2, 4), (2, 4)))]


def scripts():
    model = Cell().eval()
    example = (torch.zeros(2, 3), (torch.zeros(2, 4), torch.zeros(2, 4)))
    return {"trace": torch.jit.trace(model, example), "script": torch.jit.script(model)}


@pytest.mark.parametrize("way", ["trace", "script"])
def test_a_tuple_is_one_parameter(way):
    script = scripts()[way]
    mod, params = relay.frontend.from_pytorch(script, SHAPES)
    tensor = relay.TensorType((2, 4), "float32")
    types = {p.name_hint: p.type_annotation for p in mod["main"].params}
    assert tvm.ir.structural_equal(types["state"], relay.TupleType([tensor, tensor]))
    x, h, c = arrays((2, 3), (2, 4), (2, 4))
    want = expected(script, x, (h, c))
    runner = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    runner.run(x=x, state=(h, c))
    machine = VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    for i, (result, wanted) in enumerate(zip(machine.run(x, (h, c)), want)):
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(runner.get_output(i).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_a_list_is_one_parameter_of_as_many_fields_as_shapes():
    script = torch.jit.script(Sum())
    mod, _ = relay.frontend.from_pytorch(script, [("parts", ((2, 3), (2, 3), (1, 3)))])
    a, b, c = arrays((2, 3), (2, 3), (1, 3))
    runner = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    runner.run(parts=(a, b, c))
    np.testing.assert_allclose(runner.get_output(0).numpy(), a + b + c, rtol=1e-6)


def test_the_element_type_may_be_given_for_the_tuple_or_for_a_field():
    script = torch.jit.script(Cell())
    both = relay.frontend.from_pytorch(torch.jit.script(Sum()), [("parts", (((2,), (2,)), "int64"))])[0]["main"]
    fields = [("parts", (((2,), "int64"), ((2,), "int64")))]
    each = relay.frontend.from_pytorch(torch.jit.script(Sum()), fields)[0]["main"]
    wanted = relay.TupleType([relay.TensorType((2,), "int64")] * 2)
    assert tvm.ir.structural_equal(both.params[0].type_annotation, wanted)
    assert tvm.ir.structural_equal(each.params[0].type_annotation, wanted)
    with pytest.raises(TVMError, match=r"'state' is a .* of 2 fields; input_infos must give the shape of each field"):
        relay.frontend.from_pytorch(script, [("x", (2, 3)), ("state", ((2, 4), (2, 4), (2, 4)))])
    with pytest.raises(TVMError, match="'x' is a Tensor, but input_infos contains 2 shapes"):
        relay.frontend.from_pytorch(script, [("x", ((2, 3), (2, 3))), ("state", ((2, 4), (2, 4)))])


def test_dynamic_sizes_in_a_tuple():
    batch = relay.Any()
    script = torch.jit.script(Cell())
    mod, params = relay.frontend.from_pytorch(script, [("x", (batch, 3)), ("state", ((batch, 4), (batch, 4)))])
    machine = VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    for n in (1, 5):
        x, h, c = arrays((n, 3), (n, 4), (n, 4))
        for result, wanted in zip(machine.run(x, (h, c)), expected(script, x, (h, c))):
            np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_tvmc_names_each_field(executor, tmp_path):
    script, path = torch.jit.script(Cell()), str(tmp_path / "cell.pt")
    script.save(path)
    model = tvmc.load(path, shape_dict={"x": [2, 3], "state_0": [2, 4], "state_1": [2, 4]})
    package = tvmc.compile(model, "llvm", executor=executor, package_path=str(tmp_path / "cell.tar"))
    x, h, c = arrays((2, 3), (2, 4), (2, 4))
    result = tvmc.run(package, "cpu", inputs={"x": x, "state_0": h, "state_1": c})
    for i, wanted in enumerate(expected(script, x, (h, c))):
        np.testing.assert_allclose(result.get_output(f"output_{i}"), wanted, rtol=1e-5, atol=1e-6)


def test_tvmc_asks_for_the_shapes_of_the_fields(tmp_path):
    path = str(tmp_path / "cell.pt")
    torch.jit.script(Cell()).save(path)
    with pytest.raises(tvmc.TVMCException, match=r'--input-shapes "state_0:\[1,3,224,224\] state_1:'):
        tvmc.load(path, shape_dict={"x": [2, 3]})
