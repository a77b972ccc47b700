"""The import graph of the package is drawn from its source; a site gets all pictures that its pages show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import pictures

    return pictures


@pytest.mark.slow("draws the import graph of the whole package")
def test_the_picture_of_the_layers_is_made_from_the_imports(pictures):
    edges = pictures.imports()
    assert edges["tir", "ir"] > 10 and edges["relay", "topi"] > 10 and ("ir", "tir") not in edges
    ElementTree.fromstring(pictures.layers())


def test_an_edge_that_a_longer_way_implies_is_left_out(pictures):
    edges = {("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")}
    assert pictures.without_detours(edges) == [("a", "b"), ("a", "d"), ("b", "c")]


@pytest.mark.slow("draws the import graph of the whole package")
def test_a_site_gets_the_pictures_of_all_pages(pictures, tmp_path):
    pictures.write(tmp_path)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"^(?:!\[[^\]]*\]\(|:::\{image\} )([^)\s]+\.svg)", pages, re.MULTILINE))
    assert shown == {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.svg")}
