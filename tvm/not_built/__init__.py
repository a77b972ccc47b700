"""Parts of the interface whose feature is not built: their modules import, and what they name refuses to be used.

A script that only imports such a part, or only reaches it on another machine, runs. ``PARTS`` says for each module what
it gives, in the words of the error, and its names. A module made of a row is found after the files of the tree, so a
part that is built takes the place of its row.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..error import TVMError


class FeatureNotBuilt(TVMError, NotImplementedError):
    """A part of the interface that is to come was used."""


class _NoAttribute(FeatureNotBuilt, AttributeError):
    """An attribute of such a part was asked for."""


def _sentence(path: str, feature: str) -> str:
    return f"{path}: {feature} is not available yet"


class NotBuilt:
    """What a name of such a part means: it can be imported, passed on and derived from, and raises when it is used."""

    def __init__(self, path: str, feature: str):
        self.__dict__.update(_path=path, _feature=feature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise FeatureNotBuilt(_sentence(self._path, self._feature))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _NoAttribute(_sentence(f"{self._path}.{name}", self._feature))

    def __getitem__(self, index: Any) -> Any:
        raise FeatureNotBuilt(_sentence(self._path, self._feature))

    def __mro_entries__(self, bases: tuple) -> tuple[type, ...]:
        def refuse(*args: Any, **kwargs: Any) -> None:
            raise FeatureNotBuilt(_sentence(self._path, self._feature))

        return (type(self._path.rpartition(".")[2], (), {"__init__": refuse}),)

    def __repr__(self) -> str:
        return f"<{_sentence(self._path, self._feature)}>"


def decorator(path: str, feature: str) -> Callable[..., Any]:
    """A decorator of such a part: what it decorates refuses to be used, the decorating does not."""

    def decorate(function: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not callable(function):
            return lambda f: decorate(f)
        made = f"{path} of '{function.__name__}'"
        # Errors about an argument of a wrong type show the name of the type.
        return type(_sentence(made, feature), (NotBuilt,), {})(made, feature)

    return decorate


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def name_of(module: str, name: str) -> Any:
    """What ``module.name`` means while its feature is not built; AttributeError where the table does not know it.

    Parameters
    ----------
    module : str
        The module.
    name : str
        The name in it.

    Raises
    ------
    AttributeError
        The module has no such name.
    """
    from .parts import PARTS

    part = PARTS.get(module)
    path = f"{module}.{name}"
    if path in PARTS:
        return importlib.import_module(path)
    if part is None or name not in f"{part.names} {part.decorators} {part.questions}".split():
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    if name in part.questions.split():
        return _no
    return decorator(path, part.feature) if name in part.decorators.split() else NotBuilt(path, part.feature)


class _Parts:
    """Finds and makes the modules of ``PARTS`` that no file of the tree is. The table is read when a module of ours is
    not found; the base classes for finders and loaders would load a dozen modules with every ``import tvm``."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith("tvm."):
            return None
        from .parts import PARTS

        return ModuleSpec(fullname, self, is_package=True) if fullname in PARTS else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from .parts import PARTS

        name = module.__name__
        module.__doc__ = _sentence(name, PARTS[name].feature)
        module.__getattr__ = lambda attribute: name_of(name, attribute)  # type: ignore[method-assign]


def install() -> None:
    """Let the modules of ``PARTS`` be found."""
    sys.meta_path.append(_Parts())
