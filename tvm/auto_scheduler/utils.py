"""Small helpers with public names."""

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
    """The name a function is registered by.

    Parameters
    ----------
    func : Callable
        The function.

    Returns
    -------
    str
        Its name.
    """
    return getattr(func, "func_name", None) or getattr(func, "__qualname__", None) or func.__name__


def register_named(registry: dict[str, Any], what: str, func_name: Any, f: Callable | None, override: bool) -> Any:
    """Keep a function under a name in a registry, or give a decorator that does; ``what`` names the public function."""
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)
    if not isinstance(func_name, str):
        raise ValueError(f"{what}: a name is a string, got {type(func_name).__name__}")

    def register(function: Callable) -> Callable:
        if registry.get(func_name, function) is not function and not override:
            raise RuntimeError(f"{what}: '{func_name}' is registered already; pass override=True")
        registry[func_name] = function
        return function

    return register(f) if f is not None else register


def get_const_int(value: Any) -> int:
    """An integer that may be an expression.

    Parameters
    ----------
    value : int | PrimExpr
        The integer.

    Returns
    -------
    int
        Its value.

    Raises
    ------
    ValueError
        The expression is no constant.
    """
    if isinstance(value, int):
        return value
    if not isinstance(value, IntImm):
        raise ValueError(f"a constant integer is wanted, got {value}")
    return value.value


def get_const_tuple(in_tuple: Any) -> tuple[Any, ...]:
    """Dimensions as integers; those that are known only when the program runs stay expressions.

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
    """The name (or hash) of a key, and its arguments in one flat tuple; None where the key is no JSON list.

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


def calc_workload_dis_factor(
    target_workload_pair: tuple[Any, Any], workload_pair: tuple[Any, Any]
) -> float:
    """How many times as large a workload is as another of the same computation, infinite where a schedule of one does
    not fit the other: each size must be a multiple.

    Parameters
    ----------
    target_workload_pair : tuple
        The workload that is asked for, as ``decode_workload_key`` gives it.
    workload_pair : tuple
        The one that there is.

    Returns
    -------
    float
        The factor.
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
        # A padding or a stride of zero is no size.
        if wanted == 0 or has == 0 or wanted % has:
            return math.inf
        factor *= wanted / has
    return factor


def list_to_tuple(x: list[Any]) -> tuple[Any, ...]:
    """A list, and the lists in it, as tuples.

    Parameters
    ----------
    x : list
        The list.

    Returns
    -------
    tuple
        The same.
    """
    return tuple(list_to_tuple(item) if isinstance(item, list) else item for item in x)


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a workload as plain values, tensors by their shapes and types.

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
    """The arguments that ``serialize_args`` gave; tensors are inputs.

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
    """An argument as JSON has it."""
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
    raise RuntimeError(f"an argument of a workload is a tensor, a number, a string or a list of them, got {arg!r}")


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
    """Text, numbers or lists of them as text, with so many digits after the point.

    Parameters
    ----------
    x : str, number, list or dict
        What is written.
    decimal : int
        How many digits.

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
    """Whether a tracker lends a device within some seconds.

    Parameters
    ----------
    device_key : str
        The key of the device.
    host : str, optional
        The address of the tracker.
    port : int, optional
        Its port.
    priority : int
        How urgent the request is.
    timeout : float
        How many seconds to wait.

    Returns
    -------
    bool
        Whether it does.
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
    "array_mean", "calc_workload_dis_factor", "check_remote", "decode_workload_key", "deserialize_args",
    "get_const_int", "get_const_tuple", "get_func_name", "list_to_tuple", "request_remote", "serialize_args",
    "to_str_round",
]
