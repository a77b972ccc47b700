"""Build calls of window operators: arguments become attributes after a common check."""

from __future__ import annotations

from typing import Any

from ....topi.nn.utils import spread, spread_pads
from ...expr import Call
from ..record import call

# Arguments with one number for each spatial dimension.
_SPATIAL = frozenset({"strides", "dilation", "kernel_size", "output_padding"})


def window_call(name: str, n: int, arguments: dict[str, Any]) -> Call:
    """Return the call of a window operator.

    ``arguments`` are the ``locals()`` of a builder: two tensors, then attributes in the order of its signature. The
    padding is expanded to the begin and end of every dimension.
    """
    (_, data), (_, weight), *rest = arguments.items()
    attrs: dict[str, Any] = {}
    for key, value in rest:
        if key in _SPATIAL:
            value = None if value is None else spread(value, n, f"{name}: {key}")
        elif key in ("groups", "channels"):
            value = None if value is None else int(value)
        elif key == "padding" and not isinstance(value, str):
            before, after = spread_pads(value, (1,) * n, n, name)
            value = (*before, *after)
        attrs[key] = value
    return call(name, data, weight, **attrs)
