"""Random graphs over the operator set: odd shapes, shared values, constants, tuples. One seed makes one graph."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import relay
from tvm.relay.infer import dims, infer_type
from tvm.runtime.container import ADT

SIZES = (1, 1, 2, 3, 4, 5, 7, 8)
UNARY = (
    "exp",
    "tanh",
    "sigmoid",
    "abs",
    "negative",
    "floor",
    "nn.relu",
    "sqrt",
    "rsqrt",
    "sin",
    "copy",
    "zeros_like",
    "ones_like",
    "erf",
)
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
FLOOR = tvm.ir.Op.get("floor")


class Maker:
    """Grows a graph step by step; every value is kept small so that results can be compared."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.params: list[relay.Var] = []
        self.pool: list[relay.Expr] = []

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def shape_of(self, e) -> tuple[int, ...]:
        return dims(e.checked_type)

    def input(self, shape) -> relay.Expr:
        """A parameter or, as often, a constant."""
        if self.rng.random() < 0.5:
            return self.constant(shape)
        v = relay.var(f"x{len(self.params)}", shape=shape)
        self.params.append(v)
        return infer_type(v)

    def constant(self, shape) -> relay.Expr:
        kind = self.rng.random()
        if kind < 0.15:
            return relay.const(np.full(shape, self.pick((0.0, 1.0, -1.0)), "float32"))
        return relay.const(self.rng.uniform(-2, 2, shape).astype("float32"))

    def value(self, rank: int | None = None) -> relay.Expr:
        found = [e for e in self.pool if rank is None or len(self.shape_of(e)) == rank]
        if found and self.rng.random() < 0.85:
            return self.pick(found)
        rank = int(self.rng.integers(1, 5)) if rank is None else rank
        return self.input(tuple(self.pick(SIZES) for _ in range(rank)))

    # one method per kind of step

    def unary(self):
        x = self.value()
        name = self.pick(UNARY)
        if name in ("sqrt", "rsqrt"):
            x = relay.abs(x) + relay.const(0.5)
        if name == "floor":
            x = self.off_integers(x)
        if name == "exp":
            x = relay.clip(x, -3, 3)
        function = getattr(relay.nn, name[3:]) if name.startswith("nn.") else getattr(relay, name)
        return function(x)

    def off_integers(self, x: relay.Expr) -> relay.Expr:
        """The value moved so that its floor is seldom decided by rounding: sums over a softmax are nearly whole
        numbers."""
        return x + relay.const(0.37)

    def binary(self):
        x = self.value()
        shape = self.shape_of(x)
        choice = self.rng.random()
        grown = choice < 0.35
        if grown:
            y = self.pick([e for e in self.pool if self.shape_of(e) == shape] or [self.input(shape)])
        elif choice < 0.7:
            y = self.constant(tuple(n if self.rng.random() < 0.5 else 1 for n in shape))
        else:
            y = self.constant(shape[int(self.rng.integers(0, len(shape) + 1)) :])
        name = self.pick(BINARY)
        if name == "divide":
            y = relay.abs(y) + relay.const(0.5)
        swapped = self.rng.random() >= 0.7 and name != "divide"
        out = getattr(relay, name)(y, x) if swapped else getattr(relay, name)(x, y)
        # Squares of squares would be so large that the rounding of what cancels is seen in results.
        return relay.clip(out, -100, 100) if grown and name == "multiply" else out

    def with_axes(self) -> relay.Expr:
        """A value that is no scalar."""
        x = self.value()
        return x if self.shape_of(x) else infer_type(relay.reshape(x, (1,)))

    def moved(self):
        x = self.with_axes()
        shape = self.shape_of(x)
        rank = len(shape)
        which = self.pick(
            ("transpose", "reshape", "expand", "slice", "concat", "reverse", "tile", "pad", "cast", "split")
        )
        if which == "transpose":
            return relay.transpose(x, [int(a) for a in self.rng.permutation(rank)])
        if which == "reshape":
            return relay.reshape(x, self.pick(((-1,), (1, -1), (*shape, 1), (-1, shape[-1]), shape)))
        if which == "expand":
            return relay.expand_dims(x, int(self.rng.integers(0, rank + 1))) if rank < 4 else relay.squeeze(x)
        if which == "slice":
            end = [int(self.rng.integers(1, n + 1)) for n in shape]
            return relay.strided_slice(x, [0 if e == 1 else int(self.rng.integers(0, e)) for e in end], end)
        axis = int(self.rng.integers(0, rank))
        if which == "concat":
            return relay.concatenate([x, relay.negative(x), x], axis)
        if which == "reverse":
            return relay.reverse(x, axis)
        if which == "tile":
            return relay.tile(x, [2 if i == axis else 1 for i in range(rank)]) if np.prod(shape) < 300 else x + x
        if which == "pad":
            return relay.nn.pad(x, [(int(self.rng.integers(0, 2)), int(self.rng.integers(0, 3))) for _ in shape])
        if which == "cast":
            whole = relay.floor(self.off_integers(relay.clip(x, -9, 9)))
            wide = relay.cast(whole, self.pick(("int32", "float64", "int64", "int8")))
            return relay.cast(wide + wide, "float32")
        parts = relay.split(x, shape[axis], axis) if shape[axis] <= 4 else relay.split(x, (1, 3), axis)
        return (
            relay.add(parts[0], relay.const(1.0))
            if len(parts) == 1
            else relay.concatenate([parts[len(parts) - 1], parts[0]], axis)
        )

    def reduced(self):
        x = self.with_axes()
        rank = len(self.shape_of(x))
        axes = [a for a in range(rank) if self.rng.random() < 0.5] or [rank - 1]
        out = getattr(relay, self.pick(("sum", "mean", "max", "min")))(
            x, axis=axes, keepdims=bool(self.rng.random() < 0.5)
        )
        return relay.clip(out, -50, 50)

    def layer(self):
        """A convolution with what surrounds it in networks; the scale may be negative or uniform."""
        x = self.value(4)
        n, c, h, w = self.shape_of(x)
        before = self.rng.random()
        if before < 0.3:
            x = x * self.constant((c, 1, 1))
        if before < 0.15:
            x = relay.nn.relu(x + self.constant((c, 1, 1)))
        if self.rng.random() < 0.2:
            x, h, w = relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 0))), h + 2, w + 1
        k = self.pick((1, 3))
        groups = c if self.rng.random() < 0.3 else 1
        filters = c if groups > 1 else self.pick((1, 2, 5, 8))
        weight = relay.const((self.rng.uniform(-1, 1, (filters, c // groups, k, k)) / (k * k)).astype("float32"))
        out = relay.nn.conv2d(
            x,
            weight,
            strides=self.pick((1, 2)) if k == 3 else 1,
            padding=(k // 2, k // 2),
            groups=groups,
            channels=filters,
            kernel_size=(k, k),
        )
        after = self.rng.random()
        if after < 0.4:
            vectors = [relay.const(self.rng.uniform(lo, 2, filters).astype("float32")) for lo in (-1, -2, -2, 0.3)]
            out = relay.nn.batch_norm(out, *vectors)[0]
        elif after < 0.6:
            out = relay.nn.bias_add(out, self.constant((filters,)))
        if self.rng.random() < 0.5:
            out = relay.nn.relu(out)
        if self.rng.random() < 0.3:
            out = out * relay.const(
                self.rng.uniform(-1 if self.rng.random() < 0.5 else 0.1, 2, (filters, 1, 1)).astype("float32")
            )
        return out

    def parallel(self):
        """Dense layers of the same data."""
        x = self.value(2)
        width = self.shape_of(x)[1]
        outs = [
            relay.nn.dense(x, relay.const(self.rng.uniform(-1, 1, (u, width)).astype("float32"))) for u in (3, 1, 5)
        ]
        return relay.concatenate(outs, 1) if self.rng.random() < 0.5 else relay.nn.softmax(outs[2])

    def repeated(self):
        """An expression written twice: common subexpressions."""
        x = self.value()
        return relay.tanh(x + relay.const(0.5)) * relay.tanh(x + relay.const(0.5))

    def grow(self, steps: int) -> tvm.IRModule:
        kinds = (
            self.unary,
            self.binary,
            self.binary,
            self.moved,
            self.moved,
            self.reduced,
            self.layer,
            self.parallel,
            self.repeated,
        )
        for _ in range(steps):
            got = infer_type(self.pick(kinds)())
            shape = self.shape_of(got)
            if len(shape) <= 5 and np.prod(shape) <= 20000:
                self.pool.append(infer_type(relay.clip(got, -100, 100)) if self.rng.random() < 0.3 else got)
        ends = self.pool[-1:] if self.rng.random() < 0.6 else self.pool[-3:]
        body = ends[0] if len(ends) == 1 else relay.Tuple(ends)
        used = relay.analysis.free_vars(body) if hasattr(relay, "analysis") else relay.free_vars(body)
        return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(used, body)))


def graph(seed: int) -> tuple[tvm.IRModule, list[np.ndarray]]:
    """The module of a seed, and values for its parameters. One in which rounding may decide is drawn anew."""
    maker = Maker(seed)
    while True:
        maker.params, maker.pool = [], []
        mod = maker.grow(int(maker.rng.integers(3, 12)))
        values = [maker.rng.uniform(-2, 2, dims(p.checked_type)).astype("float32") for p in mod["main"].params]
        if not rounding_decides(mod, values):
            return mod, values


def rounding_decides(mod: tvm.IRModule, values: list[np.ndarray]) -> bool:
    """Whether a number is so near a whole one that its floor depends on the order of sums before it."""
    rounded: list[relay.Expr] = []

    def look(e: relay.Expr) -> None:
        if isinstance(e, relay.Call) and e.op == FLOOR:
            rounded.append(e.args[0])

    main = mod["main"]
    relay.analysis.post_order_visit(main.body, look)
    if not rounded:
        return False
    found = interpret(tvm.IRModule.from_expr(relay.Function(main.params, relay.Tuple(rounded))), values)
    return any(bool((np.abs(x - np.round(x)) < 1e-4 * np.maximum(1, np.abs(x))).any()) for x in found)


def flat(result) -> list[np.ndarray]:
    return [r.numpy() for r in result] if isinstance(result, (list, ADT)) else [result.numpy()]


def interpret(mod: tvm.IRModule, values) -> list[np.ndarray]:
    return flat(relay.create_executor("debug", mod).evaluate()(*values))


def compile_and_run(mod: tvm.IRModule, values, level: int) -> list[np.ndarray]:
    with tvm.transform.PassContext(opt_level=level):
        return flat(relay.create_executor("graph", mod).evaluate()(*values))


def close(got: list[np.ndarray], want: list[np.ndarray]) -> str:
    """What differs; empty when nothing does."""
    for i, (g, w) in enumerate(zip(got, want)):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"output {i} is {g.dtype}{g.shape}, not {w.dtype}{w.shape}"
        if not np.allclose(g, w, rtol=2e-3, atol=2e-3, equal_nan=True):
            return f"output {i} differs by up to {np.nanmax(np.abs(g.astype('float64') - w)):.3g}"
    return "" if len(got) == len(want) else f"{len(got)} outputs, not {len(want)}"
