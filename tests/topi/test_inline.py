"""What schedules inline: a value is kept where it would be computed again, not where several read it at one place."""

from __future__ import annotations

import pytest

from tvm import te, topi
from tvm.target import Target
from tvm.te.schedule import AttachType
from tvm.topi.schedule import schedule_for

TARGETS = ["llvm", "cuda"]


def kept(out, target) -> list[str]:
    s = schedule_for([out], Target(target))
    return [x.op.name for x in s.stages if x.attach_type != AttachType.INLINE and isinstance(x.op, te.ComputeOp)]


@pytest.mark.parametrize("target", TARGETS)
def test_a_costly_value_read_twice_at_its_own_place_is_inlined(target):
    a = te.placeholder((64, 48), name="a")
    t = te.compute(a.shape, lambda *i: te.tanh(a(*i)), name="t")
    out = te.compute(a.shape, lambda *i: t(*i) * te.exp(t(*i)), name="out")
    assert kept(out, target) == ["out"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_costly_value_read_at_two_places_is_kept(target):
    a = te.placeholder((64, 48), name="a")
    t = te.compute(a.shape, lambda i, j: te.tanh(a[i, j]), name="t")
    out = te.compute((64, 47), lambda i, j: t[i, j] - t[i, j + 1], name="out")
    assert kept(out, target) == ["t", "out"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_value_two_results_read_is_kept_only_if_it_is_costly(target):
    a = te.placeholder((64, 48), name="a")
    for cheap in (True, False):
        t = te.compute(a.shape, lambda *i: a(*i) + 1.0 if cheap else te.tanh(a(*i)), name="t")
        out = [te.compute(a.shape, lambda *i, k=k: t(*i) * float(k + 2), name=f"out{k}") for k in range(2)]
        s = schedule_for(out, Target(target))
        assert (s[t].attach_type == AttachType.INLINE) == cheap


@pytest.mark.parametrize("target", TARGETS)
def test_places_that_double_with_every_step_stay_few(target):
    x = te.placeholder((200,), name="x")
    for k in range(12):
        x = te.compute((200 - 3 * (k + 1),), lambda i, x=x: x[i + 1] + x[i + 3], name=f"t{k}")
    names = kept(x, target)
    assert names[-1] == "t11" and 2 <= len(names) <= 4


@pytest.mark.parametrize("target", TARGETS)
def test_slices_that_read_each_element_once_are_joined_without_a_copy(target):
    a = te.placeholder((8, 12), name="a")
    t = topi.tanh(a)
    parts = [topi.strided_slice(t, [0, 4 * k], [8, 4 * k + 4]) for k in range(3)]
    assert len(kept(topi.concatenate(parts[::-1], 1), target)) == 1
