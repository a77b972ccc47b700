"""Writes a module and its imports as one file, and links such files when they are loaded."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..error import TVMError
from . import blob_object, graph_factory, host_cpu, link
from ._lib import checksum_of_file

if TYPE_CHECKING:
    from .module import Module

_SEALED_SUFFIXES = (".so", ".tar")
_SEAL_MAGIC = b"TVMSEAL2"
# The comment of an archive that ends with its checksum, so that a truncated archive is also detected.
_SEALED = "ends with TVMSEAL2 and a checksum"
# The CPU features that the code needs: JSON text before the checksum, followed by its length and this marker, which
# TVMCheckCpuNeeds reads.
_NEEDS_MAGIC = b"TVMNEED1"
# Suffixes of files that a compiler accepts as input.
_OBJECT_SUFFIXES = (".o", ".c", ".cc", ".cpp", ".s", ".S", ".a")


# The parent of the root module, which loading the library returns; the library is its import.
_ROOT = 2**64 - 1


# The type key of the root module of a library, and a function that returns its serialized form in parts, given its
# offset in the blob.
Root = tuple[str, Callable[[int], Sequence[bytes | memoryview]]]


def pack_imports(module: Module, root: Root | None = None) -> list[bytes | memoryview]:
    """Serialize the modules that cannot be linked, in the format that the loader reads.

    Return the parts of the blob, which starts with its length; empty if there are no such modules."""
    found = list(module.walk_imports())
    # A linked module becomes part of the library, which is parent 0.
    numbers, packed = [], []
    for item, parent in found:
        if item.is_dso_exportable:
            numbers.append(0)
            continue
        if not item.is_binary_serializable:
            raise TVMError(
                f"export_library: the '{item.type_key}' module can neither be linked nor packed into the library"
            )
        packed.append((item.type_key.encode(), [item._info.to_bytes()], numbers[parent] if parent >= 0 else 0))
        numbers.append(len(packed))
    if root is not None:
        # The symbol starts with the length of the blob, the blob with a count; every entry has three words.
        start = 16 + sum(24 + len(key) + _size(body) for key, body, _ in packed) + 16 + len(root[0])
        packed.append((root[0].encode(), root[1](start), _ROOT))
    if not packed:
        return []
    parts = [struct.pack("<Q", len(packed))]
    for type_key, body, parent in packed:
        parts += [
            struct.pack("<Q", len(type_key)),
            type_key,
            struct.pack("<Q", _size(body)),
            *body,
            struct.pack("<Q", parent),
        ]
    return [struct.pack("<Q", _size(parts)), *parts]


def _size(parts: Sequence[bytes | memoryview]) -> int:
    return sum(map(len, parts))


def blob_source(data: bytes) -> str:
    """Return C source that defines the blob. It uses words of eight bytes, which compilers read faster than single
    bytes."""
    data += b"\0" * (-len(data) % 8)
    words = ",\n".join(f"0x{word:x}ull" for (word,) in struct.iter_unpack("<Q", data))
    export = '__attribute__((visibility("default"), aligned(64)))'
    return f"{export} const unsigned long long __tvm_dev_mblob[{len(data) // 8}] = {{\n{words}\n}};\n"


def write_code(module: Module, folder: str) -> Iterator[str]:
    """Write the code to be linked; yield its files as compilers finish them."""
    if not module.is_dso_exportable:
        raise TVMError(
            f"export_library: a '{module.type_key}' module has no code to link; export the module that tvm.build "
            "returned"
        )
    stems = (os.path.join(folder, f"lib{number}") for number in itertools.count())
    for item, _ in module.walk_imports():
        if not item.is_dso_exportable:
            continue
        if item._info.objects is None:
            path = f"{next(stems)}.{item.format or 'o'}"
            item.save(path)
            yield path
            continue
        for data in item._info.objects():
            path = f"{next(stems)}.o"
            with open(path, "wb") as file:
                file.write(data)
            yield path


def _archive(output: str, files: Sequence[str], **kwargs) -> None:
    """Write an archive without times and owners, so that the same module gives the same archive."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime = entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o644
        return entry

    with tarfile.open(output, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": _SEALED}) as archive:
        for path in files:
            archive.add(path, os.path.basename(path), filter=plain)


def _combine(output: str, files: Sequence[str], **kwargs) -> None:
    if len(files) == 1 and files[0].endswith(".o"):
        shutil.copyfile(files[0], output)
    else:
        link.combine_objects(output, files, **kwargs)


_WRITERS: dict[str, Callable] = {".tar": _archive, ".o": _combine}


def _pack(module: Module, fpack_imports: Callable | None, folder: str, root: Root | None, code: str) -> list[str]:
    """Write the imports that are not linked, if any, to a file for the machine of ``code``; return its path in a
    list."""
    if fpack_imports is not None:
        return [fpack_imports(module, False, "", folder)]
    blob = pack_imports(module, root)
    if not blob:
        return []
    machine = blob_object.machine_of(code)
    if machine is not None:
        path = os.path.join(folder, "devc.o")
        blob_object.write(path, "__tvm_dev_mblob", blob, machine)
        return [path]
    path = os.path.join(folder, "devc.c")
    with open(path, "w") as file:
        file.write(blob_source(b"".join(blob)))
    return [path]


def export_library(
    module: Module,
    file_name: str | os.PathLike,
    fcompile: Callable | None = None,
    fpack_imports: Callable | None = None,
    addons: Sequence[str] | None = None,
    workspace_dir: str | None = None,
    root: Root | None = None,
    **kwargs,
):
    """Write a library; ``fcompile(output, files, **kwargs)`` creates it, by default chosen by the suffix of
    ``file_name``.

    ``root`` is the module that loading the library returns instead of the library itself: an executable of the virtual
    machine or a factory of graph executors.
    """
    if module.type_key == "VMExecutable":
        from .vm import Executable

        executable = Executable(module)
        module, root = executable.lib, executable._root()
    elif module.type_key == graph_factory.TYPE_KEY:
        root = (graph_factory.TYPE_KEY, graph_factory.PackedFactory.of_module(module).at)
        (module,) = module.imported_modules
    target = os.path.abspath(os.fspath(file_name))
    if not os.path.isdir(os.path.dirname(target)):
        raise ValueError(f"export_library: the folder '{os.path.dirname(target)}' does not exist")
    with tempfile.TemporaryDirectory(prefix="tvm-export-") as made:
        folder = workspace_dir or made
        os.makedirs(folder, exist_ok=True)
        code = write_code(module, folder)
        files = [next(code)]
        # Write the weights while the code is compiled.
        packed = _pack(module, fpack_imports, folder, root, files[0])
        files += [*code, *packed, *(addons or ())]
        write = fcompile or _WRITERS.get(os.path.splitext(target)[1], link.create_shared)
        if fcompile is None and write is not _archive:
            kwargs = _with_linker(module, kwargs)
        return _in_place(target, lambda output: write(output, files, **kwargs), _needs(module))


def _with_linker(module: Module, options: dict[str, Any]) -> dict[str, Any]:
    """Return the linker options, including a cross compiler if the code is for another machine."""
    triple = next((item._info.triple for item, _ in module.walk_imports() if item._info.triple), "")
    if not triple or host_cpu.runs(triple) or options.get("cc"):
        return options
    return {**options, "cc": shlex.join(link.find_cross_compiler(triple))}


def _needs(module: Module) -> bytes:
    """Return the CPU requirements of the code as stored in a file; empty for code that runs on any CPU."""
    found = [item._info.needs() for item, _ in module.walk_imports() if item._info.needs is not None]
    features = sorted({name for needs in found for name in needs["features"]})
    if not features:
        return b""
    text = json.dumps({"cpu": found[0]["cpu"], "features": features}).encode()
    return text + struct.pack("=Q", len(text)) + _NEEDS_MAGIC


def seal(path: str, needs: bytes = b"") -> None:
    """Append the CPU requirements of the code and a checksum, which the loader verifies. Linkers and loaders ignore the
    appended data."""
    with open(path, "ab") as file:
        file.write(needs)
        file.flush()
        file.write(_SEAL_MAGIC + struct.pack("=Q", checksum_of_file(path, file.tell())))


def check_seal(path: str, sealed: bool) -> None:
    """Raise an error for an archive whose checksum does not match or was removed."""
    size = os.path.getsize(path) - len(_SEAL_MAGIC) - 8
    with open(path, "rb") as file:
        file.seek(max(size, 0))
        tail = file.read()
    has_seal = tail.startswith(_SEAL_MAGIC)
    if has_seal and struct.unpack("=Q", tail[-8:])[0] == checksum_of_file(path, size):
        return
    if has_seal or sealed:
        raise TVMError(f"{path}: the archive is corrupt or truncated: its checksum does not match")


def _in_place(target: str, write: Callable[[str], object], needs: bytes):
    """Write a file under a temporary name in the same folder and rename it when it is complete."""
    place, name = os.path.split(target)
    with tempfile.TemporaryDirectory(dir=place, prefix=".tvm-export-") as folder:
        output = os.path.join(folder, name)
        result = write(output)
        if not os.path.isfile(output) or not os.path.getsize(output):
            raise TVMError(f"export_library: the compile function did not write {name}")
        if target.endswith(_SEALED_SUFFIXES):
            seal(output, needs)
        os.replace(output, target)
    return result


def extract_objects(archive_path: str, folder: str) -> list[str]:
    """Unpack the regular files of an archive into ``folder``; reject entries that would be written elsewhere."""
    files = []
    try:
        with tarfile.open(archive_path) as archive:
            check_seal(archive_path, archive.pax_headers.get("comment") == _SEALED)
            for entry in archive.getmembers():
                if entry.isdir():
                    continue
                name = os.path.basename(entry.name)
                if not entry.isfile() or entry.name.startswith(("/", "..")) or "/../" in entry.name or not name:
                    raise TVMError(f"{archive_path}: the entry '{entry.name}' is not a regular file inside the archive")
                path = os.path.join(folder, f"{len(files)}-{name}")
                with archive.extractfile(entry) as source, open(path, "wb") as out:
                    shutil.copyfileobj(source, out)
                files.append(path)
    except (tarfile.TarError, EOFError) as error:
        raise TVMError(f"{archive_path}: the archive is corrupt or truncated: {error}") from None
    return [path for path in files if path.endswith(_OBJECT_SUFFIXES)]


def _refuse_foreign(path: str, files: Sequence[str]) -> None:
    """Raise an error for objects of another architecture, before the linker fails on them."""
    own = blob_object.NUMBERS.get(host_cpu.machine_of(host_cpu.triple())[0])
    for file in files:
        found = blob_object.machine_of(file)
        if found is not None and own is not None and found.number != own:
            raise TVMError(
                f"load_module: '{path}' was built for {found.name}, this machine is {host_cpu.triple()}; link it "
                "there, or here with a compiler for that machine (tvm.contrib.cc.cross_compiler)"
            )


def link_objects(path: str, kind: str) -> Module:
    """Link an object file or an archive of them, and load the result."""
    from .module import load_module

    with tempfile.TemporaryDirectory(prefix="tvm-link-") as folder:
        library = os.path.join(folder, "linked.so")
        link_shared(path, kind, library)
        return load_module(library)


def link_shared(path: str, kind: str, library: str) -> None:
    """Link an object file or an archive of them as a shared library."""
    with tempfile.TemporaryDirectory(prefix="tvm-link-") as folder:
        files = extract_objects(path, folder) if kind == "tar" else [os.path.abspath(path)]
        if not files:
            raise TVMError(f"load_module: '{path}' contains no object files")
        _refuse_foreign(path, files)
        link.create_shared(library, files)
