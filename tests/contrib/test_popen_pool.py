"""Functions in processes of their own."""

from __future__ import annotations

import importlib.util

import pytest

from tvm.contrib.popen_pool import MapResult, PopenPoolExecutor, PopenWorker, StatusKind
from tvm.testing import identity_after, terminate_self
from tvm.testing.popen_pool import after_initializer, call_cpp_py_ffi, fast_summation, initializer, register_ffi


@pytest.mark.slow("starts worker processes")
def test_a_worker_answers_refuses_to_wait_and_starts_again():
    worker = PopenWorker()
    worker.send(identity_after, [1, 0])
    assert worker.recv() == 1
    with pytest.raises(TimeoutError, match="longer than 0.2 s"):
        worker.send(identity_after, [2, 60], timeout=0.2)
        worker.recv()
    with pytest.raises(ChildProcessError, match="the process ended before the call finished"):
        worker.send(terminate_self)
        worker.recv()
    worker.send(identity_after, [3, 0])
    assert worker.recv() == 3
    with pytest.raises(TypeError, match="identity_after"):
        worker.send(identity_after, [3])
        worker.recv()
    assert worker.is_alive()
    worker.kill()
    assert not worker.is_alive()


@pytest.mark.slow("starts worker processes")
def test_a_worker_is_initialized_and_replaced_after_its_uses():
    worker = PopenWorker(initializer, ("a", 2, [3]), maximum_uses=1)
    for _ in range(2):
        worker.send(after_initializer)
        assert worker.recv() == ("a", 2, [3])
    registered = PopenWorker(register_ffi)
    registered.send(call_cpp_py_ffi, [7])
    assert registered.recv() == 7


@pytest.mark.slow("starts worker processes")
def test_a_pool_shares_calls_and_catches_errors():
    pool = PopenPoolExecutor(max_workers=2, timeout=60)
    assert pool.submit(fast_summation, 10).result() == 55
    got = list(pool.map_with_error_catching(fast_summation, [1, "x", 3]))
    assert [r.status for r in got] == [StatusKind.COMPLETE, StatusKind.EXCEPTION, StatusKind.COMPLETE]
    assert got[0] == MapResult(StatusKind.COMPLETE, 1) and got[2].value == 6
    pool.shutdown()
    slow = PopenPoolExecutor(max_workers=1, timeout=0.5)
    assert [r.status for r in slow.map_with_error_catching(_late, [60])] == [StatusKind.TIMEOUT]


def _late(seconds):
    return identity_after(1, seconds)


def test_closures_are_sent_with_their_code():
    pytest.importorskip("cloudpickle")
    number = 5
    worker = PopenWorker(lambda: None)
    worker.send(lambda x: (x + number, lambda: number), [1])
    total, closure = worker.recv()
    assert total == 6 and closure() == 5
    pool = PopenPoolExecutor(max_workers=1, timeout=60)
    assert pool.submit(lambda: number * 2).result() == 10


def test_closures_without_cloudpickle_are_refused_before_a_process_starts(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    worker, number = PopenWorker(), 5
    with pytest.raises(TypeError, match=r"PopenWorker: .*<lambda> cannot be sent .* install cloudpickle"):
        worker.send(lambda: number)
    assert not worker.is_alive()
    with pytest.raises(TypeError, match="PopenWorker: the initializer cannot be sent"):
        PopenWorker(lambda: number)


def test_what_is_not_offered_is_refused():
    with pytest.raises(NotImplementedError, match="cannot be redirected"):
        PopenWorker(stdout=1)
    with pytest.raises(ValueError, match="at least 1"):
        PopenWorker(maximum_uses=0)
    with pytest.raises(RuntimeError, match="without a preceding send"):
        PopenWorker().recv()
