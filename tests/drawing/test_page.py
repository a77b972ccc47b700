"""Pages in one file: escaped, well-formed, alone, light and dark."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tvm.drawing.page import FRAGMENT, escape, fragment, page, table

HOSTILE = [
    "<script>alert(1)</script>",
    '" onload="x',
    "a & b",
    "]]>",
    "\x00\x08\x1f",
    "\ud800",
    "&lt;",
    "'--><!--",
    "ü日",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_never_becomes_markup(text):
    made = page(text, f'<p title="{escape(text)}">{escape(text)}</p>')
    tree = ElementTree.fromstring(made.encode())
    shown = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", "\ufffd", text)
    paragraph = tree.find(".//p")
    assert paragraph.text == shown and paragraph.get("title") == shown and tree.find("head/title").text == shown
    assert "<script" not in made and {e.tag for e in tree.iter()} >= {"html", "head", "body", "main", "p"}


def test_a_page_is_alone_and_has_both_colour_schemes():
    made = page("title", "<p>text</p>")
    assert "prefers-color-scheme:dark" in made and "default-src 'none'" in made
    assert not re.search(r"https?:|//|@import|url\(", made)


def test_the_style_of_a_fragment_reaches_nothing_outside_of_it():
    made = fragment("<p>text</p>")
    style = ElementTree.fromstring(made).find("style").text
    inner = style.replace("@media(prefers-color-scheme:dark)", "")
    selectors = [one for group in re.findall(r"([^{}]+)\{[^{}]*\}", inner) for one in group.split(",")]
    assert len(selectors) > 20 and all(one.startswith(f".{FRAGMENT}") for one in selectors)


def test_a_table_has_its_cells_in_order_and_a_name_in_each_row():
    tree = ElementTree.fromstring(table(["a", "name"], [["1", "x"], ["2", "y"]], "what", name=1, key="k"))
    rows = [[cell.text for cell in row] for row in tree.iter("tr")]
    assert rows == [["a", "name"], ["1", "x"], ["2", "y"]] and tree.find("table").get("id") == "k"
    assert [cell.text for cell in tree.findall(".//tbody//th")] == ["x", "y"]
