"""Generate the table of functions of a C file, by which a host calls them in a program on a microcontroller.

``csrc/crt/include/tvm_crt.h`` declares the same type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from ...dtype import info

RECORD = """\
/* A function that a host can call: its name, the function that takes pointers to its arguments, the number of
 * arguments, their sizes in bytes, and their description as JSON. */
typedef struct {
  const char* name;
  int32_t (*call)(void* const* data);
  uint32_t num_args;
  const uint32_t* sizes;
  const char* arguments;
} TVMCrtFunction;

extern const TVMCrtFunction tvm_crt_functions[];
extern const uint32_t tvm_crt_num_functions;
"""


class Argument(NamedTuple):
    """An argument of a function: its name, data type and shape, and whether the function writes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * info(self.dtype).bytes


class TableEntry(NamedTuple):
    """A function of the table. ``called`` is its name in C, and ``passed`` are its arguments as C expressions, in which
    ``data`` is the array of pointers to the arguments of the table. ``has_status`` is whether it returns a status."""

    name: str
    called: str
    arguments: Sequence[Argument]
    passed: Sequence[str]
    has_status: bool = True


def library_lines(entries: Sequence[TableEntry]) -> list[str]:
    """Return the lines that define the table of these functions."""
    lines, rows = ["/* The functions that a host can call. */", RECORD], []
    for number, entry in enumerate(entries):
        count = len(entry.arguments)
        lines.append(f"static int32_t call_{number}(void* const* data) {{")
        lines += [] if count else ["  (void)data;"]
        call = f"{entry.called}({', '.join(entry.passed)});"
        lines += [f"  return {call}", "}"] if entry.has_status else [f"  {call}", "  return 0;", "}"]
        # ISO C does not allow empty arrays.
        sizes = ", ".join(str(argument.nbytes) for argument in entry.arguments) or "0"
        lines += [f"static const uint32_t sizes_{number}[] = {{{sizes}}};", ""]
        about = json.dumps([[a.name, a.dtype, list(a.shape), a.is_output] for a in entry.arguments])
        rows.append(f"    {{{_literal(entry.name)}, call_{number}, {count}, sizes_{number},\n     {_literal(about)}}},")
    lines += ["const TVMCrtFunction tvm_crt_functions[] = {", *(rows or ["    {0, 0, 0, 0, 0},"]), "};"]
    return [*lines, f"const uint32_t tvm_crt_num_functions = {len(entries)};", ""]


def _literal(text: str) -> str:
    """Return an ASCII text as a C string literal. A question mark is escaped, because two of them begin a trigraph."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") + '"'


__all__ = ["RECORD", "Argument", "TableEntry", "library_lines"]
