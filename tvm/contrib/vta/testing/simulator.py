"""Statistics of the simulators."""

from __future__ import annotations

import json

from ....runtime.registry import register_func
from .. import _lib
from ..config import Config


def enabled() -> bool:
    """Return whether the simulator library can be loaded.

    Returns
    -------
    bool
        True if the library is there.
    """
    try:
        _lib.find_library()
    except RuntimeError:
        return False
    return True


def stats() -> dict[str, int]:
    """Return what the simulators have counted since the last ``clear_stats``.

    Returns
    -------
    dict[str, int]
        Bytes loaded and stored, micro-ops, instructions, and for the cycle-level simulator cycles.
    """
    return _lib.stats()


def clear_stats() -> None:
    """Set all counters to 0."""
    _lib.clear_stats()


def debug_mode(flag: int) -> None:
    """Set what runs leave out.

    Parameters
    ----------
    flag : int
        1: instructions are checked and counted, but change no data except micro-ops. 0: they are executed.

    Raises
    ------
    ValueError
        The flag is neither 0 nor 1.
    """
    if flag not in (0, 1):
        raise ValueError(f"debug_mode: the flag is {flag}; it must be 0 or 1 (skip execution)")
    _lib.set_skip(bool(flag))


def utilization(counted: dict[str, int] | None = None) -> float:
    """Return the share of all cycles in which the GEMM core starts a micro-op.

    Parameters
    ----------
    counted : dict[str, int] | None
        Statistics of the cycle-level simulator; the current ones if None.

    Returns
    -------
    float
        The utilization, between 0 and 1.

    Raises
    ------
    ValueError
        The statistics contain no cycles.
    """
    found = stats() if counted is None else counted
    if not found["cycles"]:
        raise ValueError("utilization: no program has run on the cycle-level simulator (TARGET tsim)")
    return found["gemm_counter"] / found["cycles"]


def operations_per_cycle(config: Config | None = None) -> int:
    """Return the multiplications and additions of the GEMM core in one cycle.

    Parameters
    ----------
    config : Config | None
        The configuration; that of the device if None.

    Returns
    -------
    int
        The operations of one micro-op.
    """
    sizes = config or _lib.current_config()
    return 2 * sizes.batch * sizes.block * sizes.block


@register_func("vta.simulator.profiler_clear", override=True)
def _clear() -> None:
    clear_stats()


@register_func("vta.simulator.profiler_status", override=True)
def _status() -> str:
    return json.dumps(stats())


@register_func("vta.simulator.profiler_debug_mode", override=True)
def _debug_mode(flag: int) -> None:
    debug_mode(flag)
