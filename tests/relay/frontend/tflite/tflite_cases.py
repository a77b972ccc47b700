"""Small models of one operator each, with inputs. What LiteRT's reference kernels make of them lies in expected.npz,
written by tools/tflite_reference.py."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from tflite_writer import GraphSpec, NodeSpec, Spec, constant, flexbuffer_map, one_node, write_graphs


class Case(NamedTuple):
    """A model and its inputs. ``exact`` is whether integers must be equal, not only within a step; ``runs`` how often
    it runs, one after the other, with the state that it keeps."""

    name: str
    operator: str
    model: bytes
    feeds: dict
    exact: bool = True
    runs: int = 1


CASES: dict[str, Case] = {}


class _Numbers:
    """Numbers that every version of NumPy draws alike, from the name of the case."""

    def __init__(self, name: str):
        self.state = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)

    def of(self, spec: Spec, low=None, high=None) -> np.ndarray:
        if spec.dtype.startswith("float"):
            low, high = -4.0 if low is None else low, 4.0 if high is None else high
            return self.state.uniform(low, high, spec.shape).astype(spec.dtype)
        if spec.dtype == "bool":
            return self.state.randint(0, 2, spec.shape).astype("bool")
        kind = np.iinfo(spec.dtype)
        most = 100 if kind.bits > 16 else 1 << 16
        low = max(kind.min, -most) if low is None else low
        high = min(kind.max, most) if high is None else high
        return self.state.randint(low, high + 1, spec.shape).astype(spec.dtype)


def case(name: str, operator: str, inputs: list, outputs: list, options=None, *, low=None, high=None, exact=True,
         custom=None, between=()) -> None:  # fmt: skip
    assert name not in CASES, name
    numbers = _Numbers(name)
    model = one_node(operator, inputs, outputs, options, custom, between)
    present = [s for s in inputs if s is not None]
    feeds = {f"t{i}": numbers.of(s, low, high) for i, s in enumerate(present) if s.value is None and not s.variable}
    CASES[name] = Case(name, operator, model, feeds, exact, 3 if any(s.variable for s in present) else 1)


def real(*shape) -> Spec:
    return Spec(shape)


def i8(*shape, scale=0.05, zero=3) -> Spec:
    return Spec(shape, "int8", None, scale, zero)


def u8(*shape, scale=0.05, zero=120) -> Spec:
    return Spec(shape, "uint8", None, scale, zero)


def i16(*shape, scale=0.0002) -> Spec:
    return Spec(shape, "int16", None, scale, 0)


def draw(name: str, shape, dtype="float32", low=None, high=None) -> np.ndarray:
    return _Numbers(name + " weights").of(Spec(tuple(shape), dtype), low, high)


def ints(*values) -> Spec:
    return constant(np.array(values, "int32"))


def scalar(value, dtype="int32") -> Spec:
    return constant(np.array(value, dtype))


# -- convolutions -----------------------------------------------------------------------------------------------------


def _conv_cases() -> None:
    for label, padding, stride, dilation, fused in (("same", 0, 1, 1, 0), ("valid_stride", 1, 2, 1, 1),
                                                    ("dilated", 0, 1, 2, 3), ("same_stride", 0, 2, 1, 2)):  # fmt: skip
        options = {"padding": padding, "stride_w": stride, "stride_h": stride, "fused_activation": fused,
                   "dilation_w": dilation, "dilation_h": dilation}  # fmt: skip
        span = 2 * dilation + 1
        size = [-(-d // stride) if padding == 0 else (d - span) // stride + 1 for d in (7, 9)]
        for kind, operator in (("conv", "CONV_2D"), ("depthwise", "DEPTHWISE_CONV_2D")):
            shape = (6, 3, 3, 3) if kind == "conv" else (1, 3, 3, 6)
            more = {} if kind == "conv" else {"depth_multiplier": 2}
            name = f"{kind}_{label}"
            w, b = draw(name, shape), draw(name + "b", (6,))
            case(name, operator, [real(1, 7, 9, 3), constant(w), constant(b)], [real(1, *size, 6)], {**options, **more})
            axis = 0 if kind == "conv" else 3
            weights = draw(name, shape, "int8")
            bias = draw(name + "b", (6,), "int32", -3000, 3000)
            per = np.linspace(0.002, 0.009, 6)
            case(f"{name}_int8", operator,
                 [i8(1, 7, 9, 3), constant(weights, scale=per, axis=axis), constant(bias, scale=per * 0.05)],
                 [i8(1, *size, 6, scale=0.09, zero=-11)], {**options, **more})  # fmt: skip
            case(f"{name}_uint8", operator,
                 [u8(1, 7, 9, 3), constant(draw(name, shape, "uint8"), scale=0.004, zero=130),
                  constant(bias, scale=0.0002)],
                 [u8(1, *size, 6, scale=0.07, zero=110)], {**options, **more})  # fmt: skip
    plain = {"padding": 0, "stride_w": 1, "stride_h": 1}
    w = draw("grouped", (4, 3, 3, 2))
    ones = constant(np.ones(4, "float32"))
    case("conv_grouped", "CONV_2D", [real(1, 5, 4, 4), constant(w), ones], [real(1, 5, 4, 4)], plain)
    w = draw("one channel", (1, 3, 3, 4))
    case("depthwise_one_channel", "DEPTHWISE_CONV_2D", [real(1, 5, 4, 1), constant(w), ones], [real(1, 5, 4, 4)],
         {**plain, "depth_multiplier": 4})  # fmt: skip


def _transposed_cases() -> None:
    forms = (("same", 0, 2, (8, 10)), ("valid", 1, 2, (9, 11)), ("valid_more", 1, 2, (10, 12)),
             ("same_3", 0, 3, (12, 15)), ("same_odd", 0, 2, (7, 9)))  # fmt: skip
    for label, padding, stride, out in forms:
        options = {"padding": padding, "stride_w": stride, "stride_h": stride}
        name = f"transpose_conv_{label}"
        shape = ints(1, *out, 2)
        w = draw(name, (2, 3, 3, 3))
        case(name, "TRANSPOSE_CONV", [shape, constant(w), real(1, 4, 5, 3)], [real(1, *out, 2)], options)
        wi = draw(name, (2, 3, 3, 3), "int8")
        per = np.array([0.003, 0.006])
        bias = constant(np.array([300, -500], "int32"), scale=per * 0.05)
        case(f"{name}_int8", "TRANSPOSE_CONV", [shape, constant(wi, scale=per), i8(1, 4, 5, 3), bias],
             [i8(1, *out, 2, scale=0.1, zero=5)], options)  # fmt: skip
    w = draw("conv3d", (2, 3, 2, 3, 4))
    case(
        "conv_3d",
        "CONV_3D",
        [real(1, 4, 5, 6, 3), constant(w), constant(np.arange(4, dtype="float32"))],
        [real(1, 4, 5, 6, 4)],
        {"padding": 0, "stride_d": 1, "stride_w": 1, "stride_h": 1, "fused_activation": 1},
    )


def _mediapipe_cases() -> None:
    """The transposed convolution of MediaPipe, whose options are a padding and two strides."""
    for name, padding, width, height, kernel in (("same", 1, 2, 2, 3), ("valid", 2, 3, 2, 4), ("even", 1, 2, 2, 2)):
        weight = constant(draw(f"mediapipe {name}", (4, kernel, kernel, 3)))
        sizes = [d * s + (max(kernel - s, 0) if padding == 2 else 0) for d, s in ((5, height), (4, width))]
        case(f"transpose_bias_{name}", "Convolution2DTransposeBias",
             [real(1, 5, 4, 3), weight, constant(draw("mediapipe bias", (4,)))], [real(1, *sizes, 4)],
             custom=struct.pack("<3i", padding, width, height))  # fmt: skip


def _matrix_cases() -> None:
    w, b = draw("dense", (4, 10)), constant(draw("dense b", (4,)))
    case("dense", "FULLY_CONNECTED", [real(3, 10), constant(w), b], [real(3, 4)], {"fused_activation": 1})
    case("dense_no_bias", "FULLY_CONNECTED", [real(3, 10), constant(w), None], [real(3, 4)], {})
    case("dense_keep", "FULLY_CONNECTED", [real(2, 3, 10), constant(w), b], [real(2, 3, 4)], {"keep_num_dims": True})
    case("dense_flat", "FULLY_CONNECTED", [real(2, 5, 2), constant(w), b], [real(2, 4)], {})
    wi, bias = draw("dense", (4, 10), "int8"), constant(np.array([5, -900, 30, 1000], "int32"), scale=0.0002)
    case("dense_int8", "FULLY_CONNECTED", [i8(3, 10), constant(wi, scale=0.004), bias], [i8(3, 4, scale=0.08, zero=-4)],
         {"fused_activation": 3})  # fmt: skip
    wu = constant(draw("dense", (4, 10), "uint8"), scale=0.004, zero=99)
    case("dense_uint8", "FULLY_CONNECTED", [u8(3, 10), wu, bias], [u8(3, 4, scale=0.08, zero=104)], {})
    for label, adj_x, adj_y in (("", False, False), ("_x", True, False), ("_y", False, True)):
        x, y = real(2, 3, *((5, 4) if adj_x else (4, 5))), real(2, 3, *((6, 5) if adj_y else (5, 6)))
        case(f"batch_matmul{label}", "BATCH_MATMUL", [x, y], [real(2, 3, 4, 6)], {"adj_x": adj_x, "adj_y": adj_y})
    case("batch_matmul_broadcast", "BATCH_MATMUL", [real(2, 3, 4, 5), real(5, 6)], [real(2, 3, 4, 6)], {})
    case("batch_matmul_int8", "BATCH_MATMUL", [i8(2, 4, 5), i8(2, 5, 6, scale=0.03, zero=0)],
         [i8(2, 4, 6, scale=0.07, zero=9)], {})  # fmt: skip


# -- pooling and normalization ----------------------------------------------------------------------------------------


def _pool_cases() -> None:
    for label, padding, stride, filter_, fused in (("same", 0, 2, 3, 0), ("valid", 1, 2, 2, 1), ("global", 1, 1, 0, 0),
                                                   ("same_1", 0, 1, 3, 3)):  # fmt: skip
        h, w = (7, 9)
        k = (filter_, filter_) if filter_ else (h, w)
        options = {"padding": padding, "stride_w": stride, "stride_h": stride, "filter_height": k[0],
                   "filter_width": k[1], "fused_activation": fused}  # fmt: skip
        size = [-(-d // stride) if padding == 0 else (d - f) // stride + 1 for d, f in zip((h, w), k)]
        for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
            name = f"{operator.lower()}_{label}"
            case(name, operator, [real(2, h, w, 3)], [real(2, *size, 3)], options)
            if operator != "L2_POOL_2D":
                case(f"{name}_int8", operator, [i8(2, h, w, 3)], [i8(2, *size, 3)], options)
                case(f"{name}_uint8", operator, [u8(2, h, w, 3)], [u8(2, *size, 3)], options)


def _normal_cases() -> None:
    case("softmax", "SOFTMAX", [real(3, 7)], [real(3, 7)], {"beta": 1.0})
    case("softmax_beta", "SOFTMAX", [real(2, 3, 7)], [real(2, 3, 7)], {"beta": 0.5})
    case("softmax_int8", "SOFTMAX", [i8(5, 9, scale=0.1)], [i8(5, 9, scale=1 / 256, zero=-128)], {"beta": 1.0})
    case("softmax_uint8", "SOFTMAX", [u8(5, 9, scale=0.1)], [u8(5, 9, scale=1 / 256, zero=0)], {"beta": 1.5})
    case("log_softmax", "LOG_SOFTMAX", [real(3, 7)], [real(3, 7)])
    case("log_softmax_int8", "LOG_SOFTMAX", [i8(30, 7, scale=0.1)], [i8(30, 7, scale=16 / 256, zero=127)])
    case("l2_normalization", "L2_NORMALIZATION", [real(2, 3, 7)], [real(2, 3, 7)], {})
    case("l2_normalization_int8", "L2_NORMALIZATION", [i8(2, 20, 3, 7)], [i8(2, 20, 3, 7, scale=1 / 128, zero=0)], {})
    case("lrn", "LOCAL_RESPONSE_NORMALIZATION", [real(1, 3, 4, 9)], [real(1, 3, 4, 9)],
         {"radius": 2, "bias": 1.5, "alpha": 0.2, "beta": 0.6})  # fmt: skip


# -- elements ---------------------------------------------------------------------------------------------------------


def _unary_cases() -> None:
    for operator in "EXP SIN COS ABS FLOOR CEIL TANH NEG LOGISTIC SQUARE ROUND ELU HARD_SWISH SIGN".split():
        case(operator.lower(), operator, [real(3, 17)], [real(3, 17)], low=-6.0, high=6.0)
    for operator in ("LOG", "SQRT", "RSQRT"):
        case(operator.lower(), operator, [real(3, 17)], [real(3, 17)], low=0.01, high=6.0)
    for approximate in (False, True):
        case(f"gelu_{approximate}", "GELU", [real(3, 17)], [real(3, 17)], {"approximate": approximate})
    case("leaky_relu", "LEAKY_RELU", [real(3, 17)], [real(3, 17)], {"alpha": 0.3})
    for operator in ("RELU", "RELU6", "RELU_N1_TO_1"):
        name = operator.lower()
        case(name, operator, [real(3, 17)], [real(3, 17)], low=-8.0, high=8.0)
        case(name + "_int8", operator, [i8(3, 170, scale=0.06)], [i8(3, 170, scale=0.04, zero=-9)])
        case(name + "_uint8", operator, [u8(3, 170, scale=0.06)], [u8(3, 170, scale=0.04, zero=99)])
    case("relu_0_to_1", "RELU_0_TO_1", [real(3, 17)], [real(3, 17)])
    probability = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
    for operator, (scale, zero) in probability.items():
        case(operator.lower() + "_int8", operator, [i8(3, 170)], [i8(3, 170, scale=scale, zero=zero)])
        case(operator.lower() + "_uint8", operator, [u8(3, 170)], [u8(3, 170, scale=scale, zero=zero + 128)])
    for x, y in ((0.05, 0.04), (0.02, 0.021), (0.1, 0.05)):
        case(f"hard_swish_int8_{x}", "HARD_SWISH", [i8(3, 170, scale=x)], [i8(3, 170, scale=y, zero=-100)])
    case("hard_swish_uint8", "HARD_SWISH", [u8(3, 170)], [u8(3, 170, scale=0.045, zero=5)])
    case("elu_int8", "ELU", [i8(3, 170)], [i8(3, 170, scale=0.04, zero=-90)])
    case("gelu_int8", "GELU", [i8(3, 170)], [i8(3, 170, scale=0.04, zero=-90)], {"approximate": True})
    case("exp_int8", "EXP", [i8(3, 170, scale=0.01)], [i8(3, 170, scale=0.02, zero=-128)])
    case("leaky_relu_int8", "LEAKY_RELU", [i8(3, 170)], [i8(3, 170, scale=0.04, zero=-20)], {"alpha": 0.2})
    case("abs_int8", "ABS", [i8(3, 170)], [i8(3, 170, scale=0.04, zero=-100)])
    case("rsqrt_int8", "RSQRT", [i8(3, 170, zero=-128)], [i8(3, 170, scale=0.02, zero=-100)], low=-100)
    slope = draw("prelu", (1, 1, 5), low=-1.0, high=1.0)
    case("prelu", "PRELU", [real(2, 3, 4, 5), constant(slope)], [real(2, 3, 4, 5)])
    case("prelu_int8", "PRELU", [i8(2, 3, 4, 5), constant(draw("prelu", (1, 1, 5), "int8"), scale=0.01, zero=7)],
         [i8(2, 3, 4, 5, scale=0.06, zero=-3)])  # fmt: skip
    for source, target in (("float32", "int32"), ("int32", "float32"), ("int64", "int32"), ("bool", "float32"),
                           ("uint8", "float32"), ("float32", "bool"), ("int8", "int32")):  # fmt: skip
        case(f"cast_{source}_{target}", "CAST", [Spec((3, 5), source)], [Spec((3, 5), target)],
             {"in_data_type": 0, "out_data_type": 0})  # fmt: skip
    case("fake_quant", "FAKE_QUANT", [real(3, 17)], [real(3, 17)], {"min": -2.5, "max": 3.0, "num_bits": 8})
    case("logical_not", "LOGICAL_NOT", [Spec((3, 5), "bool")], [Spec((3, 5), "bool")])


def _binary_cases() -> None:
    for operator in ("ADD", "SUB", "MUL", "DIV"):
        name = operator.lower()
        for fused in range(4):
            case(f"{name}_{fused}", operator, [real(2, 3, 5), real(3, 1)], [real(2, 3, 5)], {"fused_activation": fused})
        if operator != "DIV":
            for fused in (0, 3):
                case(f"{name}_int8_{fused}", operator, [i8(2, 30, 5), i8(30, 5, scale=0.11, zero=-30)],
                     [i8(2, 30, 5, scale=0.13, zero=12)], {"fused_activation": fused})  # fmt: skip
            case(f"{name}_uint8", operator, [u8(2, 30, 5), u8(2, 30, 5, scale=0.02, zero=30)],
                 [u8(2, 30, 5, scale=0.05, zero=90)], {})  # fmt: skip
        case(f"{name}_int32", operator, [Spec((3, 5), "int32"), constant(draw(name, (5,), "int32", 1, 9))],
             [Spec((3, 5), "int32")], {})  # fmt: skip
    for operator in "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL".split():
        case(operator.lower(), operator, [Spec((3, 50), "int32"), Spec((50,), "int32")], [Spec((3, 50), "bool")],
             low=-3, high=3)  # fmt: skip
        case(operator.lower() + "_int8", operator, [i8(3, 50), i8(3, 50)], [Spec((3, 50), "bool")])
    for operator in ("LOGICAL_AND", "LOGICAL_OR"):
        case(operator.lower(), operator, [Spec((3, 5), "bool"), Spec((3, 5), "bool")], [Spec((3, 5), "bool")])
    for operator in ("MAXIMUM", "MINIMUM"):
        case(operator.lower(), operator, [real(3, 5), real(1, 5)], [real(3, 5)])
        case(operator.lower() + "_int8", operator, [i8(3, 5), i8(1, 5)], [i8(3, 5)])
    case("pow", "POW", [real(3, 5), real(3, 5)], [real(3, 5)], low=0.1, high=3.0)
    for operator in ("FLOOR_DIV", "FLOOR_MOD"):
        case(operator.lower(), operator, [real(3, 5), real(3, 5)], [real(3, 5)])
        case(operator.lower() + "_int32", operator, [Spec((3, 5), "int32"), ints(3, -4, 7, -1, 9)],
             [Spec((3, 5), "int32")])  # fmt: skip
    case("squared_difference", "SQUARED_DIFFERENCE", [real(3, 5), real(5)], [real(3, 5)])
    case("squared_difference_int8", "SQUARED_DIFFERENCE", [i8(3, 90), i8(3, 90, scale=0.04)],
         [i8(3, 90, scale=0.6, zero=-100)])  # fmt: skip
    case("atan2", "ATAN2", [real(3, 5), real(3, 5)], [real(3, 5)])
    case("add_n", "ADD_N", [real(3, 5), real(3, 5), real(3, 5)], [real(3, 5)])
    case("select", "SELECT", [Spec((3,), "bool"), real(3, 5), real(3, 5)], [real(3, 5)])
    case("select_v2", "SELECT_V2", [Spec((3, 1), "bool"), real(3, 5), real(1, 5)], [real(3, 5)])
    case("select_v2_int8", "SELECT_V2", [Spec((3, 5), "bool"), i8(3, 5), i8(3, 5)], [i8(3, 5)])
    case("bitwise_xor", "BITWISE_XOR", [Spec((3, 5), "int32"), Spec((3, 5), "int32")], [Spec((3, 5), "int32")])
    case("right_shift", "RIGHT_SHIFT", [Spec((3, 5), "int32"), constant(np.array([1, 2, 0, 5, 31], "int32"))],
         [Spec((3, 5), "int32")])  # fmt: skip


def _found_cases() -> None:
    corners = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1],
                        [0, 100, 1, 101]], "float32")  # fmt: skip
    scores = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], "float32")
    numbers = Spec((4,), "int32")
    for version, outputs in ((4, [numbers, Spec((), "int32")]), (5, [numbers, real(4), Spec((), "int32")])):
        rest = [scalar(4), scalar(0.5, "float32"), scalar(0.4, "float32")]
        rest += [scalar(0.0, "float32")] if version == 5 else []
        operator = f"NON_MAX_SUPPRESSION_V{version}"
        case(operator.lower(), operator, [constant(corners), constant(scores), *rest], outputs)
    for label, least, sigma in (("soft", 0.3, 0.5), ("softer", 0.05, 0.1)):
        rest = [scalar(6), scalar(0.9, "float32"), scalar(least, "float32"), scalar(sigma, "float32")]
        case(f"non_max_suppression_v5_{label}", "NON_MAX_SUPPRESSION_V5", [constant(corners), constant(scores), *rest],
             [Spec((6,), "int32"), real(6), Spec((), "int32")])  # fmt: skip
    case("bucketize", "BUCKETIZE", [real(3, 17)], [Spec((3, 17), "int32")], {"boundaries": [-2.0, 0.0, 1.5]})
    for name in ("SUM", "PROD", "MAX", "MIN"):
        operator = f"UNSORTED_SEGMENT_{name}"
        case(operator.lower(), operator, [real(5, 2), ints(2, 0, 2, -1, 0), scalar(4)], [real(4, 2)])
    case("bitcast", "BITCAST", [real(3, 5)], [Spec((3, 5), "int32")])
    w = draw("conv3d transposed", (3, 2, 3, 4, 3))
    case("conv_3d_transpose", "CONV_3D_TRANSPOSE",
         [ints(1, 8, 10, 6, 4), constant(w), real(1, 4, 5, 3, 3), constant(np.arange(4, dtype="float32"))],
         [real(1, 8, 10, 6, 4)], {"padding": 0, "stride_d": 2, "stride_w": 2, "stride_h": 2})  # fmt: skip


def _late_cases() -> None:
    """Places that are inputs."""
    place = Spec((2,), "int32")
    case("slice_late", "SLICE", [real(4, 6), place, ints(2, 3)], [real(2, 3)], low=0, high=2)
    case("strided_slice_late", "STRIDED_SLICE", [real(4, 6), place, ints(4, 6), ints(1, 1)], [real(4)],
         {"shrink_axis_mask": 1, "end_mask": 2, "begin_mask": 2}, low=0, high=3)  # fmt: skip


def _quantize_cases() -> None:
    case("quantize_int8", "QUANTIZE", [real(3, 100)], [i8(3, 100, scale=0.03, zero=-4)], low=-5.0, high=5.0)
    case("quantize_uint8", "QUANTIZE", [real(3, 100)], [u8(3, 100, scale=0.03, zero=90)], low=-5.0, high=5.0)
    halves = constant(np.arange(-40, 40, dtype="float32") / 4)
    case("quantize_halves", "QUANTIZE", [halves], [i8(80, scale=0.5, zero=-4)])
    case("requantize_int8", "QUANTIZE", [i8(3, 100)], [i8(3, 100, scale=0.03, zero=-4)])
    case("requantize_uint8_int8", "QUANTIZE", [u8(3, 100)], [i8(3, 100, scale=0.05, zero=-8)])
    case("requantize_coarse", "QUANTIZE", [i8(3, 100, scale=0.5)], [i8(3, 100, scale=1.7, zero=10)])
    case("dequantize_int8", "DEQUANTIZE", [i8(3, 100)], [real(3, 100)])
    case("dequantize_uint8", "DEQUANTIZE", [u8(3, 100)], [real(3, 100)])
    case("dequantize_float16", "DEQUANTIZE", [constant(draw("half", (3, 7), "float16"))], [real(3, 7)])


# -- shapes -----------------------------------------------------------------------------------------------------------


def _shape_cases() -> None:
    case("reshape", "RESHAPE", [real(2, 6), ints(3, -1)], [real(3, 4)], {"new_shape": [3, -1]})
    case("reshape_int8", "RESHAPE", [i8(2, 6), ints(3, -1)], [i8(3, 4)], {"new_shape": [3, -1]})
    case("transpose", "TRANSPOSE", [real(2, 3, 4, 5), ints(0, 3, 1, 2)], [real(2, 5, 3, 4)])
    case("transpose_int8", "TRANSPOSE", [i8(2, 3, 4), ints(2, 0, 1)], [i8(4, 2, 3)])
    case("squeeze", "SQUEEZE", [real(1, 3, 1, 4)], [real(3, 1, 4)], {"squeeze_dims": [0]})
    case("squeeze_all", "SQUEEZE", [real(1, 3, 1, 4)], [real(3, 4)], {})
    case("expand_dims", "EXPAND_DIMS", [real(3, 4), scalar(-1)], [real(3, 4, 1)])
    case("tile", "TILE", [real(2, 3), ints(2, 3)], [real(4, 9)])
    case("broadcast_to", "BROADCAST_TO", [real(3, 1), ints(2, 3, 4)], [real(2, 3, 4)])
    case("broadcast_args", "BROADCAST_ARGS", [ints(3, 1), ints(2, 1, 4)], [Spec((3,), "int32")])
    case("shape", "SHAPE", [real(2, 3, 4)], [Spec((3,), "int32")], {"out_type": 2})
    case("rank", "RANK", [real(2, 3, 4)], [Spec((), "int32")])
    case("slice", "SLICE", [real(4, 5, 6), ints(1, 0, 2), ints(2, -1, 3)], [real(2, 5, 3)])
    for label, begin, end, strides, masks, out in (
        ("plain", (1, 0), (3, 4), (1, 2), {}, (2, 2, 6)),
        ("negative", (-1, 4), (0, -6), (-1, -2), {}, (3, 3, 6)),
        ("reverse_all", (0, 0, 0), (0, 0, 0), (-1, 1, -1), {"begin_mask": 7, "end_mask": 7}, (4, 5, 6)),
        ("shrink", (1, 2, 0), (2, 3, 6), (1, 1, 1), {"shrink_axis_mask": 3}, (6,)),
        ("shrink_last", (0, 0, -1), (0,) * 3, (1,) * 3, {"shrink_axis_mask": 4, "begin_mask": 3, "end_mask": 3},
         (4, 5)),
        ("ellipsis", (0, 1), (0, 4), (1, 2), {"ellipsis_mask": 1}, (4, 5, 2)),
        ("new_axis", (0, 1), (0, 3), (1, 1), {"new_axis_mask": 1}, (1, 2, 5, 6)),
        ("masks", (2, 1), (3, 2), (1, 1), {"begin_mask": 1, "end_mask": 2}, (3, 4, 6)),
    ):  # fmt: skip
        case(f"strided_slice_{label}", "STRIDED_SLICE", [real(4, 5, 6), ints(*begin), ints(*end), ints(*strides)],
             [real(*out)], masks)  # fmt: skip
    case("strided_slice_int8", "STRIDED_SLICE", [i8(4, 5), ints(1, 0), ints(3, 4), ints(1, 2)], [i8(2, 2)], {})
    case("split", "SPLIT", [scalar(1), real(2, 6)], [real(2, 2)] * 3, {"num_splits": 3})
    case("split_int8", "SPLIT", [scalar(1), i8(2, 6)], [i8(2, 2)] * 3, {"num_splits": 3})
    case("split_v", "SPLIT_V", [real(2, 7), ints(2, -1, 1), scalar(-1)], [real(2, 2), real(2, 4), real(2, 1)],
         {"num_splits": 3})  # fmt: skip
    case("concat", "CONCATENATION", [real(2, 3), real(2, 4)], [real(2, 7)], {"axis": -1})
    case("concat_int8", "CONCATENATION", [i8(2, 3), i8(2, 4)], [i8(2, 7)], {"axis": 1})
    case("concat_uint8_scales", "CONCATENATION", [u8(2, 90), u8(2, 40, scale=0.03, zero=100)],
         [u8(2, 130, scale=0.06, zero=110)], {"axis": 1})  # fmt: skip
    case("pack", "PACK", [real(2, 3)] * 3, [real(2, 3, 3)], {"values_count": 3, "axis": 1})
    case("unpack", "UNPACK", [real(2, 3, 4)], [real(2, 4)] * 3, {"num": 3, "axis": 1})
    edges = constant(np.array([[0, 0], [1, 2], [0, 3]], "int32"))
    case("pad", "PAD", [real(2, 3, 4), edges], [real(2, 6, 7)])
    case("pad_int8", "PAD", [i8(2, 3, 4), edges], [i8(2, 6, 7)])
    case("padv2", "PADV2", [real(2, 3, 4), edges, scalar(1.5, "float32")], [real(2, 6, 7)])
    case("padv2_int8", "PADV2", [i8(2, 3, 4), edges, constant(np.array(7, "int8"), scale=0.05, zero=3)], [i8(2, 6, 7)])
    narrow = constant(np.array([[0, 0], [1, 2], [2, 3]], "int32"))
    for mode in (0, 1):
        case(f"mirror_pad_{mode}", "MIRROR_PAD", [real(2, 4, 5), narrow], [real(2, 7, 10)], {"mode": mode})
    case("reverse", "REVERSE_V2", [real(2, 3, 4), ints(1)], [real(2, 3, 4)])
    case("reverse_sequence", "REVERSE_SEQUENCE", [real(3, 5, 2), ints(2, 5, 3)], [real(3, 5, 2)],
         {"seq_dim": 1, "batch_dim": 0})  # fmt: skip
    case("space_to_depth", "SPACE_TO_DEPTH", [real(2, 4, 6, 3)], [real(2, 2, 3, 12)], {"block_size": 2})
    case("depth_to_space", "DEPTH_TO_SPACE", [real(2, 2, 3, 12)], [real(2, 4, 6, 3)], {"block_size": 2})
    none = constant(np.array([[1, 1], [0, 1]], "int32"))
    case("space_to_batch", "SPACE_TO_BATCH_ND", [real(2, 4, 5, 3), ints(2, 3), none], [real(12, 3, 2, 3)])
    case("space_to_batch_int8", "SPACE_TO_BATCH_ND", [i8(2, 4, 5, 3), ints(2, 3), none], [i8(12, 3, 2, 3)])
    case("batch_to_space", "BATCH_TO_SPACE_ND", [real(12, 3, 2, 3), ints(2, 3), none], [real(2, 4, 5, 3)])
    case("fill", "FILL", [ints(2, 3), scalar(2.5, "float32")], [real(2, 3)])
    case("zeros_like", "ZEROS_LIKE", [real(2, 3)], [real(2, 3)])
    case("range", "RANGE", [scalar(3), scalar(12), scalar(4)], [Spec((3,), "int32")])
    case("range_down", "RANGE", [scalar(1.0, "float32"), scalar(-1.0, "float32"), scalar(-0.5, "float32")], [real(4)])


def _index_cases() -> None:
    case("gather", "GATHER", [real(4, 5), ints(3, 0, 0)], [real(4, 3)], {"axis": 1})
    case("gather_batch", "GATHER", [real(2, 5, 3), constant(np.array([[1, 4], [0, 2]], "int32"))], [real(2, 2, 3)],
         {"axis": 1, "batch_dims": 1})  # fmt: skip
    case("gather_int8", "GATHER", [i8(4, 5), ints(3, 0)], [i8(2, 5)], {"axis": 0})
    places = constant(np.array([[1, 2], [0, 4], [3, 0]], "int32"))
    case("gather_nd", "GATHER_ND", [real(4, 5, 2), places], [real(3, 2)])
    case("scatter_nd", "SCATTER_ND", [places, real(3, 2), ints(4, 5, 2)], [real(4, 5, 2)])
    case("one_hot", "ONE_HOT", [ints(1, 3, 7, -1), scalar(4), scalar(2.0, "float32"), scalar(-1.0, "float32")],
         [real(4, 4)], {"axis": -1})  # fmt: skip
    case("one_hot_axis", "ONE_HOT", [constant(np.array([[1, 0]], "int32")), scalar(3), scalar(1), scalar(0)],
         [Spec((1, 3, 2), "int32")], {"axis": 1})  # fmt: skip
    case("embedding_lookup", "EMBEDDING_LOOKUP", [ints(2, 0), constant(draw("embedding", (4, 3)))], [real(2, 3)])
    case("sparse_to_dense", "SPARSE_TO_DENSE", [ints(1, 3), ints(5), constant(np.array([2.0, 3.0], "float32")),
                                                scalar(-1.0, "float32")], [real(5)], {})  # fmt: skip
    case("matrix_diag", "MATRIX_DIAG", [real(2, 3)], [real(2, 3, 3)])
    case("matrix_set_diag", "MATRIX_SET_DIAG", [real(2, 3, 3), real(2, 3)], [real(2, 3, 3)])
    case("dynamic_update_slice", "DYNAMIC_UPDATE_SLICE", [real(4, 5), real(2, 3), ints(1, 4)], [real(4, 5)])


def _reduce_cases() -> None:
    for operator in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        name = operator.lower()
        case(name, operator, [real(2, 3, 4, 5), ints(1, 2)], [real(2, 5)], {"keep_dims": False})
        case(name + "_keep", operator, [real(2, 3, 4), ints(-1)], [real(2, 3, 1)], {"keep_dims": True})
    for operator in ("REDUCE_ANY", "REDUCE_ALL"):
        case(operator.lower(), operator, [Spec((4, 3), "bool"), ints(1)], [Spec((4,), "bool")], {"keep_dims": False})
    for label, axes, keep, out in (("hw_keep", (1, 2), True, (2, 1, 1, 50)), ("hw", (1, 2), False, (2, 50)),
                                   ("channels", (3,), True, (2, 3, 5, 1))):  # fmt: skip
        case(f"mean_int8_{label}", "MEAN", [i8(2, 3, 5, 50), ints(*axes)], [i8(*out, scale=0.04, zero=-7)],
             {"keep_dims": keep})  # fmt: skip
        case(f"mean_int8_same_{label}", "MEAN", [i8(2, 3, 5, 50), ints(*axes)], [i8(*out)], {"keep_dims": keep})
    case("mean_uint8", "MEAN", [u8(2, 3, 5, 50), ints(1, 2)], [u8(2, 1, 1, 50, scale=0.04, zero=100)],
         {"keep_dims": True})  # fmt: skip
    case("sum_int8", "SUM", [i8(2, 3, 5, 50), ints(1, 2)], [i8(2, 50, scale=0.2, zero=-7)], {"keep_dims": False})
    case("reduce_max_int8", "REDUCE_MAX", [i8(2, 3, 5), ints(1)], [i8(2, 5)], {"keep_dims": False})
    forms = (("int8", i8, (1, 2), True, (2, 1, 1, 5)), ("int8_all", i8, (0, 1, 2, 3), False, ()),
             ("int16", i16, (3, 1), False, (2, 4)), ("int16_one", i16, (2,), True, (2, 3, 1, 5)))  # fmt: skip
    for label, make, axes, keep, out in forms:
        scale = {"int8": 0.04, "int16": 0.0005}[label.partition("_")[0]]
        case(f"reduce_prod_{label}", "REDUCE_PROD", [make(2, 3, 4, 5, scale=0.9 / (40 if make is i8 else 9000)),
                                                     ints(*axes)], [make(*out, scale=scale)],
             {"keep_dims": keep})  # fmt: skip
    for operator in ("ARG_MAX", "ARG_MIN"):
        case(operator.lower(), operator, [real(3, 7), scalar(-1)], [Spec((3,), "int32")], {"output_type": 2})
        case(operator.lower() + "_int8", operator, [i8(3, 70), scalar(1)], [Spec((3,), "int64")], {"output_type": 4})
    case("topk", "TOPK_V2", [real(3, 7), scalar(3)], [real(3, 3), Spec((3, 3), "int32")])
    for exclusive in (False, True):
        case(f"cumsum_{exclusive}", "CUMSUM", [real(3, 7), scalar(1)], [real(3, 7)],
             {"exclusive": exclusive, "reverse": not exclusive})  # fmt: skip
    case("segment_sum", "SEGMENT_SUM", [real(5, 2), ints(0, 0, 1, 2, 2)], [real(3, 2)])


def _image_cases() -> None:
    forms = ((False, False, (7, 9)), (True, False, (7, 9)), (False, True, (7, 9)), (False, True, (2, 3)),
             (False, False, (2, 3)), (True, False, (2, 1)))  # fmt: skip
    for corners, half, size in forms:
        options = {"align_corners": corners, "half_pixel_centers": half}
        for operator in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
            name = f"{operator.lower()}_{corners}_{half}_{size[0]}"
            case(name, operator, [real(2, 4, 5, 3), ints(*size)], [real(2, *size, 3)], options)
            case(name + "_int8", operator, [i8(2, 4, 5, 3), ints(*size)], [i8(2, *size, 3)], options)
    # Sums exactly between two integers depend on the order of additions.
    case("resize_bilinear_uint8", "RESIZE_BILINEAR", [u8(2, 4, 5, 3), ints(7, 9)], [u8(2, 7, 9, 3)],
         {"half_pixel_centers": True}, exact=False)  # fmt: skip


def _recurrent_cases() -> None:
    batch, time, depth, units = 2, 4, 3, 5
    gates = [constant(draw(f"lstm {i}", (units, depth), low=-0.5, high=0.5)) for i in range(4)]
    back = [constant(draw(f"lstm back {i}", (units, units), low=-0.5, high=0.5)) for i in range(4)]
    bias = [constant(draw(f"lstm bias {i}", (units,), low=-0.5, high=0.5)) for i in range(4)]
    peep = [constant(draw(f"lstm peep {i}", (units,), low=-0.5, high=0.5)) for i in range(3)]
    state = Spec((batch, units), variable=True)

    def lstm(name, gates, back, peep, bias, options):
        inputs = [real(batch, time, depth), *gates, *back, *peep, *bias, None, None, state, state, *[None] * 4]
        case(name, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [real(batch, time, units)],
             {"fused_activation": 4, **options})  # fmt: skip

    case("rnn_step", "RNN", [real(batch, depth), gates[0], back[0], bias[0], state], [real(batch, units)],
         {"fused_activation": 4})  # fmt: skip
    filters, memory, rank = 6, 4, 2
    feature, time_weights = draw("svdf feature", (filters, depth)), draw("svdf time", (filters, memory))
    case("svdf", "SVDF", [real(batch, depth), constant(feature), constant(time_weights),
                          constant(draw("svdf bias", (filters // rank,))),
                          Spec((batch, filters * memory), variable=True)],
         [real(batch, filters // rank)], {"rank": rank, "fused_activation": 1})  # fmt: skip
    inputs = [real(batch, depth), *gates, *back, *[None] * 3, *bias, None, None, state, state]
    case("lstm_step", "LSTM", inputs, [real(batch, units)], {"fused_activation": 4})
    lstm("lstm", gates, back, [None] * 3, bias, {})
    lstm("lstm_peephole", gates, back, peep, bias, {"cell_clip": 0.3})
    lstm("lstm_coupled", [None, *gates[1:]], [None, *back[1:]], [None] * 3, [None, *bias[1:]], {})
    case("rnn", "UNIDIRECTIONAL_SEQUENCE_RNN", [real(batch, time, depth), gates[0], back[0], bias[0], state],
         [real(batch, time, units)], {"fused_activation": 4})  # fmt: skip


def _integer_recurrent_cases() -> None:
    """Layers whose weights are integers: of real data, and of integers."""
    batch, time, depth, units = 2, 4, 3, 5

    def weights(name: str, *shape, scale=0.004, dtype="int8") -> Spec:
        most = 127 if dtype == "int8" else 32767
        return constant(draw(name, shape, dtype, -most, most), scale=scale)

    gates = [weights(f"int lstm {i}", units, depth, scale=0.006 + 0.001 * i) for i in range(4)]
    back = [weights(f"int lstm back {i}", units, units, scale=0.003 + 0.001 * i) for i in range(4)]
    bias = [constant(draw(f"lstm bias {i}", (units,), low=-0.5, high=0.5)) for i in range(4)]
    state = Spec((batch, units), variable=True)
    for label in (False, True):
        options = {"fused_activation": 4, "asymmetric_quantize_inputs": label}
        inputs = [*gates, *back, *[None] * 3, *bias, None, None, state, state, *[None] * 4]
        case(f"lstm_hybrid_{label}", "UNIDIRECTIONAL_SEQUENCE_LSTM", [real(batch, time, depth), *inputs],
             [real(batch, time, units)], options)  # fmt: skip
        case(f"rnn_hybrid_{label}", "UNIDIRECTIONAL_SEQUENCE_RNN",
             [real(batch, time, depth), gates[0], back[0], bias[0], state], [real(batch, time, units)],
             options)  # fmt: skip
        case(f"rnn_step_hybrid_{label}", "RNN", [real(batch, depth), gates[0], back[0], bias[0], state],
             [real(batch, units)], options)  # fmt: skip
        filters, memory, rank = 6, 4, 2
        case(f"svdf_hybrid_{label}", "SVDF",
             [real(batch, depth), weights("int svdf", filters, depth),
              weights("int svdf time", filters, memory, scale=0.02), bias[0]._replace(
                  shape=(3,), value=bias[0].value[:3]), Spec((batch, filters * memory), variable=True)],
             [real(batch, filters // rank)], {"rank": rank, "asymmetric_quantize_inputs": label})  # fmt: skip
    case("svdf_int8", "SVDF",
         [i8(batch, depth), weights("int svdf", filters, depth), weights("svdf16", filters, memory, scale=2e-4,
                                                                         dtype="int16"),
          constant(draw("svdf bias8", (filters // rank,), "int32", -9000, 9000), scale=1e-7),
          Spec((batch, filters * memory), "int16", None, 0.001, 0, 0, True)],
         [i8(batch, filters // rank, scale=0.3, zero=-7)], {"rank": rank, "fused_activation": 1})  # fmt: skip

    def lstm(name: str, power: int, gates, back, peep=(None,) * 3, shown=units, options=None):
        hidden = Spec((0,), "int8", None, 0.0071, 5)
        out = i8(batch, time, shown, scale=0.0071, zero=5)
        projection, kept = [None, None], Spec((batch, shown), "int8", None, 0.0071, 5, 0, True)
        if shown != units:
            out, kept = out._replace(scale=0.012, zero=-4), kept._replace(scale=0.012, zero=-4)
            projection = [weights("int projection", shown, units, scale=0.008),
                          constant(draw("projection bias", (shown,), "int32", -900, 900), scale=6e-5)]  # fmt: skip
        rows = [None if g is None else constant(draw(f"{name} bias {i}", (units,), "int32", -3000, 3000),
                                                scale=3e-4) for i, g in enumerate(gates)]  # fmt: skip
        cell = Spec((batch, units), "int16", None, 2.0**power, 0, 0, True)
        inside = [*[Spec((0,))] * 4, hidden]
        case(name, "UNIDIRECTIONAL_SEQUENCE_LSTM",
             [i8(batch, time, depth), *gates, *back, *peep, *rows, *projection, kept, cell, *[None] * 4], [out],
             {"fused_activation": 4, **(options or {})}, between=inside)  # fmt: skip

    narrow = [weights(f"int lstm narrow {i}", units, 3, scale=0.007) for i in range(4)]
    peep = [weights(f"int peep {i}", units, scale=2e-5, dtype="int16") for i in range(3)]
    lstm("lstm_int8", -11, gates, back)
    lstm("lstm_int8_fine", -15, gates, back)
    lstm("lstm_int8_coupled", -12, [None, *gates[1:]], [None, *back[1:]], options={"cell_clip": 0.6})
    lstm("lstm_int8_peephole", -11, gates, back, peep)
    lstm("lstm_int8_projection", -11, gates, narrow, shown=3, options={"proj_clip": 1.1, "time_major": False})


def graphs_case(name: str, operator: str, graphs: list[GraphSpec], runs: int = 1, high=None) -> None:
    """A model of several graphs."""
    numbers = _Numbers(name)
    feeds = {f"t{i}": numbers.of(graphs[0].tensors[i], None if high is None else -high, high)
             for i in graphs[0].inputs}  # fmt: skip
    CASES[name] = Case(name, operator, write_graphs(graphs), feeds, True, runs)


def _control_cases() -> None:
    flag, x = Spec((), "bool"), real(2, 3)
    less = [real(2, 3), scalar(1.5, "float32"), real(2, 3)]
    double = GraphSpec(less, [NodeSpec("MUL", [0, 1], [2], {})], [0], [2])
    negate = GraphSpec([x, x], [NodeSpec("NEG", [0], [1])], [0], [1])
    branch = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    for label, compare in (("more", "GREATER"), ("less", "LESS")):
        # Whether the sum is above zero decides.
        main = GraphSpec([x, ints(0, 1), real(), scalar(0.0, "float32"), flag, x],
                         [NodeSpec("SUM", [0, 1], [2], {}), NodeSpec(compare, [2, 3], [4]),
                          NodeSpec("IF", [4, 0], [5], branch)], [0], [5])  # fmt: skip
        graphs_case(f"if_{label}", "IF", [main, double, negate])
    main = GraphSpec([x, constant(np.array(True)), x], [NodeSpec("IF", [1, 0], [2], branch)], [0], [2])
    graphs_case("if_known", "IF", [main, double, negate])
    loop = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    count = Spec((), "int32")
    below = GraphSpec([count, x, scalar(5), flag], [NodeSpec("LESS", [0, 2], [3])], [0, 1], [3])
    body = GraphSpec([count, x, scalar(1), count, scalar(1.5, "float32"), x],
                     [NodeSpec("ADD", [0, 2], [3], {}), NodeSpec("MUL", [1, 4], [5], {})], [0, 1], [3, 5])  # fmt: skip
    main = GraphSpec([count, x, count, x], [NodeSpec("WHILE", [0, 1], [2, 3], loop)], [0, 1], [2, 3])
    graphs_case("while", "WHILE", [main, below, body], high=4)
    main = GraphSpec([scalar(-3), x, count, x], [NodeSpec("WHILE", [0, 1], [2, 3], loop)], [1], [2, 3])
    graphs_case("while_known", "WHILE", [main, below, body])


def _variable_cases() -> None:
    """A sum of all inputs so far, that of every second one added twice."""
    handle, x, flag = Spec((), "resource"), real(2, 3), Spec((), "bool")
    named = {"container": "", "shared_name": "total"}
    first = constant(np.arange(6, dtype="float32").reshape(2, 3))
    once = GraphSpec([handle, first], [NodeSpec("VAR_HANDLE", [], [0], named), NodeSpec("ASSIGN_VARIABLE", [0, 1], [])],
                     [], [])  # fmt: skip
    main = GraphSpec([x, handle, x, x],
                     [NodeSpec("CALL_ONCE", [], [], {"init_subgraph_index": 1}), NodeSpec("VAR_HANDLE", [], [1], named),
                      NodeSpec("READ_VARIABLE", [1], [2]), NodeSpec("ADD", [0, 2], [3], {}),
                      NodeSpec("ASSIGN_VARIABLE", [1, 3], [])], [0], [3])  # fmt: skip
    for operator in ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"):
        graphs_case(operator.lower(), operator, [main, once], runs=3)
    add = GraphSpec([handle, x, x, x],
                    [NodeSpec("READ_VARIABLE", [0], [2]), NodeSpec("ADD", [1, 2], [3], {}),
                     NodeSpec("ASSIGN_VARIABLE", [0, 3], [])], [0, 1], [3])  # fmt: skip
    keep = GraphSpec([handle, x, x], [NodeSpec("NEG", [1], [2])], [0, 1], [2])
    main = GraphSpec([x, handle, x, ints(0, 1), real(), scalar(8.0, "float32"), flag, x, x],
                     [NodeSpec("CALL_ONCE", [], [], {"init_subgraph_index": 1}), NodeSpec("VAR_HANDLE", [], [1], named),
                      NodeSpec("READ_VARIABLE", [1], [2]), NodeSpec("SUM", [2, 3], [4], {}),
                      NodeSpec("GREATER", [4, 5], [6]),
                      NodeSpec("IF", [6, 1, 0], [7], {"then_subgraph_index": 2, "else_subgraph_index": 3}),
                      NodeSpec("READ_VARIABLE", [1], [8])], [0], [7, 8])  # fmt: skip
    graphs_case("if_variable", "IF", [main, once, add, keep], runs=3)
    count = Spec((), "int32")
    below = GraphSpec([count, handle, x, scalar(3), flag], [NodeSpec("LESS", [0, 3], [4])], [0, 1, 2], [4])
    body = GraphSpec([count, handle, x, scalar(1), count, x, x],
                     [NodeSpec("ADD", [0, 3], [4], {}), NodeSpec("READ_VARIABLE", [1], [5]),
                      NodeSpec("ADD", [5, 2], [6], {}), NodeSpec("ASSIGN_VARIABLE", [1, 6], [])],
                     [0, 1, 2], [4, 1, 2])  # fmt: skip
    main = GraphSpec([count, x, handle, count, handle, x, x],
                     [NodeSpec("CALL_ONCE", [], [], {"init_subgraph_index": 1}), NodeSpec("VAR_HANDLE", [], [2], named),
                      NodeSpec("WHILE", [0, 2, 1], [3, 4, 5], {"cond_subgraph_index": 2, "body_subgraph_index": 3}),
                      NodeSpec("READ_VARIABLE", [4], [6])], [0, 1], [3, 6])  # fmt: skip
    graphs_case("while_variable", "WHILE", [main, once, below, body], runs=3, high=3)


def _hybrid_cases() -> None:
    """Real data and integer weights; the data of each row or image has a scale of its own."""
    options = {"padding": 0, "stride_w": 1, "stride_h": 1, "fused_activation": 1}
    bias = constant(draw("hybrid bias", (6,)))
    per = np.linspace(0.002, 0.009, 6)
    weights = draw("hybrid conv", (6, 3, 3, 3), "int8", -127, 127)
    for label, scale in (("", 0.005), ("_channels", per)):
        case(f"conv_hybrid{label}", "CONV_2D", [real(2, 5, 6, 3), constant(weights, scale=scale), bias],
             [real(2, 5, 6, 6)], options)  # fmt: skip
        rows = constant(draw("hybrid dense", (6, 10), "int8", -127, 127), scale=scale)
        for asymmetric in (False, True):
            case(f"dense_hybrid{label}_{asymmetric}", "FULLY_CONNECTED", [real(3, 10), rows, bias], [real(3, 6)],
                 {"asymmetric_quantize_inputs": asymmetric})  # fmt: skip
    rows = draw("hybrid depthwise", (1, 3, 3, 6), "int8", -127, 127)
    case("depthwise_hybrid_channels", "DEPTHWISE_CONV_2D", [real(2, 5, 6, 3), constant(rows, scale=per, axis=3), bias],
         [real(2, 5, 6, 6)], {**options, "depth_multiplier": 2})  # fmt: skip
    case("depthwise_hybrid", "DEPTHWISE_CONV_2D", [real(2, 5, 6, 3), constant(rows, scale=0.005), bias],
         [real(2, 5, 6, 6)], {**options, "depth_multiplier": 2})  # fmt: skip
    right = constant(draw("hybrid matmul", (2, 5, 6), "int8", -127, 127), scale=0.006)
    for asymmetric in (False, True):
        case(f"batch_matmul_hybrid_{asymmetric}", "BATCH_MATMUL", [real(2, 4, 5), right], [real(2, 4, 6)],
             {"asymmetric_quantize_inputs": asymmetric})  # fmt: skip


def _rows(count: int, segments: list, indices: list, kind: str) -> list[dict]:
    """A dense level and a compressed one of a sparse matrix, its numbers in vectors of a kind."""
    number = {"Int32Vector": 1, "Uint16Vector": 2, "Uint8Vector": 3}[kind]
    parts = {"array_segments": (kind, {"values": segments}), "array_indices": (kind, {"values": indices})}
    types = {f"{name}_type": number for name in parts}
    return [{"format": 0, "dense_size": count}, {"format": 1, **types, **parts}]


def _sparse_cases() -> None:
    """Weights that are stored by rows, single elements or blocks."""
    for kind in ("Int32Vector", "Uint16Vector", "Uint8Vector"):
        levels = _rows(4, [0, 2, 2, 3, 5], [0, 3, 1, 2, 4], kind)
        weight = Spec((4, 5), "float32", draw("sparse rows", (5,)), None, 0, 0, False,
                      {"traversal_order": [0, 1], "dim_metadata": levels})  # fmt: skip
        case(f"densify_{kind}", "DENSIFY", [weight], [real(4, 5)], {})
    block = {"format": 0, "dense_size": 4}
    weight = Spec((3, 8), "float32", draw("sparse blocks", (3, 4)), None, 0, 0, False,
                  {"traversal_order": [0, 1, 2], "block_map": [1],
                   "dim_metadata": [*_rows(3, [0, 1, 3, 3], [1, 0, 1], "Int32Vector"), block]})  # fmt: skip
    case("densify_blocks", "DENSIFY", [weight], [real(3, 8)], {})


def _int16_cases() -> None:
    """Activations of 16 bits, weights of 8."""
    per = np.linspace(0.002, 0.009, 6)
    window = {"padding": 0, "stride_w": 2, "stride_h": 1, "fused_activation": 1}
    # Sums of the last one do not fit into 32 bits.
    for label, channels, kind in (("", 3, "int64"), ("_bias32", 3, "int32"), ("_none", 3, ""), ("_deep", 90, "int64")):
        values, typed = None, {"quantized_bias_type": 2} if kind == "int32" else {}
        if kind:
            values = constant(draw(f"int16{label}", (6,), kind, -90000, 90000), scale=per * 0.0002)
        scale = 0.0004 * channels
        w = constant(draw(f"conv int16{label}", (6, 3, 3, channels), "int8", -127, 127), scale=per)
        if kind:
            case(f"conv_int16{label}", "CONV_2D", [i16(1, 4, 5, channels), w, values], [i16(1, 4, 3, 6, scale=scale)],
                 {**window, **typed})  # fmt: skip
        w = constant(draw(f"dense int16{label}", (6, channels * 9), "int8", -127, 127), scale=per)
        case(f"dense_int16{label}", "FULLY_CONNECTED", [i16(3, channels * 9), w, values], [i16(3, 6, scale=scale)],
             typed)  # fmt: skip
    w = constant(draw("depthwise int16", (1, 3, 3, 6), "int8", -127, 127), scale=per, axis=3)
    bias = constant(draw("int16", (6,), "int64", -90000, 90000), scale=per * 0.0002)
    case("depthwise_int16", "DEPTHWISE_CONV_2D", [i16(1, 4, 5, 3), w, bias], [i16(1, 4, 3, 6, scale=0.0005)],
         {**window, "depth_multiplier": 2})  # fmt: skip
    w = constant(draw("transposed int16", (6, 3, 3, 3), "int8", -127, 127), scale=per)
    case("transpose_conv_int16", "TRANSPOSE_CONV", [ints(1, 8, 10, 6), w, i16(1, 4, 5, 3), bias],
         [i16(1, 8, 10, 6, scale=0.0008)], {"padding": 0, "stride_w": 2, "stride_h": 2})  # fmt: skip
    for operator, scale in (("ADD", 0.0005), ("SUB", 0.0005), ("MUL", 0.002)):
        options = {} if operator == "MUL" else {"pot_scale_int16": False}
        case(f"{operator.lower()}_int16", operator, [i16(2, 30, 5), i16(30, 5, scale=0.0003)],
             [i16(2, 30, 5, scale=scale)], {**options, "fused_activation": 0})  # fmt: skip
    for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        options = {"padding": 0, "stride_w": 2, "stride_h": 2, "filter_height": 3, "filter_width": 3}
        case(f"{operator.lower()}_int16", operator, [i16(2, 7, 9, 3)], [i16(2, 4, 5, 3)], options)
    for scale in (0.0002, 2.0**-12):
        label = "pot" if scale == 2.0**-12 else "any"
        for operator in ("LOGISTIC", "TANH"):
            case(f"{operator.lower()}_int16_{label}", operator, [i16(3, 700, scale=scale)],
                 [i16(3, 700, scale=1 / 32768)])  # fmt: skip
    case("softmax_int16", "SOFTMAX", [i16(9, 40)], [i16(9, 40, scale=1 / 32768)], {"beta": 0.8})
    case("leaky_relu_int16", "LEAKY_RELU", [i16(3, 170)], [i16(3, 170, scale=0.0003)], {"alpha": 0.2})
    case("relu_int16", "RELU", [i16(3, 170)], [i16(3, 170, scale=0.0001)])
    case("gelu_int16", "GELU", [i16(3, 700)], [i16(3, 700)], {"approximate": False})
    case("gelu_int16_tanh", "GELU", [i16(3, 700)], [i16(3, 700)], {"approximate": True})
    case("exp_int16", "EXP", [i16(3, 700, scale=0.0001)], [i16(3, 700, scale=0.001)])
    case("abs_int16", "ABS", [i16(3, 170)], [i16(3, 170, scale=0.0003)])
    for operator, scale in (("LOG", 0.0001), ("SQRT", 0.0001), ("RSQRT", 0.002)):
        case(f"{operator.lower()}_int16", operator, [i16(3, 700)], [i16(3, 700, scale=scale)], low=1)
    for operator in ("LOG", "SQRT"):
        case(f"{operator.lower()}_int8", operator, [i8(3, 170, zero=-128)], [i8(3, 170, scale=0.02, zero=-9)], low=-120)
    case("quantize_int16", "QUANTIZE", [real(3, 100)], [i16(3, 100)], low=-7.0, high=7.0)
    case("requantize_int16_int8", "QUANTIZE", [i16(3, 100)], [i8(3, 100)])
    case("requantize_int8_int16", "QUANTIZE", [i8(3, 100)], [i16(3, 100)])
    case("dequantize_int16", "DEQUANTIZE", [i16(3, 100)], [real(3, 100)])
    case("batch_matmul_int16", "BATCH_MATMUL", [i16(2, 4, 5), i16(2, 5, 6, scale=0.0001)],
         [i16(2, 4, 6, scale=0.001)], {})  # fmt: skip
    case("mean_int16", "MEAN", [i16(2, 3, 5, 50), ints(1, 2)], [i16(2, 1, 1, 50, scale=0.0001)], {"keep_dims": True})
    case("mean_int16_last", "MEAN", [i16(2, 3, 50), ints(2)], [i16(2, 3, scale=0.0001)], {"keep_dims": False})
    case("concat_int16", "CONCATENATION", [i16(2, 3), i16(2, 4)], [i16(2, 7)], {"axis": 1})
    case("pad_int16", "PAD", [i16(2, 3), constant(np.array([[0, 1], [2, 0]], "int32"))], [i16(3, 5)])
    case("maximum_int16", "MAXIMUM", [i16(3, 5), i16(1, 5)], [i16(3, 5)])
    case("resize_bilinear_int16", "RESIZE_BILINEAR", [i16(2, 4, 5, 3), ints(7, 9)], [i16(2, 7, 9, 3)],
         {"half_pixel_centers": True})  # fmt: skip


def _detection_cases() -> None:
    count, classes = 40, 4
    state = np.random.RandomState(7)
    anchors = np.concatenate([state.uniform(0.2, 0.8, (count, 2)), state.uniform(0.1, 0.4, (count, 2))], 1)
    options = {"max_detections": 10, "max_classes_per_detection": 1, "num_classes": classes - 1, "y_scale": 10.0,
               "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, "nms_score_threshold": 0.55, "nms_iou_threshold": 0.4,
               "use_regular_nms": 0}  # fmt: skip
    regular = {"use_regular_nms": 1, "detections_per_class": 4}
    few = {**regular, "nms_score_threshold": 0.97, "nms_iou_threshold": 0.1}
    forms = (("", {}), ("_few", {"nms_score_threshold": 0.93}), ("_regular", regular), ("_regular_few", few))
    for label, more in forms:
        chosen = {**options, **more}
        most = chosen["max_detections"]
        case(f"detection{label}", "TFLite_Detection_PostProcess",
             [real(1, count, 4), real(1, count, classes), constant(anchors.astype("float32"))],
             [real(1, most, 4), real(1, most), real(1, most), real(1)], custom=flexbuffer_map(chosen),
             low=0.0, high=1.0)  # fmt: skip


for _family in (_integer_recurrent_cases, _detection_cases, _hybrid_cases, _sparse_cases, _mediapipe_cases,
                _conv_cases, _transposed_cases, _matrix_cases, _pool_cases, _normal_cases, _unary_cases, _binary_cases,
                _quantize_cases, _shape_cases, _index_cases, _reduce_cases, _image_cases, _recurrent_cases,
                _control_cases, _variable_cases, _int16_cases, _found_cases, _late_cases):  # fmt: skip
    _family()
