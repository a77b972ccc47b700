"""Reading PyTorch files without unpickling.

A pickle is a program, so files of weights and pickled modules are never opened. TorchScript is read by PyTorch's
TorchScript reader, which creates no arbitrary Python objects. ``torch.export.load`` unpickles some parts of an archive;
these parts must be absent, or contain only plain tensors.
"""

from __future__ import annotations

import io
import json
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Iterable

from ....error import TVMError

# Exceptions that Python's archive reader raises for damaged files.
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OSError, RuntimeError, LookupError,
           OverflowError, struct.error, zlib.error)  # fmt: skip
TORCHSCRIPT, EXPORTED = "torchscript", "exported"
_WEIGHTS = (
    "contains pickled weights or a pickled module. Unpickling can run arbitrary code, so the file is not opened. Save "
    "the model with torch.jit.trace(model, inputs).save(path) or torch.export.save(torch.export.export(model, inputs), "
    "path)"
)
# Maximum number of archive entries; the directory of an archive is read as a whole.
_MOST_ENTRIES = 1 << 20
_MOST_BYTES = 1 << 28
# Classes and functions that pickled sample inputs may use.
_HARMLESS = frozenset({
    *(("torch._utils", f"_rebuild_{kind}") for kind in ("tensor_v2", "tensor_v3", "parameter")),
    ("collections", "OrderedDict"), ("torch", "Size"), ("torch", "device"), ("torch.serialization", "_get_layout"),
    *(("torch", f"{kind}Storage")
      for kind in "Float Double Half BFloat16 Long Int Short Char Byte Bool Untyped".split()),
    *(("torch", kind) for kind in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()),
})  # fmt: skip


def is_archive(path: str) -> bool:
    """Return whether a file is an archive in PyTorch's format; files of weights are such archives too."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = {n.partition("/")[2] for n in archive.namelist()}
    except _DAMAGE:
        return False
    return bool(inside & {"archive_format", "constants.pkl", "data.pkl", "serialized_exported_program.json"})


def file_kind(path: str) -> str:
    """Return whether a file is TorchScript or an exported program; reject all other files."""
    with open(path, "rb") as file:
        start = file.read(1)
    try:
        with zipfile.ZipFile(path) as archive:
            return _kind(path, archive)
    except TVMError:
        raise
    except _DAMAGE as problem:
        if start == b"\x80":
            raise TVMError(f"{path} {_WEIGHTS}") from problem
        raise TVMError(f"{path} is damaged or not a PyTorch file: {problem}") from problem


def _kind(path: str, archive: zipfile.ZipFile) -> str:
    names = archive.namelist()
    if len(names) > _MOST_ENTRIES:
        raise TVMError(f"{path} has {len(names)} archive entries; the maximum is {_MOST_ENTRIES}")
    top = names[0].partition("/")[0] if names else ""
    if any(n.partition("/")[0] != top or ".." in n.split("/") or n.startswith("/") for n in names):
        raise TVMError(f"{path} is not a PyTorch file: its entries are not in one folder")
    if len(set(names)) != len(names):
        raise TVMError(f"{path} is damaged: it contains an entry twice")
    inside = {n.partition("/")[2] for n in names}
    if "archive_format" in inside:
        _check_archive(path, archive, top, inside)
        return EXPORTED
    if "constants.pkl" in inside and any(n.startswith("code/") for n in inside):
        return TORCHSCRIPT
    if "serialized_exported_program.json" in inside:
        raise TVMError(
            f"{path} was saved by an older torch.export, whose files contain pickles; save it again with "
            "PyTorch 2.7 or later"
        )
    if "data.pkl" in inside:
        raise TVMError(f"{path} {_WEIGHTS}")
    raise TVMError(f"{path} is not a PyTorch model: it is neither TorchScript nor an exported program")


# -- exported programs ------------------------------------------------------------------------------------------------


def _check_archive(path: str, archive: zipfile.ZipFile, top: str, inside: set[str]) -> None:
    """Reject an archive of torch.export that would run code when PyTorch reads it."""
    if _read(path, archive, f"{top}/archive_format").strip() != b"pt2":
        raise TVMError(f"{path} is not an exported program: its archive_format is not pt2")
    models = [n for n in inside if n.startswith("models/") and n.endswith(".json")]
    if models != ["models/model.json"]:
        raise TVMError(f"{path} contains {len(models)} programs; it must contain one named 'model'")
    foreign = sorted(
        n for n in inside if n.startswith("data/") and n.split("/")[1] not in ("weights", "constants", "sample_inputs")
    )
    if foreign:
        raise TVMError(f"{path} contains '{foreign[0]}'; compiled code and other data are not supported")
    for part in ("weights", "constants"):
        _check_config(path, archive, top, inside, part)
    for name in sorted(inside):
        if name.startswith("data/sample_inputs/"):
            _check_samples(path, _read(path, archive, f"{top}/{name}"))


def _check_config(path: str, archive: zipfile.ZipFile, top: str, inside: set[str], part: str) -> None:
    """Check that the list of weights or constants exists and refers only to plain tensors."""
    name = f"data/{part}/model_{part}_config.json"
    if name not in inside:
        raise TVMError(f"{path} has no {name}; older formats require unpickling, which is not supported")
    try:
        rows = json.loads(_read(path, archive, f"{top}/{name}"))["config"]
        pickled = sorted(key for key, row in rows.items() if row.get("use_pickle") is not False)
        prefix = "weight_" if part == "weights" else "tensor_"
        other = sorted(key for key, row in rows.items() if not str(row.get("path_name")).startswith(prefix))
    except (ValueError, KeyError, AttributeError, TypeError) as problem:
        raise TVMError(f"{path} is damaged: cannot read {name}: {problem}") from problem
    if pickled or other:
        raise TVMError(f"{path}: '{(pickled or other)[0]}' is a pickled object, which is not supported")


def _check_samples(path: str, data: bytes) -> None:
    """Check that sample inputs, a pickle in a nested archive, contain only tensors."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as samples:
            pickles = [n for n in samples.namelist() if n.endswith(".pkl")]
            found = {pair for n in pickles for pair in _globals(_read(path, samples, n))}
    except TVMError:
        raise
    except _DAMAGE as problem:
        raise TVMError(f"cannot read the sample inputs of {path}: {problem}") from problem
    strange = sorted(found - _HARMLESS)
    if strange:
        raise TVMError(f"{path}: its sample inputs use {'.'.join(strange[0])}, which is not allowed")


def _globals(data: bytes) -> Iterable[tuple[str, str]]:
    """Return the functions and classes that a pickle refers to, without running it."""
    for code, argument, _ in pickletools.genops(data):
        if code.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif code.name == "STACK_GLOBAL":
            # The operands of the opcode can be computed; torch.save does not write such pickles.
            yield ("?", "?")
        elif code.name in ("EXT1", "EXT2", "EXT4", "OBJ", "NEWOBJ_EX"):
            yield ("?", code.name)


def _read(path: str, archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise TVMError(f"{path}: '{name}' has more than {_MOST_BYTES} bytes")
    return archive.read(name)


def load_file(path: str):
    """Load the TorchScript module or exported program of a file."""
    kind = file_kind(path)
    import torch  # pyright: ignore[reportMissingImports]

    try:
        if kind == TORCHSCRIPT:
            return kind, torch.jit.load(path, map_location="cpu").eval()
        return kind, torch.export.load(path)
    except (RuntimeError, ValueError, KeyError, AssertionError, AttributeError, TypeError) as problem:
        raise TVMError(f"{path} is damaged, or PyTorch cannot read it: {problem}") from problem


__all__ = ["EXPORTED", "TORCHSCRIPT", "file_kind", "is_archive", "load_file"]
