"""Drawing of graphs: in the terminal, for Graphviz, and as pages."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import relay_viz
from tvm.contrib.debugger import debug_executor
from tvm.contrib.relay_viz import dot, interface, terminal
from tvm.contrib.relay_viz.interface import DefaultVizParser, VizEdge, VizNode
from tvm.runtime.profiling import Count, Duration, Report

HOSTILE = '<script>"&\n\\'


class Collected(interface.Plotter, interface.VizGraph):
    """Keeps what it is given."""

    def __init__(self):
        self.names, self.nodes, self.edges = [], [], []

    def create_graph(self, name):
        self.names.append(name)
        return self

    def node(self, viz_node):
        self.nodes.append(viz_node)

    def edge(self, viz_edge):
        self.edges.append((viz_edge.start, viz_edge.end))

    def render(self, filename):
        pass


def collected(mod, params=None, parser=None) -> Collected:
    plotter = Collected()
    relay_viz.RelayVisualizer(mod, params, plotter, parser or DefaultVizParser())
    return plotter


def small_module() -> tvm.IRModule:
    x = relay.var("x", shape=(1, 4), dtype="float32")
    w = relay.var("w", shape=(3, 4), dtype="float32")
    dense = relay.nn.dense(x, w)
    pair = relay.Tuple([dense, relay.nn.relu(dense)])
    return tvm.IRModule.from_expr(relay.Function([x, w], relay.TupleGetItem(pair, 1) + relay.const(1.0)))


def chain(length: int) -> tvm.IRModule:
    x = relay.var("x", shape=(1,))
    y = x
    for _ in range(length):
        y = relay.nn.relu(y)
    return tvm.IRModule.from_expr(relay.Function([x], y))


def boxes(text: str) -> list[str]:
    """The titles of the boxes of a page or picture."""
    tree = ElementTree.fromstring(text)
    space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
    return [group.find(f"{space}text").text for group in tree.iter(f"{space}g")]


# -- parsing -----------------------------------------------------------------------------------------------------------


def test_every_expression_is_a_node_and_every_operand_an_edge():
    found = collected(small_module(), {"w": None})
    titles = {node.identity: node.type_name for node in found.nodes}
    assert sorted(titles.values()) == sorted([
        "Var(Input)", "Var(Param)", "Call nn.dense", "Call nn.relu", "Tuple", "TupleGetItem", "Const", "Call add",
        "Func ",
    ])  # fmt: skip
    assert {(titles[a], titles[b]) for a, b in found.edges} == {
        ("Var(Input)", "Call nn.dense"), ("Var(Param)", "Call nn.dense"), ("Call nn.dense", "Tuple"),
        ("Call nn.dense", "Call nn.relu"), ("Call nn.relu", "Tuple"), ("Tuple", "TupleGetItem"),
        ("TupleGetItem", "Call add"), ("Const", "Call add"), ("Call add", "Func "),
    }  # fmt: skip
    details = {node.type_name: node.detail for node in found.nodes}
    assert details["Var(Input)"] == "name_hint: x\nshape: (1, 4)\ndtype: float32"
    assert details["TupleGetItem"] == "idx: 1"
    assert details["Const"] == "shape: (), dtype: float32" and "units: None" in details["Call nn.dense"]


def test_let_if_references_functions_and_unused_parameters_are_drawn():
    x, y, unused = relay.var("x", shape=()), relay.var("y", shape=()), relay.var("unused", shape=(tvm.tir.Any(), 2))
    inner = relay.Function([y], y, attrs=None).with_attr("Composite", "own.kind")
    body = relay.Let(y, relay.If(relay.const(True), x, inner(x)), relay.RefRead(relay.RefCreate(y)))
    found = collected(tvm.IRModule.from_expr(relay.Function([x, unused], body)))
    titles = [node.type_name for node in found.nodes]
    for wanted in ("Let", "If", "RefRead", "RefCreate", "Call own.kind", "Func own.kind", "Func "):
        assert wanted in titles
    assert any(node.detail.startswith("name_hint: unused\nshape: (?, 2)") for node in found.nodes)
    known = {node.identity for node in found.nodes}
    assert all(a in known and b in known for a, b in found.edges)


def test_main_comes_first_and_functions_of_other_languages_are_one_node():
    n = tvm.te.placeholder((4,), name="n")
    prim = tvm.te.create_prim_func([n, tvm.te.compute((4,), lambda i: n[i] + 1)])
    mod = tvm.IRModule({"first": prim, "main": small_module()["main"]})
    found = collected(mod)
    assert found.names == ["main", "first"] and found.nodes[-1].type_name == "PrimFunc"


# -- the terminal ------------------------------------------------------------------------------------------------------


def test_the_terminal_shows_results_first_and_shared_values_once(capsys):
    relay_viz.RelayVisualizer(small_module()).render()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "@main" and re.match(r"%\d+ Func$", lines[1]) and re.match(r"`--%\d+ Call add$", lines[2])
    assert sum("Call nn.dense" in line for line in lines) == 2
    assert sum("Call nn.dense" in line and line.endswith("(above)") for line in lines) == 1


def test_the_text_of_a_deep_graph_grows_with_its_length(tmp_path):
    sizes = []
    for length in (1000, 2000):
        path = tmp_path / f"{length}.txt"
        relay_viz.RelayVisualizer(chain(length)).render(str(path))
        text = path.read_text()
        assert text.count("Call nn.relu") == length
        sizes.append(len(text))
    assert sizes[1] < 2.2 * sizes[0]


def test_graph_plotter_and_parser_can_be_replaced_by_derived_ones(capsys):
    class Parser(interface.VizParser):
        def get_node_edges(self, node, relay_param, node_to_id):
            if isinstance(node, relay.Var):
                return VizNode(node_to_id[node], "Mine", f"name_hint {node.name_hint}"), []
            return terminal.TermVizParser().get_node_edges(node, relay_param, node_to_id)

    class Graph(terminal.TermGraph):
        def node(self, viz_node):
            super().node(viz_node)
            if viz_node.type_name == "Mine":
                super().node(VizNode(f"twin_{viz_node.identity}", "Twin", ""))
                super().edge(VizEdge(f"twin_{viz_node.identity}", viz_node.identity))

    class Plotter(terminal.TermPlotter):
        def create_graph(self, name):
            self._name_to_graph[name] = Graph(name)
            return self._name_to_graph[name]

    relay_viz.RelayVisualizer(small_module(), {}, Plotter(), Parser()).render()
    out = capsys.readouterr().out
    assert out.count("Mine") == 2 and out.count("Twin") == 2


def test_a_cycle_of_somebody_elses_graph_is_printed():
    graph = terminal.TermGraph("g")
    graph.edge(VizEdge("a", "b"))
    graph.edge(VizEdge("b", "a"))
    assert graph.render().splitlines() == ["@g", "%b", "`--%a", "   `--%b (above)"]


# -- Graphviz ----------------------------------------------------------------------------------------------------------


def test_without_graphviz_dot_text_and_a_picture_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(dot.shutil, "which", lambda name: None)
    plotter = relay_viz.DotPlotter(
        {"color": "red"}, {"color": "blue"}, {"color": "black"}, lambda node: {"shape": "box", "tip": HOSTILE}
    )
    viz = relay_viz.RelayVisualizer(small_module(), {"w": None}, plotter, relay_viz.DotVizParser())
    viz.render(str(tmp_path / "hello"))
    text, found = (tmp_path / "hello").read_text(), collected(small_module(), {"w": None})
    assert "subgraph cluster_main {" in text and "graph [color=red]" in text and "node [color=blue]" in text
    assert text.count("[label=") == len(found.nodes) and text.count(" -> ") == len(found.edges)
    assert 'tip="<script>\\"&\\n\\\\"' in text
    drawn = boxes((tmp_path / "hello.svg").read_text())
    assert sorted(drawn) == sorted(node.type_name.strip() for node in found.nodes)


def test_formats_that_need_graphviz_say_so_and_unknown_options_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(dot.shutil, "which", lambda name: None)
    for options in ({"format": "png"}, {"engine": "neato"}):
        viz = relay_viz.RelayVisualizer(
            small_module(), None, relay_viz.DotPlotter(render_kwargs=options), relay_viz.DotVizParser()
        )
        with pytest.raises(RuntimeError, match="'(png|neato)' needs Graphviz"):
            viz.render(str(tmp_path / "x"))
    with pytest.raises(ValueError, match="unsupported key 'view' in render_kwargs"):
        relay_viz.DotPlotter(render_kwargs={"view": True})


def test_text_alone_goes_into_the_folder_that_is_named(tmp_path):
    options = {"format": "gv", "directory": str(tmp_path / "new"), "filename": "model"}
    relay_viz.RelayVisualizer(
        small_module(), None, relay_viz.DotPlotter(render_kwargs=options), relay_viz.DotVizParser()
    ).render()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.gv"]


def test_with_graphviz_its_program_draws_and_the_text_is_removed(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(dot.shutil, "which", lambda name: f"bin/{name}")
    monkeypatch.setattr(dot.subprocess, "run", lambda command, check: ran.append(command))
    relay_viz.RelayVisualizer(small_module(), None, relay_viz.DotPlotter(), relay_viz.DotVizParser()).render(
        str(tmp_path / "x")
    )
    assert ran == [["bin/dot", "-Tpdf", "-o", str(tmp_path / "x.pdf"), str(tmp_path / "x")]]
    assert not (tmp_path / "x").exists()


# -- pages -------------------------------------------------------------------------------------------------------------


def test_a_page_and_a_picture_show_every_node_whatever_its_name(tmp_path):
    x = relay.var(HOSTILE, shape=(1,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    for name in ("a.html", "b.html", "a.svg"):
        viz = relay_viz.RelayVisualizer(mod, {}, relay_viz.PagePlotter(HOSTILE), DefaultVizParser())
        viz.render(str(tmp_path / name))
    text = (tmp_path / "a.html").read_text()
    assert boxes(text) == boxes((tmp_path / "a.svg").read_text()) == ["Var(Input)", "Call nn.relu", "Func"]
    assert "<script" not in text and not re.search(r"https?:|@import|url\(", text)
    assert text == (tmp_path / "b.html").read_text(), "the same graph makes the same page"


def test_a_picture_of_two_functions_is_refused(tmp_path):
    mod = tvm.IRModule({"main": small_module()["main"], "other": small_module()["main"]})
    viz = relay_viz.RelayVisualizer(mod, {}, relay_viz.PagePlotter(), DefaultVizParser())
    with pytest.raises(ValueError, match="a picture shows one function, but the module has 2"):
        viz.render(str(tmp_path / "x.svg"))


@pytest.fixture(scope="module")
def compiled():
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.var("w", shape=(4, 3, 3, 3))
    conv = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(relay.nn.batch_flatten(conv))))
    params = {"w": np.ones((4, 3, 3, 3), "float32")}
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    module = debug_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu(0))
    module.set_input(**lib.get_params())
    return mod, params, lib, module.profile(rounds=1)


def test_modules_before_and_after_passes_and_kernels_stand_side_by_side(compiled, tmp_path):
    mod, params, lib, profile = compiled
    fused = relay.transform.FuseOps(2)(relay.transform.InferType()(mod))
    relay_viz.write_page(str(tmp_path / "p.html"), {"before": mod, "after <pass>": fused}, params, lib, profile)
    text = (tmp_path / "p.html").read_text()
    tree = ElementTree.fromstring(text)
    sections = tree.findall(".//section")
    assert [section.find("h2").text for section in sections] == ["before", "after <pass>", "kernels"]
    before, after, kernels = ([g.find("text").text for g in s.iter("g")] for s in sections)
    assert before[:3] == ["Var(Input)", "nn.conv2d", "nn.relu"] and "nn.conv2d + nn.relu" in after
    assert len(kernels) == len(relay_viz.kernel_graph(lib)[0])
    for call in profile.calls:
        assert f"{call['Duration (us)'].value:.1f} us" in text


def test_weights_are_drawn_on_demand(compiled):
    mod, params, lib, _ = compiled
    assert "Var(Param)" not in boxes(relay_viz.page_text(mod, params))
    assert "Var(Param)" in boxes(relay_viz.page_text(mod, params, weights=True))
    joined = relay.concatenate([relay.var("w", shape=(2,)), relay.const(np.ones(2, "float32"))], 0)
    assert boxes(relay_viz.page_text(tvm.IRModule.from_expr(joined), params)) == ["Tuple", "concatenate", "Func"]
    assert len(relay_viz.kernel_graph(lib, weights=True)[0]) > len(relay_viz.kernel_graph(lib)[0])


def test_a_profile_of_another_model_is_refused(compiled):
    _, _, lib, profile = compiled
    other = Report(profile.calls[1:], {})
    with pytest.raises(ValueError, match="the profile is of another model"):
        relay_viz.kernel_graph(lib, other)
    with pytest.raises(ValueError, match="pass it as lib"):
        relay_viz.page_text(small_module(), profile=profile)


def graph_of(count: int) -> str:
    """The JSON of a compiled model with so many kernels, each reading the two before it."""
    import json

    nodes = [{"op": "null", "name": "data", "inputs": []}]
    for i in range(count):
        attrs = {
            "func_name": f"tvmgen_default_fused_nn_contrib_conv2d_NCHWc_add_nn_relu_{i}",
            "hash": "0" * 16,
            "num_inputs": "2",
            "num_outputs": "1",
            "flatten_data": "0",
            "source": f"layer{i}/conv",
        }
        nodes.append(
            {
                "op": "tvm_op",
                "name": attrs["func_name"],
                "attrs": attrs,
                "inputs": [[max(i - k, 0), 0, 0] for k in range(2)],
            }
        )
    shapes = [[1, 64, 56, 56]] * (count + 1)
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[count, 0, 0]],
            "node_row_ptr": [*range(count + 2)],
            "attrs": {
                "shape": ["list_shape", shapes],
                "dltype": ["list_str", ["float32"] * (count + 1)],
                "storage_id": ["list_int", [*range(count + 1)]],
            },
        }
    )


def test_a_page_of_200_kernels_is_small():
    text = graph_of(200)
    names = re.findall(r'"func_name": "(\w+)"', text)
    profile = Report([{"Name": n, "Duration (us)": Duration(10.0), "Count": Count(1)} for n in names], {})
    page = relay_viz.page_text(None, lib=text, profile=profile)
    assert len(page.encode()) < 300_000 and len(boxes(page)) == 201


def test_deep_and_wide_graphs_are_drawn(tmp_path):
    wide = relay.Tuple([relay.nn.relu(relay.var(f"x{i}", shape=(1,))) for i in range(1000)])
    for mod in (chain(3000), tvm.IRModule.from_expr(wide)):
        assert len(boxes(relay_viz.page_text(mod))) > 2000
