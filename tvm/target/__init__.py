"""What a machine is: targets, their kinds, features and tags. Data only; code generation is ``tvm.codegen``."""

from __future__ import annotations

from tvm.target.cpu import ResolvedCPU, resolve_cpu
from tvm.target.features import Features
from tvm.target.kinds import TargetKind
from tvm.target.tag import list_tags, register_tag
from tvm.target.target import Target

__all__ = ["Features", "ResolvedCPU", "Target", "TargetKind", "list_tags", "register_tag", "resolve_cpu"]
