"""Small networks of Caffe for every layer, compared with NumPy (``caffe_numpy``)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import caffe_numpy as ref
import numpy as np
from caffe_writer import inputs, layer, weights

from tvm import relay
from tvm.relay.frontend import from_caffe

ORACLE = "NumPy code written from Caffe's documentation and sources"


class Case(NamedTuple):
    """A network, what it is fed and what it gives. ``rows`` are detections, which may be followed by rows of -1."""

    text: str
    blobs: dict[str, list]
    feeds: dict[str, np.ndarray]
    expected: list
    rows: bool = False


CASES: dict[str, Callable[[Any], Case]] = {}


class Draw:
    """Drawn numbers."""

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, *shape, low=-1.0, high=1.0):
        return self.rng.uniform(low, high, shape).astype("float32")


def one(name: str, shape, param: str, expected: Callable, *blobs, low=-2.0, high=2.0) -> None:
    """A layer of one input: ``blobs`` are shapes of its weights, ``expected`` takes the input and them."""

    def make(draw: Draw) -> Case:
        x, arrays = draw(*shape, low=low, high=high), [draw(*b) for b in blobs]
        text = inputs(x=shape) + layer(name.split("/")[0], param=param)
        return Case(text, {"y": arrays}, {"x": x}, [expected(x.astype("float64"), *arrays)])

    CASES[name] = make


def several(name: str, shapes, param: str, expected: Callable, tops: str = "y", *, blobs=()) -> None:
    """A layer of several inputs or results."""

    def make(draw: Draw) -> Case:
        arrays = [draw(*s, low=-2, high=2) for s in shapes]
        weight = [draw(*b) for b in blobs]
        names = [f"x{i}" for i in range(len(shapes))]
        text = inputs(**dict(zip(names, shapes))) + layer(name.split("/")[0], " ".join(names), tops, param)
        got = expected(*(a.astype("float64") for a in arrays), *weight)
        made = got if isinstance(got, list) else [got]
        return Case(text, {tops.split()[0]: weight}, dict(zip(names, arrays)), made)

    CASES[name] = make


IMAGE = (2, 4, 7, 6)


def _convolutions() -> None:
    p = "convolution_param {{ num_output: {} {} }}".format
    one("Convolution", IMAGE, p(3, "kernel_size: 3"), ref.conv, (3, 4, 3, 3), (3,))
    one(
        "Convolution/sides",
        IMAGE,
        p(4, "kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2 group: 2"),
        lambda x, w, b: ref.conv(x, w, b, (2, 1), (0, 2), group=2),
        (4, 2, 2, 3),
        (4,),
    )
    one(
        "Convolution/lists",
        IMAGE,
        p(2, "kernel_size: [2, 3] stride: 2 stride: 3 pad: 1 bias_term: false dilation: 2"),
        lambda x, w: ref.conv(x, w, None, (2, 3), (1, 1), (2, 2)),
        (2, 4, 2, 3),
    )
    one(
        "Convolution/three axes",
        (1, 2, 4, 5, 3),
        p(3, "kernel_size: 2 pad: 1 stride: 2"),
        lambda x, w, b: ref.conv(x, w, b, (2,) * 3, (1,) * 3, (1,) * 3),
        (3, 2, 2, 2, 2),
        (3,),
    )
    one(
        "Convolution/one axis",
        (2, 3, 9),
        p(4, "kernel_size: 3 stride: 2"),
        lambda x, w, b: ref.conv(x, w, b, (2,), (0,), (1,)),
        (4, 3, 3),
        (4,),
    )
    one(
        "ConvolutionDepthwise",
        IMAGE,
        p(4, "kernel_size: 3 pad: 1"),
        lambda x, w, b: ref.conv(x, w, b, pad=(1, 1), group=4),
        (4, 1, 3, 3),
        (4,),
    )
    one(
        "DepthwiseConvolution",
        IMAGE,
        p(8, "kernel_size: 3 group: 4"),
        lambda x, w, b: ref.conv(x, w, b, group=4),
        (8, 1, 3, 3),
        (8,),
    )
    one(
        "Deconvolution",
        (2, 3, 4, 5),
        p(2, "kernel_size: 3 stride: 2 pad: 1"),
        lambda x, w, b: ref.deconv(x, w, b, (2, 2), (1, 1)),
        (3, 2, 3, 3),
        (2,),
    )
    one(
        "Deconvolution/groups",
        (1, 4, 3, 4),
        p(6, "kernel_size: 4 stride: 2 pad: 1 group: 2 bias_term: false"),
        lambda x, w: ref.deconv(x, w, None, (2, 2), (1, 1), group=2),
        (4, 3, 4, 4),
    )
    one(
        "Deconvolution/each channel",
        (1, 3, 3, 4),
        p(3, "kernel_size: 4 stride: 2 pad: 1 group: 3 bias_term: false"),
        lambda x, w: ref.deconv(x, w, None, (2, 2), (1, 1), group=3),
        (3, 1, 4, 4),
    )
    one(
        "Deconvolution/holes and cuts",
        (1, 2, 4, 5),
        p(2, "kernel_size: 2 dilation: 2 stride: 3 pad_h: 4 pad_w: 1"),
        lambda x, w, b: ref.deconv(x, w, b, (3, 3), (4, 1), (2, 2)),
        (2, 2, 2, 2),
        (2,),
    )


def _pooling() -> None:
    p = "pooling_param {{ {} }}".format
    for method in ("MAX", "AVE"):
        one(
            f"Pooling/{method}",
            IMAGE,
            p(f"pool: {method} kernel_size: 3 stride: 2"),
            partial(ref.pool, method=method, kernel=(3, 3), stride=(2, 2)),
        )
        one(
            f"Pooling/{method} padded",
            IMAGE,
            p(f"pool: {method} kernel_size: 3 stride: 2 pad: 1"),
            partial(ref.pool, method=method, kernel=(3, 3), stride=(2, 2), pad=(1, 1)),
        )
        one(
            f"Pooling/{method} sides",
            (1, 2, 8, 9),
            p(f"pool: {method} kernel_h: 2 kernel_w: 4 stride_h: 3 stride_w: 2 pad_h: 1 pad_w: 0"),
            partial(ref.pool, method=method, kernel=(2, 4), stride=(3, 2), pad=(1, 0)),
        )
        one(
            f"Pooling/{method} whole",
            IMAGE,
            p(f"pool: {method} global_pooling: true"),
            partial(ref.pool, method=method, kernel=(7, 6)),
        )
    one(
        "Pooling/rounded down",
        IMAGE,
        p("kernel_size: 2 stride: 2 ceil_mode: false"),
        partial(ref.pool, method="MAX", kernel=(2, 2), stride=(2, 2), up=False),
    )
    one(
        "Pooling/round_mode",
        IMAGE,
        p("pool: 1 kernel_size: 2 stride: 2 round_mode: FLOOR"),
        partial(ref.pool, method="AVE", kernel=(2, 2), stride=(2, 2), up=False),
    )
    one("SPP", (1, 2, 7, 6), "spp_param { pyramid_height: 3 pool: AVE }", _pyramid)
    one(
        "LRN",
        (1, 7, 3, 2),
        "lrn_param { local_size: 5 alpha: 0.3 beta: 0.6 k: 2 }",
        partial(ref.lrn, size=5, alpha=0.3, beta=0.6, k=2),
    )
    one(
        "LRN/within",
        (1, 2, 5, 4),
        "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }",
        lambda x: x * (1 + 0.5 * ref.pool(x * x, "AVE", (3, 3), (1, 1), (1, 1))) ** -0.75,
    )


def _pyramid(x):
    parts = []
    for bins in (1, 2, 4):
        kernel = [-(-s // bins) for s in x.shape[2:]]
        pad = [(k * bins - s + 1) // 2 for k, s in zip(kernel, x.shape[2:])]
        parts.append(ref.pool(x, "AVE", kernel, kernel, pad).reshape(len(x), -1))
    return np.concatenate(parts, 1)


def _elements() -> None:
    one("Dropout", (2, 3), "dropout_param { dropout_ratio: 0.5 }", lambda x: x)
    one("ReLU", IMAGE, "", lambda x: np.maximum(x, 0))
    one("ReLU/slope", IMAGE, "relu_param { negative_slope: 0.2 }", lambda x: np.where(x > 0, x, 0.2 * x))
    one("ReLU6", (2, 9), "", lambda x: np.clip(x, 0, 6), low=-9, high=9)
    one("PReLU", IMAGE, "", lambda x, a: np.where(x > 0, x, x * a[:, None, None]), (4,))
    one("PReLU/shared", IMAGE, "prelu_param { channel_shared: true }", lambda x, a: np.where(x > 0, x, x * a), (1,))
    one("ELU", (2, 9), "elu_param { alpha: 0.7 }", lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)))
    one("ELU/great", (2, 5), "", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), low=-1e4, high=1e4)
    one("Sigmoid", (3, 5), "", ref.sigmoid)
    one("TanH", (3, 5), "", np.tanh)
    one("Swish", (3, 5), "swish_param { beta: 1.5 }", lambda x: x * ref.sigmoid(1.5 * x))
    one("AbsVal", (3, 5), "", np.abs)
    one("BNLL", (3, 5), "", lambda x: np.log1p(np.exp(x)))
    one("BNLL/great", (3, 5), "", lambda x: np.logaddexp(0, x), low=-300, high=300)
    one("Threshold", (3, 5), "threshold_param { threshold: 0.3 }", lambda x: x > np.float32(0.3))
    one("Clip", (3, 5), "clip_param { min: -0.5 max: 1 }", lambda x: np.clip(x, -0.5, 1))
    one("Power", (3, 5), "power_param { power: 1.5 scale: 0.5 shift: 3 }", lambda x: (3 + 0.5 * x) ** 1.5)
    one("Power/square", (3, 5), "power_param { power: 2 shift: -1 }", lambda x: (x - 1) ** 2)
    one("Power/line", (3, 5), "power_param { scale: -2 }", lambda x: -2 * x)
    one("Exp", (3, 5), "", np.exp)
    one("Exp/base", (3, 5), "exp_param { base: 2 scale: 0.5 shift: 1 }", lambda x: 2 ** (1 + 0.5 * x))
    one("Log", (3, 5), "log_param { scale: 2 shift: 5 }", lambda x: np.log(5 + 2 * x))
    one("Log/base", (3, 5), "log_param { base: 10 shift: 3 }", lambda x: np.log10(3 + x))
    pair = [(2, 3, 4)] * 2
    several("Eltwise", pair, "", lambda a, b: a + b)
    several(
        "Eltwise/factors",
        [(2, 3)] * 3,
        "eltwise_param { operation: SUM coeff: 1 coeff: -1 coeff: 0.5 }",
        lambda a, b, c: a - b + 0.5 * c,
    )
    several("Eltwise/product", pair, "eltwise_param { operation: PROD }", lambda a, b: a * b)
    several(
        "Eltwise/greatest",
        [(2, 3)] * 3,
        "eltwise_param { operation: 2 }",
        lambda a, b, c: np.maximum(np.maximum(a, b), c),
    )
    several("Axpy", [(2, 3, 1, 1), (2, 3, 4, 5), (2, 3, 4, 5)], "", lambda a, x, y: a * x + y)


def _normalizations() -> None:
    def batch_norm(x, mean, variance, count, eps=1e-5):
        return (x - (mean / count)[:, None, None]) / np.sqrt(variance / count + eps)[:, None, None]

    def learned(draw: Draw, extra=(), param="") -> Case:
        x, mean, variance = draw(*IMAGE), draw(4), draw(4, low=0.5, high=3)
        more = [draw(4) for _ in extra]
        want = batch_norm(x.astype("float64"), mean, variance, 4.0, 1e-3 if "eps" in param else 1e-5)
        if more:
            want = want * more[0][:, None, None] + more[1][:, None, None]
        text = inputs(x=IMAGE) + layer("BatchNorm", param=param)
        return Case(text, {"y": [mean, variance, [4.0], *more]}, {"x": x}, [want])

    CASES["BatchNorm"] = learned
    CASES["BatchNorm/eps"] = partial(learned, param="batch_norm_param { eps: 1e-3 use_global_stats: true }")
    CASES["BatchNorm/scale_bias"] = partial(learned, extra=(1, 2), param="batch_norm_param { scale_bias: true }")
    CASES["BatchNorm/no count"] = lambda draw: Case(
        inputs(x=IMAGE) + layer("BatchNorm"), {"y": [np.ones(4), np.ones(4), [0.0]]}, {"x": (x := draw(*IMAGE))},
        [x.astype("float64") / np.sqrt(1e-5)])  # fmt: skip
    one(
        "BatchNorm/of the batch",
        IMAGE,
        "batch_norm_param { use_global_stats: false }",
        lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5),
    )
    one(
        "Scale",
        IMAGE,
        "scale_param { bias_term: true }",
        lambda x, s, b: x * s[:, None, None] + b[:, None, None],
        (4,),
        (4,),
    )
    one("Scale/axes", IMAGE, "scale_param { axis: 2 num_axes: -1 }", lambda x, s: x * s, (7, 6))
    one("Scale/number", IMAGE, "scale_param { num_axes: 0 }", lambda x, s: x * s, ())
    several("Scale/two", [IMAGE, (2, 4)], "scale_param { axis: 0 }", lambda x, s: x * s[:, :, None, None])
    several(
        "Scale/two and bias",
        [IMAGE, (7,)],
        "scale_param { axis: 2 bias_term: true }",
        lambda x, s, b: x * s[:, None] + b[:, None],
        blobs=[(7,)],
    )
    one("Bias", IMAGE, "", lambda x, b: x + b[:, None, None], (4,))
    several("Bias/two", [IMAGE, (7, 6)], "bias_param { axis: -2 }", lambda x, b: x + b)
    one(
        "Normalize",
        IMAGE,
        "norm_param { across_spatial: false channel_shared: false }",
        lambda x, s: x / np.sqrt((x * x).sum(1, keepdims=True) + 1e-10) * s[:, None, None],
        (4,),
    )
    one(
        "Normalize/whole",
        IMAGE,
        "norm_param { eps: 0.1 }",
        lambda x, s: x / np.sqrt((x * x).sum((1, 2, 3), keepdims=True) + 0.1) * s,
        (1,),
    )
    one("MVN", IMAGE, "", lambda x: (x - x.mean((2, 3), keepdims=True)) / (x.std((2, 3), keepdims=True) + 1e-9))
    one(
        "MVN/across",
        IMAGE,
        "mvn_param { across_channels: true eps: 0.1 }",
        lambda x: (x - x.mean((1, 2, 3), keepdims=True)) / (x.std((1, 2, 3), keepdims=True) + 0.1),
    )
    one("MVN/mean", IMAGE, "mvn_param { normalize_variance: false }", lambda x: x - x.mean((2, 3), keepdims=True))
    one("Softmax", IMAGE, "", partial(ref.softmax, axis=1))
    one("Softmax/last", (2, 3, 5), "softmax_param { axis: -1 }", partial(ref.softmax, axis=2))


def _shapes() -> None:
    several("Concat", [(2, 3, 4), (2, 1, 4), (2, 2, 4)], "", lambda *v: np.concatenate(v, 1))
    several("Concat/last", [(2, 3), (2, 5)], "concat_param { axis: -1 }", lambda *v: np.concatenate(v, -1))
    several("Concat/old", [(2, 3), (4, 3)], "concat_param { concat_dim: 0 }", lambda *v: np.concatenate(v, 0))
    several("Slice", [(2, 6, 3)], "", lambda x: np.split(x, 3, 1), "a b c")
    several(
        "Slice/points",
        [(2, 7)],
        "slice_param { axis: -1 slice_point: 1 slice_point: 5 }",
        lambda x: np.split(x, [1, 5], 1),
        "a b c",
    )
    CASES["Split"] = lambda draw: Case(
        inputs(x=(2, 3)) + layer("Split", "x", "a b") + layer("AbsVal", "a", "c"), {}, {"x": (x := draw(2, 3))},
        [x, np.abs(x)])  # fmt: skip
    CASES["Silence"] = lambda draw: Case(
        inputs(x=(2, 3)) + layer("Slice", "x", "a b c") + layer("Silence", "a c", "", name="s"), {},
        {"x": (x := draw(2, 3))}, [x[:, 1:2]])  # fmt: skip
    for what, dims, extra, wanted in (
        ("", "dim: 0 dim: 2 dim: -1", "", (2, 2, 60)),
        ("axis", "dim: 3 dim: -1", "axis: 1", (2, 3, 40)),
        ("axes", "dim: -1", "axis: 1 num_axes: 2", (2, 24, 5)),
        ("last", "dim: 5 dim: 1", "axis: -2", (2, 4, 6, 5, 1)),
        ("none", "dim: 1", "axis: 1 num_axes: 0", (2, 1, 4, 6, 5)),
    ):
        one(
            f"Reshape{'/' if what else ''}{what}",
            (2, 4, 6, 5),
            f"reshape_param {{ shape {{ {dims} }} {extra} }}",
            lambda x, s=wanted: x.reshape(s),
        )
    one("Flatten", (2, 3, 4), "", lambda x: x.reshape(2, 12))
    one("Flatten/some", (2, 3, 4, 5), "flatten_param { axis: 1 end_axis: -2 }", lambda x: x.reshape(2, 12, 5))
    one(
        "Permute",
        (2, 3, 4, 5),
        "permute_param { order: 0 order: 2 order: 3 order: 1 }",
        lambda x: x.transpose(0, 2, 3, 1),
    )
    one("Permute/some", (2, 3, 4, 5), "permute_param { order: [3, 1] }", lambda x: x.transpose(3, 1, 0, 2))
    one("Transpose", (2, 3, 4), "transpose_param { dim: 2 dim: 0 dim: 1 }", lambda x: x.transpose(2, 0, 1))
    crop = [(2, 3, 8, 9), (2, 3, 5, 4)]
    several("Crop", crop, "crop_param { offset: 2 offset: 5 }", lambda x, y: x[:, :, 2:7, 5:9])
    several(
        "Crop/one offset",
        [(2, 5, 8, 9), (1, 3, 5, 4)],
        "crop_param { axis: 1 offset: 1 }",
        lambda x, y: x[:, 1:4, 1:6, 1:5],
    )
    one("Tile", (2, 3, 2), "tile_param { axis: -1 tiles: 3 }", lambda x: np.tile(x, (1, 1, 3)))
    one(
        "ShuffleChannel",
        (2, 6, 3),
        "shuffle_channel_param { group: 2 }",
        lambda x: x.reshape(2, 2, 3, 3).transpose(0, 2, 1, 3).reshape(2, 6, 3),
    )
    for operation, f in (("SUM", np.sum), ("ASUM", lambda x, a: np.abs(x).sum(a)), ("MEAN", np.mean),
                         ("SUMSQ", lambda x, a: (x * x).sum(a))):  # fmt: skip
        one(
            f"Reduction/{operation}",
            (2, 3, 4),
            f"reduction_param {{ operation: {operation} axis: 1 coeff: 2 }}",
            lambda x, f=f: 2 * f(x, (1, 2)),
        )
    one("Reduction", (2, 3), "", np.sum)
    one("ArgMax", (2, 3, 4), "", lambda x: x.reshape(2, -1).argmax(1).reshape(2, 1, 1))
    one(
        "ArgMax/values",
        (2, 7),
        "argmax_param { out_max_val: true top_k: 3 }",
        lambda x: np.stack([np.argsort(-x, 1)[:, :3], -np.sort(-x, 1)[:, :3]], 1),
    )
    one("ArgMax/axis", (2, 5, 3), "argmax_param { axis: 1 top_k: 2 }", lambda x: np.argsort(-x, 1)[:, :2])
    one(
        "ArgMax/axis, values",
        (2, 5, 3),
        "argmax_param { axis: -2 out_max_val: true }",
        lambda x: x.max(1, keepdims=True),
    )
    one(
        "InnerProduct",
        (2, 3, 4),
        "inner_product_param { num_output: 5 }",
        lambda x, w, b: x.reshape(2, 12) @ w.T + b,
        (5, 12),
        (5,),
    )
    one(
        "InnerProduct/axis",
        (2, 3, 4),
        "inner_product_param { num_output: 5 axis: -1 transpose: true bias_term: false }",
        lambda x, w: x @ w,
        (4, 5),
    )
    one(
        "InnerProduct/old weights",
        (2, 6),
        "inner_product_param { num_output: 3 }",
        lambda x, w, b: x @ w.reshape(3, 6).T + b.reshape(3),
        (1, 1, 3, 6),
        (1, 1, 1, 3),
    )
    CASES["Embed"] = lambda draw: Case(
        inputs(x=(2, 3)) + layer("Embed", param="embed_param { num_output: 4 input_dim: 6 }"),
        {"y": [(w := draw(6, 4)), (b := draw(4))]}, {"x": (x := np.array([[0, 5, 2], [1, 1, 3]], "float32"))},
        [w[x.astype(int)] + b])  # fmt: skip
    CASES["Parameter"] = lambda draw: Case(
        inputs(x=(2, 3)) + layer("Parameter", "", "p", "parameter_param { shape { dim: 2 dim: 3 } }")
        + layer("Eltwise", "x p", "y"), {"p": [(w := draw(2, 3))]}, {"x": (x := draw(2, 3))}, [x + w])  # fmt: skip
    CASES["DummyData"] = lambda draw: Case(
        inputs(x=(2, 3)) + layer("DummyData", "", "d", "dummy_data_param { shape { dim: 2 dim: 3 } data_filler { type: "
                                 '"constant" value: 1.5 } }') + layer("Eltwise", "x d", "y"), {},
        {"x": (x := draw(2, 3))}, [x + 1.5])  # fmt: skip
    one("Upsample", (1, 2, 3, 4), "upsample_param { scale: 2 }", lambda x: x.repeat(2, 2).repeat(2, 3))
    one("Interp", (1, 2, 4, 5), "interp_param { height: 7 width: 3 }", lambda x: ref.interp(x, 7, 3))
    one("Interp/zoom", (1, 2, 4, 5), "interp_param { zoom_factor: 3 }", lambda x: ref.interp(x, 10, 13))
    one(
        "Interp/cut",
        (1, 2, 6, 8),
        "interp_param { shrink_factor: 2 pad_beg: 0 pad_end: -1 }",
        lambda x: ref.interp(x[:, :, :-1, :-1], 3, 4),
    )
    one("Reorg", (1, 8, 4, 6), "reorg_param { stride: 2 }", _reorg)
    CASES["ROIPooling"] = _regions
    CASES["PSROIPooling"] = _sensitive_regions
    few = "proposal_param { ratio: 0.6 ratio: 1.3 scale: 1 scale: 2.5 base_size: 9 feat_stride: 8 min_size: 7 "
    own = {"stride": 8, "base": 9, "ratios": [0.6, 1.3], "scales": [1, 2.5], "least": 7}
    CASES["Proposal"] = partial(
        _proposed,
        f"{few} pre_nms_topn: 40 post_nms_topn: 12 nms_thresh: 0.5 }}",
        {**own, "before": 40, "after": 12, "overlap": 0.5},
    )
    CASES["Proposal/all"] = partial(
        _proposed,
        f"{few} pre_nms_topn: 0 post_nms_topn: 99 nms_thresh: 0.3 }}",
        {**own, "before": 999, "after": 99, "overlap": 0.3},
    )
    classic = {
        "stride": 16,
        "base": 16,
        "ratios": [0.5, 1, 2],
        "least": 16,
        "before": 6000,
        "after": 300,
        "overlap": 0.7,
    }
    CASES["Proposal/defaults"] = partial(_proposed, "", {**classic, "scales": [8, 16, 32]})
    CASES["Python"] = partial(
        _proposed,
        "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' "
        """param_str: "'feat_stride': 12, 'scales': [2, 3]" }""",
        {**classic, "stride": 12, "scales": [2, 3]},
    )


def _reorg(x):
    wide = x.reshape(1, 2, 8, 12)
    out = np.zeros((1, 8, 4, 6))
    for k, j, i in np.ndindex(8, 4, 6):
        out[0, k, j, i] = wide[0, k % 2, j * 2 + k // 2 // 2, i * 2 + k // 2 % 2]
    return out.reshape(1, 32, 2, 3)


def _regions(draw: Draw) -> Case:
    x, rois = draw(2, 3, 8, 9), np.array([[0, 0, 0, 15, 13], [1, 4, 2, 12, 8], [1, 3, 3, 3, 3]], "float32")
    out = np.zeros((3, 3, 2, 3))
    for r, (n, *edges) in enumerate(rois.tolist()):
        left, top, right, bottom = (int(np.floor(e * 0.5 + 0.5)) for e in edges)
        high, wide = max(bottom - top + 1, 1) / 2, max(right - left + 1, 1) / 3
        for i, j in np.ndindex(2, 3):
            rows = np.clip([int(np.floor(i * high)) + top, int(np.ceil((i + 1) * high)) + top], 0, 8)
            columns = np.clip([int(np.floor(j * wide)) + left, int(np.ceil((j + 1) * wide)) + left], 0, 9)
            part = x[int(n), :, rows[0] : rows[1], columns[0] : columns[1]]
            out[r, :, i, j] = part.max((1, 2)) if part.size else 0
    text = inputs(x=x.shape, r=rois.shape) + layer(
        "ROIPooling", "x r", "y", "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }"
    )
    return Case(text, {}, {"x": x, "r": rois}, [out])


def _sensitive_regions(draw: Draw) -> Case:
    """Parts of regions, some of them outside the image, each with channels of its own."""
    outputs, group, scale, height, width = 2, 3, 0.5, 7, 9
    x = draw(1, outputs * group * group, height, width)
    rois = np.float32([[0, 0, 0, 17, 13], [0, 3.5, 2.5, 9, 8.4], [0, 4, 4, 4, 4], [0, -6, -4, 5, 3],
                       [0, 14, 10, 40, 30]])  # fmt: skip
    out = np.zeros((len(rois), outputs, group, group))
    for n, c, i, j in np.ndindex(*out.shape):
        left, top, right, bottom = (np.trunc(v + np.copysign(0.5, v)) for v in rois[n, 1:])
        spans = []
        for at, first, last, size in ((i, top, bottom, height), (j, left, right, width)):
            begin, end = first * scale, (last + 1) * scale
            step = max(end - begin, 0.1) / group
            low, high = np.floor(np.float32(at * step + begin)), np.ceil(np.float32((at + 1) * step + begin))
            spans.append(slice(int(np.clip(low, 0, size)), int(np.clip(high, 0, size))))
        part = x[0, (c * group + i) * group + j][spans[0], spans[1]]
        out[n, c, i, j] = part.mean() if part.size else 0
    text = inputs(x=x.shape, r=rois.shape) + layer(
        "PSROIPooling", "x r", "y", "psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: 0.5 }"
    )
    return Case(text, {}, {"x": x, "r": rois}, [out])


def _proposed(param: str, known: dict, draw: Draw) -> Case:
    """Boxes of two layers' scores and moves; scores are drawn far enough apart to have one order."""
    count, height, width = len(known["ratios"]) * len(known["scales"]), 3, 5
    scores = draw.rng.permutation(2 * count * height * width).reshape(1, -1, height, width).astype("float32")
    scores = (scores + 1) / (scores.size + 1)
    moves, image = draw(1, 4 * count, height, width) / 2, np.float32([[40, 70, 1.25]])
    rows, rois = ref.proposals(scores, moves, image[0], **known)
    text = inputs(s=scores.shape, m=moves.shape, i=image.shape) + layer(
        "Python" if "python_param" in param else "Proposal", "s m i", "rois rows", param
    )
    return Case(text, {}, {"s": scores, "m": moves, "i": image}, [rois, rows])


PRIORS = "prior_box_param {{ {} }}".format


def _detectors() -> None:
    shapes = [(1, 2, 2, 3), (1, 3, 30, 40)]
    several(
        "PriorBox",
        shapes,
        PRIORS(
            "min_size: 10 max_size: 20 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 "
            "variance: 0.1 variance: 0.2 variance: 0.2"
        ),
        lambda x, d: ref.priors((2, 3), (30, 40), [10], [2, 3], [20], variance=(0.1, 0.1, 0.2, 0.2)),
    )
    several(
        "PriorBox/step",
        shapes,
        PRIORS("min_size: 4 min_size: 9 aspect_ratio: 2 flip: false clip: true step: 16 offset: 0.25"),
        lambda x, d: ref.priors((2, 3), (30, 40), [4, 9], [2], flip=False, step=16, offset=0.25, clip=True),
    )
    several(
        "PriorBox/image",
        shapes,
        PRIORS("min_size: 10 img_size: 50 aspect_ratio: 1"),
        lambda x, d: ref.priors((2, 3), (50, 50), [10]),
    )
    for name, options, known in (
        ("DetectionOutput", "code_type: CENTER_SIZE confidence_threshold: 0.2 keep_top_k: 9 nms_param { nms_threshold: "
         "0.45 top_k: 7 }", {"code": "CENTER_SIZE", "least": 0.2, "kept": 9, "overlap": 0.45, "first": 7}),
        ("DetectionOutput/all", "background_label_id: -1 code_type: 2 keep_top_k: -1",
         {"code": "CENTER_SIZE", "background": -1}),
        ("DetectionOutput/corners", "confidence_threshold: 0.5 keep_top_k: 200 background_label_id: 2",
         {"least": 0.5, "kept": 200, "background": 2}),
        ("DetectionOutput/corners and sizes", "code_type: CORNER_SIZE confidence_threshold: 0.3 keep_top_k: 5 "
         "variance_encoded_in_target: true", {"code": "CORNER_SIZE", "least": 0.3, "kept": 5, "encoded": True}),
        ("DetectionOutput/none", "confidence_threshold: 2 keep_top_k: 5", {"least": 2, "kept": 5}),
    ):  # fmt: skip
        CASES[name] = partial(_detections, options, known)
    CASES["DetectionOutput/batch"] = partial(
        _detections, "confidence_threshold: 0.2 keep_top_k: 6", {"least": 0.2, "kept": 6}, batch=2
    )


def _detections(options: str, known: dict, draw: Draw, batch: int = 1) -> Case:
    prior = ref.priors((2, 3), (30, 40), [10, 14], [2], variance=(0.1, 0.1, 0.2, 0.2)).astype("float32")
    count = prior.shape[2] // 4
    moves, raw = draw(batch, count * 4), draw(batch, count, 3, low=-2, high=2)
    scores = ref.softmax(raw, 2).astype("float32").reshape(batch, -1)
    want = ref.detections(moves.astype("float64"), scores, prior.astype("float64"), 3, **known)
    text = inputs(f=(batch, 2, 2, 3), d=(batch, 3, 30, 40), m=moves.shape, s=scores.shape)
    boxes = PRIORS("min_size: 10 min_size: 14 aspect_ratio: 2 variance: [0.1, 0.1, 0.2, 0.2]")
    text += layer("PriorBox", "f d", "p", boxes)
    text += layer("DetectionOutput", "m s p", "y", f"detection_output_param {{ num_classes: 3 {options} }}")
    feeds = {"f": draw(batch, 2, 2, 3), "d": draw(batch, 3, 30, 40), "m": moves, "s": scores}
    return Case(text, {}, feeds, [want], True)


def _recurrent() -> None:
    going = np.array([[0, 0], [1, 1], [1, 0], [1, 1]], "float32")

    def case(kind: str, reference: Callable, shapes, draw: Draw) -> Case:
        x, arrays = draw(4, 2, 3), [draw(*s) for s in shapes]
        text = inputs(x=(4, 2, 3), c=(4, 2)) + layer(kind, "x c", "y", "recurrent_param { num_output: 5 }")
        return Case(text, {"y": arrays}, {"x": x, "c": going}, [reference(x, going, *arrays)])

    CASES["LSTM"] = partial(case, "LSTM", ref.lstm, [(20, 3), (20,), (20, 5)])
    CASES["RNN"] = partial(case, "RNN", ref.rnn, [(5, 3), (5,), (5, 5), (5, 5), (5,)])


for _family in (_convolutions, _pooling, _elements, _normalizations, _shapes, _detectors, _recurrent):
    _family()


@cache
def made(name: str) -> Case:
    return CASES[name](Draw(np.random.default_rng(zlib.crc32(name.encode()))))


def run(name: str) -> None:
    case = made(name)
    module, params = from_caffe(weights(case.blobs), case.text.encode())
    assert not params
    feeds = [case.feeds[p.name_hint] for p in module["main"].params]
    got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(*feeds)
    got = [got.numpy()] if hasattr(got, "numpy") else [v.numpy() for v in got]
    if case.rows:
        rows = got[0][0, 0]
        found = rows[rows[:, 0] >= 0]
        assert (rows[rows[:, 0] < 0] == -1).all() and got[0].shape[3] == 7
        got = [found]
        case = case._replace(expected=[case.expected[0].reshape(-1, 7)])
    for value, want in zip(got, case.expected, strict=True):
        want = np.asarray(want)
        assert value.shape == want.shape, (value.shape, want.shape)
        np.testing.assert_allclose(value, want, rtol=3e-5, atol=2e-5)


def cases() -> dict[str, Callable[[], None]]:
    return {name: partial(run, name) for name in CASES}
