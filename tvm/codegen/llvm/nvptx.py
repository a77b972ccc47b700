"""The nvptx back end: generate PTX with LLVM, without NVIDIA's compilers."""

from __future__ import annotations

from ...ir.module import IRModule
from ...runtime.module import Module
from ...target.target import Target
from .. import device_module, gpu_like
from ..device_module import Image
from . import device as llvm_device
from .device import Device

NVPTX = Device(
    "nvptx",
    "ptx_kernel",
    {
        **{f"threadIdx.{axis}": f"llvm.nvvm.read.ptx.sreg.tid.{axis}" for axis in "xyz"},
        **{f"blockIdx.{axis}": f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}" for axis in "xyz"},
    },
    ("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",),
    '"nvvm.maxntid"="{}"',
)


def emit(mod: IRModule, target: Target) -> tuple[str, dict[str, gpu_like.Kernel]]:
    """Return the PTX of a module and its kernels."""
    name = str(target.attrs.get("mcpu") or "sm_50")
    cpu = llvm_device.gpu_processor(str(target.attrs.get("mtriple") or "nvptx64-nvidia-cuda"), "nvptx", name)
    module, kernels = llvm_device.emit_kernels(mod, cpu, NVPTX, gpu_like.limits_of(target))
    return llvm_device.machine_of(cpu).emit_assembly(llvm_device.optimized(module)), kernels


def build(mod: IRModule, target: Target) -> Module:
    text, kernels = emit(mod, target)
    arch = str(target.attrs.get("mcpu") or "sm_50")
    return device_module.build("cuda", [Image("ptx", arch, text.encode())], kernels)
