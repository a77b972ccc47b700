"""HoistLoops: what steps of a loop compute alike, and products of all rows of a sequence, before the first step."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay.backend.vm.compiler import prepared
from tvm.relay.transform.hoist_loops import HoistLoops

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

WIDE, OUT = 5, 7


def calls(function, name):
    return [n for n in post_order(function) if isinstance(n, relay.Call) and getattr(n.op, "name", None) == name]


def products(mod):
    """The matmuls of each function of a module as it is written for the machine."""
    mod = prepared(mod)
    return {v.name_hint: len(calls(f, "nn.dense")) for v, f in mod.functions.items() if isinstance(f, relay.Function)}


# ---- models with a Loop, beside onnxruntime ----


def nodes(*rows):
    """Nodes of a graph, each written ``(operator, inputs, output, attributes)``."""
    return [helper.make_node(op, ins.split(), outs.split(), **(dict(*rest))) for op, ins, outs, *rest in rows]


def info(name, kind=TensorProto.FLOAT, shape=()):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(rng):
    shapes = {"w": (WIDE, OUT), "u": (OUT, OUT), "b": (OUT,)}
    drawn = {name: rng.standard_normal(shape).astype("float32") * 0.3 for name, shape in shapes.items()}
    numbers = {"one": np.int64(1), "zero": np.int64(0), "first": np.int64([0]), "limit": np.float32(2.5),
               "yes": np.bool_(True)}  # fmt: skip
    return [numpy_helper.from_array(np.asarray(v), name) for name, v in {**drawn, **numbers}.items()]


STEP = (
    ("MatMul", "row w", "xw"),
    ("Add", "xw b", "a"),
    ("MatMul", "h u", "hu"),
    ("Add", "a hu", "sum"),
    ("Tanh", "sum", "new"),
)


def model(rng, before, pick, after=(("Identity", "go_in", "go"),), count="steps", more=(), step=STEP):
    """A model of one Loop over ``x`` (steps x batch x wide) that carries ``h`` and collects its values. ``before`` are
    nodes around it, ``pick`` those that make ``row``, ``after`` those that make ``go``."""
    body = helper.make_graph(
        nodes(*pick, *step, *after, ("Identity", "new", "kept")), "step",
        [info("i", TensorProto.INT64), info("go_in", TensorProto.BOOL), info("h", shape=["n", OUT])],
        [info("go", TensorProto.BOOL), info("new", shape=["n", OUT]), info("kept", shape=["n", OUT])])  # fmt: skip
    around = nodes(("Shape", "x", "sizes"), ("Gather", "sizes zero", "steps"), *before)
    loop = helper.make_node("Loop", [count, "yes", "h0"], ["last", "all"], body=body)
    inputs = [info("x", shape=["t", "n", WIDE]), info("h0", shape=["n", OUT]), *more]
    graph = helper.make_graph([*around, loop], "net", inputs, [info("last", shape=["n", OUT]),
                              info("all", shape=["s", "n", OUT])], weights(rng))  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def check(made, rng, sizes=((6, 3), (1, 1), (17, 4), (0, 2)), **more):
    """The machine computes what onnxruntime does; the module."""
    mod, params = relay.frontend.from_onnx(made)
    mod = relay.transform.InferType()(mod)
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for steps, batch in sizes:
        x = rng.standard_normal((steps, batch, WIDE)).astype("float32")
        h = rng.standard_normal((batch, OUT)).astype("float32")
        given = {"x": x, "h0": h, **{name: np.array(value(steps)) for name, value in more.items()}}
        got = machine.run(**given)
        for ours, theirs in zip(got if isinstance(got, tvm.runtime.container.ADT) else [got], peer.run(None, given)):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-5)
    return mod


FORWARD = (("Gather", "x i", "row", {"axis": 0}),)


def in_steps(mod):
    """The matmuls in the steps of the loop, None where nothing was hoisted."""
    return next((n for name, n in products(mod).items() if name.endswith("_steps")), None)


def test_products_of_all_rows_are_computed_before_a_loop_over_them(rng):
    mod = check(model(rng, (), FORWARD), rng)
    assert in_steps(mod) == 1  # the product with the state


def test_rows_are_taken_in_any_order(rng):
    pick = (("Sub", "steps one", "end"), ("Sub", "end i", "at"), ("Gather", "x at", "row", {"axis": 0}))
    assert in_steps(check(model(rng, (), pick), rng)) == 1


def test_a_sequence_may_lie_along_another_axis(rng):
    before = (("Transpose", "x", "xt", {"perm": [1, 0, 2]}),)
    assert in_steps(check(model(rng, before, (("Gather", "xt i", "row", {"axis": 1}),)), rng)) == 1


def test_rows_may_go_through_elementwise_operators_before_and_after_the_product(rng):
    pick = (("Gather", "x i", "raw", {"axis": 0}), ("Mul", "raw limit", "scaled"), ("Sigmoid", "scaled", "row"))
    step = (*STEP[:2], ("Relu", "a", "bent"), STEP[2], ("Add", "bent hu", "sum"), STEP[4])
    mod = prepared(check(model(rng, (), pick, step=step), rng))
    (steps,) = [f for v, f in mod.functions.items() if v.name_hint.endswith("_steps")]
    assert not calls(steps, "sigmoid") and not calls(steps, "nn.relu")


def test_a_loop_that_a_condition_may_end_computes_only_the_rows_it_takes(rng):
    after = (("ReduceMax", "new", "top", {"keepdims": 0}), ("Less", "top limit", "small"),
             ("Less", "i one", "early"), ("And", "small early", "go"))  # fmt: skip
    assert in_steps(check(model(rng, (), FORWARD, after), rng, ((6, 3), (1, 1), (17, 4)))) is None


def test_a_loop_over_a_part_of_a_sequence_computes_only_its_rows(rng):
    made = model(rng, (), FORWARD, count="m", more=[info("m", TensorProto.INT64)])
    for part in (lambda steps: steps // 2, lambda steps: min(steps, 1)):
        assert in_steps(check(made, rng, ((6, 3), (1, 2), (9, 1)), m=part)) is None


def test_a_loop_over_a_slice_computes_the_rows_of_the_slice(rng):
    before = (("Sub", "steps one", "fewer"), ("Unsqueeze", "fewer first", "stop"), ("Slice", "x first stop", "part"),
              ("Shape", "part", "its"), ("Gather", "its zero", "count"))  # fmt: skip
    made = model(rng, before, (("Gather", "part i", "row", {"axis": 0}),), count="count")
    check(made, rng, ((6, 3), (2, 1), (1, 2)))


def test_other_rows_than_those_of_the_steps_are_left_to_the_steps(rng):
    """As many steps as ``x`` has rows say nothing of those of ``y``."""
    made = model(rng, (), (("Gather", "y i", "row", {"axis": 0}),), more=[info("y", shape=["s", "n", WIDE])])
    x = rng.standard_normal((9, 3, WIDE)).astype("float32")
    assert in_steps(check(made, rng, ((6, 3), (1, 3)), y=lambda steps: x)) is None


def test_an_inner_loop_is_hoisted_in_each_step_of_the_outer_one(rng):
    """The inner loop runs over all rows once for each row of the outer one."""

    def loop(body, states, results, count, go="yes"):
        return helper.make_node("Loop", [count, go, *states], results, body=body)

    carried = [info("go_out", TensorProto.BOOL), info("h_out", shape=["n", OUT])]
    step = nodes(("Gather", "x j", "row", {"axis": 0}), *(r for r in STEP), ("Identity", "go_in", "go"))
    inner = helper.make_graph(step, "inner", [info("j", TensorProto.INT64), info("go_in", TensorProto.BOOL),
                              info("h", shape=["n", OUT])],
                              [info("go", TensorProto.BOOL), info("new", shape=["n", OUT])])  # fmt: skip
    outer = helper.make_graph(
        [*nodes(("Shape", "x", "dims"), ("Gather", "dims zero", "rows")), loop(inner, ["h_in"], ["h_out"], "rows"),
         *nodes(("Identity", "go_outer", "go_out"))],
        "outer", [info("k", TensorProto.INT64), info("go_outer", TensorProto.BOOL), info("h_in", shape=["n", OUT])],
        carried)  # fmt: skip
    graph = helper.make_graph(
        [*nodes(("Shape", "x", "sizes"), ("Gather", "sizes zero", "steps")), loop(outer, ["h0"], ["last"], "steps")],
        "net", [info("x", shape=["t", "n", WIDE]), info("h0", shape=["n", OUT])], [info("last", shape=["n", OUT])],
        weights(rng))  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert in_steps(check(made, rng, ((4, 3), (1, 1), (0, 2)))) == 1


def test_a_scan_is_a_loop_over_all_rows(rng):
    """Forward and from the last row to the first."""
    for direction in (0, 1):
        body = helper.make_graph(nodes(*STEP, ("Identity", "new", "kept")), "step",
                                 [info("h", shape=["n", OUT]), info("row", shape=["n", WIDE])],
                                 [info("new", shape=["n", OUT]), info("kept", shape=["n", OUT])])  # fmt: skip
        scan = helper.make_node(
            "Scan", ["h0", "x"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_directions=[direction]
        )
        graph = helper.make_graph([scan], "net", [info("x", shape=["t", "n", WIDE]), info("h0", shape=["n", OUT])],
                                  [info("last", shape=["n", OUT]), info("all", shape=["t", "n", OUT])],
                                  weights(rng))  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        assert in_steps(check(made, rng, ((6, 3), (1, 1), (17, 4)))) == 1


# ---- functions that call themselves ----

LOOP = """#[version = "0.0.5"]
def @loop(%i: int64, %n: int64, %h: Tensor[(?, 3), float32], %x: Tensor[(?, ?, 3), float32],
          %w: Tensor[(3, 3), float32]) -> Tensor[(?, 3), float32] {{
  if (less(%i, %n)) {{
    %0 = take(%x, %i, axis=0);
    {step}
    @loop(add(%i, 1i64), %n, %9, %x, %w)
  }} else {{ %h }}
}}
def @main(%h: Tensor[(?, 3), float32], %x: Tensor[(?, ?, 3), float32], %w: Tensor[(3, 3), float32]) {{
  %0 = shape_of(%x, dtype="int64");
  {call}
}}
"""
SUM = "%9 = tanh(add(%h, nn.dense(%0, %w)));"
WHOLE = "@loop(0i64, take(%0, 0i64, axis=0), %h, %x, %w)"


def written(step=SUM, call=WHOLE):
    return relay.fromtext(LOOP.format(step=step, call=call))


def run_both(mod, rng, *sizes):
    """The machine computes what the interpreter does."""
    run = relay.create_executor("vm", mod).evaluate()
    debug = relay.create_executor("debug", mod).evaluate()
    for steps, batch in sizes:
        drawn = [rng.standard_normal(s).astype("float32") for s in ((batch, 3), (steps, batch, 3), (3, 3))]
        np.testing.assert_allclose(run(*drawn).numpy(), debug(*drawn).numpy(), rtol=1e-5, atol=1e-6)


def test_the_test_of_a_loop_may_be_written_in_it(rng):
    mod = written()
    run_both(mod, rng, (5, 2), (1, 1), (0, 3))
    assert in_steps(mod) == 0


@pytest.mark.parametrize("call", [
    "@loop(1i64, take(%0, 0i64, axis=0), %h, %x, %w)",
    "@loop(0i64, take(%0, 1i64, axis=0), %h, %x, %w)",
    f"add({WHOLE}, @loop(0i64, 2i64, %h, %x, %w))",
    f"let %f = @loop; let %y = %f(0i64, 2i64, %h, %x, %w); add(%y, {WHOLE})",
])  # fmt: skip
def test_each_call_says_that_all_rows_are_taken(call, rng):
    """A loop that starts later, ends elsewhere, or is called by another with a number of its own takes fewer."""
    mod = written(call=call)
    run_both(mod, rng, (5, 2), (3, 4))
    assert in_steps(mod) is None


def test_what_does_not_change_is_computed_before_the_loop(rng):
    step = "%1 = nn.dense(%w, tanh(%w)); %9 = tanh(add(nn.dense(%h, %1), %0));"
    mod = written(step, "@loop(0i64, 3i64, %h, %x, %w)")
    run_both(mod, rng, (5, 2), (3, 1))
    assert products(mod) == {"loop": 1, "loop_steps": 1, "main": 0}


def test_what_a_branch_of_a_step_computes_is_left_to_it(rng):
    step = "%9 = if (less(%i, 2i64)) { tanh(add(%h, nn.dense(%0, %w))) } else { nn.dense(%h, nn.dense(%w, %w)) };"
    mod = written(step)
    run_both(mod, rng, (5, 2), (1, 1), (0, 3))
    assert in_steps(mod) is None


def test_a_loop_without_steps_computes_and_refuses_nothing(rng):
    """The weight has another number of columns than the rows, which only a step would notice."""
    text = LOOP.replace("Tensor[(3, 3), float32]", "Tensor[(?, ?), float32]")
    mod = relay.fromtext(text.format(step=SUM, call=WHOLE))
    assert in_steps(mod) == 0
    run = relay.create_executor("vm", mod).evaluate()
    h, w = (rng.standard_normal(s).astype("float32") for s in ((2, 3), (3, 4)))
    np.testing.assert_array_equal(run(h, np.zeros((0, 2, 3), "float32"), w).numpy(), h)
    with pytest.raises(tvm.TVMError, match=r"nn\.dense"):
        run(h, np.zeros((1, 2, 3), "float32"), w)


def test_operators_with_effects_run_in_each_step(monkeypatch):
    monkeypatch.setitem(relay.op.get("nn.dense").attrs, "TOpIsStateful", True)
    assert in_steps(written("%9 = add(nn.dense(%w, %w), nn.dense(%0, %w));")) is None


def test_a_loop_is_hoisted_once():
    mod = prepared(written())
    assert [v.name_hint for v in HoistLoops()(mod).functions] == [v.name_hint for v in mod.functions]
