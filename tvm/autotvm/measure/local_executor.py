"""Work in a process of its own, ended when it takes too long; or at once, in this one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from . import executor


def _work(send: Any, func: Callable, args: tuple, kwargs: dict) -> None:
    try:
        result = func(*args, **kwargs)
    except Exception as problem:  # The caller gets whatever the work ends with.
        result = problem
    try:
        send.send(result)
    except Exception as problem:
        send.send(executor.ExecutionError(f"the result of {func} cannot be sent: {problem}"))


class LocalFuture(executor.Future):
    """The result of another process: what it returned, the exception it ended with, or a TimeoutError."""

    def __init__(self, process: Any, receive: Any, timeout: float | None = None):
        self._process, self._receive, self._timeout = process, receive, timeout
        self._result: list[Any] = []

    def done(self) -> bool:
        return bool(self._result) or self._receive.poll() or not self._process.is_alive()

    def get(self, timeout: float | None = None) -> Any:
        if not self._result:
            self._result.append(self._wait(self._timeout if timeout is None else timeout))
        return self._result[0]

    def _wait(self, timeout: float | None) -> Any:
        try:
            if not self._receive.poll(timeout):
                return executor.TimeoutError()
            return self._receive.recv()
        except EOFError:
            return executor.ExecutionError("the process ended without a result")
        finally:
            self._process.kill()
            self._process.join()
            self._receive.close()


class LocalFutureNoFork(executor.Future):
    """A result that is there already."""

    def __init__(self, result: Any):
        self._result = result

    def done(self) -> bool:
        return True

    def get(self, timeout: float | None = None) -> Any:
        return self._result


class LocalExecutor(executor.Executor):
    """Runs each function in a process of its own (``do_fork=False``: here, without a limit of time)."""

    def __init__(self, timeout: float | None = None, do_fork: bool = True):
        self.timeout, self.do_fork = timeout or executor.Executor.DEFAULT_TIMEOUT, do_fork

    def submit(self, func: Callable, *args: Any, **kwargs: Any) -> executor.Future:
        if not self.do_fork:
            return LocalFutureNoFork(func(*args, **kwargs))
        receive, send = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=_work, args=(send, func, args, kwargs), daemon=True)
        process.start()
        send.close()
        return LocalFuture(process, receive, self.timeout)
