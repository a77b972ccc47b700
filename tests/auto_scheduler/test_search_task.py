"""Tasks, their machines, and what tuning leaves behind."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.programs import arrays_of, run, run_schedule
from tvm import auto_scheduler, te
from tvm.auto_scheduler import HardwareParams, SearchTask
from tvm.auto_scheduler.measure import MeasureErrorNo, MeasureInput, PythonBasedMeasureCallback
from tvm.testing import auto_scheduler as workloads


def task(n: int = 16) -> SearchTask:
    return SearchTask(func=workloads.matmul_auto_scheduler_test, args=(n, n, n), target="llvm")


class Heard(PythonBasedMeasureCallback):
    def __init__(self):
        self.rows = []

    def callback(self, policy, inputs, results):
        assert isinstance(policy, auto_scheduler.search_policy.SearchPolicy)
        self.rows += zip(inputs, results)


def options(log, trials=2, **kwargs):
    return auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=2,
        verbose=0,
        runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=0),
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
        **kwargs,
    )


def test_a_task_is_made_of_a_function_a_key_or_a_computation():
    a = task()
    b = SearchTask(workload_key=a.workload_key, target="llvm")
    c = SearchTask(compute_dag=a.compute_dag, workload_key="test", target=tvm.target.Target("llvm"))
    d = auto_scheduler.create_task("matmul_auto_scheduler_test", (16, 16, 16), "llvm")
    assert a.workload_key == b.workload_key == d.workload_key and c.workload_key == "test"
    assert str(a.compute_dag) == str(b.compute_dag) == str(c.compute_dag)
    for wrong, complaint in (
        ({"target": "llvm"}, "pass func and args, or workload_key"),
        ({"workload_key": a.workload_key}, "no target is given"),
    ):
        with pytest.raises(ValueError, match=complaint):
            SearchTask(**wrong)


def test_what_is_not_said_of_a_machine_is_the_targets():
    plain = HardwareParams(target="llvm")
    assert HardwareParams(num_cores=7, target="llvm").num_cores == 7
    assert HardwareParams(num_cores=7, target="llvm").vector_unit_bytes == plain.vector_unit_bytes > 0
    assert HardwareParams.from_json(plain.to_json()) == plain
    gpu = HardwareParams(target="cuda -arch=sm_80")
    assert (gpu.warp_size, gpu.max_threads_per_block, gpu.max_shared_memory_per_block) == (32, 1024, 49152)


def test_plain_loops_are_measured_and_applied(tmp_path):
    log, search_task, heard = tmp_path / "log.json", task(), Heard()
    tuning = options(log)
    tuning.measure_callbacks.append(heard)
    search_task.tune(tuning, auto_scheduler.EmptyPolicy(search_task))
    assert [res.error_no for _, res in heard.rows] == [0]
    assert len(auto_scheduler.load_records(log)) == 1
    schedule, args = search_task.apply_best(log, layout_rewrite_option=auto_scheduler.LayoutRewriteOption.NO_REWRITE)
    assert schedule.steps == [] and args == search_task.compute_dag.tensors
    with pytest.raises(RuntimeError, match="contains no successful measurement of"):
        task(8).apply_best(log)
    with pytest.raises(ValueError, match="print_mode must be 'schedule' or 'llvm', got 'cuda'"):
        search_task.print_best(log, "cuda")
    assert "define" in search_task.print_best(log, "llvm")


def test_tuning_records_are_applied_and_printed(tmp_path, seed):
    log, search_task = tmp_path / "log.json", task()
    params = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}
    search_task.tune(options(log, 4), auto_scheduler.SketchPolicy(search_task, params=params, seed=seed, verbose=0))
    records = auto_scheduler.load_records(log)
    assert len(records) == 4 == len({inp.state.transform_steps for inp, _ in records})
    assert all(res.error_no == 0 for _, res in records)
    dag = search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    np.testing.assert_allclose(run_schedule(*search_task.apply_best(log), arrays)[-1], expected, rtol=1e-4, atol=1e-4)
    s, names = te.create_schedule(dag.output_ops), {op.name: op.output(0) for op in dag.ops}
    exec(search_task.print_best(log), {"s": s, "te": te, **names})
    np.testing.assert_allclose(run_schedule(s, dag.tensors, arrays)[-1], expected, rtol=1e-4, atol=1e-4)


def test_what_was_measured_before_is_not_measured_again(tmp_path, seed):
    log = tmp_path / "log.json"
    for _ in range(2):
        search_task = SearchTask(
            func=workloads.zero_rank_reduce_auto_scheduler_test,
            args=(6,),
            target="llvm",
            hardware_params=HardwareParams(num_cores=4, target="llvm"),
        )
        policy = auto_scheduler.SketchPolicy(
            search_task,
            seed=seed,
            verbose=0,
            params={"evolutionary_search_population": 16},
            init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)],
        )
        search_task.tune(options(log, 4), policy)
    keys = [inp.state.transform_steps for inp, _ in auto_scheduler.load_records(log)]
    assert len(keys) == len(set(keys)) > 4
    assert set(keys) == set(policy.measured)


def test_without_trials_nothing_is_measured(tmp_path, seed):
    log, search_task = tmp_path / "log.json", task()
    params = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}
    policy = auto_scheduler.SketchPolicy(search_task, params=params, seed=seed)
    schedule, args = auto_scheduler.auto_schedule(search_task, policy, options(log, 0))
    assert schedule.steps and len(args) == 3
    assert auto_scheduler.load_records(log) == []


def test_a_state_that_cannot_be_compiled_costs_only_itself():
    search_task = task()
    bad = search_task.compute_dag.get_init_state()
    bad.bind(2, bad[2].iters[0], "threadIdx.x")
    good = search_task.compute_dag.get_init_state()
    inputs = [MeasureInput(search_task, state) for state in (bad, good)]
    built = auto_scheduler.LocalBuilder().build(inputs)
    assert [b.error_no for b in built] == [MeasureErrorNo.INSTANTIATION_ERROR, 0]
    results = auto_scheduler.LocalRPCMeasureContext(number=1).runner.run(inputs, built)
    assert [r.error_no for r in results] == [MeasureErrorNo.INSTANTIATION_ERROR, 0]
    assert results[0].error_msg and results[0].costs == (1e10,) and results[1].mean_cost < 1


def test_a_search_of_failures_ends_with_the_error(tmp_path):
    search_task = task()

    class Bad(auto_scheduler.search_policy.SearchPolicy):
        number = 0

        def propose(self, count):
            state = search_task.compute_dag.get_init_state()
            Bad.number += 1
            state.split(2, state[2].iters[1], [Bad.number])
            state.bind(2, state[2].iters[0], "threadIdx.x")
            return [state.state_object]

        def best_guess(self):
            return search_task.compute_dag.get_init_state().state_object

    with pytest.raises(tvm.TVMError, match="150 consecutive candidates of .* failed; the last error: .*thread"):
        search_task.tune(options(tmp_path / "log.json", 1000), Bad(search_task))
    assert len(auto_scheduler.load_records(tmp_path / "log.json")) == 150


def test_options_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="runner must be 'local' or a ProgramRunner"):
        auto_scheduler.TuningOptions(runner="rpc")
    with pytest.raises(ValueError, match="builder must be 'local' or a ProgramBuilder"):
        auto_scheduler.TuningOptions(builder=3)
    with pytest.raises(ValueError, match="unknown build_func 'ndk'"):
        auto_scheduler.LocalBuilder(build_func="ndk")
    with pytest.raises(tvm.TVMError, match="only device 0 is supported, got device 1"):
        auto_scheduler.LocalRunner(device=1)
    with pytest.raises(tvm.TVMError, match="n_parallel must be 1"):
        auto_scheduler.LocalRPCMeasureContext(n_parallel=2)
    with pytest.raises(tvm.TVMError, match="priority must be 1, got 3"):
        auto_scheduler.LocalRPCMeasureContext(priority=3)
    with pytest.raises(ValueError, match="unknown parameter 'tile'"):
        auto_scheduler.SketchPolicy(task(), params={"tile": 1})
    with pytest.raises(ValueError, match="'evolutionary_search_mutation_prob' is not supported: every candidate"):
        auto_scheduler.SketchPolicy(task(), params={"evolutionary_search_mutation_prob": 0.5})
    with pytest.raises(ValueError, match="must not exceed evolutionary_search_population, 8"):
        auto_scheduler.SketchPolicy(
            task(), params={"evolutionary_search_population": 8, "sample_init_min_population": 9}
        )
    with pytest.raises(tvm.TVMError, match="only CPUs and GPUs are supported, not ext_dev"):
        auto_scheduler.SketchPolicy(SearchTask(workload_key=task().workload_key, target="ext_dev"))


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_round_without_new_states_is_searched_again_as_often_as_asked(times):
    class Empty(auto_scheduler.SketchPolicy):
        rounds = 0

        def _propose(self, count):
            self.rounds += 1
            return []

    policy = Empty(task(), params={"retry_search_one_round_on_empty": times}, verbose=0)
    assert policy.propose(2) == [] and policy.rounds == 1 + times
