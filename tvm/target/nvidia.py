"""Properties of NVIDIA GPUs: one table entry per architecture (``sm_NN``); only this file interprets their names.

Sources: the CUDA programming guide ("Compute Capabilities") and NVIDIA's data sheets.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tvm.error import TargetError
from tvm.target.gpu_cost import GPUCost

if TYPE_CHECKING:
    from tvm.target.record import Target

KIB = 1024
# Static shared memory that a kernel may declare, in bytes; more must be requested at launch.
STATIC_SHARED = 48 * KIB
# The default architecture.
DEFAULT = "sm_50"
_NAME = re.compile(r"(?:sm|compute)_(\d+)[af]?")


class Architecture(NamedTuple):
    """The GPUs of one compute capability."""

    number: int
    # A typical product and its number of multiprocessors, which schedules try to fill.
    product: str
    multiprocessors: int
    # Shared memory in bytes: per multiprocessor, and the maximum that a block may request at launch.
    multiprocessor_shared: int
    block_shared: int
    # Threads per multiprocessor; each multiprocessor has 65,536 32-bit registers.
    multiprocessor_threads: int
    # Operand type of tensor cores -> k of the m16n8 instruction (mma.sync).
    mma_k: Mapping[str, int]
    has_dp4a: bool
    has_bfloat: bool
    # Asynchronous copies from global to shared memory (cp.async).
    has_async_copy: bool
    # Constants of the templates' cost models.
    cost: GPUCost = GPUCost()
    # Matrix multiplication by four warps from shared memory (wgmma), available only to code for exactly this
    # architecture.
    has_warpgroups: bool = False

    @property
    def has_dependent_launch(self) -> bool:
        """Whether a kernel may start before its predecessor ends and wait for its results itself."""
        return self.number >= 90


def _rows() -> dict[int, Architecture]:
    none: Mapping[str, int] = {}
    turing = {"float16": 8}
    ampere = {"float16": 16, "bfloat16": 16, "float32": 8}
    # Columns: number, product, multiprocessors, KiB of shared memory per multiprocessor and per block, threads per
    # multiprocessor, mma, dp4a, bfloat16, cp.async. Code for sm_50 runs on every later GPU and is the default, so its
    # entry has the size of a data-centre GPU (products with sm_50 have 5 multiprocessors).
    # The first tensor cores (sm_70, sm_72) use another instruction shape, for which no code is generated.
    rows = (
        (50, "", 80, 64, 48, 2048, none, False, False, False),
        (52, "GeForce GTX Titan X", 24, 96, 48, 2048, none, False, False, False),
        (53, "Jetson TX1", 2, 64, 48, 2048, none, False, False, False),
        (60, "P100", 56, 64, 48, 2048, none, False, False, False),
        (61, "GeForce GTX 1080 Ti", 28, 96, 48, 2048, none, True, False, False),
        (62, "Jetson TX2", 2, 64, 48, 2048, none, True, False, False),
        (70, "V100", 80, 96, 96, 2048, none, True, False, False),
        (72, "Jetson AGX Xavier", 8, 96, 96, 2048, none, True, False, False),
        (75, "T4", 40, 64, 64, 1024, turing, True, False, False),
        (80, "A100", 108, 164, 163, 2048, ampere, True, True, True),
        (86, "A40", 84, 100, 99, 1536, ampere, True, True, True),
        (87, "Jetson AGX Orin", 16, 164, 163, 1536, ampere, True, True, True),
        (89, "GeForce RTX 4090", 128, 100, 99, 1536, ampere, True, True, True),
        (90, "H100", 132, 228, 227, 2048, ampere, True, True, True),
        (100, "B200", 148, 228, 227, 2048, ampere, True, True, True),
        (110, "Jetson Thor", 20, 228, 227, 1536, ampere, True, True, True),
        (120, "GeForce RTX 5090", 170, 100, 99, 1536, ampere, True, True, True),
        (121, "DGX Spark", 48, 100, 99, 1536, ampere, True, True, True),
    )  # fmt: skip
    return {
        number: Architecture(number, product, sms, shared * KIB, block * KIB, *rest)
        for number, product, sms, shared, block, *rest in rows
    }


ARCHITECTURES = _rows()


def number_of(name: str) -> int:
    """Return 75 for "sm_75" or "sm_75a"."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise TargetError(f"a CUDA architecture has the form sm_80, got '{name}'")
    return int(match.group(1))


@functools.cache
def architecture(name: str) -> Architecture:
    """Return the entry of an architecture; without one, the entry of the nearest older architecture."""
    number = number_of(name)
    row = ARCHITECTURES[max((known for known in ARCHITECTURES if known <= number), default=min(ARCHITECTURES))]
    return row._replace(number=number, has_warpgroups=name == "sm_90a")


def own_architecture(name: str) -> str:
    """Return the architecture to compile for the local device: with architecture-specific instructions where they
    exist."""
    return "sm_90a" if name == "sm_90" else name


def architecture_of(target: Target) -> Architecture | None:
    """Return the entry of a target's GPU, or None if it is not an NVIDIA GPU."""
    option = target.kind.facts.get("nvidia_architecture")
    return None if option is None else architecture(str(target.attrs.get(option) or DEFAULT))
