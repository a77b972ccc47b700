"""The source of a C module: declarations, shared helper functions and constants, and functions."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple

from ...ir.prim import PrimExpr
from ..symbols import is_reserved, symbol_of
from . import helpers as c_helpers
from .names import DECLARED, RESERVED, clean, quoted

if TYPE_CHECKING:
    from .like import CLike


_PLAIN = re.compile(r"^[A-Za-z_.$][A-Za-z0-9_.$]*$")


class Signature(NamedTuple):
    """A function of the module: its C name, its public name, its types, and its declaration specifiers
    (``qualifier``)."""

    name: str
    symbol: str
    result: str
    parameters: tuple[str, ...]
    qualifier: str = ""


class Source:
    """The parts of a module. All parts are stored in the order of first use, so that the text depends only on the
    program."""

    def __init__(self, dialect: type[CLike]):
        self.dialect = dialect
        self.functions: list[str] = []
        self.signatures: dict[str, Signature] = {}
        self.helpers: dict[str, str] = {}
        self.constants: list[str] = []
        self.imported: list[str] = []
        self.externs: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.taken: set[str] = set(RESERVED | dialect.reserved)
        self._packed: dict[str, str] = {}
        self._shared: dict[str, str] = {}
        # Cached analyses of expressions, by identity; the node is kept alive so that its identity is not reused.
        self.scanned: dict[tuple[str, int], tuple[PrimExpr, bool]] = {}

    def name(self, hint: str, local: Container[str] = ()) -> str:
        """Return a new name at file level; ``local`` contains names that would hide it at its first use."""
        got, number = clean(hint), 0
        while got in self.taken or got in local:
            number += 1
            got = f"{clean(hint)}_{number}"
        self.taken.add(got)
        return got

    def declare(
        self, key: str, symbol: str, result: str, parameters: tuple[str, ...], qualifier: str = ""
    ) -> Signature:  # fmt: skip
        """Declare a function of the module, which other functions of the module call by the name ``key``."""
        hint = symbol + "_" if is_reserved(symbol) else symbol
        row = Signature(self.name(hint), symbol, result, parameters, qualifier)
        self.signatures[key] = self.signatures[symbol] = row
        return row

    def add_helper(self, name: str, text: str) -> None:
        self.helpers.setdefault(name, text)

    def helper(self, name: str) -> str:
        self.add_helper(name, self.dialect.fixed_helpers[name])
        return name

    def typed_helper(self, operation: str, dtype: str) -> str:
        return c_helpers.typed_helper(self.add_helper, self.dialect, operation, dtype)

    def bits_helper(self, source: str, target: str) -> str:
        return c_helpers.bits_helper(self.add_helper, self.dialect, source, target)

    def constant(self, hint: str, before: str, after: str, local: Container[str] = ()) -> str:
        """Declare a constant ``before NAME after`` at file level; equal texts are one constant."""
        key = f"{before} {after}"
        got = self._shared.get(key)
        if got is None:
            got = self._shared[key] = self.name(hint, local)
            self.constants.append(f"{before} {got}{after};")
        return got

    def packed_handle(self, function: str, local: Container[str] = ()) -> str:
        """Return the variable that caches the handle of a packed function."""
        got = self._packed.get(function)
        if got is None:
            got = self._packed[function] = self.name(f"packed_{function}", local)
            self.constants.append(f"static void* {got}; /* the packed function {comment(function)} */")
        return got

    def extern(self, name: str, result: str, parameters: tuple[str, ...]) -> str:
        """Return the text of an external function in a call with these types."""
        if name in DECLARED or self.is_imported(name):
            return name
        known = self.externs.setdefault(name, (result, parameters))
        if known == (result, parameters):
            return name
        return f"(({result} (*)({', '.join(parameters) or 'void'})){name})"

    def is_imported(self, name: str) -> bool:
        """Return whether imported source (pragma import_c) contains the function; that source then declares it."""
        return any(name in text for text in self.imported)

    def import_text(self, text: str) -> None:
        if text not in self.imported:
            self.imported.append(text)

    def extern_lines(self) -> list[str]:
        rows = [(name, row) for name, row in self.externs.items() if not self.is_imported(name)]
        return [f"extern {result} {name}({', '.join(types) or 'void'});" for name, (result, types) in rows]

    def declarations(self) -> list[str]:
        """Return the prototypes of the module's functions, so that functions may be defined in any order."""
        lines = []
        for row in {id(r): r for r in self.signatures.values()}.values():
            symbol = symbol_of(row.symbol)
            label = f" __asm__({_label(symbol)})" if row.name != symbol else ""
            lines.append(f"{row.qualifier}{row.result} {row.name}({', '.join(row.parameters) or 'void'}){label};")
        return lines


def _label(symbol: str) -> str:
    """Return an assembler symbol; unusual symbols need additional quotes."""
    return quoted(symbol if _PLAIN.match(symbol) else f'"{symbol}"')


def comment(text: str) -> str:
    """Return text that is valid inside a comment."""
    return text.replace("*/", "* /").replace("\n", " ")
