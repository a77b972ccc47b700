"""What NVIDIA GPUs can do: one row for each architecture (``sm_NN``), the only place where their names are read.

Facts are those of the CUDA programming guide ("Compute Capabilities") and of NVIDIA's data sheets.
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
# Bytes of shared memory that a kernel may declare; more are asked for at the launch.
STATIC_SHARED = 48 * KIB
# The default architecture.
DEFAULT = "sm_50"
_NAME = re.compile(r"(?:sm|compute)_(\d+)[af]?")


class Architecture(NamedTuple):
    """The GPUs of one compute capability."""

    number: int
    # A usual product, and its streaming multiprocessors: what fills them is asked of schedules.
    product: str
    multiprocessors: int
    # Bytes of shared memory: of all blocks of a multiprocessor, and of what one block may ask for at its launch.
    multiprocessor_shared: int
    block_shared: int
    # Threads of a multiprocessor; each has 65,536 registers of 32 bits.
    multiprocessor_threads: int
    # Element type of the operands of tensor cores -> k of the m16n8 instruction (mma.sync) for it.
    mma_k: Mapping[str, int]
    has_dp4a: bool
    has_bfloat: bool
    # Copies from global to shared memory that run beside the program (cp.async).
    has_async_copy: bool
    # Constants of the cost models of templates.
    cost: GPUCost = GPUCost()
    # Products by four warps from shared memory (wgmma), which only code for exactly this architecture may use.
    has_warpgroups: bool = False

    @property
    def has_dependent_launch(self) -> bool:
        """Whether a kernel may start while the one before it ends, and waits for its results itself."""
        return self.number >= 90


def _rows() -> dict[int, Architecture]:
    none: Mapping[str, int] = {}
    turing = {"float16": 8}
    ampere = {"float16": 16, "bfloat16": 16, "float32": 8}
    # Columns: number, product, multiprocessors, KiB of shared memory of a multiprocessor and of a block, threads of a
    # multiprocessor, mma, dp4a, bfloat16, cp.async. Code for sm_50 runs on every later GPU and is the default,
    # so its row has the size of a data-centre GPU (products with sm_50 have 5 multiprocessors).
    # The first tensor cores (sm_70, sm_72) have another shape of instruction, which is not generated.
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
    """75 of "sm_75" or "sm_75a"."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise TargetError(f"a CUDA architecture is written like sm_80, got '{name}'")
    return int(match.group(1))


@functools.cache
def architecture(name: str) -> Architecture:
    """The row of an architecture; one without a row is like the nearest older one."""
    number = number_of(name)
    row = ARCHITECTURES[max((known for known in ARCHITECTURES if known <= number), default=min(ARCHITECTURES))]
    return row._replace(number=number, has_warpgroups=name == "sm_90a")


def own_architecture(name: str) -> str:
    """What code for the device that is here is compiled as: its architecture with the instructions no other has."""
    return "sm_90a" if name == "sm_90" else name


def architecture_of(target: Target) -> Architecture | None:
    """The row of a target's GPU; None where it is not one of NVIDIA's."""
    option = target.kind.facts.get("nvidia_architecture")
    return None if option is None else architecture(str(target.attrs.get(option) or DEFAULT))
