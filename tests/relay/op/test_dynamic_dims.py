"""Types of calls on tensors with unknown sizes: what can be known is known, and nothing else."""

from __future__ import annotations

import pytest

import tvm
from tvm import relay
from tvm.relay.expr import TupleWrapper


def typed(*shape, dtype="float32"):
    return relay.TensorType([relay.Any() if d is None else d for d in shape], dtype)


IMAGE = typed(None, 3, None, 8)
CASES = {
    "conv2d": (lambda x, w: relay.nn.conv2d(x, w, padding=1), [IMAGE, typed(4, 3, 3, 3)], "(?, 4, ?, 8)"),
    "conv2d_transpose": (
        lambda x, w: relay.nn.conv2d_transpose(x, w, strides=2),
        [IMAGE, typed(3, 4, 3, 3)],
        "(?, 4, ?, 17)",
    ),
    "max_pool2d": (lambda x: relay.nn.max_pool2d(x, 2, 2), [IMAGE], "(?, 3, ?, 4)"),
    "global_avg_pool2d": (relay.nn.global_avg_pool2d, [IMAGE], "(?, 3, 1, 1)"),
    "adaptive": (lambda x: relay.nn.adaptive_avg_pool2d(x, (2, 2)), [IMAGE], "(?, 3, 2, 2)"),
    "dense": (lambda x, w: relay.nn.dense(x, w), [typed(None, 8), typed(4, 8)], "(?, 4)"),
    "batch_matmul": (relay.nn.batch_matmul, [typed(None, None, 8), typed(None, 4, 8)], "(?, ?, 4)"),
    "batch_flatten": (relay.nn.batch_flatten, [typed(None, 3, 4)], "(?, 12)"),
    "reshape keeps": (lambda x: relay.reshape(x, (0, -1)), [typed(None, 3, 4)], "(?, 12)"),
    "reshape keeps the rest": (lambda x: relay.reshape(x, (-1, 3, -2)), [typed(2, 3, None)], "(2, 3, ?)"),
    "reshape finds": (lambda x: relay.reshape(x, (-1, 12)), [typed(None, 3, 4)], "(?, 12)"),
    "concatenate": (lambda x, y: relay.concatenate([x, y], 1), [typed(None, 3), typed(None, None)], "(?, ?)"),
    "strided_slice": (lambda x: relay.strided_slice(x, [0, 1], [2, 3]), [typed(None, 4)], "(?, 2)"),
    "take": (lambda x, i: relay.take(x, i, 0), [typed(None, 4), typed(None, dtype="int64")], "(?, 4)"),
    "add": (relay.add, [typed(None, 3), typed(1, 3)], "(?, 3)"),
    "where": (relay.where, [typed(None, dtype="bool"), typed(None), typed(1)], "(?)"),
    "mean": (lambda x: relay.mean(x, 1, True), [typed(None, None, 3)], "(?, 1, 3)"),
    "pad": (lambda x: relay.nn.pad(x, ((1, 1), (0, 0))), [typed(None, 3)], "(?, 3)"),
    "tile": (lambda x: relay.tile(x, (2, 2)), [typed(None, 3)], "(?, 6)"),
    "upsampling": (lambda x: relay.nn.upsampling(x, 2, 2), [IMAGE], "(?, 3, ?, 16)"),
    "layer_norm": (relay.nn.layer_norm, [typed(None, None), typed(3), typed(3)], "(?, ?)"),
    "scatter": (relay.scatter_elements, [typed(None), typed(None, dtype="int32"), typed(None)], "(?)"),
    "einsum": (
        lambda x, y: relay.einsum([x, y], "bij,bjk->bik"),
        [typed(None, 2, 3), typed(None, 3, None)],
        "(?, 2, ?)",
    ),
    "fifo_buffer": (lambda x, y: relay.nn.fifo_buffer(x, y, 0), [typed(None, 3), typed(5, 3)], "(5, 3)"),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes(name):
    build, types, want = CASES[name]
    variables = [relay.var(f"x{i}", t) for i, t in enumerate(types)]
    made = build(*variables)
    made = made.astuple() if isinstance(made, TupleWrapper) else made
    mod = relay.InferType()(tvm.IRModule.from_expr(relay.Function(variables, made)))
    assert want in str(mod["main"].body.checked_type)


def test_reshape_code_beyond_the_dimensions():
    x = relay.var("x", shape=(2, 3))
    with pytest.raises(tvm.error.DiagnosticError, match="refers to more than the 2 dimensions"):
        relay.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.reshape(x, (0, 0, 0)))))
