"""The llvm back end: compile lowered functions with LLVM."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from threading import Semaphore
from typing import NamedTuple
from weakref import WeakSet

from ...dtype import info
from ...error import TVMError
from ...ir.module import IRModule
from ...ir.prim import Var
from ...ir.type import PointerType, PrimType, TupleType
from ...runtime import host_cpu
from ...runtime.module import JitCode, Module, from_code
from ...target.cpu import ResolvedCPU, needs_of, resolve_cpu
from ...target.target import Target
from ...tir.function import PrimFunc
from ..symbols import PRIVATE_SUFFIX, symbol_of
from . import jit as llvm_jit
from .builder import Builder
from .module import CONTEXT, TABLE, ModuleText
from .stmt import emit

# Number of functions from which on LLVM starts to compile them while others are still being lowered.
ENOUGH_FUNCTIONS = 4


def function_name(name: str, function: PrimFunc) -> str:
    """Return the public name of a function, given its name inside the module. A function without ``global_symbol``
    takes raw arguments and has no public name."""
    return str(function.attrs.get("global_symbol") or name + PRIVATE_SUFFIX)


def emit_module(
    functions: Iterable[tuple[str, PrimFunc]], cpu: ResolvedCPU, float_flags: str = "",
    before: Mapping[str, str] | None = None, regions: int = 0,
) -> ModuleText:  # fmt: skip
    """Return the LLVM text of functions, given with the names by which they call each other inside the module.

    The text will be linked with text that contains the functions of ``before``, by symbol, and ``regions`` parallel
    regions. A function that is also in ``before`` becomes private in this text."""
    module, before = ModuleText(cpu, float_flags), before or {}
    module.parallel_regions = regions
    rows = []
    for name, function in functions:
        public = function_name(name, function)
        if public in module.names or before.get(public, name) != name:
            raise TVMError(f"two functions of the module have the symbol '{public}'")
        if public in before:
            module.private.add(public)
        result = _result_type(module, function)
        symbol_name = module.names[public] = symbol_of(public)
        module.defined[symbol_name] = result
        module.callees[name] = module.callees[public] = (symbol_name, result)
        rows.append((public, function))
    for public, function in rows:
        _emit_function(module, public, function)
    return module


def prim_functions(mod: IRModule) -> list[tuple[str, PrimFunc]]:
    """Return the functions of a module ordered by name, which is their order in the text."""
    rows = [(var.name_hint, function) for var, function in mod.functions.items() if isinstance(function, PrimFunc)]
    return sorted(rows, key=lambda row: row[0])


def _result_type(module: ModuleText, function: PrimFunc) -> str:
    """Return the return type of a function: a status unless its type is given."""
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
    linkage = "internal " if name in module.private else ""
    head = f"define {linkage}{b.result} {module.symbol(symbol_name)}({', '.join(parameters)}) #0 {{\nentry:"
    module.functions[place] = "\n".join([head, *b.entry, *b.out, "}", ""])


def _parameter(b: Builder, function: PrimFunc, param: Var, operand: str, noalias: bool) -> str:
    buffer = (function.buffer_map or {}).get(param)
    b.remember(param, operand)
    b.level[param] = 0
    # A buffer parameter that MakePackedAPI did not unpack is its data pointer.
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
        # Pointer arguments are only checked to be aligned to their elements.
        promises += f" align {info(pointee.dtype).bytes}"
    return f"ptr{promises} {operand}"


def _zero(kind: str) -> str:
    return "null" if kind == "ptr" else "0x0000000000000000" if kind in ("float", "double") else "0"


class Part(NamedTuple):
    """Text that LLVM has not compiled yet, and user-defined modules to link with it."""

    text: str
    imports: tuple[str, ...]


def part_of(module: ModuleText) -> Part:
    text = module.text("tvm", llvm_jit.data_layout(module.cpu))
    return Part(text, tuple(llvm_jit.read_import(other) for other in module.imported))


# The output of LLVM for a part: optimized bitcode and an object.
Compiled = tuple[bytes, bytes]


class CompiledCode:
    """The compiled code of a module: object files; other formats are generated on demand.

    ``parts`` contains the compiled parts. Threads may still be compiling them; reading ``parts`` waits until they have
    finished."""

    def __init__(self, cpu: ResolvedCPU, opt_level: int, symbols: dict[str, str], parts: Sequence[Future[Compiled]]):
        self.cpu = cpu
        self.opt_level = opt_level
        self.symbols = symbols
        self.names = tuple(symbols)
        self.parts = parts

    def objects(self) -> Iterator[bytes]:
        """Return the machine code, to be linked together."""
        return (part.result()[1] for part in self.parts)

    def load(self) -> JitCode:
        """Load the code into this process. The CPU of this machine must support all features that the code uses."""
        lacking = host_cpu.lacking(self.cpu.enabled)
        if lacking:
            raise TVMError(
                f"the code was compiled for cpu {self.cpu.cpu}; this machine lacks {', '.join(lacking)}. Compile it "
                "with an -mcpu without these features, or export it and run it on another machine"
            )
        addresses, library = llvm_jit.load_objects(self.objects(), (*self.symbols.values(), TABLE, CONTEXT))
        code = {name: addresses[own] for name, own in self.symbols.items()}
        return JitCode(code, addresses[TABLE], addresses[CONTEXT], library)

    def source(self, fmt: str = "") -> str:
        if fmt in ("", "ll"):
            return str(self._optimized())
        if fmt in ("s", "asm"):
            return llvm_jit.machine_for(self.cpu, self.opt_level).emit_assembly(self._optimized())
        raise TVMError(f"an llvm module has no source in format '{fmt}'; use ll or asm")

    def _optimized(self):
        return llvm_jit.linked([part.result()[0] for part in self.parts])

    def save(self, path: str, fmt: str = "") -> None:
        """Write the code as o (object), s (assembly), ll (text) or bc (bitcode)."""
        fmt = fmt or path.rpartition(".")[2]
        if fmt in ("o", "obj"):
            data, *others = self.objects()
            if others:
                data = llvm_jit.object_of(self._optimized(), self.cpu, self.opt_level)
        elif fmt in ("s", "asm", "ll"):
            data = self.source(fmt).encode()
        elif fmt == "bc":
            data = self._optimized().as_bitcode()
        else:
            raise TVMError(f"an llvm module cannot be saved as '{fmt}'; use o, s, ll or bc")
        with open(path, "wb") as file:
            file.write(data)


def module_text(mod: IRModule, target: Target) -> tuple[ModuleText, int]:
    """Return the functions of a module as LLVM text that is not compiled yet, and the optimization level."""
    module = emit_module(prim_functions(mod), resolve_cpu(target), _float_flags(target))
    entry = entry_name(mod)
    if entry:
        module.entry_name = entry
    if mod.attrs.get("system_lib_prefix") is not None:
        module.register_symbols()
    return module, opt_level(target, module)


def opt_level(target: Target, module: ModuleText) -> int:
    """Return the optimization level of LLVM."""
    level = target.attrs.get("opt-level")
    if level is None:
        return llvm_jit.LEVEL + module.has_loop_conditions
    return min(max(int(level), 0), 3)


def compile_module(mod: IRModule, target: Target) -> CompiledCode:
    """Compile the functions of a module without loading them."""
    module, level = module_text(mod, target)
    part = part_of(module)
    made: Future[Compiled] = Future()
    made.set_result(llvm_jit.compiled(part.text, module.cpu, level, part.imports))
    return CompiledCode(module.cpu, level, dict(module.names), [made])


# Parts that threads compile. A forked process has none of these threads, so a fork waits for the parts.
_PARTS: WeakSet[Future[Compiled]] = WeakSet()


def _finish_parts() -> None:
    for part in list(_PARTS):
        with suppress(CancelledError):
            part.exception()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_parts)


class Compilation(AbstractContextManager):
    """An incremental compilation of modules. Threads call LLVM, without Python's interpreter lock, while other modules
    are lowered and while the output is written. The partition of the functions into LLVM modules depends only on their
    order."""

    def __init__(self, target: Target):
        self.target, self.cpu = target, resolve_cpu(target)
        cores = host_cpu.usable_cores()
        self.threads = ThreadPoolExecutor(cores)
        # One core is reserved for the lowering thread until it has finished.
        self.cores = Semaphore(max(cores - 1, 1))
        self.waiting = IRModule()
        # The functions of all parts: public symbol -> internal name.
        self.functions: dict[str, str] = {}
        self.symbols: dict[str, str] = {}
        self.level = llvm_jit.LEVEL
        self.regions = 0
        self.parts: list[Future[Compiled]] = []

    def add(self, mod: IRModule) -> None:
        if len(self.waiting) >= ENOUGH_FUNCTIONS:
            self._begin()
        self.waiting.update(mod)

    def finish(self) -> Module:
        """Return all parts as one module."""
        if not self.parts:
            return build(self.waiting, self.target)
        self._begin()
        self.cores.release()
        return _module_of(CompiledCode(self.cpu, self.level, self.symbols, self.parts), None)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Cancel the parts that are not started yet after an error or Ctrl-C."""
        self.threads.shutdown(wait=False, cancel_futures=kind is not None)

    def _begin(self) -> None:
        """Start LLVM on the functions that are not compiled yet."""
        functions = prim_functions(self.waiting)
        self.waiting = IRModule()
        module = emit_module(functions, self.cpu, _float_flags(self.target), self.functions, self.regions)
        module.defines_variables = not self.parts
        self.functions.update((function_name(name, function), name) for name, function in functions)
        self.symbols.update(module.names)
        self.regions = module.parallel_regions
        part, self.level = part_of(module), opt_level(self.target, module)
        self.parts.append(self.threads.submit(self._compile, part, self.level))
        _PARTS.add(self.parts[-1])
        if part.imports:
            # Report errors in user-defined text here, not at the first use of the code.
            self.parts[-1].result()

    def _compile(self, part: Part, level: int) -> Compiled:
        with self.cores:
            return llvm_jit.compiled(part.text, self.cpu, level, part.imports)


def _float_flags(target: Target) -> str:
    """Return the fast-math flags that the ``-fast-math`` options of a target allow."""
    if target.attrs.get("fast-math"):
        return "fast"
    names = ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")
    return " ".join(name for name in names if target.attrs.get(f"fast-math-{name}"))


def entry_name(mod: IRModule) -> str | None:
    """Return the function marked as entry, or the only one apart from raw and private functions."""
    functions = {function_name(name, f): f for name, f in prim_functions(mod) if "global_symbol" in f.attrs}
    packed = [name for name in functions if not name.endswith("_compute_")]
    for name in packed:
        if len(packed) == 1 or functions[name].attrs.get("tir.is_entry_func"):
            return name
    return None


def build(mod: IRModule, target: Target) -> Module:
    return _module_of(compile_module(mod, target), entry_name(mod))


def _module_of(code: CompiledCode, entry: str | None) -> Module:
    return from_code(
        code.load if host_cpu.runs(code.cpu.triple) else None,
        code.names,
        entry_name=entry,
        source=code.source,
        save=code.save,
        objects=code.objects,
        triple=code.cpu.triple,
        needs=lambda: needs_of(code.cpu),
    )
