"""Integer division gives what NumPy gives, on every path to a result: no divisor ends the process."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tvm
from tvm import relay, te, topi
from tvm.contrib import graph_executor

CASES = int(os.environ.get("TVM_FUZZ_CASES", "500"))
TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def _truncated(a, b):
    with np.errstate(all="ignore"):
        return np.floor_divide(a - np.fmod(a, b), b)


OPERATORS = {
    "divide": _truncated,
    "floor_divide": np.floor_divide,
    "trunc_divide": _truncated,
    "mod": np.fmod,
    "floor_mod": np.mod,
    "trunc_mod": np.fmod,
}


def numbers(rng, dtype: str, size: int):
    """All pairs of the numbers at which a division could go wrong, then pairs of any."""
    kind = np.iinfo(dtype)
    edges = np.array(sorted({kind.min, kind.min + 1, max(kind.min, -1), 0, 1, 2, 7, kind.max - 1, kind.max}), dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
    shift = rng.integers(0, kind.bits, size)
    drawn = [rng.integers(kind.min, kind.max, size, dtype, endpoint=True) >> shift.astype(dtype) for _ in range(2)]
    return np.concatenate([a, drawn[0]]), np.concatenate([b, drawn[1]])


def wanted(name, a, b):
    with np.errstate(all="ignore"):
        return OPERATORS[name](a, b)


def run(build, arrays, level, executor="graph"):
    own = [relay.var(f"x{i}", shape=a.shape, dtype=str(a.dtype)) for i, a in enumerate(arrays)]
    mod = tvm.IRModule.from_expr(relay.Function(own, build(*own)))
    with tvm.transform.PassContext(opt_level=level):
        if executor == "debug":
            return [f.numpy() for f in relay.create_executor("debug", mod).evaluate()(*arrays)]
        module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(**{f"x{i}": a for i, a in enumerate(arrays)})
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@pytest.mark.parametrize("dtype", TYPES)
def test_compiled_folded_and_interpreted_quotients_are_those_of_numpy(dtype, rng):
    a, b = numbers(rng, dtype, CASES)

    def computed(x, y):
        return relay.Tuple([getattr(relay, name)(x, y) for name in OPERATORS])

    def folded(x):
        whole = [getattr(relay, name)(relay.const(a), relay.const(b)) for name in OPERATORS]
        return relay.Tuple([*whole, x])

    want = [wanted(name, a, b) for name in OPERATORS]
    for label, got in (
        ("level 0", run(computed, [a, b], 0)),
        ("level 3", run(computed, [a, b], 3)),
        ("debug", run(computed, [a, b], 3, "debug")),
        ("folded", run(folded, [a], 3)[:-1]),
    ):
        for name, g, w in zip(OPERATORS, got, want, strict=True):
            np.testing.assert_array_equal(g, w, err_msg=f"{name} of {dtype}, {label}")


KNOWN = [(d, n) for d in ("int8", "int32", "uint16", "int64") for n in (0, 1, 5, -1, -7) if n >= 0 or d[0] == "i"]


@pytest.mark.parametrize("dtype, divisor", KNOWN)
def test_divisors_that_are_known_give_the_same(dtype, divisor, rng):
    a, _ = numbers(rng, dtype, 20)
    b = np.full_like(a, divisor)

    def computed(x):
        return relay.Tuple([getattr(relay, name)(x, relay.const(divisor, dtype)) for name in OPERATORS])

    for name, got in zip(OPERATORS, run(computed, [a], 3), strict=True):
        np.testing.assert_array_equal(got, wanted(name, a, b), err_msg=f"{name} of {dtype} by {divisor}")


def _kernel(target, build, shape=(64,), dtype="int32", lanes=0):
    x, y = te.placeholder(shape, dtype, name="x"), te.placeholder(shape, dtype, name="y")
    z = build(x, y)
    s = te.create_schedule(z.op)
    if lanes:
        s[z].vectorize(s[z].split(z.op.axis[0], lanes)[1])
    return tvm.build(s, [x, y, z], target)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", OPERATORS)
def test_lanes_and_c_give_the_same(name, target, lanes, rng):
    a, b = (v[:64] for v in numbers(rng, "int32", 0))
    built = _kernel(target, getattr(topi, name), lanes=lanes)
    out = tvm.nd.array(np.zeros(64, "int32"))
    built(tvm.nd.array(a), tvm.nd.array(b), out)
    np.testing.assert_array_equal(out.numpy(), wanted(name, a, b))


@pytest.mark.usual_code
@pytest.mark.parametrize("name", OPERATORS)
def test_a_known_divisor_costs_no_comparison(name):
    text = {
        made: _kernel("llvm", lambda x, y, make=make: make(x)).get_source("ll")
        for made, make in {
            "guarded": lambda x: getattr(topi, name)(x, 5),
            "plain": lambda x: te.compute(x.shape, lambda i: _PLAIN[name](x[i], 5), name="T_" + name),
        }.items()
    }
    assert text["guarded"] == text["plain"]


def test_the_place_in_a_shape_with_a_zero_is_a_number():
    index, shape = np.array([5, 7], "int32"), np.array([0, 3], "int32")
    got = run(lambda i, s: relay.Tuple([relay.unravel_index(i, s)]), [index, shape], 3)[0]
    np.testing.assert_array_equal(got, [[0, 0], [2, 1]])


_PLAIN = {
    "divide": tvm.tir.div, "floor_divide": tvm.tir.floordiv, "trunc_divide": tvm.tir.truncdiv,
    "mod": tvm.tir.truncmod, "floor_mod": tvm.tir.floormod, "trunc_mod": tvm.tir.truncmod,
}  # fmt: skip
