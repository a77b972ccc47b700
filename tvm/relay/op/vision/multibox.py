"""Anchor boxes of single-shot detectors."""

from __future__ import annotations

from .... import topi
from ...expr import TupleWrapper
from ..record import INJECTIVE, OPAQUE, call, op


def _floats(values) -> tuple:
    return tuple(float(v) for v in (values if isinstance(values, (tuple, list)) else (values,)))


@op(
    "vision.multibox_prior",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.vision.multibox_prior(
        inputs[0], attrs.sizes, attrs.ratios, attrs.steps, attrs.offsets, attrs.clip
    ),
)
def multibox_prior(data, sizes=(1.0,), ratios=(1.0,), steps=(-1.0, -1.0), offsets=(0.5, 0.5), clip=False):
    """Generate anchor boxes of several sizes and aspect ratios around every pixel."""
    return call(
        "vision.multibox_prior",
        data,
        sizes=_floats(sizes),
        ratios=_floats(ratios),
        steps=_floats(steps),
        offsets=_floats(offsets),
        clip=bool(clip),
    )


def _transform_compute(attrs, inputs, out, gpu=None):
    return topi.vision.multibox_transform_loc(
        *inputs, attrs.clip, attrs.threshold, attrs.variances, attrs.keep_background, gpu=gpu
    )


@op("vision.multibox_transform_loc", 3, pattern=OPAQUE, compute=_transform_compute)
def multibox_transform_loc(
    cls_prob, loc_pred, anchor, clip=True, threshold=0.01, variances=(0.1, 0.1, 0.2, 0.2), keep_background=False
):
    """Decode predictions to boxes (class, score, corners), and count those above the threshold.

    With ``keep_background`` the boxes of the background are kept as class 0 and all boxes are counted.
    """
    made = call(
        "vision.multibox_transform_loc",
        cls_prob,
        loc_pred,
        anchor,
        clip=bool(clip),
        threshold=float(threshold),
        variances=_floats(variances),
        keep_background=bool(keep_background),
    )
    return TupleWrapper(made, 2)
