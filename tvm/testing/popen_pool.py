"""Functions for tests of pools of processes: a process finds them by their names."""

from __future__ import annotations

import time

from ..runtime.registry import get_global_func, register_func

_state: dict[str, object] = {}


def initializer(test_global_state_1, test_global_state_2, test_global_state_3) -> None:
    """Keeps its arguments in the process."""
    _state["kept"] = (test_global_state_1, test_global_state_2, test_global_state_3)


def after_initializer():
    """What ``initializer`` kept in this process."""
    return _state["kept"]


def register_ffi() -> None:
    register_func("testing.nested_identity", lambda value: value, override=True)


def call_py_ffi(arg):
    """The argument, through a function registered in this process."""
    return get_global_func("testing.nested_identity")(arg)


def call_cpp_ffi(arg):
    """The argument, through C."""
    return get_global_func("testing.echo")(arg)


def call_cpp_py_ffi(arg):
    return call_cpp_ffi(call_py_ffi(arg))


def fast_summation(n: int) -> int:
    return n * (n + 1) // 2


def slow_summation(n: int) -> int:
    return sum(range(n + 1))


def timeout_job(n: float) -> None:
    time.sleep(n * 1.5)
