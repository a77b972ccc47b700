"""What is accessed of a tensor, and what it takes up in a cache."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tvm import auto_scheduler, te
from tvm.auto_scheduler import SearchTask
from tvm.auto_scheduler.operation_facts import LINE_BYTES, OperationFacts
from tvm.auto_scheduler.state_features import FeatureExtractor, estimated_speed

SETS = 64


@auto_scheduler.register_workload
def facts_test_product(n, m, terms):
    a, b = te.placeholder((n, terms), name="a"), te.placeholder((terms, m), name="b")
    k = te.reduce_axis((0, terms), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


def task_of(*sizes) -> SearchTask:
    return SearchTask(func=facts_test_product, args=sizes, target="llvm")


def second_operand(*sizes, how=None):
    """The second operand of a product, with its axes; ``how`` names what is said of it."""
    dag = task_of(*sizes).compute_dag
    op, said = dag.ops[-1], {how: frozenset([dag.ops[1]])} if how else {}
    facts = OperationFacts(op, dag.analyzer_of(dag.init_state.state_object), frozenset(), **said)
    return facts.reads[1], op.axis[1].var, op.reduce_axis[0].var


def held(rows: int, columns: int, length: int) -> int:
    """The bytes of a cache of 64 sets that holds such a part of an array: as many ways as the fullest set has lines."""
    lines = {(row * length + column) * 4 // LINE_BYTES for row in range(rows) for column in range(columns)}
    return max(Counter(line % SETS for line in lines).values()) * SETS * LINE_BYTES


@pytest.mark.parametrize("length", [256, 512, 1024])
@pytest.mark.parametrize("columns", [16, 64, 128])
@pytest.mark.parametrize("rows", [32, 64])
def test_rows_a_power_of_two_apart_take_up_what_they_lie_apart(rows, columns, length):
    buffer, j, k = second_operand(8, length, 64)
    assert buffer.footprint({j: columns, k: rows})[1] == held(rows, columns, length)


def test_whole_rows_and_copies_take_up_their_bytes():
    buffer, j, k = second_operand(8, 512, 64)
    assert buffer.footprint({j: 512, k: 16})[1] == 16 * 512 * 4 == held(16, 512, 512)
    assert buffer.footprint({j: np.array([512, 16]), k: np.array([16, 64])})[1].tolist() == [16 * 512 * 4, 64 * 2048]
    for how in ("layout_free", "attached"):
        buffer, j, k = second_operand(8, 512, 64, how=how)
        assert buffer.footprint({j: 16, k: 64})[1] == 16 * 64 * 4


def test_rows_that_share_sets_are_waited_for():
    def speed(columns):
        task = task_of(64, columns, 512)
        state = task.compute_dag.get_init_state()
        c = state.stage_ops[2]
        i, j, k = state[c].iters
        (j0, j1) = state.split(c, j, [16])
        state.reorder(c, [j0, i, k, j1])
        state.vectorize(c, j1)
        return float(estimated_speed(FeatureExtractor.of(task).rows(state.state_object)[None])[0])

    # The panel of 512 rows of 64 bytes has 32 KiB; rows of 1,040 columns are spread over all sets, rows of 1,024 are
    # not.
    assert speed(1040) > speed(1024)
