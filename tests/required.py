"""What must be on this machine: with ``TVM_TEST_REQUIRED="opencl lld browser emulator network"`` a missing part is a
failure."""

from __future__ import annotations

import os


def required(name: str) -> bool:
    """Whether tests that need this part fail without it, as in continuous integration. Otherwise they are skipped."""
    return name in os.environ.get("TVM_TEST_REQUIRED", "").split()
