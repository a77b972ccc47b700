"""Execution of functions in separate processes with a time limit.

Arguments and results are copied. The other process imports the function by name, so it must be a module-level function;
if cloudpickle is installed, closures and functions of ``__main__`` are copied with their code. Messages use a pipe
between this process and its own child only, so no untrusted data is unpickled.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import IntEnum
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from ..runtime.host_cpu import usable_cores


class StatusKind(IntEnum):
    """How a call ended: normally, with an error, or by a timeout."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """The outcome of one call of a map: its status, and the result or the exception.

    Parameters
    ----------
    status : StatusKind
        The status.
    value : object
        The result or the exception.
    """

    status: StatusKind
    value: Any


def kill_child_processes(pid: int) -> None:
    """Kill a process with SIGKILL.

    Parameters
    ----------
    pid : int
        The process.
    """
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def _packed(message: tuple, what: str) -> Any:
    """Prepare a message for the other process: bytes of cloudpickle if it is installed, else the message itself.

    Raises
    ------
    TypeError
        The other process cannot import a function or class of the message.
    """
    if importlib.util.find_spec("cloudpickle") is not None:
        import cloudpickle

        return cloudpickle.dumps(message)
    try:
        ForkingPickler.dumps(message)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to another process: {error}. Define functions and classes at the top level of a "
            "module, or install cloudpickle (pip install cloudpickle), which also copies closures"
        ) from None
    return message


def _unpacked(message: Any) -> Any:
    if not isinstance(message, bytes):
        return message
    import cloudpickle

    return cloudpickle.loads(message)


def _serve(pipe: Any, initial: Any) -> None:
    initializer, initargs = _unpacked(initial)
    if initializer is not None:
        initializer(*initargs)
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        try:
            function, args, kwargs = _unpacked(message)
            pipe.send(_packed((StatusKind.COMPLETE, function(*args, **kwargs)), "the result"))
        except Exception as error:
            pipe.send(_packed((StatusKind.EXCEPTION, error), "the error"))


class PopenWorker:
    """A process that runs one call at a time; a call that exceeds its time limit ends the process, and the next starts
    another.

    Parameters
    ----------
    initializer : callable, optional
        A function that is called once in each process.
    initargs : Iterable[Any], optional
        The arguments of the initializer.
    maximum_uses : int, optional
        The number of calls after which the process is replaced.
    stdout : optional
        Not supported; must be None.
    stderr : optional
        Not supported; must be None.
    """

    def __init__(
        self, initializer: Callable[..., Any] | None = None, initargs: Iterable[Any] = (),
        maximum_uses: int | None = None, stdout: Any = None, stderr: Any = None,
    ):  # fmt: skip
        if stdout is not None or stderr is not None:
            raise NotImplementedError(
                "PopenWorker: stdout and stderr cannot be redirected; processes use the output of this process"
            )
        if maximum_uses is not None and maximum_uses < 1:
            raise ValueError(f"PopenWorker: maximum_uses must be at least 1, got {maximum_uses}")
        self._initial = _packed((initializer, tuple(initargs)), "PopenWorker: the initializer")
        self._maximum_uses = maximum_uses
        self._uses = 0
        self._process: Any = None
        self._pipe: Any = None
        self._timeout: float | None = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._initial), daemon=True)
        self._process.start()
        other.close()
        self._uses = 0

    def is_alive(self) -> bool:
        """Whether the process is running.

        Returns
        -------
        bool
            Also False before the first call.
        """
        return self._process is not None and self._process.is_alive()

    def send(self, fn: Callable[..., Any], args: Iterable[Any] = (), kwargs: dict | None = None,
             timeout: float | None = None) -> None:  # fmt: skip
        """Start a call in the process. A process that has ended, or reached ``maximum_uses``, is replaced first.

        Parameters
        ----------
        fn : callable
            The function, which the other process imports by name, or receives with its code if cloudpickle is
            installed.
        args : Iterable[Any], optional
            Its arguments.
        kwargs : dict, optional
            Its named arguments.
        timeout : float, optional
            The time limit of ``recv`` in seconds; None for no limit.

        Raises
        ------
        TypeError
            The function or an argument cannot be sent to another process.
        """
        message = _packed((fn, tuple(args), kwargs or {}), f"PopenWorker: {getattr(fn, '__qualname__', fn)}")
        if self.is_alive() and self._uses == self._maximum_uses:
            self.kill()
        if not self.is_alive():
            self._start()
        self._uses += 1
        self._timeout = timeout
        self._pipe.send(message)

    def recv(self) -> Any:
        """Wait for the result of the call.

        Returns
        -------
        Any
            The return value of the function. If the function raised an error, it is raised here.

        Raises
        ------
        RuntimeError
            No call was sent.
        TimeoutError
            The call took longer than its ``timeout``; the process is ended.
        ChildProcessError
            The process ended before the call finished.
        """
        if self._process is None:
            raise RuntimeError("PopenWorker: recv was called without a preceding send")
        if not self._pipe.poll(self._timeout):
            self.kill()
            raise TimeoutError(f"the call took longer than {self._timeout} s")
        try:
            status, value = _unpacked(self._pipe.recv())
        except EOFError:
            self.kill()
            raise ChildProcessError("the process ended before the call finished") from None
        if status is StatusKind.EXCEPTION:
            raise value
        return value

    def join(self, timeout: float | None = None) -> None:
        """Wait for the process to end.

        Parameters
        ----------
        timeout : float, optional
            The maximum number of seconds.
        """
        if self._process is not None:
            self._process.join(timeout)

    def kill(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = self._pipe = None

    def __del__(self) -> None:
        try:
            self.kill()
        except (AttributeError, OSError, TypeError):
            return


class PopenPoolExecutor:
    """A pool of processes; each call has a time limit of ``timeout`` seconds.

    Parameters
    ----------
    max_workers : int, optional
        The number of processes; by default the number of processors.
    timeout : float, optional
        The time limit of a call in seconds.
    initializer : callable, optional
        A function that is called once in each process.
    initargs : Iterable[Any], optional
        The arguments of the initializer.
    maximum_process_uses : int, optional
        The number of calls after which a process is replaced.
    stdout : optional
        Not supported; must be None.
    stderr : optional
        Not supported; must be None.
    """

    def __init__(
        self, max_workers: int | None = None, timeout: float | None = None,
        initializer: Callable[..., Any] | None = None, initargs: Iterable[Any] = (),
        maximum_process_uses: int | None = None, stdout: Any = None, stderr: Any = None,
    ):  # fmt: skip
        self._threads = ThreadPoolExecutor(max_workers=max_workers or usable_cores())
        self._timeout = timeout
        self._options = (initializer, tuple(initargs), maximum_process_uses, stdout, stderr)
        self._own = threading.local()
        self._workers: list[PopenWorker] = []

    def _run(self, fn: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
        worker = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = PopenWorker(*self._options)
            self._workers.append(worker)
        worker.send(fn, args, kwargs, self._timeout)
        return worker.recv()

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Start a call as soon as a process is free.

        Parameters
        ----------
        fn : callable
            The function, which the other process imports by name.
        *args
            Its arguments.
        **kwargs
            Its named arguments.

        Returns
        -------
        Future
            Contains the result or the error: the function's own, a TimeoutError or a ChildProcessError.
        """
        return self._threads.submit(self._run, fn, args, kwargs)

    def map_with_error_catching(self, fn: Callable[..., Any], iterator: Iterable[Any]) -> Iterator[MapResult]:
        """Call a function on every item, in order; a call that fails or times out does not end the others.

        Parameters
        ----------
        fn : callable
            The function of one argument.
        iterator : Iterable[Any]
            The arguments, all of which are read before the first result is returned.

        Yields
        ------
        MapResult
            The status of the call, and its result or error.
        """
        for future in [self.submit(fn, item) for item in iterator]:
            try:
                yield MapResult(StatusKind.COMPLETE, future.result())
            except TimeoutError as error:
                yield MapResult(StatusKind.TIMEOUT, error)
            except Exception as error:
                yield MapResult(StatusKind.EXCEPTION, error)

    def shutdown(self, wait: bool = True) -> None:
        """End the processes.

        Parameters
        ----------
        wait : bool, optional
            Whether to finish pending and running calls first; otherwise the processes are ended immediately, and their
            calls fail.
        """
        self._threads.shutdown(wait=wait)
        for worker in self._workers:
            worker.kill()

    def __del__(self) -> None:
        try:
            self.shutdown(wait=False)
        except (AttributeError, RuntimeError):
            return


__all__ = ["MapResult", "PopenPoolExecutor", "PopenWorker", "StatusKind", "kill_child_processes"]
