"""What a layout rule of an operator answers."""

from __future__ import annotations

from typing import Any, NamedTuple


class InferCorrectLayoutOutput(NamedTuple):
    """The layouts of inputs and outputs, and the attributes that go with them."""

    input_layouts: Any
    output_layouts: Any
    new_attrs: Any


__all__ = ["InferCorrectLayoutOutput"]
