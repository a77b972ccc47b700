"""The check of a built site finds what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import browser  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def check_site(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check_site

    return check_site


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(
        '<h1 id="top">Home</h1><a href="other.html#here">a</a> <a href="#top">b</a> <a href="https://example.org">c</a>'
    )
    (tmp_path / "other.html").write_text('<meta name="viewport" content="width=device-width"><p id="here">Words</p>')
    (tmp_path / "search.html").write_text('<ul id="search-results"><li><a href="index.html">conv2d</a></ul>')
    return tmp_path


def test_a_sound_site_has_no_complaint(check_site, site):
    assert check_site.broken_links(site) == []


@pytest.mark.parametrize(
    "text, complaint",
    [
        ('<a href="gone.html">x</a>', "bad.html: no such file: gone.html"),
        ('<a href="index.html#gone">x</a>', "bad.html: no such place: index.html#gone"),
        ('<img src="https://example.org/x.png">', "bad.html: loads https://example.org/x.png"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "bad.html: loads //example.org/x.css"),
    ],
)
def test_a_broken_link_or_something_from_elsewhere_is_named(check_site, site, text, complaint):
    (site / "bad.html").write_text(text)
    assert check_site.broken_links(site) == [complaint]


def test_a_page_wider_than_a_phone_is_named(browser, check_site, site):
    (site / "wide.html").write_text('<div style="width: 900px">wide</div>')
    seen = check_site.look(site, browser, ["index.html", "other.html", "wide.html"])
    assert [page.split(":")[0] for page in seen["wide"]] == ["wide.html (light)", "wide.html (dark)"]
    assert seen["found"]["conv2d"] == ["index.html"] and seen["pages"] == 3


def test_a_quick_look_is_at_pages_from_the_first_to_the_last(check_site):
    pages = [f"{n}.html" for n in range(25)]
    chosen = check_site.spread(pages, 10)
    assert len(set(chosen)) == 10 and chosen[0] == pages[0] and chosen[-1] == pages[-1]
    assert check_site.spread(pages[:4], 10) == pages[:4] and check_site.spread(pages[:10], 10) == pages[:10]
