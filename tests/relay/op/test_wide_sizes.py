"""Types whose sizes are int64 are types like others."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import run

import tvm
from tvm import relay


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pools_of_uneven_windows(kind, rng):
    x = rng.standard_normal((1, 2, 7, 9)).astype("float32")
    wide = relay.TensorType([tvm.tir.IntImm("int64", d) for d in x.shape], "float32")
    own = relay.var("x", wide)
    pool = getattr(relay.nn, f"adaptive_{kind}_pool2d")
    assert tuple(map(int, relay.transform.InferTypeLocal(pool(own, (3, 4))).shape)) == (1, 2, 3, 4)
    function = tvm.IRModule.from_expr(relay.Function([own], pool(own, (3, 4))))
    got = relay.create_executor("graph", function).evaluate()(x).numpy()
    np.testing.assert_allclose(got, run(lambda a: pool(a, (3, 4)), x), rtol=1e-6)
    rows = [(i * 7 // 3, -(-(i + 1) * 7 // 3)) for i in range(3)]
    columns = [(j * 9 // 4, -(-(j + 1) * 9 // 4)) for j in range(4)]
    for i, (top, bottom) in enumerate(rows):
        for j, (left, right) in enumerate(columns):
            part = x[:, :, top:bottom, left:right]
            want = part.max((2, 3)) if kind == "max" else part.mean((2, 3))
            np.testing.assert_allclose(got[:, :, i, j], want, rtol=1e-5, atol=1e-6)
