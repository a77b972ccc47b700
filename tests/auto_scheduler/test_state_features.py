"""What states load from beyond caches, and which of their loops are vectors, by hand."""

import numpy as np

from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.hardware import HardwareParams
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor

M, N, K = 64, 32, 128
WHOLE = 4 * (M * K + N * K + M * N)


def rows_of(state, cores=1):
    hardware = HardwareParams(num_cores=cores, vector_unit_bytes=16, target="llvm")
    rows = FeatureExtractor(state.compute_dag, hardware).rows(state.state_object)
    return [dict(zip(NAMES, np.exp2(row.astype("float64")) - 1)) for row in rows]


def dense(is_free=False):
    a, b = te.placeholder((M, K), name="a"), te.placeholder((N, K), name="b")
    k = te.reduce_axis((0, K), name="k")
    attrs = {"layout_free_placeholders": [b]} if is_free else {}
    c = te.compute((M, N), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="c", attrs=attrs)
    return [a, b, c]


def inside_its_consumer(parts):
    """The sums of ``parts`` rows at a time, computed inside the loops of their consumer."""
    *inputs, c = dense()
    state = auto_scheduler.ComputeDAG([*inputs, topi.nn.relu(c)]).get_init_state()
    consumer = len(state.stages) - 1
    outer, _ = state.split(consumer, state.stages[consumer].iters[0], [M // parts])
    state.compute_at(consumer - 1, consumer, outer)
    return state


def test_data_that_a_cache_holds_is_loaded_once_wherever_a_stage_is_computed():
    for parts in (1, 4, 16):
        sums = rows_of(inside_its_consumer(parts))[0]
        # What is stored of the sums is a part of them at a time.
        loaded = WHOLE - 4 * M * N + 4 * M * N // parts
        assert np.isclose(sums[f"traffic of {1 << 23} bytes"], loaded, rtol=1e-4)


def test_data_beyond_a_cache_is_loaded_each_time_a_stage_begins():
    sums = rows_of(inside_its_consumer(16))[0]
    # 4 KiB of the rhs and more do not stay in 1 KiB, so all of the rhs comes for each of the rows.
    assert sums[f"traffic of {1 << 10} bytes"] >= 4 * M * N * K
    assert sums[f"traffic of {1 << 18} bytes"] < WHOLE


def test_weights_in_the_order_of_the_loops_are_vectors_where_a_body_reads_one_of_them():
    def vectorized(columns):
        state = auto_scheduler.ComputeDAG(dense(is_free=True)).get_init_state()
        i, j, k = state.stages[2].iters
        outer, inner = state.split(2, j, [columns])
        state.reorder(2, [i, outer, k, inner])
        state.pragma(2, i, "auto_unroll_max_step$16")
        return rows_of(state)[0]["vectorized trips"]

    assert round(vectorized(1)) == 4 and round(vectorized(2)) == 1


def test_few_parallel_iterations_cost_more_on_several_cores():
    def steps(parts, cores):
        state = auto_scheduler.ComputeDAG(dense()).get_init_state()
        outer, _ = state.split(2, state.stages[2].iters[0], [M // parts])
        state.parallel(2, outer)
        return rows_of(state, cores)[0]["relative steps"]

    assert steps(2, 2) > 1.1 * steps(32, 2)
    assert np.isclose(steps(2, 1), steps(32, 1), rtol=1e-4)
