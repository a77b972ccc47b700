"""Run functions in a separate process with a time limit, or immediately in this process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from . import executor


def _work(send: Any, func: Callable, args: tuple, kwargs: dict) -> None:
    try:
        result = func(*args, **kwargs)
    except Exception as problem:  # The caller receives any exception
        result = problem
    try:
        send.send(result)
    except Exception as problem:
        send.send(executor.ExecutionError(f"the return value of {func} cannot be sent between processes: {problem}"))


class LocalFuture(executor.Future):
    """The outcome of another process: a return value, an exception, or a TimeoutError."""

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
    """A result that is already available."""

    def __init__(self, result: Any):
        self._result = result

    def done(self) -> bool:
        return True

    def get(self, timeout: float | None = None) -> Any:
        return self._result


class LocalExecutor(executor.Executor):
    """An executor that runs each function in a separate process (``do_fork=False``: in this process, without a time
    limit)."""

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
