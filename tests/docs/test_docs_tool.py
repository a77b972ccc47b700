"""The sources of the site are put together so that every document has its place and every link a target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def docs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import docs

    return docs


def test_a_document_that_the_index_does_not_place_comes_last(docs, tmp_path):
    (tmp_path / "index.md").write_text("# Home\n\n:::{toctree}\n\nfirst\n:::\n")
    (tmp_path / "first.md").write_text("# First\n")
    (tmp_path / "new.md").write_text("# New\n")
    docs.list_the_rest(tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert text.count("first") == 1 and text.endswith(":caption: More\n:maxdepth: 1\n\nnew\n:::\n")


def test_the_index_lists_every_document_once():
    """Documents of other folders have their own lists: tutorials and decisions."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([\w/]+)$", text, re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert len(listed) == len(set(listed))
    assert set(listed) - pages == {"tutorials/index", "examples", "reference/index", "changelog", "decisions/README"}
    assert pages <= set(listed)


def test_links_stay_on_the_site_or_become_names(docs):
    source = ROOT / "docs" / "tuning.md"
    places = docs.documents()

    def written(text: str) -> str:
        return docs.with_links_inside(text, source, places)

    assert written("[map](map.md#layers)") == "[map](map.md#layers)"
    assert written("[changes](../CHANGELOG.md)") == "[changes](changelog.md)"
    assert written("[main.c](../apps/deploy_c/main.c)") == "`main.c`"
    assert written("[first](tutorials/first_program.py)") == "[first](tutorials/first_program.md)"
    assert written("[out](https://example.org)") == "[out](https://example.org)"
    assert written("`f[x](y)`") == "`f[x](y)`"


def test_a_reference_page_names_classes_before_functions(docs):
    names = [docs.public_names.Public("tvm.te", "compute", len), docs.public_names.Public("tvm.te", "Stage", int)]
    page = docs.reference_page("tvm.te", names)
    assert page.index("autoclass:: tvm.te.Stage") < page.index("autofunction:: tvm.te.compute")
