"""The worker processes of this process: all tuned tasks build and run their candidates in them."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Protocol

from ..runtime.measure.worker_pool import Failure, Job, Pool

_MODULE = "tvm.exec.autotvm_worker"


class Workers(Protocol):
    """A pool that executes jobs: processes of this machine, or nodes of a cluster."""

    def submit(self, job: Job) -> None:
        """Submit a job to a worker; block until a worker is free."""
        ...

    def poll(self, seconds: float = 0.0) -> None:
        """Process answers."""
        ...

    def finish(self) -> None:
        """Wait until no job is left."""
        ...


def new_pool(size: int) -> Pool:
    """Return a new pool of workers that compile and run."""
    return Pool(size, _MODULE)


_lock = threading.Lock()
_pools: dict[int, Pool] = {}


def shared_pool(size: int) -> Pool:
    """Return the workers of this process, which are started at the first use and shared by all tasks."""
    with _lock:
        # After a fork the workers belong to the parent process.
        pool = next((p for p in _pools.values() if p.owner == os.getpid() and p.size >= size), None)
        if pool is None:
            for old in _pools.values():
                old.close()
            _pools.clear()
            pool = _pools[size] = new_pool(size)
        return pool


@atexit.register
def close_pools() -> None:
    for pool in _pools.values():
        pool.close()
    _pools.clear()


__all__ = ["Failure", "Job", "Pool", "Workers", "close_pools", "new_pool", "shared_pool"]
