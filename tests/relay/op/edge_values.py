"""Operators that move data, applied to extreme values."""

from __future__ import annotations

import numpy as np

from tvm import relay


def moving(x):
    """Operators that give elements as they are: (name, build, inputs, wanted)."""
    y = x.reshape(1, 3, 2, 2)
    wide = x.reshape(1, 12, 1, 1)
    at = np.array([2, 0], "int32")
    other = x[::-1].copy()
    pad = x.dtype.type(1)
    zero = np.zeros_like(x)
    cube = y[:, :, :, None]
    return [
        ("reshape", lambda a: relay.reshape(a, (4, 3)), [x], x.reshape(4, 3)),
        ("reshape_like", relay.reshape_like, [x, x.T.copy()], x.reshape(4, 3)),
        ("contrib_reverse_reshape", lambda a: relay.reverse_reshape(a, (-1, 6)), [x], x.reshape(2, 6)),
        ("transpose", relay.transpose, [x], x.T),
        ("expand_dims", lambda a: relay.expand_dims(a, 1, 2), [x], x[:, None, None]),
        ("squeeze", lambda a: relay.squeeze(a, [0]), [y], y[0]),
        ("copy", relay.copy, [x], x),
        ("nn.batch_flatten", relay.nn.batch_flatten, [y], y.reshape(1, 12)),
        ("concatenate", lambda a, b: relay.concatenate([a, b], 0), [x, other], np.concatenate([x, other])),
        ("stack", lambda a, b: relay.stack([a, b], 1), [x, other], np.stack([x, other], 1)),
        ("split", lambda a: relay.split(a, 2, 1), [x], [x[:, :2], x[:, 2:]]),
        ("tile", lambda a: relay.tile(a, (2, 1)), [x], np.tile(x, (2, 1))),
        ("repeat", lambda a: relay.repeat(a, 2, 1), [x], np.repeat(x, 2, 1)),
        ("reverse", lambda a: relay.reverse(a, 1), [x], x[:, ::-1]),
        (
            "reverse_sequence",
            lambda a, n: relay.reverse_sequence(a, n, 1, 0),
            [x, np.array([4, 1, 2], "int32")],
            np.stack([x[0, ::-1], x[1], np.concatenate([x[2, 1::-1], x[2, 2:]])]),
        ),
        ("strided_slice", lambda a: relay.strided_slice(a, [2, 3], [0, -9], [-1, -2]), [x], x[2:0:-1, 3::-2]),
        ("slice_like", relay.slice_like, [x, x[:2, :3]], x[:2, :3]),
        (
            "strided_set",
            lambda a, b: relay.strided_set(a, b, relay.const([1, 0]), relay.const([3, 4]), relay.const([1, 1])),
            [x, other[:2]],
            np.concatenate([x[:1], other[:2]]),
        ),
        ("take", lambda a, i: relay.take(a, i, 0), [x, at], x[at]),
        ("gather", lambda a, i: relay.gather(a, 1, i), [x, np.tile(at, (3, 1))], x[:, at]),
        ("gather_nd", relay.gather_nd, [x, np.array([[2, 0], [1, 3]], "int32")], x[[2, 0], [1, 3]]),
        ("adv_index", lambda a, i: relay.adv_index([a, i]), [x, at], x[at]),
        (
            "scatter_elements",
            lambda a, i, u: relay.scatter_elements(a, i, u, 0),
            [x, np.zeros((1, 4), "int32"), other[:1]],
            np.concatenate([other[:1], x[1:]]),
        ),
        (
            "scatter_nd",
            lambda a, i, u: relay.scatter_nd(a, i, u, "update"),
            [x, np.array([[1]], "int32"), other[:1]],
            np.stack([x[0], other[0], x[2]]),
        ),
        ("broadcast_to", lambda a: relay.broadcast_to(a, (3, 4)), [x[:1]], np.tile(x[:1], (3, 1))),
        ("broadcast_to_like", relay.broadcast_to_like, [x[:1], other], np.tile(x[:1], (3, 1))),
        ("collapse_sum_like", relay.collapse_sum_like, [x, other], x),
        ("collapse_sum_to", lambda a: relay.collapse_sum_to(a, (3, 4)), [x], x),
        ("where", relay.where, [np.array([True, False, True, False]), x, other], np.where([1, 0, 1, 0], x, other)),
        ("trilu", lambda a: relay.trilu(a, relay.const(0), False), [x], np.where(np.tri(3, 4), x, zero)),
        ("sequence_mask", lambda a, n: relay.sequence_mask(a, n, 1, 1), [x, np.array([4, 4, 4], "int32")], x),
        ("meshgrid", lambda a, b: relay.meshgrid([a, b], "ij"), [x[0], at], list(np.meshgrid(x[0], at, indexing="ij"))),
        (
            "nn.pad",
            lambda a: relay.nn.pad(a, ((1, 0), (0, 1)), 1),
            [x],
            np.pad(x, ((1, 0), (0, 1)), constant_values=pad),
        ),
        (
            "nn.mirror_pad",
            lambda a: relay.nn.mirror_pad(a, ((0, 0), (1, 1))),
            [x],
            np.pad(x, ((0, 0), (1, 1)), "symmetric"),
        ),
        (
            "nn.space_to_depth",
            lambda a: relay.nn.space_to_depth(a, 2),
            [y],
            y.transpose(0, 2, 3, 1).reshape(1, 12, 1, 1),
        ),
        (
            "nn.depth_to_space",
            lambda a: relay.nn.depth_to_space(a, 2),
            [wide],
            wide.reshape(2, 2, 3).transpose(2, 0, 1)[None],
        ),
        ("nn.space_to_batch_nd", lambda a: relay.nn.space_to_batch_nd(a, [3], [[0, 0]]), [x[None]], x[:, None]),
        ("nn.batch_to_space_nd", lambda a: relay.nn.batch_to_space_nd(a, [3], [[0, 0]]), [x[:, None]], x[None]),
        ("nn.upsampling", lambda a: relay.nn.upsampling(a, 2, 2), [y], y.repeat(2, 2).repeat(2, 3)),
        ("nn.upsampling3d", lambda a: relay.nn.upsampling3d(a, 1, 2, 1), [cube], cube.repeat(2, 3)),
        ("layout_transform", lambda a: relay.layout_transform(a, "NCHW", "NHWC"), [y], y.transpose(0, 2, 3, 1)),
        ("full_like", lambda a, b: relay.full_like(a, b), [x, x[0, 0]], np.full_like(x, x[0, 0])),
        ("full", lambda a: relay.full(a, (2, 2), str(x.dtype)), [x[0, 1]], np.full((2, 2), x[0, 1])),
        ("zeros_like", relay.zeros_like, [x], zero),
        ("ones_like", relay.ones_like, [x], np.ones_like(x)),
        ("sliding_window", lambda a: relay.sliding_window(a, 1, (3,), (1,)), [x], np.stack([x[:, :3], x[:, 1:]], 1)),
        ("cast", lambda a: relay.cast(a, str(x.dtype)), [x], x),
        ("cast_like", relay.cast_like, [x, other], x),
        ("nn.dropout", lambda a: relay.nn.dropout(a, 0.5), [x], x),
        ("annotation.stop_fusion", relay.annotation.stop_fusion, [x], x),
        ("annotation.checkpoint", relay.annotation.checkpoint, [x], x),
        (
            "nn.fifo_buffer",
            lambda a, b: relay.nn.fifo_buffer(a, b, 0),
            [x[:1], other],
            np.concatenate([other[1:], x[:1]]),
        ),
        ("matrix_set_diag", relay.matrix_set_diag, [x, other[0, :3]], np.where(np.eye(3, 4), other[0, :3, None], x)),
    ]
