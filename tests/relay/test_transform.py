"""Passes, each on a graph that shows what it does; results are compared with the interpreter's."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir import structural_equal
from tvm.relay import analysis, transform
from tvm.relay.transform import memory_alloc, memory_plan
from tvm.runtime.container import ADT


def module(body) -> tvm.IRModule:
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function(analysis.free_vars(body), body)))


def operators(mod) -> dict[str, int]:
    return analysis.list_op_freqs(mod)


def check_same_result(before: tvm.IRModule, after: tvm.IRModule, rng, tolerance: float = 1e-4) -> None:
    after = transform.InferType()(after)
    values = [
        rng.uniform(-1, 1, [int(d) for d in p.checked_type.shape]).astype(p.checked_type.dtype)
        for p in before["main"].params
    ]
    a = relay.create_executor("debug", before).evaluate()(*values)
    b = relay.create_executor("debug", after).evaluate()(*values)
    for x, y in zip(a if isinstance(a, ADT) else [a], b if isinstance(b, ADT) else [b]):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=tolerance, atol=tolerance)


def weight(rng, *shape):
    return relay.const(rng.uniform(-1, 1, shape).astype("float32"))


def image(channels=4, size=8):
    return relay.var("x", shape=(1, channels, size, size))


def test_scales_fold_backward_through_bias_and_relu(rng):
    y = relay.nn.bias_add(relay.nn.conv2d(image(), weight(rng, 6, 4, 3, 3), padding=(1, 1)), weight(rng, 6))
    positive = relay.const(rng.uniform(0.5, 2, (6, 1, 1)).astype("float32"))
    mod = module(relay.nn.relu(y) * positive)
    new = transform.FoldConstant()(transform.BackwardFoldScaleAxis()(mod))
    assert "multiply" not in operators(new)
    check_same_result(mod, new, rng)


def test_scales_that_may_be_negative_stay_outside_of_relu(rng):
    y = relay.nn.relu(relay.nn.conv2d(image(), weight(rng, 6, 4, 1, 1)))
    mod = module(y * relay.const(np.array([1, -1, 1, 1, 1, 1], "float32").reshape(6, 1, 1)))
    assert operators(transform.FoldScaleAxis()(mod))["multiply"] == 1


def test_scales_fold_forward_into_depthwise_weights(rng):
    x = image() * relay.const(rng.uniform(0.5, 2, (4, 1, 1)).astype("float32"))
    mod = module(relay.nn.conv2d(relay.nn.relu(x), weight(rng, 4, 1, 3, 3), groups=4, channels=4, kernel_size=(3, 3)))
    new = transform.FoldConstant()(transform.ForwardFoldScaleAxis()(mod))
    assert "multiply" not in operators(new)
    check_same_result(mod, new, rng)


def test_a_scaled_value_that_others_use_is_left(rng):
    c = relay.nn.conv2d(image(), weight(rng, 4, 4, 1, 1))
    mod = module(relay.Tuple([c * relay.const(2.0), c]))
    assert operators(transform.FoldScaleAxis()(mod))["multiply"] == 1


def test_equal_expressions_are_computed_once():
    x = relay.var("x", shape=(3,))
    mod = module(relay.exp(x + relay.const(1.0)) * relay.exp(x + relay.const(1.0)))
    assert operators(transform.EliminateCommonSubexpr()(mod)) == {"add": 1, "exp": 1, "multiply": 1}
    skipped = transform.EliminateCommonSubexpr(lambda e: isinstance(e, relay.Call) and e.op.name == "add")(mod)
    assert operators(skipped)["exp"] == 2


@pytest.mark.parametrize(
    "build, kept",
    [
        (lambda x: relay.reshape(relay.reshape(x, (6, 4)), (2, 3, 4)), {}),
        (lambda x: relay.reshape(relay.expand_dims(x, 0), (4, 6)), {"reshape": 1}),
        (lambda x: relay.transpose(relay.transpose(x, (0, 2, 1)), (0, 2, 1)), {}),
        (lambda x: relay.transpose(relay.transpose(x, (1, 0, 2)), (0, 2, 1)), {"transpose": 1}),
        (lambda x: relay.cast(relay.cast(x, "float64"), "float32"), {}),
        (lambda x: relay.cast(relay.cast(x, "int8"), "float32"), {"cast": 2}),
        (lambda x: x * relay.const(1.0) + relay.const(0.0), {}),
        (lambda x: (x + relay.const(2.0)) + relay.const(3.0), {"add": 1}),
        (lambda x: relay.const(1.0) / relay.sqrt(relay.abs(x)), {"abs": 1, "rsqrt": 1}),
        (lambda x: relay.cast(x, "float32"), {}),
        (lambda x: relay.transpose(relay.expand_dims(x, 1), (1, 0, 2, 3)), {"reshape": 1}),
        (lambda x: relay.transpose(relay.expand_dims(x, 1), (2, 1, 0, 3)), {"expand_dims": 1, "transpose": 1}),
        (lambda x: relay.take(x, relay.const(1), axis=1), {"strided_slice": 1, "reshape": 1}),
        (lambda x: relay.take(x, relay.const(-1), axis=2, mode="wrap"), {"take": 1}),
        (lambda x: relay.take(x, relay.const([1]), axis=1), {"take": 1}),
        (lambda x: relay.nn.batch_matmul(x, relay.transpose(x, (0, 2, 1)), transpose_b=False), {"nn.batch_matmul": 1}),
        (
            lambda x: relay.nn.batch_matmul(
                x, relay.transpose(relay.exp(x), (0, 2, 1)) + relay.const(1.0), transpose_b=False
            ),
            {"exp": 1, "transpose": 1, "add": 1, "nn.batch_matmul": 1},
        ),
    ],
)
def test_simplifications(build, kept, rng):
    mod = module(build(relay.var("x", shape=(2, 3, 4))))
    new = transform.SimplifyExpr(kernels=True)(mod)
    assert operators(new) == kept
    check_same_result(mod, new, rng)


def test_padding_becomes_part_of_a_convolution(rng):
    padded = relay.nn.pad(image(), ((0, 0), (0, 0), (1, 2), (0, 1)))
    mod = module(relay.nn.conv2d(padded, weight(rng, 2, 4, 3, 3), padding=(1, 1), strides=(2, 1)))
    new = transform.SimplifyExpr(kernels=True)(mod)
    assert operators(new) == {"nn.conv2d": 1} and new["main"].body.attrs.padding == (2, 1, 3, 2)
    check_same_result(mod, new, rng)
    ones = relay.nn.pad(image(), ((0, 0), (0, 0), (1, 1), (1, 1)), 1.0)
    other = module(relay.nn.conv2d(ones, weight(rng, 2, 4, 3, 3)))
    assert "nn.pad" in operators(transform.SimplifyExpr(kernels=True)(other))


def test_parallel_layers_are_joined(rng):
    x = image()
    outs = [relay.nn.conv2d(x, weight(rng, n, 4, 1, 1)) for n in (2, 3, 5)]
    mod = module(relay.concatenate([relay.nn.relu(o) for o in outs], 1))
    assert operators(transform.CombineParallelConv2D(4)(mod))["nn.conv2d"] == 3
    new = transform.CombineParallelConv2D(3)(mod)
    assert operators(new)["nn.conv2d"] == 1
    check_same_result(mod, new, rng)
    y = relay.var("y", shape=(3, 7))
    mod = module(relay.Tuple([relay.nn.dense(y, weight(rng, n, 7)) for n in (2, 3, 5)]))
    new = transform.CombineParallelDense(3, to_batch=False)(mod)
    assert operators(new)["nn.dense"] == 1
    check_same_result(mod, new, rng)


def test_unused_definitions_and_functions_go():
    x, v, w = relay.var("x", shape=()), relay.Var("v"), relay.Var("w")
    mod = module(relay.Let(v, relay.exp(x), relay.Let(w, x + x, w)))
    assert operators(transform.DeadCodeElimination()(mod)) == {"add": 1}
    assert isinstance(transform.DeadCodeElimination(inline_once=True)(mod)["main"].body, relay.Call)
    text = "def @f(%x: float32) { %x } def @g(%x: float32) { @f(%x) } def @main(%x: float32) { %x }"
    kept = transform.RemoveUnusedFunctions()(relay.parse(text))
    assert [v.name_hint for v in kept.functions] == ["main"]


def test_writes_to_references_are_not_dead():
    mod = relay.parse("def @main() { let %r = ref(1f); let %u = ref_write(%r, 2f); ref_read(%r) }")
    assert relay.create_executor("debug", transform.DeadCodeElimination()(mod)).evaluate()().numpy() == 2


def test_convolutions_and_their_neighbours_change_layout(rng):
    c = relay.nn.conv2d(image(), weight(rng, 6, 4, 3, 3), padding=(1, 1))
    c = relay.nn.relu(relay.nn.bias_add(c, weight(rng, 6)))
    c = relay.nn.max_pool2d(c + relay.const(rng.random((6, 1, 1), dtype="float32")), (2, 2), (2, 2))
    d = relay.nn.conv2d(c, weight(rng, 6, 1, 3, 3), padding=(1, 1), groups=6, channels=6, kernel_size=(3, 3))
    mod = module(relay.nn.global_avg_pool2d(relay.concatenate([c, d], 1)))
    new = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
    # Data, weights and the number per channel go in, one value comes out; constants are folded by another pass.
    assert operators(new)["layout_transform"] == 5
    assert operators(transform.FoldConstant()(new))["layout_transform"] == 2
    layouts = {
        n.attrs.data_layout
        for n in tvm.ir.visit.post_order(new["main"])
        if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"
    }
    assert layouts == {"NHWC"}
    check_same_result(mod, new, rng)


def test_layers_can_be_left_out_of_a_layout_change(rng):
    mod = module(relay.nn.conv2d(image(), weight(rng, 6, 4, 3, 3)))
    with transform.LayoutConfig(skip_layers=[0]):
        assert structural_equal(transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod), mod)


def test_half_precision_goes_where_it_pays(rng):
    c = relay.nn.relu(relay.nn.conv2d(image(), weight(rng, 6, 4, 3, 3)))
    mod = module(relay.nn.softmax(relay.nn.batch_flatten(c)))
    new = transform.ToMixedPrecision("float16")(mod)
    types = {
        n.op.name: n.checked_type.dtype
        for n in tvm.ir.visit.post_order(new["main"])
        if isinstance(n, relay.Call) and n.op.name != "cast"
    }
    assert types["nn.relu"] == "float16" and types["nn.softmax"] == "float32"
    check_same_result(mod, new, rng, 2e-2)


def test_half_precision_outputs_can_keep_their_type(rng):
    mod = module(relay.nn.relu(relay.nn.conv2d(image(), weight(rng, 6, 4, 3, 3))))
    assert transform.ToMixedPrecision("float16")(mod)["main"].body.checked_type.dtype == "float16"
    with tvm.transform.PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        assert transform.ToMixedPrecision("float16")(mod)["main"].body.checked_type.dtype == "float32"


def test_normal_forms_keep_results_and_undo_each_other(rng):
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    shared = relay.exp(x)
    body = relay.If(c, shared + x, shared * relay.tanh(x)) + shared
    mod = tvm.IRModule.from_expr(relay.Function([x, c], body))
    mod = transform.InferType()(mod)
    a = transform.ToANormalForm()(mod)
    assert isinstance(a["main"].body, relay.Let)
    graph = transform.ToGraphNormalForm()(a)
    assert structural_equal(graph, mod)
    blocks = transform.ToBasicBlockNormalForm()(mod)
    lets = [n for n in tvm.ir.visit.post_order(blocks["main"]) if isinstance(n, relay.Let)]
    assert len(lets) == 1 and lets[0].value.op.name == "exp"
    for new in (a, graph, blocks):
        for value in (True, False):
            args = (np.array([0.5, -1], "float32"), value)
            run = [relay.create_executor("debug", m).evaluate()(*args).numpy() for m in (mod, new)]
            np.testing.assert_allclose(run[0], run[1], rtol=1e-6, atol=1e-6)


def test_a_normal_form_names_constants_and_keeps_the_names_of_lets():
    one, two, three = (relay.const(v) for v in (1, 2, 3))
    body = relay.add(one, relay.multiply(two, three))
    mod = transform.ToANormalForm()(tvm.IRModule.from_expr(relay.Function([], body)))
    values, node = [], mod["main"].body
    while isinstance(node, relay.Let):
        values.append(node.value)
        node = node.body
    assert [v.data.numpy().item() for v in values[:3]] == [1, 2, 3]
    assert [v.op.name for v in values[3:]] == ["multiply", "add"]
    x, y = relay.var("x", shape=(2,)), relay.var("y")
    named = transform.ToANormalForm()(tvm.IRModule.from_expr(relay.Function([x], relay.Let(y, relay.exp(x), y))))
    let = named["main"].body
    assert let.var.name_hint == "y" and let.value.op.name == "exp" and let.body is let.var


def test_a_normal_form_keeps_the_order_of_reads_and_writes():
    ref, done = relay.Var("ref"), relay.Var("done")
    read = relay.RefRead(ref)
    inner = relay.Let(done, relay.RefWrite(ref, relay.const(2)), read)
    body = relay.Let(ref, relay.RefCreate(relay.const(1)), relay.add(inner, read))
    mod = transform.ToANormalForm()(tvm.IRModule.from_expr(relay.Function([], body)))
    run = [
        relay.create_executor("debug", m).evaluate()().numpy()
        for m in (tvm.IRModule.from_expr(relay.Function([], body)), mod)
    ]
    assert run[0] == run[1] == 4


def test_legalization_and_layout_rules_of_operators_are_used(rng):
    def negative_as_subtract(attrs, inputs, types):
        return relay.subtract(relay.const(0.0), inputs[0])

    record = relay.op.get("negative")
    record.attrs["FTVMLegalize"] = negative_as_subtract
    try:
        mod = module(relay.negative(relay.var("x", shape=(3,))))
        new = transform.Legalize()(mod)
        assert operators(new) == {"subtract": 1}
        check_same_result(mod, new, rng)
    finally:
        record.reset_attr("FTVMLegalize")


def test_marked_functions_are_inlined():
    text = """
    def @twice(%x: float32, Inline=1) -> float32 { add(%x, %x) }
    def @main(%x: float32) { @twice(@twice(%x)) }
    """
    mod = relay.parse(text)
    new = transform.Inline()(mod)
    assert [v.name_hint for v in new.functions] == ["main"]
    assert relay.create_executor("debug", new).evaluate()(np.float32(3)).numpy() == 12


def test_shapes_that_turn_out_to_be_known_become_attributes():
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3, 2))
    mod = transform.DynamicToStatic()(module(relay.reshape(x, relay.shape_of(y))))
    assert operators(mod) == {"reshape": 1} and mod["main"].body.attrs.newshape == (3, 2)


def test_passes_that_are_not_offered_say_why():
    for name in ("FirstOrderGradient", "LazyGradientInit", "ToCPS"):
        with pytest.raises(tvm.TVMError, match=f"{name} is not available: .+"):
            getattr(transform, name)()
    for name in ("ManifestAlloc", "ManifestLifetimes", "MemoryPlan"):
        with pytest.raises(tvm.TVMError, match=f"{name} is not available: memory is planned in the compiled program"):
            getattr(transform, name)()
    for refused in (memory_alloc.ManifestAllocPass, memory_plan.StorageCoalesce):
        with pytest.raises(tvm.TVMError, match="is not available: memory is planned in the compiled program"):
            refused()


def test_the_pipeline_honours_level_disabled_and_required_passes(rng):
    mod = module(relay.nn.conv2d(image(), weight(rng, 4, 4, 1, 1)) * relay.const(2.0))
    for options, count in (
        ({"opt_level": 0}, 1),
        ({"opt_level": 3}, 0),
        ({"opt_level": 3, "disabled_pass": ["BackwardFoldScaleAxis"]}, 1),
    ):
        with tvm.transform.PassContext(**options):
            new, _ = relay.optimize(mod, "llvm")
        assert operators(new).get("multiply", 0) == count, options


def half(body, dtype="float16"):
    return transform.ToMixedPrecision(dtype)(module(body))["main"].body


def test_inputs_and_numbers_are_made_narrow_for_what_follows_them():
    x = relay.var("x", shape=(1, 10))
    got = half(relay.divide(x, relay.const(5.0)))
    assert got.checked_type.dtype == "float16" and all(a.op.name == "cast" for a in got.args)
    taken = half(relay.take(x, relay.var("i", shape=(2,), dtype="int32"), axis=0))
    assert taken.checked_type.dtype == "float16" and taken.args[1].checked_type.dtype == "int32"


@pytest.mark.parametrize("build", [
    relay.sum, relay.mean, relay.nn.global_avg_pool2d, lambda x: relay.nn.adaptive_avg_pool2d(x, (1, 1)),
    relay.nn.softmax, lambda x: relay.clip(x, -128000, 128000)])  # fmt: skip
def test_sums_and_what_half_precision_cannot_hold_stay(build):
    body = build(relay.var("x", shape=(1, 3, 4, 4)))
    assert structural_equal(transform.ToMixedPrecision("float16")(module(body)), module(body), map_free_vars=True)


def test_a_clip_that_the_narrow_type_holds_follows():
    x = relay.var("x", shape=(3,))
    assert half(relay.clip(x, -128000, 128000), "bfloat16").checked_type.dtype == "bfloat16"
    assert half(relay.clip(x, -1, 1)).checked_type.dtype == "float16"


def test_double_precision_may_be_asked_for(rng):
    mod = module(relay.nn.conv2d(image(), weight(rng, 6, 4, 3, 3)))
    new = transform.ToMixedPrecision("float64")(mod)
    assert new["main"].body.checked_type.dtype == "float64"
    check_same_result(mod, new, rng)


def test_half_precision_is_the_type_of_products_and_of_the_variables_bound_to_them():
    x, w = relay.var("x", shape=(1, 20)), relay.var("w", shape=(20, 20))
    a, b = relay.var("a", shape=(1, 20)), relay.var("b", shape=(1, 20))
    body = relay.Let(a, relay.nn.dense(x, w), relay.Let(b, relay.nn.dense(a + a, w), b + b))
    got = half(body)
    assert got.value.attrs.out_dtype == got.var.checked_type.dtype == got.body.var.checked_type.dtype == "float16"
    assert got.checked_type.dtype == "float16"


def test_half_precision_products_keep_single_precision_sums_until_the_end():
    # 1 + 2048 terms of 2**-11: in float16, 1 + 2**-11 rounds to 1.
    x = relay.var("x", shape=(1, 2049), dtype="float16")
    w = relay.var("w", shape=(4, 2049), dtype="float16")
    mod = module(relay.nn.dense(x, w))
    given = np.full((1, 2049), 2.0**-11, "float16")
    given[0, 0] = 1
    run = relay.create_executor("graph", mod=mod, target="llvm").evaluate()
    np.testing.assert_array_equal(run(given, np.ones((4, 2049), "float16")).numpy(), np.full((1, 4), 2, "float16"))
    with tvm.transform.PassContext(opt_level=0):
        new, _ = relay.optimize(mod, "llvm")
    calls = [n for n in tvm.ir.visit.post_order(new["main"]) if isinstance(n, relay.Call)]
    products = [n for n in calls if n.op.name == "nn.dense"]
    assert [n.checked_type.dtype for n in products] == ["float32"]
