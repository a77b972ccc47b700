"""ONNX models as jax functions, so that XLA can be timed on the same files: the operators of the zoo.

Integer values stay NumPy arrays while the function is traced, because shapes must be known then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import helper, numpy_helper


def _is_static(values: Sequence) -> bool:
    return all(v is None or isinstance(v, (np.ndarray, np.generic)) for v in values)


def _windows(attrs: dict, rank: int) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """Return strides, padding before and after, and dilation of the spatial dimensions."""
    pads = attrs.get("pads", [0] * (2 * rank))
    return (
        attrs.get("strides", [1] * rank),
        list(zip(pads[:rank], pads[rank:])),
        attrs.get("dilations", [1] * rank),
    )


def _conv(attrs, x, w, b=None):
    """Convert a convolution. Inside, data are channels last and filters HWIO: XLA prefers that on CPUs and cancels
    transposes between layers."""
    strides, padding, dilation = _windows(attrs, 2)
    out = lax.conv_general_dilated(
        x.transpose(0, 2, 3, 1),
        w,
        strides,
        padding,
        rhs_dilation=dilation,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=attrs.get("group", 1),
    )
    return (out if b is None else out + b).transpose(0, 3, 1, 2)


def _pool_pads(attrs, x, rank: int = 2) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the requested padding, and the padding with the additional padding that ceil mode needs."""
    strides, padding, _ = _windows(attrs, rank)
    whole = []
    for size, kernel, stride, (before, after) in zip(x.shape[2:], attrs["kernel_shape"], strides, padding):
        span = size + before + after - kernel
        extra = -span % stride if attrs.get("ceil_mode") else 0
        # Omit a window that would start in the trailing padding.
        extra = 0 if span + extra >= size + before else extra
        whole.append((before, after + extra))
    return padding, whole


def _window_sum(x, attrs, initial, function, padding):
    strides = attrs.get("strides", [1, 1])
    return lax.reduce_window(
        x, initial, function, (1, 1, *attrs["kernel_shape"]), (1, 1, *strides), [(0, 0), (0, 0), *padding]
    )


def _max_pool(attrs, x):
    return _window_sum(x, attrs, -jnp.inf, lax.max, _pool_pads(attrs, x)[1])


def _average_pool(attrs, x):
    padding, whole = _pool_pads(attrs, x)
    total = _window_sum(x, attrs, 0.0, lax.add, whole)
    counted = np.ones((1, 1, *x.shape[2:]), "float32")
    inner = [(0, 0), (0, 0), *padding]
    counted = np.pad(counted, inner, constant_values=1.0 if attrs.get("count_include_pad") else 0.0)
    rest = [(w[0] - p[0], w[1] - p[1]) for w, p in zip(whole, padding)]
    return total / _window_sum(jnp.asarray(counted), attrs, 0.0, lax.add, rest)


def _gemm(attrs, a, b, c=None):
    b = b.T if attrs.get("transB") else b
    out = attrs.get("alpha", 1.0) * (a @ b)
    return out if c is None else out + attrs.get("beta", 1.0) * c


def _batch_norm(attrs, x, scale, bias, mean, variance):
    factor = scale / jnp.sqrt(variance + attrs.get("epsilon", 1e-5))
    return x * factor[:, None, None] + (bias - mean * factor)[:, None, None]


def _layer_norm(attrs, x, scale, bias=None):
    axes = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    out = centred / jnp.sqrt((centred * centred).mean(axes, keepdims=True) + attrs.get("epsilon", 1e-5)) * scale
    return out if bias is None else out + bias


def _reshape(attrs, x, shape):
    sizes = [int(x.shape[i]) if d == 0 and not attrs.get("allowzero") else int(d) for i, d in enumerate(shape)]
    return x.reshape(sizes)


def _slice(attrs, x, starts, ends, axes=None, steps=None):
    where = [slice(None)] * x.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        where[int(axis)] = slice(int(starts[i]), int(ends[i]), 1 if steps is None else int(steps[i]))
    return x[tuple(where)]


def _expand(attrs, x, shape):
    sizes = np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))
    return (np if _is_static([x]) else jnp).broadcast_to(x, sizes)


def _flatten(attrs, x):
    at = attrs.get("axis", 1)
    return x.reshape(math.prod(x.shape[:at]), -1)


def _constant_of_shape(attrs, shape):
    value = attrs.get("value", np.zeros(1, "float32"))
    return np.full(tuple(int(d) for d in shape), value.reshape(()), value.dtype)


def _plain(name: str) -> Callable:
    """Return a function that NumPy and jax both have; static operands stay static."""
    return lambda attrs, *xs: getattr(np if _is_static(xs) else jnp, name)(*xs)


OPERATORS: dict[str, Callable] = {
    "Add": _plain("add"),
    "And": _plain("logical_and"),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": lambda attrs, x: x.astype(helper.tensor_dtype_to_np_dtype(attrs["to"])),
    "Clip": lambda attrs, x, low=None, high=None: jnp.clip(x, low, high),
    "Concat": lambda attrs, *xs: (np if _is_static(xs) else jnp).concatenate(xs, attrs["axis"]),
    "Constant": lambda attrs: attrs["value"],
    "ConstantOfShape": _constant_of_shape,
    "Conv": _conv,
    "Div": lambda attrs, a, b: a // b if _is_static((a, b)) and a.dtype.kind in "iu" else a / b,
    "Equal": _plain("equal"),
    "Erf": lambda attrs, x: lax.erf(x),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": lambda attrs, x, at: (np if _is_static((x, at)) else jnp).take(x, at, axis=attrs.get("axis", 0)),
    "GatherElements": lambda attrs, x, at: jnp.take_along_axis(x, at, attrs.get("axis", 0)),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda attrs, x: x.mean((2, 3), keepdims=True),
    "GreaterOrEqual": _plain("greater_equal"),
    "HardSigmoid": lambda attrs, x: jnp.clip(x * attrs.get("alpha", 0.2) + attrs.get("beta", 0.5), 0, 1),
    "HardSwish": lambda attrs, x: x * jnp.clip(x / 6 + 0.5, 0, 1),
    "Identity": lambda attrs, x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": lambda attrs, a, b: a @ b,
    "MaxPool": _max_pool,
    "Mul": _plain("multiply"),
    "ReduceMean": lambda attrs, x: x.mean(tuple(attrs["axes"]), keepdims=bool(attrs.get("keepdims", 1))),
    "Relu": lambda attrs, x: jnp.maximum(x, 0),
    "Reshape": _reshape,
    "Shape": lambda attrs, x: np.array(x.shape, "int64"),
    "Sigmoid": lambda attrs, x: jax.nn.sigmoid(x),
    "Slice": _slice,
    "Softmax": lambda attrs, x: jax.nn.softmax(x, attrs.get("axis", -1)),
    "Transpose": lambda attrs, x: x.transpose(attrs["perm"]),
    "Where": _plain("where"),
}


def _attributes(node) -> dict[str, Any]:
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {k: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for k, v in found.items()}


def load(path: str) -> tuple[Callable, dict[str, np.ndarray]]:
    """Return a function of (weights, inputs) that returns the first output, and the weights."""
    graph = onnx.load(path).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    weights = {name: array for name, array in arrays.items() if array.dtype.kind == "f"}
    static = {name: array for name, array in arrays.items() if name not in weights}
    for node in graph.node:
        if node.op_type == "Conv":
            if node.input[1] not in weights:
                raise ValueError(f"the filters of '{node.name}' are not constants of the file")
            weights[node.input[1]] = arrays[node.input[1]].transpose(2, 3, 1, 0).copy()
    nodes = [(OPERATORS[n.op_type], _attributes(n), list(n.input), list(n.output)) for n in graph.node]
    result = graph.output[0].name

    def function(weights: dict, inputs: dict):
        values: dict[str, Any] = {"": None, **static, **weights, **inputs}
        for operator, attrs, inside, outside in nodes:
            values[outside[0]] = operator(attrs, *(values[name] for name in inside))
        return values[result]

    return function, weights
