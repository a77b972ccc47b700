"""What holds for every importer of an older format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FORMATS = ("caffe", "caffe2", "cntk", "coreml", "darknet", "mxnet", "paddle")
# The cases of each format are modules of the same names, so that every format has a process of its own. They are copies
# of one that has loaded the importers.
_PROGRAM = """
import os, sys
sys.path.insert(0, "tools")
import legacy_conformance
import tvm.relay.frontend
for name in legacy_conformance.FORMATS:
    sys.stdout.flush()
    if not os.fork():
        count, missing = len(legacy_conformance.operators(name)), legacy_conformance.without_case(name)
        print(name, count, *missing)
        sys.exit()
    _, status = os.wait()
    if status:
        sys.exit(name)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies of a process need os.fork")
@pytest.mark.slow("loads the cases of every format")
def test_every_converter_has_a_case_with_an_independent_oracle():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert tuple(name for name, *_ in rows) == FORMATS
    for name, count, *missing in rows:
        assert int(count) > 30 and not missing, name
