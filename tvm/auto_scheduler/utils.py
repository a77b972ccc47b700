"""Public helper functions."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..error import TVMError
from ..ir.prim import IntImm
from ..te.operation import placeholder
from ..te.tensor import Tensor
from ..tuning.remote import request_remote


def get_func_name(func: Callable) -> str:
    """The name under which a function is registered.

    Parameters
    ----------
    func : Callable
        The function.

    Returns
    -------
    str
        The name of the function.
    """
    return getattr(func, "func_name", None) or getattr(func, "__qualname__", None) or func.__name__


def register_named(registry: dict[str, Any], what: str, func_name: Any, f: Callable | None, override: bool) -> Any:
    """Register a function under a name, or return a decorator that does; ``what`` is the name of the public function
    for messages."""
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)
    if not isinstance(func_name, str):
        raise ValueError(f"{what}: the name must be a string, got {type(func_name).__name__}")

    def register(function: Callable) -> Callable:
        if registry.get(func_name, function) is not function and not override:
            raise RuntimeError(f"{what}: '{func_name}' is already registered; pass override=True to replace it")
        registry[func_name] = function
        return function

    return register(f) if f is not None else register


def get_const_int(value: Any) -> int:
    """The value of an integer, which may be an expression.

    Parameters
    ----------
    value : int | PrimExpr
        The integer or expression.

    Returns
    -------
    int
        The value.

    Raises
    ------
    ValueError
        The expression is not a constant.
    """
    if isinstance(value, int):
        return value
    if not isinstance(value, IntImm):
        raise ValueError(f"expected a constant integer, got {value}")
    return value.value


def get_const_tuple(in_tuple: Any) -> tuple[Any, ...]:
    """Dimensions as integers; dynamic dimensions stay expressions.

    Parameters
    ----------
    in_tuple : tuple
        The dimensions.

    Returns
    -------
    tuple
        The dimensions.
    """
    return tuple(get_const_int(v) if isinstance(v, (int, IntImm)) else v for v in in_tuple)


def decode_workload_key(workload_key: str) -> tuple[str, tuple[Any, ...] | None]:
    """The name (or hash) and the arguments, as one flat tuple, of a workload key; None as arguments if the key is not a
    JSON list.

    Parameters
    ----------
    workload_key : str
        The key of the workload.

    Returns
    -------
    tuple
        The name, and the arguments or None.
    """

    def flat(values: Any) -> list[Any]:
        return [x for v in values for x in (flat(v) if isinstance(v, (list, tuple)) else [v])]

    try:
        values = json.loads(workload_key)
    except ValueError:
        return workload_key, None
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        return workload_key, None
    return values[0], tuple(flat(values[1:]))


def calc_workload_dis_factor(target_workload_pair: tuple[Any, Any], workload_pair: tuple[Any, Any]) -> float:
    """The ratio of the sizes of two workloads of the same computation. It is infinite if the schedule of one cannot be
    used for the other: each size must be a multiple.

    Parameters
    ----------
    target_workload_pair : tuple
        The requested workload, as returned by ``decode_workload_key``.
    workload_pair : tuple
        The available workload.

    Returns
    -------
    float
        The ratio.
    """
    target_key, target_args = target_workload_pair
    key, args = workload_pair
    target_args, args = target_args or (), args or ()
    if key != target_key or len(target_args) != len(args):
        return math.inf
    factor = 1.0
    for wanted, has in zip(target_args, args):
        if wanted == has and isinstance(wanted, bool) == isinstance(has, bool):
            continue
        if not all(isinstance(size, int) and not isinstance(size, bool) for size in (wanted, has)):
            return math.inf
        # A padding or a stride of zero is not a size.
        if wanted == 0 or has == 0 or wanted % has:
            return math.inf
        factor *= wanted / has
    return factor


def list_to_tuple(x: list[Any]) -> tuple[Any, ...]:
    """A list and its nested lists, converted to tuples.

    Parameters
    ----------
    x : list
        The list.

    Returns
    -------
    tuple
        The tuple.
    """
    return tuple(list_to_tuple(item) if isinstance(item, list) else item for item in x)


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of a workload as JSON values; tensors are their shapes and types.

    Parameters
    ----------
    args : list
        The arguments.

    Returns
    -------
    tuple
        The values.
    """
    return tuple(list_to_tuple(made) if isinstance(made, list) else made for made in map(_plain, args))


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """The arguments for the output of ``serialize_args``; tensors are placeholders.

    Parameters
    ----------
    args : list
        The values.

    Returns
    -------
    list
        The arguments.
    """
    return [_argument(arg) for arg in args]


def _plain(arg: Any) -> Any:
    """Return an argument as a JSON value."""
    if isinstance(arg, Tensor):
        return ["TENSOR", list(get_const_tuple(arg.shape)), arg.dtype]
    if isinstance(arg, (list, tuple)):
        return [_plain(item) for item in arg]
    if isinstance(arg, IntImm):
        return arg.value
    if arg is None or isinstance(arg, (str, int, float)):
        return arg
    if hasattr(arg, "__index__"):
        return int(arg)
    raise RuntimeError(f"a workload argument must be a tensor, a number, a string or a list of these, got {arg!r}")


def _argument(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        if value and value[0] == "TENSOR":
            return placeholder(value[1], value[2])
        return tuple(_argument(item) for item in value)
    return value


def array_mean(arr: Sequence[Any]) -> float:
    """The mean of numbers, some of which may be constant expressions.

    Parameters
    ----------
    arr : list
        The numbers.

    Returns
    -------
    float
        Their mean.
    """
    return sum(float(getattr(number, "value", number)) for number in arr) / len(arr)


def to_str_round(x: Any, decimal: int = 6) -> str:
    """Strings, numbers or lists of them as text, with a number of decimal places.

    Parameters
    ----------
    x : str, number, list or dict
        The value to convert.
    decimal : int
        The number of decimal places.

    Returns
    -------
    str
        The text.
    """
    if isinstance(x, str):
        return x
    if isinstance(x, dict):
        return str({key: to_str_round(value, decimal) for key, value in x.items()})
    if hasattr(x, "__len__"):
        return f"[{', '.join(to_str_round(item, decimal) for item in x)}]"
    return str(x) if hasattr(x, "__index__") else f"{float(x):.{decimal}f}"


def check_remote(
    device_key: str, host: str | None = None, port: int | None = None, priority: int = 100, timeout: float = 10
) -> bool:
    """Whether a tracker provides a device within the time limit.

    Parameters
    ----------
    device_key : str
        The key of the device.
    host : str, optional
        The address of the tracker.
    port : int, optional
        The port of the tracker.
    priority : int
        The priority of the request.
    timeout : float
        The time limit in seconds.

    Returns
    -------
    bool
        True if it does.
    """
    lent = []

    def ask() -> None:
        with contextlib.suppress(TVMError, OSError):
            lent.append(request_remote(device_key, host, port, priority))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(timeout)
    return bool(lent)


__all__ = [
    "array_mean",
    "calc_workload_dis_factor",
    "check_remote",
    "decode_workload_key",
    "deserialize_args",
    "get_const_int",
    "get_const_tuple",
    "get_func_name",
    "list_to_tuple",
    "request_remote",
    "serialize_args",
    "to_str_round",
]
