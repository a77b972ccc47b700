"""An independent meaning of tensor programs: whole arrays at a time in NumPy, with no loops and no schedule."""

from __future__ import annotations

import math

import numpy as np

from tvm.ir import prim
from tvm.te.tensor import ComputeOp, PlaceholderOp, Tensor

BINARY = {
    prim.Add: np.add,
    prim.Sub: np.subtract,
    prim.Mul: np.multiply,
    prim.FloorDiv: np.floor_divide,
    prim.FloorMod: np.mod,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
    prim.EQ: np.equal,
    prim.NE: np.not_equal,
    prim.LT: np.less,
    prim.LE: np.less_equal,
    prim.GT: np.greater,
    prim.GE: np.greater_equal,
    prim.And: np.logical_and,
    prim.Or: np.logical_or,
    prim.Div: lambda a, b: np.divide(a, b) if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype),
    prim.Mod: np.fmod,
}


def evaluate(outputs: list[Tensor], inputs: dict[Tensor, np.ndarray], sizes: dict | None = None) -> list[np.ndarray]:
    """The arrays of ``outputs``; ``sizes`` gives the values of size variables."""
    known: dict[Tensor, np.ndarray] = dict(inputs)
    return [_tensor(t, known, sizes or {}) for t in outputs]


def assert_near(got: np.ndarray, expected: np.ndarray, message: str = "") -> None:
    """Equal but for the order of sums: a float may cancel to far less than what was summed."""
    scale = np.abs(expected).max(initial=1) if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * scale, err_msg=message)


def _tensor(tensor: Tensor, known: dict, sizes: dict) -> np.ndarray:
    if tensor not in known:
        op = tensor.op
        if isinstance(op, PlaceholderOp):
            raise KeyError(f"no data for {tensor.name}")
        assert isinstance(op, ComputeOp)
        for t, value in zip(op.outputs, _compute(op, known, sizes)):
            known[t] = value
    return known[tensor]


def _compute(op: ComputeOp, known: dict, sizes: dict) -> list[np.ndarray]:
    axes = list(op.axis) + list(op.reduce_axis)
    extents = [int(_expr(a.dom.extent, sizes, known, sizes)) for a in axes]
    mins = [int(_expr(a.dom.min, sizes, known, sizes)) for a in axes]
    env = dict(sizes)
    for i, (a, n, low) in enumerate(zip(axes, extents, mins)):
        shape = [1] * len(axes)
        shape[i] = n
        env[a.var] = (np.arange(n) + low).reshape(shape).astype(a.var.dtype)
    full = tuple(extents)
    first = op.body[0]
    if not isinstance(first, prim.Reduce):
        return [np.broadcast_to(_expr(b, env, known, sizes), full).astype(b.dtype) for b in op.body]
    source = [np.broadcast_to(_expr(s, env, known, sizes), full).astype(s.dtype) for s in first.source]
    condition = np.broadcast_to(_expr(first.condition, env, known, sizes), full)
    return _reduce(op, first, source, condition, known, sizes)


def _reduce(op, reduce, source, condition, known, sizes) -> list[np.ndarray]:
    data = source[0].shape[: len(op.axis)]
    steps = math.prod(source[0].shape[len(op.axis) :])
    flat = [s.reshape((*data, steps)) for s in source]
    where = condition.reshape((*data, steps))
    start = reduce.init or reduce.combiner.identity_element
    state = [np.broadcast_to(_expr(e, dict(sizes), known, sizes), data).astype(e.dtype) for e in start]
    for k in range(steps):
        env = dict(sizes)
        env.update(dict(zip(reduce.combiner.lhs, state)))
        env.update({v: f[..., k] for v, f in zip(reduce.combiner.rhs, flat)})
        new = [np.broadcast_to(_expr(r, env, known, sizes), data).astype(r.dtype) for r in reduce.combiner.result]
        state = [np.where(where[..., k], n, s) for n, s in zip(new, state)]
    return [state[b.value_index] for b in op.body]


def _expr(e, env: dict, known: dict, sizes: dict):
    kind = type(e)
    if isinstance(e, prim.Var):
        value = env[e]
        return np.asarray(value, dtype=e.dtype) if not isinstance(value, np.ndarray) else value
    if kind in (prim.IntImm, prim.FloatImm):
        return np.asarray(e.value, dtype=e.dtype)
    if kind in BINARY:
        with np.errstate(all="ignore"):
            return BINARY[kind](_expr(e.a, env, known, sizes), _expr(e.b, env, known, sizes))
    if kind is prim.Not:
        return np.logical_not(_expr(e.a, env, known, sizes))
    if kind is prim.Cast:
        return _expr(e.value, env, known, sizes).astype(e.dtype)
    if kind is prim.Select:
        return np.where(*[_expr(x, env, known, sizes) for x in (e.condition, e.true_value, e.false_value)])
    if kind is prim.ProducerLoad:
        array = _tensor(e.producer, known, sizes)
        index = [_expr(i, env, known, sizes) for i in e.indices]
        # Elements outside are only ever read under a condition that throws them away.
        index = [np.clip(i, 0, n - 1) for i, n in zip(index, array.shape)]
        if not array.size:
            return np.zeros(np.broadcast_shapes(*[i.shape for i in index]), array.dtype)
        return array[tuple(np.broadcast_arrays(*index))] if index else array
    if kind is prim.Call:
        name = e.op.name
        if name == "tir.if_then_else":
            return np.where(*[_expr(a, env, known, sizes) for a in e.args])
        if name == "tir.likely":
            return _expr(e.args[0], env, known, sizes)
        function = {"tir.exp": np.exp, "tir.sqrt": np.sqrt, "tir.fabs": np.abs, "tir.tanh": np.tanh}[name]
        return function(_expr(e.args[0], env, known, sizes))
    raise TypeError(f"the oracle does not know {kind.__name__}")
