"""Branches and loops of TorchScript that change tensors in place, and objects and dictionaries of a script."""

from collections import OrderedDict
from typing import Dict, List, Optional, Union  # noqa: UP035

import pytest

torch = pytest.importorskip("torch")

from tests.relay.frontend.pytorch.support import array, run, same
from tvm import relay
from tvm.error import TVMError


def _same(function, x, executor="graph") -> None:
    script = torch.jit.script(function)
    mod, params = relay.frontend.from_pytorch(script, [("x", tuple(x.shape))])
    wanted = script(x)
    same(run(mod, params, {"x": array(x)}, executor, level=0), wanted if isinstance(wanted, tuple) else [wanted])


def test_a_block_of_a_known_course_changes_tensors_from_outside():
    def changed(x):
        y = x.clone()
        row, all_of_it = y[0], y.view(-1)
        for i in range(x.size(0)):
            y[i] = y[i] * 2
            if i == 1:
                for _ in range(2):
                    all_of_it.add_(1)
        row.mul_(10)
        return y, row, all_of_it

    _same(changed, torch.randn(3, 2))


def test_a_loop_whose_steps_data_decides_changes_tensors_from_outside():
    def changed(x):
        marks = torch.zeros_like(x)
        total = torch.zeros(2)
        turned = marks.view(2, -1)
        for i in range(int(x.sum())):
            marks[x.size(0) - 1 - i] = 5.0 + i
            total.add_(turned.sum())
            if i > 1:
                total[0] = total[0] * 2
        return marks, total, turned + 1, marks * 2

    for x in (torch.tensor([1.0, 0, 2, 1]), torch.zeros(4)):
        _same(changed, x, "vm")


def test_a_branch_that_data_decides_changes_tensors_from_outside():
    def changed(x):
        y, z = x.clone(), x + 1
        part = y[1:]
        if bool(x.sum() > 0):
            part.mul_(2)
        else:
            z.sub_(3)
            y[0] = 7.0
            part = part + 1
        return y, z, part

    for x in (torch.tensor([1.0, 2, 3]), torch.tensor([-1.0, -2, -3])):
        _same(changed, x, "vm")


def test_a_list_that_data_decides_to_change_is_refused():
    @torch.jit.script
    def changed(x):
        parts = [x]
        if bool(x.sum() > 0):
            parts.append(x + 1)
        return torch.cat(parts)

    with pytest.raises(TVMError, match="changing an attribute or a list in a branch with a run-time condition"):
        relay.frontend.from_pytorch(changed, [("x", (3,))])


def test_rows_of_a_number_that_data_decides_are_put_into_a_tensor():
    def put(x):
        found = torch.where(x[:, 0] > 0)[0]
        y, z = torch.zeros_like(x), torch.zeros_like(x)
        y[found] = x[found] * 2
        z[found, 1] = torch.ones(found.size(0))
        rows = x[found]
        rows[:, 0] = rows[:, 1]
        return y, z, rows

    for x in (torch.tensor([[1.0, 2], [-1, 3], [4, 5]]), -torch.ones(3, 2)):
        _same(put, x, "vm")


def test_different_elements_are_found_with_their_places_and_counts():
    def found(x):
        kept = x[x > 0].to(torch.int64)
        values, places, counts = torch.unique(kept, True, True, True)
        return values, places, counts, torch.unique(x.view(2, -1).to(torch.int64))

    _same(found, torch.tensor([3.0, 1, -2, 3, 3, 1, 7, -1]), "vm")


def test_a_tensor_without_elements_keeps_its_number_of_dimensions_where_a_script_gives_it_another():
    @torch.jit.script
    def rows(x):
        y = x[x[:, 0] > 0]
        if y.size(0) > 0:
            y = y.unsqueeze(1) * 2
        return y

    mod, params = relay.frontend.from_pytorch(rows, [("x", (3, 4))])
    x = torch.rand(3, 4) + 0.5
    same(run(mod, params, {"x": array(x)}, "vm"), [rows(x)])
    assert run(mod, params, {"x": array(-x)}, "vm")[0].shape == (0, 1, 4)

    @torch.jit.script
    def many(x):
        y = x[x[:, 0] > 0]
        if y.size(0) > 1:
            y = y.reshape(-1)
        return y

    with pytest.raises(TVMError, match="differ in type or number of dimensions"):
        relay.frontend.from_pytorch(many, [("x", (3, 4))])


def _vm(function, *calls) -> None:
    """Open inputs; where PyTorch raises an exception of the model's, the run ends with its words."""
    script = torch.jit.script(function)
    mod, params = relay.frontend.from_pytorch(script)
    names = [p.name_hint for p in mod["main"].params if p.name_hint not in params]
    for values in calls:
        given = {n: array(torch.as_tensor(v)) for n, v in zip(names, values)}
        try:
            wanted = script(*values)
        except torch.jit.Error as problem:
            with pytest.raises(TVMError, match=str(problem).strip().rpartition("ValueError: ")[2]):
                run(mod, params, given, "vm")
            continue
        same(run(mod, params, given, "vm"), wanted if isinstance(wanted, tuple) else [wanted])


@pytest.mark.slow("PyTorch scripts a model and its run is ended in a process")
def test_an_exception_that_data_decides_on_ends_the_run():
    def halves(x, k: int):
        if k > 3:
            raise ValueError("k is too large")
        elif k == 2:
            y = x[:, ::k]
        else:
            if x.size(1) == 0:
                raise ValueError("nothing is there")
            y = x * 2
        return y, y.sum()

    some, none = torch.arange(6.0).view(2, 3), torch.zeros(2, 0)
    _vm(halves, (some, 1), (some, 2), (some, 4), (none, 1), (none, 2), (none, 4))

    def nested(x, k: int):
        if k in [1, 2]:
            if x.size(0) > 2:
                raise ValueError("two rows at most")
        for i in range(k):
            if i > 2:
                raise ValueError("three steps at most")
            x = x + i
        return x

    tall = torch.zeros(3, 1)
    _vm(nested, (some, 2), (tall, 2), (tall, 3), (tall, 4), (some, 0))


def test_a_branch_that_always_raises_is_the_other_branch():
    def one(x, k: int):
        y = x.clone()
        if k == 1:
            y.add_(1)
            z = y * 3
        elif k == 2:
            z = y - 1
        else:
            y.mul_(7)
            raise ValueError("one or two")
        return y, z

    _vm(one, *((torch.ones(2, 2), k) for k in (1, 2, 3)))

    def none(x, k: int):
        if k == 1:
            raise ValueError("one")
        else:
            raise ValueError("other")
        return x

    with pytest.raises(TVMError, match="the model raises an exception here"):
        relay.frontend.from_pytorch(torch.jit.script(none))


def test_a_size_that_a_script_takes_away_must_be_one():
    def last(x):
        return torch.conv1d(x.unsqueeze(1), torch.ones(4, 1, 3), stride=3).squeeze(-1) + torch.ones(4)

    script = torch.jit.script(last)
    mod, params = relay.frontend.from_pytorch(script)
    for size in (3, 4, 5):
        x = torch.randn(2, size)
        same(run(mod, params, {"x": array(x)}, "vm"), [script(x)])
    with pytest.raises(TVMError, match="1"):
        run(mod, params, {"x": array(torch.randn(2, 6))}, "vm")


def test_a_tensor_without_elements_stands_for_one_of_other_dimensions():
    def cleared(x, k: int):
        kept = x * 2
        if k > 0:
            kept = torch.zeros([0])
        return x.sum() + len(kept)

    _vm(cleared, (torch.ones(2, 3), 0), (torch.ones(2, 3), 1))


@torch.jit.script
class Pair:
    def __init__(self, first: torch.Tensor, sizes: List[int]):  # noqa: UP006
        self.first = first
        self.sizes = sizes

    def scaled(self, by: float):
        self.first = self.first * by
        return self


def _several(x: Union[torch.Tensor, List[torch.Tensor]]):  # noqa: UP006, UP007
    if isinstance(x, torch.Tensor):
        return x * 2
    else:
        return torch.cat(x)


def test_objects_types_and_dictionaries_are_known_while_importing():
    def all_of_them(x):
        pair = Pair(x, [int(s) for s in x.shape]).scaled(3.0)
        named: Dict[str, torch.Tensor] = OrderedDict([("a", pair.first), ("b", x)])  # noqa: UP006
        more = dict(named)
        more.update({"c": _several(x), "b": _several([x, x])})
        known = [len(more)] if "c" in more and str(7) == "7" else [0]
        return more["a"] + pair.sizes[0], more["b"], more["c"] * min([known[0], 9])

    _same(all_of_them, torch.randn(2, 3))


def test_what_an_object_or_type_is_when_the_model_runs_is_refused():
    class Kept(torch.nn.Module):
        pair: Optional[Pair]  # noqa: UP045

        def __init__(self):
            super().__init__()
            self.pair = None

        def forward(self, x):
            pair = self.pair
            if pair is None:
                pair = Pair(x, [1])
                self.pair = pair
            return pair.sizes[0] + x

    script = torch.jit.script(Kept())
    with pytest.raises(TVMError, match="the model creates its attribute 'pair'"):
        relay.frontend.from_pytorch(script, [("x", (2,))])
    listed = torch.jit.script(_listed)
    with pytest.raises(TVMError, match=r"tolist\(\) is not supported"):
        relay.frontend.from_pytorch(listed, [("x", (2,))])


def _listed(x):
    values: List[float] = x.tolist()  # noqa: UP006
    return x + len(values)
