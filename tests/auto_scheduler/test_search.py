"""The auto-scheduler as a kind of search of the tuning engine, over a builder and a runner that compute nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm.auto_scheduler import ApplyHistoryBest, HardwareParams, MeasureResult, SearchTask, SketchPolicy
from tvm.auto_scheduler.choices import load_rows
from tvm.auto_scheduler.measure import ProgramRunner
from tvm.auto_scheduler.search import UNTUNED, SketchSearch
from tvm.testing import auto_scheduler as workloads
from tvm.tuning import Outcome, TuningError, TuningOptions, tune

SMALL = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}


class Builder:
    n_parallel = 1

    def make(self, candidates):
        return [instantiate for instantiate, _ in candidates]


class Runner(ProgramRunner):
    """Each candidate takes a millisecond less than the one before it, three at least; a kernel without tuning takes
    ``untuned``."""

    min_repeat_ms = 0

    def __init__(self, untuned=1e-3, error_no=0):
        self.untuned, self.error_no, self.measured = untuned, error_no, 0

    def measure(self, task, built, reference=None, is_whole=True):
        self.measured += is_whole
        cost = max(10e-3 - self.measured * 1e-3, 3e-3) if is_whole else self.untuned
        return MeasureResult([cost], self.error_no if is_whole else 0, "it failed", 0.01, 1)


def a_search(runner, **given):
    task = SearchTask(
        func=workloads.matmul_auto_scheduler_test,
        args=(16, 16, 16),
        target="llvm",
        desc="fused_product",
        hardware_params=given.pop("hardware", None),
    )
    policy = SketchPolicy(task, params=SMALL, seed=0, verbose=0)
    return SketchSearch(task, policy, Builder(), runner, untuned=given.pop("untuned", [lambda: None] * 2), **given)


def options(log, trials=6):
    return TuningOptions(str(log), trials=trials)


def test_a_run_measures_the_code_without_tuning_and_goes_on_from_its_records(tmp_path):
    log, runner = tmp_path / "log.json", Runner()
    search = a_search(runner, count=3, number=7)
    assert search.title == "product 16x16 16x16 (x3)" and search.flop == 2 * 16**3
    (status,) = tune([search], options(log))
    # The two kernels without tuning take two milliseconds together.
    assert status.trials == 6 and status.baseline_cost == pytest.approx(2e-3) and status.choice == UNTUNED
    rows, unreadable = load_rows(log)
    assert not unreadable and sum(row.state is not None and not row.final for row in rows) == 6
    again = Runner()
    tune([a_search(again)], options(log))
    assert again.measured == 0, "all trials are spent"
    more = a_search(again)
    tune([more], options(log, 9))
    found = [m.key for m in more.read(load_rows(log)[0]) if m.key != UNTUNED]
    assert len(found) == len(set(found)) == 9, "nothing is measured twice"


def test_states_that_ran_and_are_no_leaders_are_let_go():
    search = a_search(Runner())
    best = None
    for _ in range(4):
        keys = search.propose(4)
        measurements = search.run(keys, search.build(keys))
        search.learn(measurements)
        best = min([m for m in (best, *measurements) if m], key=lambda m: m.costs)
    search.propose(4)
    assert len(search.policy.measured) == 16 and best is not None
    # Four are proposed, and of the others a fifth of a population of eight is kept, the best one among them.
    kept = set(search.policy._parents) & set(search.policy.measured)
    assert len(search.policy._parents) <= 5 and len(kept) == 1
    assert search.policy.measured[kept.pop()] == min(best.costs)
    assert all(not search.state_of(key).stages for key in search.policy.measured)
    schedule, args = search.instantiations(best.key)[0]()
    assert len(args) == 3 and schedule.stages


@pytest.mark.parametrize("untuned, wins", [(1e-3, False), (8e-3, True)])
def test_the_records_of_a_run_name_its_winner(tmp_path, untuned, wins):
    log = tmp_path / "log.json"
    search = a_search(Runner(untuned))
    tune([search], options(log))
    found = ApplyHistoryBest(str(log)).query("llvm", search.task.workload_key, True, None, "")
    assert (found is not None) is wins


def test_measurements_are_read_back_as_they_were_written():
    search = a_search(Runner())
    keys = search.propose(2)
    measured = search.run([*keys, UNTUNED], search.build([*keys, UNTUNED]))
    assert [m.outcome for m in measured] == [Outcome.MEASURED] * 3 and measured[2].costs == (2e-3,)
    from tvm.auto_scheduler.choices import row_of

    rows = [row_of(search.encode(m)) for m in (*measured, replace(measured[0], final=True))]
    other = a_search(Runner())
    read = other.read(rows)
    # The last measurement of each candidate, in the order of the rows.
    assert [m.key for m in read] == [keys[1], UNTUNED, keys[0]] and read[-1].final
    assert [m.cost for m in read] == [measured[1].cost, measured[2].cost, measured[0].cost]
    elsewhere = a_search(Runner(), hardware=HardwareParams(num_cores=77, target="llvm"))
    assert elsewhere.read(rows) == [] and len(elsewhere.read(rows, anywhere=True)) == 3
    assert UNTUNED not in [m.key for m in a_search(Runner(), untuned=[]).read(rows)]


def test_a_search_in_which_everything_fails_is_given_up(tmp_path):
    search = a_search(Runner(error_no=4))
    with pytest.raises(TuningError, match="consecutive candidates of product .* failed; .*it failed"):
        for _ in range(20):
            keys = search.propose(16)
            search.learn(search.run(keys, search.build(keys)))
