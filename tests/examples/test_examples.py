"""Every example runs to its end; each checks its own numbers against NumPy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import Programs

FOLDER = Path(__file__).resolve().parents[2] / "examples"
# Smaller than a person would run them.
OPTIONS = {"demo_matmul.py": ["--size", "128"], "matmul_steps.py": ["--size", "64"]}
LAST_LINE = {
    "custom_pass.py": "the vectorized loops return the expected values",
    "demo_matmul.py": "128x128 float32 matmul: result checked",
    "export_and_call_from_c.py": "called from C: add: 1000 sums are correct",
    "ir_builder_sort.py": "rows are sorted",
    "matmul_steps.py": "threads ",
    "rfactor_sum.py": "sums of every length are correct",
    "scan_cumulative_sum.py": "cumulative sums are correct",
    "tensorize_gemv.py": "the tensorized matmul is correct",
    "vector_add.py": "sums of every length are correct",
}


@pytest.mark.slow("runs an example as a user does")
@pytest.mark.parametrize("name", sorted(LAST_LINE))
def test_example_runs_and_checks_itself(programs: Programs, name: str, tmp_path: Path):
    done = programs.run([str(FOLDER / name), *OPTIONS.get(name, [])], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(LAST_LINE[name]), done.stdout


def test_the_index_lists_every_example():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.glob("*.py") if f"({path.name})" not in text] == []
