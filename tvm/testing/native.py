"""Small functions on the other side of the C boundary, for tests of the boundary."""

from __future__ import annotations

import sys

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


def object_use_count(value) -> int:
    """References to an object, the asker's left out."""
    return sys.getrefcount(value) - 2
