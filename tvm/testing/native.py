"""Small functions on the other side of the C boundary, for tests of the boundary."""

from __future__ import annotations

import sys

from ..error import error_from_text
from ..runtime import convert as convert_to_packed
from ..runtime.registry import get_global_func, register_func


@register_func("testing.echo", override=True)
def _echo(value):
    return value


def echo(value):
    """The value, after a trip through C and back."""
    return get_global_func("testing.echo")(value)


def device_test(device, device_type: int, device_id: int):
    """The device, which must arrive with this type and number."""
    if (device.device_type, device.device_id) != (device_type, device_id):
        raise ValueError(f"a device of type {device_type} and number {device_id} is wanted, got {device}")
    return device


def nop(*args) -> None:
    """A call that does nothing."""


@register_func("testing.raise_error", override=True)
def _raise(text):
    raise error_from_text(text)


def test_raise_error_callback(msg: str):
    """A function on the other side of C that raises the error the text stands for: "ValueError: what happened"."""
    return lambda: get_global_func("testing.raise_error")(msg)


def test_check_eq_callback(msg: str):
    """A function on the other side of C that raises the error the text stands for where its arguments differ."""

    def check(x, y):
        if x != y:
            get_global_func("testing.raise_error")(f"{msg}: {x} and {y} are not equal")

    return check


def test_wrap_callback(callback):
    """The function, called through C."""
    return convert_to_packed(callback)


# These are helpers of tests, not tests.
for _helper in (test_raise_error_callback, test_check_eq_callback, test_wrap_callback):
    _helper.__test__ = False


def ErrorTest(x: int, y: int) -> None:
    """Raises ValueError on the other side of C where the numbers differ."""
    test_check_eq_callback("ValueError: ErrorTest")(x, y)


def object_use_count(value) -> int:
    """References to an object, the asker's left out."""
    return sys.getrefcount(value) - 2
