"""Instruction sets of Arm microcontroller targets."""

from __future__ import annotations

from tvm.target.arm import CORTEX_M, microcontroller
from tvm.target.record import Target

ARM_MPROFILE_CORE_LIST = [*CORTEX_M, *(f"{name}+nodsp" for name, core in CORTEX_M.items() if core.has_dsp)]


class IsaAnalyzer:
    """Answers whether a target has an instruction: ``"SMLAD" in IsaAnalyzer(target)``."""

    def __init__(self, target: str | Target):
        self.target = Target.canon_target(target)
        core = microcontroller(self.target.attrs)
        self.has_dsp_support = core is not None and core.has_dsp
        self.has_mve_support = core is not None and core.has_mve
        self.isa_map = {"SMLAD": self.has_dsp_support, "SSUB8": self.has_dsp_support, "SEL": self.has_dsp_support}

    def __contains__(self, instruction: str) -> bool:
        return self.isa_map.get(instruction, False)
