"""Models that ask for too much, or whose graphs are not as they should be: refused in words, and at once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import graph_model, onnxruntime_results

from tvm.contrib import onnx_backend
from tvm.error import OpAttributeInvalid, TVMError
from tvm.relay.frontend import from_onnx

F, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OWN = helper.make_opsetid("own", 1)
STANDARD = helper.make_opsetid("", 17)


def info(name, shape=(2,), kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def calling(functions):
    """A model that calls F0 of (name, the functions it calls)."""
    made = []
    for name, called in functions:
        steps = ["a", *(f"t{i}" for i in range(len(called)))]
        body = [helper.make_node(f, [steps[i]], [steps[i + 1]], domain="own") for i, f in enumerate(called)]
        body.append(helper.make_node("Neg", [steps[-1]], ["z"]))
        made.append(helper.make_function("own", name, ["a"], ["z"], body, [STANDARD, OWN]))
    node = helper.make_node("F0", ["x"], ["y"], domain="own")
    graph = helper.make_graph([node], "g", [info("x")], [info("y")])
    return helper.make_model(graph, opset_imports=[STANDARD, OWN], functions=made)


def test_functions_that_double_forty_times_are_refused_without_being_written_out():
    laughs = [(f"F{i}", [f"F{i + 1}"] * 2) for i in range(40)] + [("F40", [])]
    with pytest.raises(TVMError, match="more than 131072 nodes after its function calls are inlined"):
        from_onnx(calling(laughs))


def test_functions_that_call_many_others_once_are_converted():
    chain = [(f"F{i}", [f"F{i + 1}"]) for i in range(30)] + [("F30", [])]
    x = np.array([1, -2], "float32")
    np.testing.assert_array_equal(onnx_backend.run_model(calling(chain), [x])[0], -x)


@pytest.mark.parametrize("functions", [[("F0", ["F0"])], [("F0", ["F1"]), ("F1", ["F2"]), ("F2", ["F1"])]])
def test_functions_that_call_themselves_are_refused(functions):
    with pytest.raises(TVMError, match=r"function F\d is recursive"):
        from_onnx(calling(functions))


def test_loops_inside_loops_are_bounded(monkeypatch):
    def looped(inner, name):
        sides = [info("i" + name, (), I64), info("c" + name, (), BOOL)]
        nodes = [helper.make_node("Identity", ["c" + name], ["d" + name]), *inner]
        return helper.make_graph(nodes, name, sides, [info("d" + name, (), BOOL)])

    inner = [helper.make_node("Loop", ["n", ""], [], body=looped([], "b"))]
    outer = helper.make_node("Loop", ["n", ""], [], body=looped(inner, "a"))
    end = helper.make_node("Neg", ["x"], ["y"])
    monkeypatch.setattr("tvm.relay.frontend.onnx.reader.MOST_NODES", 1000)
    with pytest.raises(TVMError, match="loops have more than 1000 nodes"):
        from_onnx(graph_model([outer, end], [info("x")], [info("y")], {"n": np.array(4000)}))


def test_nodes_written_in_any_order_are_sorted(rng):
    inner = helper.make_graph([helper.make_node("Add", ["b", "x"], ["s"])], "then", [], [info("s")])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["t"])], "else", [], [info("t")])
    nodes = [
        helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=other),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Neg", ["x"], ["a"]),
    ]
    model = graph_model(nodes, [info("x")], [info("y")], {"yes": np.array(True)})
    x = rng.standard_normal(2).astype("float32")
    np.testing.assert_allclose(onnx_backend.run_model(model, [x])[0], np.maximum(-x, 0) + x)


def test_a_circle_and_a_name_made_twice_are_refused():
    circle = [helper.make_node("Neg", ["b"], ["y"], "one"), helper.make_node("Relu", ["y"], ["b"], "two")]
    with pytest.raises(TVMError, match="Neg node 'one' depends on its own output: the graph has a cycle"):
        from_onnx(graph_model(circle, [info("x")], [info("y")]))
    twice = [helper.make_node("Neg", ["x"], ["y"], "one"), helper.make_node("Relu", ["x"], ["y"], "two")]
    with pytest.raises(TVMError, match="'y' is the output of two nodes: Neg node 'one' and Relu node 'two'"):
        from_onnx(graph_model(twice, [info("x")], [info("y")]))


def test_what_nothing_makes_is_named():
    with pytest.raises(TVMError, match="Relu node 'y' uses 'a', which is neither an input"):
        from_onnx(graph_model([helper.make_node("Relu", ["a"], ["y"])], [info("x")], [info("y")]))


@pytest.mark.parametrize(
    ("node", "weights", "words"),
    [
        (helper.make_node("OneHot", ["i", "d", "v"], ["y"]), {"d": 1 << 40, "v": [0.0, 1.0]}, "the depth"),
        (helper.make_node("Range", ["a", "d", "b"], ["y"]), {"a": 0, "d": 10**12, "b": 1}, "the range"),
        (helper.make_node("Range", ["a", "d", "b"], ["y"]), {"a": 0, "d": 4, "b": 0}, "delta must not be 0"),
        (helper.make_node("Range", ["a", "d", "b"], ["y"]), {"a": 0.0, "d": np.inf, "b": 1.0}, "cannot count"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"]), {"s": [1e9]}, "an axis would have 2000000000"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"]), {"s": [np.inf]}, "positive numbers"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"]), {"s": [np.nan]}, "positive numbers"),
        (helper.make_node("Resize", ["x", "", "", "s"], ["y"]), {"s": [-3]}, r"sizes must be positive, got \[-3\]"),
        (helper.make_node("Resize", ["x", "", "", "s"], ["y"]), {"s": [0]}, r"sizes must be positive, got \[0\]"),
        (helper.make_node("Resize", ["x", "", "", "s"], ["y"]), {"s": [1, 2]}, "there are 2 sizes for 1 axes"),
        (helper.make_node("Reshape", ["x", "s"], ["y"]), {"s": [-2]}, r"the shape \[-2\] contains -2"),
        (helper.make_node("Reshape", ["x", "s"], ["y"]), {"s": [1, -4, 1, 2]}, "contains -4"),
        (helper.make_node("Expand", ["x", "s"], ["y"]), {"s": [1 << 40, 1 << 20, 2]}, "exceeds the address space"),
        (helper.make_node("Tile", ["x", "s"], ["y"]), {"s": [1 << 60]}, "exceeds the address space"),
        (helper.make_node("CumSum", ["x", "s"], ["y"]), {"s": 7}, "axis 7 is out of range"),
        (helper.make_node("TopK", ["x", "s"], ["y", "z"]), {"s": [5]}, "k is 5"),
    ],
)
def test_sizes_beyond_reason_are_refused_by_the_node_that_asks_for_them(node, weights, words):
    def array(v):
        kind = "float32" if isinstance(np.ravel(v)[0], (float, np.floating)) else "int64"
        return np.array(v, kind)

    node.name = "here"
    inputs = [info("x"), info("i", (2,), I64)]
    model = graph_model([node], inputs, [info("y", None)], {k: array(v) for k, v in weights.items()})
    with pytest.raises(TVMError, match=words) as caught:
        from_onnx(model)
    assert f"{node.op_type} node 'here'" in str(caught.value)


def test_an_axis_that_is_enormous_is_refused_where_only_the_region_is_known_late():
    node = helper.make_node("Resize", ["x", "region", "scales"], ["y"], mode="linear",
                            coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    inputs = [info("x", (1, 1, 4, 4)), info("region", (8,))]
    model = graph_model([node], inputs, [info("y", None)], {"scales": np.array([1, 1, 1, 4e9], "float32")})
    with pytest.raises(TVMError, match="Resize node 'y': sizes must be at most 268435456"):
        from_onnx(model)


def test_a_sparse_weight_with_enormous_sizes_is_refused():
    values = numpy_helper.from_array(np.ones(1, "float32"), "w")
    places = numpy_helper.from_array(np.zeros(1, "int64"), "p")
    model = graph_model([helper.make_node("Add", ["x", "w"], ["y"])], [info("x")], [info("y")])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [1 << 50]))
    with pytest.raises(TVMError, match="a sparse weight would have"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("operator", "attributes", "words"),
    [
        ("MaxPool", {"kernel_shape": [2], "strides": [-1]}, "strides must be 1 positive integers"),
        ("MaxPool", {"kernel_shape": [0]}, "kernel_shape must be 1 positive integers"),
        ("AveragePool", {"kernel_shape": [2], "dilations": [-3]}, "dilations must be 1 positive integers"),
        ("LpPool", {"kernel_shape": [2, 2]}, "the window has 2 dimensions"),
        ("MaxPool", {"kernel_shape": [2], "pads": [1]}, "pads must have 2 elements"),
        ("LRN", {"size": 10**9}, "a channel window of 1000000000 elements"),
        ("LpPool", {"kernel_shape": [5000], "pads": [4999, 0]}, "a window of 5000 elements"),
        ("Softmax", {"axis": 9}, "axis 9 is out of range"),
    ],
)
def test_windows_and_axes_that_make_no_sense_name_the_node(operator, attributes, words):
    node = helper.make_node(operator, ["x"], ["y"], "here", **attributes)
    with pytest.raises(TVMError, match=words) as caught:
        from_onnx(graph_model([node], [info("x", (1, 2, 8))], [info("y", None)]))
    assert f"{operator} node 'here'" in str(caught.value)


@pytest.mark.parametrize("name", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("attributes", [{"dilations": [-3, 1]}, {"strides": [0, 1]}, {"strides": [1]}])
def test_convolutions_take_positive_steps(name, attributes):
    node = helper.make_node(name, ["x", "w"], ["y"], "here", **attributes)
    weights = {"w": np.ones((1, 1, 2, 2), "float32")}
    with pytest.raises(TVMError, match=f"{name} node 'here': .* must be 2 positive integers"):
        from_onnx(graph_model([node], [info("x", (1, 1, 4, 4))], [info("y", None)], weights))


def test_an_operator_name_that_is_no_text_is_refused(tmp_path):
    text = graph_model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")]).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(text.replace(b"Relu", b"Re\xff\xfe"))
    with pytest.raises(TVMError, match="the op type of a Node is not valid UTF-8"):
        from_onnx(tmp_path / "m.onnx")


def test_branches_nested_as_deep_as_the_format_allows_are_converted_and_deeper_ones_refused(tmp_path):
    def nested(depth, size):
        """The bytes of a model whose branches are nested, field by field: the package refuses to build such ones."""
        vi = info("o0").SerializeToString()
        node = helper.make_node("Identity", ["x"], ["o0"]).SerializeToString()
        for _ in range(depth):
            graph = _field(1, node) + _field(12, vi)
            names = (b"then_branch", b"else_branch")[:size]
            branches = b"".join(_field(5, _field(1, n) + _field(6, graph) + b"\xa0\x01\x05") for n in names)
            node = _field(1, b"c") + _field(2, b"o0") + _field(4, b"If") + branches
        outer = helper.make_graph([], "g", [info("x"), info("c", (), BOOL)], [info("o0")]).SerializeToString()
        return b"\x08\x08" + _field(7, outer + _field(1, node)) + _field(8, STANDARD.SerializeToString())

    path = tmp_path / "m.onnx"
    path.write_bytes(nested(4, 2))
    from_onnx(path)
    path.write_bytes(nested(60, 1))
    with pytest.raises(TVMError, match="nests its graphs too deep"):
        from_onnx(path)


def _field(number: int, content: bytes) -> bytes:
    size, rest = b"", len(content)
    while True:
        size += bytes([rest & 127 | (128 if rest > 127 else 0)])
        rest >>= 7
        if not rest:
            return bytes([number << 3 | 2]) + size + content


def test_regions_as_large_as_one_likes_take_samples_of_the_image_alone(rng):
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=3)
    sides = [info("x", (1, 2, 5, 7)), info("r", (5, 4)), info("b", (5,), I64)]
    x = rng.standard_normal((1, 2, 5, 7)).astype("float32")
    inf = np.inf
    rois = np.array([[0, 0, 1e9, 1e9], [-1e9, -1e9, 1e9, 1e9], [np.nan] * 4, [-inf, -inf, inf, inf], [0, 0, 1e30, 3]])
    model = graph_model([node], sides, [info("y", None)])
    got = onnx_backend.run_model(model, [x, rois.astype("float32"), np.zeros(5, "int64")])
    assert np.abs(got[0]).max() < 1e-3


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_larger_than_the_image_agree_with_onnxruntime(mode, rng):
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=3, mode=mode)
    sides = [info("x", (2, 2, 5, 7)), info("r", (6, 4)), info("b", (6,), I64)]
    rois = np.concatenate([rng.uniform(-90, 5, (6, 2)), rng.uniform(6, 90, (6, 2))], 1).astype("float32")
    arrays = [rng.standard_normal((2, 2, 5, 7)).astype("float32"), rois, rng.integers(0, 2, 6)]
    model = graph_model([node], sides, [info("y", None)])
    (want,) = onnxruntime_results(model, dict(zip("xrb", arrays)))
    np.testing.assert_allclose(onnx_backend.run_model(model, arrays)[0], want, rtol=1e-4, atol=1e-4)


def test_a_converter_that_fails_names_node_and_operator():
    node = helper.make_node("Concat", ["x", "x"], ["y"], "here", axis="front")
    with pytest.raises(TVMError, match="Concat node 'here'"):
        from_onnx(graph_model([node], [info("x")], [info("y", None)]))
    assert issubclass(OpAttributeInvalid, TVMError)


def test_a_value_that_comes_too_late_says_what_to_do():
    node = helper.make_node("DFT", ["x", "s"], ["y"], "here")
    with pytest.raises(TVMError, match="depends on input 's'; make it a constant in the model"):
        from_onnx(graph_model([node], [info("x", (1, 6, 1)), info("s", (), I64)], [info("y", None)]))
    nodes = [helper.make_node("Size", ["x"], ["s"]), node]
    with pytest.raises(TVMError, match="depends on dynamic dimensions; pass the shape of input 'x'"):
        from_onnx(graph_model(nodes, [info("x", (1, "n", 1))], [info("y", None)]))


def test_how_many_dimensions_a_result_has_is_known_when_compiling():
    node = helper.make_node("Reshape", ["x", "s"], ["y"], "here")
    with pytest.raises(TVMError, match="Reshape node 'here': the shape must be a vector with a static number"):
        from_onnx(graph_model([node], [info("x", (6,)), info("s", ("n",), I64)], [info("y", None)]))


def test_a_size_of_zero_in_a_computed_shape_names_the_node():
    """The shape is (size of q, -1); where q is empty, its 0 would keep the size of x, which is another."""
    nodes = [
        helper.make_node("Shape", ["q"], ["rows"], end=1),
        helper.make_node("Concat", ["rows", "rest"], ["s"], axis=0),
        helper.make_node("Reshape", ["x", "s"], ["y"], "here"),
    ]
    inputs = [info("x", ("a", "b")), info("q", ("n", 3))]
    compiled = onnx_backend.prepare(graph_model(nodes, inputs, [info("y", None)], {"rest": np.array([-1])}))
    x = np.arange(8, dtype="float32").reshape(2, 4)
    (got,) = compiled.run([x, np.ones((4, 3), "float32")])
    np.testing.assert_array_equal(got, x.reshape(4, 2))
    with pytest.raises(TVMError, match=r"\(reshape_like of 'here'\), size 0: .* does not hold for the sizes given"):
        compiled.run([x, np.ones((0, 3), "float32")])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_of_the_run_that_are_too_large_are_rejected_before_anything_is_allocated(mode):
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], "here", mode=mode)
    inputs = [helper.make_tensor_value_info("x", 1, [1, 1, 4, 4]), helper.make_tensor_value_info("s", 7, [4])]
    compiled = onnx_backend.prepare(graph_model([node], inputs, [helper.make_tensor_value_info("y", 1, None)]))
    for sizes in ([1, 1, 1 << 31, 1 << 31], [1, 1, 1 << 28, 1 << 28], [1 << 40, 1, 2, 2]):
        with pytest.raises(TVMError, match="Resize node 'here': sizes must be at most 268435456, and the output must"):
            compiled.run([np.ones((1, 1, 4, 4), "float32"), np.array(sizes)])


def padding(mode, pads, rows):
    node = helper.make_node("Pad", ["x", "p"], ["y"], "here", mode=mode)
    inputs = [info("x", (rows, 4))] + ([info("p", (4,), I64)] if pads is None else [])
    return graph_model([node], inputs, [info("y", None)], {} if pads is None else {"p": np.array(pads)}, opset=19)


@pytest.mark.parametrize("rows", [3, "n"])
def test_padding_that_cuts_more_than_there_is_leaves_the_value(rows, rng):
    x = rng.standard_normal((3, 4)).astype("float32")
    for pads in ([6, 0, -5, 0], [-4, 0, 2, 0], [-2, 0, -1, 0]):
        model = padding("constant", pads, rows)
        (got,), (want,) = onnx_backend.run_model(model, [x]), onnxruntime_results(model, {"x": x})
        np.testing.assert_array_equal(got, want, strict=True)


CUTTING = [("constant", [-3, 0, -1, 0]), ("edge", [-5, 0, 6, 0]), ("wrap", [-3, 0, 0, 0])]


@pytest.mark.parametrize(("mode", "pads"), CUTTING)
def test_padding_that_cuts_more_than_it_may_is_rejected(mode, pads):
    with pytest.raises(TVMError, match=r"Pad node 'here': negative pads remove [345] elements of axis 0, which has"):
        from_onnx(padding(mode, pads, 3))
    for constant in (pads, None):
        compiled = onnx_backend.prepare(padding(mode, constant, "n"))
        feed = [np.ones((3, 4), "float32"), *([np.array(pads)] if constant is None else [])]
        words = "must not be negative|must not exceed|Pad node 'here': the negative padding removes"
        with pytest.raises(TVMError, match=words):
            compiled.run(feed)
