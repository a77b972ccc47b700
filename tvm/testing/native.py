"""Small functions for tests of calls between Python and C."""

from __future__ import annotations

import sys

from ..error import error_from_text
from ..runtime import convert as convert_to_packed
from ..runtime.registry import get_global_func, register_func


@register_func("testing.echo", override=True)
def _echo(value):
    return value


def echo(value):
    """Return the value after passing it to C and back."""
    return get_global_func("testing.echo")(value)


def device_test(device, device_type: int, device_id: int):
    """Return the device, after checking its type and number."""
    if (device.device_type, device.device_id) != (device_type, device_id):
        raise ValueError(f"expected a device of type {device_type} and number {device_id}, got {device}")
    return device


def nop(*args) -> None:
    """Do nothing."""


@register_func("testing.raise_error", override=True)
def _raise(text):
    raise error_from_text(text)


def test_raise_error_callback(msg: str):
    """Return a packed function that raises the error in a text such as "ValueError: message"."""
    return lambda: get_global_func("testing.raise_error")(msg)


def test_check_eq_callback(msg: str):
    """Return a packed function that raises the error in the text if its arguments differ."""

    def check(x, y):
        if x != y:
            get_global_func("testing.raise_error")(f"{msg}: {x} and {y} are not equal")

    return check


def test_wrap_callback(callback):
    """Return the function, called through C."""
    return convert_to_packed(callback)


# pytest must not collect these functions as tests.
for _helper in (test_raise_error_callback, test_check_eq_callback, test_wrap_callback):
    _helper.__test__ = False


def ErrorTest(x: int, y: int) -> None:
    """Raise a ValueError in C if the numbers differ."""
    test_check_eq_callback("ValueError: ErrorTest")(x, y)


def object_use_count(value) -> int:
    """Return the number of references to an object, without that of the caller."""
    return sys.getrefcount(value) - 2
