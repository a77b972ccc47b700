"""Code generators that take parts of a model before the target gets the rest: ``--target "name, llvm"``.

None comes with this package; a package that has one adds it to ``REGISTERED_CODEGEN``.
"""

from __future__ import annotations

from typing import Any

from .errors import TVMCException

# Name -> {"config_key": the pass option of its settings or None, "pass_pipeline": f(mod, params, mod_name=, **options),
# which marks the parts it takes}.
REGISTERED_CODEGEN: dict[str, dict[str, Any]] = {}


def get_codegen_names() -> list[str]:
    """Names that may stand before the target."""
    return list(REGISTERED_CODEGEN)


def get_codegen_by_target(name: str) -> dict[str, Any]:
    """The entry of a code generator."""
    if name not in REGISTERED_CODEGEN:
        raise TVMCException(f"Composite target {name} is not defined in TVMC.")
    return REGISTERED_CODEGEN[name]


__all__ = ["REGISTERED_CODEGEN", "get_codegen_by_target", "get_codegen_names"]
