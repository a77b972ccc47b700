"""Functions run in processes of their own, with a limit on their time.

Arguments and results are copied. A function is found in the other process by its name, so it is one of a module; where
cloudpickle is installed, closures and functions of ``__main__`` are copied with their code. Messages go through a pipe
between this process and its own child alone, so nothing that a stranger wrote is unpacked.
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
    """How a call ended."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """The end of one call of a map: its kind, and the result or the exception.

    Parameters
    ----------
    status : StatusKind
        How it ended.
    value : object
        The result or the exception.
    """

    status: StatusKind
    value: Any


def kill_child_processes(pid: int) -> None:
    """Send a process the signal it cannot ignore.

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
    """A message for the other process: bytes of cloudpickle where it is installed, else the message itself.

    Raises
    ------
    TypeError
        The other process could not import a function or class of the message.
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
    """One process that runs one call at a time; a call that takes too long ends it, and the next starts another.

    Parameters
    ----------
    initializer : callable, optional
        Called once in each process.
    initargs : Iterable[Any], optional
        Its arguments.
    maximum_uses : int, optional
        Calls after which the process is replaced.
    stdout : optional
        Where the processes write what they print.
    stderr : optional
        Where the processes write errors.
    """

    def __init__(
        self, initializer: Callable[..., Any] | None = None, initargs: Iterable[Any] = (),
        maximum_uses: int | None = None, stdout: Any = None, stderr: Any = None,
    ):  # fmt: skip
        if stdout is not None or stderr is not None:
            raise NotImplementedError("PopenWorker: the output of a process goes where this one's goes")
        if maximum_uses is not None and maximum_uses < 1:
            raise ValueError(f"PopenWorker: maximum_uses is at least 1, got {maximum_uses}")
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
        """Whether the process runs.

        Returns
        -------
        bool
            False also before the first call.
        """
        return self._process is not None and self._process.is_alive()

    def send(self, fn: Callable[..., Any], args: Iterable[Any] = (), kwargs: dict | None = None,
             timeout: float | None = None) -> None:  # fmt: skip
        """Start a call in the process. One that does not run, or has had its ``maximum_uses``, is replaced first.

        Parameters
        ----------
        fn : callable
            The function, which the other process imports by its name, or gets with its code where cloudpickle is
            installed.
        args : Iterable[Any], optional
            Its arguments.
        kwargs : dict, optional
            Its named arguments.
        timeout : float, optional
            How many seconds ``recv`` waits for the result; without it, as long as it takes.

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
            What the function returned. An error that it raised is raised here.

        Raises
        ------
        RuntimeError
            Nothing was sent.
        TimeoutError
            The call took longer than its ``timeout``; the process is ended.
        ChildProcessError
            The process ended before the call did.
        """
        if self._process is None:
            raise RuntimeError("PopenWorker: nothing was sent")
        if not self._pipe.poll(self._timeout):
            self.kill()
            raise TimeoutError(f"the call took longer than {self._timeout} s")
        try:
            status, value = _unpacked(self._pipe.recv())
        except EOFError:
            self.kill()
            raise ChildProcessError("the process ended before the call did") from None
        if status is StatusKind.EXCEPTION:
            raise value
        return value

    def join(self, timeout: float | None = None) -> None:
        """Wait for the process to end.

        Parameters
        ----------
        timeout : float, optional
            How many seconds at most.
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
    """Some processes that share calls; each call has ``timeout`` seconds.

    Parameters
    ----------
    max_workers : int, optional
        How many processes; without it, as many as there are processors.
    timeout : float, optional
        The most seconds of a call.
    initializer : callable, optional
        Called once in each process.
    initargs : Iterable[Any], optional
        Its arguments.
    maximum_process_uses : int, optional
        Calls after which a process is replaced.
    stdout : optional
        Where the processes write what they print.
    stderr : optional
        Where the processes write errors.
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
            The function, which the other process imports by its name.
        *args
            Its arguments.
        **kwargs
            Its named arguments.

        Returns
        -------
        Future
            Has the result, or the error: the function's own, a TimeoutError or a ChildProcessError.
        """
        return self._threads.submit(self._run, fn, args, kwargs)

    def map_with_error_catching(self, fn: Callable[..., Any], iterator: Iterable[Any]) -> Iterator[MapResult]:
        """The call on every item, in order; one that fails or takes too long does not end the others.

        Parameters
        ----------
        fn : callable
            The function of one argument.
        iterator : Iterable[Any]
            The arguments, all of which are taken before the first result is given.

        Yields
        ------
        MapResult
            How the call ended, and its result or its error.
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
            Whether calls that run or wait for a process may end first; without it, processes are ended at once, and the
            calls in them fail.
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
