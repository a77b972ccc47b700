"""Load .ll and .bc files that ``Module.save`` wrote."""

from __future__ import annotations

import re

from ...error import TVMError
from ...runtime.module import JitCode, Module, from_code
from ...target.cpu import resolve_cpu
from ...target.target import Target
from ..symbols import name_of
from . import jit as llvm_jit
from .module import CONTEXT, TABLE

_ENTRY = re.compile(r'^@__tvm_main__ = .* c"(.*)\\00"', re.MULTILINE)
_DEFINED = re.compile(
    r'^define (?:(?:dso_local|protected|weak|weak_odr|noundef|signext) )*i32 @"?([^"(\s]+)"?\(', re.MULTILINE
)


def load_file(path: str, fmt: str = "") -> Module:
    """Compile LLVM text or bitcode for this machine and load it."""
    try:
        text = llvm_jit.read_import(path)
    except (RuntimeError, UnicodeDecodeError) as error:
        raise TVMError(f"load_module: '{path}' is not a valid LLVM {fmt or 'file'}: {error}") from None
    cpu = resolve_cpu(Target("llvm"))
    code = llvm_jit.compile_object(text, cpu)
    symbols = {name_of(symbol): symbol for symbol in _DEFINED.findall(text)}
    variables = [name for name in (TABLE, CONTEXT) if f"@{name} = " in text]
    entry = _ENTRY.search(text)

    def load() -> JitCode:
        addresses, library = llvm_jit.load_objects([code], (*symbols.values(), *variables))
        return JitCode(
            {name: addresses[symbol] for name, symbol in symbols.items()},
            addresses.get(TABLE, 0),
            addresses.get(CONTEXT, 0),
            library,
        )

    def save(target: str, form: str) -> None:
        if form not in ("o", "obj"):
            raise TVMError(f"a module loaded from '{path}' can only be saved as o, not as '{form}'")
        with open(target, "wb") as file:
            file.write(code)

    return from_code(load, symbols, entry_name=entry and entry.group(1), source=lambda form: text, save=save)
