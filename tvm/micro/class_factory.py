"""Serialize constructor calls: a class and its arguments as JSON, from which another process creates the instance."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..error import TVMError

JsonSerializable = None | bool | int | float | str | list | dict


class SerializedFactoryError(TVMError):
    """A text is not a serialized factory."""


class ClassFactory:
    """A deferred call of a constructor, which may be executed in another process.

    Subclasses set ``SUPERCLASS``: ``from_json`` accepts only its subclasses.

    Parameters
    ----------
    cls : type
        The class.
    init_args : sequence
        The positional arguments, as JSON values.
    init_kw : dict of str to object
        The keyword arguments, as JSON values.
    """

    SUPERCLASS: type = object

    def __init__(self, cls: type, init_args: Sequence[Any], init_kw: Mapping[str, Any]):
        if not issubclass(cls, self.SUPERCLASS):
            raise TypeError(f"{cls.__qualname__} is not a subclass of {self.SUPERCLASS.__qualname__}")
        self.cls, self.init_args, self.init_kw = cls, list(init_args), dict(init_kw)

    def override_kw(self, **kw_overrides: Any) -> ClassFactory:
        """Return a copy of the factory with some keyword arguments replaced.

        Parameters
        ----------
        **kw_overrides
            The new values.

        Returns
        -------
        ClassFactory
            The changed factory.
        """
        return type(self)(self.cls, self.init_args, {**self.init_kw, **kw_overrides})

    def instantiate(self) -> Any:
        """Call the constructor.

        Returns
        -------
        object
            The instance.
        """
        return self.cls(*self.init_args, **self.init_kw)

    @property
    def to_json(self) -> str:
        """Return the factory as JSON text.

        Raises
        ------
        TypeError
            An argument is not a JSON value.
        """
        name = f"{self.cls.__module__}.{self.cls.__qualname__}"
        return json.dumps({"cls": name, "init_args": self.init_args, "init_kw": self.init_kw}, sort_keys=True)

    @classmethod
    def from_json(cls, data: str) -> ClassFactory:
        """Create a factory from the JSON text that ``to_json`` returned.

        Parameters
        ----------
        data : str
            The JSON text.

        Returns
        -------
        ClassFactory
            The factory.

        Raises
        ------
        SerializedFactoryError
            The text is not a factory, or its class does not exist or is not a subclass of ``SUPERCLASS``.
        """
        try:
            found = json.loads(data)
            name, args, kw = found["cls"], found["init_args"], found["init_kw"]
            if not (isinstance(name, str) and isinstance(args, list) and isinstance(kw, dict)):
                raise TypeError("a member has a wrong type")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SerializedFactoryError(f"the text is not a serialized factory: {error}") from error
        module, _, class_name = name.rpartition(".")
        try:
            made = getattr(importlib.import_module(module), class_name)
        except (ImportError, AttributeError, ValueError) as error:
            raise SerializedFactoryError(f"the class {name} of a serialized factory does not exist: {error}") from error
        if not (isinstance(made, type) and issubclass(made, cls.SUPERCLASS)):
            raise SerializedFactoryError(f"{name} is not a subclass of {cls.SUPERCLASS.__qualname__}")
        return cls(made, args, kw)
