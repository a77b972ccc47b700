"""Compile LLVM text to objects, assembly and code in memory with llvmlite. Only this file calls LLVM."""

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

# The default optimization level; the next level also unswitches loops.
LEVEL = 2


def _binding():
    llvm = llvm_facts.binding()
    if llvm is None:
        raise TVMError("the llvm target needs the package llvmlite; pip install llvmlite")
    return llvm


def _unlocked(name: str):
    """Return a C function of LLVM that is called without llvmlite's lock. llvmlite lets one thread into LLVM at a time.
    Slow calls need no lock if every module has its own context and every thread its own target machine."""
    function = getattr(_binding().ffi.lib, name)
    return getattr(function, "_cfn", function)


def target_machine(triple: str, cpu: str, features: str, opt_level: int, abi: str = ""):
    """Return a target machine for position-independent objects; all modules of a target in a thread share it."""
    return _machine_of_thread(threading.get_ident(), triple, cpu, features, opt_level, abi)


@functools.lru_cache(maxsize=32)
def _machine_of_thread(thread: int, triple: str, cpu: str, features: str, opt_level: int, abi: str):
    llvm = _binding()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu,
        features=features,
        opt=3 if opt_level > 1 else opt_level,
        reloc="pic",
        codemodel="default",
        abiname=abi,
    )


def machine_for(cpu: ResolvedCPU, opt_level: int = LEVEL):
    return target_machine(cpu.triple, cpu.cpu, cpu.features_text, opt_level, cpu.abi)


@functools.lru_cache(maxsize=32)
def data_layout(cpu: ResolvedCPU) -> str:
    return str(machine_for(cpu).target_data)


def parse(text: str, imports: Iterable[str] = ()):
    """Return a verified LLVM module in its own context."""
    llvm = _binding()
    context = llvm.create_context()
    module = None
    try:
        module = llvm.parse_assembly(text, context)
        for other in imports:
            module.link_in(_mergeable(llvm.parse_assembly(other, context)))
        module.verify()
    except RuntimeError as error:
        # The frame in the traceback must not reference the module: garbage collection would free its context first.
        del module
        raise TVMError(f"LLVM rejected the module: {error}") from None
    return module


def _mergeable(module):
    """Mark the functions of a user-defined module so that several imports of them can be linked: the first is kept."""
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == "external":
            function.linkage = "linkonce_odr"
    return module


def optimize(module, machine, opt_level: int, vectorize: bool = True, unroll: bool = False) -> None:
    """Run LLVM's optimization pipeline without the passes that would undo decisions of the schedule."""
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
        # A base class in llvmlite hides the method that frees a pass manager; without this call it is never freed.
        llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


def optimized(text: str, cpu: ResolvedCPU, opt_level: int = LEVEL, imports: Iterable[str] = ()):
    module = parse(text, imports)
    optimize(module, machine_for(cpu, opt_level), opt_level)
    return module


def compiled(text: str, cpu: ResolvedCPU, opt_level: int = LEVEL, imports: Iterable[str] = ()) -> tuple[bytes, bytes]:
    """Return the optimized module as bitcode, and its machine code. Bytes can be passed between threads, unlike LLVM
    objects, which must be freed before their context."""
    module = optimized(text, cpu, opt_level, imports)
    return module.as_bitcode(), object_of(module, cpu, opt_level)


def linked(parts: Sequence[bytes]):
    """Link bitcode modules into one."""
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
    """Return the machine code of an optimized module."""
    ffi = _binding().ffi
    with ffi.OutputString() as message:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine_for(cpu, opt_level), module, 1, message)
        if not buffer:
            raise TVMError(f"LLVM could not write an object: {message}")
    try:
        return bytes_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


_NEAR_GLOBAL = re.compile(r"^((?:@|declare |define )[^\n({\[\"]*?)\bdso_local ", re.MULTILINE)


def read_import(text: str) -> str:
    """Return LLVM text as given, or the contents of the .ll or .bc file at the given path.

    Compilers mark symbols of a program as ``dso_local``, which promises that they are within 2 GiB. This does not hold
    in a JIT or a shared library, so the marks are removed."""
    if "\n" not in text and text.endswith(".bc"):
        with open(text, "rb") as file:
            text = str(_binding().parse_bitcode(file.read()))
    elif "\n" not in text and text.endswith(".ll"):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    return _NEAR_GLOBAL.sub(r"\1", text)


# Names of functions of custom data types; the runtime library exports some of them.
_OF_CUSTOM_TYPES = re.compile(rb"\0(\w{0,64}Custom\d+\w{0,64})(?=\0)")

_lock = threading.Lock()
_serial = itertools.count()


def new_engine():
    """Return a new JIT. LLVM keeps some memory for every library in a JIT until the JIT itself is freed.

    JITLink maps the sections of an object into one block of memory. LLVM's other linker maps each section separately,
    and aborts if two of them are more than 2 GiB apart, as in a process with large mappings by a GPU driver.
    """
    return _binding().create_lljit_compiler(use_jit_link=True)


_engine = functools.cache(new_engine)


def load_objects(objects: Iterable[bytes], names: Iterable[str], engine=None):
    """Link objects into this process. Return the addresses of ``names``, and the objects that must be kept alive for
    them.

    The objects become one library in ``engine``; the default is the JIT of this process.
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
    # A tuple releases its last item first, so the library is freed before its JIT.
    return {name: library[name] for name in wanted}, (engine, library)
