"""Targets, their kinds, features and tags. This package contains only data; code generation is in ``tvm.codegen``."""

from __future__ import annotations

import importlib

from tvm.target import arm_isa, codegen, x86
from tvm.target.compilation_config import CompilationConfig, make_compilation_config
from tvm.target.cpu import ResolvedCPU, resolve_cpu
from tvm.target.features import Features
from tvm.target.generic_func import GenericFunc, generic_func, get_native_generic_func, override_native_generic_func
from tvm.target.kinds import TargetKind
from tvm.target.layout import BijectiveLayout, Layout, LayoutAxis, bijective_layout
from tvm.target.tag import list_tags, register_tag
from tvm.target.target import (
    Target,
    adreno,
    arm_cpu,
    bifrost,
    create,
    cuda,
    hexagon,
    intel_graphics,
    mali,
    micro,
    rasp,
    riscv_cpu,
    rocm,
    stm32,
    vta,
)
from tvm.target.virtual_device import VirtualDevice

__all__ = [
    "BijectiveLayout",
    "CompilationConfig",
    "Features",
    "GenericFunc",
    "Layout",
    "LayoutAxis",
    "ResolvedCPU",
    "Target",
    "TargetKind",
    "VirtualDevice",
    "adreno",
    "arm_cpu",
    "arm_isa",
    "bifrost",
    "bijective_layout",
    "codegen",
    "create",
    "cuda",
    "generic_func",
    "get_native_generic_func",
    "hexagon",
    "intel_graphics",
    "list_tags",
    "make_compilation_config",
    "mali",
    "micro",
    "override_native_generic_func",
    "rasp",
    "register_tag",
    "resolve_cpu",
    "riscv_cpu",
    "rocm",
    "stm32",
    "vta",
    "x86",
]


def __getattr__(name: str):
    # Creates expressions, so it imports the IR.
    if name == "datatype":
        return importlib.import_module("tvm.target.datatype")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
