"""Small Caffe2 operators and networks as data: what goes in, not what comes out. NumPy is all that is needed, so that
the reference can be made where Caffe2 runs."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np


class Step(NamedTuple):
    """An operator of a net."""

    op: str
    inputs: list[str]
    outputs: list[str]
    args: dict[str, Any] = {}


class Case(NamedTuple):
    """A net: inputs of the run, weights, and the steps; all outputs of the last step are compared."""

    feeds: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    steps: list[Step]

    @property
    def outputs(self) -> list[str]:
        return self.steps[-1].outputs


def _draw(seed: str, *shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> np.ndarray:
    rng = np.random.RandomState(zlib.crc32(seed.encode()) % (1 << 31))
    if dtype.startswith("float"):
        return rng.uniform(low, high, shape).astype(dtype)
    if dtype == "bool":
        return rng.uniform(0, 1, shape) < 0.5
    return rng.randint(int(low), int(high) + 1, shape).astype(dtype)


CASES: dict[str, Case] = {}


def one(name: str, *shapes, args=None, outputs: int = 1, constants=None, **draw) -> None:
    """A case of one operator, whose name comes before a slash; shapes are those of its inputs."""
    op = name.split("/")[0]
    feeds, weights, names = {}, {}, []
    for i, shape in enumerate(shapes):
        names.append(f"x{i}")
        feeds[f"x{i}"] = shape if isinstance(shape, np.ndarray) else _draw(f"{name}{i}", *shape, **draw)
    for i, value in enumerate(constants or []):
        names.append(f"w{i}")
        weights[f"w{i}"] = value if isinstance(value, np.ndarray) else _draw(f"{name}w{i}", *value)
    made = [f"y{i}" for i in range(outputs)]
    CASES[name] = Case(feeds, weights, [Step(op, names, made, args or {})])


X4 = (2, 4, 7, 9)
L4 = (2, 7, 9, 4)

# -- convolutions and pooling
one("Conv", X4, constants=[(6, 4, 3, 3), (6,)], args={"kernel": 3})
one(
    "Conv/strides_pads",
    X4,
    constants=[(6, 4, 3, 2), (6,)],
    args={"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1, "pad_t": 1, "pad_l": 0, "pad_b": 2, "pad_r": 1},
)
one(
    "Conv/no_bias_dilated",
    X4,
    constants=[(5, 4, 3, 3)],
    args={"kernels": [3, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1]},
)
one("Conv/groups", X4, constants=[(6, 2, 3, 3), (6,)], args={"kernel": 3, "group": 2, "pad": 1, "stride": 2})
one("Conv/depthwise", X4, constants=[(4, 1, 3, 3), (4,)], args={"kernel": 3, "group": 4, "pad": 1})
one("Conv/same", X4, constants=[(3, 4, 4, 4), (3,)], args={"kernel": 4, "stride": 3, "legacy_pad": 2})
one("Conv/valid", X4, constants=[(3, 4, 2, 2), (3,)], args={"kernel": 2, "legacy_pad": 1})
one("Conv/last", L4, constants=[(6, 3, 3, 4), (6,)], args={"kernel": 3, "order": "NHWC", "pad": 1, "stride": 2})
one("Conv/last_groups", L4, constants=[(6, 3, 3, 2), (6,)], args={"kernel": 3, "order": "NHWC", "group": 2})
one(
    "Conv/volume",
    (1, 2, 4, 5, 6),
    constants=[(3, 2, 2, 3, 2), (3,)],
    args={"kernels": [2, 3, 2], "strides": [1, 2, 1], "pads": [1, 0, 1, 0, 1, 0]},
)
one("Conv/line", (2, 3, 11), constants=[(4, 3, 3), (4,)], args={"kernels": [3], "strides": [2], "pads": [1, 1]})
one("Conv1D", (2, 3, 11), constants=[(4, 3, 3), (4,)], args={"kernels": [3]})
one("Conv2D", X4, constants=[(2, 4, 3, 3), (2,)], args={"kernels": [3, 3]})
one("Conv3D", (1, 2, 4, 5, 6), constants=[(3, 2, 2, 2, 2), (3,)], args={"kernels": [2, 2, 2]})
one("ConvTranspose", X4, constants=[(4, 3, 3, 3), (3,)], args={"kernel": 3, "stride": 2})
one(
    "ConvTranspose/adj",
    X4,
    constants=[(4, 3, 3, 4), (3,)],
    args={"kernels": [3, 4], "strides": [2, 3], "pads": [1, 1, 1, 1], "adjs": [1, 2]},
)
one("ConvTranspose/no_bias", X4, constants=[(4, 2, 2, 2)], args={"kernel": 2, "stride": 2})
one(
    "ConvTranspose/last", L4, constants=[(4, 3, 3, 3), (3,)], args={"kernel": 3, "stride": 2, "pad": 1, "order": "NHWC"}
)
for _op in ("MaxPool", "AveragePool"):
    one(_op, X4, args={"kernel": 3, "stride": 2})
    one(f"{_op}/padded", X4, args={"kernel": 3, "stride": 2, "pad": 1})
    one(
        f"{_op}/odd",
        X4,
        args={
            "kernel_h": 2,
            "kernel_w": 3,
            "stride_h": 3,
            "stride_w": 2,
            "pad_t": 0,
            "pad_l": 1,
            "pad_b": 1,
            "pad_r": 2,
        },
    )
    one(f"{_op}/global", X4, args={"global_pooling": 1})
    one(f"{_op}/legacy", (1, 2, 8, 7), args={"kernel": 3, "stride": 2, "legacy_pad": 3})
    one(f"{_op}/legacy_padded", (1, 2, 8, 7), args={"kernel": 3, "stride": 2, "pad": 1, "legacy_pad": 3})
    one(f"{_op}/same", X4, args={"kernel": 3, "stride": 2, "legacy_pad": 2})
    one(f"{_op}/last", L4, args={"kernel": 3, "stride": 2, "order": "NHWC", "pad": 1})
    one(f"{_op}/volume", (1, 2, 4, 5, 6), args={"kernels": [2, 3, 2], "strides": [1, 2, 2], "pads": [1, 0, 0, 0, 1, 1]})
    one(f"{_op}1D", (2, 3, 11), args={"kernels": [3], "strides": [2]})
    one(f"{_op}2D", X4, args={"kernels": [3, 2]})
    one(f"{_op}3D", (1, 2, 4, 5, 6), args={"kernels": [2, 2, 2]})
one("AveragePool/counted", X4, args={"kernel": 3, "stride": 2, "pad": 1, "count_include_pad": 1})
one("LpPool", X4, args={"kernel": 3, "stride": 2, "pad": 1, "p": 3.0})

# -- single elements
for _op in ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Negative", "Floor", "Ceil", "Sign", "Sin", "Cos", "Tan",
            "Atan", "Sinh", "Cosh", "Copy", "StopGradient", "Alias", "AliasWithName", "Sqr", "Cube", "Softplus",
            "Softsign", "Swish", "HardSigmoid",
            "ThresholdedRelu", "Elu", "Selu", "LeakyRelu", "ReluN", "Gelu", "Erf", "Cbrt",
            "EnsureCPUOutput", "EnsureDense"):  # fmt: skip
    one(_op, (3, 5))
for _op in ("Log", "Sqrt", "Rsqrt", "Reciprocal"):
    one(_op, (3, 5), low=0.1, high=4.0)
for _op in ("Asin", "Acos"):
    one(_op, (3, 5), low=-0.95, high=0.95)
# Copies from and to a GPU, which the reference does not have.
for _op in ("CopyGPUToCPU", "CopyCPUToGPU", "CopyFromCPUInput"):
    one(_op, (3, 5))
one("Logit", (3, 5), low=-0.1, high=1.1)
one("Logit/eps", (3, 5), low=-0.1, high=1.1, args={"eps": 0.05})
one("Round", np.float32([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49, -0.51]]))
one("Scale", (3, 5), args={"scale": 2.5})
one("Clip", (3, 5), args={"min": -0.5, "max": 1.25})
one("Clip/one_side", (3, 5), args={"min": -0.25})
one("Clip/plain", (3, 5))
one("ReluN/n", (3, 5), args={"n": 1.0})
one("Elu/alpha", (3, 5), args={"alpha": 0.3})
one("Selu/own", (3, 5), args={"alpha": 1.1, "scale": 1.7})
one("LeakyRelu/alpha", (3, 5), args={"alpha": 0.3})
one("HardSigmoid/own", (3, 5), args={"alpha": 0.4, "beta": 0.3})
one("ThresholdedRelu/alpha", (3, 5), args={"alpha": 0.4})
one("Gelu/fast", (3, 5), args={"fast_gelu": 1})
one("PRelu", X4, constants=[(4,)])
one("PRelu/one", X4, constants=[(1,)])
one("PRelu/last", L4, constants=[(4,)], args={"order": "NHWC"})
one("Not", (3, 5), dtype="bool")
one("Mod", (3, 5), dtype="int64", low=-20, high=20, args={"divisor": 7})
one("Mod/sign", (3, 5), dtype="int64", low=-20, high=20, args={"divisor": 7, "sign_follow_divisor": 1})
one("Dropout", (3, 5), args={"is_test": 1, "ratio": 0.3})
for _to in (2, 10, 13, 5):
    one(f"Cast/{_to}", (3, 5), args={"to": _to})
one("Cast/back", (3, 5), dtype="int32", low=-9, high=9, args={"to": 1})
one("Cast/text", (3, 5), dtype="int32", low=-9, high=9, args={"to": "float"})
one("FloatToHalf", (3, 5))
CASES["HalfToFloat"] = Case(
    {"x": _draw("half", 3, 5)}, {}, [Step("FloatToHalf", ["x"], ["h"]), Step("HalfToFloat", ["h"], ["y"])]
)
one("Pow", (3, 5), args={"exponent": 2.0})
one("Pow/root", (3, 5), low=0.1, high=3, args={"exponent": 0.5})
one("Pow/pair", (3, 5), (3, 5), low=0.1, high=3)

# -- pairs
for _op in ("Add", "Sub", "Mul", "Div"):
    one(_op, (2, 3, 4, 5), (2, 3, 4, 5), low=0.5, high=2)
    one(f"{_op}/numpy", (2, 3, 4, 5), (3, 1, 5), low=0.5, high=2)
    one(f"{_op}/axis", (2, 3, 4, 5), (3, 4), low=0.5, high=2, args={"broadcast": 1, "axis": 1})
    one(f"{_op}/suffix", (2, 3, 4, 5), (4, 5), low=0.5, high=2, args={"broadcast": 1})
one("Add/channel", (2, 3, 4, 5), (3,), args={"broadcast": 1, "axis_str": "C", "order": "NCHW"})
one("Mul/scalar", (2, 3, 4, 5), (1,), args={"broadcast": 1})
one("Div/whole", np.int32([[7, -7, 9]]), np.int32([[2, 2, -4]]))
for _op in ("EQ", "NE", "LT", "LE", "GT", "GE"):
    one(_op, (3, 5), (3, 5), dtype="int32", low=0, high=2)
for _op in ("And", "Or", "Xor"):
    one(_op, (3, 5), (3, 5), dtype="bool")
for _op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    one(_op, (3, 5), (3, 5), dtype="int32", low=0, high=99)
one("Where", _draw("where", 3, 5, dtype="bool"), (3, 5), (3, 5))
one("Where/rows", _draw("where", 3, dtype="bool"), (3, 5), (3, 5), args={"broadcast_on_rows": 1})
for _op in ("Sum", "Max", "Min", "Mean"):
    one(_op, (3, 5), (3, 5), (3, 5))
one("Sum/one", (3, 5))
one("WeightedSum", (3, 5), (1,), (3, 5), (1,))

# -- matrices
one("FC", (3, 4), constants=[(6, 4), (6,)])
one("FC/flat", (3, 2, 2), constants=[(6, 4), (6,)])
one("FC/axis", (3, 2, 4), constants=[(6, 4), (6,)], args={"axis": 2})
one("FCTransposed", (3, 4), constants=[(4, 6), (6,)])
one("MatMul", (3, 4), (4, 5))
one("MatMul/turned", (4, 3), (5, 4), args={"trans_a": 1, "trans_b": 1})
one("MatMul/axes", (3, 2, 2), (4, 5, 1), args={"axis_a": 1, "axis_b": 1})
one("BatchMatMul", (2, 3, 4), (2, 4, 5))
one("BatchMatMul/turned", (2, 4, 3), (2, 5, 4), args={"trans_a": 1, "trans_b": 1})
one("BatchMatMul/broadcast", (2, 3, 3, 4), (4, 5), args={"broadcast": 1})
one("Softmax", (3, 5))
one("Softmax/flat", (3, 2, 5))
one("Softmax/axis", (3, 2, 5), args={"axis": 2})
one("LRN", X4, args={"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.5})
one("LRN/last", L4, args={"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.5, "order": "NHWC"})

# -- images
one("ResizeNearest", (1, 2, 5, 7), args={"height_scale": 2.0, "width_scale": 1.7})
one("ResizeNearest/smaller", (1, 2, 9, 7), args={"height_scale": 0.4, "width_scale": 0.7})
one("ResizeNearest/last", (1, 5, 7, 2), args={"height_scale": 2.0, "width_scale": 1.5, "order": "NHWC"})
one("ResizeNearest3D", (1, 2, 3, 5, 4), args={"temporal_scale": 2.0, "height_scale": 2.0, "width_scale": 2.0})
one("UpsampleNearest", (1, 2, 3, 4), args={"scale": 3})
one("UpsampleBilinear", (1, 2, 5, 4), args={"height_scale": 2.0, "width_scale": 1.5})
one("ChannelShuffle", (2, 6, 3, 4), args={"group": 3, "kernel": 1})
one("ChannelShuffle/last", (2, 3, 4, 6), args={"group": 2, "kernel": 1, "order": "NHWC"})
one("PadImage", (1, 2, 5, 4), args={"pad_t": 1, "pad_l": 2, "pad_b": 3, "pad_r": 0, "value": 1.5})
one("PadImage/reflect", (1, 2, 5, 4), args={"pad": 2, "mode": "reflect"})
one("PadImage/edge", (1, 5, 4, 2), args={"pad": 2, "mode": "edge", "order": "NHWC"})
one("SpaceToBatch", (1, 3, 4, 6), args={"block_size": 2})
one("SpaceToBatch/pad", (1, 3, 4, 4), args={"block_size": 2, "pad": 1})
one("BatchToSpace", (4, 3, 2, 3), args={"block_size": 2})
one(
    "RoIPool",
    (2, 3, 8, 9),
    np.float32([[0, 1, 1, 6, 7], [1, 0, 2, 5, 5.5], [1, 4, 4, 20, 30]]),
    args={"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.8, "is_test": 1},
)
one(
    "RoIAlign",
    (2, 3, 8, 9),
    np.float32([[0, 1, 1, 6, 7], [1, 0, 2, 5, 5.5]]),
    args={"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.8, "sampling_ratio": 2},
)
one(
    "RoIAlign/corners",
    (1, 3, 8, 9),
    np.float32([[1, 1, 6, 7]]),
    args={"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1.0, "sampling_ratio": 2},
)
one(
    "RoIAlign/aligned",
    (1, 3, 8, 9),
    np.float32([[0, 1, 1, 6, 7]]),
    args={"pooled_h": 2, "pooled_w": 2, "spatial_scale": 0.5, "sampling_ratio": 2, "aligned": 1},
)

# -- normalizations
_STATISTICS = [(4,), (4,), (4,), _draw("variance", 4, low=0.2)]
one("SpatialBN", X4, constants=_STATISTICS, args={"is_test": 1, "epsilon": 1e-3})
one("SpatialBN/last", L4, constants=_STATISTICS, args={"is_test": 1, "order": "NHWC"})
one("AffineChannel", X4, constants=[(4,), (4,)])
one("AffineChannel/last", L4, constants=[(4,), (4,)], args={"order": "NHWC"})
one("InstanceNorm", X4, constants=[(4,), (4,)], args={"epsilon": 1e-3})
one("InstanceNorm/last", L4, constants=[(4,), (4,)], args={"order": "NHWC"})
one("GroupNorm", X4, constants=[(4,), (4,)], args={"group": 2})
one("GroupNorm/last", L4, constants=[(4,), (4,)], args={"group": 2, "order": "NHWC"})
one("LayerNorm", (3, 4, 5), outputs=3)
one("LayerNorm/axis", (3, 4, 5), outputs=3, args={"axis": 2, "epsilon": 1e-3})
one("LayerNorm/affine", (3, 4, 5), constants=[(5,), (5,)], outputs=3, args={"axis": 2, "elementwise_affine": 1})
one("Normalize", (3, 4, 5))
one("Normalize/axis", (3, 4, 5), args={"axis": 1})
one("NormalizeL1", (3, 5), args={"axis": 1})
one("NormalizePlanarYUV", (1, 3, 4, 5), constants=[(1, 3), _draw("deviation", 1, 3, low=0.5)])
one("LpNorm", (3, 4))
one("LpNorm/one", (3, 4), args={"p": 1, "average": 1})

# -- reductions
for _op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"):
    one(_op, (3, 4, 5), args={"axes": [0, 2], "keepdims": 1})
    one(f"{_op}/dropped", (3, 4, 5), args={"axes": [1], "keepdims": 0})
for _op in ("ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax", "ReduceBackSum", "ReduceBackMean", "ReduceBackMax"):
    one(_op, (3, 4, 5))
    one(f"{_op}/two", (3, 4, 5), args={"num_reduce_dim": 2})
for _op in ("ArgMax", "ArgMin"):
    one(_op, (3, 4, 5))
    one(f"{_op}/dropped", (3, 4, 5), args={"axis": 1, "keepdims": 0})
one("SumElements", (3, 4))
one("SumElements/average", (3, 4), args={"average": 1})
one("SumSqrElements", (3, 4))
one("RowwiseMax", (2, 3, 4))
one("ColwiseMax", (2, 3, 4))
one("DotProduct", (3, 4), (3, 4))
one("CosineSimilarity", (3, 4), (3, 4))
one("SquaredL2Distance", (3, 4), (3, 4))
one("L1Distance", (3, 4), (3, 4))
one("TopK", (3, 7), outputs=2, args={"k": 3})
one("TopK/axis", (3, 7, 2), outputs=3, args={"k": 2, "axis": 1})

# -- shapes
one("Reshape", (2, 3, 4), outputs=2, args={"shape": [0, -1, 2]})
one("Reshape/input", (2, 3, 4), constants=[np.int64([4, -1])], outputs=2)
one("ResizeLike", (2, 6), (3, 4))
one("Flatten", (2, 3, 4))
one("Flatten/axis", (2, 3, 4), args={"axis": 2})
one("FlattenToVec", (2, 3, 4))
one("Transpose", (2, 3, 4))
one("Transpose/axes", (2, 3, 4), args={"axes": [1, 2, 0]})
one("NCHW2NHWC", (2, 3, 4, 5))
one("NHWC2NCHW", (2, 3, 4, 5))
one("Squeeze", (2, 1, 3, 1), args={"dims": [1, 3]})
one("ExpandDims", (2, 3), args={"dims": [0, 2]})
one("MergeDim", (2, 3, 4))
one("PrependDim", (6, 4), args={"dim_size": 2})
one("Slice", (4, 5, 6), args={"starts": [0, 0, 2], "ends": [-1, -1, -2]})
one("Slice/inputs", (4, 5), constants=[np.int32([0, 1]), np.int32([-1, 3])])
one("Concat", (2, 3, 4), (2, 2, 4), outputs=2)
one("Concat/axis", (2, 3), (2, 3), outputs=2, args={"axis": 0})
one("Concat/added", (2, 3), (2, 3), outputs=2, args={"axis": 1, "add_axis": 1})
one("Concat/last", (1, 2, 2, 3), (1, 2, 2, 1), outputs=2, args={"order": "NHWC"})
one("DepthConcat", (2, 3, 4, 1), (2, 2, 4, 1), outputs=2, args={"order": "NCHW"})
one("Split", (2, 6, 2), outputs=3)
one("Split/sizes", (2, 6, 2), outputs=2, args={"axis": 1, "split": [2, 4]})
one("Split/input", (5, 2), constants=[np.int32([1, 4])], outputs=2, args={"axis": 0})
one("DepthSplit", (1, 6, 2, 2), outputs=2, args={"order": "NCHW"})
one("Tile", (2, 3), args={"tiles": 3, "axis": 1})
one("Tile/inputs", (2, 3), constants=[np.int32([2]), np.int32([0])])
one("Expand", (3, 1), constants=[np.int64([2, 3, 4])])
one("Shape", (2, 3, 4))
one("Shape/axes", (2, 3, 4), args={"axes": [2, 0]})
one("Size", (2, 3, 4))
one("Gather", (5, 3), np.int32([[4, 0], [2, 2]]))
one("Gather/axis", (2, 5), np.int64([4, 0, 1]), args={"axis": 1})
one("BatchGather", (2, 5, 3), np.int32([4, 0]))
one("OneHot", np.int64([2, 0, 3]), constants=[np.int64([4])])
one("BatchOneHot", np.int64([[1, 5], [2, 6], [1, 7]]), constants=[np.int32([2, 3]), np.int64([1, 2, 5, 6, 7])])
one("LengthsToShape", constants=[np.int32([3, 3, 3, 3])])

# -- fills
one("ConstantFill", args={"shape": [2, 3], "value": 1.5})
one("ConstantFill/whole", args={"shape": [2], "value": 7, "dtype": 2})
one("ConstantFill/like", (2, 3), args={"value": 2.5, "extra_shape": [2]})
one("ConstantFill/shape", constants=[np.int64([3, 2])], args={"input_as_shape": 1, "value": 1.0})
one("GivenTensorFill", args={"shape": [2, 2], "values": [1.5, -2.0, 3.25, 0.0]})
one("GivenTensorIntFill", args={"shape": [3], "values": [1, -2, 3]})
one("GivenTensorInt64Fill", args={"shape": [3], "values": [1, -2, 1 << 40]})
one("GivenTensorInt16Fill", args={"shape": [3], "values": [1, -2, 3]})
one("GivenTensorBoolFill", args={"shape": [3], "values": [1, 0, 1]})
one("GivenTensorDoubleFill", args={"shape": [2], "values": [1.5, -2.0]})
one("GivenTensorByteStringToUInt8Fill", args={"shape": [4], "values": [b"\x00\x01\xfe\xff"]})
one("Float16ConstantFill", args={"shape": [2, 2], "value": 1.25})
one("DiagonalFill", args={"shape": [3, 4], "value": 2.0})
one("RangeFill", args={"shape": [5]})
one("Range", constants=[np.float32([1]), np.float32([4]), np.float32([0.75])])
one("Range/end", constants=[np.int32([4])])


# -- networks


# -- integers of 8 bits
_IMAGE = (2, 5, 6, 4)


def _int8(name: str, *shapes, args=None, weights=(), bias: int = 0, scale: float = 0.07, zero: int = 117) -> None:
    """Inputs are quantized with scales of their own, weights are bytes of the net."""
    steps, names = [], []
    apart = not name.startswith("Int8Concat")
    for i in range(len(shapes)):
        own = {"Y_scale": 0.013 + 0.004 * i * apart, "Y_zero_point": 120 + 9 * i * apart}
        steps.append(Step("Int8Quantize", [f"x{i}"], [f"q{i}"], own))
        names.append(f"q{i}")
    for i, shape in enumerate(weights):
        data = _draw(f"{name}w{i}", *shape, low=0, high=255, dtype="int32").astype("uint8")
        steps.append(
            Step(
                "Int8GivenTensorFill",
                [],
                [f"w{i}"],
                {"values": data.tobytes(), "shape": list(shape), "Y_scale": 0.0043, "Y_zero_point": 131},
            )
        )
        names.append(f"w{i}")
    if bias:
        values = _draw(f"{name}b", bias, low=-900, high=900, dtype="int32")
        steps.append(
            Step(
                "Int8GivenIntTensorFill",
                [],
                ["b"],
                {"values": values.tolist(), "shape": [bias], "Y_scale": 0.013 * 0.0043},
            )
        )
        names.append("b")
    said = {} if scale == 0 else {"Y_scale": scale, "Y_zero_point": zero}
    last = Step(name.split("/")[0], names, ["y"], {**(args or {}), **said})
    feeds = {f"x{i}": _draw(f"{name}{i}", *shape) for i, shape in enumerate(shapes)}
    CASES[name] = Case(feeds, {}, [*steps, last])


_LAST = {"order": "NHWC"}
_int8("Int8Conv", _IMAGE, args={"kernel": 3, **_LAST}, weights=[(6, 3, 3, 4)], bias=6)
_int8("Int8Conv/groups", _IMAGE, args={"kernel": 3, "group": 2, "pad": 1, "stride": 2, **_LAST}, weights=[(6, 3, 3, 2)])
_int8("Int8Conv/depthwise", _IMAGE, args={"kernel": 3, "group": 4, "pad": 1, **_LAST}, weights=[(4, 3, 3, 1)], bias=4)
_int8("Int8ConvRelu", _IMAGE, args={"kernel": 1, **_LAST}, weights=[(5, 1, 1, 4)], bias=5)
_int8("Int8FC", (3, 2, 5), weights=[(7, 10)], bias=7)
_int8("Int8FCRelu", (3, 10), weights=[(7, 10)], bias=7)
for _op in ("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu"):
    _int8(_op, (3, 5, 4), (3, 5, 4), scale=0.021)
_int8("Int8AveragePool", _IMAGE, args={"kernel": 3, "stride": 2, **_LAST}, scale=0.011, zero=99)
_int8("Int8AveragePoolRelu", _IMAGE, args={"global_pooling": 1, **_LAST}, scale=0.011, zero=99)
for _op in ("Int8MaxPool", "Int8MaxPoolRelu"):
    _int8(_op, _IMAGE, args={"kernel": 3, "stride": 2, "pad": 1, **_LAST}, scale=0)
_int8("Int8Sigmoid", (3, 7), scale=1 / 256, zero=0)
_int8("Int8Softmax", (3, 7), scale=1 / 256, zero=0)
_int8("Int8LeakyRelu", (3, 7), args={"alpha": 0.25}, scale=0.02)
_int8("Int8Dequantize", (3, 7), scale=0)
_int8("Int8Relu", (3, 7), scale=0)
_int8("Int8Reshape", (3, 8), args={"shape": [6, 4]}, scale=0.013, zero=120)
_int8("Int8Flatten", _IMAGE, scale=0)
_int8("Int8Slice", (4, 9), args={"starts": [1, 2], "ends": [-1, 7]}, scale=0)
_int8("Int8Transpose", (2, 3, 5), args={"axes": [2, 0, 1]}, scale=0)
_int8("Int8ChannelShuffle", (1, 2, 3, 6), args={"group": 3, **_LAST}, scale=0)
_int8("Int8ResizeNearest", _IMAGE, args={"height_scale": 2.0, "width_scale": 3.0, **_LAST}, scale=0)
_int8("Int8Concat", (2, 3), (2, 5), args={"axis": 1}, scale=0)
CASES["Int8Quantize"] = Case(
    {"x0": _draw("quantize", 5, 9, low=-4, high=4)},
    {},
    [Step("Int8Quantize", ["x0"], ["y"], {"Y_scale": 0.02, "Y_zero_point": 100})],
)

# -- recurrent networks


def _lstm_case(name: str, rank: int, **unit) -> None:
    """An LSTM as Caffe2's helpers write it: the input is projected before, a step adds the product of the state."""
    steps, batch, size = 4, 3, 2
    state = {1: (size,), 2: (batch, size), 3: (1, batch, size)}[rank]
    feeds = {"x": _draw(name, steps, batch, 4 * size), "lengths": np.array([4, 2, 3], "int32"),
             "h0": _draw(f"{name}h", *state), "c0": _draw(f"{name}c", *state)}  # fmt: skip
    lengths = ["lengths"] if unit.get("sequence_lengths", 1) else []
    net = [
        Step("FC", ["h_prev", "w", "b"], ["own"], {"axis": 2}),
        Step("Sum", ["own", "x_t"], ["gates"], {}),
        Step("LSTMUnit", ["h_prev", "c_prev", "gates", *lengths, "timestep"], ["h_t", "c_t"], unit),
    ]
    links = [("h_prev", "h", 0), ("h_t", "h", 1), ("c_prev", "c", 0), ("c_t", "c", 1), ("x_t", "x", 0)]
    aliases = [("h", "h_all", 1), ("h", "h_last", -1), ("c", "c_last", -1)]
    args = {"initial_recurrent_state_ids": [2, 3], "recurrent_states": [b"h", b"c"], "timestep": "timestep",
            "step_net": net, "link_internal": [k[0].encode() for k in links],
            "link_external": [k[1].encode() for k in links], "link_offset": [k[2] for k in links],
            "alias_src": [k[0].encode() for k in aliases], "alias_dst": [k[1].encode() for k in aliases],
            "alias_offset": [k[2] for k in aliases]}  # fmt: skip
    weights = {"w": _draw(f"{name}w", 4 * size, size), "b": _draw(f"{name}b", 4 * size)}
    made = ["h_all", "h_last", "c_last"]
    kept = Step("Concat", made, ["y", "parts"], {"axis": 0})
    CASES[name] = Case(
        feeds,
        weights,
        [Step("RecurrentNetwork", ["x", "lengths", "h0", "c0", "w", "b"], [*made, "memory"], args), kept],
    )


one("LSTMUnit", (1, 3, 2), (1, 3, 2), (1, 3, 8), np.array([4, 2, 3], "int32"), np.array([2], "int32"), outputs=2)
_lstm_case("RecurrentNetwork", 2)
_lstm_case("RecurrentNetwork/vector", 1, forget_bias=0.5, drop_states=1)
_lstm_case("RecurrentNetwork/whole", 3, sequence_lengths=0)

# -- regions
_CELLS = np.array([[-6, -9, 7, 10], [-3, -3, 4, 4], [-12, -5, 13, 6]], "float32")


def _scores(name: str, *shape: int) -> np.ndarray:
    """Scores that differ, so that they have one order."""
    order = np.random.RandomState(zlib.crc32(name.encode()) % (1 << 31)).permutation(int(np.prod(shape)))
    return ((order + 1) / (order.size + 1)).reshape(shape).astype("float32")


def _region_cases() -> None:
    for name, args in (
        ("GenerateProposals", {"pre_nms_topN": 30, "post_nms_topN": 8, "nms_thresh": 0.5, "min_size": 5.0}),
        (
            "GenerateProposals/all",
            {"pre_nms_topN": 0, "post_nms_topN": 99, "nms_thresh": 0.3, "legacy_plus_one": 0, "min_size": 4.0},
        ),
        ("GenerateProposalsCPP", {"min_size": 2.0}),
    ):
        op = name.split("/")[0]
        feeds = {"s": _scores(name, 2, 3, 4, 5), "m": _draw(name, 2, 12, 4, 5, low=-0.5, high=0.5),
                 "i": np.array([[36, 41, 1.25], [30, 38, 1.0]], "float32")}  # fmt: skip
        CASES[name] = Case(
            feeds, {"a": _CELLS}, [Step(op, ["s", "m", "i", "a"], ["rois", "probs"], {"spatial_scale": 0.125, **args})]
        )
    rois = np.array([[0, 1, 2, 20, 13], [0, 4, 4, 4, 4], [1, 10, 3, 38, 29], [1, -3, 7.5, 11, 60]], "float32")
    info = np.array([[36, 41, 1.25], [30, 38, 1.0]], "float32")
    for name, own, image, args in (
        ("BBoxTransform", rois, info, {"weights": [10.0, 10.0, 5.0, 5.0], "apply_scale": 0}),
        ("BBoxTransform/scaled", rois, info, {"legacy_plus_one": 0}),
        ("BBoxTransform/one image", rois[:, 1:], info[:1], {"correct_transform_coords": 0}),
    ):
        feeds = {"r": own, "d": _draw(name, 4, 12, low=-1, high=1), "i": image}
        CASES[name] = Case(feeds, {}, [Step("BBoxTransform", ["r", "d", "i"], ["y", "splits"], args)])


_region_cases()


def _rois(name: str, count: int) -> np.ndarray:
    """Regions of all sizes in two images."""
    near = _draw(f"{name} near", count, 2, low=0, high=400)
    size = 2.0 ** _draw(f"{name} size", count, 2, low=3, high=10)
    image = _draw(f"{name} image", count, 1, low=0, high=1, dtype="int32")
    return np.concatenate([image, near, near + size], 1).astype("float32")


def _levels(name: str, op: str, inputs: dict[str, np.ndarray], outputs: list[str], **args) -> None:
    """Regions of levels; the last steps put them together again, as behind the features of each level."""
    levels = [n for n in outputs if n.startswith("level")]
    CASES[name] = Case(inputs, {}, [
        Step(op, list(inputs), outputs, args),
        Step("Concat", levels, ["every", "sizes"], {"axis": 0}),
        Step("BatchPermutation", ["every", "restore"], ["y"]),
    ])  # fmt: skip


def _pyramid_cases() -> None:
    for name, counts, args in (
        ("CollectRpnProposals", (7, 5, 3, 2, 1), {"rpn_post_nms_topN": 9}),
        ("CollectRpnProposals/all", (4, 2), {"rpn_min_level": 3, "rpn_max_level": 4}),
    ):
        count = sum(counts)
        cuts = np.cumsum(counts)[:-1]
        rois, scores = np.split(_rois(name, count), cuts), np.split(_scores(name, count), cuts)
        feeds = {f"{k}{i}": v for k, parts in (("r", rois), ("s", scores)) for i, v in enumerate(parts)}
        CASES[name] = Case(feeds, {}, [Step("CollectRpnProposals", list(feeds), ["y"], args)])
        name = name.replace("CollectRpnProposals", "CollectAndDistributeFpnRpnProposals")
        _levels(name, name.split("/")[0], feeds, ["rois", "level2", "level3", "level4", "level5", "restore"], **args)
    feeds = {"rois": _rois("distribute", 12)}
    _levels(
        "DistributeFpnProposals", "DistributeFpnProposals", feeds, ["level2", "level3", "level4", "level5", "restore"]
    )
    _levels(
        "DistributeFpnProposals/levels",
        "DistributeFpnProposals",
        feeds,
        ["level1", "level2", "restore"],
        roi_min_level=1,
        roi_max_level=2,
        roi_canonical_level=2,
        roi_canonical_scale=100,
        legacy_plus_one=0,
    )
    args = {"roi_min_level": 4, "roi_max_level": 4}
    CASES["DistributeFpnProposals/one level"] = Case(
        feeds, {}, [Step("DistributeFpnProposals", ["rois"], ["a", "restore"], args)]
    )
    one("BatchPermutation", (4, 3), np.array([2, 0, 3, 1], "int32"))


_pyramid_cases()


def _limit_cases() -> None:
    """Boxes of three classes and the background, which overlap."""
    scores = _scores("limit", 14, 4)
    near = _draw("limit", 14, 4, 2, low=0, high=60)
    boxes = np.concatenate([near, near + _draw("limit size", 14, 4, 2, low=8, high=40)], 2).reshape(14, 16)
    args = {"score_thresh": 0.2, "nms": 0.3, "detections_per_im": 6}
    splits = np.array([9, 5], "float32")
    outputs = ["scores", "boxes", "classes", "splits", "keeps", "sizes"]
    for name, wide, given, count, more in (
        ("", 16, [], 6, {}), ("/images", 16, [splits], 6, {}), ("/three outputs", 16, [], 3, {}),
        ("/all", 16, [splits], 6, {"detections_per_im": 0, "legacy_plus_one": 0, "nms": 0.5}),
        ("/one box", 4, [], 6, {"cls_agnostic_bbox_reg": 1}),
        ("/without background", 12, [splits], 6, {"input_boxes_include_bg_cls": 0, "output_classes_include_bg_cls": 0}),
        ("/nothing", 16, [], 6, {"score_thresh": 0.999}),
    ):  # fmt: skip
        feeds = {"s": scores, "b": np.ascontiguousarray(boxes[:, :wide]), **{"n": v for v in given}}
        CASES[f"BoxWithNMSLimit{name}"] = Case(
            feeds, {}, [Step("BoxWithNMSLimit", list(feeds), outputs[:count], {**args, **more})]
        )


_limit_cases()


def _detector() -> Case:
    """What a detector with a pyramid does between two networks, for one image: proposals of two levels, the best of
    them, their levels, boxes of classes out of seeded scores and moves. Scores of rows belong to the regions, so that
    rows that are none would be seen."""
    feeds: dict[str, np.ndarray] = {"info": np.array([[160, 192, 1.0]], "float32")}
    steps = []
    for level, (high, wide) in ((2, (10, 12)), (3, (5, 6))):
        feeds[f"s{level}"] = _scores(f"detector{level}", 1, 3, high, wide)
        feeds[f"m{level}"] = _draw(f"detector{level}", 1, 12, high, wide, low=-0.4, high=0.4)
        steps.append(
            Step(
                "GenerateProposals",
                [f"s{level}", f"m{level}", "info", f"a{level}"],
                [f"r{level}", f"p{level}"],
                {"spatial_scale": 2.0**-level / 4, "nms_thresh": 0.3, "min_size": 36.0, "post_nms_topN": 60},
            )
        )
    levels = ["level2", "level3"]
    steps += [
        Step("CollectAndDistributeFpnRpnProposals", ["r2", "r3", "p2", "p3"], ["rois", *levels, "restore"],
             {"rpn_min_level": 2, "rpn_max_level": 3, "roi_min_level": 2, "roi_max_level": 3, "roi_canonical_scale": 40,
              "roi_canonical_level": 3, "rpn_post_nms_topN": 50}),
        *(Step("RoIAlign", [f"f{i}", f"level{i}"], [f"x{i}"],
               {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 2.0**-i / 4, "sampling_ratio": 2}) for i in (2, 3)),
        Step("Concat", ["x2", "x3"], ["x", "x_sizes"], {"axis": 0}),
        Step("BatchPermutation", ["x", "restore"], ["features"]),
        Step("FC", ["features", "w", "wb"], ["logits"]),
        Step("Softmax", ["logits"], ["probs"]),
        Step("FC", ["features", "v", "vb"], ["moves"]),
        Step("BBoxTransform", ["rois", "moves", "info"], ["moved", "splits"], {"weights": [10.0, 10.0, 5.0, 5.0]}),
        Step("BoxWithNMSLimit", ["probs", "moved", "splits"], ["scores", "boxes", "classes"],
             {"score_thresh": 0.02, "nms": 0.4, "detections_per_im": 90}),
    ]  # fmt: skip
    feeds.update(f2=_draw("detector f2", 1, 6, 10, 12), f3=_draw("detector f3", 1, 6, 5, 6))
    weights = {"a2": _CELLS * 3, "a3": _CELLS * 6, "w": _draw("detector w", 4, 24), "wb": _draw("detector wb", 4),
               "v": _draw("detector v", 16, 24, low=-1, high=1), "vb": _draw("detector vb", 16)}  # fmt: skip
    return Case(feeds, weights, steps)


CASES["BoxWithNMSLimit/detector"] = _detector()


def _keypoint_cases() -> None:
    """Maps whose greatest elements lie inside, at an edge, in a corner, on a plain, and where a parabola ends far."""
    maps = _draw("keypoints", 2, 5, 6, 6)
    maps[0, 0, 2, 3] = maps[0, 1, 0, 2] = maps[0, 2, 5, 5] = 4.0
    maps[0, 3] = 1.0
    maps[0, 4] = np.arange(36, dtype="float32").reshape(6, 6)
    boxes = np.float32([[3, 5, 40, 31], [10, 10, 10.5, 60]])
    one("HeatmapMaxKeypoint", maps, boxes)
    one("HeatmapMaxKeypoint/softmax", maps, boxes, args={"should_output_softmax": 1})


_keypoint_cases()


class _Net:
    """A network under construction, with seeded weights."""

    def __init__(self, name: str, *shape: int):
        self.name, self.count = name, 0
        self.steps: list[Step] = []
        self.weights: dict[str, np.ndarray] = {}
        self.feeds = {"data": _draw(name, *shape, low=-1, high=1)}
        self.at, self.channels = "data", shape[1]

    def add(self, op: str, inputs, **args) -> str:
        self.count += 1
        name = f"{op.lower()}_{self.count}"
        self.steps.append(Step(op, inputs, [name], args))
        self.at = name
        return name

    def weight(self, *shape: int, low=None, high=None) -> str:
        name = f"w{len(self.weights)}"
        reach = (6 / np.prod(shape[1:])) ** 0.5 if low is None else high
        self.weights[name] = _draw(self.name + name, *shape, low=-reach if low is None else low, high=reach)
        return name

    def conv(self, out: int, kernel: int, at=None, relu=True, groups: int = 1, bias=True, **args) -> str:
        source = at or self.at
        ins = [source, self.weight(out, self.channels // groups, kernel, kernel)]
        if bias:
            ins.append(self.weight(out, low=-0.1, high=0.1))
        if groups > 1:
            args["group"] = groups
        self.add("Conv", ins, kernel=kernel, **args)
        self.channels = out
        if relu:
            # In place, as nets of Caffe2 are.
            self.steps.append(Step("Relu", [self.at], [self.at]))
        return self.at

    def norm(self) -> str:
        c = self.channels
        return self.add(
            "SpatialBN",
            [
                self.at,
                self.weight(c, low=0.8, high=1.2),
                self.weight(c, low=-0.1, high=0.1),
                self.weight(c, low=-0.1, high=0.1),
                self.weight(c, low=0.5, high=1.5),
            ],
            is_test=1,
        )

    def joined(self, parts, sizes) -> None:
        self.count += 1
        self.at, self.channels = f"concat_{self.count}", sum(sizes)
        self.steps.append(Step("Concat", parts, [self.at, f"{self.at}_dims"], {"order": "NCHW"}))

    def case(self) -> Case:
        return Case(self.feeds, self.weights, self.steps)


def squeezenet() -> Case:
    """SqueezeNet 1.1 with all its modules, a quarter of its channels, and small images."""
    net = _Net("squeezenet", 1, 3, 67, 67)
    net.conv(16, 3, stride=2)
    net.add("MaxPool", [net.at], kernel=3, stride=2)
    for i, (squeeze, expand) in enumerate([(4, 16), (4, 16), (8, 32), (8, 32), (12, 48), (12, 48), (16, 64), (16, 64)]):
        if i in (2, 4):
            net.add("MaxPool", [net.at], kernel=3, stride=2)
        inner = net.conv(squeeze, 1)
        left = net.conv(expand, 1)
        net.channels = squeeze
        right = net.conv(expand, 3, at=inner, pad=1)
        net.joined([left, right], [expand, expand])
    net.count += 1
    net.steps.append(Step("Dropout", [net.at], ["dropped", "mask"], {"ratio": 0.5, "is_test": 1}))
    net.at = "dropped"
    net.conv(40, 1)
    net.add("AveragePool", [net.at], global_pooling=1)
    net.add("Softmax", [net.at])
    return net.case()


def resnet() -> Case:
    """Residual blocks with normalizations, in place sums, and a classifier."""
    net = _Net("resnet", 1, 3, 33, 33)
    net.conv(8, 7, relu=False, stride=2, pad=3, bias=False)
    net.norm()
    net.steps.append(Step("Relu", [net.at], [net.at]))
    net.add("MaxPool", [net.at], kernel=3, stride=2, pad=1)
    for width, stride in ((8, 1), (16, 2), (24, 2)):
        entry, depth = net.at, net.channels
        net.conv(width, 1, relu=False, bias=False)
        net.norm()
        net.steps.append(Step("Relu", [net.at], [net.at]))
        net.conv(width, 3, relu=False, bias=False, stride=stride, pad=1)
        main = net.norm()
        net.channels = depth
        net.conv(width, 1, at=entry, relu=False, bias=False, stride=stride)
        side = net.norm()
        net.steps.append(Step("Sum", [main, side], [main]))
        net.steps.append(Step("Relu", [main], [main]))
        net.at = main
    net.add("AveragePool", [net.at], global_pooling=1)
    net.add("FC", [net.at, net.weight(10, net.channels), net.weight(10, low=-0.1, high=0.1)])
    net.add("Softmax", [net.at])
    return net.case()


def shufflenet() -> Case:
    """A unit of ShuffleNet: grouped convolutions, shuffled channels, depthwise ones, a concatenation."""
    net = _Net("shufflenet", 1, 12, 17, 15)
    entry = net.at
    net.conv(12, 1, groups=3, bias=False)
    net.add("ChannelShuffle", [net.at], group=3, kernel=1, order="NCHW")
    net.conv(12, 3, relu=False, groups=12, bias=False, stride=2, pad=1)
    net.norm()
    main = net.conv(24, 1, relu=False, groups=3, bias=False)
    side = net.add("AveragePool", [entry], kernel=3, stride=2, pad=1)
    net.joined([main, side], [24, 12])
    net.add("ReduceMean", [net.at], axes=[2, 3], keepdims=0)
    return net.case()


NETWORKS = {"squeezenet": squeezenet, "resnet": resnet, "shufflenet": shufflenet}
