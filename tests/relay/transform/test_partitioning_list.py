"""The list of Apache TVM's tests of partitioning names tests that exist, and counts those without one."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Both run MobileNet with oneDNN.
MISSING = 2


def test_the_behaviours_of_apaches_groups_are_tested():
    lines = (HERE / "partitioning.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    for group, name, own in rows:
        text = (HERE / f"test_{group}.py").read_text(encoding="utf-8")
        assert own == "-" or re.search(rf"^def {own}\(", text, re.MULTILINE), f"{group} {name}: there is no test {own}"
    assert len(rows) == 55 and sum(own == "-" for *_, own in rows) == MISSING
