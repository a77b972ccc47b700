"""Recurrent networks of TorchScript whose number of steps or batch is a dynamic dimension."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.relay.frontend.pytorch.support import array, flat, leaves, machine_of, same
from tvm import relay
from tvm.error import TVMError
from tvm.relay import Any


def check(model, example, shape, sizes) -> None:
    """Compare the machine's results for each of ``sizes`` with PyTorch's."""
    script = torch.jit.trace(model.eval(), torch.randn(example))
    machine = machine_of(*relay.frontend.from_pytorch(script, [("x", shape)]))
    for size in sizes:
        x = torch.randn(size)
        with torch.no_grad():
            same(flat(machine.run(array(x))), leaves(model(x)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_steps_and_batch_are_dynamic(kind):
    torch.manual_seed(0)
    check(getattr(torch.nn, kind)(3, 4), (5, 2, 3), (Any(), Any(), 3), [(7, 1, 3), (1, 2, 3), (9, 3, 3)])


@pytest.mark.parametrize(("shape", "size"), [((Any(), 2, 3), (6, 2, 3)), ((5, Any(), 3), (5, 4, 3))])
def test_one_of_them_is_dynamic(shape, size):
    torch.manual_seed(0)
    check(torch.nn.LSTM(3, 4), (5, 2, 3), shape, [size])


def test_layers_in_both_directions_with_projections():
    torch.manual_seed(0)
    model = torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2, batch_first=True)
    check(model, (2, 5, 3), (Any(), Any(), 3), [(1, 6, 3), (3, 2, 3)])


@pytest.mark.slow("exports and compiles two layers in both directions")
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_an_exported_program_has_a_dynamic_batch(kind):
    torch.manual_seed(0)
    model = getattr(torch.nn, kind)(3, 4, 2, bidirectional=True, batch_first=True).eval()
    program = torch.export.export(model, (torch.randn(2, 5, 3),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    machine = machine_of(*relay.frontend.from_exported_program(program))
    for batch in (1, 2, 7):
        x = torch.randn(batch, 5, 3)
        with torch.no_grad():
            same(flat(machine.run(array(x))), leaves(model(x)), rtol=1e-5)
    # torch.export unrolls the steps; other lengths need another program, or TorchScript.
    with pytest.raises(TVMError, match="dimension 1 is 6, but the model expects 5"):
        machine.run(array(torch.randn(2, 6, 3)))
    with pytest.raises(TVMError, match="input 'input' contains 6 where the program has 5"):
        relay.frontend.from_exported_program(program, shape={"input": (2, 6, 3)})


class Labels(torch.nn.Module):
    """Scores of a sequence by the last hidden state."""

    def __init__(self):
        super().__init__()
        self.net, self.out = torch.nn.LSTM(3, 4, batch_first=True), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.net(x)[0][:, -1])


def test_a_script_compares_shapes_that_are_known_when_the_model_runs():
    torch.manual_seed(0)
    model = Labels().eval()
    machine = machine_of(*relay.frontend.from_pytorch(torch.jit.script(model), [("x", (Any(), Any(), 3))]))
    for size in ((1, 4, 3), (5, 7, 3)):
        x = torch.randn(size)
        same(flat(machine.run(array(x))), leaves(model(x)), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "wanted"), [((2, 3), [1, 0]), ((2, 4), [0, 1]), ((3, 3), [0, 1])], ids=["same", "columns", "rows"]
)
def test_lists_of_sizes_are_compared(shape, wanted):
    def compared(x, y):
        return torch.tensor([int(x.size() == y.size()), int(list(x.shape) != list(y.shape))])

    infos = [("x", (Any(), Any())), ("y", (2, 3))]
    machine = machine_of(*relay.frontend.from_pytorch(torch.jit.script(compared), infos))
    assert flat(machine.run(array(torch.zeros(shape)), array(torch.zeros(2, 3))))[0].tolist() == wanted
