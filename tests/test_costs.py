"""The processor time that the summary of a test run lists for a test."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests import costs


@pytest.mark.skipif(os.name == "nt", reason="Windows does not count the processor time of child processes")
def test_a_program_of_an_earlier_test_is_not_counted(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    with subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE) as earlier:
        earlier.stdout.read()
        begin, start = costs.processor_seconds(), time.monotonic()
        earlier.wait()
        seconds, duration = costs.processor_seconds() - begin, time.monotonic() - start
    assert seconds > 0.4
    assert costs.own_seconds(seconds, duration) < 0.4


def test_programs_on_all_cores_are_counted(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert costs.own_seconds(3.0, 1.0) == 3.0
