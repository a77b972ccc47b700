"""The private cache of compiled libraries, so that recompiling the same model skips schedules, lowering and LLVM.

The key of an entry contains all inputs of the compilation: the fused functions, the resolved target, the pass context,
the sources of this package and the LLVM version. The cache folder is ``TVM_CACHE_DIR``, or ``tvm`` in the user's cache
folder. It must belong to the user and be accessible only to this user; otherwise it is not used. The cache is disabled
by ``TVM_NO_CACHE=1``, and by user-defined passes, instruments, computations and lowering rules.
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
# The packages whose functions are not user-defined.
_OUR_CODE = frozenset({"tvm", "builtins", "functools", "operator", "numpy"})
_PACKAGE = Path(__file__).resolve().parents[2]


def library(
    kernels: Sequence[Kernel], target: Target, host: Target, ctx: PassContext, compile_all: Callable[[], Module]
) -> Module:
    """Return the library of the kernels from the cache, or compile and store it."""
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
    # Without LLVM, compilation fails and the compiler reports the error.
    if cpu is None or llvm_facts.binding() is None or str(target) != str(host):
        return False
    if ctx.instruments or ctx.config.get("tir.add_lower_pass"):
        return False
    return cpu.triple == llvm_facts.host().triple and not _has_user_rules()


def _has_user_rules() -> bool:
    """Return whether an operator has a user-defined computation or rule."""
    for name in OPS.names():
        # Rules of external code generators do not change kernels.
        facts = {key: value for key, value in OPS.get(name).attrs.items() if not key.startswith("target.")}
        for value in (*facts.values(), *rules_of(OPS[name])):
            if callable(value) and str(getattr(value, "__module__", None) or "tvm").partition(".")[0] not in _OUR_CODE:
                return True
    return False


def cache_folder() -> Path | None:
    """Return the cache folder and create it if necessary; None if it cannot be private."""
    asked = os.environ.get("TVM_CACHE_DIR")
    try:
        base = Path(asked) if asked else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tvm"
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.stat(base)
    except (OSError, RuntimeError, ValueError):
        return None
    # Windows has no owner and mode of this kind; the folders of a user are private there.
    private = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077)
    return base if private else None


@functools.cache
def _sources() -> str:
    """Return a digest of the sources of this package, so that code from another version is never used."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _text(value: object) -> str:
    """Return a text that is equal in every process: items of sets and dictionaries are sorted."""
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


# The format of an entry: magic, length of the header, header, objects, digest of all preceding bytes.


def _read(path: Path) -> tuple[list[str], list[bytes]] | None:
    """Return the names and objects of an entry; None if it is missing or corrupt."""
    try:
        data = path.read_bytes()
        os.utime(path)  # marks the entry as recently used
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
    """Store the code of a library; errors in writing are ignored."""
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
    """Return our files in the cache folder: compiled libraries and measured machine properties."""
    return sorted([*folder.glob(f"*{SUFFIX}"), *folder.glob("machine-*.json")])


def _prune(folder: Path) -> None:
    """Delete the least recently used entries beyond the maximum number."""
    kept = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for old in kept[: max(len(kept) - MAX_ENTRIES, 0)]:
        old.unlink(missing_ok=True)


def _from_objects(
    names: list[str], objects: list[bytes], compile_all: Callable[[], Module], cpu: ResolvedCPU
) -> Module:
    """Return a module of cached code. Its source text is not cached: reading it compiles, and so does code that fails
    to load."""

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
