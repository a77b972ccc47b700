"""Modulated deformable convolutions: the data determines the sampling positions, and a mask weights the samples."""

from __future__ import annotations

import math

import numpy as np

from ... import op as relay
from ...expr import RelayExpr, const
from .context import NodeContext


def masked_deformable(
    ctx: NodeContext, x: RelayExpr, offset: RelayExpr, mask: RelayExpr, weight: RelayExpr, groups: int, **window
) -> RelayExpr:
    """Split the samples into one plane per kernel position, and multiply them by the mask.

    ``window`` contains the arguments of ``deformable_conv2d`` other than groups and channels.
    """
    outputs, inner, *kernel = ctx.known_shape(weight)
    places, count, sets = math.prod(kernel), inner * groups, window["deformable_groups"]
    single = np.tile(np.eye(places, dtype=ctx.dtype(x)).reshape(places, 1, *kernel), (count, 1, 1, 1))
    planes = relay.nn.deformable_conv2d(
        x, offset, const(single), groups=count, channels=count * places, kernel_size=tuple(kernel), **window
    )
    n, _, h, w = ctx.known_shape(ctx.made(planes))
    weighted = relay.multiply(relay.reshape(planes, (n, sets, count // sets, places, h, w)),
                              relay.reshape(mask, (n, sets, 1, places, h, w)))  # fmt: skip
    return relay.nn.conv2d(relay.reshape(weighted, (n, count * places, h, w)),
                           relay.reshape(weight, (outputs, inner * places, 1, 1)), groups=groups, channels=outputs,
                           kernel_size=(1, 1))  # fmt: skip
