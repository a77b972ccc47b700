"""Reports which part of a model each code generator compiles: a table, a text, or a page with a picture."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .files import write_whole
from .terminal import print_table


def print_partitions(manifest: Mapping[str, Any]) -> None:
    """Print a table of the partitions of a package; nothing for a package without partitions."""
    from ...relay.backend.external.summary import counted

    found = manifest.get("partitions") or []
    if not found:
        return
    rows = [(p["name"], p["compiler"], len(p["operators"]), counted(p["operators"])) for p in found]
    left = manifest["operators_left"]
    rows.append(("(rest of the model)", str(manifest["target"]).split(" ")[0], len(left), counted(left)))
    print_table(rows, ("partition", "back end", "operators", "names"), sys.stdout, right=(2,))


def write_page_of_partitions(mod: Any, target: str, where: str) -> None:
    """Write the page of the partitions of a module to an HTML file."""
    from ...contrib.pictures import partitions_page

    text = partitions_page(mod, target)
    write_whole(where, lambda out: out.write(text.encode()))


__all__ = ["print_partitions", "write_page_of_partitions"]
