"""Functions for tests of process pools, which the worker processes import by name."""

from __future__ import annotations

import time

from ..runtime.registry import get_global_func, register_func

_state: dict[str, object] = {}


def initializer(test_global_state_1, test_global_state_2, test_global_state_3) -> None:
    """Store the arguments in the process."""
    _state["kept"] = (test_global_state_1, test_global_state_2, test_global_state_3)


def after_initializer():
    """Return the values that ``initializer`` stored in this process."""
    return _state["kept"]


def register_ffi() -> None:
    register_func("testing.nested_identity", lambda value: value, override=True)


def call_py_ffi(arg):
    """Return the argument, passed through a function registered in this process."""
    return get_global_func("testing.nested_identity")(arg)


def call_cpp_ffi(arg):
    """Return the argument, passed through C."""
    return get_global_func("testing.echo")(arg)


def call_cpp_py_ffi(arg):
    return call_cpp_ffi(call_py_ffi(arg))


def fast_summation(n: int) -> int:
    return n * (n + 1) // 2


def slow_summation(n: int) -> int:
    return sum(range(n + 1))


def timeout_job(n: float) -> None:
    time.sleep(n * 1.5)
