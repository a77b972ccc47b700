"""Layouts and pictures of graphs: every part is there, nothing overlaps, deep and wide graphs take linear time."""

from __future__ import annotations

import itertools
import random
import xml.etree.ElementTree as ElementTree

import pytest

from tvm.drawing.graph import Edge, Node, draw_graph
from tvm.drawing.layout import layered
from tvm.drawing.svg import shorten


def boxes(sizes, layout):
    return [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (w, h), (x, y) in zip(sizes, layout.centers)]


def check(sizes, edges):
    """No two boxes overlap, all lie in the picture, and every edge joins its nodes."""
    layout = layered(sizes, edges)
    placed = boxes(sizes, layout)
    for a, b in itertools.combinations(placed, 2):
        assert a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6 or a[3] <= b[1] + 1e-6 or b[3] <= a[1] + 1e-6
    for x1, y1, x2, y2 in placed:
        assert 0 <= x1 and 0 <= y1 and x2 <= layout.width and y2 <= layout.height
    assert len(layout.routes) == len(edges)
    for (a, b), route in zip(edges, layout.routes):
        assert len(route) % 2 == 0 and route[0][0] == layout.centers[a][0] and route[-1][0] == layout.centers[b][0]
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in route)
    return layout


def test_random_graphs_have_places_for_all_their_parts(seed):
    rng = random.Random(seed)
    for _ in range(30):
        n = rng.randint(1, 40)
        sizes = [(rng.uniform(5, 200), rng.uniform(5, 60)) for _ in range(n)]
        forward = [tuple(sorted(rng.sample(range(n), 2))) for _ in range(rng.randint(0, 3 * n))] if n > 1 else []
        layout = check(sizes, forward)
        for a, b in forward:
            assert layout.centers[a][1] < layout.centers[b][1], "edges go down"
        check(sizes, [(rng.randrange(n), rng.randrange(n)) for _ in range(2 * n)])  # cycles too


def test_a_chain_is_straight_and_a_parameter_stands_above_what_reads_it():
    # 0 -> 1 -> 2 -> 3, and 4 is read by 3 alone.
    layout = check([(50, 20)] * 5, [(0, 1), (1, 2), (2, 3), (4, 3)])
    assert layout.centers[0][0] == pytest.approx(layout.centers[1][0], abs=1)
    assert layout.centers[4][1] == layout.centers[2][1]


def test_an_edge_over_layers_keeps_clear_of_their_boxes():
    sizes = [(60, 20)] * 5
    layout = check(sizes, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    route = layout.routes[4]
    assert len(route) == 10
    for x, y in route[1:-1]:
        assert not any(x1 < x < x2 and y1 < y < y2 for x1, y1, x2, y2 in boxes(sizes, layout))


def test_no_nodes_make_an_empty_layout():
    assert layered([], []).centers == []
    ElementTree.fromstring(draw_graph("nothing", [], []).svg())


@pytest.mark.parametrize("edges", [
    [(i, i + 1) for i in range(1999)],
    [(i, 1999) for i in range(1999)],
    [(0, i) for i in range(1, 2000)],
    [(i, j) for i in range(2000) for j in (i + 1, 1999) if i < j < 2000],
], ids=["deep", "many to one", "one to many", "an edge from each layer to the last"])  # fmt: skip
def test_deep_and_wide_graphs_have_few_more_points_than_parts(edges):
    layout = layered([(10, 10)] * 2000, edges)
    assert sum(map(len, layout.routes)) < 30 * (2000 + len(edges))


def tree_of(drawing):
    return ElementTree.fromstring(drawing.svg())


def test_every_node_and_edge_is_drawn_whatever_its_name():
    names = ["<b>", "a & b", '"', "\x00", "日本語", "", "x" * 500]
    nodes = [Node(f"n{i}", name, [name], tip=f"tip {name}") for i, name in enumerate(names)]
    edges = [Edge("n0", f"n{i}") for i in range(1, len(names))] + [Edge("n0", "n0"), Edge("n1", "only named", "weak")]
    drawing = draw_graph("label", nodes, edges)
    tree = tree_of(drawing)
    assert len(tree.findall("g")) == len(names) + 1 and len(tree.findall("path")) == len(edges)
    tips = [group.find("title").text for group in tree.findall("g")]
    assert tips[0] == "tip <b>" and tips[-1] == "only named"
    assert draw_graph("label", nodes, edges).file() == drawing.file(), "the same graph makes the same picture"


def test_a_hot_node_is_coloured_and_long_text_is_cut():
    tree = tree_of(draw_graph("l", [Node("a", "cold"), Node("b", "hot" * 100, ["x"] * 50, heat=1.0)], []))
    assert [len([r for r in g.findall("rect") if r.get("class") == "heat"]) for g in tree.findall("g")] == [0, 1]
    assert len(tree.findall("g")[1].findall("text")) == 8
    assert shorten("abc") == "abc" and len(shorten("x" * 100)) == 40 and shorten("a\n b") == "a b"
