"""A case or more of every operation of ML programs and of every layer, against NumPy written from the specification.

``python -m tools conformance coreml`` runs them all and writes the table of docs/coverage.md.
"""

from __future__ import annotations

from functools import partial

import layer_cases  # noqa: F401 (registers its cases)
import program_cases  # noqa: F401 (registers its cases)
from cases import GROUPS, check

from tvm.relay.frontend.coreml.table import LAYERS, OPERATIONS

ORACLE = "NumPy code written from the specification (ML programs first, then layers of neural networks)"
# Kinds that tests of control flow and of whole models show.
ELSEWHERE = {"cond", "while_loop", "classify", "const", "branch", "loop", "copy"}
OPERATORS = [*OPERATIONS.names(), *(f"layer {name}" for name in LAYERS.names() if name not in ELSEWHERE)]


def cases() -> dict:
    """Functions that raise where a result is not the expected one, by name."""
    found = {}
    for group, rows in GROUPS.items():
        for number, case in enumerate(rows):
            name = case.name if group.startswith("program") else f"layer {case.name}"
            found[name if name not in found else f"{name} {group} {number}"] = partial(check, group, number)
    return found
