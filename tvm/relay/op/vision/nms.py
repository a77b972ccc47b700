"""Non-maximum suppression."""

from __future__ import annotations

from .... import topi
from ...expr import RelayExpr, TupleWrapper, const
from ..record import OPAQUE, call, op


def _number(value, dtype: str) -> RelayExpr:
    return value if isinstance(value, RelayExpr) else const(value, dtype)


@op(
    "vision.get_valid_counts",
    2,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.vision.get_valid_counts(
        inputs[0], inputs[1], attrs.id_index, attrs.score_index, gpu=gpu
    ),
)
def get_valid_counts(data, score_threshold, id_index=0, score_index=1):
    """Move boxes with a score above a threshold to the front; return their number, the boxes and their original
    indices."""
    made = call(
        "vision.get_valid_counts",
        data,
        _number(score_threshold, "float32"),
        id_index=int(id_index),
        score_index=int(score_index),
    )
    return TupleWrapper(made, 3)


def _nms_compute(attrs, inputs, out, gpu=None):
    return topi.vision.non_max_suppression(
        inputs[0],
        inputs[1],
        inputs[2],
        inputs[3],
        inputs[4],
        attrs.force_suppress,
        attrs.top_k,
        attrs.coord_start,
        attrs.score_index,
        attrs.id_index,
        attrs.return_indices,
        attrs.invalid_to_bottom,
        gpu=gpu,
    )


@op("vision.non_max_suppression", 5, pattern=OPAQUE, compute=_nms_compute)
def non_max_suppression(
    data,
    valid_count,
    indices,
    max_output_size=-1,
    iou_threshold=0.5,
    force_suppress=False,
    top_k=-1,
    coord_start=2,
    score_index=1,
    id_index=0,
    return_indices=True,
    invalid_to_bottom=False,
):
    """Select the best boxes that do not overlap a better one."""
    made = call(
        "vision.non_max_suppression",
        data,
        valid_count,
        indices,
        _number(max_output_size, "int32"),
        _number(iou_threshold, "float32"),
        force_suppress=bool(force_suppress),
        top_k=int(top_k),
        coord_start=int(coord_start),
        score_index=int(score_index),
        id_index=int(id_index),
        return_indices=bool(return_indices),
        invalid_to_bottom=bool(invalid_to_bottom),
    )
    return TupleWrapper(made, 2) if return_indices else made


@op(
    "vision.all_class_non_max_suppression",
    5,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.vision.all_class_non_max_suppression(
        *inputs, attrs.output_format, gpu=gpu
    ),
)
def all_class_non_max_suppression(
    boxes, scores, max_output_boxes_per_class=-1, iou_threshold=-1.0, score_threshold=-1.0, output_format="onnx"
):
    """Select the best boxes of each class that do not overlap a better one."""
    made = call(
        "vision.all_class_non_max_suppression",
        boxes,
        scores,
        _number(max_output_boxes_per_class, "int32"),
        _number(iou_threshold, "float32"),
        _number(score_threshold, "float32"),
        output_format=output_format,
    )
    return TupleWrapper(made, 2 if output_format == "onnx" else 3)
