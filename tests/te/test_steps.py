"""Steps: every primitive is a frozen record, applied in one place, written as a log line and read again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import ScheduleError
from tvm.te import steps
from tvm.te.annotation_steps import UnrollStep, VectorizeStep
from tvm.te.attach_steps import ComputeAtStep
from tvm.te.dataflow import CacheReadStep, CacheWriteStep, RfactorStep
from tvm.te.loop_steps import FuseStep, ReorderStep, SplitStep
from tvm.te.steps import AxisRef, StageRef, TensorRef, apply

# The log lines of ``everything`` as earlier builds wrote them: kind, stage, arguments.
LOG = [
    ["cache_write", -1, [{"tensor": [3, 0]}, "local"]],
    ["cache_read", -1, [{"tensor": [0, 0]}, "shared", [{"tensor": [4, 0]}]]],
    ["split", 3, [{"axis": [3, 0]}, 4, None]],
    ["split", 3, [{"axis": [3, 1]}, None, 3]],
    ["reorder", 3, [{"axis": [3, 2]}, {"axis": [3, 4]}, {"axis": [3, 3]}, {"axis": [3, 5]}]],
    ["fuse", 3, [{"axis": [3, 2]}, {"axis": [3, 4]}]],
    ["fuse", 3, []],
    ["compute_at", 4, [{"stage": [3]}, {"axis": [3, 6]}]],
    ["compute_at", 5, [{"stage": [4]}, {"axis": [4, 2]}]],
    ["storage_align", 5, [{"axis": [5, 0]}, 8, 1]],
    ["align_bounds", 5, [{"axis": [5, 1]}, 2]],
    ["double_buffer", 5, [3]],
    ["set_scope", 5, ["global"]],
    ["skip_padding", 4, [{"axis": [4, 2]}]],
    ["unroll", 4, [{"axis": [4, 2]}]],
    ["prefetch", 3, [{"tensor": [4, 0]}, {"axis": [3, 6]}, 1]],
    ["pragma", 3, [{"axis": [3, 6]}, "auto_unroll_max_step", 16]],
    ["parallel", 3, [{"axis": [3, 6]}]],
    ["vectorize", 3, [{"axis": [3, 5]}]],
    ["compute_inline", 1, []],
    ["compute_root", 2, []],
    ["set_store_predicate", 2, [True]],
    ["create_group", -1, [[{"tensor": [2, 0]}], [{"tensor": [0, 0]}], False]],
]


def program():
    a = te.placeholder((8, 12), name="A")
    b = te.compute((8, 12), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 12), lambda i, j: b[i, j] * 2, name="C")
    k = te.reduce_axis((0, 12), "k")
    d = te.compute((8, 12), lambda i, j: te.sum(a[i, k] * c[i, j], axis=k), name="D")
    return a, b, c, d


def everything():
    """A schedule made by all primitives that need no GPU, scan or intrinsic."""
    a, b, c, d = program()
    s = te.create_schedule(d.op)
    local = s.cache_write(d, "local")
    shared = s.cache_read(a, "shared", [local])
    i, j = s[d].op.axis
    i_outer, i_inner = s[d].split(i, factor=4)
    j_outer, j_inner = s[d].split(j, nparts=3)
    s[d].reorder(i_outer, j_outer, i_inner, j_inner)
    fused = s[d].fuse(i_outer, j_outer)
    s[d].fuse()
    s[local].compute_at(s[d], fused)
    (k,) = s[local].op.reduce_axis
    s[shared].compute_at(s[local], k)
    s[shared].storage_align(s[shared].op.axis[0], 8, 1)
    s[shared].align_bounds(s[shared].op.axis[1], 2)
    s[shared].double_buffer(3)
    s[shared].set_scope("global")
    s[local].skip_padding(k)
    s[local].unroll(k)
    s[d].prefetch(local, fused, 1)
    s[d].pragma(fused, "auto_unroll_max_step", 16)
    s[d].parallel(fused)
    s[d].vectorize(j_inner)
    s[b].compute_inline()
    s[c].compute_root()
    s[c].set_store_predicate(True)
    s.create_group(outputs=[c], inputs=[a])
    return d, s


def state(s):
    """All that a schedule says, with axes and stages by their numbers, so that two schedules compare."""

    def plain(stage, value):
        if isinstance(value, te.Stage):
            return value.uid
        if isinstance(value, (list, tuple)):
            return [plain(stage, v) for v in value]
        if isinstance(value, tvm.tir.IterVar):
            owner = stage if value in stage.all_iter_vars else stage.attach_stage
            return value.thread_tag or owner.all_iter_vars.index(value)
        return str(value)

    out = []
    for x in s.stages + s.groups:
        attrs = {plain(x, a): [plain(x, getattr(v, n)) for n in v.__slots__] for a, v in x.iter_var_attrs.items()}
        fields = [
            str(x.op),
            len(x.all_iter_vars),
            x.leaf_iter_vars,
            [type(r).__name__ for r in x.relations],
            x.attach_type,
            x.attach_stage,
            x.attach_ivar,
            x.scope,
            x.double_buffered,
            x.env_thread_axes,
            x.store_predicate,
            x.group,
        ]
        out.append((x.uid, [plain(x, f) for f in fields], attrs))
    return out, [str(op) for op in s.outputs], list(s.steps)


def test_log_lines_are_what_they_were_and_make_the_same_schedule():
    d, s = everything()
    assert steps.to_plain(s.steps) == LOG
    again = te.replay(steps.from_plain(LOG), [d.op])
    assert state(again) == state(s)
    others = {"bind", "tensorize", "env_threads", "rfactor", "pad", "overlap", "transform_layout", "rolling_buffer"}
    assert {line[0] for line in LOG} | others == set(steps.STEPS)


def test_a_step_is_a_frozen_value_equal_to_its_own_kind_only():
    step = VectorizeStep(3, AxisRef(3, 5))
    assert step == VectorizeStep(3, AxisRef(3, 5)) and len({step, VectorizeStep(3, AxisRef(3, 5))}) == 1
    assert step != UnrollStep(3, AxisRef(3, 5))
    assert str(step) == "vectorize(stage 3, AxisRef(stage=3, index=5))"
    with pytest.raises(dataclasses.FrozenInstanceError):
        step.stage = 4


def test_steps_written_by_hand_make_the_loops_of_the_methods():
    a, b, c, d = program()
    (by_method, by_step) = (te.create_schedule(d.op) for _ in range(2))
    i, j = d.op.axis
    outer, inner = by_method[d].split(i, factor=3)
    by_method[d].reorder(j, outer, inner)
    by_method[c].compute_at(by_method[d], outer)
    stage, other = by_step[d].uid, by_step[c].uid
    made = apply(by_step, SplitStep(stage, AxisRef(stage, 0), factor=3))
    assert [x.var.name for x in made] == ["i.outer", "i.inner"]
    apply(by_step, ReorderStep(stage, (AxisRef(stage, 1), AxisRef(stage, 3), AxisRef(stage, 4))))
    apply(by_step, ComputeAtStep(other, StageRef(stage), AxisRef(stage, 3)))
    assert state(by_step) == state(by_method)
    x = np.random.default_rng(0).random((8, 12), dtype="float32")
    out = tvm.nd.array(np.zeros((8, 12), "float32"))
    tvm.build(by_step, [a, d], "llvm")(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), x.sum(1, keepdims=True) * (x + 1) * 2, rtol=1e-5)


@pytest.mark.parametrize(
    "step, words",
    [
        (SplitStep(3, AxisRef(3, 7), 2), "split on stage D: it has no axis 7; the loops are i, j, k"),
        (SplitStep(3, AxisRef(2, 0), 2), "split on stage D: it has no axis 0"),
        (SplitStep(9, AxisRef(9, 0), 2), "no stage with number 9"),
        (SplitStep(3, AxisRef(3, 0), 0), "factor of axis i must be at least 1, got 0"),
        (SplitStep(3, AxisRef(3, 0), float("inf")), "factor of axis i must be an integer or an expression, got inf"),
        (SplitStep(0, AxisRef(0, 0), 2), "split on stage A: it is a placeholder"),
        (FuseStep(3, (AxisRef(3, 0), AxisRef(3, 2))), "must be neighbours"),
        (ComputeAtStep(2, StageRef(3), AxisRef(3, 5)), "compute_at on stage D: it has no axis 5"),
        (ComputeAtStep(2, StageRef(0), AxisRef(0, 0)), "compute_at on stage A: it is a placeholder"),
        (CacheReadStep(TensorRef(1, 2), "local", (TensorRef(3, 0),)), "stage B has no output 2"),
        (CacheReadStep(TensorRef(1, 0), "local", (TensorRef(3, 0),)), "cache_read of B: D does not read it"),
        (CacheWriteStep((), "local"), "the list of tensors is empty"),
        (RfactorStep(TensorRef(3, 0), AxisRef(3, 0)), "axis i is not a reduction axis"),
        (RfactorStep(TensorRef(3, 0), AxisRef(3, 2), 4), "factor_axis 4 is not within its 3 dimensions"),
    ],
)
def test_a_step_that_does_not_fit_is_refused_and_changes_nothing(step, words):
    *_, d = program()
    s = te.create_schedule(d.op)
    before = state(s)
    with pytest.raises(ScheduleError, match=words):
        apply(s, step)
    assert state(s) == before


def test_tile_refused_at_its_last_part_leaves_the_loops_as_they_were():
    *_, d = program()
    s = te.create_schedule(d.op)
    i, j = d.op.axis
    s[d].bind(j, te.thread_axis("threadIdx.x"))
    before = state(s)
    with pytest.raises(ScheduleError, match="axis j is already bound to threadIdx.x"):
        s[d].tile(i, j, 2, 2)
    assert state(s) == before


def test_a_refused_bind_or_prefetch_leaves_no_attributes():
    a, b, c, d = program()
    s = te.create_schedule(d.op)
    s[d].unroll(d.op.axis[0])
    other = te.placeholder((4,), name="E")
    before = state(s)
    with pytest.raises(ScheduleError, match="axis i is already unrolled"):
        s[d].bind(d.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ValueError, match="E is not in this schedule"):
        s[d].prefetch(other, d.op.axis[1], 1)
    assert state(s) == before


def test_rfactor_keeps_a_loop_of_one_iteration():
    a = te.placeholder((8, 12), name="A")
    k = te.reduce_axis((0, 12), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].fuse()
    s.rfactor(b, s[b].split(k, factor=4)[1])
    x = np.random.default_rng(0).random((8, 12), dtype="float32")
    out = tvm.nd.array(np.zeros(8, "float32"))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), x.sum(1), rtol=1e-5)
