"""Tuners: what they measure, when they stop, and that a killed run goes on where it stopped."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tvm import autotvm
from tvm.autotvm.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, TuningError
from tvm.autotvm.tuner.droplet_tuner import p_value
from tvm.testing.autotvm import DummyRunner, get_sample_records, get_sample_task


class NoBuilder(autotvm.measure.Builder):
    """Builds nothing, so that a tuner's own work is all there is."""

    def build(self, measure_inputs):
        return [None] * len(measure_inputs)


class Landscape(autotvm.measure.Runner):
    """Time as a function of the configuration."""

    def __init__(self, cost):
        super().__init__(1, 1)
        self.cost = cost
        self.seen: list[int] = []

    def run(self, measure_inputs, build_results):
        self.seen += [inp.config.index for inp in measure_inputs]
        return [autotvm.MeasureResult((self.cost(inp.config),), 0, 0.1, time.time()) for inp in measure_inputs]


def option(runner) -> dict:
    return autotvm.measure_option(NoBuilder(n_parallel=2), runner)


def hill(config) -> float:
    """Fastest at tiles of 8 and 16."""
    y, x = config["tile_y"].size[-1], config["tile_x"].size[-1]
    return 1e-3 * (1 + abs(y.bit_length() - 4) + abs(x.bit_length() - 5))


@pytest.mark.parametrize("kind", [RandomTuner, GridSearchTuner, GATuner])
def test_tuner_measures_each_configuration_once(kind):
    task, _ = get_sample_task()
    runner = Landscape(hill)
    tuner = kind(task)
    tuner.tune(1000, option(runner))
    assert sorted(runner.seen) == list(range(64))
    assert not tuner.has_next()
    assert tuner.best_config["tile_y"].size == [-1, 8] and tuner.best_config["tile_x"].size == [-1, 16]
    tuner.reset()
    assert tuner.has_next() and tuner.best_flops == 0


def test_a_droplet_goes_downhill_and_measures_nothing_twice():
    task, _ = get_sample_task()
    runner = Landscape(hill)
    tuner = DropletTuner(task, start_position=[7, 0])
    tuner.tune(1000, option(runner))
    assert len(set(runner.seen)) == len(runner.seen) == len(tuner.visited) < 64
    assert not tuner.has_next()
    assert tuner.best_config["tile_y"].size == [-1, 8] and tuner.best_config["tile_x"].size == [-1, 16]
    assert tuner.best_choice[0] == tuner.best_config.index
    tuner.reset()
    assert tuner.has_next() and tuner.best_flops == 0 and tuner.step == 1
    with pytest.raises(ValueError, match=r"\[8, 0\] is not a point of the space with the dimensions \[8, 8\]"):
        DropletTuner(task, start_position=[8, 0])


def test_a_droplet_keeps_to_the_points_that_a_filter_leaves():
    task, _ = get_sample_task()
    task.config_space.multi_filter(lambda entity: entity["tile_x"].size[1] * entity["tile_y"].size[1] >= 32)
    runner = Landscape(hill)
    tuner = DropletTuner(task)
    tuner.tune(1000, option(runner))
    assert runner.seen and all(task.config_space.is_index_valid(i) for i in runner.seen)
    assert tuner.best_config["tile_y"].size == [-1, 8] and tuner.best_config["tile_x"].size == [-1, 16]


def test_a_droplet_moves_only_where_times_differ_by_more_than_chance():
    steady, noisy, faster = [1.0, 1.01, 0.99], [0.5, 1.6, 0.85], [0.5, 0.51, 0.49]
    assert p_value(noisy, steady) > 0.3 > 0.05 > p_value(faster, steady)
    assert p_value([1.0], [1.1]) == 0 and p_value([1.1], [1.0]) == 1 == p_value([math.inf], [math.inf])


def test_ranges_of_indexes():
    task, _ = get_sample_task()
    grid = GridSearchTuner(task)
    assert (grid.begin_idx, grid.end_idx, grid.index, grid.range_length, grid.visited_max) == (0, 64, 0, 64, 64)
    for kind in (GridSearchTuner, RandomTuner):
        tuner = kind(task, range_idx=(8, 15))
        assert (tuner.begin_idx, tuner.end_idx, tuner.range_length, tuner.visited_max) == (8, 16, 8, 8)
        runner = Landscape(hill)
        tuner.tune(100, option(runner))
        assert sorted(runner.seen) == list(range(8, 16)) and not tuner.has_next()
    with pytest.raises(ValueError, match="range_idx"):
        GridSearchTuner(task, range_idx=(8, 64))


def test_population_fits_the_space():
    task, _ = get_sample_task()
    small = GATuner(task, pop_size=32)
    assert small.pop_size == len(small.visited) == len(small.genes) == 32
    whole = GATuner(task, pop_size=100)
    assert whole.pop_size == len(whole.visited) == len(whole.genes) == 64


def test_early_stopping_and_callbacks(capsys):
    task, _ = get_sample_task()
    runner = Landscape(lambda config: 1.0 if config.index else 0.5)
    tuner = GridSearchTuner(task)
    tuner.tune(60, option(runner), early_stopping=20, callbacks=[autotvm.callback.progress_bar(60, "[Task  1/ 1] ")])
    assert len(runner.seen) == 32
    text = capsys.readouterr().out
    assert text.startswith("." * 32 + "\n[Task  1/ 1]  Current/Best:    0.00/   0.01 GFLOPS | Progress: (32/60) | ")
    assert text.endswith(" s Done.\n")


class Failing(autotvm.measure.Runner):
    def run(self, measure_inputs, build_results):
        number = autotvm.MeasureErrorNo.RUNTIME_DEVICE
        return [autotvm.MeasureResult((OSError("the device is away"),), number, 0, 0) for _ in measure_inputs]


def test_hopeless_tuning_stops_with_the_error_in_words():
    task, _ = get_sample_task()
    with pytest.raises(TuningError, match="running failed: OSError: the device is away"):
        RandomTuner(task).tune(1000, option(Failing(1, 1)))


@pytest.mark.parametrize("kind", [RandomTuner, GridSearchTuner, GATuner])
def test_history_is_not_measured_again(kind):
    task, _ = get_sample_task()
    records = get_sample_records(40)
    runner = Landscape(hill)
    tuner = kind(task)
    tuner.load_history(records)
    assert tuner.best_config.index == 0
    tuner.tune(100, option(runner))
    assert sorted(runner.seen) == list(range(40, 64))


@pytest.mark.parametrize("kind", [RandomTuner, GATuner])
def test_records_of_another_processor_are_no_measurements_of_this_one(kind):
    task, _ = get_sample_task()
    elsewhere = []
    for inp, result in get_sample_records(40):
        other = autotvm.MeasureInput(*inp)
        other.made_on = {"cpu": "a-processor-of-tomorrow"}
        elsewhere.append((other, result))
    tuner = kind(task)
    tuner.load_history(elsewhere)
    assert tuner.own_records(elsewhere) == ([], []) and tuner.best_config is None
    runner = Landscape(hill)
    tuner.tune(100, option(runner))
    assert sorted(runner.seen) == list(range(64))


def test_records_hold_although_they_are_drawn_already():
    """A first generation is drawn before records are read."""
    task, _ = get_sample_task()
    tuner = GATuner(task, pop_size=64)
    assert len(tuner.own_records(get_sample_records(40))[0]) == 40


SCRIPT = """
import random, sys, time
from tvm import autotvm
from tvm.testing.autotvm import get_sample_task

class Slow(autotvm.measure.Runner):
    def run(self, inputs, built):
        time.sleep(0.01)
        return [autotvm.MeasureResult((random.random() + 0.1,), 0, 0.1, time.time()) for _ in inputs]

class Nothing(autotvm.measure.Builder):
    def build(self, inputs):
        return [None] * len(inputs)

path, seconds = sys.argv[1], float(sys.argv[2])
task, _ = get_sample_task(1024)
tuner = autotvm.tuner.RandomTuner(task)
try:
    tuner.load_history(autotvm.record.load_from_file(path))
except FileNotFoundError:
    pass
print("ready", flush=True)
option = {"builder": Nothing(n_parallel=1), "runner": Slow(1, 1)}
tuner.tune(121, option, callbacks=[autotvm.callback.log_to_file(path)])
"""


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_killed_tuner_goes_on_where_it_stopped(tmp_path):
    """kill -9 at random moments, again and again: every line but a last one is whole, no index is there twice."""
    script, path = tmp_path / "tune.py", tmp_path / "records.log"
    script.write_text(SCRIPT)
    before = 0
    for _ in range(6):
        process = subprocess.Popen([sys.executable, str(script), str(path), "0"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.random() * 0.15)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found = [inp.config.index for inp, _ in autotvm.record.load_from_file(path)] if path.exists() else []
        assert len(found) == len(set(found)) and len(found) >= before
        before = len(found)
    subprocess.run([sys.executable, str(script), str(path), "0"], check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    indexes = [row["config"]["index"] for row in rows]
    assert len(indexes) == len(set(indexes)) == 121


def test_classic_loop_with_dummy_runner():
    task, _ = get_sample_task(16)
    measured = autotvm.measure_option(autotvm.LocalBuilder(), DummyRunner())
    tuner = RandomTuner(task)
    monitor = autotvm.callback.Monitor()
    tuner.tune(5, measured, callbacks=[monitor])
    assert len(monitor.trial_scores()) == 5 and all(s > 0 for s in monitor.trial_scores())
