"""LLVM text to objects, assembly and running code, by way of llvmlite. Only this file talks to LLVM."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Iterable, Sequence

from ...error import TVMError
from ...runtime._lib import bytes_at, lib
from ...target import llvm_facts
from ...target.cpu import ResolvedCPU

# The pipeline for text that says nothing else: the next one also takes conditions out of loops.
LEVEL = 2


def _binding():
    llvm = llvm_facts.binding()
    if llvm is None:
        raise TVMError("the llvm target needs the package llvmlite; pip install llvmlite")
    return llvm


def _unlocked(name: str):
    """A function of LLVM as C has it. llvmlite lets one thread into LLVM at a time; what takes long needs no lock where
    every module has a context of its own, and every thread a target machine."""
    function = getattr(_binding().ffi.lib, name)
    return getattr(function, "_cfn", function)


def target_machine(triple: str, cpu: str, features: str, opt_level: int, abi: str = ""):
    """A machine for position-independent objects; the same one serves every module of the target in a thread."""
    return _machine_of_thread(threading.get_ident(), triple, cpu, features, opt_level, abi)


@functools.lru_cache(maxsize=32)
def _machine_of_thread(thread: int, triple: str, cpu: str, features: str, opt_level: int, abi: str):
    llvm = _binding()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=3 if opt_level > 1 else opt_level, reloc="pic", codemodel="default",
        abiname=abi,
    )


def machine_for(cpu: ResolvedCPU, opt_level: int = LEVEL):
    return target_machine(cpu.triple, cpu.cpu, cpu.features_text, opt_level, cpu.abi)


@functools.lru_cache(maxsize=32)
def data_layout(cpu: ResolvedCPU) -> str:
    return str(machine_for(cpu).target_data)


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
    options = llvm.create_pipeline_tuning_options(speed_level=opt_level)
    options.loop_vectorization = vectorize
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = unroll
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    try:
        _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)
    finally:
        # A base class of llvmlite's managers hides the method that frees them: left alone, each stays for good.
        llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


def optimized(text: str, cpu: ResolvedCPU, opt_level: int = LEVEL, imports: Iterable[str] = ()):
    module = parse(text, imports)
    optimize(module, machine_for(cpu, opt_level), opt_level)
    return module


def compiled(text: str, cpu: ResolvedCPU, opt_level: int = LEVEL, imports: Iterable[str] = ()) -> tuple[bytes, bytes]:
    """The optimized module as bitcode, and its machine code. A thread may give them to another one, unlike objects of
    LLVM, whose context must be the last to go."""
    module = optimized(text, cpu, opt_level, imports)
    return module.as_bitcode(), object_of(module, cpu, opt_level)


def linked(parts: Sequence[bytes]):
    """Modules in bitcode as one."""
    llvm = _binding()
    context = llvm.create_context()
    first, *others = [llvm.parse_bitcode(part, context) for part in parts]
    for other in others:
        first.link_in(other)
    first.name = "tvm"
    return first


def compile_object(text: str, cpu: ResolvedCPU, opt_level: int = LEVEL, imports: Iterable[str] = ()) -> bytes:
    return object_of(optimized(text, cpu, opt_level, imports), cpu, opt_level)


def object_of(module, cpu: ResolvedCPU, opt_level: int = LEVEL) -> bytes:
    """The machine code of a module that is optimized."""
    ffi = _binding().ffi
    with ffi.OutputString() as message:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine_for(cpu, opt_level), module, 1, message)
        if not buffer:
            raise TVMError(f"LLVM wrote no object: {message}")
    try:
        return bytes_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


_NEAR_GLOBAL = re.compile(r"^((?:@|declare |define )[^\n({\[\"]*?)\bdso_local ", re.MULTILINE)


def read_import(text: str) -> str:
    """LLVM text as given, or the contents of the .ll or .bc file that is named instead.

    Compilers mark symbols of a program as ``dso_local``, which promises that they are within 2 GiB. In a JIT and in a
    shared library that is not so."""
    if "\n" not in text and text.endswith(".bc"):
        with open(text, "rb") as file:
            text = str(_binding().parse_bitcode(file.read()))
    elif "\n" not in text and text.endswith(".ll"):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    return _NEAR_GLOBAL.sub(r"\1", text)


# Names of functions of custom data types, some of which the runtime library exports.
_OF_CUSTOM_TYPES = re.compile(rb"\0(\w{0,64}Custom\d+\w{0,64})(?=\0)")

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


def load_objects(objects: Iterable[bytes], names: Iterable[str], engine=None):
    """Link objects into this process: addresses of ``names``, and what must be kept alive for them to stay valid.

    Together they are a library of its own in ``engine``, by default the one JIT of this process.
    """
    llvm = _binding()
    wanted = list(names)
    builder = llvm.JITLibraryBuilder()
    named: set[bytes] = set()
    for data in objects:
        builder.add_object_img(data)
        if b"Custom" in data:
            named.update(_OF_CUSTOM_TYPES.findall(data))
    for symbol in sorted(name.decode() for name in named):
        if (address := lib.address(symbol)) is not None:
            builder.import_symbol(symbol, address)
    builder.add_current_process()
    for name in wanted:
        builder.export_symbol(name)
    engine = engine if engine is not None else _engine()
    with _lock:
        library = builder.link(engine, f"tvm{next(_serial)}")
    # A tuple lets go of its last item first: the library ends before its JIT.
    return {name: library[name] for name in wanted}, (engine, library)
