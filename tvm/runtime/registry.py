"""The table of global functions, which Python, C and generated code share."""

from __future__ import annotations

from collections.abc import Callable

from . import _lib
from ._lib import lib
from .devices import RPC_SESS_MASK, Device
from .packed_func import PackedFunc, convert_to_function, function_from_handle


def register_func(func_name: str | Callable, f: Callable | None = None, override: bool = False):
    """Register ``f`` under ``func_name``. Without ``f``, return a decorator; used directly as a decorator, use the
    function's name.

    Parameters
    ----------
    func_name : str | Callable
        The name, or the function itself.
    f : callable, optional
        The function.
    override : bool, optional
        Whether to replace a registered function of this name.

    Returns
    -------
    callable
        The function, or a decorator if ``f`` is missing.

    Raises
    ------
    ValueError
        The name is not a string.

    Examples
    --------
    >>> @tvm.register_func("docs.add_one")
    ... def add_one(x):
    ...     return x + 1
    >>> tvm.get_global_func("docs.add_one")(2)
    3
    """
    if callable(func_name):
        f, func_name = func_name, func_name.__name__
    if not isinstance(func_name, str):
        raise ValueError(f"register_func: expected a name, got {type(func_name).__name__}")

    def register(function: Callable) -> Callable:
        packed = convert_to_function(function)  # a separate variable, so that its handle is freed with it
        _lib.register_global(func_name, packed.handle, override)
        return function

    return register if f is None else register(f)


def get_device_func(name: str, device: Device) -> PackedFunc:
    """The function registered under ``name`` on the machine of a device, which is this machine or that of an RPC
    session.

    Parameters
    ----------
    name : str
        The name.
    device : Device
        The device.

    Returns
    -------
    PackedFunc
    """
    session = device.device_type // RPC_SESS_MASK
    if not session:
        return get_global_func(name)
    handle = _lib.session_function(session - 1, name)
    if handle is None:
        raise ValueError(f"the server of {device} has no global function '{name}'")
    return function_from_handle(handle)


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The function registered under ``name``.

    Parameters
    ----------
    name : str
        The name.
    allow_missing : bool, optional
        Whether to return None if the function is not registered.

    Returns
    -------
    PackedFunc

    Raises
    ------
    ValueError
        The function is not registered and ``allow_missing`` is false.
    """
    handle = _lib.get_global(name)
    if handle is not None:
        return function_from_handle(handle, is_global=True)
    if allow_missing:
        return None
    raise ValueError(f"no global function named '{name}' is registered; register it with tvm.register_func")


def list_global_func_names() -> list[str]:
    """The names of all registered functions.

    Returns
    -------
    list of str
    """
    return _lib.global_names()


def remove_global_func(name: str) -> None:
    """Remove a function from the table of global functions.

    Parameters
    ----------
    name : str
        The name.
    """
    _lib.check(lib.TVMFuncRemoveGlobal(name.encode()))


def extract_ext_funcs(finit: Callable) -> dict[str, PackedFunc]:
    """Return the functions that ``finit`` registers with the callback that it receives."""
    found: dict[str, PackedFunc] = {}

    def collect(name: str, function: Callable) -> int:
        found[name] = convert_to_function(function)
        return 0

    if finit(convert_to_function(collect)):
        raise RuntimeError(f"extract_ext_funcs: {finit} reported a failure")
    return found


def register_object(type_key: object = None):
    """Do nothing: classes need no registration. The decorator exists for compatibility with Apache TVM.

    Parameters
    ----------
    type_key : object, optional
        Anything.

    Returns
    -------
    type or callable
    """
    if isinstance(type_key, type):
        return type_key
    return lambda cls: cls


register_extension = register_object
