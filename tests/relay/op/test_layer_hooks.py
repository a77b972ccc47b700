"""The hooks of topi.nn that Legalize and AlterOpLayout call: users override them for the keys of a target."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.op.test_cpu_layout import operators
from tvm import relay, topi
from tvm.relay.testing import TempOpAttr

rng = np.random.default_rng(3)


@pytest.fixture
def override():
    """Registers a function for a key of targets until the test ends."""
    added = []

    def register(hook, key, func):
        assert key not in hook.dispatch_dict
        hook.register(key, func)
        added.append((hook, key))

    yield register
    for hook, key in added:
        del hook.dispatch_dict[key]


def convolution(weight_is_constant: bool = False):
    x = relay.var("x", shape=(1, 16, 7, 7))
    weight = relay.var("w", shape=(32, 16, 3, 3))
    if weight_is_constant:
        weight = relay.const(rng.standard_normal((32, 16, 3, 3)).astype("float32"))
    y = relay.nn.relu(relay.nn.conv2d(x, weight, channels=32, kernel_size=(3, 3), padding=(1, 1)))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y)))


def run_pass(mod, a_pass, target="llvm -mtriple=x86_64-linux-gnu -mcpu=core-avx2"):
    with tvm.target.Target(target), tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential([a_pass])(mod)


def test_a_layout_that_a_user_registers_is_used_for_targets_with_its_key_only(override):
    seen = []

    def blocks_of_four(attrs, inputs, tinfos, out_type):
        seen.append(([tuple(t.shape) for t in tinfos], tuple(out_type.shape)))
        new = {**attrs, "data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"}
        return relay.nn.conv2d(*inputs, **new)

    override(topi.nn.conv2d_alter_layout, "cpu", blocks_of_four)
    altered = run_pass(convolution(), relay.transform.AlterOpLayout())
    assert operators(altered["main"]).count("layout_transform") == 3 and 'data_layout="NCHW4c"' in altered.astext()
    assert seen == [([(1, 16, 7, 7), (32, 16, 3, 3)], (1, 32, 7, 7))]
    assert operators(run_pass(convolution(), relay.transform.AlterOpLayout(), "cuda -arch=sm_80")["main"]) == [
        "nn.conv2d", "nn.relu",
    ]  # fmt: skip


def test_the_default_is_the_layout_of_this_compiler(override):
    constant = convolution(weight_is_constant=True)
    assert "nn.contrib_conv2d_NCHWc" in operators(run_pass(constant, relay.transform.AlterOpLayout())["main"])
    call = constant["main"].body.args[0]
    types = [a.checked_type for a in call.args]
    with tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=core-avx2"):
        direct = topi.nn.conv2d_alter_layout(call.attrs, list(call.args), types, call.checked_type)
    assert direct.attrs.data_layout == "NCHW8c"
    override(topi.nn.conv2d_alter_layout, "cpu", lambda attrs, inputs, tinfos, out_type: None)
    unchanged = run_pass(constant, relay.transform.AlterOpLayout())
    assert operators(unchanged["main"]) == ["nn.conv2d", "nn.relu"]


def padded_columns(attrs, inputs, types):
    """A dense layer of 10 columns as one of 16 whose last six are cut off."""
    data, weight = inputs
    wide = relay.nn.dense(data, relay.nn.pad(weight, ((0, 6), (0, 0))), units=16, out_dtype=attrs.out_dtype)
    return relay.strided_slice(wide, [0, 0], [int(d) for d in types[-1].shape])


def dense():
    x, w = relay.var("x", shape=(3, 8)), relay.var("w", shape=(10, 8))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, w)))


@pytest.mark.parametrize(
    "hook, make, name",
    [
        (topi.nn.batch_matmul_legalize, lambda x, w: relay.nn.batch_matmul(x, w), "nn.batch_matmul"),
        (topi.nn.dense_legalize, lambda x, w: relay.nn.dense(x, w), "nn.dense"),
        (topi.nn.matmul_legalize, lambda x, w: relay.nn.matmul(x, w, transpose_b=True), "nn.matmul"),
    ],
)
def test_legalize_calls_the_hook_of_an_operator_with_its_types(override, hook, make, name):
    lead = (2,) if name == "nn.batch_matmul" else ()
    x, w = relay.var("x", shape=(*lead, 3, 8)), relay.var("w", shape=(*lead, 10, 8))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(make(x, w)))
    assert tvm.ir.structural_equal(run_pass(mod, relay.transform.Legalize()), mod)
    seen = []

    def negated(attrs, inputs, types):
        seen.append([tuple(t.shape) for t in types])
        return relay.negative(make(relay.negative(inputs[0]), inputs[1]))

    override(hook, "cpu", negated)
    legal = run_pass(mod, relay.transform.Legalize())
    assert seen == [[(*lead, 3, 8), (*lead, 10, 8), (*lead, 3, 10)]]
    assert operators(legal["main"]) == ["negative", name, "negative"]


@pytest.mark.parametrize("transposed", [False, True])
def test_legalize_calls_the_hook_of_convolutions(override, transposed):
    make = relay.nn.conv2d_transpose if transposed else relay.nn.conv2d
    y = make(relay.var("x", shape=(1, 4, 5, 5)), relay.var("w", shape=(4, 4, 3, 3)), channels=4, kernel_size=(3, 3))
    hook = topi.nn.conv2d_transpose_legalize if transposed else topi.nn.conv2d_legalize
    override(hook, "cpu", lambda attrs, inputs, types: make(relay.nn.relu(inputs[0]), inputs[1], **attrs))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(y))
    assert operators(run_pass(mod, relay.transform.Legalize())["main"])[0] == "nn.relu"


def test_build_uses_the_layer_of_a_user(override):
    called = []
    override(topi.nn.dense_legalize, "cpu", lambda *given: called.append(1) or padded_columns(*given))
    data, weight = (rng.standard_normal(s).astype("float32") for s in ((3, 8), (10, 8)))
    with tvm.transform.PassContext(opt_level=3):
        got = relay.create_executor("graph", mod=dense(), target="llvm").evaluate()(data, weight).numpy()
    assert called
    np.testing.assert_allclose(got, data @ weight.T, rtol=1e-5, atol=1e-5)


def test_a_hook_that_has_a_function_for_a_key_takes_another_by_override_only(override):
    override(topi.nn.dense_alter_layout, "cpu", lambda attrs, inputs, tinfos, out_type: None)
    with pytest.raises(ValueError, match="'dense_alter_layout' already has a function for 'cpu'"):
        topi.nn.dense_alter_layout.register("cpu", lambda *given: None)

    @topi.nn.dense_alter_layout.register(["cpu"], override=True)
    def packed(attrs, inputs, tinfos, out_type):
        weight = relay.layout_transform(inputs[1], "NC", "NC5n")
        return relay.nn.contrib_dense_pack(inputs[0], weight, "NC5n", None, out_dtype=out_type.dtype)

    altered = run_pass(dense(), relay.transform.AlterOpLayout())
    assert operators(altered["main"]) == ["layout_transform", "nn.contrib_dense_pack"]
    data, weight = (rng.standard_normal(s).astype("float32") for s in ((3, 8), (10, 8)))
    got = relay.create_executor("debug", mod=altered).evaluate()(data, weight).numpy()
    np.testing.assert_allclose(got, data @ weight.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows, cpu, block", [(48, "core-avx2", 16), (16, "core-avx2", 16), (10, "core-avx2", 10),
                                              (51, "core-avx2", 3), (64, "skylake-avx512", 32)])  # fmt: skip
def test_dense_layers_are_packed_where_the_rule_of_x86_is_asked_for(rows, cpu, block):
    x, w = relay.var("x", shape=(5, 64)), relay.var("w", shape=(rows, 64))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, w)))
    target = f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"
    assert operators(run_pass(mod, relay.transform.AlterOpLayout(), target)["main"]) == ["nn.dense"]
    with TempOpAttr("nn.dense", "FTVMAlterOpLayout", topi.x86.dense_alter_op._alter_dense_layout):
        packed = run_pass(mod, relay.transform.AlterOpLayout(), target)
        on_a_gpu = run_pass(mod, relay.transform.AlterOpLayout(), "cuda -arch=sm_80")
    weight = packed["main"].body.args[1]
    assert (weight.attrs.src_layout, weight.attrs.dst_layout) == ("NC", f"NC{block}n")
    assert packed["main"].body.attrs.weight_layout == f"NC{block}n" and operators(on_a_gpu["main"]) == ["nn.dense"]
    data, values = (rng.standard_normal(s).astype("float32") for s in ((5, 64), (rows, 64)))
    got = relay.create_executor("debug", mod=packed).evaluate()(data, values).numpy()
    np.testing.assert_allclose(got, data @ values.T, rtol=1e-4, atol=1e-4)
