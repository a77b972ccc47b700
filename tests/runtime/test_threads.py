from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tvm import runtime
from tvm.error import TVMError
from tvm.runtime import ndarray as nd


@pytest.fixture
def two_threads():
    configure = runtime.get_global_func("runtime.config_threadpool")
    before = runtime.num_threads()
    configure(1, 2)
    yield
    configure(1, before)


def run_python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_size_follows_environment_then_affinity():
    code = "from tvm import runtime; print(runtime.num_threads())"
    assert run_python(code, TVM_NUM_THREADS="3") == "3"
    pinned = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); " + code
    assert run_python(pinned, TVM_NUM_THREADS="", OMP_NUM_THREADS="") == "1"


def test_region_runs_on_different_threads(kernels, two_threads):
    assert kernels["count_threads"](2) == 2


def test_region_with_a_barrier_and_too_many_tasks_is_refused(kernels, two_threads):
    with pytest.raises(TVMError, match="cannot wait for each other"):
        kernels["count_threads"](8)


def test_parallel_for_visits_each_index_once(kernels, two_threads):
    for extent in (0, 1, 2, 7, 1000):
        data, out = nd.array(np.arange(extent)), nd.array(np.zeros(extent, "int64"))
        kernels["squares"](data, out)
        np.testing.assert_array_equal(out.numpy(), np.arange(extent) ** 2)


@pytest.mark.parametrize("task", [0, 1])
def test_failure_in_a_region_ends_the_region(kernels, two_threads, task):
    with pytest.raises(TVMError, match="task failed on purpose"):
        kernels["fail_in_region"](task)


def test_regions_of_python_threads_at_once(kernels, two_threads):
    failures = []

    def work():
        data, out = nd.array(np.arange(200)), nd.array(np.zeros(200, "int64"))
        for i in range(200):
            kernels["squares"](data, out)
        if not np.array_equal(out.numpy(), 200 * np.arange(200) ** 2):
            failures.append(out.numpy())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pool_works_in_a_forked_child(kernels, two_threads):
    assert kernels["count_threads"](2) == 2
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if kernels["count_threads"](2) == 2 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert kernels["count_threads"](2) == 2


def test_workspace_is_aligned_and_distinct(kernels):
    assert kernels["use_workspace"]() == 0


@pytest.fixture
def interruptible():
    """Ctrl-C raises, as at a terminal; a program started in the background inherits that it is ignored."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


def test_ctrl_c_stops_a_timing_loop(kernels, interruptible):
    evaluator = kernels.time_evaluator("sleep_ms", runtime.cpu(0), number=100_000)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        evaluator(2)
    assert time.monotonic() - start < 100, "the loop takes 200 s"


def test_ctrl_c_in_a_callback_surfaces(kernel_path, interruptible):
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

    runtime.register_func("test.callback", interrupt, override=True)
    try:
        with pytest.raises(KeyboardInterrupt):
            runtime.load_module(kernel_path)["call_back"]()
    finally:
        runtime.remove_global_func("test.callback")


def test_bad_pool_size_is_refused():
    with pytest.raises(TVMError, match="number of threads must be between"):
        runtime.get_global_func("runtime.config_threadpool")(1, -4)
