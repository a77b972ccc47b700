"""Operators of neural networks and images."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from .case import case, f, i

raw = tf.raw_ops

# -- networks ---------------------------------------------------------------------------------------------------------

case("MatMul", lambda x, y: raw.MatMul(a=x, b=y), f(3, 5), f(5, 2))
case("MatMul/transposed", lambda x, y: raw.MatMul(a=x, b=y, transpose_a=True, transpose_b=True), f(5, 3), f(2, 5))
case("BatchMatMul", lambda x, y: raw.BatchMatMul(x=x, y=y, adj_y=True), f(2, 3, 5), f(2, 4, 5))
case("BatchMatMulV2", lambda x, y: raw.BatchMatMulV2(x=x, y=y), f(2, 1, 3, 5), f(4, 5, 2))
case("BatchMatMulV2/adj", lambda x, y: raw.BatchMatMulV2(x=x, y=y, adj_x=True), f(2, 5, 3), f(2, 5, 2))
case(
    "BatchMatMulV2/open",
    lambda x, y: raw.BatchMatMulV2(x=x, y=y, adj_y=True),
    f(2, 4, 3, 5, open_shape=[None, 4, 3, 5]),
    f(2, 4, 6, 5, open_shape=[None, 4, 6, 5]),
)
case("BatchMatMulV3", lambda x, y: raw.BatchMatMulV3(x=x, y=y, Tout="float32"), f(2, 3, 5), f(2, 5, 2))
for _k, (_e, _p, _q) in enumerate(
    (
        ("abc,cd->abd", (2, 3, 4), (4, 5)),
        ("abcd,cde->abe", (2, 3, 4, 2), (4, 2, 5)),
        ("aecd,abcd->acbe", (2, 3, 4, 5), (2, 6, 4, 5)),
        ("ij,kj->ik", (3, 4), (5, 4)),
        ("acbe,aecd->abcd", (2, 4, 6, 3), (2, 3, 4, 5)),
        ("ij,ij->i", (3, 4), (3, 4)),
    )
):
    case(f"Einsum/{_k}", lambda x, y, e=_e: raw.Einsum(inputs=[x, y], equation=e), f(*_p), f(*_q))
case(
    "Einsum/open",
    lambda x, y: raw.Einsum(inputs=[x, y], equation="abc,cde->abde"),
    f(2, 3, 4, open_shape=[None, 3, 4]),
    f(4, 5, 6),
)
case("Einsum/sum", lambda x: raw.Einsum(inputs=[x], equation="ijk->kj"), f(2, 3, 4))
case("BiasAdd", lambda x, y: raw.BiasAdd(value=x, bias=y), f(2, 3, 4), f(4))
case("BiasAdd/first", lambda x, y: raw.BiasAdd(value=x, bias=y, data_format="NCHW"), f(2, 3, 4, 5), f(3))
case("BiasAddV1", lambda x, y: raw.BiasAddV1(value=x, bias=y), f(2, 4), f(4))
case("Softmax", lambda x: raw.Softmax(logits=x), f(2, 3, 5))
case("LogSoftmax", lambda x: raw.LogSoftmax(logits=x), f(2, 5))
for _v in ("", "V2", "V3"):
    case(
        f"FusedBatchNorm{_v}",
        lambda x, n=f"FusedBatchNorm{_v}": getattr(raw, n)(
            x=x,
            scale=[1.0, 2, 0.5],
            offset=[0.1, -1, 3],
            mean=[0.2, 0, -1],
            variance=[1.0, 0.5, 2],
            epsilon=1e-3,
            is_training=False,
        )[0],
        f(2, 4, 5, 3),
    )
case(
    "FusedBatchNormV3/training",
    lambda x: raw.FusedBatchNormV3(x=x, scale=[1.0, 2, 0.5], offset=[0.1, -1, 3], mean=[], variance=[], epsilon=1e-3)[
        0
    ],
    f(2, 4, 5, 3),
)
case("LRN", lambda x: raw.LRN(input=x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.7), f(1, 2, 3, 7))

for _k, (_s, _w, _a) in enumerate(
    (
        ((1, 7, 9, 3), (3, 3, 3, 4), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
        ((2, 7, 9, 3), (3, 2, 3, 4), {"strides": [1, 2, 3, 1], "padding": "SAME"}),
        ((1, 8, 9, 2), (3, 5, 2, 4), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
        ((1, 9, 9, 3), (3, 3, 3, 4), {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]}),
        (
            (1, 7, 9, 3),
            (3, 3, 3, 4),
            {"strides": [1, 1, 2, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 3, 0, 0]},
        ),
        ((1, 5, 6, 4), (1, 1, 2, 4), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    )
):
    _c = np.random.RandomState(_k).uniform(-1, 1, _w).astype("float32")
    case(f"Conv2D/{_k}", lambda x, w=_c, a=_a: raw.Conv2D(input=x, filter=w, **a), f(*_s))
_c = np.random.RandomState(3).uniform(-1, 1, (3, 3, 3, 4)).astype("float32")
case(
    "Conv2D/open",
    lambda x, w=_c: raw.Conv2D(input=x, filter=w, strides=[1, 2, 2, 1], padding="SAME"),
    f(2, 7, 8, 3, open_shape=[None, None, None, 3]),
)
case(
    "Conv2D/open batch",
    lambda x, w=_c: raw.Conv2D(input=x, filter=w, strides=[1, 2, 2, 1], padding="SAME"),
    f(2, 7, 8, 3, open_shape=[None, 7, 8, 3]),
)
case(
    "Conv2D/computed",
    lambda x, w: raw.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME"),
    f(1, 5, 6, 3),
    f(3, 3, 3, 2),
)
for _k, (_w, _a) in enumerate(
    (
        ((3, 3, 3, 1), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
        ((3, 2, 3, 2), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
    )
):
    _c = np.random.RandomState(_k).uniform(-1, 1, _w).astype("float32")
    case(
        f"DepthwiseConv2dNative/{_k}",
        lambda x, w=_c, a=_a: raw.DepthwiseConv2dNative(input=x, filter=w, **a),
        f(1, 7, 9, 3),
    )
for _k, (_o, _w, _x, _a) in enumerate(
    (
        ([1, 8, 9, 4], (3, 3, 4, 3), (1, 4, 5, 3), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
        ([1, 9, 11, 4], (3, 3, 4, 3), (1, 4, 5, 3), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
        ([1, 4, 5, 4], (2, 3, 4, 3), (1, 4, 5, 3), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    )
):
    _c = np.random.RandomState(_k).uniform(-1, 1, _w).astype("float32")
    case(
        f"Conv2DBackpropInput/{_k}",
        lambda x, o=_o, w=_c, a=_a: raw.Conv2DBackpropInput(input_sizes=o, filter=w, out_backprop=x, **a),
        f(*_x),
    )
_c = np.random.RandomState(4).uniform(-1, 1, (2, 3, 3, 2, 4)).astype("float32")
case("Conv3D", lambda x, w=_c: raw.Conv3D(input=x, filter=w, strides=[1, 1, 2, 2, 1], padding="SAME"), f(1, 4, 5, 6, 2))
case(
    "Conv3D/valid",
    lambda x, w=_c: raw.Conv3D(input=x, filter=w, strides=[1, 1, 1, 1, 1], padding="VALID"),
    f(1, 4, 5, 6, 2),
)
case(
    "Conv3DBackpropInputV2",
    lambda x, w=_c: raw.Conv3DBackpropInputV2(
        input_sizes=[1, 4, 6, 6, 2], filter=w, out_backprop=x, strides=[1, 2, 2, 2, 1], padding="SAME"
    ),
    f(1, 2, 3, 3, 4),
)
_c = np.random.RandomState(5).uniform(-1, 1, (3, 2, 3)).astype("float32")
case(
    "Dilation2D",
    lambda x, w=_c: raw.Dilation2D(input=x, filter=w, strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="SAME"),
    f(1, 7, 8, 3),
)
for _n in ("MaxPool", "AvgPool"):
    for _p in ("SAME", "VALID"):
        case(
            f"{_n}/{_p}",
            lambda x, n=_n, p=_p: getattr(raw, n)(
                **{"input" if n == "MaxPool" else "value": x}, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding=p
            ),
            f(2, 7, 8, 3),
        )
        case(
            f"{_n}3D/{_p}",
            lambda x, n=_n, p=_p: getattr(raw, f"{n}3D")(
                input=x, ksize=[1, 2, 3, 2, 1], strides=[1, 1, 2, 2, 1], padding=p
            ),
            f(1, 3, 5, 6, 2),
        )
case(
    "MaxPoolV2",
    lambda x: raw.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"),
    f(1, 4, 5, 3),
)
case(
    "MaxPool/open",
    lambda x: raw.MaxPool(input=x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME"),
    f(1, 7, 8, 3, open_shape=[None, None, None, 3]),
)

# -- images -----------------------------------------------------------------------------------------------------------

for _n in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
    for _k, _a in enumerate(({}, {"align_corners": True}, {"half_pixel_centers": True})):
        for _o in ([9, 4], [3, 11]):
            case(
                f"{_n}/{_k} {_o[0]}", lambda x, n=_n, a=_a, o=_o: getattr(raw, n)(images=x, size=o, **a), f(2, 5, 6, 3)
            )
case("ResizeBilinear/int", lambda x: raw.ResizeBilinear(images=x, size=[7, 3]), i(1, 4, 5, 2))
for _m in ("bilinear", "nearest"):
    case(
        f"CropAndResize/{_m}",
        lambda x, m=_m: raw.CropAndResize(
            image=x,
            boxes=[[0.1, 0.2, 0.8, 0.9], [-0.2, 0.0, 1.3, 0.5], [0.9, 0.1, 0.2, 0.7]],
            box_ind=[1, 0, 1],
            crop_size=[4, 3],
            method=m,
            extrapolation_value=7.0,
        ),
        f(2, 6, 5, 3),
    )
_boxes = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]], "float32"
)
case(
    "NonMaxSuppressionV2",
    lambda s: raw.NonMaxSuppressionV2(boxes=_boxes, scores=s, max_output_size=4, iou_threshold=0.5),
    f(6, low=0, high=1),
)
case(
    "NonMaxSuppressionV3",
    lambda s: raw.NonMaxSuppressionV3(
        boxes=_boxes, scores=s, max_output_size=4, iou_threshold=0.5, score_threshold=0.4
    ),
    f(6, low=0, high=1),
)
case(
    "NonMaxSuppressionV4",
    lambda s: raw.NonMaxSuppressionV4(
        boxes=_boxes, scores=s, max_output_size=5, iou_threshold=0.5, score_threshold=0.4, pad_to_max_output_size=True
    ),
    f(6, low=0, high=1),
)
for _k, (_sigma, _pad) in enumerate(((0.3, False), (0.1, True), (0.0, False), (0.0, True))):
    case(
        f"NonMaxSuppressionV5/{_k}",
        lambda s, g=_sigma, p=_pad: raw.NonMaxSuppressionV5(
            boxes=_boxes,
            scores=s,
            max_output_size=5,
            iou_threshold=0.5,
            score_threshold=0.2,
            soft_nms_sigma=g,
            pad_to_max_output_size=p,
        ),
        f(6, low=0, high=1),
    )
