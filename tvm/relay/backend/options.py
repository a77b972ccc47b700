"""The choice of the executor and the runtime for which a model is compiled."""

from __future__ import annotations

from typing import Any, ClassVar

from ...error import TVMError

_TYPE_KEYS = {bool: "IntImm", int: "IntImm", str: "runtime.String"}


class _Choice:
    OPTIONS: ClassVar[dict[str, dict[str, type]]] = {}

    def __init__(self, name: str, options: dict[str, Any] | None = None):
        known = self._known(name)
        kind = type(self).__name__
        for key, value in (options or {}).items():
            if key not in known:
                raise TVMError(
                    f'Attribute "{key}" is not available on this {kind}; options of {name}: {", ".join(known)}'
                )
            if not isinstance(value, int if known[key] is bool else known[key]):
                wanted, found = (_TYPE_KEYS.get(t, t.__name__) for t in (known[key], type(value)))
                raise TVMError(f'Attribute "{key}" should have type "{wanted}" but instead found "{found}"')
        self.name = name
        self.options = dict(options or {})

    @classmethod
    def _known(cls, name: str) -> dict[str, type]:
        if name not in cls.OPTIONS:
            raise TVMError(f'{cls.__name__} "{name}" is not defined; available: {", ".join(cls.OPTIONS)}')
        return cls.OPTIONS[name]

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def __getitem__(self, name: str) -> Any:
        if name not in self.options and self._known(self.name).get(name) is bool:
            return False
        return self.options[name]

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and (self.name, self.options) == (other.name, other.options)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.options.items()))))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options})"

    @classmethod
    def register(cls, name: str, options: dict[str, type] | None = None) -> None:
        """Register a name with its options."""
        if name in cls.OPTIONS:
            raise ValueError(f"{cls.__name__} '{name}' is already registered")
        cls.OPTIONS[name] = dict(options or {})

    @classmethod
    def list_registered(cls) -> list[str]:
        return list(cls.OPTIONS)

    @classmethod
    def list_registered_options(cls, name: str | _Choice) -> dict[str, str]:
        """Return the options of a name or instance, with the class of their values in Apache TVM."""
        return {option: _TYPE_KEYS[type_] for option, type_ in cls._known(str(name)).items()}


class Executor(_Choice):
    """The executor for which a model is compiled. ``Executor("graph")`` calls the kernels one by one in graph order;
    ``Executor("aot")`` calls one compiled main function with a fixed memory plan.

    Parameters
    ----------
    name : str
        "graph" or "aot".
    options : dict[str, Any], optional
        Options of the executor.
    """

    OPTIONS = {
        "graph": {"link-params": bool},
        "aot": {
            "link-params": bool,
            "unpacked-api": bool,
            "interface-api": str,
            "workspace-byte-alignment": int,
            "constant-byte-alignment": int,
        },
    }
    flag_registry_name = "executor"


class Runtime(_Choice):
    """The runtime for which a model is compiled. ``Runtime("cpp")`` is the runtime of this package. Code for
    ``Runtime("crt")`` needs no runtime: C programs call the model directly.

    Parameters
    ----------
    name : str
        "cpp" or "crt".
    options : dict[str, Any], optional
        Options of the runtime.
    """

    OPTIONS = {"cpp": {"system-lib": bool}, "crt": {"system-lib": bool, "parallel-for": bool}}
    flag_registry_name = "runtime"
