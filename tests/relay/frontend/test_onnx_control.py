"""Branches, loops and scans whose course is known only when the model runs, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from onnx import TensorProto, helper
from random_control import random_model
from small_models import graph_model

from tvm.error import TVMError
from tvm.relay.frontend import from_onnx

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def body_of(nodes, states, results, name="body"):
    """The body of a loop: its carried values with their shapes, and the names of what it gives, the condition first."""
    head = [info("i", I, []), info("c", B, [])]
    outputs = [info(results[0], B, []), *(info(r) for r in results[1:])]
    return helper.make_graph(nodes, name, [*head, *(info(n, F, s) for n, s in states)], outputs)


def branch(nodes, outputs, name):
    return helper.make_graph(nodes, name, [], [info(o) for o in outputs])


# -- branches -----------------------------------------------------------------------------------------------------


def test_branches_of_different_sizes_are_chosen_when_the_model_runs(rng):
    yes = branch([node("Concat", ["x", "x"], ["a"], axis=0), node("Neg", ["x"], ["p"])], ["a", "p"], "yes")
    no = branch([node("Abs", ["x"], ["b"]), node("Identity", ["x"], ["q"])], ["b", "q"], "no")
    nodes = [
        node("If", ["c"], ["r", "s"], then_branch=yes, else_branch=no),
        node("Exp", ["r"], ["y"]),
        node("ReduceSum", ["r"], ["t"]),
        node("Mul", ["s", "t"], ["z"]),
    ]
    model = graph_model(nodes, [info("c", B, []), info("x", F, [3, 2])], [info("y"), info("z")])
    machine = Machine(model)
    for c in (True, False):
        machine.check(c=np.array(c), x=rng.standard_normal((3, 2)).astype("float32"), rtol=1e-4)


def test_a_condition_may_be_a_vector_of_one_element_and_a_branch_may_give_an_outer_value(rng):
    yes, no = branch([], ["x"], "yes"), branch([node("Neg", ["x"], ["b"])], ["b"], "no")
    model = graph_model(
        [node("If", ["c"], ["y"], then_branch=yes, else_branch=no)],
        [info("c", B, [1]), info("x", F, [3])],
        [info("y")],
    )
    x = rng.standard_normal(3).astype("float32")
    machine = Machine(model)
    np.testing.assert_array_equal(machine(c=np.array([True]), x=x)[0], x)
    np.testing.assert_array_equal(machine(c=np.array([False]), x=x)[0], -x)


def test_a_tensor_whose_rank_a_condition_decides_is_computed_with_for_each_rank(rng):
    """As exporters write a squeeze of an axis that may have one element."""
    yes = branch([node("Squeeze", ["x", "one"], ["a"])], ["a"], "yes")
    no = branch([node("Identity", ["x"], ["b"])], ["b"], "no")
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "one"], ["size"]),
        node("Equal", ["size", "one"], ["c"]),
        node("If", ["c"], ["r"], then_branch=yes, else_branch=no),
        node("Neg", ["r"], ["n"]),
        node("ReduceSum", ["n"], ["y"], keepdims=0),
    ]
    model = graph_model(nodes, [info("x", F, [2, "n", 3])], [info("y", F, [])], {"one": np.array([1])})
    machine = Machine(model)
    for n in (1, 4):
        machine.check(x=rng.standard_normal((2, n, 3)).astype("float32"))


def test_a_rank_that_the_model_does_not_declare_ends_the_run(rng):
    yes = branch([node("Squeeze", ["x", "one"], ["a"])], ["a"], "yes")
    no = branch([node("Identity", ["x"], ["b"])], ["b"], "no")
    choice = node("If", ["c"], ["y"], then_branch=yes, else_branch=no)
    model = graph_model([choice], [info("c", B, []), info("x", F, [2, 1])], [info("y", F, [2])], {"one": np.array([1])})
    machine = Machine(model)
    x = rng.standard_normal((2, 1)).astype("float32")
    np.testing.assert_array_equal(machine(c=np.array(True), x=x)[0], x[:, 0])
    with pytest.raises(TVMError, match="function 'output__y__cannot_take_the_rank"):
        machine(c=np.array(False), x=x)
    model.graph.output[0].CopyFrom(info("y"))
    with pytest.raises(TVMError, match="output 'y': its number of dimensions is known only at run time"):
        from_onnx(model)


def test_a_squeeze_without_axes_drops_the_dynamic_dimensions_of_one_element(rng):
    squeeze = node("Squeeze", ["x"], ["s"])
    model = graph_model(
        [squeeze, node("Slice", ["s", "zero", "two"], ["t"]), node("ReduceSum", ["t"], ["y"], keepdims=0)],
        [info("x", F, ["n", 4])],
        [info("y", F, [])],
        {"zero": np.array([0]), "two": np.array([2])},
    )
    machine = Machine(model)
    for n in (1, 3):
        machine.check(x=rng.standard_normal((n, 4)).astype("float32"))


def test_each_dynamic_dimension_may_be_one_that_a_squeeze_drops(rng):
    nodes = [node("Squeeze", ["x"], ["s"]), node("Shape", ["s"], ["y"])]
    model = graph_model(nodes, [info("x", F, ["n", 1, "m"])], [info("y", I)])
    machine = Machine(model)
    for shape, want in (((1, 1, 1), []), ((2, 1, 3), [2, 3]), ((1, 1, 2), [2]), ((0, 1, 1), [0])):
        assert machine.check(x=np.zeros(shape, "float32"))[0].tolist() == want


@pytest.mark.parametrize(
    "shape, words",
    [
        (["n", 4], "output 'y': its number of dimensions is known only at run time"),
        (["a", "b", "c", "d"], "without axes, 4 dynamic dimensions determine the rank of the output"),
    ],
)
def test_a_squeeze_whose_rank_cannot_be_compiled_is_rejected(shape, words):
    model = graph_model([node("Squeeze", ["x"], ["y"])], [info("x", F, shape)], [info("y")])
    with pytest.raises(TVMError, match=words):
        from_onnx(model)


# -- loops --------------------------------------------------------------------------------------------------------


def steps_model(weight):
    nodes = [
        node("MatMul", ["h", "w"], ["m"]),
        node("Tanh", ["m"], ["h2"]),
        node("Add", ["h2", "x"], ["row"]),
        node("ReduceSum", ["h2"], ["sum"], keepdims=0),
        node("Less", ["sum", "limit"], ["go"]),
    ]
    loop = node("Loop", ["n", "go0", "x"], ["last", "rows"], body=body_of(nodes, [("h", [2, 3])], ["go", "h2", "row"]))
    inputs = [info("n", I, []), info("go0", B, []), info("limit", F, []), info("x", F, [2, 3])]
    return graph_model([loop], inputs, [info("last"), info("rows")], {"w": weight})


def test_a_loop_takes_as_many_steps_as_the_run_says(rng):
    """Also none, and a huge number that the condition ends."""
    machine = Machine(steps_model((rng.standard_normal((3, 3)) / 4).astype("float32")))
    x = rng.random((2, 3)).astype("float32")
    for n, go, limit in [(0, True, 99), (-5, True, 99), (3, False, 99), (1, True, 99), (6, True, 99), (70, True, 99),
                         (np.iinfo("int64").max, True, -99)]:  # fmt: skip
        got = machine.check(n=np.array(n), go0=np.array(go), limit=np.array(limit, "float32"), x=x)
        assert got[1].shape == (1 if limit < 0 else max(n, 0) if go else 0, 2, 3)


def test_what_a_loop_carries_may_grow_and_its_rows_may_be_many(rng):
    nodes = [node("Concat", ["h", "x"], ["h2"], axis=0), node("ReduceMax", ["h2"], ["row"], keepdims=0)]
    loop = node("Loop", ["n", "", "x"], ["last", "rows"], body=body_of(nodes, [("h", [None])], ["c", "h2", "row"]))
    model = graph_model([loop], [info("n", I, []), info("x", F, [2])], [info("last"), info("rows")])
    machine = Machine(model)
    for n in (0, 1, 5, 33):
        machine.check(n=np.array(n), x=rng.standard_normal(2).astype("float32"))


def test_a_loop_that_only_its_condition_ends(rng):
    highest = node("ReduceMax", ["h2"], ["m"], keepdims=0)
    nodes = [node("Add", ["h", "h"], ["h2"]), highest, node("Less", ["m", "k"], ["go"])]
    loop = node("Loop", ["", "", "x"], ["y", "rows"], body=body_of(nodes, [("h", [3])], ["go", "h2", "m"]))
    model = graph_model([loop], [info("x", F, [3])], [info("y"), info("rows")], {"k": np.float32(1000)})
    Machine(model).check(x=(rng.random(3) + 0.5).astype("float32"))


def nested_model():
    """The inner loop takes as many steps as the outer one has taken; its names hide those around it."""
    inner = [node("Add", ["h", "k"], ["h2"]), node("Cast", ["i"], ["f"], to=F), node("Mul", ["h2", "f"], ["r"])]
    nodes = [
        node("Mul", ["h", "x"], ["k"]),
        node("Loop", ["i", "", "x"], ["s", "rows"], body=body_of(inner, [("h", [2])], ["c", "h2", "r"], "inner")),
        node("ReduceSum", ["rows", "axes"], ["t"], keepdims=0),
        node("Add", ["s", "t"], ["h2"]),
    ]
    loop = node("Loop", ["n", "", "x"], ["y", "z"], body=body_of(nodes, [("h", [2])], ["c", "h2", "t"]))
    return graph_model([loop], [info("n", I, []), info("x", F, [2])], [info("y"), info("z")], {"axes": np.array([0])})


def test_loops_inside_loops_see_the_values_around_them(rng):
    machine = Machine(nested_model())
    for n in (0, 1, 4):
        x = rng.standard_normal(2).astype("float32")
        k, y, rows = None, x, []
        for i in range(n):
            k, s, t = y * x, x, np.zeros(2, "float32")
            for j in range(i):
                s = s + k
                t = t + s * j
            y = s + t
            rows.append(t)
        got = machine(n=np.array(n), x=x)
        np.testing.assert_allclose(got[0], y, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[1], np.array(rows, "float32").reshape(n, 2), rtol=1e-4, atol=1e-5)


def test_a_loop_of_a_run_time_count_is_one_function():
    module, _ = from_onnx(steps_model(np.eye(3, dtype="float32")))
    assert [v.name_hint for v in module.functions if v.name_hint.startswith("loop")] == ["loop_last_0"]


def test_a_constant_loop_without_steps_gives_rows_of_the_right_shape(rng):
    nodes = [node("Add", ["h", "x"], ["h2"]), node("Concat", ["h2", "h2"], ["row"], axis=0)]
    loop = node("Loop", ["n", "", "x"], ["y", "rows"], body=body_of(nodes, [("h", [2])], ["c", "h2", "row"]))
    model = graph_model([loop], [info("x", F, [2])], [info("y"), info("rows")], {"n": np.array(0)})
    assert Machine(model).check(x=rng.standard_normal(2).astype("float32"))[1].shape == (0, 4)


def test_weights_that_are_parameters_are_seen_inside_a_loop(rng):
    weight = rng.standard_normal((3, 3)).astype("float32")
    machine = Machine(steps_model(weight), freeze_params=False)
    x = rng.random((2, 3)).astype("float32")
    machine.check(n=np.array(3), go0=np.array(True), limit=np.array(99, "float32"), x=x)


# -- scans --------------------------------------------------------------------------------------------------------


def scan_of_two(first, second):
    body = helper.make_graph([node("Add", ["a", "b"], ["r"])], "body", [info(n, F, [2]) for n in "ab"], [info("r")])
    scan = node("Scan", ["x", "z"], ["y"], body=body, num_scan_inputs=2)
    return graph_model([scan], [info("x", F, [first, 2]), info("z", F, [second, 2])], [info("y")])


@pytest.mark.parametrize(("first", "second"), [("n", "m"), ("n", 3)])
def test_scanned_inputs_of_different_lengths_end_the_run(first, second, rng):
    machine = Machine(scan_of_two(first, second))
    x = rng.standard_normal((3, 2)).astype("float32")
    machine.check(x=x, z=x + 1)
    short = x[:2]
    feed = {"x": x, "z": short} if isinstance(second, str) else {"x": short, "z": x}
    with pytest.raises(TVMError, match="the length of scan input [01] differs from the length of scan input [01]"):
        machine(**feed)


def test_scanned_inputs_of_different_known_lengths_are_rejected():
    with pytest.raises(TVMError, match="the scan inputs have different lengths: 3, 4"):
        from_onnx(scan_of_two(3, 4))


@pytest.mark.parametrize(("backward", "axes", "reverse"), [([0, 1], [1, 0], [1, 0]), ([1, 0], [0, -1], [0, 1])])
def test_scans_of_an_unknown_length_go_along_any_axis_in_both_directions(backward, axes, reverse, rng):
    nodes = [node("Add", ["s", "a"], ["s2"]), node("Mul", ["s2", "b"], ["r"]), node("Sub", ["t", "b"], ["t2"]),
             node("Neg", ["b"], ["b2"])]  # fmt: skip
    inputs = [info(n, F, [3]) for n in ("s", "t", "a", "b")]
    body = helper.make_graph(nodes, "body", inputs, [info(n, F, [3]) for n in ("s2", "t2", "r", "b2")])
    scan = node("Scan", ["s0", "t0", "p", "q"], ["sl", "tl", "u", "v"], body=body, num_scan_inputs=2,
                scan_input_axes=[0, -1], scan_input_directions=backward, scan_output_axes=axes,
                scan_output_directions=reverse)  # fmt: skip
    inputs = [info("s0", F, [3]), info("t0", F, [3]), info("p", F, ["T", 3]), info("q", F, [3, "T"])]
    machine = Machine(graph_model([scan], inputs, [info(n) for n in ("sl", "tl", "u", "v")]))
    for n in (1, 6):
        p, q = rng.standard_normal((n, 3)).astype("float32"), rng.standard_normal((3, n)).astype("float32")
        machine.check(s0=p[0], t0=q[:, 0].copy(), p=p, q=q)


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "shape", "words"),
    [
        ([node("Unsqueeze", ["h", "axes"], ["h2"])], [2], r"Loop node 'y': a value is float32 of shape \(2\) or"),
        ([node("Cast", ["h"], ["h2"], to=I)], [2], "Loop node 'y': a value is float32 of .* or int64"),
        ([node("MatMul", ["h", "h"], ["h2"])], [2, 3], "Loop node 'y': MatMul node 'h2'"),
    ],
)
def test_a_body_that_cannot_be_repeated_is_refused_with_its_name(nodes, shape, words):
    loop = node("Loop", ["n", "", "x"], ["y"], body=body_of(nodes, [("h", shape)], ["c", "h2"]))
    model = graph_model([loop], [info("n", I, []), info("x", F, shape)], [info("y")], {"axes": np.array([0])})
    with pytest.raises(TVMError, match=words):
        from_onnx(model)


# -- random programs ----------------------------------------------------------------------------------------------


def test_a_random_program_of_branches_and_loops_computes_what_onnxruntime_does(rng):
    machine = Machine(random_model(rng))
    for n in (0, 1, 4):
        x, y = (rng.random((2, 3)) * 2 - 1).astype("float32")
        machine.check(x=x, y=y, n=np.array(n), c=np.array(bool(n % 2)), rtol=1e-3, atol=1e-4)
