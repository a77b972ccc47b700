"""Programs of torch.export: names, open sizes, branches, refusals."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tvm
from tests.relay.frontend.pytorch.support import array, flat, leaves, machine_of, names_of, run, same
from tvm import relay
from tvm.error import TVMError


class Attention(torch.nn.Module):
    """A small model whose batch and length may be open."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 24)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.inner(x).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.last(y.transpose(1, 2).reshape(b, n, 8))


def test_inputs_and_parameters_have_the_names_of_the_program():
    model = torch.nn.Linear(3, 4).eval()
    mod, params = relay.frontend.from_exported_program(torch.export.export(model, (torch.randn(2, 3),)))
    assert names_of(mod, params) == ["input"] and set(params) == {"weight", "bias"}


@pytest.mark.slow("compiles and runs whole PyTorch models")
def test_open_sizes_are_compiled_once_for_all_of_them():
    model = Attention().eval()
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=64)
    program = torch.export.export(model, (torch.randn(2, 5, 8),), dynamic_shapes=({0: batch, 1: length},))
    mod, params = relay.frontend.from_exported_program(program)
    for shape in ((2, 5, 8), (3, 7, 8)):
        x = torch.randn(*shape)
        same(run(mod, params, {"x": array(x)}, "vm"), [model(x)])


@pytest.mark.slow("compiles and runs whole PyTorch models")
def test_indices_of_open_and_of_known_sizes_are_repeated_to_their_joint_shape():
    class Chosen(torch.nn.Module):
        def forward(self, x):
            rows = torch.arange(x.shape[0])
            return x[rows[:, None], torch.tensor([2, 0])], x[rows, 1], x[rows[:, None, None], torch.tensor([[1], [3]])]

    program = torch.export.export(Chosen(), (torch.randn(2, 5),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    mod, params = relay.frontend.from_exported_program(program)
    for batch in (2, 4):
        x = torch.randn(batch, 5)
        same(run(mod, params, {"x": array(x)}, "vm"), Chosen()(x))


@pytest.mark.slow("compiles and runs whole PyTorch models")
def test_a_head_count_of_minus_one_beside_dynamic_sizes_is_the_number_that_the_program_states():
    """Rotary attention of transformers: the length of the angles is that of an arange, which leaves it open."""

    class Rotated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(8, 3)

        def forward(self, x):
            b, n, _ = x.shape
            angles = (torch.arange(n)[None, :, None].float() @ torch.ones(1, 1, 4)).cos()[:, None]
            y = (x.view(b, n, 2, 4).transpose(1, 2) * angles).reshape(b, -1, n, 4)
            return self.last(y.transpose(1, 2).reshape(b, n, -1))

    _check_dynamic(Rotated().eval(), torch.randn(2, 5, 8), [(2, 5, 8), (1, 1, 8), (3, 7, 8)])


@pytest.mark.slow("compiles and runs whole PyTorch models")
def test_one_matrix_times_a_dynamic_stack_and_stacks_of_different_rank():
    class Products(torch.nn.Module):
        def forward(self, x):
            weight = torch.arange(6.0).reshape(2, 3)
            stack = torch.arange(12.0).reshape(2, 2, 3)
            return weight @ x, stack[0:1] @ x, stack @ x[:, None], x[:, None] @ weight.reshape(1, 1, 2, 3)[0]

    _check_dynamic(Products(), torch.randn(3, 3, 2), [(3, 3, 2), (1, 3, 2), (4, 3, 2)], {0: torch.export.Dim.AUTO})


def _check_dynamic(model, x, shapes, sizes=None):
    """An exported model with dynamic sizes, by default the batch and the length, gives what PyTorch gives."""
    auto = torch.export.Dim.AUTO
    program = torch.export.export(model, (x,), dynamic_shapes=(sizes or {0: auto, 1: auto},), strict=False)
    mod, params = relay.frontend.from_exported_program(program)
    machine = machine_of(mod, params)
    for shape in shapes:
        x = torch.randn(*shape)
        same(flat(machine.run(tvm.nd.array(array(x)))), leaves(model(x)))


@pytest.mark.slow("compiles and runs whole PyTorch models")
def test_rows_of_a_tensor_whose_first_size_is_open_may_be_given_by_strides():
    """PyTorch makes such a tensor of the mean of each channel of images that have their channels last."""

    class Pooled(torch.nn.Module):
        def forward(self, x):
            means = x.mean((2, 3), True)
            n = x.shape[0]
            return means.as_strided((n, 5, 1, 1), (5, 1, 5, 5)), x.as_strided((n, 4, 5), (60, 3, 12), 1)

    class Skipped(torch.nn.Module):
        def forward(self, x):
            return x.as_strided((x.shape[0], 5), (30, 1))

    def exported(model):
        batch = ({0: torch.export.Dim("batch")},)
        program = torch.export.export(model, (torch.randn(2, 5, 3, 4),), dynamic_shapes=batch)
        return relay.frontend.from_exported_program(program)

    mod, params = exported(Pooled())
    for batch in (2, 3):
        x = torch.randn(batch, 5, 3, 4)
        same(run(mod, params, {"x": array(x)}, "vm"), Pooled()(x))
    with pytest.raises(TVMError, match="requires rows of 60 elements; the strides are \\[30, 1\\]"):
        exported(Skipped())


def test_the_callers_shapes_answer_open_sizes():
    model = Attention().eval()
    program = torch.export.export(model, (torch.randn(2, 5, 8),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    mod, params = relay.frontend.from_exported_program(program, shape={"x": (4, 5, 8)})
    x = torch.randn(4, 5, 8)
    same(run(mod, params, {"x": array(x)}), [model(x)])
    with pytest.raises(TVMError, match="contains 6 where the program has 5"):
        relay.frontend.from_exported_program(program, shape={"x": (4, 6, 8)})
    with pytest.raises(AssertionError, match="no input 'y'"):
        relay.frontend.from_exported_program(program, shape={"y": (4, 5, 8)})


def test_a_branch_that_data_decides_runs_on_the_virtual_machine():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))

    mod, params = relay.frontend.from_exported_program(torch.export.export(Branch(), (torch.ones(3),)))
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 1.0])):
        same(run(mod, params, {"x": array(x)}, "vm"), [Branch()(x)])


def test_a_buffer_that_changes_is_refused_by_its_name():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x):
            self.total.add_(x)
            return self.total * 2

    with pytest.raises(TVMError, match="changes its buffer or input '.*total'"):
        relay.frontend.from_exported_program(torch.export.export(Counter(), (torch.ones(2),)))


def test_an_object_that_is_no_program_is_refused():
    with pytest.raises(TypeError, match=r"torch\.export\.export"):
        relay.frontend.from_exported_program(torch.nn.ReLU())


def test_questions_about_memory_are_answered_for_open_sizes():
    """Programs hold what PyTorch derives from the sizes instead, so the operators are put into the graph here."""

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return x * x.numel() + 0

    aten, open_sizes = torch.ops.aten, ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
    program = torch.export.export(Scaled(), (torch.randn(3, 5),), dynamic_shapes=open_sizes)
    graph = program.graph
    x, added = next(iter(graph.nodes)), next(n for n in graph.nodes if n.target == aten.add.Tensor)
    for target, *more in (
        (aten.sym_stride.int, 0),
        (aten.sym_storage_offset.default,),
        (aten.sym_is_contiguous.default,),
    ):
        with graph.inserting_before(added):
            number = graph.call_function(target, (x, *more))
            total = graph.call_function(aten.add.Tensor, (added.args[0], number))
        added.args = (total, 0)
    mod, params = relay.frontend.from_exported_program(program)
    given = torch.randn(4, 7)
    same(run(mod, params, {"x": array(given)}, "vm"), [given * 28 + 7 + 0 + 1])
