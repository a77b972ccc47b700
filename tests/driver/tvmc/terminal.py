"""A screen that understands what the live table writes: new lines, returns, moves up, clearing."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[(\d*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


class Screen:
    """Lines of text and a cursor. It never scrolls: it is as high as it has to be."""

    def __init__(self, text: str = ""):
        self.lines = [""]
        self.row = self.column = 0
        self.write(text)

    def write(self, text: str) -> None:
        for found in _TOKEN.finditer(text):
            count, command = found.group(1), found.group(2)
            if command == "A":
                self.row -= int(count or 1)
                assert self.row >= 0, "the cursor was moved above what was drawn"
            elif command == "K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif command == "J":
                self.lines[self.row] = self.lines[self.row][: self.column]
                del self.lines[self.row + 1 :]
            elif command == "m":
                pass
            elif command is not None:
                raise AssertionError(f"unknown command {found.group()!r}")
            elif found.group() == "\r":
                self.column = 0
            elif found.group() == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            else:
                line = self.lines[self.row].ljust(self.column)
                word = found.group()
                self.lines[self.row] = line[: self.column] + word + line[self.column + len(word) :]
                self.column += len(word)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip()
