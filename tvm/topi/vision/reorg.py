"""The reorg layer of DarkNet."""

from __future__ import annotations

from ... import te
from ...error import ExprValueError
from .. import tag
from ..assumptions import divides
from ..transform import reshape
from ..utils import check_tensor, get_const_int, simplify


def reorg(data, stride):
    """The data with channels distributed over a grid of ``stride``, reinterpreted with sides ``stride`` times smaller.

    Raises
    ------
    ExprValueError
        The data does not have 4 dimensions, or is not divisible by the stride.
    """
    check_tensor(data, "reorg")
    stride = get_const_int(stride)
    if len(data.shape) != 4 or stride < 1:
        raise ExprValueError(
            f"reorg: data must be (N, C, H, W) and the stride positive, got {len(data.shape)} dimensions and "
            f"stride {stride}"
        )
    batch, channels, height, width = data.shape
    parts = ((channels, stride * stride), (height, stride), (width, stride))
    if not all(divides(size, part, f"a size divisible by {part}") for size, part in parts):
        raise ExprValueError(f"reorg: {channels} channels of {height} x {width} are not divisible by stride {stride}")
    groups = simplify(channels // (stride * stride))
    wide = reshape(data, (batch, groups, height * stride, width * stride))

    def element(n, c, y, x):
        place = c // groups
        return wide(n, c % groups, y * stride + place // stride, x * stride + place % stride)

    spread = te.compute(data.shape, element, name="T_reorg", tag=tag.INJECTIVE)
    return reshape(spread, (batch, channels * stride * stride, height // stride, width // stride))


__all__ = ["reorg"]
