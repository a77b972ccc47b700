"""Text for Graphviz."""

from __future__ import annotations

import pytest

from tvm.drawing.dot import Digraph, Html, cell, quote, rows


@pytest.mark.parametrize("text, written", [
    ("abc", "abc"), ("a b", '"a b"'), ("node", '"node"'), ('a"b\\c\nd', '"a\\"b\\\\c\\nd"'), ("", '""'), (3, "3"),
    ("1x", '"1x"'), (Html("<b>x</b>"), "<<b>x</b>>"), ("-> {", '"-> {"'),
])  # fmt: skip
def test_names_and_values_are_quoted_where_they_must_be(text, written):
    assert quote(text) == written


def test_a_graph_with_all_its_parts():
    graph = Digraph("Some Graph", {"rankdir": "LR"}, {"shape": "box"}, {"color": "#000000"})
    inner = Digraph("cluster_a")
    inner.attribute("label", "a b")
    inner.node("x", "first\nsecond", {"color": "red"})
    graph.subgraph(inner)
    graph.edge("x", "y z", {"color": "blue"}, ("out", ""))
    assert graph.text().splitlines() == [
        'digraph "Some Graph" {', "\tgraph [rankdir=LR]", "\tnode [shape=box]", '\tedge [color="#000000"]',
        "\tsubgraph cluster_a {", '\t\tlabel="a b"', '\t\tx [label="first\\nsecond" color=red]', "\t}",
        '\tx:out -> "y z" [color=blue]', "}",
    ]  # fmt: skip


def test_tables_escape_what_they_show():
    made = rows(("a<b", cell("c\nd", PORT="p")), BGCOLOR="white")
    assert "<TD>a&lt;b</TD>" in made and '<TD PORT="p">c<br/>d</TD>' in made and isinstance(made, Html)
