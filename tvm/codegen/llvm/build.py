"""The llvm back end: lowered functions to LLVM text."""

from __future__ import annotations

from collections.abc import Iterable

from ...dtype import info
from ...error import TVMError
from ...ir.module import IRModule
from ...ir.prim import Var
from ...ir.type import PointerType, PrimType, TupleType
from ...runtime import host_cpu
from ...runtime.module import JitCode, Module, from_code
from ...target.cpu import ResolvedCPU, resolve_cpu
from ...target.target import Target
from ...tir.function import PrimFunc
from ..symbols import symbol_of
from . import jit as llvm_jit
from .builder import Builder
from .module import CONTEXT, TABLE, ModuleText
from .stmt import emit


def function_name(var, function: PrimFunc) -> str:
    return str(function.attrs.get("global_symbol") or var.name_hint)


def emit_module(functions: Iterable[tuple[str, PrimFunc]], cpu: ResolvedCPU, float_flags: str = "") -> ModuleText:
    """LLVM text of functions, given with the name each is called by inside the module."""
    module = ModuleText(cpu, float_flags)
    rows = []
    for name, function in functions:
        public = str(function.attrs.get("global_symbol") or name)
        if public in module.names:
            raise TVMError(f"two functions of the module have the symbol '{public}'")
        result = _result_type(module, function)
        symbol_name = module.names[public] = symbol_of(public)
        module.defined[symbol_name] = result
        module.callees[name] = module.callees[public] = (symbol_name, result)
        rows.append((public, function))
    for public, function in rows:
        _emit_function(module, public, function)
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
    symbol_name = module.names[name]
    b.result = module.defined[symbol_name]
    noalias = bool(function.attrs.get("tir.noalias"))
    parameters = []
    for number, param in enumerate(function.params):
        parameters.append(_parameter(b, function, param, f"%a{number}", noalias))
    place = len(module.functions)
    module.functions.append("")
    emit(b, function.body)
    if not b.terminated:
        b.finish("ret void" if b.result == "void" else f"ret {b.result} {_zero(b.result)}")
    head = f"define {b.result} {module.symbol(symbol_name)}({', '.join(parameters)}) #0 {{\nentry:"
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
    promises = ""
    if noalias:
        b.private.add(var)
        promises = " noalias"
    pointee = var.type_annotation.element_type if isinstance(var.type_annotation, PointerType) else None
    if isinstance(pointee, PrimType):
        # Arguments are checked to be aligned to their elements, no more.
        promises += f" align {info(pointee.dtype).bytes}"
    return f"ptr{promises} {operand}"


def _zero(kind: str) -> str:
    return "null" if kind == "ptr" else "0x0000000000000000" if kind in ("float", "double") else "0"


class CompiledCode:
    """The result of compiling a module: the object is the product, everything else is made from the text on demand."""

    def __init__(self, name: str, module: ModuleText, opt_level: int):
        self.cpu = module.cpu
        self.opt_level = opt_level
        self.imports = [llvm_jit.read_import(text) for text in module.imported]
        self.text = module.text(name, llvm_jit.data_layout(module.cpu))
        self.symbols = dict(module.names)
        self.names = tuple(self.symbols)
        self.object = llvm_jit.compile_object(self.text, self.cpu, opt_level, self.imports)

    def load(self) -> JitCode:
        """Put the code into this process, whose CPU has all that the code may use."""
        lacking = host_cpu.lacking(self.cpu.enabled)
        if lacking:
            raise TVMError(
                f"the code was compiled for cpu {self.cpu.cpu}; this machine lacks {', '.join(lacking)}. Compile it "
                "with an -mcpu that has none of them, or export it and run it elsewhere"
            )
        addresses, library = llvm_jit.load_object(self.object, (*self.symbols.values(), TABLE, CONTEXT))
        code = {name: addresses[own] for name, own in self.symbols.items()}
        return JitCode(code, addresses[TABLE], addresses[CONTEXT], library)

    def source(self, fmt: str = "") -> str:
        if fmt in ("", "ll"):
            return str(self._optimized())
        if fmt in ("s", "asm"):
            return llvm_jit.machine_for(self.cpu, self.opt_level).emit_assembly(self._optimized())
        raise TVMError(f"an llvm module has no source in format '{fmt}'; it has ll and asm")

    def _optimized(self):
        return llvm_jit.optimized(self.text, self.cpu, self.opt_level, self.imports)

    def save(self, path: str, fmt: str = "") -> None:
        """Write the code: o (object), s (assembly), ll (text) or bc (bitcode)."""
        fmt = fmt or path.rpartition(".")[2]
        if fmt in ("o", "obj"):
            data = self.object
        elif fmt in ("s", "asm", "ll"):
            data = self.source(fmt).encode()
        elif fmt == "bc":
            data = self._optimized().as_bitcode()
        else:
            raise TVMError(f"an llvm module cannot be saved as '{fmt}'; it can as o, s, ll or bc")
        with open(path, "wb") as file:
            file.write(data)


def module_text(mod: IRModule, target: Target) -> tuple[ModuleText, int]:
    """The functions of a module as LLVM text that nothing has compiled yet, and how much LLVM should optimize it."""
    level = target.attrs.get("opt-level")
    module = emit_module(prim_functions(mod), resolve_cpu(target), _float_flags(target))
    entry = entry_name(mod)
    if entry:
        module.entry_name = entry
    if mod.attrs.get("system_lib_prefix") is not None:
        module.register_symbols()
    return module, 3 if level is None else min(max(int(level), 0), 3)


def compile_module(mod: IRModule, target: Target) -> CompiledCode:
    """Compile the functions of a module; nothing is loaded."""
    return CompiledCode("tvm", *module_text(mod, target))


def _float_flags(target: Target) -> str:
    """What the ``-fast-math`` options of a target allow."""
    if target.attrs.get("fast-math"):
        return "fast"
    names = ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")
    return " ".join(name for name in names if target.attrs.get(f"fast-math-{name}"))


def entry_name(mod: IRModule) -> str | None:
    """The function marked as entry, or the only one there is beside raw entries."""
    functions = {function_name(v, f): f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    packed = [name for name in functions if name.removesuffix("_compute_") == name]
    for name in packed:
        if len(packed) == 1 or functions[name].attrs.get("tir.is_entry_func"):
            return name
    return None


def build(mod: IRModule, target: Target) -> Module:
    code = compile_module(mod, target)
    return from_code(
        code.load if host_cpu.runs(code.cpu.triple) else None,
        code.names,
        entry_name=entry_name(mod),
        source=code.source,
        save=code.save,
        triple=code.cpu.triple,
    )
