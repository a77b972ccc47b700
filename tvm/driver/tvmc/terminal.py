"""Terminal output: tables, sizes, and colours if the terminal supports them. No information is in the colour alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

_LOGGER = logging.getLogger("TVMC")
BOLD, GREEN, FAINT, RED, PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[31m", "\x1b[0m"


def has_colour(stream: Any) -> bool:
    """Whether the stream is a terminal with colours enabled (https://no-color.org)."""
    is_terminal = bool(getattr(stream, "isatty", lambda: False)())
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def painted(text: str, style: str, stream: Any) -> str:
    """Return the text with a style, if the stream supports styles."""
    return f"{style}{text}{PLAIN}" if style and has_colour(stream) else text


def size(count: float) -> str:
    """Format a size in bytes, such as ``14.2 MiB``."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def table(rows: Sequence[Sequence[object]], head: Sequence[str] = (), right: Sequence[int] = ()) -> list[str]:
    """Format rows as lines with aligned columns; the columns ``right`` are right-aligned."""
    texts = [[str(cell) for cell in row] for row in ([head] if head else []) + list(rows)]
    widths = [max(map(len, column)) for column in zip(*texts)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in texts
    ]


def print_table(rows: Sequence[Sequence[object]], head: Sequence[str], stream: Any, right: Sequence[int] = ()) -> None:
    """Print the table with a bold header."""
    first, *others = table(rows, head, right)
    stream.write("\n".join([painted(first, BOLD, stream), *others]) + "\n")


def note(text: str) -> None:
    """Log a line that -v shows. A logger without a level logs nothing: Python's default level would print the line in
    every script that calls ``tvmc.compile``."""
    if _LOGGER.level != logging.NOTSET:
        _LOGGER.warning(text)


__all__ = ["BOLD", "FAINT", "GREEN", "PLAIN", "RED", "has_colour", "note", "painted", "print_table", "size", "table"]
