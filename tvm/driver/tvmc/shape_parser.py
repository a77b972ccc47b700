"""Parses shapes of inputs on the command line."""

from __future__ import annotations

import argparse
import re
import sys

# A name may contain any characters except spaces and brackets, which separate entries and start shapes.
_ENTRY = re.compile(r"[^\s\[\],;]+:\s*\[\s*-?\d+(?:\s*,\s*-?\d+)*\s*\]")


def parse_shape_string(inputs_string: str) -> dict[str, list]:
    """Convert ``"data:[1,3,224,224] mask:[1]"`` to a dictionary; sizes below one are dynamic dimensions."""
    from ...relay.expr import Any

    found = _ENTRY.findall(inputs_string)
    # Any other text between the entries is an error.
    if not found or _ENTRY.sub("", inputs_string).strip(" \t\n,;"):
        raise argparse.ArgumentTypeError(
            f"'{inputs_string}' is not a list of shapes; example: --input-shapes \"data:[1,3,224,224]\""
        )
    out: dict[str, list] = {}
    for entry in found:
        name, _, text = entry.rpartition(":")
        sizes = [int(v) for v in text.strip()[1:-1].split(",")]
        if name in out:
            raise argparse.ArgumentTypeError(f"'{inputs_string}' contains two shapes for '{name}'")
        out[name] = [Any() if s <= 0 else s for s in sizes]
    return out


def parse_model_shapes(text: str) -> dict[str, list]:
    """Parse the shapes for which a model is compiled. A size of 0 is a dynamic dimension like -1; this prints a note,
    because it may be a mistake."""
    shapes = parse_shape_string(text)
    for entry in _ENTRY.findall(text):
        name, _, sizes = entry.rpartition(":")
        if 0 in map(int, sizes.strip()[1:-1].split(",")):
            print(f"--input-shapes: the size 0 of '{name}' means a dynamic dimension", file=sys.stderr)
    return shapes
