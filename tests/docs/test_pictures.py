"""The pictures of the documents are those of the results and of the source."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import pictures

    return pictures


@pytest.mark.parametrize("name", ["models.svg", "gpu_models.svg"])
def test_the_plots_are_those_of_the_last_results(pictures, name):
    kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert kept == pictures.PICTURES[name](), "python -m tools pictures writes it"


@pytest.mark.slow("draws the import graph of the whole package")
def test_the_picture_of_the_layers_is_made_from_the_imports(pictures):
    edges = pictures.imports()
    assert edges["tir", "ir"] > 10 and edges["relay", "topi"] > 10 and ("ir", "tir") not in edges
    ElementTree.fromstring(pictures.layers())


def test_an_edge_that_a_longer_way_implies_is_left_out(pictures):
    edges = {("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")}
    assert pictures.without_detours(edges) == [("a", "b"), ("a", "d"), ("b", "c")]
