"""LLVM text to objects, assembly and running code, by way of llvmlite. Only this file talks to LLVM."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Sequence

from ...error import TVMError
from ...target import llvm_facts
from ...target.cpu import ResolvedCPU


def _binding():
    llvm = llvm_facts.binding()
    if llvm is None:
        raise TVMError("the llvm target needs the package llvmlite; pip install llvmlite")
    return llvm


@functools.lru_cache(maxsize=32)
def target_machine(triple: str, cpu: str, features: str, opt_level: int, abi: str = ""):
    """A machine for position-independent objects; the same one serves every module of the target."""
    llvm = _binding()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=opt_level, reloc="pic", codemodel="default", abiname=abi
    )


def machine_for(cpu: ResolvedCPU, opt_level: int = 3):
    return target_machine(cpu.triple, cpu.cpu, cpu.features_text, opt_level, cpu.abi)


def data_layout(cpu: ResolvedCPU) -> str:
    return _layout_of(machine_for(cpu))


@functools.lru_cache(maxsize=32)
def _layout_of(machine) -> str:
    # Asked once: a call of LLVM waits where a thread is in another one.
    return str(machine.target_data)


def parse(text: str, imports: Iterable[str] = ()):
    """A verified LLVM module in a context of its own."""
    llvm = _binding()
    context = llvm.create_context()
    module = None
    try:
        module = llvm.parse_assembly(text, context)
        for other in imports:
            module.link_in(_mergeable(llvm.parse_assembly(other, context)))
        module.verify()
    except RuntimeError as error:
        # The frame that the error keeps must not have the module: garbage collection would free its context first.
        del module
        raise TVMError(f"LLVM refused a module: {error}") from None
    return module


def _mergeable(module):
    """A user's module whose functions may come with another import again: the first is kept."""
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == "external":
            function.linkage = "linkonce_odr"
    return module


def optimize(module, machine, opt_level: int, vectorize: bool = True, unroll: bool = False) -> None:
    """LLVM's pipeline without the parts that redo what a schedule decides."""
    llvm = _binding()
    options = llvm.create_pipeline_tuning_options(speed_level=min(opt_level, 3))
    options.loop_vectorization = vectorize
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = unroll
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    try:
        manager.run(module, builder)
    finally:
        # A base class of llvmlite's managers hides the method that frees them: left alone, each stays for good.
        llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


def optimized(text: str, cpu: ResolvedCPU, opt_level: int = 3, imports: Iterable[str] = ()):
    module = parse(text, imports)
    optimize(module, machine_for(cpu, opt_level), opt_level)
    return module


def optimized_bitcode(text: str, cpu: ResolvedCPU, opt_level: int = 3, imports: Iterable[str] = ()) -> bytes:
    """What a thread may give to another one: no object of LLVM, whose context must be the last to go."""
    return optimized(text, cpu, opt_level, imports).as_bitcode()


def linked(parts: Sequence[bytes]):
    """Modules in bitcode as one."""
    llvm = _binding()
    context = llvm.create_context()
    first, *others = [llvm.parse_bitcode(part, context) for part in parts]
    for other in others:
        first.link_in(other)
    return first


def compile_object(text: str, cpu: ResolvedCPU, opt_level: int = 3, imports: Iterable[str] = ()) -> bytes:
    return object_of(optimized(text, cpu, opt_level, imports), cpu, opt_level)


def object_of(module, cpu: ResolvedCPU, opt_level: int = 3) -> bytes:
    """The machine code of a module that is optimized."""
    return machine_for(cpu, opt_level).emit_object(module)


def read_import(text: str) -> str:
    """LLVM text as given, or the contents of the .ll file that is named instead."""
    if "\n" in text or not text.endswith((".ll", ".bc")):
        return text
    if text.endswith(".bc"):
        with open(text, "rb") as file:
            return str(_binding().parse_bitcode(file.read()))
    with open(text, encoding="utf-8") as file:
        return file.read()


_lock = threading.Lock()
_serial = itertools.count()


def new_engine():
    """A JIT of its own. LLVM keeps some bytes of every library that was in a JIT until the JIT itself is freed.

    JITLink puts the sections of an object into one piece of memory. LLVM's other linker asks for each section apart,
    and aborts where two of them are more than 2 GiB from each other, as in a process that a GPU's driver has mapped
    much memory into.
    """
    return _binding().create_lljit_compiler(use_jit_link=True)


_engine = functools.cache(new_engine)


def load_object(data: bytes, names: Iterable[str], engine=None):
    """Link an object into this process: addresses of ``names``, and what must be kept alive for them to stay valid.

    Each object is a library of its own in ``engine``, by default the one JIT of this process.
    """
    llvm = _binding()
    wanted = list(names)
    builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for name in wanted:
        builder.export_symbol(name)
    engine = engine if engine is not None else _engine()
    with _lock:
        library = builder.link(engine, f"tvm{next(_serial)}")
    # A tuple lets go of its last item first: the library ends before its JIT.
    return {name: library[name] for name in wanted}, (engine, library)
