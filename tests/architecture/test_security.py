"""What docs/security.md promises of the whole package."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT, texts
from tests.architecture.test_layers import imports

NETWORK = {"socket", "socketserver", "http", "urllib", "ftplib", "smtplib", "ssl", "asyncio", "xmlrpc"}
# The doors that the page names; they open when they are called.
DOORS = ("tvm/contrib/download.py", "tvm/rpc/")


def test_nothing_but_the_named_doors_reaches_the_network():
    used = {path: {name.partition(".")[0] for name, _, _ in imports(path)} for path in texts()}
    others = [path for path, names in used.items() if names & NETWORK and not path.startswith(DOORS)]
    assert not others, f"{', '.join(others)} can reach the network; docs/security.md names no such door"


def test_the_tests_that_the_page_names_are_there():
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|csrc)/[\w./-]+)`", text)
    assert len(named) > 8 and [path for path in named if not (ROOT / path).exists()] == []
