"""Cases of layers: windows, normalizations, images, recurrent and quantized ones, boxes, control flow."""

from __future__ import annotations

import numpy as np
from paddle_case import BOOL, CASES, F32, I32, I64, Case, case, real, whole
from paddle_writer import Block, Longs

from tvm.relay.frontend.paddlepaddle.schema import TENSOR_ARRAY


def _windows() -> None:
    x, w = real("cx", 1, 4, 7, 6), real("cw", 6, 4, 3, 2)
    plain = {"strides": [2, 1], "paddings": [1, 0], "dilations": [1, 2], "groups": 1}
    case("conv2d", {"Input": x, "Filter": w}, plain, out="Output", weights=("Filter",))
    case(
        "conv2d/four paddings",
        {"Input": x, "Filter": w},
        {**plain, "paddings": [1, 0, 2, 1]},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d/same",
        {"Input": x, "Filter": w},
        {**plain, "strides": [2, 3], "dilations": [1, 1], "padding_algorithm": "SAME"},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d/same open",
        {"Input": x, "Filter": w},
        {**plain, "strides": [2, 3], "dilations": [1, 1], "padding_algorithm": "SAME"},
        out="Output",
        weights=("Filter",),
        opened={"Input": [2, 3]},
    )
    case(
        "conv2d/valid",
        {"Input": x, "Filter": w},
        {**plain, "padding_algorithm": "VALID"},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d/groups",
        {"Input": x, "Filter": real("cg", 6, 2, 3, 2)},
        {**plain, "groups": 2},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d/last",
        {"Input": real("cl", 1, 7, 6, 4), "Filter": w},
        {**plain, "data_format": "NHWC"},
        out="Output",
        weights=("Filter",),
    )
    case(
        "depthwise_conv2d",
        {"Input": x, "Filter": real("cd", 4, 1, 3, 3)},
        {**plain, "groups": 4},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv3d",
        {"Input": real("c3", 1, 2, 4, 5, 4), "Filter": real("w3", 3, 2, 2, 3, 2)},
        {"strides": [1, 2, 1], "paddings": [0, 1, 1], "dilations": [1, 1, 1]},
        out="Output",
        weights=("Filter",),
    )
    t = {"strides": [2, 3], "paddings": [1, 0], "dilations": [1, 1]}
    case(
        "conv2d_transpose",
        {"Input": real("t1", 1, 4, 3, 4), "Filter": real("t2", 4, 3, 3, 2)},
        t,
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d_transpose/padded",
        {"Input": real("t1", 1, 4, 3, 4), "Filter": real("t2", 4, 3, 3, 2)},
        {**t, "output_padding": [1, 2], "paddings": [1, 0, 0, 1]},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d_transpose/size",
        {"Input": real("t1", 1, 4, 3, 4), "Filter": real("t2", 4, 3, 3, 2)},
        {**t, "output_size": [6, 12]},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv2d_transpose/groups",
        {"Input": real("t1", 1, 4, 3, 4), "Filter": real("t3", 4, 3, 3, 2)},
        {**t, "groups": 2, "dilations": [2, 1]},
        out="Output",
        weights=("Filter",),
    )
    case(
        "depthwise_conv2d_transpose",
        {"Input": real("t1", 1, 4, 3, 4), "Filter": real("t4", 4, 1, 3, 2)},
        {**t, "groups": 4},
        out="Output",
        weights=("Filter",),
    )
    case(
        "conv3d_transpose",
        {"Input": real("t5", 1, 2, 3, 2, 3), "Filter": real("t6", 2, 3, 2, 3, 2)},
        {"strides": [2, 1, 2], "paddings": [0, 1, 0], "dilations": [1, 1, 1]},
        out="Output",
        weights=("Filter",),
    )
    case(
        "deformable_conv",
        {
            "Input": real("dx", 1, 4, 5, 6),
            "Offset": real("do", 1, 18, 5, 6),
            "Filter": real("dw", 6, 2, 3, 3),
            "Mask": real("dm", 1, 9, 5, 6, low=0),
        },
        {
            "strides": [1, 1],
            "paddings": [1, 1],
            "dilations": [1, 1],
            "groups": 2,
            "deformable_groups": 1,
            "im2col_step": 1,
        },
        out="Output",
        weights=("Filter",),
    )
    case(
        "deformable_conv_v1",
        {"Input": real("dx", 1, 4, 5, 6), "Offset": real("do", 1, 18, 5, 6), "Filter": real("dv", 3, 4, 3, 3)},
        {
            "strides": [1, 1],
            "paddings": [1, 1],
            "dilations": [1, 1],
            "groups": 1,
            "deformable_groups": 1,
            "im2col_step": 1,
        },
        out="Output",
        weights=("Filter",),
    )
    p = real("pool", 1, 3, 7, 8)
    for kind in ("max", "avg"):
        base = {"pooling_type": kind, "ksize": [3, 2], "strides": [2, 3], "paddings": [1, 0]}
        case(f"pool2d/{kind}", {"X": p}, base)
        case(f"pool2d/{kind} ceil", {"X": p}, {**base, "ceil_mode": True})
        case(f"pool2d/{kind} open", {"X": p}, {**base, "ceil_mode": True}, opened={"X": [2, 3]})
        case(f"pool2d/{kind} four paddings", {"X": p}, {**base, "paddings": [1, 0, 0, 1]})
        case(f"pool2d/{kind} same", {"X": p}, {**base, "padding_algorithm": "SAME"})
        case(f"pool2d/{kind} global", {"X": p}, {**base, "global_pooling": True}, opened={"X": [2, 3]})
        case(
            f"pool3d/{kind}",
            {"X": real("p3", 1, 2, 4, 5, 6)},
            {"pooling_type": kind, "ksize": [2, 3, 2], "strides": [2, 1, 2], "paddings": [0, 1, 1]},
        )
    case("pool2d/avg adaptive", {"X": p}, {"pooling_type": "avg", "ksize": [3, 5], "adaptive": True})
    case(
        "pool2d/avg inclusive",
        {"X": p},
        {"pooling_type": "avg", "ksize": [3, 2], "strides": [2, 3], "paddings": [1, 1], "exclusive": False},
    )
    case(
        "pool2d/last",
        {"X": real("pl", 1, 7, 8, 3)},
        {"pooling_type": "max", "ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0], "data_format": "NHWC"},
    )
    case("max_pool2d_with_index", {"X": p}, {"ksize": [3, 2], "strides": [2, 3], "paddings": [1, 0]}, out="Out Mask")
    case("max_pool2d_with_index/adaptive", {"X": p}, {"ksize": [3, 5], "adaptive": True}, out="Out Mask")
    case(
        "max_pool3d_with_index",
        {"X": real("p3", 1, 2, 4, 5, 6)},
        {"ksize": [2, 2, 3], "strides": [2, 2, 2], "paddings": [0, 0, 1]},
        out="Out Mask",
    )


def _norms() -> None:
    x = real("norm", 2, 4, 3, 5)
    stats = {"Scale": real("ns", 4), "Bias": real("nb", 4), "Mean": real("nm", 4), "Variance": real("nv", 4, low=0.5)}
    case("batch_norm", {"X": x, **stats}, {"epsilon": 1e-3, "is_test": True}, out="Y", weights=tuple(stats))
    case(
        "batch_norm/last",
        {"X": real("nl", 2, 3, 5, 4), **stats},
        {"is_test": True, "data_layout": "NHWC"},
        out="Y",
        weights=tuple(stats),
    )
    case(
        "batch_norm/matrix",
        {"X": real("n2", 3, 4), **stats},
        {"is_test": True, "use_global_stats": True},
        out="Y",
        weights=tuple(stats),
    )
    case(
        "layer_norm",
        {"X": x, "Scale": real("ls", 15), "Bias": real("lb", 15)},
        {"begin_norm_axis": 2, "epsilon": 1e-3},
        out="Y Mean Variance",
        weights=("Scale", "Bias"),
    )
    case("layer_norm/plain", {"X": x}, {"begin_norm_axis": 3}, out="Y")
    channels = {"Scale": stats["Scale"], "Bias": stats["Bias"]}
    case(
        "group_norm",
        {"X": x, **channels},
        {"groups": 2, "epsilon": 1e-3},
        out="Y Mean Variance",
        weights=tuple(channels),
    )
    case(
        "group_norm/open",
        {"X": x, **channels},
        {"groups": 2},
        out="Y",
        weights=tuple(channels),
        opened={"X": [0, 2, 3]},
    )
    case(
        "group_norm/last",
        {"X": real("nl", 2, 3, 5, 4), **channels},
        {"groups": 2, "data_layout": "NHWC"},
        out="Y",
        weights=tuple(channels),
    )
    case("instance_norm", {"X": x, **channels}, {"epsilon": 1e-3}, out="Y", weights=tuple(channels))
    case("lrn", {"X": x}, {"n": 3, "k": 1.5, "alpha": 0.02, "beta": 0.6}, out="Out MidOut")
    case("affine_channel", {"X": x, **channels}, {"data_layout": "NCHW"}, weights=tuple(channels))
    case(
        "spectral_norm",
        {"Weight": real("sw", 4, 3, 2), "U": real("su", 4), "V": real("sv", 6)},
        {"dim": 0, "power_iters": 2, "eps": 1e-12},
        weights=("Weight", "U", "V"),
    )


def _images() -> None:
    x = real("img", 1, 2, 5, 6)
    kinds = {
        "nearest": (x, 2),
        "bilinear": (x, 2),
        "bicubic": (x, 2),
        "linear": (real("l1", 1, 2, 7), 1),
        "trilinear": (real("l3", 1, 2, 3, 4, 3), 3),
    }
    for kind, (data, n) in kinds.items():
        sizes = dict(zip(("out_d", "out_h", "out_w")[3 - n :], (4, 7, 9)[3 - n :]))
        base = {"interp_method": kind, **sizes}
        for corners, mode in ((True, 1), (False, 0), (False, 1)):
            if kind not in ("nearest", "bicubic") or mode or corners:
                case(
                    f"{kind}_interp_v2/corners {int(corners)} mode {mode}",
                    {"X": data},
                    {**base, "align_corners": corners, "align_mode": mode},
                )
        case(
            f"{kind}_interp_v2/scale",
            {"X": data},
            {"interp_method": kind, "align_mode": 0, "scale": [1.7] * n, "align_corners": False},
        )
    for kind in ("nearest", "bilinear"):
        case(
            f"{kind}_interp",
            {"X": x},
            {"interp_method": kind, "out_h": 8, "out_w": 3, "align_corners": False, "align_mode": 0},
        )
        case(
            f"{kind}_interp/scale",
            {"X": x},
            {"interp_method": kind, "scale": 2.3, "align_corners": False, "align_mode": 1},
        )
        case(
            f"{kind}_interp_v2/open",
            {"X": x},
            {"interp_method": kind, "scale": [2.0, 2.0], "align_corners": False, "align_mode": 0},
            opened={"X": [2, 3]},
        )
        case(
            f"{kind}_interp_v2/size tensors",
            {"X": x, "SizeTensor": [np.array([7], "int32"), np.array([4], "int32")]},
            {"interp_method": kind, "align_corners": True},
        )
        case(
            f"{kind}_interp_v2/last",
            {"X": real("il", 1, 5, 6, 2)},
            {"interp_method": kind, "out_h": 8, "out_w": 3, "align_corners": True, "data_layout": "NHWC"},
        )
    case(
        "nearest_interp_v2/out size",
        {"X": x, "OutSize": np.array([3, 11], "int32")},
        {"interp_method": "nearest", "align_corners": False},
        weights=("OutSize",),
    )
    grid = real("grid", 1, 4, 3, 2, low=-1.3, high=1.3)
    for mode in ("bilinear", "nearest"):
        for rule in ("zeros", "border", "reflection"):
            for corners in (True, False):
                case(
                    f"grid_sampler/{mode} {rule} {int(corners)}",
                    {"X": x, "Grid": grid},
                    {"mode": mode, "padding_mode": rule, "align_corners": corners},
                    out="Output",
                )
    for corners in (True, False):
        case(
            f"affine_grid/{int(corners)}",
            {"Theta": real("theta", 2, 2, 3)},
            {"output_shape": [2, 3, 4, 5], "align_corners": corners},
            out="Output",
        )
    rois = np.array([[0, 0, 3, 4], [1, 0.5, 4.5, 3], [0.2, 0.3, 2, 2.5]], "float32")
    two = real("roi", 2, 3, 6, 7)
    for aligned in (False, True):
        case(
            f"roi_align/{int(aligned)}",
            {"X": two, "ROIs": rois, "RoisNum": np.array([2, 1], "int32")},
            {"pooled_height": 2, "pooled_width": 3, "spatial_scale": 0.8, "sampling_ratio": 2, "aligned": aligned},
        )
    case(
        "roi_align/adaptive",
        {"X": two, "ROIs": rois, "RoisNum": np.array([1, 2], "int32")},
        {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0, "sampling_ratio": -1},
    )
    case(
        "roi_pool",
        {"X": two, "ROIs": np.round(rois), "RoisNum": np.array([2, 1], "int32")},
        {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0},
    )


def _quantized() -> None:
    x = real("q", 3, 4, low=-3, high=3)
    half = np.array([[0.5, 1.5, -2.5, 130.0], [-0.5, -130.0, 126.5, 3.2]], "float32")
    scales = np.array([1.5, 2.0, 0.7], "float32")
    for kind in (0, 1):
        case(
            f"quantize_linear/{kind}",
            {"X": half, "Scale": np.array([127.0], "float32"), "ZeroPoint": np.zeros(1, "float32")},
            {"round_type": kind, "quant_axis": -1},
            out="Y",
            weights=("Scale", "ZeroPoint"),
        )
    case(
        "quantize_linear/channels",
        {"X": x, "Scale": scales, "ZeroPoint": np.zeros(3, "float32")},
        {"quant_axis": 0},
        out="Y",
        weights=("Scale", "ZeroPoint"),
    )
    case(
        "dequantize_linear",
        {
            "X": whole("dq", 3, 4, low=-128, high=128, dtype="int8"),
            "Scale": scales,
            "ZeroPoint": np.zeros(3, "float32"),
        },
        {"quant_axis": 0},
        out="Y",
        weights=("X", "Scale", "ZeroPoint"),
    )
    case(
        "dequantize_linear/real",
        {"X": np.round(x * 40), "Scale": np.array([1.3], "float32"), "ZeroPoint": np.zeros(1, "float32")},
        {"quant_axis": -1},
        out="Y",
        weights=("Scale", "ZeroPoint"),
    )
    for name in (
        "fake_quantize_abs_max",
        "fake_quantize_dequantize_abs_max",
        "fake_channel_wise_quantize_abs_max",
        "fake_channel_wise_quantize_dequantize_abs_max",
    ):
        for kind in (0, 1):
            case(f"{name}/{kind}", {"X": x}, {"round_type": kind}, out="Out OutScale")
    case("fake_channel_wise_quantize_abs_max/axis", {"X": x}, {"quant_axis": 1}, out="Out OutScale")
    for name in (
        "fake_quantize_moving_average_abs_max",
        "fake_quantize_dequantize_moving_average_abs_max",
        "fake_quantize_range_abs_max",
    ):
        case(
            name,
            {"X": x, "InScale": np.array([2.1], "float32")},
            {"is_test": True, "bit_length": 5},
            weights=("InScale",),
        )
    case(
        "fake_dequantize_max_abs",
        {"X": x, "Scale": np.array([0.4], "float32")},
        {"max_range": 127.0},
        weights=("Scale",),
    )
    case(
        "fake_channel_wise_dequantize_max_abs",
        {"X": x, "Scales": [scales]},
        {"quant_bits": [8], "quant_axis": 0},
        weights=("Scales",),
    )
    case(
        "fake_channel_wise_dequantize_max_abs/two",
        {"X": real("q2", 2, 3, 4), "Scales": [scales, np.array([0.9], "float32")]},
        {"quant_bits": [8, 8], "quant_axis": 0, "x_num_col_dims": 1},
        weights=("Scales",),
    )
    case("moving_average_abs_max_scale", {"X": x}, {"is_test": True})


def _recurrent() -> None:
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN_TANH", 1), ("RNN_RELU", 1)):
        for layers, directions, extra in ((1, 1, ""), (2, 2, ""), (1, 2, "lengths"), (1, 2, "open")):
            if extra and kind.startswith("RNN"):
                continue
            n, hidden, features = 2, 3, 4
            weights, biases = [], []
            for layer in range(layers):
                width = features if layer == 0 else hidden * directions
                for d in range(directions):
                    key = f"{kind}{layer}{d}"
                    weights += [
                        real(f"{key}w", gates * hidden, width, low=-1, high=1),
                        real(f"{key}o", gates * hidden, hidden, low=-1, high=1),
                    ]
                    biases += [real(f"{key}b{k}", gates * hidden, low=-1, high=1) for k in (0, 1)]
            states = [
                real(f"{kind}s{k}", layers * directions, n, hidden, low=-1, high=1) for k in range(1 + (kind == "LSTM"))
            ]
            inputs = {"Input": real(kind, 4, n, features), "PreState": states, "WeightList": weights + biases}
            if extra == "lengths":
                inputs["SequenceLength"] = np.array([4, 2], "int32")
            attrs = {
                "mode": kind,
                "num_layers": layers,
                "is_bidirec": directions == 2,
                "input_size": features,
                "hidden_size": hidden,
                "is_test": True,
            }
            case(
                f"rnn/{kind} {layers} {directions} {extra}".strip(),
                inputs,
                attrs,
                out=f"Out State*{len(states)}",
                weights=("WeightList",),
                opened={"Input": [0]} if extra == "open" else None,
            )


def _detection() -> None:
    sizes = np.array([[320, 416], [200, 100]], "int32")
    base = {"anchors": [10, 13, 16, 30], "class_num": 3, "conf_thresh": 0.4, "downsample_ratio": 32}
    case("yolo_box", {"X": real("yolo", 2, 16, 3, 4), "ImgSize": sizes}, base, out="Boxes Scores")
    case(
        "yolo_box/free",
        {"X": real("yolo", 2, 16, 3, 4), "ImgSize": sizes},
        {**base, "clip_bbox": False, "scale_x_y": 1.2},
        out="Boxes Scores",
    )
    case(
        "yolo_box/aware",
        {"X": real("yolo2", 2, 18, 3, 4), "ImgSize": sizes},
        {**base, "iou_aware": True, "iou_aware_factor": 0.4},
        out="Boxes Scores",
    )
    maps = {"Input": real("pb", 1, 2, 3, 4), "Image": real("pi", 1, 3, 30, 50)}
    prior = {
        "min_sizes": [4.0, 9.0],
        "max_sizes": [8.0, 15.0],
        "aspect_ratios": [2.0, 3.0],
        "flip": True,
        "clip": True,
        "variances": [0.1, 0.1, 0.2, 0.3],
    }
    case("prior_box", maps, prior, out="Boxes Variances")
    case(
        "prior_box/ordered",
        maps,
        {**prior, "min_max_aspect_ratios_order": True, "clip": False, "step_w": 11.0, "step_h": 9.0, "offset": 0.4},
        out="Boxes Variances",
    )
    case(
        "anchor_generator",
        {"Input": real("ag", 1, 2, 3, 4)},
        {
            "anchor_sizes": [32.0, 64.0],
            "aspect_ratios": [0.5, 1.0, 2.0],
            "variances": [0.1, 0.1, 0.2, 0.2],
            "stride": [16.0, 16.0],
            "offset": 0.5,
        },
        out="Anchors Variances",
    )
    corner = real("bc", 5, 2, low=0, high=5)
    prior_boxes = np.concatenate([corner, corner + real("bd", 5, 2, low=1, high=4)], 1)
    spread = real("bv", 5, 4, low=0.1, high=0.4)
    other = real("be", 3, 2, low=0, high=5)
    targets = np.concatenate([other, other + real("bf", 3, 2, low=1, high=4)], 1)
    case(
        "box_coder/decode",
        {"PriorBox": prior_boxes, "PriorBoxVar": spread, "TargetBox": real("bt", 3, 5, 4)},
        {"code_type": "decode_center_size", "box_normalized": True, "axis": 0},
        out="OutputBox",
    )
    case(
        "box_coder/decode rows",
        {"PriorBox": prior_boxes, "TargetBox": real("bu", 5, 3, 4)},
        {"code_type": "decode_center_size", "box_normalized": False, "axis": 1, "variance": [0.1, 0.1, 0.2, 0.2]},
        out="OutputBox",
    )
    case(
        "box_coder/encode",
        {"PriorBox": prior_boxes, "PriorBoxVar": spread, "TargetBox": targets},
        {"code_type": "encode_center_size", "box_normalized": False},
        out="OutputBox",
    )
    low = real("nb", 2, 9, 2, low=0, high=6)
    boxes = np.concatenate([low, low + real("nc", 2, 9, 2, low=2, high=5)], 2)
    scores = real("ns", 2, 4, 9, low=0, high=1)
    nms = {"score_threshold": 0.3, "nms_top_k": 6, "keep_top_k": 7, "nms_threshold": 0.4, "background_label": 0}
    case("multiclass_nms3", {"BBoxes": boxes, "Scores": scores}, nms, out="Out Index NmsRoisNum")
    case(
        "multiclass_nms3/all",
        {"BBoxes": boxes[:1], "Scores": scores[:1]},
        {**nms, "nms_top_k": -1, "keep_top_k": -1, "background_label": -1, "normalized": False},
        out="Out Index NmsRoisNum",
    )


def _filled(name: str, value: float, dtype: int) -> tuple:
    return ("fill_constant", {}, {"Out": name}, {"shape": Longs([1]), "dtype": dtype, "value": value})


def _branch(name: str, known: bool) -> None:
    """x * 2 where a number is positive, otherwise x + 1; a variable that has a value changes in one branch only."""
    rows = [
        _filled("zero", 0.0, F32),
        ("greater_than", {"X": "n", "Y": "zero"}, {"Out": "yes"}, {}),
        ("logical_not", {"X": "yes"}, {"Out": "no"}, {}),
        ("scale", {"X": "x"}, {"Out": "kept"}, {"scale": 5.0}),
    ]
    for block, condition, out in ((1, "yes", ["a", "kept"]), (2, "no", ["b"])):
        rows.append(
            (
                "conditional_block",
                {"Cond": condition, "Input": ["x"]},
                {"Out": out, "Scope": f"scope{block}"},
                {"sub_block": Block(block), "is_scalar_condition": True},
            )
        )
    rows += [
        ("cast", {"X": "yes"}, {"Out": "mask"}, {"in_dtype": BOOL, "out_dtype": I32}),
        ("select_input", {"X": ["b", "a"], "Mask": "mask"}, {"Out": "y"}, {}),
    ]
    blocks = [
        [("scale", {"X": "x"}, {"Out": "a"}, {"scale": 2.0}), ("assign", {"X": "a"}, {"Out": "kept"}, {})],
        [("scale", {"X": "x"}, {"Out": "b"}, {"bias": 1.0})],
    ]
    for sign in (1.0, -1.0):
        n = {"n": np.array([sign], "float32")}
        CASES[f"{name} {sign:g}"] = Case(
            rows,
            {"x": real("branch", 3), **({} if known else n)},
            ["y", "kept"],
            n if known else {},
            blocks,
            {"scope1": 11, "scope2": 11},
        )


def _loop(name: str, known: bool, arrays: bool) -> None:
    """x doubled n times; an array takes what each step made."""
    rows = [
        _filled("i", 0.0, I64),
        ("less_than", {"X": "i", "Y": "n"}, {"Out": "going"}, {}),
        ("scale", {"X": "x"}, {"Out": "y"}, {"scale": 1.0}),
    ]
    body = [
        ("elementwise_add", {"X": "y", "Y": "y"}, {"Out": "twice"}, {}),
        ("assign", {"X": "twice"}, {"Out": "y"}, {}),
        ("elementwise_add", {"X": "y", "Y": "w"}, {"Out": "y"}, {}),
        ("increment", {"X": "i"}, {"Out": "i"}, {"step": 1.0}),
        ("less_than", {"X": "i", "Y": "n"}, {"Out": "going"}, {}),
    ]
    out, fetches = ["i", "going", "y"], ["y", "i"]
    if arrays:
        body.insert(3, ("write_to_array", {"X": "y", "I": "i"}, {"Out": "list"}, {}))
        rows.append(("write_to_array", {"X": "x", "I": "i"}, {"Out": "list"}, {}))
        out, fetches = [*out, "list"], ["all", "length", "second"]
    rows.append(
        (
            "while",
            {"X": ["x", "n", "w", *out], "Condition": "going"},
            {"Out": out, "StepScopes": "steps"},
            {"sub_block": Block(1), "is_test": True},
        )
    )
    if arrays:
        rows += [
            (
                "tensor_array_to_tensor",
                {"X": "list"},
                {"Out": "all", "OutIndex": "sizes"},
                {"axis": 0, "use_stack": True},
            ),
            ("lod_array_length", {"X": "list"}, {"Out": "length"}, {}),
            _filled("one", 1.0, I64),
            ("read_from_array", {"X": "list", "I": "one"}, {"Out": "second"}, {}),
        ]
    n = {"n": np.array([3], "int64")}
    CASES[name] = Case(
        rows,
        {"x": real("loop", 2, 3), "w": real("lw", 3), **({} if known else n)},
        fetches,
        n if known else {},
        [body],
        {"steps": 11, "list": TENSOR_ARRAY},
    )


def _control() -> None:
    _branch("conditional_block/run", False)
    _branch("select_input/known", True)
    _loop("while/run", False, False)
    _loop("while/known", True, False)
    for name in ("write_to_array", "read_from_array/while", "lod_array_length", "tensor_array_to_tensor"):
        _loop(name, True, True)


def _sequences() -> None:
    for kind in ("sum", "average", "sqrt", "max", "first", "last"):
        case(f"sequence_pool/{kind}", {"X": real(kind, 5, 3)}, {"pooltype": kind.upper(), "is_test": True})
    case("sequence_pool/open", {"X": real("open", 4, 2, 3)}, {"pooltype": "SQRT", "is_test": True}, opened={"X": [0]})
    case("sequence_softmax", {"X": real("ss", 6, 1)})
    case(
        "sequence_conv",
        {"X": real("sx", 5, 3), "Filter": real("sf", 9, 4)},
        {"contextLength": 3, "contextStart": -1, "contextStride": 1, "paddingTrainable": False},
        weights=("Filter",),
    )
    case(
        "sequence_conv/before",
        {"X": real("sb", 5, 3), "Filter": real("sg", 6, 2)},
        {"contextLength": 2, "contextStart": -1, "contextStride": 1, "paddingTrainable": False},
        weights=("Filter",),
    )
    case("sequence_expand", {"X": real("se", 1, 3), "Y": real("sy", 4, 2)}, {"ref_level": 0})
    for name, made in CASES.items():
        if name.startswith(("sequence_pool", "sequence_softmax", "sequence_conv", "sequence_expand")):
            made.one_sequence = ("Y_0",) if "expand" in name else ("X_0",)


for _family in (_windows, _norms, _images, _quantized, _recurrent, _detection, _control, _sequences):
    _family()
