"""Generic functions: one name with an implementation per target key, selected by the current target at each call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from tvm.registry import Registry
from tvm.target.record import Target

_GLOBAL: Registry[GenericFunc] = Registry("generic function")


class GenericFunc:
    """The dispatch table of a generic function. The first key of the current target that has a function is used.

    Parameters
    ----------
    name : str, optional
        The name of the function.
    """

    __slots__ = ("default", "functions", "name")

    def __init__(self, name: str = ""):
        self.name = name
        self.default: Callable | None = None
        self.functions: dict[str, Callable] = {}

    def __call__(self, *args, **kwargs):
        return self.select(Target.current())(*args, **kwargs)

    def select(self, target: Target | None) -> Callable:
        """The function that a call with ``target`` runs.

        Parameters
        ----------
        target : Target, optional
            The target; without it, the default is used.

        Returns
        -------
        callable

        Raises
        ------
        KeyError
            No key of the target has a function, and there is no default.
        """
        for key in target.keys if target is not None else ():
            if key in self.functions:
                return self.functions[key]
        if self.default is None:
            keys = ", ".join(sorted(self.functions)) or "nothing"
            raise KeyError(
                f"generic function '{self.name}' has no default and no function for target '{target}'; its keys are "
                f"{keys}"
            )
        return self.default

    def set_default(self, func: Callable, allow_override: bool = False) -> None:
        """Set the function for targets without a registered function.

        Parameters
        ----------
        func : callable
            The function.
        allow_override : bool, optional
            Whether it may replace an existing default.

        Raises
        ------
        ValueError
            A default exists, and ``allow_override`` is false.
        """
        if self.default is not None and not allow_override:
            raise ValueError(f"generic function '{self.name}' already has a default; pass allow_override=True")
        self.default = func

    def register(self, func: Callable, key_list: str | Iterable[str], allow_override: bool = False) -> None:
        """Register the function for targets with the given keys.

        Parameters
        ----------
        func : callable
            The function.
        key_list : str or list of str
            One or more target keys, such as "cpu" or "gpu".
        allow_override : bool, optional
            Whether it may replace other functions.

        Raises
        ------
        ValueError
            A key already has a function, and ``allow_override`` is false; then nothing is registered.
        """
        keys = [key_list] if isinstance(key_list, str) else list(key_list)
        for key in keys:
            if key in self.functions and not allow_override:
                raise ValueError(
                    f"generic function '{self.name}' already has a function for '{key}'; pass allow_override=True"
                )
        for key in keys:
            self.functions[key] = func

    def get_packed_func(self) -> Callable:
        """A function that dispatches on the current target, for use as the default of another generic function.

        Returns
        -------
        callable

        Raises
        ------
        KeyError
            No key of the target has a function, and there is no default.
        """
        return self.select(Target.current(allow_none=True))


def get_native_generic_func(name: str) -> GenericFunc:
    """The global generic function ``name``; an empty one is created at first use.

    Parameters
    ----------
    name : str
        The name.

    Returns
    -------
    GenericFunc
    """
    found = _GLOBAL.get(name)
    return found if found is not None else _GLOBAL.register(name, GenericFunc(name))


def _decorate(fdefault: Callable, generic: GenericFunc, override: bool) -> Callable:
    @functools.wraps(fdefault)
    def dispatch(*args, **kwargs):
        return generic(*args, **kwargs)

    def register(key: str | Iterable[str], func: Callable | None = None, override: bool = override):
        """Register ``func`` for one or more keys; without it, return a decorator."""

        def add(function: Callable) -> Callable:
            generic.register(function, key, override)
            return function

        return add if func is None else add(func)

    dispatch.fdefault = fdefault
    dispatch.register = register
    dispatch.dispatch_dict = generic.functions
    dispatch.generic_func_node = generic
    dispatch.get_packed_func = generic.get_packed_func
    return dispatch


def generic_func(fdefault: Callable) -> Callable:
    """A new generic function with the default ``fdefault``; ``f.register(keys)`` adds implementations.

    Parameters
    ----------
    fdefault : callable
        The function that is called if no key of the target has a function.

    Returns
    -------
    callable
        A function with the method ``register``.
    """
    generic = GenericFunc(fdefault.__name__)
    generic.set_default(fdefault)
    return _decorate(fdefault, generic, override=False)


def override_native_generic_func(func_name: str) -> Callable[[Callable], Callable]:
    """A decorator like ``generic_func`` for the global generic function ``func_name``, whose default it replaces.

    Parameters
    ----------
    func_name : str
        The name.

    Returns
    -------
    callable
    """

    def wrap(fdefault: Callable) -> Callable:
        generic = get_native_generic_func(func_name)
        generic.set_default(fdefault, allow_override=True)
        return _decorate(fdefault, generic, override=True)

    return wrap
