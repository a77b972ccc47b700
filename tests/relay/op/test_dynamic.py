"""Operators with shapes known when running become plain ones where constants say the shapes."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import refused, run, tensor

import tvm
from tvm import relay
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.testing import run_infer_type

x = np.arange(24, dtype="float32").reshape(2, 3, 4)


def numbers(*values, dtype="int64"):
    """A constant that does not look like one before folding."""
    return relay.add(relay.const(np.array(values, dtype)), relay.const(np.zeros(len(values), dtype)))


CASES = {
    "reshape": (lambda a: relay.reshape(a, numbers(4, -1)), x.reshape(4, 6)),
    "reshape of a shape": (
        lambda a: relay.reshape(relay.transpose(a), relay.shape_of(a)),
        x.transpose().reshape(x.shape),
    ),
    "broadcast_to": (lambda a: relay.broadcast_to(a, numbers(5, 2, 3, 4)), np.broadcast_to(x, (5, 2, 3, 4))),
    "tile": (lambda a: relay.tile(a, numbers(2, 1, 2)), np.tile(x, (2, 1, 2))),
    "full": (lambda a: relay.add(a, relay.full(relay.const(2.0), numbers(3, 1), "float32")), x + 2),
    "strided_slice": (lambda a: relay.strided_slice(a, numbers(0, 1), numbers(2, 3)), x[0:2, 1:3]),
    "topk": (lambda a: relay.topk(a, relay.sum(numbers(1, 1)), ret_type="values"), x[..., :1:-1]),
    "one_hot": (
        lambda a: relay.one_hot(
            relay.cast(relay.reshape(a, (-1,)), "int32"), 1.0, 0.0, relay.sum(numbers(20, 10)), -1, "float32"
        ),
        np.eye(30, dtype="float32")[:24],
    ),
    "expand_dims": (lambda a: relay.expand_dims(a, relay.sum(numbers(1))), x[:, None]),
    "squeeze": (lambda a: relay.squeeze(relay.expand_dims(a, 0), numbers(0)), x),
    "pad": (
        lambda a: relay.nn.pad(a, relay.reshape(numbers(0, 0, 1, 0, 0, 2), (3, 2)), 5.0),
        np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=5),
    ),
    "resize": (
        lambda a: relay.image.resize2d(
            relay.expand_dims(a, 0),
            numbers(6, 8),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        x[None].repeat(2, 2).repeat(2, 3),
    ),
    "sparse_to_dense": (
        lambda a: relay.multiply(
            a,
            relay.sparse_to_dense(
                relay.const(np.array([1], "int32")),
                numbers(4),
                relay.const(np.array([2.0], "float32")),
                relay.const(1.0),
            ),
        ),
        x * np.array([1, 2, 1, 1], "float32"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_known_shapes_are_found(name):
    build, want = CASES[name]
    np.testing.assert_array_equal(run(build, x), want)


def test_unknown_shapes_have_unknown_sizes():
    a, shape = relay.var("a", shape=(2, 6)), relay.var("shape", shape=(3,), dtype="int64")
    mod = relay.InferType()(tvm.IRModule.from_expr(relay.Function([a, shape], relay.reshape(a, shape))))
    typed = relay.transform.DynamicToStatic()(mod)["main"].body
    assert typed.op.name == "dyn.reshape" and str(typed.checked_type) == "Tensor[(?, ?, ?), float32]"


def test_refuses_a_shape_of_unknown_rank():
    words = refused(lambda a, s: relay.reshape(a, s), tensor(4), tensor(2, 2, dtype="int64"))
    assert "the new shape must be a vector of static length" in words


def test_fourier_transforms():
    rng = np.random.default_rng(2)
    re, im = rng.standard_normal((2, 3, 7)).astype("float32")
    whole = np.fft.fft(re + 1j * im)
    got = run(lambda p, q: relay.op.dft(p, q), re, im)
    np.testing.assert_allclose(got[0], whole.real, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(got[1], whole.imag, rtol=1e-3, atol=1e-4)
    back = run(lambda p, q: relay.op.dft(p, q, True), whole.real.astype("float32"), whole.imag.astype("float32"))
    np.testing.assert_allclose(back[0], re, rtol=1e-3, atol=1e-4)
    rows = rng.standard_normal((2, 16)).astype("float32")
    frames = run(lambda p: relay.op.stft(p, 8, 4), rows)
    want = np.stack([np.fft.rfft(rows[:, i : i + 8]) for i in (0, 4, 8)], 2)
    np.testing.assert_allclose(frames[..., 0] + 1j * frames[..., 1], want, rtol=1e-3, atol=1e-4)


def test_factors_of_upsampling_may_be_inputs_that_turn_out_to_be_constants():
    h, w = relay.var("h", shape=()), relay.var("w", shape=())
    x, v = relay.var("x", shape=(1, 2, 3, 4)), relay.var("v", shape=(1, 2, 3, 4, 5))
    for out, data, want in (
        (relay.nn.upsampling(x, h, w), x, (1, 2, 6, 12)),
        (relay.nn.upsampling3d(v, 2, h, w), v, (1, 2, 6, 8, 15)),
    ):
        f = relay.Function([data, h, w], out)
        assert "?" in str(run_infer_type(f).ret_type)
        bound = bind_params_by_name(f, {"h": np.float32(2), "w": np.float32(3)})
        made = relay.transform.DynamicToStatic()(tvm.IRModule.from_expr(bound))["main"]
        assert not made.body.op.name.startswith("dyn.")
        assert made.body.checked_type == relay.TensorType(want, "float32")


def test_a_depth_may_be_a_scalar_constant():
    on, off, depth = relay.const(1), relay.const(0), relay.const(3)
    f = relay.Function([], relay.one_hot(relay.const([0, 2]), on, off, depth, -1, "int32"))
    got = relay.create_executor("graph").evaluate(f)().numpy()
    np.testing.assert_array_equal(got, np.eye(3, dtype="int32")[[0, 2]])


def test_a_list_of_places_of_32_bits_fills_a_vector_of_a_size_known_when_running():
    places, shape = relay.var("i", shape=(2,), dtype="int32"), relay.var("s", shape=(1,), dtype="int32")
    values = relay.var("v", shape=(2,))
    made = relay.sparse_to_dense(places, shape, values, relay.const(9.0))
    mod = tvm.IRModule.from_expr(relay.Function([places, values, shape], made))
    got = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(
        np.int32([0, 2]), np.float32([3, 1]), np.int32([5])
    )
    assert got.numpy().tolist() == [3, 9, 1, 9, 9]
