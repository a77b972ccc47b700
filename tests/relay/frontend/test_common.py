"""What importers and scripts ask about expressions."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.error import OpNotImplemented
from tvm.relay.frontend import common
from tvm.relay.frontend.common import formulas
from tvm.relay.frontend.common.context import NodeContext
from tvm.relay.frontend.common.importer import GraphImporter


def test_types_shapes_and_channels_of_expressions_are_found():
    x, w = relay.var("x", shape=(2, relay.Any())), relay.var("w", shape=(4, 5, 3, 3))
    assert common.infer_type(relay.exp(w)).checked_type.dtype == "float32"
    assert common.infer_shape(w) == (4, 5, 3, 3) and common.infer_shape(x)[0] == 2
    assert common.infer_channels(w) == 4 and common.infer_channels(w, transpose=True) == 5
    np.testing.assert_array_equal(common.shape_of(w).data.numpy(), [4, 5, 3, 3])


def test_values_are_computed_where_the_variables_are_given():
    x = relay.var("x", shape=(3,))
    given = {"x": np.array([1, 2, 3], "float32")}
    np.testing.assert_array_equal(common.infer_value(x + x, given).numpy(), [2, 4, 6])
    assert not common.try_infer_value(x + x)[1]
    value, known = common.try_infer_value(x + x, on_success=lambda v: v.sum(), parameters=given)
    assert known and value == 12
    assert common.try_infer_value(x, on_failure=lambda: "late") == ("late", False)
    with pytest.raises(ValueError, match="no value for the variable 'x'"):
        common.infer_value(x, {})


def test_constants_are_folded_and_operators_found_by_name():
    assert common.fold_constant(relay.const(1.0) + relay.const(2.0)).data.numpy() == 3
    assert common.get_relay_op("dense") is common.get_relay_op("nn.dense") is relay.nn.dense
    with pytest.raises(OpNotImplemented, match="unknown operator 'frobnicate'"):
        common.get_relay_op("frobnicate")
    assert common.get_name(common.new_var("q", shape=(1,))) == "q"
    with pytest.raises(RuntimeError, match="has no name"):
        common.get_name(relay.const(1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_angles_of_points_are_those_of_c_with_signed_zeros_and_infinities(dtype):
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -3.0, np.inf, -np.inf, np.nan], dtype)
    y, x = (a.reshape(-1) for a in np.meshgrid(special, special))
    ctx = NodeContext(GraphImporter(freeze=True), "a test")
    first, second = (ctx.importer.add_input(name, a.shape, dtype) for name, a in (("y", y), ("x", x)))
    module = tvm.IRModule.from_expr(relay.Function([first, second], formulas.atan2(ctx, first, second)))
    run = relay.create_executor("graph", module, tvm.cpu(), "llvm").evaluate()
    found, expected = run(y, x).numpy(), np.arctan2(y, x)
    np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 1e-6)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))
