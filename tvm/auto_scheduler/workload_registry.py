"""Workloads: functions that create computations, identified by keys that can be stored in records.

A key is a JSON list: ``["name", argument, ...]`` of a registered function, or ``["hash", shape, ...]`` of registered
tensors.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from ..error import TVMError
from ..ir.serialize import load_json, save_json
from ..te.tensor import Tensor
from .utils import decode_workload_key, deserialize_args, get_func_name, register_named, serialize_args

# Functions by name, and tensors by key.
WORKLOAD_FUNC_REGISTRY: dict[str, Any] = {}


def register_workload(func_name: Any, f: Callable | None = None, override: bool = False) -> Any:
    """Register a function that returns tensors, inputs first. It can be used as a decorator, with or without a name.

    Parameters
    ----------
    func_name : str | Callable
        The name, or the function itself if used as a decorator.
    f : Callable, optional
        The function, which returns tensors, inputs first.
    override : bool
        Whether to replace another function of the same name.

    Returns
    -------
    Callable
        The function, or a decorator.

    Raises
    ------
    ValueError
        The name is not a string.
    RuntimeError
        Another function has this name, and ``override`` is false.
    """
    return register_named(WORKLOAD_FUNC_REGISTRY, "register_workload", func_name, f, override)


def register_workload_tensors(workload_key: str, tensors: Sequence[Tensor], override: bool = True) -> str:
    """Register tensors, inputs first, under a key and return the key.

    Parameters
    ----------
    workload_key : str
        The key of the workload.
    tensors : list of Tensor
        The inputs and outputs.
    override : bool
        Whether to replace other tensors of the same key.

    Returns
    -------
    str
        The key.

    Raises
    ------
    RuntimeError
        Other tensors have this key, and ``override`` is false.
    """
    if workload_key in WORKLOAD_FUNC_REGISTRY and not override:
        raise RuntimeError(
            f"register_workload_tensors: {workload_key} is already registered; pass override=True to replace it"
        )
    WORKLOAD_FUNC_REGISTRY[workload_key] = list(tensors)
    return workload_key


def make_workload_key(func: Callable | str, args: Any) -> str:
    """The key of a registered function with arguments.

    Parameters
    ----------
    func : Callable | str
        The function, or its name.
    args : tuple
        The arguments of the function.

    Returns
    -------
    str
        The key.

    Raises
    ------
    ValueError
        ``func`` is not a function or name, or is not registered.
    """
    name = func if isinstance(func, str) else get_func_name(func) if callable(func) else None
    if name is None:
        raise ValueError(f"make_workload_key: expected a function or its name, got {type(func).__name__}")
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise ValueError(f"make_workload_key: '{name}' is not registered; decorate it with register_workload")
    args = args if isinstance(args, (list, tuple)) else (args,)
    return json.dumps([name, *serialize_args(args)])


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The tensors of a key, inputs first; a registered function is called to create them.

    Parameters
    ----------
    workload_key : str
        The key of the workload.

    Returns
    -------
    list of Tensor
        The inputs and outputs.

    Raises
    ------
    TVMError
        The workload is not registered.
    """
    found = WORKLOAD_FUNC_REGISTRY.get(workload_key)
    if found is None:
        name, *args = _decoded(workload_key)
        function = WORKLOAD_FUNC_REGISTRY.get(name)
        if not callable(function):
            raise TVMError(f"the workload '{name}' is not registered; its key is {workload_key}")
        found = function(*deserialize_args(args))
    return [found] if isinstance(found, Tensor) else list(found)


def _decoded(workload_key: str) -> list[Any]:
    try:
        values = json.loads(workload_key)
    except ValueError:
        values = None
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise TVMError(f"a workload key must be a JSON list that begins with a name, got {workload_key}")
    return values


def is_registered(workload_key: str) -> bool:
    """Whether the tensors of a key are available.

    Parameters
    ----------
    workload_key : str
        The key of the workload.

    Returns
    -------
    bool
        True if they are.
    """
    return workload_key in WORKLOAD_FUNC_REGISTRY or _decoded(workload_key)[0] in WORKLOAD_FUNC_REGISTRY


def serialize_workload_registry_entry(workload_key: str) -> str:
    """The text that another process needs to register the workload of a key; a function is identified by its name.

    Parameters
    ----------
    workload_key : str
        The key of the workload.

    Returns
    -------
    str
        The text.

    Raises
    ------
    TVMError
        The workload is not registered.
    """
    name = workload_key if workload_key in WORKLOAD_FUNC_REGISTRY else decode_workload_key(workload_key)[0]
    value = WORKLOAD_FUNC_REGISTRY.get(name)
    if value is None:
        raise TVMError(f"the workload '{name}' is not registered")
    if callable(value):
        return json.dumps([name, {"module": value.__module__, "function": value.__qualname__}])
    return json.dumps([name, {"tensors": save_json(list(value))}])


def deserialize_workload_registry_entry(data: str) -> None:
    """Register the output of ``serialize_workload_registry_entry``, unless its name is already registered. The module
    of a function is imported.

    Parameters
    ----------
    data : str
        The output of ``serialize_workload_registry_entry``.

    Raises
    ------
    TVMError
        The function does not exist in this process.
    """
    name, value = json.loads(data)
    if name in WORKLOAD_FUNC_REGISTRY:
        return
    if "tensors" in value:
        WORKLOAD_FUNC_REGISTRY[name] = list(load_json(value["tensors"]))
        return
    try:
        found = attrgetter(value["function"])(importlib.import_module(value["module"]))
    except (ImportError, AttributeError) as error:
        raise TVMError(
            f"cannot register the workload '{name}': function {value['function']} of module {value['module']} was "
            f"not found: {error}"
        ) from None
    # Importing the module registers the function if it is decorated.
    WORKLOAD_FUNC_REGISTRY.setdefault(name, found)


__all__ = [
    "WORKLOAD_FUNC_REGISTRY",
    "deserialize_workload_registry_entry",
    "is_registered",
    "make_workload_key",
    "register_workload",
    "register_workload_tensors",
    "serialize_workload_registry_entry",
    "workload_key_to_tensors",
]
