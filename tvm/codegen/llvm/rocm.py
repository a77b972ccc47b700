"""The rocm back end: generate assembly and objects for AMD GPUs with LLVM, linked to HSACO if ld.lld is installed.

The runtime has no driver for these devices: the code can be saved to files (``save``) and read as text.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from ...error import TVMError
from ...ir.module import IRModule
from ...runtime import link
from ...runtime.module import Module, from_code
from ...target.target import Target
from .. import gpu_like
from . import device as llvm_device
from . import jit as llvm_jit
from .device import Device

AMDGCN = Device(
    "amdgcn",
    "amdgpu_kernel",
    {
        **{f"threadIdx.{axis}": f"llvm.amdgcn.workitem.id.{axis}" for axis in "xyz"},
        **{f"blockIdx.{axis}": f"llvm.amdgcn.workgroup.id.{axis}" for axis in "xyz"},
    },
    (
        'fence syncscope("workgroup") release',
        "call void @llvm.amdgcn.s.barrier()",
        'fence syncscope("workgroup") acquire',
    ),
    '"amdgpu-flat-work-group-size"="1,{}"',
    stack=5,
    # The oldest code object version that LLVM can write, which older linkers and drivers can read.
    flags=(("amdhsa_code_object_version", 400),),
)


class CompiledKernels:
    """The code of a module in every format, each generated from the text, because writing machine code consumes an LLVM
    module."""

    def __init__(self, module: llvm_device.DeviceText):
        self.cpu = module.cpu
        self.text = str(llvm_device.optimized(module))

    def source(self, fmt: str = "") -> str:
        if fmt == "ll":
            return self.text
        if fmt in ("", "asm", "s"):
            return llvm_device.machine_of(self.cpu).emit_assembly(llvm_jit.parse(self.text))
        raise TVMError(f"a rocm module has no source in format '{fmt}'; use asm or ll")

    def object(self) -> bytes:
        return llvm_device.machine_of(self.cpu).emit_object(llvm_jit.parse(self.text))

    def hsaco(self) -> bytes:
        """Return the linked object that drivers can load."""
        linker = shutil.which("ld.lld")
        if linker is None:
            raise TVMError("cannot link for AMD GPUs: ld.lld is not on PATH; install lld, or save as 'o'")
        with tempfile.TemporaryDirectory(prefix="tvm-rocm-") as folder:
            source, result = os.path.join(folder, "kernels.o"), os.path.join(folder, "kernels.hsaco")
            with open(source, "wb") as file:
                file.write(self.object())
            link.run_compiler([linker, "-shared", "-o", result, source], "linking kernels")
            with open(result, "rb") as file:
                return file.read()

    def save(self, path: str, fmt: str = "") -> None:
        """Write the code as s or asm (assembly), ll (LLVM text), o (object) or hsaco."""
        fmt = fmt or path.rpartition(".")[2]
        if fmt in ("s", "asm", "ll"):
            data = self.source(fmt).encode()
        elif fmt in ("o", "obj"):
            data = self.object()
        elif fmt == "hsaco":
            data = self.hsaco()
        else:
            raise TVMError(f"a rocm module cannot be saved as '{fmt}'; use asm, ll, o or hsaco")
        with open(path, "wb") as file:
            file.write(data)


def emit(mod: IRModule, target: Target) -> tuple[CompiledKernels, dict[str, gpu_like.Kernel]]:
    # The environment suffix of the triple is an older name that LLVM no longer supports.
    triple = str(target.attrs.get("mtriple") or "amdgcn-amd-amdhsa").removesuffix("-hcc")
    given = target.attrs.get("mattr")
    features = tuple(str(name) for name in given) if isinstance(given, (list, tuple)) else ()
    cpu = llvm_device.gpu_processor(triple, "amdgcn", str(target.attrs.get("mcpu") or "gfx900"), features)
    module, kernels = llvm_device.emit_kernels(mod, cpu, AMDGCN, gpu_like.limits_of(target))
    return CompiledKernels(module), kernels


def build(mod: IRModule, target: Target) -> Module:
    code, kernels = emit(mod, target)
    return from_code(None, kernels, type_key="rocm", format="asm", source=code.source, save=code.save, exportable=False)
