"""How a model is to be run: the executor and the runtime it is compiled for."""

from __future__ import annotations

from typing import Any, ClassVar

from ...error import TVMError


class _Choice:
    OPTIONS: ClassVar[dict[str, dict[str, type]]] = {}

    def __init__(self, name: str, options: dict[str, Any] | None = None):
        if name not in self.OPTIONS:
            raise TVMError(f"{type(self).__name__} '{name}' is not defined; there are {', '.join(self.OPTIONS)}")
        unknown = [o for o in options or {} if o not in self.OPTIONS[name]]
        if unknown:
            raise TVMError(
                f"{type(self).__name__} {name} has no option '{unknown[0]}'; it has {', '.join(self.OPTIONS[name])}"
            )
        self.name = name
        self.options = dict(options or {})

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and (self.name, self.options) == (other.name, other.options)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.options.items()))))

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options})"

    @classmethod
    def list_registered(cls) -> list[str]:
        return list(cls.OPTIONS)

    @classmethod
    def list_registered_options(cls, name: str) -> dict[str, type]:
        return dict(cls.OPTIONS[name])


class Executor(_Choice):
    """``Executor("graph")``: the static graph executor; "aot" waits for ahead-of-time output."""

    OPTIONS = {
        "graph": {"link-params": bool},
        "aot": {"link-params": bool, "unpacked-api": bool, "interface-api": str, "workspace-byte-alignment": int,
                "constant-byte-alignment": int},
    }
    flag_registry_name = "executor"


class Runtime(_Choice):
    """``Runtime("cpp")``: the C runtime of this project under its classic name."""

    OPTIONS = {"cpp": {"system-lib": bool}, "crt": {"system-lib": bool}}
    flag_registry_name = "runtime"
