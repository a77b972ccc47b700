"""The llvm back end: lowered functions to LLVM text."""

from __future__ import annotations

from collections.abc import Iterable

from ..error import TVMError
from ..ir.module import IRModule
from ..ir.prim import Var
from ..ir.type import PrimType, TupleType
from ..target.cpu import ResolvedCPU
from ..tir.function import PrimFunc
from .llvm_builder import Builder
from .llvm_module import ModuleText
from .llvm_stmt import emit


def function_name(var, function: PrimFunc) -> str:
    return str(function.attrs.get("global_symbol") or var.name_hint)


def emit_module(functions: Iterable[tuple[str, PrimFunc]], cpu: ResolvedCPU) -> ModuleText:
    """LLVM text of functions, given with the name each is called by inside the module."""
    module = ModuleText(cpu)
    rows = []
    for name, function in functions:
        symbol_name = str(function.attrs.get("global_symbol") or name)
        if symbol_name in module.defined:
            raise TVMError(f"two functions of the module have the symbol '{symbol_name}'")
        result = _result_type(module, function)
        module.defined[symbol_name] = result
        module.callees[name] = module.callees[symbol_name] = (symbol_name, result)
        rows.append((symbol_name, function))
    for symbol_name, function in rows:
        _emit_function(module, symbol_name, function)
    return module


def prim_functions(mod: IRModule) -> list[tuple[str, PrimFunc]]:
    """The functions of a module in the order of their names, which is the order of the text."""
    rows = [(var.name_hint, function) for var, function in mod.functions.items() if isinstance(function, PrimFunc)]
    return sorted(rows, key=lambda row: row[0])


def _result_type(module: ModuleText, function: PrimFunc) -> str:
    """Functions give a status unless their type says otherwise."""
    kind = function.ret_type
    if isinstance(kind, PrimType) and kind.dtype not in ("void", ""):
        return module.types[kind.dtype]
    if kind is None or isinstance(kind, (PrimType, TupleType)):
        return "i32"
    raise TVMError(f"the llvm back end cannot return a value of type {kind}")


def _emit_function(module: ModuleText, name: str, function: PrimFunc) -> None:
    b = Builder(module, name)
    b.result = module.defined[name]
    noalias = bool(function.attrs.get("tir.noalias"))
    parameters = []
    for number, param in enumerate(function.params):
        parameters.append(_parameter(b, function, param, f"%a{number}", noalias))
    place = len(module.functions)
    module.functions.append("")
    emit(b, function.body)
    if not b.terminated:
        b.finish("ret void" if b.result == "void" else f"ret {b.result} {_zero(b.result)}")
    head = f"define {b.result} {module.symbol(name)}({', '.join(parameters)}) #0 {{\nentry:"
    module.functions[place] = "\n".join([head, *b.entry, *b.out, "}", ""])


def _parameter(b: Builder, function: PrimFunc, param: Var, operand: str, noalias: bool) -> str:
    buffer = (function.buffer_map or {}).get(param)
    b.remember(param, operand)
    b.level[param] = 0
    # A buffer parameter that was not unpacked by MakePackedAPI is its data pointer.
    var = param if buffer is None else buffer.data
    if buffer is not None:
        b.remember(buffer.data, operand)
    kind = b.types[var.dtype]
    if kind != "ptr":
        return f"{kind} {operand}"
    if noalias:
        b.private.add(var)
    return f"ptr{' noalias' if noalias else ''} {operand}"


def _zero(kind: str) -> str:
    return "null" if kind == "ptr" else "0x0000000000000000" if kind in ("float", "double") else "0"
