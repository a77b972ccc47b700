"""A board whose program serves a library of functions (``csrc/crt/src/session.c``): its memory, arrays in this memory,
and calls of functions on them.

This side allocates the memory of the board, so the program needs no allocator.
"""

from __future__ import annotations

import gc
import json
import math
import struct
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..error import TVMError, did_you_mean
from ..runtime import ndarray
from ..runtime.benchmark import BenchmarkResult
from ..runtime.devices import Device, cpu
from .graph_storage import rounded
from .project_api.server import TransportClosedError
from .transport import Transport

_DESCRIBE, _READ, _WRITE, _CALL = range(4)
_LARGEST_DESCRIPTION = 1 << 24
_LARGEST_NUMBER = 1 << 20
_ERRORS = {
    -1000: "the program runs one model and does not serve a library; compile the model with "
    'Runtime("crt", {"system-lib": True})',
    -1001: "the program does not support the request",
    -1002: "a request is outside the memory of the program",
}


class SessionTerminatedError(TVMError):
    """The program on the board ended, or the transport was closed."""


class BoardArgument(NamedTuple):
    """An argument of a function on a board."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool


class BoardFunction(NamedTuple):
    """A function on a board: its number in the library, its name and its arguments."""

    number: int
    name: str
    arguments: tuple[BoardArgument, ...]


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy data type for a data type.

    Parameters
    ----------
    dtype : str
        The data type.

    Returns
    -------
    numpy.dtype
        The NumPy data type.
    """
    return ndarray.empty((0,), dtype).numpy().dtype


class _Memory:
    """First-fit allocation of the memory of a board."""

    def __init__(self, size: int):
        self.size, self._free = size, [(0, size)]

    @property
    def largest(self) -> int:
        """The size of the largest free part."""
        return max((length for _, length in self._free), default=0)

    def allocate(self, size: int) -> int | None:
        """Take the first free part that is large enough; return its position, or None."""
        wanted = rounded(max(size, 1))
        for at, (start, length) in enumerate(self._free):
            if length >= wanted:
                self._free[at : at + 1] = [(start + wanted, length - wanted)] if length > wanted else []
                return start
        return None

    def release(self, start: int, size: int) -> None:
        merged: list[tuple[int, int]] = []
        for begin, length in sorted([*self._free, (start, rounded(max(size, 1)))]):
            if merged and sum(merged[-1]) == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((begin, length))
        self._free = merged


class Board:
    """A program that serves a library.

    Parameters
    ----------
    transport : Transport
        The open transport to the program.
    start_sec, limit_sec : float
        The time limits of the first request and of all others in seconds; 0 means no limit.

    Raises
    ------
    TVMError
        The program does not serve a library.
    """

    def __init__(self, transport: Transport, start_sec: float, limit_sec: float):
        self._transport, self._limit = transport, start_sec or None
        self.is_closed = False
        data = self._request(_DESCRIBE, 0, 0)[0]
        self._limit = limit_sec or None
        size, self.functions = _described(data)
        self._memory = _Memory(size)

    def _request(self, operation: int, first: int, second: int, data: bytes = b"") -> tuple[bytes, float]:
        """Return the data of the reply and the time on the board in seconds."""
        if self.is_closed:
            raise SessionTerminatedError("the session with the board is closed")
        try:
            self._transport.write(struct.pack("<4I", operation, first, second, len(data)) + data, self._limit)
            status, microseconds, size = struct.unpack("<iII", self._transport.read(12, self._limit))
            if size != (second if operation == _READ and not status else size) or size > _LARGEST_DESCRIPTION:
                raise TVMError(f"the board sent a reply with {size} bytes, which is not the size of its data")
            reply = self._transport.read(size, self._limit) if size else b""
        except TransportClosedError as error:
            self.is_closed = True
            raise SessionTerminatedError(f"the session with the board ended: {error.message}") from error
        if status:
            raise TVMError(f"the board returned an error: {_ERRORS.get(status, f'status {status}')}")
        return reply, microseconds * 1e-6

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the memory.

        Parameters
        ----------
        offset : int
            The position.
        size : int
            The number of bytes.

        Returns
        -------
        bytes
            The contents.
        """
        return self._request(_READ, offset, size)[0]

    def write(self, offset: int, data: bytes) -> None:
        """Write a part of the memory.

        Parameters
        ----------
        offset : int
            The position.
        data : bytes
            The contents.
        """
        self._request(_WRITE, offset, 0, data)

    def call(self, function: BoardFunction, offsets: Sequence[int], number: int = 1) -> float:
        """Call a function and return the time of all calls in seconds.

        Parameters
        ----------
        function : BoardFunction
            The function.
        offsets : sequence of int
            The positions of its arguments.
        number : int, optional
            The number of calls.

        Returns
        -------
        float
            The time.
        """
        if len(offsets) != len(function.arguments):
            raise TVMError(f"{function.name}: expected {len(function.arguments)} arguments, got {len(offsets)}")
        return self._request(_CALL, function.number, number, struct.pack(f"<{len(offsets)}I", *offsets))[1]

    def function(self, name: str) -> BoardFunction:
        """Return the function of a name.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        BoardFunction
            The function.

        Raises
        ------
        AttributeError
            There is no such function.
        """
        if name not in self.functions:
            raise AttributeError(f"the board has no function '{name}'{did_you_mean(name, self.functions, '; ')}; its "
                                 f"functions are {', '.join(self.functions) or 'none'}")  # fmt: skip
        return self.functions[name]

    def allocate(self, size: int, owner: Any) -> int:
        """Return the position of free memory, which is released together with an object.

        Parameters
        ----------
        size : int
            The number of bytes.
        owner : object
            The object.

        Returns
        -------
        int
            The position.

        Raises
        ------
        TVMError
            There is not enough free memory.
        """
        start = self._memory.allocate(size)
        if start is None:
            gc.collect()  # arrays in reference cycles
            start = self._memory.allocate(size)
        if start is None:
            raise TVMError(
                f"the memory of the board is too small: {rounded(size)} bytes are needed, the largest free part of its "
                f"{self._memory.size} bytes has {self._memory.largest}; set the option workspace_size_bytes of the "
                "project"
            )
        weakref.finalize(owner, self._memory.release, start, size)
        return start

    def empty(self, shape: Sequence[int], dtype: str) -> BoardArray:
        """Return a new array.

        Parameters
        ----------
        shape : sequence of int
            The shape.
        dtype : str
            The data type.

        Returns
        -------
        BoardArray
            The array, with arbitrary values.
        """
        made = BoardArray(self, 0, tuple(shape), dtype)
        made.offset = self.allocate(made.nbytes, made)
        return made

    def evaluator(
        self, run: Callable[[int], float], number: int = 10, repeat: int = 1, min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100, cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:  # fmt: skip
        """Measure on the clock of the board; the parameters are those of ``Module.time_evaluator``.

        Parameters
        ----------
        run : callable
            Runs a number of times and returns the time in seconds.
        number : int
            The number of runs that are averaged for one result.
        repeat : int
            The number of results.
        min_repeat_ms : int
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int
            How often a repeat with a measured time of zero is lengthened.
        cooldown_interval_ms : int
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int
            The number of repeats between pauses.

        Returns
        -------
        BenchmarkResult
            The times of one run in seconds.
        """
        import time

        times: list[float] = []
        while len(times) < repeat:
            if times and cooldown_interval_ms and len(times) % repeats_to_cooldown == 0:
                time.sleep(cooldown_interval_ms / 1e3)
            took, zeros = run(number), 0
            while (
                took * 1e3 < min_repeat_ms and number < _LARGEST_NUMBER and zeros < max(limit_zero_time_iterations, 1)
            ):
                zeros += took == 0
                number *= 2
                took = run(number)
            times.append(took / number)
        return BenchmarkResult(times)


def _described(data: bytes) -> tuple[int, dict[str, BoardFunction]]:
    """Return the size of the memory and the functions from a description."""
    try:
        texts = list(_texts(data))
        functions: dict[str, BoardFunction] = {}
        for index, (name, about) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
            rows = [
                BoardArgument(a, dtype, tuple(shape), is_output) for a, dtype, shape, is_output in json.loads(about)
            ]
            functions[name] = BoardFunction(index, name, tuple(rows))
        return struct.unpack_from("<I", data)[0], functions
    except (ValueError, TypeError, struct.error, RecursionError) as error:
        raise TVMError(f"the description of the board's functions is damaged: {error}") from error


def _texts(data: bytes) -> Iterator[str]:
    at = 4
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length > len(data) - at - 4:
            raise ValueError("a text exceeds the description")
        yield data[at + 4 : at + 4 + length].decode()
        at += 4 + length


class BoardArray:
    """An array in the memory of a board.

    Parameters
    ----------
    board : Board
        The board.
    offset : int
        The position of its data.
    shape : tuple of int
        The shape.
    dtype : str
        The data type.
    owner : object, optional
        An object that owns the memory and must exist as long as the array.
    """

    def __init__(self, board: Board, offset: int, shape: tuple[int, ...], dtype: str, owner: Any = None):
        self.board, self.offset, self.shape, self.dtype, self._owner = board, offset, shape, dtype, owner

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize

    @property
    def device(self) -> Device:
        """The CPU, because arrays of this machine are copied when they are assigned."""
        return cpu(0)

    def numpy(self) -> np.ndarray:
        """Return a copy as a NumPy array.

        Returns
        -------
        numpy.ndarray
            The copy.
        """
        data = self.board.read(self.offset, self.nbytes) if self.nbytes else b""
        return np.frombuffer(bytearray(data), numpy_dtype(self.dtype)).reshape(self.shape)

    asnumpy = numpy

    def copyfrom(self, source: Any) -> BoardArray:
        """Set the values from an array, which is converted to the data type.

        Parameters
        ----------
        source : array
            The array; its shape must be equal.

        Returns
        -------
        BoardArray
            This array.

        Raises
        ------
        ValueError
            The shape differs.
        """
        values = source.numpy() if hasattr(source, "numpy") else np.asarray(source)
        if tuple(values.shape) != self.shape:
            raise ValueError(f"an array of shape {self.shape} cannot be set from an array of shape {values.shape}")
        if self.nbytes:
            self.board.write(self.offset, np.ascontiguousarray(values, numpy_dtype(self.dtype)).tobytes())
        return self

    def copyto(self, target: Any) -> Any:
        """Copy the values to an array of this machine or of a board, or to a new array on a device.

        Parameters
        ----------
        target : NDArray, BoardArray or Device
            The destination.

        Returns
        -------
        NDArray or BoardArray
            The array with the copy.
        """
        if isinstance(target, Device):
            return ndarray.array(self.numpy(), target)
        target.copyfrom(self.numpy())
        return target

    def __repr__(self) -> str:
        return f"<BoardArray shape={self.shape} {self.dtype}>"


class BoardLibrary:
    """The functions of a board, with the interface of a module.

    Parameters
    ----------
    board : Board
        The board.
    """

    type_key = "rpc"
    imported_modules: tuple[Any, ...] = ()

    def __init__(self, board: Board):
        self.board = board

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Return whether the board has a function.

        Parameters
        ----------
        name : str
            The name.
        query_imports : bool, optional
            Ignored, because the library imports no other modules.

        Returns
        -------
        bool
            Whether it has this function.
        """
        return name in self.board.functions

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., None]:
        """Return a function.

        Parameters
        ----------
        name : str
            The name.
        query_imports : bool, optional
            Ignored, because the library imports no other modules.

        Returns
        -------
        callable
            The function. It takes one array for each argument. Arrays of this machine are copied to the board, and
            outputs are copied back.
        """
        function = self.board.function(name)

        def call(*args: Any) -> None:
            with self._on_board(function, args) as arrays:
                self.board.call(function, [array.offset for array in arrays])

        return call

    __getitem__ = get_function

    def time_evaluator(self, func_name: str, dev: Any = None, **options: int) -> Callable[..., BenchmarkResult]:
        """Return a function that measures a function on the clock of the board.

        Parameters
        ----------
        func_name : str
            The function to measure.
        dev : Device, optional
            Ignored, because a board has one clock.
        **options
            The options of ``Module.time_evaluator``: number, repeat, min_repeat_ms and so on.

        Returns
        -------
        callable
            The function; it takes the arguments and returns a ``BenchmarkResult``.
        """
        function = self.board.function(func_name)

        def evaluate(*args: Any) -> BenchmarkResult:
            with self._on_board(function, args) as arrays:
                offsets = [array.offset for array in arrays]
                return self.board.evaluator(lambda number: self.board.call(function, offsets, number), **options)

        return evaluate

    @contextmanager
    def _on_board(self, function: BoardFunction, args: Sequence[Any]) -> Generator[list[BoardArray], None, None]:
        """The arguments of a call as arrays of the board. Outputs are copied back to arrays of this machine."""
        if len(args) != len(function.arguments):
            raise TVMError(f"{function.name}: expected {len(function.arguments)} arguments, got {len(args)}")
        arrays: list[BoardArray] = []
        for value, about in zip(args, function.arguments):
            if tuple(value.shape) != about.shape or str(value.dtype) != about.dtype:
                raise TVMError(
                    f"{function.name}: argument {about.name} has shape {about.shape} and type {about.dtype}, got "
                    f"{tuple(value.shape)} and {value.dtype}"
                )
            is_here = not isinstance(value, BoardArray)
            arrays.append(self.board.empty(about.shape, about.dtype).copyfrom(value) if is_here else value)
        yield arrays
        for value, array, about in zip(args, arrays, function.arguments):
            if value is not array and about.is_output:
                _copy_back(array, value)


def _copy_back(array: BoardArray, value: Any) -> None:
    if isinstance(value, np.ndarray):
        value[...] = array.numpy()
    else:
        array.copyto(value)
