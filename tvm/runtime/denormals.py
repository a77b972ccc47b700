"""Handling of denormal numbers: kept as in IEEE 754, or flushed to zero, which is much faster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from . import _lib
from ._lib import lib


@contextmanager
def flush_denormals(enabled: bool | None = None) -> Iterator[None]:
    """Set whether this thread, and parallel regions it starts, flush denormal numbers to zero inside the ``with``
    block.

    ``None`` uses the default of executors: flush, unless the environment variable ``TVM_FLUSH_DENORMALS`` is 0. An
    executor that runs in the block uses its own setting (``GraphModule.flush_denormals``).

    Parameters
    ----------
    enabled : bool, optional
        Whether denormal numbers are flushed to zero.

    Returns
    -------
    Iterator[None]
        The context manager.
    """
    before = lib.TVMFlushDenormals(-1 if enabled is None else int(enabled))
    if before < 0:
        _lib.check(before)
    try:
        yield
    finally:
        lib.TVMFlushDenormals(before)
