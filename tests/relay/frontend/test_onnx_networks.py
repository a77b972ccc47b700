"""Small networks of the families people use, with random weights, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper
from small_models import Model, check


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def layer_norm(m, x, width):
    """Written out, as exporters before operator set 17 do."""
    apart = m.Sub(x, m.ReduceMean(x, axes=[-1]))
    spread = m.Sqrt(m.Add(m.ReduceMean(m.Pow(apart, np.float32(2)), axes=[-1]), np.float32(1e-12)))
    return m.Add(m.Mul(m.Div(apart, spread), 1 + m.weight(width)), m.weight(width))


def heads(m, x, width, count, perm):
    """(N, L, width) as (N, heads, L, width / heads), the sizes taken from Shape."""
    dense = m.Add(m.MatMul(x, m.weight(width, width)), m.weight(width))
    sizes = [m.Unsqueeze(m.Gather(m.Shape(dense), m.constant(i), axis=0), axes=[0]) for i in (0, 1)]
    shape = m.Concat(*sizes, m.constant([count]), m.constant([width // count]), axis=0)
    return m.Transpose(m.Reshape(dense, shape), perm=perm)


def test_encoder_of_the_bert_family(rng):
    m = Model(11, rng)
    width, length = 16, 6
    ids, mask = m.input("ids", ["N", "L"], "int64"), m.input("mask", ["N", "L"], "int64")
    size = m.Unsqueeze(m.Gather(m.Shape(ids), m.constant(1), axis=0), axes=[0])
    places = m.Slice(np.arange(32)[None], m.constant([0]), size, m.constant([1]))
    kinds = m.ConstantOfShape(m.Shape(ids), value=helper.make_tensor("z", TensorProto.INT64, [1], [0]))
    tables = [(m.weight(30, width), ids), (m.weight(32, width), places), (m.weight(2, width), kinds)]
    parts = [m.Gather(table, which) for table, which in tables]
    x = layer_norm(m, m.Add(m.Add(parts[0], parts[1]), parts[2]), width)
    open_ = m.Cast(m.Unsqueeze(m.Unsqueeze(mask, axes=[1]), axes=[2]), to=1)
    bias = m.Mul(m.Sub(np.float32(1), open_), np.float32(-10000))
    q, v = heads(m, x, width, 4, [0, 2, 1, 3]), heads(m, x, width, 4, [0, 2, 1, 3])
    k = heads(m, x, width, 4, [0, 2, 3, 1])
    scores = m.Softmax(m.Add(m.Div(m.MatMul(q, k), np.float32(2)), bias), axis=3)
    seen = m.Transpose(m.MatMul(scores, v), perm=[0, 2, 1, 3])
    sizes = [m.Unsqueeze(m.Gather(m.Shape(seen), m.constant(i), axis=0), axes=[0]) for i in (0, 1)]
    joined = m.Reshape(seen, m.Concat(*sizes, m.constant([width]), axis=0))
    x = layer_norm(m, m.Add(m.Add(m.MatMul(joined, m.weight(width, width)), m.weight(width)), x), width)
    wide = m.Add(m.MatMul(x, m.weight(width, 32)), m.weight(32))
    erf = m.Add(m.Erf(m.Div(wide, np.float32(2**0.5))), np.float32(1))
    gelu = m.Mul(m.Mul(wide, erf), np.float32(0.5))
    x = layer_norm(m, m.Add(m.MatMul(gelu, m.weight(32, width)), x), width)
    pooled = m.Tanh(m.Gemm(m.Gather(x, m.constant(0), axis=1), m.weight(width, width), m.weight(width), transB=1))
    start, end = m.node("Split", m.MatMul(x, m.weight(width, 2)), outputs=2, axis=-1)
    model = m.finish(pooled, m.Squeeze(start, axes=[-1]), m.Squeeze(end, axes=[-1]))
    ones = np.ones((2, length), "int64")
    ones[1, 4:] = 0
    check(model, {"ids": rng.integers(0, 30, (2, length)), "mask": ones})


def test_decoder_of_the_gpt_family(rng):
    m = Model(13, rng)
    width = 12
    ids = m.input("ids", ["N", "L"], "int64")
    length = m.Gather(m.Shape(ids), m.constant(1), axis=0)
    flat = m.Reshape(ids, m.Concat(m.constant([-1]), m.Unsqueeze(length, m.constant([0])), axis=0))
    places = m.Unsqueeze(m.Range(m.constant(0), length, m.constant(1)), m.constant([0]))
    table = m.weight(25, width)
    x = m.Add(m.Gather(table, flat), m.Gather(m.weight(16, width), places))
    rows = m.Gemm(m.Reshape(x, m.constant([-1, width])), m.weight(width, 3 * width), m.weight(3 * width))
    dims = m.Concat(m.constant([2]), m.Unsqueeze(length, m.constant([0])), m.constant([3 * width]), axis=0)
    q, k, v = m.node("Split", m.Reshape(rows, dims), m.constant([width] * 3), outputs=3, axis=2)
    scores = m.Div(m.MatMul(q, m.Transpose(k, perm=[0, 2, 1])), m.Sqrt(np.float32(width)))
    triangle = np.tril(np.ones((1, 16, 16), "bool"))
    end = m.Unsqueeze(length, m.constant([0]))
    for axis in (1, 2):
        triangle = m.Slice(triangle, m.constant([0]), end, m.constant([axis]), m.constant([1]))
    seen = m.MatMul(m.Softmax(m.Where(triangle, scores, np.float32(-1e4)), axis=-1), v)
    cube = m.Pow(seen, np.float32(3))
    inner = m.Mul(m.Add(seen, m.Mul(cube, np.float32(0.044715))), np.float32((2 / np.pi) ** 0.5))
    x = m.Mul(m.Mul(seen, np.float32(0.5)), m.Add(m.Tanh(inner), np.float32(1)))
    model = m.finish(m.MatMul(x, np.ascontiguousarray(table.T)), m.Unsqueeze(k, m.constant([1])))
    check(model, {"ids": rng.integers(0, 25, (2, 5))})


def test_layer_of_the_llama_family(rng):
    """RMS norm, rotary positions by Slice, Neg and Concat, keys shared by heads through Expand, a cache joined on."""
    m = Model(17, rng)
    x, past = m.input("x", [1, 4, 16]), m.input("past", [1, 2, 3, 4])
    mean = m.ReduceMean(m.Pow(x, np.float32(2)), axes=[-1], keepdims=1)
    h = m.Mul(1 + m.weight(16), m.Mul(x, m.Reciprocal(m.Sqrt(m.Add(mean, np.float32(1e-5))))))
    angle = np.outer(np.arange(3, 7), 10000.0 ** (-np.arange(2) / 2))
    cosine, sine = (np.concatenate([f(angle)] * 2, 1).astype("float32") for f in (np.cos, np.sin))

    def rotary(v):
        first = m.Slice(v, m.constant([0]), m.constant([2]), m.constant([3]))
        second = m.Slice(v, m.constant([2]), m.constant([np.iinfo("int64").max]), m.constant([3]))
        return m.Add(m.Mul(v, cosine), m.Mul(m.Concat(m.Neg(second), first, axis=-1), sine))

    def split(v, count):
        return m.Transpose(m.Reshape(v, m.constant([0, 0, count, 4])), perm=[0, 2, 1, 3])

    def shared(v):
        wide = m.Expand(m.Unsqueeze(v, m.constant([2])), m.constant([1, 2, 2, 1, 1]))
        return m.Reshape(wide, m.constant([1, 4, -1, 4]))

    q = rotary(split(m.MatMul(h, m.weight(16, 16)), 4))
    k = m.Concat(past, rotary(split(m.MatMul(h, m.weight(16, 8)), 2)), axis=2)
    v = m.Concat(past, split(m.MatMul(h, m.weight(16, 8)), 2), axis=-2)
    scores = m.Mul(m.MatMul(q, m.Transpose(shared(k), perm=[0, 1, 3, 2])), np.float32(0.5))
    seen = m.MatMul(m.Softmax(m.Add(scores, np.triu(np.full((4, 7), -1e9, "float32"), 4)), axis=-1), shared(v))
    out = m.Add(x, m.MatMul(m.Reshape(m.Transpose(seen, perm=[0, 2, 1, 3]), m.constant([0, 0, -1])), m.weight(16, 16)))
    gate = m.MatMul(out, m.weight(16, 24))
    silu = m.Mul(gate, m.Sigmoid(gate))
    model = m.finish(m.Add(out, m.MatMul(silu, m.weight(24, 16))), k)
    check(model, {"x": numbers(rng, 1, 4, 16), "past": numbers(rng, 1, 2, 3, 4)})


def test_vision_transformer(rng):
    m = Model(17, rng)
    x = m.input("x", ["N", 3, 8, 8])
    patches = m.Conv(x, m.weight(12, 3, 4, 4), m.weight(12), strides=[4, 4])
    size = m.Unsqueeze(m.Gather(m.Shape(x), m.constant(0), axis=0), m.constant([0]))
    rows = m.Transpose(m.Reshape(patches, m.Concat(size, m.constant([12, -1]), axis=0)), perm=[0, 2, 1])
    token = m.Expand(m.weight(1, 1, 12), m.Concat(size, m.constant([-1 + 2, 12]), axis=0))
    tokens = m.Add(m.Concat(token, rows, axis=1), m.weight(1, 5, 12))
    normal = m.LayerNormalization(tokens, 1 + m.weight(12), m.weight(12), axis=-1, epsilon=1e-6)
    parts = m.Reshape(m.Add(m.MatMul(normal, m.weight(12, 36)), m.weight(36)), m.constant([0, 5, 3, 2, 6]))
    q, k, v = (m.Gather(m.Transpose(parts, perm=[2, 0, 3, 1, 4]), m.constant(i), axis=0) for i in range(3))
    scores = m.Softmax(m.Mul(m.MatMul(q, m.Transpose(k, perm=[0, 1, 3, 2])), np.float32(6**-0.5)), axis=-1)
    seen = m.Reshape(m.Transpose(m.MatMul(scores, v), perm=[0, 2, 1, 3]), m.constant([0, 5, 12]))
    first = m.Gather(m.Add(tokens, seen), m.constant(0), axis=1)
    check(m.finish(m.Gemm(first, m.weight(4, 12), m.weight(4), transB=1)), {"x": numbers(rng, 2, 3, 8, 8)})


def test_detector_of_the_yolo_family(rng):
    """Focus, stages with SiLU, pooling pyramid, upsampled features, heads with grids, boxes joined."""
    m = Model(12, rng)
    x = m.input("images", [1, 3, 32, 32])

    def block(v, cin, cout, kernel=3, stride=1):
        y = m.Conv(v, m.weight(cout, cin, kernel, kernel), m.weight(cout), pads=[kernel // 2] * 4, strides=[stride] * 2)
        return m.Mul(y, m.Sigmoid(y))

    quarters = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        part = m.Slice(x, m.constant([row]), m.constant([9223372036854775807]), m.constant([2]), m.constant([2]))
        quarters.append(
            m.Slice(part, m.constant([column]), m.constant([9223372036854775807]), m.constant([3]), m.constant([2]))
        )
    a = block(m.Concat(*quarters, axis=1), 12, 8)
    b = block(a, 8, 8, stride=2)
    pools = [b]
    for _ in range(3):
        pools.append(m.MaxPool(pools[-1], kernel_shape=[5, 5], pads=[2, 2, 2, 2], strides=[1, 1]))
    b = block(m.Concat(*pools, axis=1), 32, 8, kernel=1)
    up = m.Resize(
        b,
        np.array([], "float32"),
        np.array([1, 1, 2, 2], "float32"),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    outs = []
    for feature, channels, side, stride in ((m.Concat(up, a, axis=1), 16, 16, 2), (b, 8, 8, 4)):
        raw = m.Conv(feature, m.weight(14, channels, 1, 1), m.weight(14))
        five = m.Transpose(m.Reshape(raw, m.constant([1, 2, 7, side, side])), perm=[0, 1, 3, 4, 2])
        xy, wh, rest = m.node("Split", m.Sigmoid(five), outputs=3, axis=4, split=[2, 2, 3])
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1)[None, None].astype("float32") - 0.5
        centre = m.Mul(m.Add(m.Mul(xy, np.float32(2)), grid), np.float32(stride))
        box = m.Mul(m.Pow(m.Mul(wh, np.float32(2)), np.float32(2)), np.ones((1, 2, 1, 1, 2), "float32") * 8)
        outs.append(m.Reshape(m.Concat(centre, box, rest, axis=4), m.constant([1, -1, 7])))
    check(m.finish(m.Concat(*outs, axis=1)), {"images": numbers(rng, 1, 3, 32, 32)})


def test_detector_of_the_ssd_family():
    """Separable layers, priors, decoded boxes, the best of each class by TopK."""
    rng = np.random.default_rng(7)  # fixed: places of equal scores may differ
    m = Model(11, rng)
    x = m.input("x", [1, 3, 24, 24])
    a = m.Clip(m.Conv(x, m.weight(8, 3, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"), np.float32(0), np.float32(6))
    b = m.Conv(a, m.weight(8, 1, 3, 3), group=8, strides=[2, 2], pads=[0, 0, 1, 1])
    rows = []
    for feature, channels in ((a, 8), (b, 8)):
        raw = m.Conv(feature, m.weight(14, channels, 3, 3), m.weight(14), pads=[1, 1, 1, 1])
        rows.append(m.Reshape(m.Transpose(raw, perm=[0, 2, 3, 1]), m.constant([1, -1, 7])))
    every = m.Concat(*rows, axis=1)
    count = 2 * (12 * 12 + 6 * 6)
    boxes, classes = m.node("Split", every, outputs=2, axis=2, split=[4, 3])
    priors = np.abs(m.weight(1, count, 2)) + 0.1
    centre = m.Add(m.Mul(m.Slice(boxes, m.constant([0]), m.constant([2]), m.constant([2])), priors), priors)
    sizes = m.Slice(boxes, m.constant([2]), m.constant([4]), m.constant([-1]))
    size = m.Mul(m.Exp(m.Mul(sizes, np.float32(0.2))), priors)
    half = m.Div(size, np.float32(2))
    corners = m.Concat(m.Sub(centre, half), m.Add(centre, half), axis=-1)
    scores = m.ReduceMax(m.Softmax(classes, axis=2), axes=[2], keepdims=0)
    best, places = m.node("TopK", scores, m.constant([10]), outputs=2)
    picked = m.Gather(m.Squeeze(corners, axes=[0]), m.Squeeze(places, axes=[0]), axis=0)
    check(m.finish(best, places, picked), {"x": numbers(rng, 1, 3, 24, 24)})


def test_tiny_detector_of_an_old_operator_set(rng):
    """Tiny YOLOv2: scaled pixels, BatchNormalization, LeakyRelu, pools that keep the size."""
    m = Model(8, rng, weights_as_inputs=True)
    x = m.input("image", ["None", 3, 16, 16])
    x = m.Add(m.Mul(x, np.array([1 / 255], "float32")), np.zeros((3, 1, 1), "float32"))
    for cin, cout, stride in ((3, 8, 2), (8, 16, 1)):
        x = m.Conv(x, m.weight(cout, cin, 3, 3), auto_pad="SAME_UPPER", kernel_shape=[3, 3], strides=[1, 1])
        vectors = [np.abs(m.weight(cout)) + 0.5, m.weight(cout), m.weight(cout), np.abs(m.weight(cout)) + 0.5]
        x = m.LeakyRelu(m.BatchNormalization(x, *vectors, epsilon=1e-5), alpha=0.1)
        x = m.MaxPool(x, kernel_shape=[2, 2], strides=[stride, stride], auto_pad="SAME_UPPER")
    out = m.Conv(x, m.weight(5, 16, 1, 1), m.weight(5), auto_pad="VALID", dilations=[1, 1])
    check(m.finish(out), {"image": (rng.random((1, 3, 16, 16)) * 255).astype("float32")})


def test_classifier_written_by_cntk(rng):
    """Constants for everything, Reshape of a weight before MatMul, AveragePool, Dropout with a mask nobody reads."""
    m = Model(8, rng, weights_as_inputs=True)
    x = m.input("Input3", [1, 1, 28, 28])
    x = m.Div(m.Sub(x, np.array(127.5, "float32")), np.array(127.5, "float32"))
    x = m.Relu(m.Add(m.Conv(x, m.weight(4, 1, 5, 5), auto_pad="SAME_UPPER", dilations=[1, 1]), m.weight(4, 1, 1)))
    x = m.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], auto_pad="NOTSET")
    x = m.AveragePool(x, kernel_shape=[3, 3], strides=[3, 3], auto_pad="VALID")
    x, _ = m.node("Dropout", x, outputs=2, ratio=0.25)
    flat = m.Reshape(x, np.array([1, 64]))
    matrix = m.Reshape(m.weight(4, 4, 4, 10), np.array([64, 10]))
    pixels = (rng.random((1, 1, 28, 28)) * 255).astype("float32")
    check(m.finish(m.Add(m.MatMul(flat, matrix), m.weight(1, 10))), {"Input3": pixels})


def test_embedding_of_faces(rng):
    """ArcFace: PRelu with a slope for each channel, residuals, BatchNormalization of vectors, L2 norm."""
    m = Model(8, rng)
    x = m.input("data", [1, 3, 12, 12])

    def normal(v, width):
        vectors = [np.abs(m.weight(width)) + 0.5, m.weight(width), m.weight(width), np.abs(m.weight(width)) + 0.5]
        return m.BatchNormalization(v, *vectors, epsilon=2e-5)

    a = m.PRelu(normal(m.Conv(x, m.weight(8, 3, 3, 3), pads=[1] * 4, kernel_shape=[3, 3]), 8), m.weight(8, 1, 1))
    b = m.PRelu(m.Conv(normal(a, 8), m.weight(8, 8, 3, 3), pads=[1] * 4, strides=[2, 2]), m.weight(8, 1, 1))
    c = m.Add(b, normal(m.Conv(a, m.weight(8, 8, 1, 1), strides=[2, 2]), 8))
    flat = m.Flatten(m.Dropout(normal(c, 8), ratio=0.4), axis=1)
    out = normal(m.Gemm(flat, m.weight(6, 288), m.weight(6), transB=1, alpha=1.0, beta=1.0), 6)
    check(m.finish(m.LpNormalization(out, axis=1, p=2), out), {"data": numbers(rng, 1, 3, 12, 12)})


@pytest.mark.slow("imports, compiles and runs a whole network")
@pytest.mark.parametrize("kind, gates, direction", [
    ("LSTM", 4, "bidirectional"), ("GRU", 3, "forward"), ("RNN", 1, "bidirectional"),
])  # fmt: skip
def test_recurrent_nets(rng, kind, gates, direction):
    """PyTorch: states of zeros by the batch's size, sequence lengths left out, both directions joined by Reshape."""
    m = Model(13, rng)
    ways, hidden = (2 if direction == "bidirectional" else 1), 5
    x = m.input("x", ["L", "N", 3])
    size = m.Unsqueeze(m.Gather(m.Shape(x), m.constant(1), axis=0), m.constant([0]))
    state = m.ConstantOfShape(m.Concat(m.constant([ways]), size, m.constant([hidden]), axis=0))
    states = [state, state] if kind == "LSTM" else [state]
    rows = gates * hidden
    weights = [m.weight(ways, rows, 3), m.weight(ways, rows, hidden), m.weight(ways, 2 * rows)]
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    made = m.node(kind, x, *weights, None, *states, outputs=2, hidden_size=hidden, direction=direction, **extra)
    joined = m.Reshape(m.Transpose(made[0], perm=[0, 2, 1, 3]), m.constant([0, 0, -1]))
    last = m.Slice(made[1], m.constant([-1]), m.constant([np.iinfo("int64").max]), m.constant([0]))
    last = m.Squeeze(last, m.constant([0]))
    check(m.finish(m.MatMul(joined, m.weight(ways * hidden, 4)), last), {"x": numbers(rng, 6, 2, 3)})


def test_segmentation_up_and_down():
    """U-Net: transposed convolutions with output padding, a crop by negative ends, joined features; then ArgMax."""
    rng = np.random.default_rng(7)  # fixed: places of equal scores may differ
    m = Model(13, rng)
    x = m.input("x", [1, 3, 18, 18])
    a = m.Relu(m.Conv(x, m.weight(6, 3, 3, 3), m.weight(6), pads=[1] * 4))
    half = m.MaxPool(a, kernel_shape=[2, 2], strides=[2, 2])
    b = m.Relu(m.Conv(half, m.weight(8, 6, 3, 3), dilations=[2, 2], pads=[2] * 4))
    up = m.ConvTranspose(b, m.weight(8, 6, 2, 2), m.weight(6), strides=[2, 2], kernel_shape=[2, 2])
    odd = m.ConvTranspose(b, m.weight(8, 2, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1], group=1)
    crop = m.Slice(a, m.constant([1, 1]), m.constant([-1, -1]), m.constant([2, 3]))
    back = m.Pad(crop, m.constant([0, 0, 1, 1, 0, 0, 1, 1]))
    raw = m.Conv(m.Concat(up, odd, back, axis=1), m.weight(4, 14, 1, 1))
    check(m.finish(raw, m.ArgMax(raw, axis=1, keepdims=0)), {"x": numbers(rng, 1, 3, 18, 18)})


def test_segmentation_with_pooled_context(rng):
    """DeepLab: branches of several dilations, a pooled one resized to the feature, logits resized to the image, with
    coordinates that the seed chooses."""
    coordinates = str(rng.choice(["half_pixel", "align_corners", "pytorch_half_pixel", "asymmetric"]))
    m = Model(11, rng)
    x = m.input("x", ["N", 3, 20, 20])
    f = m.Relu(m.Conv(x, m.weight(6, 3, 3, 3), strides=[2, 2], pads=[1] * 4))
    branches = [m.Conv(f, m.weight(4, 6, 3, 3), dilations=[d, d], pads=[d] * 4) for d in (1, 3)]

    def resized(v, like):
        lead = m.Slice(m.Shape(v), m.constant([0]), m.constant([2]), m.constant([0]))
        sides = m.Slice(m.Shape(like), m.constant([2]), m.constant([4]), m.constant([0]))
        sizes = m.Concat(lead, sides, axis=0)
        none = np.array([], "float32")
        return m.Resize(v, none, none, sizes, mode="linear", coordinate_transformation_mode=coordinates)

    branches.append(resized(m.Conv(m.GlobalAveragePool(f), m.weight(4, 6, 1, 1)), f))
    logits = m.Conv(m.Concat(*branches, axis=1), m.weight(3, 12, 1, 1), m.weight(3))
    check(m.finish(resized(logits, x)), {"x": numbers(rng, 1, 3, 20, 20)})


def test_quantized_by_pairs(rng):
    """QDQ with scales for each channel, a residual sum and a pool between quantizations. Sums halfway between two steps
    may go either way, in a plane of equal values all of them: within one step of what is averaged."""
    m = Model(13, rng)
    x = m.input("x", [1, 3, 8, 8])

    def quantized(v, scale, zero, kind="uint8"):
        pair = (np.float32(scale), np.array(zero, kind))
        return m.DequantizeLinear(m.QuantizeLinear(v, *pair), *pair)

    def conv(v, cin, cout):
        whole = rng.integers(-127, 128, (cout, cin, 3, 3)).astype("int8")
        scales = (np.abs(m.weight(cout)) * 0.01 + 0.001).astype("float32")
        weight = m.DequantizeLinear(whole, scales, np.zeros(cout, "int8"), axis=0)
        bias = m.DequantizeLinear(rng.integers(-50, 50, cout).astype("int32"), scales, np.zeros(cout, "int32"), axis=0)
        return m.Conv(v, weight, bias, pads=[1] * 4)

    a = quantized(m.Relu(conv(quantized(x, 0.03, 128), 3, 6)), 0.05, 0)
    b = quantized(m.Add(a, quantized(conv(a, 6, 6), 0.05, 120)), 0.06, 100)
    out = quantized(m.GlobalAveragePool(b), 0.02, 128)
    check(m.finish(out), {"x": numbers(rng, 1, 3, 8, 8)}, rtol=0, atol=0.0601)


def test_reading_of_text_lines():
    """CRNN: height pooled away, Squeeze, Transpose, bidirectional LSTM in batch-first form, classes by step."""
    rng = np.random.default_rng(7)  # fixed: places of equal scores may differ
    m = Model(11, rng)
    x = m.input("x", ["N", 1, 8, 20])
    f = m.Relu(m.Conv(x, m.weight(4, 1, 3, 3), pads=[1] * 4))
    f = m.MaxPool(f, kernel_shape=[8, 2], strides=[8, 2])
    steps = m.Transpose(m.Squeeze(f, axes=[2]), perm=[2, 0, 1])
    y, _, _ = m.node(
        "LSTM",
        steps,
        m.weight(2, 12, 4),
        m.weight(2, 12, 3),
        m.weight(2, 24),
        outputs=3,
        hidden_size=3,
        direction="bidirectional",
    )
    joined = m.Reshape(m.Transpose(y, perm=[0, 2, 1, 3]), m.constant([0, 0, -1]))
    scores = m.Softmax(m.Add(m.MatMul(joined, m.weight(6, 5)), m.weight(5)), axis=2)
    check(m.finish(scores, m.ArgMax(m.Transpose(scores, perm=[1, 0, 2]), axis=-1)), {"x": numbers(rng, 2, 1, 8, 20)})


def test_stages_of_large_classifiers(rng):
    """Inception and DenseNet: pools with ceil_mode, growing Concat, squeeze and excite, hard swish, global pools."""
    m = Model(14, rng)
    x = m.input("x", [1, 6, 13, 13])
    pool = m.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    mean = m.AveragePool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
    wide = m.Conv(x, m.weight(4, 6, 1, 7), pads=[0, 3, 0, 3], strides=[2, 2], kernel_shape=[1, 7])
    both = m.Concat(
        m.Slice(pool, *(m.constant(v) for v in ([0, 0], [6, 6], [2, 3]))),
        m.Slice(mean, *(m.constant(v) for v in ([0, 0], [6, 6], [2, 3]))),
        m.Slice(wide, *(m.constant(v) for v in ([0, 0], [6, 6], [-2, -1]))),
        axis=1,
    )
    squeezed = m.Relu(m.Conv(m.GlobalAveragePool(both), m.weight(4, 16, 1, 1), m.weight(4)))
    gate = m.HardSigmoid(m.Conv(squeezed, m.weight(16, 4, 1, 1), m.weight(16)), alpha=1 / 6, beta=0.5)
    y = m.Mul(both, gate)
    y = m.Div(m.Mul(y, m.Clip(m.Add(y, np.float32(3)), np.float32(0), np.float32(6))), np.float32(6))
    flat = m.Flatten(m.Concat(m.GlobalAveragePool(y), m.GlobalMaxPool(y), axis=1))
    out = m.LogSoftmax(m.Gemm(flat, m.weight(32, 5)), axis=1)
    check(m.finish(out, m.HardSwish(y)), {"x": numbers(rng, 1, 6, 13, 13)})
