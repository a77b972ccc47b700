"""What holds for every importer of an older format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FORMATS = ("caffe", "caffe2", "cntk", "coreml", "darknet", "mxnet", "paddle")
# The cases of each format are modules of the same names, so that every format has a process of its own.
_PROGRAM = """
import sys
sys.path.insert(0, "tools")
import legacy_conformance
assert set(legacy_conformance.FORMATS) == set(sys.argv[2].split(",")), "a format is not tested here"
print(len(legacy_conformance.operators(sys.argv[1])), *legacy_conformance.without_case(sys.argv[1]))
"""


@pytest.mark.slow("runs every case of a format")
@pytest.mark.parametrize("name", FORMATS)
def test_every_converter_has_a_case_with_an_independent_oracle(name):
    done = subprocess.run([sys.executable, "-c", _PROGRAM, name, ",".join(FORMATS)], cwd=ROOT, capture_output=True,
                          text=True)  # fmt: skip
    assert not done.returncode, done.stderr
    count, *missing = done.stdout.split()
    assert int(count) > 30 and not missing
