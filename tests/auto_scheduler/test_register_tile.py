"""Bodies of states: what is expanded is what the lowered program expands."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.test_evolution import PROGRAMS, breeder_of
from tvm import auto_scheduler
from tvm.auto_scheduler import HardwareParams
from tvm.auto_scheduler.iterator import Annotation
from tvm.auto_scheduler.loop_nests import LoopNests
from tvm.auto_scheduler.register_tile import body_of
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor, StageLoops, estimated_speed, surround
from tvm.ir.prim import BufferLoad
from tvm.ir.visit import post_order
from tvm.tir.stmt import BufferStore, For, ForKind


def expanded(body) -> dict[str, int]:
    """The iterations that are unrolled around the update of each buffer that a reduction accumulates in."""
    found: dict[str, int] = {}
    todo = [(body, 1)]
    while todo:
        node, around = todo.pop()
        if isinstance(node, For) and node.kind is ForKind.UNROLLED:
            around *= node.extent.value
        if isinstance(node, BufferStore):
            reads = (n.buffer for n in post_order(node.value) if isinstance(n, BufferLoad))
            if any(buffer is node.buffer for buffer in reads):
                found[node.buffer.name] = max(found.get(node.buffer.name, 0), around)
        todo += [(child, around) for child in node.children()]
    return found


# Conditions of padding, where it is computed in passing, keep loops from being expanded.
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"convolution", "pooling"}))
def test_what_a_body_expands_is_what_the_lowered_program_expands(name, seed):
    breeder = breeder_of(name, random.Random(seed))
    for _ in range(4):
        state = breeder.random().state
        schedule, args = breeder.dag.apply_steps_from_state(state)
        known = expanded(tvm.lower(schedule, args)["main"].body)
        nests = LoopNests(breeder.dag, state).nests
        stages = surround({place: StageLoops.of(state.stages[place], nest, 1) for place, nest in nests.items()})
        for loops in stages:
            # Stages in others are expanded with them, as far as those are.
            if loops.stage.op.name in known and loops.stage.attach is None and loops.free_from == 0:
                body = loops.product(body_of(loops) & (loops.how != Annotation.VECTORIZE))
                assert known[loops.stage.op.name] == body[0], state


def test_steps_of_stages_add_up():
    rows = np.zeros((3, 2, len(NAMES)), dtype="float32")
    rows[1, :, NAMES.index("relative steps")] = 1
    rows[2, :, NAMES.index("relative steps")] = np.log2(1 + 8)
    one, two = estimated_speed(rows)[1:]
    assert one == pytest.approx(-1) and two == pytest.approx(-4)


@pytest.mark.parametrize("is_free", [False, True])
def test_lanes_along_a_weight_that_is_stored_as_it_is_read_are_no_gathers(is_free):
    x, w = tvm.te.placeholder((16, 32), name="x"), tvm.te.placeholder((64, 32), name="w")
    k = tvm.te.reduce_axis((0, 32), name="k")
    y = tvm.te.compute((16, 64), lambda i, j: tvm.te.sum(x[i, k] * w[j, k], axis=k), name="y",
                       attrs={"layout_free_placeholders": [w]} if is_free else {})  # fmt: skip
    dag = auto_scheduler.ComputeDAG([x, w, y])
    state = dag.get_init_state()
    state.split(y, state[y].iters[1], [8])
    row, outer, inner, term = state[y].iters
    state.reorder(y, [row, outer, term, inner])
    state.vectorize(y, state[y].iters[3])
    rows = FeatureExtractor(dag, HardwareParams(num_cores=1, target="llvm")).rows(state.state_object)
    assert 2 ** rows[0, NAMES.index("lanes gathered")] - 1 == pytest.approx(0 if is_free else 8)
