"""Modules: compiled code with its imports, from the JIT compiler, a library file, or Python functions."""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntFlag
from functools import partial
from typing import Any, NamedTuple

from ..error import TVMError
from ..hooks import Hook
from . import _lib, host_cpu
from ._lib import lib
from .benchmark import BenchmarkResult
from .devices import Device
from .graph_factory import TYPE_KEY as FACTORY
from .packed_func import (
    PackedFunc,
    convert_to_function,
    encode,
    function_from_handle,
    register_decoder,
    register_encoder,
)
from .registry import get_device_func, get_global_func

# (type key, name) -> a Python function for modules of that type, which replaces a C function of the same name; its
# first argument is the module.
PYTHON_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    (FACTORY, "list_module_names"): lambda factory: [factory["get_name"]()],
}


class ModulePropertyMask(IntFlag):
    """Flags for the operations that a module supports."""

    BINARY_SERIALIZABLE = 1
    RUNNABLE = 2
    DSO_EXPORTABLE = 4


BINARY_SERIALIZABLE, RUNNABLE, DSO_EXPORTABLE = ModulePropertyMask


class JitCode(NamedTuple):
    """Machine code in memory: the addresses of its functions and of the two variables that the loader sets."""

    symbols: Mapping[str, int]
    runtime_table: int = 0
    module_context: int = 0
    keepalive: object = None


class CodeInfo(NamedTuple):
    """Information that only the compiler has about a module; each field may be None.

    ``load()`` returns the JitCode at the first call of a function. ``source(fmt)`` returns text. ``save(path, fmt)``
    writes a file in one of the formats of the back end; ``objects()`` returns object files to be linked together, if
    there are several. ``to_bytes()`` returns the bytes that `load_binary` of the type key reads. ``triple`` is the
    target triple of machine code; ``needs()`` returns the name of its CPU and the CPU features that the code uses.
    ``programs`` contains the lowered functions by target, and ``name`` their name, of a module that ``tvm.build`` made.
    """

    load: Callable[[], JitCode] | None = None
    names: frozenset[str] = frozenset()
    source: Callable[[str], str] | None = None
    save: Callable[[str, str], None] | None = None
    to_bytes: Callable[[], bytes] | None = None
    format: str = ""
    exportable: bool = False
    triple: str = ""
    objects: Callable[[], Iterable[bytes]] | None = None
    needs: Callable[[], Mapping[str, Any]] | None = None
    programs: Mapping[Any, Any] | None = None
    name: str = ""


# Type key -> a function that returns the CodeInfo of a module of this type that C code created.
WRAPPERS: dict[str, Callable[[Module], CodeInfo]] = {}


class Module:
    """A module of the runtime.

    Parameters
    ----------
    handle : int
        The handle of the C module.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> module = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="add_one")
    >>> module.type_key
    'llvm'
    """

    __slots__ = (
        "_module",
        "_info",
        "_keeper",
        "_loaded",
        "_entry",
        "_functions",
        "entry_name",
        "__weakref__",
    )

    def __init__(self, handle: int):
        self._module = handle
        self._info = CodeInfo()
        # Objects that the code of the module needs; C also references them, for functions that outlive this object.
        self._keeper: list = []
        self._loaded = True
        self._entry = None
        self._functions: dict[str, PackedFunc] = {}
        self.entry_name = "__tvm_main__"
        _modules[handle] = self

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        # At interpreter exit, the callbacks that freeing may call no longer exist.
        if self._module and not ending():
            lib.TVMModFree(self._module)

    @property
    def handle(self) -> int:
        return self._module

    # ---- functions ----

    def _load(self) -> None:
        """Load code that is compiled lazily into memory."""
        if self._loaded:
            return
        with _load_lock:
            if not self._loaded:
                _attach(self, self._info.load())
                self._loaded = True

    @property
    def _can_run(self) -> bool:
        return self._info.load is not None or not self._info.names

    def _find(self, name: str, query_imports: bool) -> PackedFunc | None:
        modules = self.with_imports() if query_imports else iter((self,))
        return next((found for found in (m._own_function(name) for m in modules) if found is not None), None)

    def _own_function(self, name: str) -> PackedFunc | None:
        self._load()
        if not self._can_run and name in (*self._info.names, self.entry_name):
            made_for = f"built for {self._info.triple}" if self._info.triple else "an object file"
            raise TVMError(
                f"'{name}' is code for linking only ({made_for}; this machine is {host_cpu.triple()}); write it with "
                "export_library and load the file on a machine that can run it"
            )
        written = PYTHON_FUNCTIONS.get((self.type_key, name))
        return self._function_of_c(name) if written is None else convert_to_function(partial(written, self))

    def _function_of_c(self, name: str) -> PackedFunc | None:
        """Return a function of the module that is implemented in C."""
        handle = _lib.module_function(self._module, name, False)
        return None if handle is None else function_from_handle(handle)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """The function ``name`` of the module, or of its imported modules if ``query_imports`` is true.

        Parameters
        ----------
        name : str
            The name of the function.
        query_imports : bool
            Whether to search imported modules too.

        Returns
        -------
        PackedFunc
            The function.

        Raises
        ------
        AttributeError
            The module has no such function.
        """
        found = self._find(name, query_imports)
        if found is None:
            raise AttributeError(f"module '{self.type_key}' has no function '{name}'")
        found.entry_name = name
        return found

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a function with this name.

        Parameters
        ----------
        name : str
            The name of the function.
        query_imports : bool
            Whether to search imported modules too.

        Returns
        -------
        bool
            Whether the function exists.
        """
        if name in self._info.names:
            return True
        return self._find(name, query_imports) is not None

    @property
    def entry_func(self) -> PackedFunc:
        if self._entry is None:
            self._entry = self._find_entry()
        return self._entry

    def _find_entry(self) -> PackedFunc:
        found = self._find(self.entry_name, False)
        if found is None and len(self._info.names) == 1:
            (only,) = self._info.names
            found = self._find(only, False)
        if found is None:
            raise AttributeError(f"module '{self.type_key}' has no entry function; call one by name: mod['name'](...)")
        return found

    def __getitem__(self, name: str) -> PackedFunc:
        if not isinstance(name, str):
            raise ValueError(f"a module is indexed by a function name, got {type(name).__name__}")
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = self.get_function(name)
        return found

    def __call__(self, *args):
        entry = self._entry
        return (entry if entry is not None else self.entry_func)(*args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and self._module == other._module

    def __hash__(self) -> int:
        return hash(self._module)

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {self._module:x})"

    # ---- imports ----

    def import_module(self, module: Module) -> None:
        """Import a module, so that the code of this module can call its functions.

        Parameters
        ----------
        module : Module
            The module.

        Raises
        ------
        TypeError
            ``module`` is not a module.
        """
        if not isinstance(module, Module):
            raise TypeError(f"import_module: expected a Module, got {type(module).__name__}")
        module._load()
        _lib.check(lib.TVMModImport(self._module, module._module))
        imports = _imports.setdefault(self, [])
        imports.append(module)

    @property
    def imported_modules(self) -> list[Module]:
        count = lib.TVMModImportCount(self._module)
        return [module_from_handle(_lib.module_import(self._module, index)) for index in range(count)]

    def walk_imports(self) -> Iterator[tuple[Module, int]]:
        """Yield this module and all its imports, each once, with the index of the importing module (-1 for this
        module)."""
        seen: set[int] = set()
        waiting: list[tuple[Module, int]] = [(self, -1)]
        while waiting:
            module, parent = waiting.pop()
            if module.handle in seen:
                continue
            number = len(seen)
            seen.add(module.handle)
            yield module, parent
            waiting += [(imported, number) for imported in reversed(module.imported_modules)]

    def with_imports(self) -> Iterator[Module]:
        """This module and all modules that it imports directly or indirectly, each once.

        Returns
        -------
        Iterator of Module
            The modules.
        """
        return (module for module, _ in self.walk_imports())

    def clear_imports(self) -> None:
        """Remove all imported modules."""
        _imports.pop(self, None)
        _lib.check(lib.TVMModClearImports(self._module))

    # ---- properties ----

    @property
    def ir_module_by_target(self) -> Mapping[Any, Any]:
        """The lowered functions of a module that ``tvm.build`` made, by target."""
        if self._info.programs is None:
            raise AttributeError("ir_module_by_target: only modules that tvm.build returned have lowered functions")
        return self._info.programs

    @property
    def type_key(self) -> str:
        return lib.TVMModTypeKey(self._module).decode()

    @property
    def format(self) -> str:
        return self._info.format

    def get_property_mask(self) -> int:
        """The operations that the module supports, as bits: running, serialization to bytes, and linking.

        Returns
        -------
        int
            The bits, as defined in ``tvm.runtime.ModulePropertyMask``.
        """
        info = self._info
        runnable = RUNNABLE if self._can_run else 0
        return (BINARY_SERIALIZABLE if info.to_bytes else 0) | runnable | (DSO_EXPORTABLE if info.exportable else 0)

    @property
    def is_binary_serializable(self) -> bool:
        return bool(self.get_property_mask() & BINARY_SERIALIZABLE)

    @property
    def is_runnable(self) -> bool:
        return bool(self.get_property_mask() & RUNNABLE)

    @property
    def is_dso_exportable(self) -> bool:
        return bool(self.get_property_mask() & DSO_EXPORTABLE)

    def get_source(self, fmt: str = "") -> str:
        """The code as text in the format ``fmt``, such as "ll", "asm" or "c", depending on the back end.

        Parameters
        ----------
        fmt : str
            The format.

        Returns
        -------
        str
            The text.
        """
        return "" if self._info.source is None else self._info.source(fmt)

    inspect_source = get_source

    # ---- files ----

    def save(self, file_name: str | os.PathLike, fmt: str = "") -> None:
        """Write this module without its imports, in the format ``fmt`` or in the format of the file's suffix.

        Parameters
        ----------
        file_name : str
            The file.
        fmt : str
            The format.

        Raises
        ------
        TVMError
            The module cannot be written in this format.
        """
        if self._info.save is None:
            raise TVMError(f"a '{self.type_key}' module cannot be saved; save the module it was exported from")
        path = os.fspath(file_name)
        self._info.save(path, fmt or os.path.splitext(path)[1].lstrip("."))

    def export_library(
        self,
        file_name: str | os.PathLike,
        fcompile: Callable | None = None,
        fpack_imports: Callable | None = None,
        addons: list[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs,
    ):
        """Write this module and its imports as one library (``.so``), archive (``.tar``) or object (``.o``).

        ``fcompile(output, files, **kwargs)`` creates the file; by default it is chosen by the suffix. ``addons`` are
        additional input files. If ``workspace_dir`` is given, intermediate files are kept there.

        Parameters
        ----------
        file_name : str
            The file.
        fcompile : Callable, optional
            The function that creates the file.
        fpack_imports : Callable, optional
            The function that packs the imported modules.
        addons : list of str, optional
            Additional input files.
        workspace_dir : str, optional
            The folder for intermediate files.
        **kwargs
            Additional arguments of ``fcompile``.

        Returns
        -------
        Any
            The return value of ``fcompile``.
        """
        from .export import export_library

        return export_library(self, file_name, fcompile, fpack_imports, addons, workspace_dir, **kwargs)

    # ---- timing ----

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that measures ``func_name``: it calls it ``repeat`` times ``number`` times and returns the times.

        Each of the ``repeat`` results is the mean over ``number`` calls; ``number`` is increased until one repeat takes
        ``min_repeat_ms``. ``f_preproc`` names a global function that is called with the arguments before each repeat.

        Parameters
        ----------
        func_name : str
            The function to measure.
        dev : Device
            The device on which the function runs.
        number : int
            The number of calls that are averaged for one result.
        repeat : int
            The number of results.
        min_repeat_ms : int
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int
            How often a repeat with a measured time of zero is retried.
        cooldown_interval_ms : int
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int
            The number of repeats between pauses.
        cache_flush_bytes : int
            The number of bytes that are written before each repeat to evict the arguments from the caches.
        f_preproc : str
            The global function called before each repeat.

        Returns
        -------
        Callable
            The function; it returns a ``BenchmarkResult``.
        """
        function = self.entry_func if func_name == self.entry_name else self.get_function(func_name, query_imports=True)
        preprocess = get_device_func(f_preproc, dev) if f_preproc else None
        options = {
            "number": int(number),
            "repeat": int(repeat),
            "min_repeat_ms": int(min_repeat_ms),
            "limit_zero_time_iterations": int(limit_zero_time_iterations),
            "cooldown_interval_ms": int(cooldown_interval_ms),
            "repeats_to_cooldown": int(repeats_to_cooldown),
            "cache_flush_bytes": int(cache_flush_bytes),
            "device": (dev.device_type, dev.device_id),
        }

        def evaluator(*args) -> BenchmarkResult:
            encoded = [encode(arg) for arg in args]
            values, codes = [item[0] for item in encoded], [item[1] for item in encoded]
            handle = preprocess.handle if preprocess is not None else None
            seconds = _lib.time_call(function.handle, values, codes, {**options, "preprocess": handle})
            del encoded
            return BenchmarkResult(seconds)

        return evaluator


# Reentrant, because loading code may run Python code that loads other modules.
_load_lock = threading.RLock()
# One Python object per C module, so that information that the compiler attached to the object is found again.
_modules: weakref.WeakValueDictionary[int, Module] = weakref.WeakValueDictionary()
# Python objects of imported modules are kept alive, not only their C handles.
_imports: weakref.WeakKeyDictionary[Module, list[Module]] = weakref.WeakKeyDictionary()


def _wrap(handle: int) -> Module:
    """Return the Python object of a C module; modules of device kernels also get their sources."""
    module = Module(handle)
    data = _lib.device_module_bytes(handle)
    if data is not None:
        module._info = CodeInfo(source=partial(_device_source, data), to_bytes=lambda: data)
    elif (described := WRAPPERS.get(module.type_key)) is not None:
        module._info = described(module)
    return module


def _device_source(data: bytes, fmt: str) -> str:
    """Return the text of the image in the format ``fmt``, or of the source."""
    length = int.from_bytes(data[8:16], "little")
    described = json.loads(data[16 : 16 + length])
    wanted = (fmt,) if fmt else (described["kind"], "ptx")
    for name in wanted:
        for image in described["images"]:
            if image["format"] == name and name != "cubin":
                start = 16 + length + image["offset"]
                return data[start : start + image["size"]].decode("utf-8", "replace").rstrip("\0")
    return ""


def load_device_module(data: bytes) -> Module:
    """Load device kernels from the bytes that code generation created; the driver is opened at the first call."""
    return _wrap(_lib.device_module_load(bytes(data)))


def module_from_handle(handle: int) -> Module:
    """Return the Python object of a module handle; takes ownership of the reference."""
    known = _modules.get(handle)
    if known is None:
        return _wrap(handle)
    lib.TVMModFree(handle)
    return known


def _borrow_module(handle: int) -> Module:
    lib.TVMModRetain(handle)
    return module_from_handle(handle)


class Unloaded(NamedTuple):
    """A module that is passed to a C function which does not call the module's functions yet."""

    module: Module


def _encode_module(module: Module) -> tuple:
    for part in module.with_imports():
        part._load()
    return module._module, _lib.MODULE, module


register_encoder(Module, _encode_module)
register_encoder(Unloaded, lambda given: (given.module._module, _lib.MODULE, given.module))
register_decoder(_lib.MODULE, module_from_handle, _borrow_module)


def _attach(module: Module, code: JitCode) -> None:
    for name, address in code.symbols.items():
        _lib.check(lib.TVMModAddSymbol(module._module, name.encode(), address))
    _lib.check(lib.TVMModBind(module._module, code.runtime_table or None, code.module_context or None))
    # C keeps the token of this list until the last reference to the module is gone, including references by functions.
    module._keeper.append(code.keepalive)


def _create(type_key: str, info: CodeInfo, entry_name: str | None) -> Module:
    keeper: list = []
    handle = _lib.module_create(type_key, keeper)
    module = Module(handle)
    module._info = info
    module._keeper = keeper
    if entry_name:
        _lib.check(lib.TVMModSetEntryName(handle, entry_name.encode()))
    return module


def from_code(
    load: Callable[[], JitCode] | None,
    names: Iterable[str],
    *,
    type_key: str = "llvm",
    format: str = "o",
    entry_name: str | None = None,
    source: Callable[[str], str] | None = None,
    save: Callable[[str, str], None] | None = None,
    to_bytes: Callable[[], bytes] | None = None,
    exportable: bool = True,
    triple: str = "",
    objects: Callable[[], Iterable[bytes]] | None = None,
    needs: Callable[[], Mapping[str, Any]] | None = None,
) -> Module:
    """Create a module of a back end. ``load`` runs at the first call of a function; it is None for code of another
    machine, which ``triple`` names."""
    known = frozenset(names)
    # A packed function whose name ends like that of a raw function has a raw function itself.
    packed = frozenset(name for name in known if not name.endswith("_compute_") or f"{name}_compute_" in known)
    info = CodeInfo(load, packed, source, save, to_bytes, format, exportable, triple, objects, needs)
    module = _create(type_key, info, entry_name)
    module._loaded = load is None
    return module


def from_jit(
    symbols: Mapping[str, int],
    runtime_table: int = 0,
    module_context: int = 0,
    keepalive: object = None,
    **options,
) -> Module:
    """Create a module over machine code in memory; ``options`` as for ``from_code``."""
    module = from_code(lambda: JitCode(symbols, runtime_table, module_context, keepalive), symbols, **options)
    module._load()
    return module


def from_functions(
    functions: Mapping[str, Callable], type_key: str = "python", entry_name: str | None = None
) -> Module:
    """Create a module of Python functions or packed functions."""
    module = _create(type_key, CodeInfo(), entry_name)
    for name, function in functions.items():
        add_function(module, name, function)
    return module


def add_function(module: Module, name: str, function: Callable) -> None:
    """Add a Python function or a packed function to a module."""
    packed = convert_to_function(function)
    _lib.check(lib.TVMModAddFunction(module._module, name.encode(), packed.handle))


_LIBRARY_FORMATS = {"so", "dll", "dylib"}
_LINKED_FORMATS = {"o", "tar", "c"}
FILE_LOADERS: Hook[[], Mapping[str, Callable[[str, str], Module]]] = Hook(
    "runtime.module.FILE_LOADERS", "returns the file loaders of back ends, `(path, format)`, by format", dict
)
CAN_COMPILE: Hook[[str], bool] = Hook(
    "runtime.module.CAN_COMPILE", "returns whether code for a target kind can be generated", lambda kind: False
)


def load_module(path: str | os.PathLike, fmt: str = "") -> Module:
    """Load a library that ``export_library`` wrote; object files, archives and C sources are linked first.

    Parameters
    ----------
    path : str | os.PathLike
        The file.
    fmt : str, optional
        The format; by default determined by the suffix of the file.

    Returns
    -------
    Module
        The module, whose functions can be called.

    Raises
    ------
    ValueError
        The file does not exist.
    TVMError
        The format has no loader, or the file contains code that this machine's CPU cannot run.
    OSError
        The file cannot be loaded.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise ValueError(f"load_module: the file '{name}' does not exist")
    kind = fmt or os.path.splitext(name)[1].lstrip(".")
    if kind in _LINKED_FORMATS:
        from .export import link_objects

        _lib.check_cpu_needs(name)
        return link_objects(name, kind)
    if kind not in _LIBRARY_FORMATS:
        loaders = FILE_LOADERS()
        loader = loaders.get(kind) or get_global_func(f"runtime.module.loadfile_{kind}", allow_missing=True)
        if loader is None:
            known = ", ".join(sorted(_LIBRARY_FORMATS | _LINKED_FORMATS | set(loaders)))
            raise TVMError(f"load_module: no loader for files of format '{kind}' ({name}); known: {known}")
        return loader(name, kind)
    return Module(_lib.module_load(name, kind))


def load_static_library(path: str | os.PathLike, func_names: Iterable[str]) -> Module:
    """A module around an object file, which a later ``export_library`` links.

    Parameters
    ----------
    path : str | os.PathLike
        The file.
    func_names : Iterable[str]
        The names of its functions.

    Returns
    -------
    Module
    """
    with open(path, "rb") as file:
        data = file.read()

    def save(target: str, fmt: str) -> None:
        with open(target, "wb") as out:
            out.write(data)

    return from_code(None, func_names, type_key="static_library", format="o", save=save)


def system_lib(symbol_prefix: str = "") -> Module:
    """The module of functions linked into this program.

    Parameters
    ----------
    symbol_prefix : str, optional
        The prefix of its function names.

    Returns
    -------
    Module

    Raises
    ------
    TVMError
        A prefix is given, which is not supported.
    """
    if symbol_prefix:
        raise TVMError("system_lib: symbol prefixes are not supported; there is one system library")
    return get_global_func("runtime.SystemLib")()


def enabled(target: str) -> bool:
    """Whether code for ``target`` can be compiled and run here.

    Parameters
    ----------
    target : str
        The target.

    Returns
    -------
    bool
    """
    words = target.split()
    kind = (Device.STR2MASK.get(words[0]) or _lib.device_type_of_name(words[0])) if words else None
    if kind is None:
        return False
    if kind != Device.kDLCPU:
        return Device(kind, 0).exist
    return words[0] == Device.MASK2STR[Device.kDLCPU] or CAN_COMPILE(words[0])


def num_threads() -> int:
    """The number of threads that a parallel region uses.

    Returns
    -------
    int
        The number of threads.
    """
    return lib.TVMThreadPoolSize()


def release_free_memory() -> None:
    """Return free memory to the operating system; the allocator may keep the memory of large temporary arrays."""
    lib.TVMReleaseFreeMemory()
