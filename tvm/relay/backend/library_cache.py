"""The private cache of compiled libraries: compiling the same model again skips schedules, loops and LLVM.

An entry is named by everything its code follows from: the fused functions, the resolved target, the pass context, the
sources of this package and the version of LLVM. It lies in a folder only its owner may read and write
(``TVM_CACHE_DIR``, or tvm in the user's cache folder); a folder of anybody else is not used. ``TVM_NO_CACHE=1``
switches it off, and so does anything of the user's that takes part in compiling: passes, instruments, computations or
lowering rules.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import stat
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ...autotvm.task.dispatcher import DispatchContext
from ...error import TVMError
from ...ir.op import OPS
from ...ir.transform import PassContext
from ...runtime.module import JitCode, Module, from_code
from ...target import Target, llvm_facts
from ...target.backend import compiled_cpu
from ...target.cpu import ResolvedCPU, needs_of, resolve_cpu
from ..op.implementation import rules_of
from .te_compiler import Kernel

_MAGIC = b"TVMLIB02"
SUFFIX = ".lib"
MAX_ENTRIES = 256
# Where functions of operators come from that are not a user's.
_OUR_CODE = frozenset({"tvm", "builtins", "functools", "operator", "numpy"})
_PACKAGE = Path(__file__).resolve().parents[2]


def library(
    kernels: Sequence[Kernel], target: Target, host: Target, ctx: PassContext, compile_all: Callable[[], Module]
) -> Module:
    """The library of the kernels: from the cache where it is there, else compiled and kept."""
    folder = cache_folder() if _is_cacheable(target, host, ctx) else None
    if folder is None:
        return compile_all()
    path = folder / (_key(kernels, target, ctx) + SUFFIX)
    found = _read(path)
    if found is not None:
        return _from_objects(*found, compile_all, resolve_cpu(target))
    made = compile_all()
    _write(path, made)
    return made


def is_switched_off() -> bool:
    return os.environ.get("TVM_NO_CACHE", "") not in ("", "0")


def _is_cacheable(target: Target, host: Target, ctx: PassContext) -> bool:
    if is_switched_off():
        return False
    cpu = compiled_cpu(target)
    # Without LLVM nothing is compiled, which the compiler says.
    if cpu is None or llvm_facts.binding() is None or str(target) != str(host):
        return False
    if ctx.instruments or ctx.config.get("tir.add_lower_pass"):
        return False
    return cpu.triple == llvm_facts.host().triple and not _has_user_rules()


def _has_user_rules() -> bool:
    """Whether an operator has a computation or a rule that is not of this package."""
    for name in OPS.names():
        facts = OPS.get(name).attrs
        for value in (*facts.values(), *rules_of(OPS[name])):
            if callable(value) and str(getattr(value, "__module__", None) or "tvm").partition(".")[0] not in _OUR_CODE:
                return True
    return False


def cache_folder() -> Path | None:
    """The folder, made when it is missing; None where it cannot be private."""
    asked = os.environ.get("TVM_CACHE_DIR")
    try:
        base = Path(asked) if asked else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tvm"
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.stat(base)
    except (OSError, RuntimeError, ValueError):
        return None
    private = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return base if private else None


@functools.cache
def _sources() -> str:
    """A digest of this package: code made by another version is never found."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _text(value: object) -> str:
    """The same text in every process: sets and dictionaries in the order of their items' texts."""
    if dataclasses.is_dataclass(value):
        return _text({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(_text(item) for item in value)) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_text(k)}: {_text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_text(item) for item in value) + ")"
    return repr(value)


def _key(kernels: Sequence[Kernel], target: Target, ctx: PassContext) -> str:
    facts = [
        _sources(),
        str(llvm_facts.binding().llvm_version_info),
        str(target),
        _text(resolve_cpu(target)),
        str(ctx.opt_level),
        repr(sorted(ctx.required_pass or ())),
        repr(sorted(ctx.disabled_pass or ())),
        _text(ctx.config),
        DispatchContext.current.digest(),
        *(f"{kernel.name} {kernel.key}" for kernel in kernels),
    ]
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=20).hexdigest()


# ---- entries: magic, length of the header, header, objects, digest of all before ----


def _read(path: Path) -> tuple[list[str], list[bytes]] | None:
    """Names and objects of an entry; None for whatever is not whole, which is compiled again."""
    try:
        data = path.read_bytes()
        os.utime(path)  # says that the entry is in use
    except OSError:
        return None
    body, digest = data[:-16], data[-16:]
    if not body.startswith(_MAGIC) or hashlib.blake2b(body, digest_size=16).digest() != digest:
        return None
    try:
        (size,) = struct.unpack_from("<Q", body, len(_MAGIC))
        start = len(_MAGIC) + 8
        header = json.loads(body[start : start + size])
        names, sizes = header["names"], header["sizes"]
        ends = itertools.accumulate(sizes, initial=start + size)
        objects = [body[a:b] for a, b in itertools.pairwise(ends)]
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return names, objects


def _write(path: Path, module: Module) -> None:
    """Keep the code of a library; a folder that cannot be written is no error."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as folder:
            objects = list(module._info.objects())
            header = json.dumps({"names": sorted(module._info.names), "sizes": [*map(len, objects)]}).encode()
            body = b"".join([_MAGIC, struct.pack("<Q", len(header)), header, *objects])
            entry = os.path.join(folder, "entry")
            Path(entry).write_bytes(body + hashlib.blake2b(body, digest_size=16).digest())
            os.replace(entry, path)
        _prune(path.parent)
    except OSError:
        return


def entries(folder: Path) -> list[Path]:
    """The files of ours in the folder: compiled libraries, and what this machine was measured to reach."""
    return sorted([*folder.glob(f"*{SUFFIX}"), *folder.glob("machine-*.json")])


def _prune(folder: Path) -> None:
    """Leave the entries used last."""
    kept = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for old in kept[: max(len(kept) - MAX_ENTRIES, 0)]:
        old.unlink(missing_ok=True)


def _from_objects(
    names: list[str], objects: list[bytes], compile_all: Callable[[], Module], cpu: ResolvedCPU
) -> Module:
    """A module of kept code. Its text is not kept: asking for that compiles, and so does code that cannot be loaded."""

    def load() -> JitCode:
        from ...codegen.llvm import jit as llvm_jit
        from ...codegen.llvm.module import CONTEXT, TABLE

        try:
            addresses, kept = llvm_jit.load_objects(objects, (*names, TABLE, CONTEXT))
        except (TVMError, RuntimeError):
            return compile_all()._info.load()
        table, context = addresses.pop(TABLE), addresses.pop(CONTEXT)
        return JitCode(addresses, table, context, kept)

    def save(path: str, fmt: str = "") -> None:
        if (fmt or path.rpartition(".")[2]) not in ("o", "obj") or len(objects) > 1:
            compile_all().save(path, fmt)
            return
        with open(path, "wb") as file:
            file.write(objects[0])

    def source(fmt: str) -> str:
        return compile_all().get_source(fmt)

    entry = names[0] if len(names) == 1 else None
    return from_code(
        load, names, entry_name=entry, source=source, save=save, objects=lambda: objects, needs=lambda: needs_of(cpu)
    )
