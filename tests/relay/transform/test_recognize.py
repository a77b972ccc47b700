"""Layer normalizations that graphs spell out."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order

rng = np.random.default_rng(17)


def simplified(body):
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    new = relay.transform.SimplifyExpr(kernels=True)(mod)
    names = [n.op.name for n in post_order(new["main"]) if isinstance(n, relay.Call)]
    shapes = [[int(d) for d in p.type_annotation.shape] for p in mod["main"].params]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    want, got = (relay.create_executor("debug", m).evaluate()(*arrays).numpy() for m in (mod, new))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return new, names


def vector(size=12):
    return relay.const(rng.standard_normal(size).astype("float32"))


def spelled_out(x, square=lambda v: relay.power(v, relay.const(2.0)), root=True, axis=-1):
    centered = relay.subtract(x, relay.mean(x, axis, True))
    spread = relay.add(relay.mean(square(centered), axis, True), relay.const(1e-5))
    return relay.divide(centered, relay.sqrt(spread)) if root else relay.multiply(centered, relay.rsqrt(spread))


FORMS = {
    "power and root": {},
    "product": {"square": lambda v: relay.multiply(v, v)},
    "reciprocal root": {"root": False},
}


@pytest.mark.parametrize("form", FORMS)
def test_layer_normalization_is_one_operator(form):
    x = relay.var("x", shape=(2, 5, 12))
    body = relay.add(relay.multiply(spelled_out(x, **FORMS[form]), vector()), vector())
    new, names = simplified(body)
    assert names == ["nn.layer_norm"]
    assert new["main"].body.attrs.scale and new["main"].body.attrs.center


def test_parts_of_a_normalization_that_are_missing_stay_out():
    x = relay.var("x", shape=(2, 5, 12))
    new, names = simplified(spelled_out(x))
    assert names == ["nn.layer_norm"] and not new["main"].body.attrs.scale and not new["main"].body.attrs.center
    assert simplified(relay.add(spelled_out(x), vector()))[1] == ["nn.layer_norm"]


def test_other_axes_and_other_tensors_are_no_layer_normalization():
    x, y = relay.var("x", shape=(2, 5, 12)), relay.var("y", shape=(2, 5, 12))
    assert "nn.layer_norm" not in simplified(spelled_out(x, axis=1))[1]
    spread = relay.add(relay.mean(relay.multiply(y, y), -1, True), relay.const(1e-5))
    centered = relay.subtract(x, relay.mean(x, -1, True))
    assert "nn.layer_norm" not in simplified(relay.divide(centered, relay.sqrt(spread)))[1]
