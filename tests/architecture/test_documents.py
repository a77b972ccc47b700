"""The documents tell the truth: links lead somewhere and files named in them exist. Their programs are run by
tests/docs/test_document_programs.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "benchmarks/*.md", "apps/**/*.md")
    for path in ROOT.glob(pattern)
)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str):
    path = ROOT / name
    # What looks like a link inside of code is a call of what was looked up.
    text = re.sub(r"`[^`\n]*`", "", PROGRAM.sub("", path.read_text(encoding="utf-8")))
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    broken = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert not broken, f"{name}: no such file: {', '.join(broken)}"


NAMING_DOCUMENTS = ("map", "howto_pass", "howto_operator", "howto_backend", "deploy_runtime")
NAMING_FILES = ["README.md", *(f"docs/{name}.md" for name in NAMING_DOCUMENTS)]


@pytest.mark.parametrize("name", NAMING_FILES)
def test_files_named_in_documents_exist(name: str):
    text = PROGRAM.sub("", (ROOT / name).read_text(encoding="utf-8"))
    named = re.findall(r"`((?:tvm|csrc|docs|tests|tools|examples|benchmarks|packaging)/[\w./-]*)`", text)
    invented = {"tvm/tir/transform/merge_things.py", "tests/tir/transform/test_merge_things.py"}
    missing = [path for path in named if not (ROOT / path).exists() and path not in invented]
    assert not missing, f"{name} names {', '.join(missing)}"
