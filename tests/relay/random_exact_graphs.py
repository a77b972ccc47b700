"""Random graphs of quantized tensors and of bfloat16, with the one right answer: one seed makes one graph.

Values are whole numbers, whose sums of products are exact; they become bytes or bfloat16 again by one multiplication
and one rounding, which NumPy does to the last bit as well.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

import tvm
from tvm import relay
from tvm.contrib import graph_executor

LIMITS = {"uint8": (0, 255), "int8": (-128, 127)}
SIZES = (1, 2, 3, 5, 8, 13, 16, 24, 33)


class Value(NamedTuple):
    """A tensor of the graph, what it is, and the zero point of quantized ones."""

    expr: relay.Expr
    array: np.ndarray
    zero: int = 0


class TooLarge(Exception):
    """A sum that float32 may not have: the step is left out."""


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 numbers rounded to bfloat16, halves to the even side; they stay float32."""
    bits = x.astype("float32").view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype("uint32").view("float32")


class Maker:
    """Grows a graph and its results step by step; ``dtype`` is that of data."""

    def __init__(self, seed: int, dtype: str):
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.inputs: dict[str, np.ndarray] = {}

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def input(self, shape: tuple[int, ...]) -> Value:
        low, high = LIMITS.get(self.dtype, (-9, 9))
        array = self.rng.integers(low, high + 1, shape)
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array.astype(self.dtype if self.dtype in LIMITS else "float32")
        if self.dtype in LIMITS:
            return Value(relay.var(name, shape=shape, dtype=self.dtype), array, int(self.rng.integers(low, high + 1)))
        return Value(relay.cast(relay.var(name, shape=shape), "bfloat16"), array)

    def real(self, value: Value) -> tuple[relay.Expr, np.ndarray]:
        """What a layer multiplies."""
        if self.dtype in LIMITS:
            steps = relay.cast(value.expr, "float32")
            return steps - relay.const(float(value.zero)) if value.zero else steps, value.array - value.zero
        return value.expr, value.array

    def weights(self, shape: tuple[int, ...]) -> tuple[relay.Expr, np.ndarray]:
        low, high = (-128, 127) if self.dtype in LIMITS else (-5, 5)
        array = self.rng.integers(low, high + 1, shape)
        made = relay.const(array.astype("float32"))
        return (made if self.dtype in LIMITS else relay.cast(made, "bfloat16")), array

    def narrowed(self, sums: relay.Expr, array: np.ndarray, terms: int) -> Value:
        """Sums brought to the type of data: scaled so that most are within it, rounded, and kept within its limits."""
        if np.abs(array).max(initial=0) >= 2**24:
            raise TooLarge
        if self.dtype not in LIMITS:
            # Whole numbers beyond 256 are rounded to fewer digits.
            steps, exact = relay.round(sums * relay.const(0.125)), np.rint(array * 0.125)
            return Value(relay.cast(steps, "bfloat16"), to_bfloat16(exact).astype("int64"))
        low, high = LIMITS[self.dtype]
        scale = np.float32(self.rng.uniform(0.5, 2) / (90 * np.sqrt(terms)))
        zero = int(self.rng.integers(low, high + 1))
        steps = relay.round(sums * relay.const(scale))
        exact = np.rint(array.astype("float32") * scale)
        if self.rng.random() < 0.3:
            steps, exact = relay.nn.relu(steps), np.maximum(exact, 0)
        out = relay.cast(relay.clip(steps + relay.const(float(zero)), low, high), self.dtype)
        return Value(out, np.clip(exact + zero, low, high).astype("int64"), zero)

    def layer(self, value: Value) -> Value:
        """A convolution: of all channels, of groups of them, or of each by itself."""
        x, array = self.real(value)
        n, c, h, w = array.shape
        groups = self.pick([1, 1, c, *[g for g in (2, 4) if c % g == 0]])
        filters = c if groups == c > 1 else groups * self.pick((1, 3, 8, 16, 17))
        kh, kw = (self.pick([k for k in (1, 3, 5) if k <= size + 1]) for size in (h, w))
        (y, z), top, left = (self.pick((1, 1, 2)) for _ in range(2)), kh // 2, kw // 2
        weight, taps = self.weights((filters, c // groups, kh, kw))
        options = {} if self.dtype in LIMITS else {"out_dtype": "float32"}
        sums = relay.nn.conv2d(x, weight, strides=(y, z), padding=(top, left), groups=groups, channels=filters,
                               kernel_size=(kh, kw), **options)  # fmt: skip
        padded = np.pad(array.astype("int64"), ((0, 0), (0, 0), (top, top), (left, left)))
        height, width = (padded.shape[2] - kh) // y + 1, (padded.shape[3] - kw) // z + 1
        total = np.zeros((n, groups, filters // groups, height, width), "int64")
        for i in range(kh):
            for j in range(kw):
                part = padded[:, :, i : i + (height - 1) * y + 1 : y, j : j + (width - 1) * z + 1 : z]
                part = part.reshape(n, groups, c // groups, height, width)
                tap = taps[:, :, i, j].reshape(groups, filters // groups, -1).astype("int64")
                total += np.einsum("ngchw,goc->ngohw", part, tap)
        total = total.reshape(n, filters, height, width)
        if self.rng.random() < 0.6:
            bias = self.rng.integers(-50, 50, (filters, 1, 1))
            sums, total = sums + relay.const(bias.astype("float32")), total + bias
        return self.narrowed(sums, total, taps[0].size)

    def dense(self, value: Value) -> Value:
        matrix = Value(relay.nn.batch_flatten(value.expr), value.array.reshape(value.array.shape[0], -1), value.zero)
        x, array = self.real(matrix)
        weight, rows = self.weights((self.pick(SIZES), array.shape[1]))
        options = {} if self.dtype in LIMITS else {"out_dtype": "float32"}
        total = array.astype("int64") @ rows.T.astype("int64")
        out = self.narrowed(relay.nn.dense(x, weight, **options), total, array.shape[1])
        shape = (*out.array.shape, 1, 1)
        return Value(relay.reshape(out.expr, shape), out.array.reshape(shape), out.zero)

    def attention(self, value: Value) -> Value:
        """The product of two tensors of the graph: of the channels with each other."""
        n, c, h, w = value.array.shape
        flat = Value(relay.reshape(value.expr, (n, c, h * w)), value.array.reshape(n, c, h * w), value.zero)
        x, array = self.real(flat)
        options = {} if self.dtype in LIMITS else {"out_dtype": "float32"}
        whole = array.astype("int64")
        out = self.narrowed(relay.nn.batch_matmul(x, x, **options), whole @ whole.transpose(0, 2, 1), h * w)
        return Value(relay.reshape(out.expr, (n, c, c, 1)), out.array.reshape(n, c, c, 1), out.zero)

    def joined(self, value: Value) -> Value:
        """The sum of two branches, in their steps."""
        (x, first), (y, second) = self.real(value), self.real(self.same_shape(value))
        total = first.astype("int64") + second.astype("int64")
        if self.dtype in LIMITS:
            return self.narrowed(x + y, total, 1)
        return self.narrowed(relay.cast(x, "float32") + relay.cast(y, "float32"), total, 1)

    def same_shape(self, value: Value) -> Value:
        return self.input(value.array.shape)

    def moved(self, value: Value) -> Value:
        """Bytes in other places."""
        expr, array = value.expr, value.array
        which = self.pick(("pool", "transpose", "concatenate"))
        if which == "pool" and min(array.shape[2:]) >= 2 and self.dtype in LIMITS:
            height, width = (n // 2 * 2 for n in array.shape[2:])
            parts = [array[:, :, i:height:2, j:width:2] for i in range(2) for j in range(2)]
            return Value(relay.nn.max_pool2d(expr, (2, 2), (2, 2)), np.max(parts, 0), value.zero)
        if which == "transpose":
            return Value(relay.transpose(expr, (0, 1, 3, 2)), array.transpose(0, 1, 3, 2), value.zero)
        return Value(relay.concatenate([expr, expr], 1), np.concatenate([array, array], 1), value.zero)

    def grow(self, steps: int) -> Value:
        value = self.input((self.pick((1, 1, 2)), self.pick(SIZES), self.pick((1, 4, 7, 9)), self.pick((1, 5, 8))))
        kinds = (self.layer, self.layer, self.layer, self.dense, self.attention, self.joined, self.moved)
        for _ in range(steps):
            kind = self.pick(kinds)
            if value.array.size < 20000:
                with contextlib.suppress(TooLarge):
                    value = kind(value)
        return value


def graph(seed: int, dtype: str) -> tuple[tvm.IRModule, dict[str, np.ndarray], np.ndarray]:
    """The module of a seed, values for its parameters, and its result."""
    maker = Maker(seed, dtype)
    value = maker.grow(int(maker.rng.integers(1, 5)))
    body = value.expr if dtype in LIMITS else relay.cast(value.expr, "float32")
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    return relay.transform.InferType()(mod), maker.inputs, value.array


def computed(mod: tvm.IRModule, inputs: dict[str, np.ndarray], target: str, level: int) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=level):
        model = graph_executor.GraphModule(relay.build(mod, target=target)["default"](tvm.cpu()))
    names = {p.name_hint for p in mod["main"].params}
    model.run(**{name: array for name, array in inputs.items() if name in names})
    return model.get_output(0).numpy()
