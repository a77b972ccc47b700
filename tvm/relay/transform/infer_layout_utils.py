"""The result type of layout inference rules."""

from __future__ import annotations

from typing import Any, NamedTuple


class InferCorrectLayoutOutput(NamedTuple):
    """The layouts of inputs and outputs that a layout rule infers, with the attributes for these layouts."""

    input_layouts: Any
    output_layouts: Any
    new_attrs: Any


__all__ = ["InferCorrectLayoutOutput"]
