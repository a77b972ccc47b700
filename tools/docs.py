"""Build the documentation site: assemble its sources in a separate folder and run Sphinx with warnings as errors.

    python tools/docs.py build/site [--quick]

The sources are the documents of ``docs/``, the tutorials, which are executed and shown with their output, and reference
pages generated from the docstrings of public names. ``--quick`` does not execute tutorials (the tests do), and leaves
the reference's names out of the tables of contents: their copies on every page take half of the time of writing pages.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pictures
import public_names
import tutorials

ROOT = Path(__file__).resolve().parent.parent
# Documents outside docs/ and their paths on the site.
OTHERS = {"CHANGELOG.md": "changelog.md", "examples/README.md": "examples.md"}
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")


def documents() -> dict[Path, str]:
    """Return every document's file with its path on the site."""
    docs = ROOT / "docs"
    found = {path: path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))}
    return found | {ROOT / name: place for name, place in OTHERS.items()}


def with_links_inside(text: str, source: Path, places: dict[Path, str]) -> str:
    """Return a document in which links to files outside the site are plain names, since the site has no repository
    behind it."""
    here = Path(places[source]).parent

    def replace(match: re.Match[str]) -> str:
        title, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        file = (source.parent / path).resolve()
        # A tutorial is linked by its script, which becomes the page.
        if file.parent == tutorials.FOLDER and file.suffix == ".py":
            return f"[{title}]({target.replace('.py', '.md')})"
        if file in places:
            place = os.path.relpath(places[file], here)
            return f"[{title}]({place}{'#' + anchor if anchor else ''})"
        if file.suffix == ".svg":
            return match[0]
        return title if title.startswith("`") else f"`{title}`"

    # Leave brackets in programs and code as they are.
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`(?!\]))", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else LINK.sub(replace, part) for number, part in enumerate(parts))


def assemble(folder: Path, quick: bool) -> None:
    """Write the sources of the site into an empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    places = documents()
    for source, place in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_links_inside(source.read_text(encoding="utf-8"), source, places), encoding="utf-8")
    list_decisions(folder / "decisions")
    list_the_rest(folder)
    pictures.write(folder)
    write_reference(folder / "reference")
    tutorials.write_pages(folder / "tutorials", shows_output=not quick)


def list_decisions(folder: Path) -> None:
    """Add the decision pages to the navigation: the list in their README consists of plain links."""
    pages = sorted(path.stem for path in folder.glob("[0-9]*.md"))
    with open(folder / "README.md", "a", encoding="utf-8") as file:
        file.write("\n".join(["", ":::{toctree}", ":hidden:", "", *pages, ":::", ""]))


def list_the_rest(folder: Path) -> None:
    """Add documents that the index does not list to the end of the navigation."""
    index = folder / "index.md"
    text = index.read_text(encoding="utf-8")
    placed = {"index", *re.findall(r"^[\w/]+$", text, re.MULTILINE)}
    rest = sorted(path.stem for path in folder.glob("*.md") if path.stem not in placed)
    if rest:
        lines = [text.rstrip(), "", ":::{toctree}", ":caption: More", ":maxdepth: 1", "", *rest, ":::", ""]
        index.write_text("\n".join(lines), encoding="utf-8")


def write_reference(folder: Path) -> None:
    """Write a page for each module of the reference, and an index of the pages."""
    folder.mkdir(parents=True)
    lines = [
        "# Reference",
        "",
        "These pages describe every public name, for users of the Python API. They are the docstrings of the source.",
        "Many nodes and functions have a parameter `span`, the source location of a value; it is described only here.",
        "",
    ]
    for part, modules in public_names.PARTS.items():
        names = public_names.public_names(part)
        lines += [f"## {part}", "", ":::{toctree}", ":maxdepth: 1", ""]
        for suffix in modules:
            path = f"tvm.{suffix}".rstrip(".")
            own = [public for public in names if public.module == path]
            if own:
                (folder / f"{path}.rst").write_text(reference_page(path, own), encoding="utf-8")
                lines.append(path)
        lines += [":::", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def reference_page(module: str, names: list[public_names.Public]) -> str:
    """Return the page of one module, classes first."""
    doc = (importlib.import_module(module).__doc__ or "").strip()
    lines = [module, "=" * len(module), "", *doc.splitlines(), "", f".. currentmodule:: {module}", ""]
    for title, chosen in (
        ("Classes", [p for p in names if p.is_class]),
        ("Functions", [p for p in names if not p.is_class]),
    ):
        if chosen:
            lines += [title, "-" * len(title), ""]
        for public in chosen:
            lines += [f".. auto{'class' if public.is_class else 'function'}:: {public.path}"]
            lines += ["   :members:", ""] if public.is_class else [""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--quick", action="store_true", help="do not run tutorials; leave out their output")
    given = parser.parse_args()
    sources = given.site.with_name(given.site.name + "-source")
    assemble(sources, given.quick)
    shutil.rmtree(given.site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html",
               "-c", str(ROOT / "docs"), "-d", str(sources) + "-trees", str(sources), str(given.site)]  # fmt: skip
    if given.quick:
        command += ["-D", "toc_object_entries=0"]
    done = subprocess.run(command)
    if done.returncode == 0:
        print(f"{given.site / 'index.html'}: {sum(1 for _ in given.site.rglob('*.html'))} pages")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
