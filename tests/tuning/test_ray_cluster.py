"""The nodes of a Ray cluster as workers, on a stand-in for Ray; ``python -m tools test ray`` has a real cluster."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tvm.error import TVMError
from tvm.target import Target
from tvm.tuning import ray_cluster
from tvm.tuning.candidate import ask
from tvm.tuning.ray_cluster import CodeRequirements, MeasuringNodes, RayPool, connect, serve_here
from tvm.tuning.workers import Failure, Job


class RayError(Exception):
    pass


class Task:
    def __init__(self, *arguments):
        self.arguments = arguments


class StandIn:
    """Runs a task when it is waited for; ``lost`` tasks end with their node."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self, resources, answer=None, lost=0):
        self.resources, self.answer, self.lost = resources, answer, lost
        self.options_given, self.cancelled = {}, []
        self.is_stuck = False

    def remote(self, function):
        def options(**given):
            self.options_given = given
            return SimpleNamespace(remote=Task)

        return SimpleNamespace(options=options)

    def cluster_resources(self):
        return self.resources

    def wait(self, tasks, num_returns=1, timeout=None):
        return ([], tasks) if self.is_stuck else (tasks[:num_returns], tasks[num_returns:])

    def get(self, task):
        if self.lost:
            self.lost -= 1
            raise RayError("the node died\nand more")
        return self.answer(*task.arguments)

    def cancel(self, task):
        self.cancelled.append(task)


def test_answers_reach_their_jobs():
    ray = StandIn({"CPU": 2.0}, lambda message, payload, seconds, code: ("done", message, payload * 2))
    pool, got = RayPool(ray), []
    for number in range(7):
        pool.submit(Job({"n": number}, bytes([number]), 1.0, got.append))
    pool.finish()
    assert sorted(got, key=lambda one: one[0]["n"]) == [({"n": n}, bytes([n, n])) for n in range(7)]
    assert not pool.busy
    assert ray.options_given == {"num_cpus": 1, "max_retries": 3}


def test_threads_that_ask_at_once_each_get_their_answer():
    pool = RayPool(StandIn({"CPU": 4.0}, lambda message, payload, seconds, code: ("done", message, payload)))
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: ask(pool, {"n": n}, b"", 1.0), range(200)))
    assert answers == [({"n": n}, b"") for n in range(200)]


def test_a_job_that_measures_takes_the_device_of_its_node():
    ray = StandIn({"tvm": 2.0})
    assert RayPool(ray, "tvm").size == 2
    assert ray.options_given == {"num_cpus": 0, "resources": {"tvm": 1}, "max_retries": 3}
    RayPool(ray, "GPU")
    assert ray.options_given == {"num_cpus": 0, "num_gpus": 1, "max_retries": 3}


@pytest.mark.parametrize("kind", ["timeout", "crash", "error"])
def test_a_failure_on_a_node_is_one_here(kind):
    pool, got = RayPool(StandIn({"CPU": 1.0}, lambda *_: (kind, "why"))), []
    pool.submit(Job({}, b"", 1.0, got.append))
    pool.finish()
    assert isinstance(got[0], Failure) and got[0].kind == kind and str(got[0]) == "why"


def test_what_ray_gives_up_is_a_failure_of_that_job_alone():
    pool, got = RayPool(StandIn({"CPU": 1.0}, lambda *_: ("done", {}, b""), lost=1)), []
    for _ in range(2):
        pool.submit(Job({}, b"", 1.0, got.append))
    pool.finish()
    assert [type(one) for one in got] == [Failure, tuple]
    assert str(got[0]) == "was lost with its node: the node died"


def test_a_run_ends_where_no_node_owns_the_device_any_more(monkeypatch):
    monkeypatch.setattr(ray_cluster, "_SECONDS_WITHOUT_DEVICE", 0.0)
    ray = StandIn({"tvm": 1.0})
    pool = RayPool(ray, "tvm")
    pool.submit(Job({}, b"", 1.0, lambda answer: None))
    ray.is_stuck, ray.resources = True, {}
    with pytest.raises(TVMError, match="no node of the Ray cluster owns 'tvm'"):
        pool.finish()
    assert len(ray.cancelled) == 1 and not pool.busy


def test_a_library_travels_as_its_bytes(tmp_path):
    (tmp_path / "made.so").write_bytes(b"code")
    pool, got = RayPool(StandIn({"CPU": 1.0}, lambda message, payload, *_: ("done", message, payload))), []
    pool.submit(Job({"filename": str(tmp_path / "made.so")}, b"", 1.0, got.append))
    pool.finish()
    assert got[0][1] == b"code"


def test_a_cluster_that_cannot_measure_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(ray_cluster, "connect", lambda address: StandIn({"CPU": 4.0}))
    with pytest.raises(TVMError, match=r"a node started with --resources='\{\"tvm\": 1\}' is wanted"):
        MeasuringNodes().of(Target("llvm"))
    with pytest.raises(TVMError, match="a node with a GPU is wanted"):
        MeasuringNodes().of(Target("cuda -arch=sm_80"))


def test_without_the_package_how_to_install_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TVMError, match=r"pip install 'tvm-classic\[ray\]'"):
        connect()


def test_code_for_another_machine_is_refused_on_the_node():
    foreign = "riscv64-linux-gnu"
    kind, why = serve_here({}, b"", 1.0, CodeRequirements(foreign, ()))
    assert kind == "error" and f"the code is for {foreign}" in why
    assert CodeRequirements.of(Target("llvm")).refusal() == ""
    assert CodeRequirements.of(Target("cuda -arch=sm_80")) is None
