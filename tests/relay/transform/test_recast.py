"""Chosen operators computed in other types."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.transform import recast


def conv(x, w, dtype):
    return relay.nn.conv2d(x, w, padding=(1, 1), out_dtype=dtype)


def variables(*shapes):
    return [relay.var(f"v{i}", shape=shape) for i, shape in enumerate(shapes)]


IMAGE, FILTERS = (2, 8, 4, 4), (8, 8, 3, 3)


def test_a_function_without_types_equals_one_that_is_written_with_casts():
    x, v, w = variables(IMAGE, FILTERS, FILTERS)
    before = relay.Function([x, v, w], conv(conv(x, v, "float32"), w, "float32"))

    def narrow(a, b):
        return relay.cast(conv(relay.cast(a, "int8"), relay.cast(b, "int8"), "int32"), "float32")

    assert tvm.ir.structural_equal(recast(before, "int8", "int32"), relay.Function([x, v, w], narrow(narrow(x, v), w)))
    skipped = relay.Function([x, v, w], narrow(conv(x, v, "float32"), w))
    assert tvm.ir.structural_equal(recast(before, "int8", "int32", skip_layers=[0]), skipped)
    assert tvm.ir.structural_equal(recast(before, "int8", "int32", skip_layers=[-2]), skipped)


def test_the_fields_of_tuples_are_cast():
    x, y = variables((1, 4), (1, 4))
    got = recast(relay.Function([x, y], relay.concatenate([x, y], 1)), "float16", "float32", ops=["concatenate"])
    narrow = [relay.cast(v, "float16") for v in (x, y)]
    want = relay.Function([x, y], relay.cast(relay.concatenate(narrow, 1), "float32"))
    assert tvm.ir.structural_equal(got, want)


@pytest.mark.parametrize("is_typed", [False, True])
def test_a_module_and_operators_of_several_results(is_typed, rng):
    (x,) = variables((4, 6))
    parts = relay.split(x, 2, axis=1)
    joined = relay.concatenate(relay.split(parts[0] + parts[1], 3, axis=1).astuple(), 0)
    mod = tvm.IRModule.from_expr(relay.Function([x], joined))
    mod = relay.transform.InferType()(mod) if is_typed else mod
    new = recast(mod, "float16", "float32", ops=["split", "concatenate"])
    assert isinstance(new, tvm.IRModule) and (new["main"].ret_type is not None) is is_typed
    # One operand and two results, then one operand, and three operands and one result.
    assert str(new).count("cast(") == 3 + 4 + 4
    value = rng.integers(-9, 9, (4, 6)).astype("float32")
    want, got = (relay.create_executor("debug", m).evaluate()(value).numpy() for m in (mod, new))
    assert got.dtype == "float32"
    np.testing.assert_array_equal(got, want)
