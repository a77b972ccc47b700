"""What tests of schedules for CPUs share."""

from __future__ import annotations

import pytest


@pytest.fixture
def usual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores with 32 KiB and 1 MiB of cache each, and 8 MiB that they share. A target with the architecture of this
    machine has the caches and cores of this machine otherwise, also where it names another CPU."""
    monkeypatch.setattr("tvm.target.cpu.host_caches", lambda: (32 << 10, 1 << 20, 8 << 20))
    monkeypatch.setattr("tvm.target.cpu.usable_cores", lambda: 2)
