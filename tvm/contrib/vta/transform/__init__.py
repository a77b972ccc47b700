"""Passes that compile programs for the accelerator, under their public names. Each pass is in the file of its topic."""

from __future__ import annotations

from .alu import AnnotateALUCoProcScope, InjectALUIntrin
from .dma import InjectDMAIntrin, InjectSkipCopy
from .host import CPUAccessRewrite, InjectCoProcSync
from .scratchpads import LiftAllocToScopeBegin, PlanScratchpads
from .uops import FoldUopLoop

__all__ = [
    "AnnotateALUCoProcScope",
    "CPUAccessRewrite",
    "FoldUopLoop",
    "InjectALUIntrin",
    "InjectCoProcSync",
    "InjectDMAIntrin",
    "InjectSkipCopy",
    "LiftAllocToScopeBegin",
    "PlanScratchpads",
]
