"""Parts of Apache TVM's interface that are not implemented: their modules can be imported, but using their names raises
an error.

A script that only imports such a part, or only uses it on another machine, runs. ``PARTS`` contains for each module the
feature, as named in the error, and its names. Modules from this table are found after the files of the package, so an
implemented module replaces its entry.
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
    """A part of the interface that is not implemented was used."""


class _NoAttribute(FeatureNotBuilt, AttributeError):
    """An attribute of such a part was accessed."""


def _sentence(path: str, feature: str) -> str:
    return f"{path}: {feature} is not available yet"


class NotBuilt:
    """The value of a name in such a part: it can be imported, passed on and subclassed, and raises an error when
    used."""

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
    """A decorator in such a part: decorating works, and using the decorated object raises an error."""

    def decorate(function: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not callable(function):
            return lambda f: decorate(f)
        made = f"{path} of '{function.__name__}'"
        # Errors about arguments of a wrong type print the name of the type.
        return type(_sentence(made, feature), (NotBuilt,), {})(made, feature)

    return decorate


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def name_of(module: str, name: str) -> Any:
    """The value of ``module.name`` for a part that is not implemented; AttributeError if the table does not contain it.

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
    """Finds and creates the modules of ``PARTS`` that do not exist as files. The table is read when one of our modules
    is not found; the standard base classes of finders and loaders would import a dozen modules with every ``import
    tvm``."""

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
    """Register the finder for the modules of ``PARTS``."""
    sys.meta_path.append(_Parts())
