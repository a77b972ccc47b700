"""Cases of operators on tensors: elements, shapes, indices, reductions, products."""

from __future__ import annotations

import numpy as np
from paddle_case import F32, I32, I64, case, real, whole
from paddle_writer import Longs, Scalars

from tvm.relay.frontend.paddlepaddle.schema import NUMBERS


def _elementwise() -> None:
    x = real("x", 3, 5)
    special = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e30, -1e30, 3.0], "float32")
    for name in (
        "exp sin cos tan atan sinh cosh asinh erf sign trunc tanh sigmoid abs ceil floor square expm1 "
        "softsign silu tanh_shrink logsigmoid relu gelu"
    ).split():
        case(name, {"X": real(name, 3, 5, low=-3, high=3)})
    for name in "log log2 log10 log1p sqrt rsqrt reciprocal".split():
        case(name, {"X": real(name, 3, 5, low=0.1, high=9)})
    for name in "asin acos atanh".split():
        case(name, {"X": real(name, 7, low=-0.9, high=0.9)})
    case("acosh", {"X": real("acosh", 7, low=1.1, high=9)})
    case("round", {"X": special})
    case("abs/integers", {"X": whole("abs", 3, 4, low=-5, dtype="int32")})
    case("square/integers", {"X": whole("sq", 3, 4, low=-5, dtype="int32")})
    two = {
        "elementwise_add": "i",
        "elementwise_sub": "i",
        "elementwise_mul": "i",
        "elementwise_max": "i",
        "elementwise_min": "i",
        "elementwise_div": "",
        "elementwise_pow": "",
        "elementwise_mod": "i",
        "elementwise_floordiv": "i",
        "equal": "i",
        "not_equal": "i",
        "less_than": "i",
        "less_equal": "i",
        "greater_than": "i",
        "greater_equal": "i",
        "elementwise_fmax": "i",
        "elementwise_fmin": "i",
    }
    for name, kinds in two.items():
        case(name, {"X": real(f"{name}x", 2, 3, 4, low=0.5), "Y": real(f"{name}y", 3, 4, low=0.5)})
        if kinds:
            y = whole(f"{name}iy", 2, 3, low=1, high=4) * np.array([1, -1, 1])
            case(f"{name}/integers", {"X": whole(f"{name}ix", 2, 3, low=-6, high=7), "Y": y})
    for name in ("elementwise_add", "elementwise_mul"):
        case(f"{name}/axis", {"X": real(f"{name}a", 2, 3, 4), "Y": real(f"{name}b", 3)}, {"axis": 1})
        case(f"{name}/first axis", {"X": real(f"{name}a", 2, 3, 4), "Y": real(f"{name}c", 2, 3)}, {"axis": 0})
        case(f"{name}/trailing ones", {"X": real(f"{name}a", 2, 3, 4), "Y": real(f"{name}d", 3, 1)}, {"axis": 1})
        case(f"{name}/smaller left", {"X": real(f"{name}e", 4), "Y": real(f"{name}f", 2, 3, 4)})
    case(
        "elementwise_div/integers",
        {"X": whole("dx", 9, low=-8, high=9, dtype="int32"), "Y": np.array([2, -3, 4, 5, -2, 3, 7, -1, 2], "int32")},
    )
    case("elementwise_heaviside", {"X": np.array([-1.5, 0.0, 2.0], "float32"), "Y": np.array([5, 6, 7], "float32")})
    case(
        "elementwise_fmax/nan",
        {"X": np.array([np.nan, 1, np.nan], "float32"), "Y": np.array([2, np.nan, np.nan], "float32")},
    )
    for name in ("logical_and", "logical_or", "logical_xor"):
        case(name, {"X": whole(f"{name}x", 4, 3, high=2) > 0, "Y": whole(f"{name}y", 3, high=2) > 0})
    case("logical_not", {"X": whole("ln", 4, 3, high=2) > 0})
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        case(name, {"X": whole(f"{name}x", 4, low=-90, high=90), "Y": whole(f"{name}y", 4, low=-90, high=90)})
    case("bitwise_not", {"X": whole("bn", 4, low=-90, high=90)})
    odd = np.array([1.0, np.nan, np.inf, -np.inf], "float32")
    for name in ("isnan_v2", "isinf_v2", "isfinite_v2"):
        case(name, {"X": odd})
    case("pow", {"X": real("pow", 4, low=0.2)}, {"factor": 2.7})
    case("pow/squared", {"X": real("pow2", 4)}, {"factor": 2.0})
    case("scale", {"X": x}, {"scale": 1.7, "bias": -0.3})
    case("scale/before", {"X": x}, {"scale": 1.7, "bias": -0.3, "bias_after_scale": False})
    case("scale/integers", {"X": whole("scale", 4)}, {"scale": 3.0, "bias": 2.0})
    case("scale/tensor", {"X": x, "ScaleTensor": np.array([2.5], "float32")}, {"bias": 0.5})
    case("clip", {"X": x}, {"min": -0.7, "max": 0.9})
    case(
        "clip/tensors",
        {"X": x, "Min": np.array([-0.2], "float32"), "Max": np.array([0.4], "float32")},
        {"min": 0.0, "max": 0.0},
    )
    case("clip/integers", {"X": whole("clip", 6, low=-9, high=9)}, {"min": -2.0, "max": 5.0})
    for to in ("int32", "int64", "bool", "float64", "float32", "uint8"):
        case(f"cast/{to}", {"X": real(f"cast{to}", 5, low=0, high=9)}, {"in_dtype": F32, "out_dtype": NUMBERS[to]})
    case("sum", {"X": [real("s1", 3), real("s2", 3), real("s3", 3)]})
    case("where", {"Condition": whole("wc", 3, 4, high=2) > 0, "X": real("wx", 3, 4), "Y": real("wy", 3, 4)})
    case("assign", {"X": x})
    case("increment", {"X": np.array([3], "int64")}, {"step": 2.0})
    case("dropout", {"X": x}, {"dropout_prob": 0.3, "is_test": True})
    case(
        "dropout/upscale",
        {"X": x},
        {"dropout_prob": 0.3, "dropout_implementation": "upscale_in_train", "is_test": True},
    )
    case("lerp", {"X": x, "Y": real("ly", 3, 5), "Weight": real("lw", 3, 5)})
    case("label_smooth", {"X": x}, {"epsilon": 0.1})
    case("label_smooth/prior", {"X": x, "PriorDist": real("prior", 1, 5)}, {"epsilon": 0.1})
    case("equal_all", {"X": x, "Y": x})
    near = np.array([1.0, 1.00001, np.nan, 2.0], "float32")
    for name in ("isclose", "allclose"):
        case(
            name,
            {"Input": near, "Other": np.array([1.0, 1.0, np.nan, 2.1], "float32")},
            {"rtol": "1e-4", "atol": "1e-8"},
        )
    case("isclose/nan", {"Input": near, "Other": near}, {"rtol": "1e-5", "atol": "1e-8", "equal_nan": True})
    case(
        "atan2",
        {"X1": np.array([1, -1, 0, 0, 2, -3, 0.5], "float32"), "X2": np.array([1, -1, -2, 3, 0, 0, -4], "float32")},
    )
    case("logit", {"X": real("logit", 6, low=-0.1, high=1.1)}, {"eps": 0.01})
    case("share_data", {"X": x})
    case("expm1/small", {"X": np.array([1e-6, -1e-5, 20.0, -20.0, 0.0], "float32")})


def _activations() -> None:
    x = real("act", 2, 4, 5, low=-4, high=4)
    rows = {
        "relu6": {}, "leaky_relu": {"alpha": 0.13}, "elu": {"alpha": 0.7}, "celu": {"alpha": 0.6},
        "selu": {}, "gelu/approximate": {"approximate": True}, "hard_sigmoid": {"slope": 0.17, "offset": 0.4},
        "hard_swish": {}, "swish": {}, "softplus": {"beta": 1.5, "threshold": 3.0}, "mish": {},
        "softshrink": {"lambda": 0.4}, "hard_shrink": {"threshold": 0.6}, "thresholded_relu": {"threshold": 0.8},
        "stanh": {"scale_a": 0.5, "scale_b": 1.3}, "brelu": {"t_min": -1.0, "t_max": 2.0},
        "softmax": {}, "softmax/axis": {"axis": 1}, "log_softmax": {"axis": 1}, "maxout": {"groups": 2, "axis": 1},
        "thresholded_relu/value": {"threshold": 0.8, "value": -1.0},
    }  # fmt: skip
    for name, attrs in rows.items():
        case(name, {"X": x if name != "maxout" else real("maxout", 2, 6, 3, 3)}, attrs)
    case("rrelu", {"X": x}, {"lower": 0.1, "upper": 0.3, "is_test": True})
    image = real("prelu", 2, 3, 4, 5)
    case("prelu/all", {"X": image, "Alpha": np.array([0.25], "float32")}, {"mode": "all"}, weights=("Alpha",))
    case("prelu/channel", {"X": image, "Alpha": real("pa", 3)}, {"mode": "channel"}, weights=("Alpha",))
    case("prelu/element", {"X": image, "Alpha": real("pe", 1, 3, 4, 5)}, {"mode": "element"}, weights=("Alpha",))
    case(
        "prelu/last",
        {"X": real("pl", 2, 4, 5, 3), "Alpha": real("pa", 3)},
        {"mode": "channel", "data_format": "NHWC"},
        weights=("Alpha",),
    )


def _shapes() -> None:
    x = real("shape", 2, 3, 4)
    case("reshape2", {"X": x}, {"shape": [0, -1, 2]})
    case("reshape2/open", {"X": x}, {"shape": [-1, 12]}, opened={"X": [0]})
    case("reshape2/tensor", {"X": x, "Shape": np.array([4, -1], "int32")}, weights=("Shape",))
    case(
        "reshape2/tensors",
        {"X": x, "ShapeTensor": [np.array([6], "int32"), np.array([4], "int32")]},
        {"shape": [-1, 4]},
    )
    case("transpose2", {"X": x}, {"axis": [2, 0, 1]})
    case("flatten_contiguous_range", {"X": real("fl", 2, 3, 4, 5)}, {"start_axis": 1, "stop_axis": 2})
    case(
        "flatten_contiguous_range/open",
        {"X": real("fl", 2, 3, 4, 5)},
        {"start_axis": 1, "stop_axis": -1},
        opened={"X": [0, 2, 3]},
    )
    case("flatten2", {"X": real("fl", 2, 3, 4, 5)}, {"axis": 2})
    case("squeeze2", {"X": real("sq", 1, 3, 1, 2)}, {"axes": [0, -2]})
    case("squeeze2/all", {"X": real("sq", 1, 3, 1, 2)}, {"axes": []})
    case("squeeze2/not one", {"X": real("sq", 1, 3, 1, 2)}, {"axes": [0, 1]})
    case("unsqueeze2", {"X": x}, {"axes": [0, -1]})
    case("unsqueeze2/tensor", {"X": x, "AxesTensor": np.array([1, 2], "int32")}, weights=("AxesTensor",))
    parts = [real("c1", 2, 3, 4), real("c2", 2, 1, 4)]
    case("concat", {"X": parts}, {"axis": 1})
    case("concat/tensor", {"X": parts, "AxisTensor": np.array([-2], "int32")}, weights=("AxisTensor",))
    case("stack", {"X": [real("st1", 2, 3), real("st2", 2, 3)]}, {"axis": -1}, out="Y")
    case("unstack", {"X": x}, {"axis": 1, "num": 3}, out="Y*3")
    case("unbind", {"X": x}, {"axis": 0}, out="Out*2")
    case("split", {"X": real("split", 2, 6)}, {"axis": 1, "num": 3}, out="Out*3")
    case("split/sections", {"X": real("split", 2, 6)}, {"axis": 1, "sections": [1, 3, 2]}, out="Out*3")
    case("expand_v2", {"X": real("ex", 3, 1)}, {"shape": [2, -1, 4]})
    case("expand_v2/tensor", {"X": real("ex", 3, 1), "Shape": np.array([3, 4], "int32")}, weights=("Shape",))
    case("expand_v2/open", {"X": real("ex", 3, 1)}, {"shape": [-1, 4]}, opened={"X": [0]})
    case("expand_as_v2", {"X": real("ea", 1, 3), "Y": real("eb", 2, 4, 3)}, {"target_shape": [2, 4, 3]})
    case("expand", {"X": real("ex", 3, 1)}, {"expand_times": [2, 3]})
    case("tile", {"X": real("tile", 2, 3)}, {"repeat_times": [2, 1, 3]})
    case("tile/fewer", {"X": real("tile", 2, 3)}, {"repeat_times": [2]})
    case("tile/tensor", {"X": real("tile", 2, 3), "RepeatTimes": np.array([2, 2], "int32")}, weights=("RepeatTimes",))
    case("repeat_interleave", {"X": real("ri", 2, 3)}, {"Repeats": 2, "dim": 1})
    case("broadcast_tensors", {"X": [real("b1", 3, 1), real("b2", 1, 4)]}, out="Out*2")
    case("flip", {"X": x}, {"axis": [0, -1]})
    case("reverse", {"X": x}, {"axis": [1]})
    case("roll", {"X": x}, {"shifts": Longs([1, -2]), "axis": Longs([0, 2])})
    case("roll/flat", {"X": x}, {"shifts": Longs([5]), "axis": Longs([])})
    case("tril_triu", {"X": real("tri", 2, 4, 5)}, {"diagonal": 1, "lower": True})
    case("tril_triu/upper", {"X": real("tri", 2, 4, 5)}, {"diagonal": -1, "lower": False})
    case("meshgrid", {"X": [real("m1", 2), real("m2", 3)]}, out="Out*2")
    case("pixel_shuffle", {"X": real("ps", 1, 8, 2, 3)}, {"upscale_factor": 2})
    case("pixel_shuffle/last", {"X": real("ps2", 1, 2, 3, 8)}, {"upscale_factor": 2, "data_format": "NHWC"})
    case("pixel_unshuffle", {"X": real("pu", 1, 2, 4, 6)}, {"downscale_factor": 2})
    case("shuffle_channel", {"X": real("sc", 1, 6, 2, 2)}, {"group": 3})
    case("channel_shuffle", {"X": real("sc", 1, 6, 2, 2)}, {"groups": 2})
    case("temporal_shift", {"X": real("ts", 6, 8, 2, 2)}, {"seg_num": 3, "shift_ratio": 0.25})
    case(
        "unfold",
        {"X": real("uf", 1, 2, 5, 6)},
        {"kernel_sizes": [3, 2], "strides": [2, 1], "paddings": [1, 0, 2, 1], "dilations": [1, 2]},
        out="Y",
    )
    case("shape", {"Input": x})
    case("shape/open", {"Input": x}, opened={"Input": [1]})
    case("size", {"Input": x})
    case("is_empty", {"X": x})


def _slices() -> None:
    x = real("slice", 4, 5, 6)
    case("slice", {"Input": x}, {"axes": [0, 2], "starts": [1, -4], "ends": [100, -1]})
    case("slice/decrease", {"Input": x}, {"axes": [1], "starts": [2], "ends": [3], "decrease_axis": [1]})
    case(
        "slice/tensor",
        {"Input": x, "StartsTensor": np.array([1], "int32"), "EndsTensor": np.array([3], "int32")},
        {"axes": [1], "infer_flags": [-1]},
    )
    case("slice/open", {"Input": x}, {"axes": [0], "starts": [0], "ends": [-1]}, opened={"Input": [0]})
    case(
        "strided_slice",
        {"Input": x},
        {"axes": [0, 2], "starts": [3, 0], "ends": [-10, 6], "strides": [-1, 2], "infer_flags": [1, 1]},
    )
    case(
        "strided_slice/decrease",
        {"Input": x},
        {"axes": [1], "starts": [2], "ends": [3], "strides": [1], "decrease_axis": [1], "infer_flags": [1]},
    )
    case("crop_tensor", {"X": x}, {"shape": [2, -1, 3], "offsets": [1, 2, 0]})
    case("pad", {"X": real("pad", 2, 3)}, {"paddings": [1, 0, 2, 1], "pad_value": 0.7})
    volume = real("pad3", 1, 2, 3, 4, 5)
    for mode in ("constant", "reflect", "replicate", "circular"):
        case(f"pad3d/{mode}", {"X": volume}, {"paddings": [1, 2, 0, 1, 2, 1], "mode": mode, "value": 0.5})
    case("pad3d/last", {"X": volume}, {"paddings": [1, 2, 0, 1, 2, 1], "data_format": "NDHWC"})
    case(
        "pad3d/tensor",
        {"X": volume, "Paddings": np.array([1, 0, 2, 1, 0, 3], "int32")},
        {"paddings": [0] * 6},
        weights=("Paddings",),
    )
    at = {"axes": Longs([0, 1]), "starts": Longs([1, 0]), "ends": Longs([4, 5]), "steps": Longs([2, 1]), "dtype": F32}
    case("set_value/tensor", {"Input": x, "ValueTensor": real("sv", 2, 5, 6)}, {**at, "shape": Longs([])})
    case(
        "set_value/row",
        {"Input": x, "ValueTensor": real("svr", 4, 6)},
        {
            "axes": Longs([1]),
            "starts": Longs([2]),
            "ends": Longs([3]),
            "steps": Longs([1]),
            "decrease_axes": Longs([1]),
            "dtype": F32,
            "shape": Longs([]),
        },
    )


def _made() -> None:
    case("fill_constant", {}, {"shape": Longs([2, 3]), "dtype": F32, "value": 1.5})
    case("fill_constant/text", {}, {"shape": Longs([2]), "dtype": I64, "value": 0.0, "str_value": "12345678901"})
    case(
        "fill_constant/tensors",
        {"ShapeTensorList": [np.array([2], "int32"), np.array([3], "int32")]},
        {"shape": Longs([-1, -1]), "dtype": I32, "value": 4.0},
    )
    case("fill_constant/value", {"ValueTensor": np.array([2.5], "float32")}, {"shape": Longs([3]), "dtype": F32})
    like = real("like", 3, 4)
    case("fill_constant_batch_size_like", {"Input": like}, {"shape": [-1, 2], "value": 0.5, "dtype": F32})
    case(
        "fill_constant_batch_size_like/open",
        {"Input": like},
        {"shape": [2, -1], "input_dim_idx": 1, "value": 0.5, "output_dim_idx": 1, "dtype": F32},
        opened={"Input": [1]},
    )
    case("fill_any_like", {"X": like}, {"value": 3.0, "dtype": I32})
    case("assign_value", {}, {"shape": [2, 2], "dtype": F32, "values": Scalars([1.0, 2.0, 3.5, 4.0])})
    case("assign_value/integers", {}, {"shape": [3], "dtype": I64, "values": Scalars([1, -2, 3])})
    ends = {"Start": np.array([1], "int64"), "End": np.array([8], "int64"), "Step": np.array([3], "int64")}
    case("range", ends, weights=("Start", "End", "Step"))
    case("range/run", ends)
    case(
        "linspace",
        {"Start": np.array([0], "float32"), "Stop": np.array([2], "float32"), "Num": np.array([5], "int32")},
        {"dtype": F32},
        weights=("Start", "Stop", "Num"),
    )
    case("eye", {}, {"num_rows": Longs([3])[0], "num_columns": 4, "dtype": F32})


def _indices() -> None:
    x = real("index", 4, 5, 3)
    case("gather", {"X": x, "Index": np.array([3, 0, 0], "int64")})
    case("gather/axis", {"X": x, "Index": np.array([2, 4], "int32"), "Axis": np.array([1], "int32")}, weights=("Axis",))
    case("gather_nd", {"X": x, "Index": np.array([[1, 2], [3, 0]], "int64")})
    case("scatter", {"X": x, "Ids": np.array([2, 0], "int64"), "Updates": real("up", 2, 5, 3)}, {"overwrite": True})
    case(
        "scatter/added",
        {"X": x, "Ids": np.array([2, 2], "int64"), "Updates": real("up", 2, 5, 3)},
        {"overwrite": False},
    )
    case("scatter_nd_add", {"X": x, "Index": np.array([[1], [1], [3]], "int64"), "Updates": real("un", 3, 5, 3)})
    case("index_select", {"X": x, "Index": np.array([4, 1], "int32")}, {"dim": 1})
    case("index_sample", {"X": real("is", 3, 5), "Index": whole("isi", 3, 2, high=5)})
    case("index_add", {"X": x, "Index": np.array([1, 1, 0], "int64"), "AddValue": real("ia", 4, 3, 3)}, {"axis": 1})
    case("take_along_axis", {"Input": x, "Index": whole("ta", 4, 2, 3, high=5)}, {"Axis": 1}, out="Result")
    for mode in ("assign", "add", "mul"):
        index = np.argsort(real("pi", 4, 5, 3), 1)[:, :2] if mode == "assign" else whole("pp", 4, 2, 3, high=5)
        case(
            f"put_along_axis/{mode}",
            {"Input": x, "Index": index, "Value": real("pv", 4, 2, 3)},
            {"Axis": 1, "Reduce": mode},
            out="Result",
        )
    case(
        "index_put",
        {"x": real("ip", 3, 4), "indices": [np.array([0, 2]), np.array([1, 3])], "value": real("ipv", 2)},
        out="out",
    )
    case(
        "masked_fill",
        {"x": real("mf", 3, 4), "mask": whole("mm", 3, 4, high=2) > 0, "value": np.array(0.5, "float32")},
        out="out",
    )
    table = real("table", 7, 3)
    case("lookup_table_v2", {"W": table, "Ids": whole("ids", 2, 4, high=7)}, weights=("W",))
    case("lookup_table_v2/padding", {"W": table, "Ids": np.array([[0, 2, 6, 2]])}, {"padding_idx": 2}, weights=("W",))
    case("lookup_table", {"W": table, "Ids": whole("ids", 2, 4, 1, high=7)}, weights=("W",))
    case("one_hot_v2", {"X": whole("oh", 2, 3, high=4, dtype="int32")}, {"depth": 4, "dtype": F32})
    case("sequence_mask", {"X": np.array([1, 3, 0])}, {"maxlen": 4, "out_dtype": I32}, out="Y")
    case("sequence_mask/longest", {"X": np.array([1, 3, 0])}, {"maxlen": -1, "out_dtype": F32}, out="Y")
    y = real("arg", 3, 4, 5)
    for name in ("arg_max", "arg_min"):
        case(name, {"X": y}, {"axis": Longs([1])[0], "dtype": I64})
        case(f"{name}/kept", {"X": y}, {"axis": -1, "keepdims": True, "dtype": I32})
        case(f"{name}/flat", {"X": y}, {"axis": 0, "flatten": True, "dtype": I64})
    case("argsort", {"X": y}, {"axis": 1}, out="Out Indices")
    case("argsort/descending", {"X": y}, {"axis": -1, "descending": True}, out="Out Indices")
    case("top_k", {"X": real("tk", 3, 7)}, {"k": 3}, out="Out Indices")
    case("top_k_v2", {"X": y}, {"k": 2, "axis": 1, "largest": False}, out="Out Indices")
    case("top_k_v2/tensor", {"X": y, "K": np.array([3], "int32")}, {"axis": -1}, out="Out Indices", weights=("K",))
    case("cumsum", {"X": y}, {"axis": 1})
    case("cumsum/back", {"X": y}, {"axis": 0, "exclusive": True, "reverse": True})
    case("cumsum/flat", {"X": y}, {"flatten": True})
    case("cumprod", {"X": y}, {"dim": 2})
    case("searchsorted", {"SortedSequence": np.sort(real("ss", 2, 6), 1), "Values": real("sv", 2, 3)}, {"right": True})
    case("where_index", {"Condition": whole("wi", 3, 4, high=2) > 0})
    case("masked_select", {"X": real("ms", 3, 4), "Mask": whole("mk", 3, 4, high=2) > 0}, out="Y")
    case(
        "unique",
        {"X": whole("un", 9, high=5)},
        {
            "is_sorted": True,
            "return_index": True,
            "return_inverse": True,
            "return_counts": True,
            "dtype": I64,
            "axis": [],
        },
        out="Out Indices Index Counts",
    )
    case("diag_v2/vector", {"X": real("dv", 3)}, {"offset": 1, "padding_value": 0.5})
    case("diag_v2/below", {"X": real("dv", 3)}, {"offset": -2})
    case("diag_v2/matrix", {"X": real("dm", 4, 5)}, {"offset": -1})
    case("diagonal", {"Input": real("di", 2, 4, 5)}, {"offset": 1, "axis1": 2, "axis2": 1})


def _reductions() -> None:
    x = real("reduce", 2, 3, 4)
    for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_amax", "reduce_amin"):
        case(name, {"X": x}, {"dim": [1, -1]})
        case(f"{name}/kept", {"X": x}, {"dim": [0], "keep_dim": True})
        if not name.startswith("reduce_a"):
            case(f"{name}/all", {"X": x}, {"dim": [0], "reduce_all": True})
    case("reduce_sum/integers", {"X": whole("rs", 3, 4, dtype="int32")}, {"dim": [1]})
    case("reduce_sum/open", {"X": x}, {"dim": [2]}, opened={"X": [0, 2]})
    for name in ("reduce_all", "reduce_any"):
        case(name, {"X": whole(name, 3, 4, high=2) > 0}, {"dim": [1]})
    case("mean", {"X": x})
    case("logsumexp", {"X": x}, {"axis": [1]})
    case("logsumexp/kept", {"X": x * 50}, {"axis": [0, 2], "keepdim": True})
    for p in (0.0, 1.0, 2.0, 3.5, float("inf"), float("-inf")):
        case(f"p_norm/{p}", {"X": x}, {"porder": p, "axis": 1})
    case("p_norm/vector", {"X": x}, {"porder": 2.0, "asvector": True, "keepdim": True})
    case("frobenius_norm", {"X": x}, {"dim": [1, 2]})
    case("l1_norm", {"X": x})
    case("squared_l2_norm", {"X": x})
    case("norm", {"X": x}, {"axis": 1, "epsilon": 1e-6}, out="Out Norm")
    case("dist", {"X": real("d1", 3, 4), "Y": real("d2", 4)}, {"p": 2.0})


def _products() -> None:
    case("matmul_v2", {"X": real("m1", 2, 3, 4), "Y": real("m2", 4, 5)})
    case("matmul_v2/turned", {"X": real("m3", 2, 4, 3), "Y": real("m4", 2, 5, 4)}, {"trans_x": True, "trans_y": True})
    case("matmul_v2/stacks", {"X": real("m5", 2, 1, 3, 4), "Y": real("m6", 3, 4, 2)})
    case("matmul_v2/vector", {"X": real("m7", 3, 4), "Y": real("m8", 4)})
    case("matmul_v2/open", {"X": real("m1", 2, 3, 4), "Y": real("m2", 4, 5)}, weights=("Y",), opened={"X": [0, 1]})
    case("matmul", {"X": real("m9", 3, 4), "Y": real("ma", 5, 4)}, {"transpose_Y": True, "alpha": 0.5})
    case("mul", {"X": real("mb", 2, 3, 4), "Y": real("mc", 4, 5)}, {"x_num_col_dims": 2}, weights=("Y",))
    case("mul/flat", {"X": real("mb", 2, 3, 4), "Y": real("md", 12, 5)}, weights=("Y",))
    case(
        "mul/open",
        {"X": real("mb", 2, 3, 4), "Y": real("mc", 4, 5)},
        {"x_num_col_dims": 2},
        weights=("Y",),
        opened={"X": [0, 1]},
    )
    case("bmm", {"X": real("b1", 2, 3, 4), "Y": real("b2", 2, 4, 5)})
    case("mv", {"X": real("b3", 3, 4), "Vec": real("b4", 4)})
    case("dot", {"X": real("b5", 3, 4), "Y": real("b6", 3, 4)})
    case(
        "addmm", {"Input": real("b7", 3, 5), "X": real("b8", 3, 4), "Y": real("b9", 4, 5)}, {"Alpha": 0.5, "Beta": 2.0}
    )
    case(
        "fc",
        {"Input": real("f1", 2, 3, 4), "W": real("f2", 4, 5), "Bias": real("f3", 5)},
        {"in_num_col_dims": 2, "activation_type": "relu"},
        weights=("W", "Bias"),
    )
    case("einsum", {"Operands": [real("e1", 2, 3), real("e2", 3, 4)]}, {"equation": "ij,jk->ik"})


for _family in (_elementwise, _activations, _shapes, _slices, _made, _indices, _reductions, _products):
    _family()
