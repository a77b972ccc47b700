"""One row for each operator: how it is called, and the shapes of its inputs, in which letters are unknown sizes.

``"n 3 h w"`` is a float32 tensor; ``"n:int32<5"`` has integers from 0 to 4, ``"n:float32+"`` positive numbers.
"""

from __future__ import annotations

import numpy as np

from tvm import relay
from tvm.ir.op import OPS
from tvm.relay.op.nn.winograd import contrib_conv2d_winograd_nchwc

nn, image, vision = relay.nn, relay.image, relay.vision


def _elementwise():
    positive = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh"}
    small = {"asin", "acos", "atanh"}
    kept = {"bitwise_not": "int32", "logical_not": "bool"}
    rows = {}
    for name in ("abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp fast_erf fast_exp fast_tanh "
                 "floor isfinite isinf isnan log log10 log1p log2 logical_not negative round rsqrt sigmoid sign sin "
                 "sinh sqrt tan tanh trunc copy zeros_like ones_like nn.relu").split():  # fmt: skip
        kind = kept.get(name, "float32" + ("+" if name in positive else "-" if name in small else ""))
        rows[name] = (OPS[name].attrs["build"], [f"n m:{kind}"])
    for name in ("add divide equal floor_divide floor_mod greater greater_equal less less_equal maximum minimum mod "
                 "multiply not_equal power subtract trunc_divide trunc_mod bitwise_and bitwise_or bitwise_xor "
                 "left_shift right_shift logical_and logical_or logical_xor").split():  # fmt: skip
        kind = "bool" if "logical" in name else "int32<5" if "bit" in name or "shift" in name else "float32+"
        rows[name] = (OPS[name].attrs["build"], [f"n m:{kind}", f"k m:{kind}"])
    return rows


def _windows():
    rows = {}
    for rank, sizes, window in ((1, "w", (3,)), (2, "h w", (3, 3)), (3, "d h w", (2, 3, 3))):
        weight = " ".join(map(str, window))
        pad, step = (1,) * rank, (2,) * rank
        for kind in ("max", "avg"):
            rows[f"nn.{kind}_pool{rank}d"] = (
                lambda x, f=getattr(nn, f"{kind}_pool{rank}d"), w=window, p=pad, s=step: f(x, w, s, padding=p),
                [f"n c {sizes}"],
            )
            rows[f"nn.global_{kind}_pool{rank}d"] = (getattr(nn, f"global_{kind}_pool{rank}d"), [f"n c {sizes}"])
            rows[f"nn.adaptive_{kind}_pool{rank}d"] = (
                lambda x, f=getattr(nn, f"adaptive_{kind}_pool{rank}d"), s=step: f(x, s),
                [f"n c {sizes}"],
            )
        rows[f"nn.conv{rank}d"] = (
            lambda x, w, f=getattr(nn, f"conv{rank}d"), p=pad, s=step: f(x, w, padding=p, strides=s),
            [f"n 3 {sizes}", f"4 3 {weight}"],
        )
        rows[f"nn.conv{rank}d_transpose"] = (
            lambda x, w, f=getattr(nn, f"conv{rank}d_transpose"), p=pad, s=step: f(x, w, padding=p, strides=s),
            [f"n 3 {sizes}", f"3 4 {weight}"],
        )
    return rows


def _reductions():
    rows = {name: (lambda x, f=getattr(relay, name): f(x, 1), ["n m k"]) for name in "sum prod mean variance".split()}
    # The largest of no elements is not defined, so that axis is known.
    rows |= {n: (lambda x, f=getattr(relay, n): f(x, -1), ["n m 5"]) for n in "max min argmax argmin".split()}
    rows |= {name: (lambda x, f=getattr(relay, name): f(x, 1), ["n m k:bool"]) for name in ("all", "any")}
    return rows


ROWS = {
    **_elementwise(), **_windows(), **_reductions(),
    "clip": (lambda x: relay.clip(x, -1, 1), ["n m"]),
    "cast": (lambda x: relay.cast(x, "int32"), ["n m"]),
    "cast_like": (relay.cast_like, ["n m", "k:int32<9"]),
    "reinterpret": (lambda x: relay.reinterpret(x, "int32"), ["n m"]),
    "fixed_point_multiply": (lambda x: relay.fixed_point_multiply(x, 1 << 30, 1), ["n m:int32<99"]),
    "fixed_point_multiply_per_axis": (
        lambda x, y, a, b: relay.fixed_point_multiply_per_axis(x, y, a, b, True, False, [1]),
        ["n 3:int32<99", "3:int32<1073741824", "3:int32<2", "3:int32<2"],
    ),
    "full_like": (lambda x: relay.full_like(x, relay.const(2.5)), ["n m"]),
    "where": (relay.where, ["n m:bool", "n 1", "m"]),
    "reshape": (lambda x: relay.reshape(x, (0, -1, 2)), ["n m 4"]),
    "reshape_like": (relay.reshape_like, ["n 6", "n 2 3"]),
    "contrib_reverse_reshape": (lambda x: relay.reverse_reshape(x, (-1, 0)), ["n 2 m"]),
    "expand_dims": (lambda x: relay.expand_dims(x, 1, 2), ["n m"]),
    "squeeze": (lambda x: relay.squeeze(x, [1]), ["n 1 m"]),
    "transpose": (lambda x: relay.transpose(x, (2, 0, 1)), ["n m k"]),
    "concatenate": (lambda x, y, z: relay.concatenate([x, y, z], 1), ["n m 2", "n k 2", "n 3 2"]),
    "stack": (lambda x, y: relay.stack([x, y], 1), ["n m", "n m"]),
    "split": (lambda x: relay.split(x, [1, 2], 1), ["n 4 m"]),
    "strided_slice": (lambda x: relay.strided_slice(x, [1, -1], [9, 0], [2, -1]), ["n m"]),
    "take": (lambda x, i: relay.take(x, i, 0), ["4 m", "n k:int32<4"]),
    "gather": (lambda x, i: relay.gather(x, 1, i), ["n 4", "n k:int32<4"]),
    "gather_nd": (relay.gather_nd, ["4 5 m", "2 n:int32<4"]),
    "adv_index": (lambda x, i, j: relay.adv_index([x, i, j]), ["4 5 m", "n:int32<4", "1:int32<4"]),
    "broadcast_to": (lambda x: relay.broadcast_to(x, (2, 3, 4)), ["3 1"]),
    "broadcast_to_like": (relay.broadcast_to_like, ["1 m", "n m"]),
    "collapse_sum_like": (relay.collapse_sum_like, ["n m k", "1 k"]),
    "collapse_sum_to": (lambda x: relay.collapse_sum_to(x, (1, 3)), ["n m 3"]),
    "tile": (lambda x: relay.tile(x, (2, 1, 3)), ["n m"]),
    "repeat": (lambda x: relay.repeat(x, 3, 1), ["n m"]),
    "reverse": (lambda x: relay.reverse(x, 1), ["n m"]),
    "reverse_sequence": (lambda x, n: relay.reverse_sequence(x, n, 1, 0), ["n m k", "n:int32<3"]),
    "full": (lambda v, x: relay.add(relay.full(v, (3, 4), "float32"), x), ["", "n 1 4"]),
    "layout_transform": (lambda x: relay.layout_transform(x, "NCHW", "NCHW4c"), ["n 8 h w"]),
    "shape_of": (lambda x: relay.shape_of(x, "int64"), ["n 3 m"]),
    "ndarray_size": (lambda x: relay.ndarray_size(x, "int64"), ["n 3 m"]),
    "slice_like": (relay.slice_like, ["6 m", "n m"]),
    "strided_set": (
        relay.strided_set, ["4 m", "2 m", "2:int64=1,0", "2:int64=3,99", "2:int64=1,1"]
    ),
    "meshgrid": (lambda x, y: relay.meshgrid([x, y]), ["n", "m"]),
    "sliding_window": (lambda x: relay.sliding_window(x, 1, [2], [2]), ["n l"]),
    "scatter_elements": (
        lambda x, i, u: relay.scatter_elements(x, i, u, 0, "add"), ["4 m", "n m:int32<4", "n m"]
    ),
    "scatter_nd": (lambda x, i, u: relay.scatter_nd(x, i, u, "add"), ["4 m", "1 n:int32<4", "n m"]),
    "sparse_to_dense": (lambda i, v: relay.sparse_to_dense(i, (9,), v, relay.const(0.5)), ["n:int32<9", "n"]),
    "sparse_reshape": (
        relay.sparse_reshape, ["n 2:int64<2", "2:int64=4,4", "2:int64=-1,2"]
    ),
    "one_hot": (lambda i: relay.one_hot(i, relay.const(1.0), relay.const(0.0), 5, 1, "float32"), ["n m:int32<5"]),
    "unravel_index": (relay.unravel_index, ["n:int64<20", "2:int64=4,5"]),
    "sequence_mask": (lambda x, n: relay.sequence_mask(x, n, -1.0, 0), ["m n k", "n:int32<3"]),
    "trilu": (lambda x: relay.trilu(x, relay.const(1), True), ["n m k"]),
    "matrix_set_diag": (relay.matrix_set_diag, ["n 3 4", "n 3"]),
    "invert_permutation": (relay.invert_permutation, ["1:int32<1"]),
    "cumsum": (lambda x: relay.cumsum(x, 1), ["n m k"]),
    "cumprod": (lambda x: relay.cumprod(x, 0), ["n m"]),
    "unique": (lambda x: relay.unique(x, True, True), ["n:int32<4"]),
    "sort": (lambda x: relay.sort(x, 1), ["n m"]),
    "argsort": (lambda x: relay.argsort(x, 0), ["n m"]),
    "topk": (lambda x: relay.topk(x, 2, 1), ["n l"]),
    "searchsorted": (relay.searchsorted, ["4:int32=3", "n m:int32<5"]),
    "einsum": (lambda x, y: relay.einsum([x, y], "bij,bjk->bik"), ["n m k", "n k l"]),
    "dft": (lambda x, y: relay.op.signal.dft(x, y), ["n m", "n m"]),
    "stft": (lambda x: relay.stft(x, 4), ["n l"]),
    "nn.dense": (nn.dense, ["n k", "m k"]),
    "nn.matmul": (lambda x, y: nn.matmul(x, y, transpose_a=True), ["k n", "k m"]),
    "nn.sparse_dense": (
        lambda x, *parts: nn.sparse_dense(x, parts), ["n 4", "6", "6:int32<4", "4:int32=0,2,2,6"]
    ),
    "nn.batch_matmul": (nn.batch_matmul, ["n m k", "n l k"]),
    "nn.bias_add": (nn.bias_add, ["n m k", "m"]),
    "nn.batch_flatten": (nn.batch_flatten, ["n m 3"]),
    "nn.softmax": (nn.softmax, ["n m k"]),
    "nn.fast_softmax": (nn.fast_softmax, ["n m"]),
    "nn.log_softmax": (nn.log_softmax, ["n m"]),
    "nn.leaky_relu": (lambda x: nn.leaky_relu(x, 0.1), ["n m"]),
    "nn.prelu": (nn.prelu, ["n m k", "m"]),
    "nn.dropout": (nn.dropout, ["n m"]),
    "nn.upsampling": (lambda x: nn.upsampling(x, 2, 1.5), ["n c h w"]),
    "nn.upsampling3d": (lambda x: nn.upsampling3d(x, 2, 1.5, 2, method="trilinear"), ["n c d h w"]),
    "nn.lrn": (nn.lrn, ["n 6 h w"]),
    "nn.l2_normalize": (lambda x: nn.l2_normalize(x, 1e-4, [1]), ["n m k"]),
    "nn.layer_norm": (nn.layer_norm, ["n m k", "k", "k"]),
    "nn.instance_norm": (nn.instance_norm, ["n 3 h w", "3", "3"]),
    "nn.group_norm": (lambda x, g, b: nn.group_norm(x, g, b, 2), ["n 4 h w", "4", "4"]),
    "nn.batch_norm": (lambda *a: nn.batch_norm(*a), ["n 3 h w", "3", "3", "3", "3:float32+"]),
    "nn.pad": (lambda x: nn.pad(x, ((1, 2), (0, 1))), ["n m"]),
    "nn.mirror_pad": (lambda x: nn.mirror_pad(x, ((0, 0), (1, 1))), ["n h"]),
    "nn.depth_to_space": (lambda x: nn.depth_to_space(x, 2), ["n 8 h w"]),
    "nn.space_to_depth": (lambda x: nn.space_to_depth(x, 2), ["n c 4 6"]),
    "nn.space_to_batch_nd": (lambda x: nn.space_to_batch_nd(x, [2], [(1, 1)]), ["n 4 c"]),
    "nn.batch_to_space_nd": (lambda x: nn.batch_to_space_nd(x, [2], [(0, 1)]), ["4 m c"]),
    "nn.dilate": (lambda x: nn.dilate(x, [1, 2]), ["n m"]),
    "nn.fifo_buffer": (lambda x, y: nn.fifo_buffer(x, y, 0), ["2 m", "5 m"]),
    "nn.cross_entropy": (nn.cross_entropy, ["n 3:float32+", "n 3"]),
    "nn.cross_entropy_with_logits": (nn.cross_entropy_with_logits, ["n 3", "n 3"]),
    "nn.nll_loss": (lambda p, t, w: nn.nll_loss(p, t, w, "sum"), ["n 3", "n:int32<3", "3"]),
    "nn.correlation": (
        lambda x, y: nn.correlation(x, y, 1, 1, 1, 1, 0, True, "NCHW"), ["n 3 h w", "n 3 h w"]
    ),
    "nn.contrib_conv2d_NCHWc": (
        lambda x, w: nn.contrib_conv2d_nchwc(
            x, w, (2, 1), (1, 1), kernel_size=(3, 3), channels=12, data_layout="NCHW4c", kernel_layout="OIHW4i4o"
        ),
        ["n 2 h w 4", "3 2 3 3 4 4"],
    ),
    "nn.contrib_depthwise_conv2d_NCHWc": (
        lambda x, w: nn.contrib_depthwise_conv2d_nchwc(
            x, w, (1, 2), (1, 1), groups=8, kernel_size=(3, 3), channels=8, data_layout="NCHW4c",
            kernel_layout="OIHW1i4o",
        ),
        ["n 2 h w 4", "2 1 3 3 1 4"],
    ),
    "nn.contrib_conv2d_winograd_NCHWc": (
        lambda x, w: contrib_conv2d_winograd_nchwc(x, w, (1, 1)), ["n 2 h w 4", "2 4 4 2 4 1 4"],
    ),
    "nn.contrib_dense_pack": (lambda x, w: nn.contrib_dense_pack(x, w, "NC8n", 12), ["n m 9", "2 9 8"]),
    "nn.contrib_dense_nbits": (
        lambda x, w, s: nn.contrib_dense_nbits(x, w, s, 4, 4), ["n m 9", "5 6:int8<99", "5 3"],
    ),
    "nn.deformable_conv2d": (
        lambda x, o, w: nn.deformable_conv2d(x, o, w, channels=2, kernel_size=(3, 3)),
        ["n 3 7 9", "n 18 5 7", "2 3 3 3"],
    ),
    "image.resize1d": (lambda x: image.resize1d(x, (5,)), ["n c w"]),
    "image.resize2d": (lambda x: image.resize2d(x, (5, 6)), ["n c h w"]),
    "image.resize3d": (lambda x: image.resize3d(x, (3, 5, 6)), ["n c d h w"]),
    "image.crop_and_resize": (
        lambda x, b, i: image.crop_and_resize(x, b, i, (3, 3), "NCHW"), ["3 2 h w", "n 4:float32-", "n:int32<3"]
    ),
    "image.dilation2d": (image.dilation2d, ["n 3 h w", "3 2 2"]),
    "image.affine_grid": (lambda x: image.affine_grid(x, (4, 5)), ["n 2 3"]),
    "image.grid_sample": (image.grid_sample, ["n 3 h w", "n 2 4 5:float32-"]),
    "vision.get_valid_counts": (lambda x: vision.get_valid_counts(x, 0.1), ["n m 6"]),
    "vision.non_max_suppression": (
        lambda x, n, i: vision.non_max_suppression(x, n, i), ["n 7 6", "n:int32=7", "n 7:int32<1"]
    ),
    "vision.all_class_non_max_suppression": (
        lambda b, s: vision.all_class_non_max_suppression(b, s, 3, 0.5, 0.1), ["n m 4", "n 2 m"]
    ),
    "vision.multibox_prior": (lambda x: vision.multibox_prior(x, (0.5, 1.0), (1.0, 2.0)), ["n 3 h w"]),
    "vision.multibox_transform_loc": (
        vision.multibox_transform_loc, ["n 3 m:float32-", "n l", "1 m 4:float32-"]
    ),
    "vision.proposal": (
        lambda c, b, i: vision.proposal(c, b, i, (4.0,), (0.5, 1.0), 16, 0.7, 20, 5, 2, False),
        ["n 4 4 5", "n 8 4 5", "n 3:float32=64"],
    ),
    "vision.roi_align": (lambda x, r: vision.roi_align(x, r, (2, 2), 1.0), ["1 c h w", "n 5:float32=0"]),
    "vision.roi_pool": (lambda x, r: vision.roi_pool(x, r, (2, 2), 1.0), ["1 c h w", "n 5:float32=0"]),
    "vision.yolo_reorg": (lambda x: vision.yolo_reorg(x, 2), ["n 4 4 6"]),
}  # fmt: skip

# Values of the unknown sizes: odd ones, ones, nothing, and larger ones than a vector.
SIZES = (
    {"n": 2, "m": 3, "k": 5, "c": 3, "d": 4, "h": 7, "w": 9, "l": 12},
    dict.fromkeys("nmkcdhwl", 1),
    {"n": 0, "m": 3, "k": 5, "c": 3, "d": 4, "h": 7, "w": 9, "l": 12},
    {"n": 3, "m": 17, "k": 33, "c": 2, "d": 5, "h": 12, "w": 21, "l": 68},
)


def _parts(spec):
    shape, _, kind = spec.partition(":")
    return shape.split(), kind or "float32"


def unknown_type(spec):
    """The type of an input with ``Any`` for each letter."""
    shape, kind = _parts(spec)
    dtype = kind.rstrip("+-").partition("<")[0].partition("=")[0]
    return relay.TensorType([int(d) if d.isdigit() else relay.Any() for d in shape], dtype)


def array(spec, sizes, rng):
    """An input with the sizes that the letters have."""
    shape, kind = _parts(spec)
    shape = [int(d) if d.isdigit() else sizes[d] for d in shape]
    if "=" in kind:
        dtype, _, value = kind.partition("=")
        return np.broadcast_to(np.array([float(v) for v in value.split(",")]), shape).astype(dtype)
    if "<" in kind:
        dtype, _, limit = kind.partition("<")
        return rng.integers(0, int(limit), shape).astype(dtype)
    if kind == "bool":
        return rng.integers(0, 2, shape).astype("bool")
    values = rng.uniform(1, 3, shape) if kind.endswith("+") else rng.uniform(-2, 2, shape)
    return (values / 2 if kind.endswith("-") else values).astype(kind.rstrip("+-"))
