"""CPUs whose code runs on every machine of this architecture: tests run what they compile, on x86-64 and aarch64."""

from __future__ import annotations

import platform

IS_X86 = platform.machine() in ("x86_64", "AMD64")
# The first of the architecture, and one with fused multiply-add (and, on x86, vectors of 32 bytes).
BASELINE = "x86-64" if IS_X86 else "generic"
OLDER = "haswell" if IS_X86 else "cortex-a72"
# A target of an architecture that this machine is not.
FOREIGN_TRIPLE = "aarch64-linux-gnu" if IS_X86 else "x86_64-linux-gnu"
