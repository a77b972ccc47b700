"""Generic functions: one name, one implementation per target key, chosen by the current target when called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from tvm.registry import Registry
from tvm.target.record import Target

_GLOBAL: Registry[GenericFunc] = Registry("generic function")


class GenericFunc:
    """The dispatch table itself. The first key of the current target that has a function wins.

    Parameters
    ----------
    name : str, optional
        The name it is known by.
    """

    __slots__ = ("default", "functions", "name")

    def __init__(self, name: str = ""):
        self.name = name
        self.default: Callable | None = None
        self.functions: dict[str, Callable] = {}

    def __call__(self, *args, **kwargs):
        return self.select(Target.current())(*args, **kwargs)

    def select(self, target: Target | None) -> Callable:
        """The function a call under ``target`` runs.

        Parameters
        ----------
        target : Target, optional
            The target; without it, the default is taken.

        Returns
        -------
        callable

        Raises
        ------
        KeyError
            There is no function for a key of the target, and no default.
        """
        for key in target.keys if target is not None else ():
            if key in self.functions:
                return self.functions[key]
        if self.default is None:
            keys = ", ".join(sorted(self.functions)) or "nothing"
            raise KeyError(
                f"generic function '{self.name}' has no default and nothing for target '{target}'; it has {keys}"
            )
        return self.default

    def set_default(self, func: Callable, allow_override: bool = False) -> None:
        """Set what runs for targets that no function is registered for.

        Parameters
        ----------
        func : callable
            The function.
        allow_override : bool, optional
            Whether it may replace another default.

        Raises
        ------
        ValueError
            There is a default, and ``allow_override`` is false.
        """
        if self.default is not None and not allow_override:
            raise ValueError(f"generic function '{self.name}' has a default already; pass allow_override=True")
        self.default = func

    def register(self, func: Callable, key_list: str | Iterable[str], allow_override: bool = False) -> None:
        """Set what runs for targets with some keys.

        Parameters
        ----------
        func : callable
            The function.
        key_list : str or list of str
            A key of targets, such as "cpu" or "gpu", or several.
        allow_override : bool, optional
            Whether it may replace other functions.

        Raises
        ------
        ValueError
            A key has a function, and ``allow_override`` is false; then no key is given this one.
        """
        keys = [key_list] if isinstance(key_list, str) else list(key_list)
        for key in keys:
            if key in self.functions and not allow_override:
                raise ValueError(
                    f"generic function '{self.name}' has a function for '{key}' already; pass allow_override=True"
                )
        for key in keys:
            self.functions[key] = func

    def get_packed_func(self) -> Callable:
        """The function for the current target: what is set as the default of another may call back to this one.

        Returns
        -------
        callable

        Raises
        ------
        KeyError
            There is no function for a key of the target, and no default.
        """
        return self.select(Target.current(allow_none=True))


def get_native_generic_func(name: str) -> GenericFunc:
    """The generic function known to everybody as ``name``; an empty one is made on first use.

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
        """Add ``func`` for a key or keys; without it, return a decorator."""

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
    """Make ``fdefault`` the default of a new generic function; ``f.register(keys)`` adds to it.

    Parameters
    ----------
    fdefault : callable
        What is called where no key of the target has a function.

    Returns
    -------
    callable
        A function with the method ``register``.
    """
    generic = GenericFunc(fdefault.__name__)
    generic.set_default(fdefault)
    return _decorate(fdefault, generic, override=False)


def override_native_generic_func(func_name: str) -> Callable[[Callable], Callable]:
    """As ``generic_func``, over the function known to everybody as ``func_name``, replacing its default.

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
