"""External code generators for subgraphs of a model; the target compiles the rest: ``--target "name, llvm"``.

The table contains the names of Apache TVM's code generators, which report that they are not available. A package that
provides a code generator registers it (``tvm.relay.op.contrib.register_codegen``) or replaces its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .errors import TVMCException


def _not_built(name: str) -> Callable[..., Any]:
    """Return the function of an entry without a code generator, which raises an error."""

    def pass_pipeline(mod: Any, params: Any = None, **options: Any) -> Any:
        raise TVMCException(f"the code generator of '{name}' is not available; remove it from --target")

    return pass_pipeline


_NOT_BUILT = ("bnns", "clml", "cmsis-nn", "compute-library", "ethos-n", "ethos-u", "mrvl", "tensorrt", "vitis-ai")

# Name -> {"config_key": the pass option for its settings or None, "pass_pipeline": f(mod, params, mod_name=,
# **options), which marks the subgraphs that the code generator supports}.
REGISTERED_CODEGEN: dict[str, dict[str, Any]] = {
    name: {"config_key": None, "pass_pipeline": _not_built(name), "is_built": False} for name in _NOT_BUILT
}


def _codegens() -> Any:
    """Return the registered code generators by name, including those of installed packages."""
    from ...relay.op.contrib.codegen import CODEGENS, import_codegens

    import_codegens()
    return CODEGENS


def get_codegen_names() -> list[str]:
    """Return the names that are allowed before the target."""
    return list(dict.fromkeys([*REGISTERED_CODEGEN, *_codegens()]))


def get_codegen_by_target(name: str) -> dict[str, Any]:
    """Return the entry of a code generator."""
    from ...relay.op.contrib import load_codegens, partition_for

    load_codegens(name)
    if name in _codegens():
        key = _codegens()[name].config_key
        return {"config_key": key, "pass_pipeline": partial(partition_for, name), "is_built": True}
    if name not in REGISTERED_CODEGEN:
        raise TVMCException(f"Composite target {name} is not defined in TVMC.")
    return REGISTERED_CODEGEN[name]


def refuse_not_built(targets: Iterable[dict[str, Any]]) -> None:
    """Raise an error for names without a code generator, before the model is read."""
    for target in targets:
        entry = get_codegen_by_target(target["name"])
        if not entry.get("is_built", True):
            entry["pass_pipeline"](None)


def settings(targets: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the pass options with the options of the code generators."""
    refuse_not_built(targets)
    out: dict[str, Any] = {}
    for target in targets:
        key = get_codegen_by_target(target["name"])["config_key"]
        if key is not None:
            out[key] = _typed(target["name"], target["opts"])
    return out


def _typed(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a code generator with their types and defaults."""
    from ...relay.backend.external.options import typed_options

    return typed_options(name, given) if name in _codegens() else dict(given)


def partition(mod: Any, params: Any, targets: Iterable[dict[str, Any]], mod_name: str = "default") -> Any:
    """Return the module with partitions for the code generators in the order of the targets."""
    for target in targets:
        pass_pipeline = get_codegen_by_target(target["name"])["pass_pipeline"]
        mod = pass_pipeline(mod, params, mod_name=mod_name, **target["opts"])
    return mod


def keep_faster(mod: Any, target: Any, records: str) -> Any:
    """Return the module with the partitions that are faster than the kernels of the target, and print the times."""
    from ...relay.collage import keep_faster_partitions

    mod, choices = keep_faster_partitions(mod, target, records=records)
    for choice in choices:
        library, plain = choice.library_seconds * 1e3, choice.target_seconds * 1e3
        print(f"{choice.symbol}: {library:.3f} ms with {choice.compiler}, {plain:.3f} ms with the target")
    return mod


__all__ = [
    "REGISTERED_CODEGEN", "get_codegen_by_target", "get_codegen_names", "keep_faster", "partition",
    "refuse_not_built", "settings",
]  # fmt: skip
