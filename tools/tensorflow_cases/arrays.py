"""Operators on shapes, reductions and indexing."""

from __future__ import annotations

import tensorflow as tf

from .case import b, case, f, i

raw = tf.raw_ops

# -- shapes -----------------------------------------------------------------------------------------------------------

case("Reshape", lambda x: raw.Reshape(tensor=x, shape=[5, -1]), f(3, 5, 2))
case("Reshape/of shape", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), f(3, 5, 2, open_shape=[None, 5, 2]))
case(
    "Reshape/two open",
    lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 2, 3]),
    f(3, 5, 6, open_shape=[None, None, 6]),
)
case("Transpose", lambda x: raw.Transpose(x=x, perm=[2, 0, 1]), f(3, 5, 2))
case("Squeeze", lambda x: raw.Squeeze(input=x), f(3, 1, 2, 1))
case("Squeeze/axes", lambda x: raw.Squeeze(input=x, axis=[1, -1]), f(3, 1, 1, 1))
case("ExpandDims", lambda x: raw.ExpandDims(input=x, axis=-2), f(3, 5))
case("Tile", lambda x: raw.Tile(input=x, multiples=[2, 1, 3]), f(3, 1, 2))
case("Tile/open", lambda x: tf.tile(x, [tf.shape(x)[0], 1]), f(3, 2, open_shape=[None, 2]))
case("BroadcastTo", lambda x: raw.BroadcastTo(input=x, shape=[2, 3, 5]), f(3, 1))
case("BroadcastTo/open", lambda x: tf.broadcast_to(x, tf.concat([[2], tf.shape(x)], 0)), f(3, 5, open_shape=[None, 5]))
case("BroadcastArgs", lambda x: tf.broadcast_to(x, raw.BroadcastArgs(s0=[2, 1, 5], s1=[3, 1])), f(3, 5))
case("Shape", lambda x: raw.Shape(input=x), f(3, 5, open_shape=[None, 5]))
case("Shape/known", lambda x: raw.Shape(input=x, out_type="int64"), f(3, 5))
case("ShapeN", lambda x, y: raw.ShapeN(input=[x, y]), f(3, 5), f(2))
case("Size", lambda x: raw.Size(input=x), f(3, 5, open_shape=[None, 5]))
case("Rank", lambda x: raw.Rank(input=x), f(3, 5))
case("Slice", lambda x: raw.Slice(input=x, begin=[1, 0, 2], size=[-1, 2, 1]), f(3, 5, 4))
case("Slice/open", lambda x: tf.slice(x, [1, 0], [tf.shape(x)[0] - 2, 2]), f(5, 4, open_shape=[None, 4]))
case("Slice/open batch", lambda x: tf.slice(x, [0, 1], [-1, 2]), f(5, 4, open_shape=[None, 4]))
for _k, _s in enumerate(
    (
        lambda x: x[1:3],
        lambda x: x[..., 1],
        lambda x: x[:, ::-1],
        lambda x: x[::2, 4:1:-2, :],
        lambda x: x[-1, 1:],
        lambda x: x[:, tf.newaxis, ..., -2:],
        lambda x: x[tf.newaxis, 0, :, tf.newaxis],
        lambda x: x[1:-1, 10:2],
        lambda x: x[-9:2, ::3, -1::-1],
        lambda x: x[0, 0, 0],
    )
):
    case(f"StridedSlice/{_k}", _s, f(3, 6, 4))
case("StridedSlice/open", lambda x: x[1:, :-1, 0], f(3, 6, 4, open_shape=[None, None, 4]))
case("StridedSlice/open place", lambda x: x[tf.shape(x)[0] - 2], f(3, 6, open_shape=[None, 6]))
case("StridedSlice/open ends", lambda x: x[: tf.shape(x)[0] - 1, 1:], f(3, 6, open_shape=[None, 6]))
case("Split", lambda x: raw.Split(axis=1, value=x, num_split=3), f(2, 6))
case("SplitV", lambda x: raw.SplitV(value=x, size_splits=[1, -1, 2], axis=1, num_split=3), f(2, 6))
case("ConcatV2", lambda x, y: raw.ConcatV2(values=[x, y], axis=-1), f(2, 6), f(2, 1))
case("Concat", lambda x, y: raw.Concat(concat_dim=0, values=[x, y]), f(2, 6), f(1, 6))
case("Pack", lambda x, y: raw.Pack(values=[x, y], axis=-1), f(2, 3), f(2, 3))
case("Unpack", lambda x: raw.Unpack(value=x, num=3, axis=1), f(2, 3, 4))
case("Pad", lambda x: raw.Pad(input=x, paddings=[[1, 2], [0, 3]]), f(2, 3))
case("Pad/open", lambda x: tf.pad(x, [[0, 5 - tf.shape(x)[0]], [1, 0]]), f(2, 3, open_shape=[None, 3]))
case("PadV2", lambda x: raw.PadV2(input=x, paddings=[[1, 2], [0, 3]], constant_values=7.0), f(2, 3))
case("MirrorPad", lambda x: raw.MirrorPad(input=x, paddings=[[1, 1], [0, 2]], mode="REFLECT"), f(2, 3))
case("MirrorPad/symmetric", lambda x: raw.MirrorPad(input=x, paddings=[[1, 2], [0, 3]], mode="SYMMETRIC"), f(2, 3))
case("ReverseV2", lambda x: raw.ReverseV2(tensor=x, axis=[0, -1]), f(2, 3, 4))
case("Reverse", lambda x: raw.Reverse(tensor=x, dims=[True, False, True]), f(2, 3, 4))
case(
    "ReverseSequence", lambda x: raw.ReverseSequence(input=x, seq_lengths=[1, 3, 2], seq_dim=1, batch_dim=0), f(3, 4, 2)
)
case("Roll", lambda x: raw.Roll(input=x, shift=[1, -2], axis=[0, 1]), f(3, 4))
for _l in ("NHWC", "NCHW"):
    _s = (2, 4, 6, 3) if _l == "NHWC" else (2, 3, 4, 6)
    _d = (2, 2, 3, 8) if _l == "NHWC" else (2, 8, 2, 3)
    if _l == "NHWC":
        case("SpaceToDepth", lambda x: raw.SpaceToDepth(input=x, block_size=2), f(*_s))
        case("DepthToSpace", lambda x: raw.DepthToSpace(input=x, block_size=2), f(*_d))
case(
    "SpaceToBatchND",
    lambda x: raw.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[0, 0], [1, 2]]),
    f(1, 4, 6, 2),
)
case("BatchToSpaceND", lambda x: raw.BatchToSpaceND(input=x, block_shape=[2, 2], crops=[[0, 1], [1, 0]]), f(8, 2, 3, 2))
case("Fill", lambda x: raw.Fill(dims=[2, 3], value=x), f())
case("Fill/open", lambda x: tf.fill(tf.shape(x), 3.0) + x, f(2, 3, open_shape=[None, 3]))
case("ZerosLike", lambda x: raw.ZerosLike(x=x), f(2, 3))
case("OnesLike", lambda x: raw.OnesLike(x=x), i(2, 3))
case("Range", lambda x: raw.Range(start=2, limit=11, delta=3) + x, i(3))
case("Range/open", lambda x: tf.range(tf.shape(x)[0]), f(4, open_shape=[None]))
case("LinSpace", lambda x: raw.LinSpace(start=0.5, stop=2.0, num=4) + x, f(4))

# -- reductions -------------------------------------------------------------------------------------------------------

for _n in "Sum Mean Prod Max Min EuclideanNorm".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(input=x, axis=[1, -1]), f(3, 5, 2))
    case(f"{_n}/keep", lambda x, n=_n: getattr(raw, n)(input=x, axis=0, keep_dims=True), f(3, 5))
case("Mean/int", lambda x: raw.Mean(input=x, axis=[0]), i(4, 3))
case("Sum/int", lambda x: raw.Sum(input=x, axis=[0]), i(4, 3))
for _n in "All Any".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(input=x, axis=[1]), b(3, 5))
case("L2Loss", lambda x: raw.L2Loss(t=x), f(3, 5))
for _n in "ArgMax ArgMin".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(input=x, dimension=1), f(3, 5))
    case(f"{_n}/int32", lambda x, n=_n: getattr(raw, n)(input=x, dimension=-1, output_type="int32"), f(3, 5, 2))
for _n in "Cumsum Cumprod".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(x=x, axis=1), f(3, 5))
    case(f"{_n}/reverse", lambda x, n=_n: getattr(raw, n)(x=x, axis=0, exclusive=True, reverse=True), f(3, 5))
case("TopKV2", lambda x: raw.TopKV2(input=x, k=3), f(2, 7))
case("InTopK", lambda x, t: raw.InTopK(predictions=x, targets=t, k=2), f(4, 7), i(4, low=0, high=6))
case("InTopKV2", lambda x, t: raw.InTopKV2(predictions=x, targets=t, k=3), f(4, 7), i(4, low=0, high=6))
for _n in "Sum Prod Max Min Mean".split():
    case(f"Segment{_n}", lambda x, n=_n: getattr(raw, f"Segment{n}")(data=x, segment_ids=[0, 0, 2, 3, 3]), f(5, 3))
    if _n != "Mean":
        case(
            f"UnsortedSegment{_n}",
            lambda x, s, n=_n: getattr(raw, f"UnsortedSegment{n}")(data=x, segment_ids=s, num_segments=4),
            f(5, 3),
            i(5, low=0, high=3),
        )

# -- indexing ---------------------------------------------------------------------------------------------------------

case("Gather", lambda x, p: raw.Gather(params=x, indices=p), f(5, 3), i(2, 4, low=0, high=4))
case("GatherV2", lambda x, p: raw.GatherV2(params=x, indices=p, axis=1), f(3, 5, 2), i(4, low=0, high=4))
case(
    "GatherV2/batch",
    lambda x, p: raw.GatherV2(params=x, indices=p, axis=2, batch_dims=1),
    f(3, 2, 5),
    i(3, 4, low=0, high=4),
)
case("GatherNd", lambda x, p: raw.GatherNd(params=x, indices=p), f(5, 3, 2), i(4, 2, low=0, high=2))
case("GatherNd/whole", lambda x, p: raw.GatherNd(params=x, indices=p), f(5, 3), i(2, 4, 1, low=0, high=2))
case("ScatterNd", lambda p, x: raw.ScatterNd(indices=p, updates=x, shape=[6, 3]), i(4, 1, low=0, high=5), f(4, 3))
for _n in "Add Sub Max Min".split():
    case(
        f"TensorScatter{_n}",
        lambda t, p, x, n=_n: getattr(raw, f"TensorScatter{n}")(tensor=t, indices=p, updates=x),
        f(6, 3),
        i(4, 1, low=0, high=5),
        f(4, 3),
    )
case(
    "TensorScatterUpdate",
    lambda t, x: raw.TensorScatterUpdate(tensor=t, indices=[[4], [1]], updates=x),
    f(6, 3),
    f(2, 3),
)
case("OneHot", lambda p: raw.OneHot(indices=p, depth=5, on_value=2.0, off_value=-1.0), i(2, 3, low=-1, high=5))
case("OneHot/axis", lambda p: raw.OneHot(indices=p, depth=5, on_value=1, off_value=0, axis=0), i(2, 3, low=0, high=4))
case("Where", lambda x: raw.Where(condition=x), b(3, 5))
case("Where/numbers", lambda x: raw.Where(condition=x), i(3, 5, low=0, high=1))
case(
    "SparseToDense",
    lambda x: raw.SparseToDense(
        sparse_indices=[[0, 1], [2, 0]], output_shape=[3, 4], sparse_values=x, default_value=7.0
    ),
    f(2),
)
case("InvertPermutation", lambda x: raw.InvertPermutation(x=[2, 0, 1]) + x, i(3))
case("UnravelIndex", lambda x: raw.UnravelIndex(indices=x, dims=[3, 4]), i(5, low=0, high=11))
case("LowerBound", lambda x: raw.LowerBound(sorted_inputs=[[1.0, 2, 2, 3]], values=x), f(1, 6, low=0, high=4))
case("UpperBound", lambda x: raw.UpperBound(sorted_inputs=[[1.0, 2, 2, 3]], values=x), f(1, 6, low=0, high=4))
case("Bucketize", lambda x: raw.Bucketize(input=x, boundaries=[-1.0, 0, 2]), f(3, 4))
case("Unique", lambda x: raw.Unique(x=x), i(9, low=0, high=4))
case("UniqueV2", lambda x: raw.UniqueV2(x=x, axis=tf.constant([], "int64")), i(9, low=0, high=4))
case("UniqueWithCounts", lambda x: raw.UniqueWithCounts(x=x), i(9, low=0, high=4))
case("ListDiff", lambda x, y: raw.ListDiff(x=x, y=y), i(9, low=0, high=9), i(4, low=0, high=9))
case("MatrixDiag", lambda x: raw.MatrixDiag(diagonal=x), f(2, 3))
case("MatrixDiagV3", lambda x: tf.linalg.diag(x), f(2, 3))
case("MatrixDiagPart", lambda x: raw.MatrixDiagPart(input=x), f(2, 3, 4))
case("MatrixDiagPartV3", lambda x: tf.linalg.diag_part(x), f(2, 4, 3))
case("MatrixSetDiag", lambda x, d: raw.MatrixSetDiag(input=x, diagonal=d), f(2, 3, 4), f(2, 3))
case("MatrixSetDiagV3", lambda x, d: tf.linalg.set_diag(x, d), f(2, 3, 3), f(2, 3))
case("MatrixBandPart", lambda x: raw.MatrixBandPart(input=x, num_lower=1, num_upper=0), f(2, 4, 5))
case("MatrixBandPart/all", lambda x: raw.MatrixBandPart(input=x, num_lower=-1, num_upper=2), f(4, 5))
case("Diag", lambda x: raw.Diag(diagonal=x), f(3))
case("DiagPart", lambda x: raw.DiagPart(input=x), f(3, 3))
