"""Parses names of passes on the command line."""

from __future__ import annotations

import argparse

from ...ir.attrs import near_matches
from ...ir.transform import PASSES
from ...target import Target
from ...target.backend import BACKENDS


def known_passes() -> list[str]:
    """Return the names of graph passes that can be disabled."""
    from ... import relay  # noqa: F401  (registers its passes)
    from ...relay import pipeline

    passes = [p for kind in BACKENDS for p in pipeline.optimize(Target(kind))]
    return sorted({p.info.name for p in passes} | {n.rsplit(".", 1)[-1] for n in PASSES} | {"FuseOps"})


def _passes_over_loops() -> set[str]:
    """Return the names of TIR passes, as instruments receive them."""
    from ...tir import transform

    return {f"tir.{name}" for name in vars(transform) if name[:1].isupper()}


def parse_printed_passes(text: str) -> list[str]:
    """Convert ``"[FuseOps,tir.Simplify]"``, with or without brackets, to a list. An unknown name raises an error."""
    names = [n.strip() for n in text.strip().removeprefix("[").removesuffix("]").split(",")]
    known = sorted({*known_passes(), *PASSES, *_passes_over_loops()})
    missing = [n for n in names if n not in known]
    if missing:
        hint = near_matches(missing[0], known)
        raise argparse.ArgumentTypeError(f"unknown pass {', '.join(map(repr, missing))}; {hint}")
    return names


def parse_pass_list_str(input_string: str) -> list[str]:
    """Convert ``"FoldConstant,FuseOps"`` to a list; an empty text gives a list with one empty name. An unknown name
    raises an error."""
    names = [n.strip() for n in input_string.split(",")]
    known = known_passes()
    missing = [n for n in names if n and n not in known]
    if missing:
        raise argparse.ArgumentTypeError(
            f"unknown pass {', '.join(missing)}; {near_matches(missing[0], known)}. Passes: {', '.join(known)}"
        )
    return names
