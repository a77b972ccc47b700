"""The programs printed in documents run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.test_documents import DOCUMENTS, PROGRAM, ROOT
from tests.packages import needs_xgboost
from tests.programs import Programs

# The programs of this page are files that its commands run: tests/tools/test_first_hour.py replays it.
REPLAYED = "docs/first_ten_minutes.md"
TUNES = "docs/tuning.md"  # with the default tuner
WITH_PROGRAMS = [
    name for name in DOCUMENTS if name != REPLAYED and PROGRAM.search((ROOT / name).read_text(encoding="utf-8"))
]


# Searches with smaller populations than a user's: the programs show the interface, not how good its results are.
SMALL_SEARCHES = """
from tvm.auto_scheduler import SketchPolicy
SketchPolicy.DEFAULT_PARAMS.update(evolutionary_search_population=32, evolutionary_search_num_iters=1)
"""


@pytest.mark.slow("runs each program of a page")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_xgboost) if name == TUNES else name for name in WITH_PROGRAMS]
)
def test_programs_in_documents_run(programs: Programs, name: str, tmp_path: Path):
    for number, program in enumerate(PROGRAM.findall((ROOT / name).read_text(encoding="utf-8")), 1):
        program = SMALL_SEARCHES + program if "auto_scheduler" in program else program
        done = programs.run(["-c", program], tmp_path)
        assert done.returncode == 0, f"{name}, program {number}:\n{done.stderr}"
