"""Operators on two tensors against NumPy: broadcasting, plain numbers, types, edge values, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import check, run
from tvm import te, topi

FLOATS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": lambda a, b: np.floor(a / b), "mod": np.fmod, "floor_mod": np.mod, "maximum": np.maximum,
    "minimum": np.minimum, "greater": np.greater, "less": np.less, "equal": np.equal, "not_equal": np.not_equal,
    "greater_equal": np.greater_equal, "less_equal": np.less_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "atan2": np.arctan2,
}  # fmt: skip


def quotient(a, b):
    """Rounded towards zero, by Python's integers."""
    a, b = np.broadcast_arrays(a, b)
    values = [abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.flat, b.flat)]
    return np.array(values, a.dtype).reshape(a.shape)


INTEGERS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "divide": quotient, "floor_divide": np.floor_divide, "mod": np.fmod,
    "trunc_divide": quotient, "trunc_mod": np.fmod,
    "floor_mod": np.mod, "maximum": np.maximum, "minimum": np.minimum, "greater": np.greater, "less": np.less,
    "equal": np.equal, "not_equal": np.not_equal, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "logical_and": np.logical_and, "logical_xor": np.logical_xor,
}  # fmt: skip


def table(names):
    return {name: (getattr(topi, name), reference) for name, reference in names.items()}


@pytest.mark.parametrize("shapes", [((), ()), ((3, 1), (7,)), ((1,), (5, 1, 3)), ((2, 0), (1, 1)), ((5,), ())])
def test_floats_broadcast(rng, shapes):
    a, b = (np.asarray(rng.normal(size=s) * 2, "float32") for s in shapes)
    check([a, b], table(FLOATS))


def test_float_edges():
    values = np.array([0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf], "float32")
    names = {k: v for k, v in FLOATS.items() if k not in ("floor_mod", "mod")}
    check([values[:, None], values], table(names))
    finite = np.array([1.0, -2.5, 3e38, 1e-20], "float32")
    check([finite[:, None], finite], table({k: FLOATS[k] for k in ("floor_mod", "mod")}))


def test_power_of_floats(rng):
    check([rng.random((3, 5)).astype("float32"), rng.normal(size=(5,)).astype("float32")], table({"power": np.power}))
    check([np.float32([-2, 3])], {"two": (lambda t: topi.power(t, 2.0), lambda a: a**2)})


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integers_broadcast(dtype):
    limits = np.iinfo(dtype)
    a = np.array([limits.min, limits.max, 0, 1, 7, 100], dtype)
    b = np.array([limits.max, 1, 3, 5, limits.min + 1 if limits.min else 9], dtype)
    check([a[:, None], b], table(INTEGERS))
    shift = np.array([0, 1, 3, 7], dtype)
    check([a[:, None], shift], table({"left_shift": np.left_shift, "right_shift": np.right_shift}))


def test_power_of_integers_wraps_and_inverts():
    base = np.array([-3, -2, -1, 0, 1, 2, 3, 10], "int32")
    exponent = np.array([0, 1, 2, 3, 20, 64], "int32")
    check([base[:, None], exponent], table({"power": np.power}))

    def inverse(a, b):
        return np.array([[0 if abs(x) != 1 else int(x) ** int(-y) for y in b] for x in a[:, 0]], "int32")

    check([base[:, None], np.array([-1, -2], "int32")], {"inverse": (topi.power, inverse)})
    check([base], {"cube": (lambda t: topi.power(t, 3), lambda a: a**3)})


def test_plain_numbers_take_the_type_of_the_tensor(rng):
    a = rng.normal(size=(3, 5)).astype("float32")
    check([a], {
        "right": (lambda t: topi.add(t, 2), lambda x: x + np.float32(2)),
        "left": (lambda t: topi.subtract(1.5, t), lambda x: np.float32(1.5) - x),
        "operators": (lambda t: (t * 2 - 1) / 3 + t, lambda x: (x * 2 - 1) / np.float32(3) + x),
        "compare": (lambda t: t > 0, lambda x: x > 0),
    })  # fmt: skip
    check([np.array([1, 2], "int8")], {"narrow": (lambda t: topi.add(t, 1), lambda x: x + np.int8(1))})
    assert topi.add(2, 3).value == 5


def test_bool_operands():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    check([a, b], table({
        "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "equal": np.equal,
        "not_equal": np.not_equal,
    }))  # fmt: skip
    check([a], {"not": (topi.logical_not, np.logical_not)})
    both = {"bits": (topi.bitwise_not, np.bitwise_not), "not": (topi.logical_not, np.logical_not)}
    check([np.array([0, 5, -1], "int32")], both)


def test_broadcast_to(rng):
    a = rng.normal(size=(3, 1)).astype("float32")
    check([a], {"to": (lambda t: topi.broadcast_to(t, (2, 3, 5)), lambda x: np.broadcast_to(x, (2, 3, 5)))})
    with pytest.raises(ValueError, match="does not broadcast|do not broadcast"):
        topi.broadcast_to(te.placeholder((3,)), (1,))
    with pytest.raises(ValueError, match="does not broadcast"):
        topi.broadcast_to(te.placeholder((3,)), (4,))


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match="add: the shapes do not broadcast: dimensions 3 and 4 differ"):
        topi.add(te.placeholder((3,)), te.placeholder((4,)))
    with pytest.raises(TypeError, match="expected an integer"):
        topi.bitwise_and(te.placeholder((3,)), te.placeholder((3,)))


def test_dimensions_known_only_when_running(rng):
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((n, 3), name="a"), te.placeholder((m, 3), name="b")
    for first, second in ((4, 1), (1, 5), (3, 3)):
        x, y = rng.normal(size=(first, 3)).astype("float32"), rng.normal(size=(second, 3)).astype("float32")
        got = run([a, b], topi.add(a, b), [x, y], [(max(first, second), 3)])
        np.testing.assert_allclose(got, x + y, rtol=1e-6, atol=1e-6)
