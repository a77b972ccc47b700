"""What depends on constants only is computed when compiling."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay import transform
from tvm.relay.testing import run_infer_type, run_opt_pass


def folded(func, **options):
    return run_opt_pass(func, transform.FoldConstant(**options))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_shapes_and_numbers_of_elements_are_known(dtype):
    x = relay.var("x", shape=(8, 9, 10))
    size = folded(relay.Function([x], relay.ndarray_size(relay.exp(x), dtype))).body
    assert size.data.numpy() == 720 and size.data.dtype == dtype
    shape = folded(relay.Function([x], relay.shape_of(relay.exp(x), dtype))).body
    assert shape.data.numpy().tolist() == [8, 9, 10]


@pytest.mark.parametrize("name, value", [("max", -128), ("min", 127), ("sum", 0), ("prod", 1)])
def test_reductions_of_nothing_are_where_they_begin(name, value):
    nothing = relay.const(np.zeros((0, 2), "int8"))
    got = folded(relay.Function([], getattr(relay, name)(nothing, axis=0))).body
    assert got.data.numpy().tolist() == [value, value]


def lets(place):
    x = relay.var("x", shape=(1,))
    a, b, c = relay.var("a"), relay.var("b"), relay.var("c")
    rest = relay.Let(c, place(relay.add(b, x)), c)
    return relay.Function([x], relay.Let(a, place(relay.const(1.5)), relay.Let(b, place(relay.add(a, a)), rest)))


@pytest.mark.parametrize("placed", [False, True])
def test_names_of_constants_go(placed):
    def place(e):
        return relay.op.annotation.on_device(e, tvm.cpu(), constrain_result=True) if placed else e

    x, c = relay.var("x", shape=(1,)), relay.var("c")
    wanted = relay.Function([x], relay.Let(c, place(relay.add(place(relay.const(3.0)), x)), c))
    tvm.ir.assert_structural_equal(folded(lets(place)), run_infer_type(wanted))


def test_operators_made_of_others_are_computed_part_by_part():
    rng = np.random.default_rng(5)
    data = rng.standard_normal((2, 3, 4), dtype="float32")
    gamma, beta, mean, var = (rng.random(3, "float32") + 0.5 for _ in range(4))
    made = relay.nn.batch_norm(*[relay.const(v) for v in (data, gamma, beta, mean, var)])
    got = folded(relay.Function([], relay.Tuple([made[0], made[1]]))).body
    shape = (1, 3, 1)
    wanted = (data - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5) * gamma.reshape(shape)
    np.testing.assert_allclose(got.fields[0].data.numpy(), wanted + beta.reshape(shape), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got.fields[1].data.numpy(), mean)


def test_quantized_operators_are_folded_where_that_is_asked_for():
    x = relay.var("x", shape=(3,), dtype="int8")
    const = relay.qnn.op.quantize(relay.const(np.array([1, 2, 3], "float32")), relay.const(0.5), relay.const(0))
    func = relay.Function([x], relay.subtract(x, const))
    tvm.ir.assert_structural_equal(folded(func), run_infer_type(func))
    got = folded(func, fold_qnn=True).body.args[1]
    assert got.data.dtype == "int8" and got.data.numpy().tolist() == [2, 4, 6]


def test_a_chain_of_quantized_operators_folds_to_one_constant():
    ones, zero, one = relay.const(np.ones((1, 1, 2, 2), "uint8")), relay.const(0), relay.const(1.0)
    conv = relay.qnn.op.conv2d(ones, ones, zero, zero, one, one, kernel_size=(2, 2), channels=1)
    scaled = relay.qnn.op.mul(conv, relay.const(np.array([10], "int32")), one, zero, one, zero, one, zero)
    got = folded(relay.Function([], scaled), fold_qnn=True).body
    assert got.data.dtype == "int32" and got.data.numpy().tolist() == [[[[40]]]]


def test_a_long_chain_of_named_constants_is_folded_in_one_walk():
    names = [relay.var(f"v{i}") for i in range(500)]
    body = names[-1]
    for i in reversed(range(len(names))):
        body = relay.Let(names[i], relay.add(names[i - 1], relay.const(1.0)) if i else relay.const(0.0), body)
    got = folded(relay.Function([], body)).body
    assert got.data.numpy() == len(names) - 1


@pytest.mark.parametrize("placed", [False, True])
def test_tuples_of_folded_constants_fold(placed):
    """The fields were folded, so that the tuple is a new one."""
    two = relay.const(np.full((2, 3), 2.0, "float32"))
    parts = [relay.exp(two), two, relay.negative(two)]
    if placed:
        parts = [relay.annotation.on_device(p, "cpu") for p in parts]
    for order in (parts, parts[::-1]):
        folded = relay.transform.FoldConstant()(tvm.IRModule.from_expr(relay.concatenate(order, 0)))["main"].body
        wanted = [np.full((2, 3), v, "float32") for v in (np.exp(2.0), 2.0, -2.0)]
        np.testing.assert_allclose(
            folded.data.numpy(), np.concatenate(wanted if order is parts else wanted[::-1]), rtol=1e-6
        )


def test_floats_are_cast_to_bools_as_a_compiled_cast_does():
    values = np.array([0.0, -0.0, 0.5, -3.0, np.inf], "float32")
    assert folded(relay.Function([], relay.cast(relay.const(values), "bool"))).body.data.numpy().tolist() == [
        False, False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("orders", [[(1, 0), (1, 0)], [None, None], [(-1, -2), None], [(0, 1)]])
def test_transposes_that_cancel_leave_the_constant_itself(orders):
    x = relay.var("x", shape=(2, 5))
    weight = relay.const(np.arange(15, dtype="float16").reshape(3, 5))
    moved = weight
    for order in orders:
        moved = relay.transpose(moved, order)
    found = folded(relay.Function([x], relay.nn.dense(relay.cast(x, "float16"), moved))).body.args[1]
    assert found is weight


def test_a_transposed_constant_is_copied_when_its_elements_are_asked_for():
    x = relay.var("x", shape=(2, 5))
    weight = np.arange(15, dtype="float32").reshape(5, 3)
    found = folded(relay.Function([x], relay.nn.dense(x, relay.transpose(relay.const(weight))))).body.args[1]
    assert found._view is not None and found.checked_type == relay.TensorType((3, 5), "float32")
    np.testing.assert_array_equal(found._elements(), weight.T)
    assert found._view is not None
    np.testing.assert_array_equal(found.data.numpy(), weight.T)
    assert found._view is None and found.data is found.data
    np.testing.assert_array_equal(found._elements(), weight.T)
    with pytest.raises(AttributeError, match="'Constant' object has no attribute 'dates'"):
        _ = found.dates


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "bool"])
def test_transposes_of_a_constant_are_one(dtype):
    weight = relay.const((np.arange(2 * 70 * 3) % 3).reshape(2, 70, 3).astype("float32"))
    weight = relay.const(weight.data.numpy().astype(tvm.runtime.ndarray.numpy_dtype(dtype)))
    inner = relay.transpose(weight, (2, 0, 1))
    body = folded(relay.Function([], relay.Tuple([inner, relay.transpose(inner, (0, 2, 1))]))).body
    plain = weight.data.numpy()
    for found, order in zip(body.fields, ((2, 0, 1), (2, 1, 0))):
        assert isinstance(found, relay.Constant) and found.data.dtype == dtype
        np.testing.assert_array_equal(found.data.numpy(), plain.transpose(order))


@tvm.instrument.pass_instrument
class Modules:
    """Names of the passes that got a module without ``main``, and of all of them."""

    def __init__(self):
        self.without_main, self.names = [], []

    def run_before_pass(self, mod, info):
        self.names.append(info.name)
        if "main" not in [v.name_hint for v in mod.get_global_vars()]:
            self.without_main.append(info.name)


def test_instruments_see_the_users_module_alone_while_constants_are_computed():
    x = relay.var("x", shape=(1, 3, 7, 9))
    # No other test has filters of these sizes, whose kernel would be compiled already.
    conv = relay.nn.conv2d(x, relay.const(np.ones((5, 3, 3, 2), "float32")), channels=5, kernel_size=(3, 2))
    mod = tvm.IRModule.from_expr(conv)
    seen = Modules()
    passes = [transform.ConvertLayout({"nn.conv2d": ["NHWC", "HWIO"]}), transform.FoldConstant()]
    with tvm.transform.PassContext(opt_level=3, instruments=[seen]):
        mod = tvm.transform.Sequential(passes)(mod)
    assert "FoldConstant" in seen.names and not seen.without_main
    assert tuple(mod["main"].body.args[0].args[1].data.shape) == (3, 2, 3, 5)


def test_options_of_the_user_do_not_change_how_constants_are_computed():
    """The kernels are kept for all contexts: one that leaves passes out must not decide for the next."""
    func = relay.Function([], relay.cumsum(relay.const(np.arange(13, dtype="float32"))))
    seen = Modules()
    with tvm.transform.PassContext(disabled_pass=["tir.LowerIntrin", "tir.MakePackedAPI"], instruments=[seen]):
        got = folded(func).body
    np.testing.assert_array_equal(got.data.numpy(), np.arange(13).cumsum())
    assert not seen.without_main
