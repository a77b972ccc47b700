"""What exporters write around the operators: chains that compute shapes, left-out inputs, old forms of operators."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper
from small_models import Model, check, infer

from tvm.contrib import onnx_backend


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def test_view_by_sizes_of_the_input(rng):
    """x.view(x.size(0), -1, 4) as PyTorch writes it, with an unknown batch."""
    m = Model(13, rng)
    x = m.input("x", ["N", 3, 4, 4])
    size = m.Gather(m.Shape(x), m.constant(0), axis=0)
    parts = [m.Unsqueeze(s, m.constant([0])) for s in (size, m.constant(-1), m.constant(4))]
    out = m.Reshape(x, m.Concat(*parts, axis=0))
    twice = m.Mul(m.Gather(m.Shape(x), m.constant(-1), axis=0), m.constant(3))
    flat = m.Concat(m.Unsqueeze(size, m.constant([0])), m.constant([-1]), m.Unsqueeze(twice, m.constant([-1])), axis=0)
    check(m.finish(out, m.Reshape(x, flat)), {"x": numbers(rng, 2, 3, 4, 4)})


@pytest.mark.parametrize("opset", [11, 17])
def test_expand_by_where_of_ones(rng, opset):
    """x.expand(-1, 5, -1): ConstantOfShape, Mul, Equal, Where, Expand."""
    m = Model(opset, rng)
    x = m.input("x", [2, 1, 3])
    wanted = m.constant([-1, 5, -1])
    ones = m.ConstantOfShape(m.Shape(wanted), value=helper.make_tensor("one", TensorProto.INT64, [1], [1]))
    dims = m.Where(m.Equal(wanted, m.Mul(ones, m.constant(-1))), ones, wanted)
    check(m.finish(m.Expand(x, dims)), {"x": numbers(rng, 2, 1, 3)})


@pytest.mark.parametrize("mode, coordinates", [("nearest", "asymmetric"), ("linear", "half_pixel")])
def test_resize_to_the_size_of_another_tensor(rng, mode, coordinates):
    """F.interpolate(x, size=y.shape[2:]): Shape, Slice, Concat, Resize with empty roi and scales."""
    m = Model(13, rng)
    x, y = m.input("x", ["N", 2, 3, 5]), m.input("y", ["N", 1, 7, 9])
    start = m.Slice(m.Shape(x), m.constant([0]), m.constant([2]), m.constant([0]))
    end = m.Slice(m.Shape(y), m.constant([2]), m.constant([4]), m.constant([0]))
    sizes = m.Concat(start, m.Cast(end, to=TensorProto.INT64), axis=0)
    out = m.Resize(x, None, None, sizes, mode=mode, coordinate_transformation_mode=coordinates, nearest_mode="floor")
    check(m.finish(out), {"x": numbers(rng, 1, 2, 3, 5), "y": numbers(rng, 1, 1, 7, 9)})


def test_upsampling_by_scales_computed_from_shapes(rng):
    """The opset 9 export: Floor(Cast(Shape) * 2) / Shape, then Upsample."""
    m = Model(9, rng)
    x = m.input("x", [1, 2, 3, 4])
    sides = []
    for axis in (2, 3):
        size = m.Gather(m.Shape(x), m.constant(axis), axis=0)
        real = m.Cast(m.Mul(m.Cast(size, to=1), m.constant(2.0, "float32")), to=1)
        sides.append(m.Unsqueeze(m.Div(m.Floor(real), m.Cast(size, to=1)), axes=[0]))
    scales = m.Concat(m.constant([1.0, 1.0], "float32"), *sides, axis=0)
    outs = [m.Upsample(x, scales, mode=mode) for mode in ("nearest", "linear")]
    check(m.finish(*outs), {"x": numbers(rng, 1, 2, 3, 4)})


@pytest.mark.parametrize("size", [1, 3])
def test_squeeze_only_if_the_size_is_one(rng, size):
    """x.squeeze(1) as PyTorch writes it: If on a size, with branches of different ranks."""
    m = Model(13, rng)
    x = m.input("x", ["N", "C", 4])
    is_one = m.Equal(m.Gather(m.Shape(x), m.constant(1), axis=0), m.constant(1))
    then, other = Model(13, rng), Model(13, rng)
    then.count, other.count = 1000, 2000
    squeezed = then.Squeeze("x", then.constant([1]))
    same = other.Identity("x")
    out = m.If(is_one, then_branch=then.graph("then", [squeezed]), else_branch=other.graph("else", [same]))
    check(m.finish(m.Relu(out)), {"x": numbers(rng, 2, size, 4)})


def test_left_out_and_unlisted_inputs(rng):
    """Empty names for optional inputs, weights listed as inputs and not, negative axes, results nobody uses."""
    for listed in (False, True):
        m = Model(11, rng, weights_as_inputs=listed)
        x = m.input("x", [2, 6])
        low = m.Clip(x, None, np.float32(0.5))
        high = m.Clip(x, np.float32(-0.5))
        parts = m.node("Split", m.Concat(low, high, axis=-1), outputs=3, axis=-1)
        values, places = m.node("TopK", parts[0], np.array([2]), outputs=2, axis=-1)
        m.Exp(x)
        out = m.Squeeze(m.Unsqueeze(parts[1], axes=[-1]), axes=[-1])
        check(m.finish(values, places, out, m.ReduceMax(parts[2], axes=[-1], keepdims=0)), {"x": numbers(rng, 2, 6)})


def test_old_broadcasting_and_attributes(rng):
    """Operator set 6: broadcast with an axis, shapes and pads as attributes, is_test."""
    models = []
    seed = int(rng.integers(1 << 30))
    old = (6, {"broadcast": 1, "axis": 1}, {"broadcast": 1}, {"is_test": 1})
    for opset, row, number, test in (old, (7, {}, {}, {})):
        m = Model(opset, seed=seed)
        x = m.input("x", [2, 3, 4, 4])
        factor = m.weight(3) if row else m.weight(3).reshape(3, 1, 1)
        scaled = m.Add(m.Mul(x, factor, **row), np.array(0.5, "float32"), **number)
        vectors = [np.abs(m.weight(3)) + 0.5, m.weight(3), m.weight(3), np.abs(m.weight(3)) + 0.5]
        normal = m.BatchNormalization(scaled, *vectors, epsilon=1e-3, **test)
        padded = m.Pad(normal, pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="reflect")
        cut = m.Slice(padded, axes=[2, 3], starts=[1, -4], ends=[5, 9999])
        flat = m.Gemm(m.Flatten(m.Dropout(cut, ratio=0.3, **test)), m.weight(48, 5), m.weight(5), **number)
        models.append(m.finish(m.Softmax(flat), m.Abs(flat)))
    check(models[0], {"x": numbers(rng, 2, 3, 4, 4)}, same=models[1])


def test_forms_of_operator_set_seven_to_nine(rng):
    """Upsample, Slice and Pad with attributes; BatchNormalization with spatial; Dropout with ratio; PRelu; LRN."""
    m = Model(7, rng)
    x = m.input("x", [1, 4, 6, 6])
    up = m.Upsample(x, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")
    vectors = [np.abs(m.weight(4)) + 0.5, m.weight(4), m.weight(4), np.abs(m.weight(4)) + 0.5]
    normal = m.BatchNormalization(up, *vectors, spatial=1, momentum=0.9)
    curved = m.PRelu(normal, m.weight(4, 1, 1))
    pooled = m.MaxPool(curved, kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER")
    mean = m.AveragePool(pooled, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    near = m.LRN(mean, size=3, alpha=1e-2, beta=0.75, bias=1.0)
    out = m.Dropout(m.Slice(near, axes=[1], starts=[-3], ends=[-1]), ratio=0.5)
    check(m.finish(out, m.LeakyRelu(near, alpha=0.1)), {"x": numbers(rng, 1, 4, 6, 6)})


def test_channels_last_between_transposes(rng):
    """tf2onnx: NHWC in and out, a Transpose around each convolution, Relu6 as Min and Max, Pad as input."""
    m = Model(12, rng)
    x = m.input("x", ["N", 9, 9, 3])
    padded = m.Pad(x, np.array([0, 0, 0, 0, 0, 1, 1, 0]), np.float32(0))
    first = m.Conv(m.Transpose(padded, perm=[0, 3, 1, 2]), m.weight(8, 3, 3, 3), strides=[2, 2])
    six = m.Min(m.Max(m.Add(first, m.weight(1, 8, 1, 1)), np.float32(0)), np.float32(6))
    depth = m.Conv(six, m.weight(8, 1, 3, 3), m.weight(8), group=8, auto_pad="SAME_UPPER", kernel_shape=[3, 3])
    gate = m.Sigmoid(m.ReduceMean(m.Transpose(depth, perm=[0, 2, 3, 1]), axes=[1, 2], keepdims=1))
    out = m.Mul(m.Transpose(m.Clip(depth, np.float32(0), np.float32(6)), perm=[0, 2, 3, 1]), gate)
    check(m.finish(m.Squeeze(m.ReduceMean(out, axes=[1, 2], keepdims=1), axes=[1, 2])), {"x": numbers(rng, 1, 9, 9, 3)})


def test_pixels_shuffled_by_operator_and_by_reshape(rng):
    m = Model(13, rng)
    x = m.input("x", ["N", 8, 3, 5])
    by_view = m.Reshape(
        m.Transpose(m.Reshape(x, np.array([0, 2, 2, 2, 3, 5])), perm=[0, 1, 4, 2, 5, 3]), np.array([0, 2, 6, 10])
    )
    outs = [m.DepthToSpace(x, blocksize=2, mode=mode) for mode in ("DCR", "CRD")]
    check(m.finish(by_view, *outs, m.SpaceToDepth(by_view, blocksize=2)), {"x": numbers(rng, 1, 8, 3, 5)})


def test_rolled_windows(rng):
    """Swin: roll by Slice and Concat, windows by a 6-D Reshape, and back."""
    m = Model(13, rng)
    x = m.input("x", [1, 8, 8, 4])
    for axis in (1, 2):
        head = m.Slice(x, np.array([2]), np.array([np.iinfo("int64").max]), np.array([axis]))
        tail = m.Slice(x, np.array([0]), np.array([2]), np.array([axis]))
        x = m.Concat(head, tail, axis=axis)
    windows = m.Transpose(m.Reshape(x, np.array([1, 2, 4, 2, 4, 4])), perm=[0, 1, 3, 2, 4, 5])
    rows = m.Reshape(windows, np.array([-1, 16, 4]))
    scores = m.Softmax(m.MatMul(rows, m.Transpose(rows, perm=[0, 2, 1])), axis=-1)
    check(m.finish(m.MatMul(scores, rows)), {"x": numbers(rng, 1, 8, 8, 4)})


def test_ranges_masks_and_relative_positions(rng):
    """T5: Range over a size, Sub, Abs, Log, Min, Where and Gather of a bias table; a triangle by Trilu and Less."""
    m = Model(17, rng)
    ids = m.input("ids", ["N", "L"], "int64")
    length = m.Gather(m.Shape(ids), m.constant(1), axis=0)
    places = m.Range(m.constant(0), length, m.constant(1))
    apart = m.Sub(m.Unsqueeze(places, m.constant([0])), m.Unsqueeze(places, m.constant([1])))
    size = m.Abs(apart)
    near = m.Less(size, m.constant(4))
    real = m.Div(m.Log(m.Div(m.Cast(m.Max(size, m.constant(1)), to=1), np.float32(4))), np.float32(np.log(32.0)))
    far = m.Min(m.Add(m.Cast(m.Mul(real, np.float32(4)), to=7), m.constant(4)), m.constant(7))
    bucket = m.Add(m.Where(near, size, far), m.Mul(m.Cast(m.Greater(apart, m.constant(0)), to=7), m.constant(8)))
    bias = m.Transpose(m.Gather(m.weight(16, 2), bucket), perm=[2, 0, 1])
    words = m.Gather(m.weight(20, 6), ids)
    scores = m.Add(m.Einsum(words, words, equation="bid,bjd->bij"), m.ReduceSum(bias, m.constant([0]), keepdims=0))
    dims = m.Concat(m.Unsqueeze(length, m.constant([0])), m.Unsqueeze(length, m.constant([0])), axis=0)
    triangle = m.Trilu(m.ConstantOfShape(dims, value=helper.make_tensor("v", 1, [1], [1.0])), upper=0)
    masked = m.Where(m.Cast(triangle, to=9), scores, np.float32(-1e9))
    check(m.finish(m.Softmax(masked, axis=-1)), {"ids": rng.integers(0, 20, (2, 7))})


def test_picking_and_placing(rng):
    """Gathers and scatters with int64 places, some of them negative; OneHot, CumSum, ArgMax, NonZero of a constant."""
    m = Model(16, rng)
    x, at = m.input("x", [3, 5]), m.input("at", [3, 2], "int64")
    taken = m.GatherElements(x, at, axis=1)
    pairs = m.GatherND(x, np.array([[0, 1], [2, -1]]))
    placed = m.ScatterElements(x, at, m.Neg(taken), axis=1)
    rows = m.ScatterND(x, np.array([[2], [0]]), m.weight(2, 5))
    hot = m.OneHot(m.ArgMax(x, axis=1, keepdims=0), np.array(5), np.array([0.0, 2.0], "float32"))
    added = m.CumSum(x, np.array(-1), reverse=1, exclusive=1)
    where = m.Transpose(m.NonZero(np.array([[0, 1], [1, 0]])))
    out = m.finish(taken, pairs, placed, rows, hot, added, where, m.Tile(x, np.array([1, 2])))
    places = np.stack([rng.permutation(5)[:2] for _ in range(3)]) - np.array([0, 5])
    check(out, {"x": numbers(rng, 3, 5), "at": places})


def test_unused_shapes_of_the_exporter_do_not_mislead(rng):
    """Stored shapes of another batch: the given shape wins."""
    m = Model(13, rng)
    x = m.input("x", [1, 3, 8])
    out = m.MatMul(m.Reshape(x, np.array([0, -1, 4])), m.weight(4, 2))
    model = infer(m.finish(out))
    for dim in (model.graph.input[0].type.tensor_type.shape.dim[0],):
        dim.dim_param = "batch"
    model.graph.output[0].type.tensor_type.elem_type = 1
    check(model, {"x": numbers(rng, 4, 3, 8)})


def test_results_whose_number_depends_on_the_data_are_as_many_as_there_are():
    m = Model(13)
    x = m.input("x", [4])
    run = onnx_backend.prepare(m.finish(m.NonZero(x)))
    for row in ([1, 0, 0, 2], [0, 0, 0, 0], [1, 1, 1, 1]):
        assert run.run([np.array(row, "float32")])[0].tolist() == [np.nonzero(row)[0].tolist()]
