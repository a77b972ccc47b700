"""Compile the partitions of a module with their code generators, before the passes of the model run.

``compile_partitions`` compiles each function with the attribute ``Compiler`` and replaces its calls by calls of one
opaque operator. No later pass sees the body of a partition, and every executor calls it like a kernel: a packed
function whose arguments are the inputs and then the outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ....error import TVMError
from ....ir.module import GlobalVar, IRModule
from ....ir.visit import post_order, rewrite
from ....runtime.module import Module
from ....target import Target
from ....tir.function import PrimFunc
from ...expr import Call, Function
from ...infer import infer_module
from ...op.contrib.codegen import compile_function, hook
from ...symbolic import flatten_type, has_dynamic_dims
from .call import partition_call


class Partitions:
    """The compiled partitions of a module: their runtime modules, and the loops of those that the target of the model
    compiles, by symbol."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.loops: dict[str, PrimFunc] = {}

    def into(self, library: Module) -> Module:
        """Import the modules of the partitions into the library of a model, and return the library."""
        for module in self.modules:
            library.import_module(module)
        return library


def without_compilers(mod: IRModule) -> IRModule:
    """Return the module without the attributes ``Compiler`` and ``Composite``: its functions are ordinary functions,
    which the target compiles."""
    marks = ("Compiler", "Composite")

    def post(e: Any) -> Any:
        if not isinstance(e, Function) or not any(m in e.attrs for m in marks):
            return None
        return Function(e.params, e.body, e.ret_type, e.type_params, None, e.span)

    return mod.map_functions(lambda var, f: rewrite(f, post) if isinstance(f, Function) else f)


def compile_partitions(mod: IRModule) -> tuple[IRModule, Partitions]:
    """Compile the partitions of a module.

    Return the module without them, and the compiled partitions. The target compiles partitions without a code
    generator, and partitions with dynamic shapes, like other functions; a warning names them.

    Parameters
    ----------
    mod : IRModule
        The module.

    Returns
    -------
    tuple of IRModule and Partitions
    """
    made = Partitions()
    if _partitions(mod):
        mod = infer_module(mod)
        found = _supported(_partitions(mod))
        _run_hooks(mod, found, made)
        for symbol, function in found.items():
            if not _is_lowered(str(function.attrs["Compiler"])):
                made.modules.append(_compiled(symbol, function))
        mod = _replaced(mod, found, made.loops)
    return without_compilers(mod), made


def _partitions(mod: IRModule) -> dict[str, Function]:
    """Return the partitions of a module by symbol: its functions, and those that Inline moved into their calls."""
    out: dict[str, Function] = {}
    for var, function in mod.functions.items():
        if not isinstance(function, Function):
            continue
        if "Compiler" in function.attrs:
            out[var.name_hint] = function
            continue
        for node in post_order(function.body):
            if isinstance(node, Call) and isinstance(node.op, Function) and "Compiler" in node.op.attrs:
                out[_symbol(node.op)] = node.op
    return out


def _symbol(function: Function) -> str:
    if "global_symbol" not in function.attrs:
        raise TVMError(
            f"a partition for '{function.attrs['Compiler']}' has no attribute global_symbol, the name of its function"
        )
    return str(function.attrs["global_symbol"])


def _is_lowered(compiler: str) -> bool:
    return hook(compiler, "RelayToTIR") is not None


def _supported(found: dict[str, Function]) -> dict[str, Function]:
    """Return the partitions that a code generator compiles. A warning lists the others."""
    missing: dict[str, int] = {}
    out: dict[str, Function] = {}
    for symbol, function in found.items():
        compiler = str(function.attrs["Compiler"])
        types = [t for p in (*function.params, function.body) for t in flatten_type(p.checked_type_)]
        if compile_function(compiler) is None and not _is_lowered(compiler):
            missing[compiler] = missing.get(compiler, 0) + 1
        elif any(has_dynamic_dims(t) for t in types):
            warnings.warn(f"partition {symbol} has dynamic shapes; the target compiles it instead", stacklevel=4)
        else:
            out[symbol] = function
    for compiler, count in missing.items():
        warnings.warn(
            f"no code generator is registered for '{compiler}' (relay.ext.{compiler}); the target compiles its "
            f"{count} partition{'s' * (count > 1)} instead",
            stacklevel=4,
        )
    return out


def _compiled(symbol: str, function: Function) -> Module:
    """Return the module of a partition."""
    compiler = str(function.attrs["Compiler"])
    build = compile_function(compiler)
    assert build is not None
    module = build(function.with_attr("global_symbol", symbol))
    if not isinstance(module, Module):
        raise TVMError(f"relay.ext.{compiler} must return a Module for partition {symbol}, got {type(module).__name__}")
    if not module.implements_function(symbol, query_imports=True):
        raise TVMError(f"the module that relay.ext.{compiler} returned has no function '{symbol}'")
    return module


# ---- RelayToTIR and TIRToRuntime ----


def _run_hooks(mod: IRModule, found: dict[str, Function], made: Partitions) -> None:
    """Lower and compile the partitions of code generators with hooks."""
    compilers = dict.fromkeys(str(f.attrs["Compiler"]) for f in found.values())
    for compiler in [c for c in compilers if _is_lowered(c)]:
        symbols = [symbol for symbol, f in found.items() if str(f.attrs["Compiler"]) == compiler]
        given = IRModule({GlobalVar(s): found[s] for s in symbols}, mod.type_definitions)
        lowered = hook(compiler, "RelayToTIR")(infer_module(given))  # type: ignore[misc]
        functions = {v.name_hint: f for v, f in lowered.functions.items() if isinstance(f, PrimFunc)}
        missing = [s for s in symbols if s not in functions]
        if missing:
            raise TVMError(f"RelayToTIR of '{compiler}' returned no PrimFunc with the name {missing[0]}")
        build = hook(compiler, "TIRToRuntime")
        named = {name: f.with_attr("global_symbol", name) for name, f in functions.items()}
        if build is not None:
            made.modules.append(_built(compiler, build, named, symbols))
        else:
            made.loops.update(named)


def _built(compiler: str, build: Any, functions: dict[str, PrimFunc], symbols: Sequence[str]) -> Module:
    module = build(IRModule({GlobalVar(name): f for name, f in functions.items()}), Target(compiler))
    if not isinstance(module, Module):
        raise TVMError(f"TIRToRuntime of '{compiler}' must return a Module, got {type(module).__name__}")
    for symbol in symbols:
        if not module.implements_function(symbol, query_imports=True):
            raise TVMError(f"the module that TIRToRuntime of '{compiler}' returned has no function '{symbol}'")
    return module


# ---- calls ----


def _replaced(mod: IRModule, found: dict[str, Function], loops: dict[str, PrimFunc]) -> IRModule:
    """Return the module with calls of ``PARTITION`` in place of calls of the partitions, and without the partitions."""

    def post(e: Any) -> Any:
        if not isinstance(e, Call):
            return None
        symbol = e.op.name_hint if isinstance(e.op, GlobalVar) else ""
        if isinstance(e.op, Function) and "Compiler" in e.op.attrs:
            symbol = _symbol(e.op)
        return partition_call(symbol, e, found[symbol], loops.get(symbol)) if symbol in found else None

    new = IRModule(None, mod.type_definitions)
    for var, function in mod.functions.items():
        if var.name_hint not in found:
            new[var] = rewrite(function, post) if isinstance(function, Function) else function
    return infer_module(new)


__all__ = ["Partitions", "compile_partitions", "without_compilers"]
