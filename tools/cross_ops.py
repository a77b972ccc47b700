"""Operators for other machines: small graphs, and the same computation in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A graph over ``x`` (and ``y``) and the same in NumPy; with ``exact``, outputs must be bitwise equal."""

    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    graph: Callable[..., Any]
    wanted: Callable[..., np.ndarray]
    exact: bool = False


def windows(x: np.ndarray, k: int, stride: int, fill: float = 0) -> np.ndarray:
    """Return the windows of images padded by one: (n, c, h, w, k, k)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))[:, :, ::stride, ::stride]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def weights(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(5)
    if dtype == "float32":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-128, 128, shape).astype(dtype)


def cases() -> dict[str, Case]:
    from tvm import relay

    def conv(x, w, **options):
        size = {"channels": w.shape[0], "kernel_size": w.shape[2:], "padding": (1, 1)}
        return relay.nn.conv2d(x, relay.const(w), **size, **options)

    dense, filters, each = weights(19, 37), weights(21, 13, 3, 3), weights(13, 1, 3, 3)
    narrow, byte_dense = weights(21, 13, 3, 3, dtype="int8"), weights(19, 37, dtype="int8")
    image, matrix = ((1, 13, 9, 11),), ((7, 37),)

    def rounded(x):
        return relay.cast(x, "bfloat16")

    wide = "int64"
    return {
        "exp": Case(matrix, "float32", lambda x: relay.exp(x), np.exp),
        "tanh": Case(matrix, "float32", lambda x: relay.tanh(x), np.tanh),
        "sigmoid": Case(matrix, "float32", lambda x: relay.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
        "round": Case(matrix, "float32", lambda x: relay.round(x * relay.const(8.0)), lambda x: np.rint(x * 8), True),
        "softmax": Case(matrix, "float32", lambda x: relay.nn.softmax(x), softmax),
        "sum": Case(matrix, "float32", lambda x: relay.sum(x, 1), lambda x: x.sum(1)),
        "argmax": Case(matrix, "float32", lambda x: relay.argmax(x, 1), lambda x: x.argmax(1), True),
        "cumsum": Case(matrix, "int32", lambda x: relay.cumsum(x, 1), lambda x: x.cumsum(1), True),
        "sort": Case(matrix, "float32", lambda x: relay.sort(x, 1), lambda x: np.sort(x, 1), True),
        "transpose": Case(image, "float32", lambda x: relay.transpose(x, (3, 1, 0, 2)),
                          lambda x: x.transpose(3, 1, 0, 2), True),
        "strided_slice": Case(matrix, "int8", lambda x: relay.strided_slice(x, [1, 2], [7, 31], [2, 3]),
                              lambda x: x[1:7:2, 2:31:3], True),
        "where": Case(matrix * 2, "float32", lambda x, y: relay.where(relay.less(x, y), x, y), np.minimum, True),
        "floor_divide": Case(matrix, "int32", lambda x: relay.floor_divide(x, relay.const(7, "int32")),
                             lambda x: x // 7, True),
        "max_pool2d": Case(image, "float32", lambda x: relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1)),
                           lambda x: windows(x, 3, 2, -np.inf).max((4, 5)), True),
        "conv2d": Case(image, "float32", lambda x: conv(x, filters),
                       lambda x: np.einsum("nchwij,ocij->nohw", windows(x, 3, 1), filters)),
        "conv2d strided": Case(image, "float32", lambda x: conv(x, filters, strides=(2, 2)),
                               lambda x: np.einsum("nchwij,ocij->nohw", windows(x, 3, 2), filters)),
        "conv2d depthwise": Case(image, "float32", lambda x: conv(x, each, groups=13),
                                 lambda x: np.einsum("nchwij,cij->nchw", windows(x, 3, 1), each[:, 0])),
        "conv2d int8": Case(image, "int8", lambda x: conv(x, narrow, out_dtype="int32"),
                            lambda x: np.einsum("nchwij,ocij->nohw", windows(x.astype(wide), 3, 1), narrow), True),
        "dense": Case(matrix, "float32", lambda x: relay.nn.dense(x, relay.const(dense)), lambda x: x @ dense.T),
        "dense int8": Case(matrix, "int8", lambda x: relay.nn.dense(x, relay.const(byte_dense), out_dtype="int32"),
                           lambda x: x.astype(wide) @ byte_dense.T.astype(wide), True),
        "conv2d bfloat16": Case(
            image, "int8", lambda x: relay.nn.conv2d(
                rounded(x), relay.const(narrow.astype("float32"), "bfloat16"), channels=21, kernel_size=(3, 3),
                padding=(1, 1), out_dtype="float32"),
            lambda x: np.einsum("nchwij,ocij->nohw", windows(x.astype(wide), 3, 1), narrow), True),
        "dense bfloat16": Case(
            matrix, "int8", lambda x: relay.nn.dense(
                rounded(x), relay.const(byte_dense.astype("float32"), "bfloat16"), out_dtype="float32"),
            lambda x: x.astype(wide) @ byte_dense.T.astype(wide), True),
        "batch_matmul bfloat16": Case(
            ((3, 7, 21), (3, 16, 21)), "int8",
            lambda x, y: relay.nn.batch_matmul(rounded(x), rounded(y), out_dtype="float32"),
            lambda x, y: x.astype(wide) @ y.swapaxes(1, 2).astype(wide), True),
        "batch_matmul": Case(((3, 7, 21), (3, 9, 21)), "float32", lambda x, y: relay.nn.batch_matmul(x, y),
                             lambda x, y: x @ y.swapaxes(1, 2)),
        "batch_matmul int8": Case(
            ((3, 7, 21), (3, 9, 21)), "int8", lambda x, y: relay.nn.batch_matmul(x, y, out_dtype="int32"),
            lambda x, y: x.astype(wide) @ y.swapaxes(1, 2).astype(wide), True),
    }  # fmt: skip


def sample(names: list[str], count: int, seed: int) -> list[str]:
    """Return ``count`` of the names, depending on the seed; all names if there are no more."""
    order = np.random.default_rng(seed).permutation(len(names))[:count]
    return [names[i] for i in sorted(order)]


def difference(case: Case, run: Callable[[Any, dict[str, np.ndarray]], np.ndarray], seed: int) -> float:
    """Return the largest difference from NumPy, relative to the largest element."""
    import tvm
    from tvm import relay

    rng = np.random.default_rng(seed)
    inputs, variables = {}, []
    for name, shape in zip("xy", case.shapes):
        is_float = case.dtype == "float32"
        array = rng.standard_normal(shape) if is_float else rng.integers(-128, 128, shape)
        inputs[name] = array.astype(case.dtype)
        variables.append(relay.var(name, shape=shape, dtype=case.dtype))
    mod = tvm.IRModule.from_expr(relay.Function(variables, case.graph(*variables)))
    want, got = case.wanted(*inputs.values()), run(mod, inputs)
    if got.shape != want.shape:
        return float("inf")
    worst = float(np.abs(got.astype("float64") - want).max())
    return worst if case.exact else worst / max(float(np.abs(want).max()), 1e-30)


__all__ = ["Case", "cases", "difference", "sample"]
