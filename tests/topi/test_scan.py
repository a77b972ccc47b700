"""Running sums and products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import check, evaluate
from tvm import te, topi


def exclusive(function, identity):
    def reference(x, axis):
        moved = np.moveaxis(x, axis, 0)
        start = np.full_like(moved[:1], identity)
        return np.moveaxis(np.concatenate([start, function(moved, 0)[:-1]]), 0, axis)

    return reference


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool"])
def test_running_sums_and_products(rng, dtype):
    data = rng.integers(1, 4, (3, 1, 5)).astype(dtype)
    cases = {}
    for axis in (0, 1, -1):
        for name, function, one in (("cumsum", np.cumsum, 0), ("cumprod", np.cumprod, 1)):
            cases[name, axis] = (
                lambda t, n=name, a=axis: getattr(topi, n)(t, a),
                lambda x, f=function, a=axis: f(x, a, dtype=x.dtype),
            )
            cases[name, axis, "exclusive"] = (
                lambda t, n=name, a=axis: getattr(topi, n)(t, a, exclusive=True),
                lambda x, f=function, a=axis, o=one: exclusive(f, o)(x, a).astype(x.dtype),
            )
    check([data], cases)


def test_flat_other_type_and_empty(rng):
    data = (rng.random((2, 3)) > 0.5).astype("int8")
    check([data], {
        "flat": (topi.cumsum, lambda x: np.cumsum(x, dtype="int8")),
        "type": (lambda t: topi.cumsum(t, 1, "int64"), lambda x: np.cumsum(x, 1, "int64")),
    })  # fmt: skip
    assert evaluate([np.zeros((2, 0), "float32")], lambda t: topi.cumsum(t, 1)).shape == (2, 0)
    with pytest.raises(ValueError, match="out of range"):
        topi.cumsum(te.placeholder((3,)), 1)
