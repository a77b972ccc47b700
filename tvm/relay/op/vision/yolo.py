"""Rearrangement of channels in YOLO."""

from __future__ import annotations

from .... import topi
from ..record import INJECTIVE, call, op


@op(
    "vision.yolo_reorg",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.vision.reorg(inputs[0], attrs.stride),
)
def yolo_reorg(data, stride):
    """Squares of points become channels, in the order of YOLO."""
    return call("vision.yolo_reorg", data, stride=int(stride))
