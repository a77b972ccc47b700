"""Parallel loops of which an unknown size chooses."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

from tvm.ir.prim import SizeVar
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import BufferStore, For, ForKind, IfThenElse, seq
from tvm.tir.transform.join_tasks import join_tasks


def classes(choose, kind=ForKind.PARALLEL, before=None):
    """An array is filled backwards where ``choose(n, b)``, and else pair by pair."""
    n = SizeVar("n", "int32")
    b = decl_buffer((n,), "int32", "B")
    i, j = var("i"), var("j")
    backwards = For(i, 0, n, kind, BufferStore(b, i, [n - 1 - i]))
    pairs = For(j, 0, n // 2, ForKind.PARALLEL, seq(BufferStore(b, j, [j * 2]), BufferStore(b, -j, [j * 2 + 1])))
    return PrimFunc([b], IfThenElse(choose(n, b), backwards, seq(before(b), pairs) if before else pairs))


@pytest.mark.parametrize("n", [0, 2, 4, 6, 10])
def test_tasks_choose(n):
    new = same_result(join_tasks, classes(lambda n, b: n < 5), np.full(n, -7, "int32"))
    (loop,) = of(For, new)
    assert loop.kind is ForKind.PARALLEL and isinstance(loop.body, IfThenElse)


@pytest.mark.parametrize("n", [2, 4, 6, 10])
def test_three_classes_are_one_loop(n):
    size = SizeVar("n", "int32")
    b = decl_buffer((size,), "int32", "B")
    by = zip(map(var, "ijk"), (1, 2, 3))
    loops = [For(v, 0, size, ForKind.PARALLEL, BufferStore(b, v * factor, [v])) for v, factor in by]
    func = PrimFunc([b], IfThenElse(size < 4, loops[0], IfThenElse(size < 8, loops[1], loops[2])))
    assert len(of(For, same_result(join_tasks, func, np.full(n, -7, "int32")))) == 1


@pytest.mark.parametrize("given", [
    # data chooses, which a task may change
    {"choose": lambda n, b: b[0] < 0}, {"choose": lambda n, b: b[0] < n},
    # loops that are not parallel, or not alone
    {"choose": lambda n, b: n < 5, "kind": ForKind.SERIAL},
    {"choose": lambda n, b: n < 5, "before": lambda b: BufferStore(b, 1, [0])},
])  # fmt: skip
def test_other_choices_stay(given):
    func = classes(**given)
    assert join_tasks(func).body is func.body
