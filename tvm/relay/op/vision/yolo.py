"""Channel rearrangement of YOLO."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....topi.assumptions import divides
from ..record import INJECTIVE, call, op
from ..rules import tensor


def _reorg_type(attrs, types):
    batch, channels, height, width = tensor(types[0]).shape
    stride = attrs.stride
    parts = ((channels, stride * stride), (height, stride), (width, stride))
    if not all(divides(size, part, f"a size that divides by {part}") for size, part in parts):
        raise ValueError(f"{channels} channels of {height} x {width} pixels are not divisible by stride {stride}")
    shape = (batch, channels * stride * stride, height // stride, width // stride)
    return TensorType(shape, types[0].dtype)


@op(
    "vision.yolo_reorg",
    1,
    pattern=INJECTIVE,
    type_rule=_reorg_type,
    compute=lambda attrs, inputs, out: topi.vision.reorg(inputs[0], attrs.stride),
)
def yolo_reorg(data, stride):
    """Rearrange spatial squares into channels, in the order that YOLO uses."""
    return call("vision.yolo_reorg", data, stride=int(stride))
