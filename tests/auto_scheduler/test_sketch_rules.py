"""Sketches: the structures of loops that the rules give for known computations."""

from __future__ import annotations

import pytest

import tvm
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler import HardwareParams, PreloadCustomSketchRule, SearchTask, SketchPolicy, _ffi_api
from tvm.auto_scheduler.loop_state import Stage, State
from tvm.testing import auto_scheduler as workloads


def sketches(function, args, callbacks=None):
    task = SearchTask(
        func=function, args=args, target="llvm", hardware_params=HardwareParams(num_cores=4, target="llvm")
    )
    return SketchPolicy(task, verbose=0, init_search_callbacks=callbacks).generate_sketches()


def where(state, place: int) -> str:
    table = {number: name for name, number in Stage.COMPUTE_AT_TRANS_TABLE.items()}
    return table[state.stages[place].compute_at]


tiled, cached, factored = (
    _ffi_api.SearchPolicyUtilsIsTiled,
    _ffi_api.SearchPolicyUtilsHasCacheWriteStage,
    _ffi_api.SearchPolicyUtilsHasRfactorStage,
)


def test_a_product_is_tiled_with_and_without_a_cache():
    found = sketches(workloads.matmul_auto_scheduler_test, (512, 512, 512))
    assert len(found) == 3
    assert [tiled(s.stages[2]) for s in found] == [True] * 3
    assert [cached(s, 2) for s in found] == [False, True, True]
    assert [where(s, 2) for s in found] == ["root", "iter", "iter"]
    assert found[1] != found[2]
    names = [it.name for it in found[0].stages[2].iters]
    assert names == ["i.0", "j.0", "i.1", "j.1", "k.0", "i.2", "j.2", "k.1", "i.3", "j.3"]


def test_a_product_with_a_long_reduction_may_keep_parts_of_it_apart():
    found = sketches(workloads.matmul_auto_scheduler_test, (8, 8, 512))
    assert len(found) == 5
    assert [factored(s, 2) for s in found] == [True, True, False, False, False]
    assert [tiled(s.stages[2]) for s in found[2:]] == [True] * 3


def test_each_of_two_products_has_its_structures():
    found = sketches(workloads.double_matmul_auto_scheduler_test, (512,))
    assert len(found) == 9
    assert tiled(found[8].stages[5])


def test_a_convolution_is_computed_in_the_tiles_of_its_elementwise_consumer():
    found = sketches(workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 56, 56, 512, 512, 3, 1, 1))
    assert [where(s, 3) for s in found] == ["iter", "iter", "root"]
    assert [tiled(s.stages[10]) for s in found] == [True, True, False]
    for state in found:
        assert not tiled(state.stages[1]) and tiled(state.stages[3])
        assert [where(state, place) for place in (5, 7, 9)] == ["inlined"] * 3


@pytest.mark.parametrize(
    "function, args, count",
    [
        (workloads.max_pool2d_auto_scheduler_test, (1, 56, 56, 512, 1), 1),
        (workloads.min_nm_auto_scheduler_test, (10, 1024), 3),
        (workloads.softmax_nm_auto_scheduler_test, (1, 1024), 9),
        (workloads.softmax_abcd_auto_scheduler_test, (1, 12, 128, 128), 9),
        (workloads.zero_rank_reduce_auto_scheduler_test, (128,), 3),
        (workloads.zero_rank_compute_auto_scheduler_test, (128,), 1),
    ],
)
def test_reductions_without_reuse_are_plain_or_kept_apart(function, args, count):
    found = sketches(function, args)
    assert len(found) == count
    assert not any(tiled(stage) for stage in found[-1].stages)


@pytest.mark.parametrize("rows, count", [(32, 9), (33, 4)])
def test_a_search_keeps_parallel_parts_of_a_reduction_for_few_elements(rows, count):
    task = SearchTask(
        func=workloads.softmax_nm_auto_scheduler_test,
        args=(rows, 64),
        target="llvm",
        hardware_params=HardwareParams(num_cores=2, target="llvm"),
    )
    policy = SketchPolicy(task, verbose=0)
    assert len(policy.generate_sketches()) == 9
    assert len(policy.breeder.sketches) == count


def test_an_activation_that_reads_a_product_twice_is_computed_in_its_tiles():
    a, b = te.placeholder((32, 16), name="a"), te.placeholder((24, 16), name="b")
    product = topi.nn.dense(a, b)
    gelu = topi.multiply(product, topi.add(topi.erf(topi.divide(product, 1.4)), 1.0))
    dag = auto_scheduler.ComputeDAG([a, b, gelu])
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key=dag.workload_key(), target="llvm")
    found = [state.state_object for state in auto_scheduler.SketchPolicy(task, verbose=0).generate_sketches()]
    place = next(n for n, stage in enumerate(found[0].stages) if stage.op is product.op)
    assert all(where(state, n) == "inlined" for state in found for n in range(place + 1, len(state.stages) - 1))
    assert [where(state, place) for state in found] == ["iter", "iter", "root"]


def test_winograd_unrolls_its_constants_and_tiles_its_products():
    found = sketches(workloads.conv2d_winograd_nhwc_auto_scheduler_test, (1, 28, 28, 128, 128, 3, 1, 1))
    assert len(found) == 3
    plain, first, _ = found
    assert [tiled(plain.stages[place]) for place in (1, 2, 4, 6, 8, 9)] == [False, False, True, True, True, False]
    assert [where(plain, place) for place in (3, 7)] == ["inlined", "inlined"]
    assert cached(first, 6) and where(first, 6) == "iter" and where(first, 8) == "inlined"
    *_, lanes = annotations = [it.annotation for it in plain.stages[4].iters[-5:]]
    assert annotations[:-1] == [State.ANNOTATION_TRANS_TABLE["unroll"]] * 4
    assert lanes == State.ANNOTATION_TRANS_TABLE["none"] and plain.stages[4].iters[-1].name == "ci.1"


def test_rules_of_a_user_come_first():
    def condition(policy, state, stage_id):
        return PreloadCustomSketchRule.APPLY_AND_SKIP_REST

    def apply(policy, state, stage_id):
        state = auto_scheduler.loop_state.State(state, policy.search_task.compute_dag)
        other = state.copy()
        C = other.stage_ops[2]
        other.split(C, other[C].iters[0], [8, 2])
        return [[state.state_object, -1], [other.state_object, -1]]

    found = sketches(workloads.matmul_auto_scheduler_test, (512, 512, 512), [PreloadCustomSketchRule(condition, apply)])
    assert [[it.extent for it in s.stages[2].iters] for s in found] == [[512, 512, 512], [32, 8, 2, 512, 512]]


def test_a_users_rule_that_passes_leaves_the_others_and_one_that_applies_adds_to_them():
    def rule(answer):
        return [
            PreloadCustomSketchRule(
                lambda policy, state, stage_id: answer if stage_id == 2 else 0,
                lambda policy, state, stage_id: [[state, stage_id - 1]],
            )
        ]

    args = workloads.matmul_auto_scheduler_test, (512, 512, 512)
    assert len(sketches(*args, rule(PreloadCustomSketchRule.PASS))) == 3
    # Of each state with a cache the rule leaves one more, too.
    assert len(sketches(*args, rule(PreloadCustomSketchRule.APPLY))) == 5


def test_consumers_are_those_that_compute():
    task = SearchTask(
        func=workloads.conv2d_nchw_bn_relu_auto_scheduler_test, args=(1, 9, 9, 3, 4, 3, 1, 1), target="llvm"
    )
    state = task.compute_dag.get_init_state()
    consumers = _ffi_api.SearchPolicyUtilsGetConsumers(task, state, 3)
    assert list(consumers) == [5] and consumers.items()[0][0] == 5
    for place in (5, 7, 9):
        state.compute_inline(place)
    assert list(_ffi_api.SearchPolicyUtilsGetConsumers(task, state, 3)) == [10]
    assert _ffi_api.SearchPolicyUtilsIsElementwiseMatch(task, state, 3, 10)
    assert not _ffi_api.SearchPolicyUtilsIsElementwiseMatch(task, state, 1, 3)


def test_a_reduction_whose_length_is_data_is_not_tiled():
    x, starts = te.placeholder((9, 40), name="x"), te.placeholder((10,), "int32", name="starts")

    def row(i, j):
        k = te.reduce_axis((0, starts[i + 1] - starts[i]), name="k")
        return te.sum(x[i, starts[i] + k] * x[j, starts[j] + k], k)

    dag = auto_scheduler.ComputeDAG([x, starts, te.compute((9, 9), row, name="y")])
    task = SearchTask(compute_dag=dag, workload_key="rows", target="llvm")
    policy = SketchPolicy(task, params={"evolutionary_search_population": 4}, seed=0, verbose=0)
    found = policy.generate_sketches()
    assert [[it.extent for it in s.stages[2].iters] for s in found] == [[9, 9, None]]
    for state in policy.sample_initial_population():
        tvm.lower(*dag.apply_steps_from_state(state))


@auto_scheduler.register_workload
def batch_of_products(batch, n):
    a, b = (te.placeholder((batch, n, n), name=name) for name in "ab")
    return [a, b, topi.nn.batch_matmul(a, b, transpose_b=False)]


def test_a_search_leaves_the_axis_of_a_batch_outside_of_all_tiles():
    policy = SketchPolicy(SearchTask(func=batch_of_products, args=(16, 64), target="llvm"), verbose=0)
    tiles = [
        [it.name for it in stage.iters] for sketch in policy.breeder.sketches for stage in sketch.stages if tiled(stage)
    ]
    # Loops of a cache write have names of their own.
    assert tiles and all([name for name in names if name.startswith("b")] in (["b"], ["b.c"]) for names in tiles)
