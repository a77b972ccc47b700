"""The cuda back end: generate CUDA C without headers, compiled to machine code (cubin) and to PTX.

Vectors are accessed in parts of up to 16 bytes. Read-only pointers are ``const __restrict__``, so that the compiler
loads through the read-only cache. The global function ``tvm_callback_cuda_compile`` replaces the compiler, and
``tvm_callback_cuda_postproc`` can change the source before.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar

from ...dtype import element, info
from ...error import TVMError
from ...ir.module import IRModule
from ...ir.prim import Call, Var
from ...runtime.module import Module
from ...runtime.registry import get_global_func
from ...target import nvidia
from ...target.target import Target
from ...tir.stmt import Allocate, Stmt
from .. import device_module, gpu_like
from ..c.names import bare
from ..device_module import Image
from ..gpu_like import GpuLike, emit_kernels, integer_function, kernel_text
from ..llvm.build import prim_functions
from ..llvm.types import bfloat_bits, half_bits
from . import half as cuda_half
from . import matrix as cuda_matrix
from . import nvrtc
from . import warpgroup as cuda_warpgroup

_INLINE = "static __device__ __forceinline__ "
_WORDS = """
    threadIdx blockIdx blockDim gridDim warpSize dim3 half_t bfloat16_t half __shared__ __global__ __device__ min max
    rsqrt rsqrtf exp10 exp10f atomicAdd isnan isinf isfinite
"""
_VECTORS = frozenset(
    f"{kind}{lanes}"
    for kind in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong", "float",
                 "double")
    for lanes in (1, 2, 3, 4)
)  # fmt: skip
# The type of an access by its size in bytes.
_ACCESS = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
_OWN_ACCESS = {("float32", 16): "float4", ("float32", 8): "float2", ("int32", 16): "int4", ("int32", 8): "int2"}
_MANTISSA = {"float32": ("__uint_as_float", "0x7f800000U", "0x7fc00000U"),
             "float64": ("__longlong_as_double", "0x7ff0000000000000LL", "0x7ff8000000000000LL")}  # fmt: skip


# Calls


def _shuffle(function: str) -> Callable[[GpuLike, Call], str]:
    def emit(p: GpuLike, node: Call) -> str:
        mask, value, lane, width = node.args[:4]
        dtype = element(value.dtype)
        text, kind = p.value(value), info(dtype)
        rest = f"{bare(p.value(lane))}, {bare(p.value(width))}"
        mask_text = bare(p.value(mask))
        if kind.bits == 16 and kind.is_float:
            name = p.scalar_type(dtype)
            return f"{name}::of((unsigned short){function}({mask_text}, (int)({text}).bits, {rest}))"
        if kind.bits < 32:
            return f"({p.scalar_type(dtype)}){function}({mask_text}, (int){text}, {rest})"
        return f"{function}({mask_text}, {bare(text)}, {rest})"

    return emit


def _dot4(first: int) -> Callable[[GpuLike, Call], str]:
    """Print the dot product of four 8-bit integers (dp4a)."""

    def emit(p: GpuLike, node: Call) -> str:
        x, y, total = node.args[first : first + 3]
        words = []
        for vector in (x, y):
            kind = info(vector.dtype)
            word = "unsigned" if kind.is_uint else "int"
            words.append(f"*({word}*){p.lay_out(vector)}" if kind.lanes == 4 else bare(p.value(vector)))
        return f"__dp4a({', '.join(words)}, {bare(p.value(total))})"

    return emit


def _barrier(p: Any, node: Call) -> str:
    multiplies = any(fragment.of_group for fragment in p.fragments.values())
    if multiplies and not (p.lines and p.lines[-1].strip() == p.barriers["shared"]):
        cuda_warpgroup.visible(p)
    return GpuLike.calls["tir.tvm_storage_sync"](p, node)


def _atomic_add(p: GpuLike, node: Call) -> str:
    place, _ = p.pointer(node.args[0])
    amount, dtype = p.value(node.args[1]), node.args[1].dtype
    if dtype == "int64":
        return f"(long long)atomicAdd((unsigned long long*){place}, (unsigned long long){amount})"
    if dtype not in ("int32", "uint32", "uint64", "float32", "float64"):
        raise TVMError(
            f"{p.name}: atomic addition of {dtype} is not supported for cuda; use float32 or a 32-bit integer"
        )
    return f"atomicAdd(({p.scalar_type(dtype)}*){place}, {bare(amount)})"


# Statements


def _allocate(p: Any, stmt: Allocate) -> Stmt:
    if not p.storage_scope(stmt.buffer_var).startswith("wmma."):
        return GpuLike.statements[Allocate](p, stmt)
    count = info(stmt.dtype).lanes
    for extent in stmt.extents:
        count *= cuda_matrix.number_of(extent, f"the size of fragment {stmt.buffer_var.name}")
    cuda_matrix.declare_fragment(p, stmt.buffer_var, count)
    return stmt.body


class Cuda(GpuLike):
    """A printer for CUDA C."""

    language: ClassVar[str] = "cuda"
    scalar_types: ClassVar[dict[str, str]] = {
        "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
        "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long",
        "float32": "float", "float64": "double", "bool": "bool", "handle": "void*",
        "float16": cuda_half.HALF, "bfloat16": cuda_half.BFLOAT,
    }  # fmt: skip
    bool_memory: ClassVar[str] = "signed char"
    native_16_bit_floats: ClassVar[frozenset[str]] = frozenset(("float16", "bfloat16"))
    scopes: ClassVar[dict[str, str]] = {"shared": "__shared__ ", "shared.dyn": "extern __shared__ "}
    constant_scope: ClassVar[str] = "static __device__ const "
    kernel_head: ClassVar[str] = 'extern "C" __global__ void '
    sized_kernel_head: ClassVar[str] = 'extern "C" __global__ void __launch_bounds__({threads}) '
    thread_axes: ClassVar[dict[str, str]] = {
        f"{kind}.{axis}": f"(int){kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"
    }
    barriers: ClassVar[dict[str, str]] = {
        "shared": "__syncthreads();", "shared.dyn": "__syncthreads();", "global": "__syncthreads();",
        "warp": "__syncwarp();",
    }  # fmt: skip
    math_functions: ClassVar[dict[str, str]] = {
        **GpuLike.math_functions,
        **{name: name for name in ("rsqrt", "exp10", "floor", "ceil", "trunc", "round", "nearbyint", "ldexp")},
    }
    reserved: ClassVar[frozenset[str]] = frozenset(_WORDS.split()) | _VECTORS
    architecture: ClassVar[nvidia.Architecture] = nvidia.architecture(nvidia.DEFAULT)
    typed_helpers: ClassVar[dict[str, str]] = gpu_like.helpers_with(_INLINE, cuda_half.HELPERS)
    fixed_helpers: ClassVar[dict[str, str]] = cuda_half.TYPES
    bits_helper: ClassVar[str] = _INLINE + "{new} {name}({old} x) { return *({new}*)&x; }"
    calls: ClassVar[dict] = {
        **GpuLike.calls,
        **cuda_matrix.CALLS,
        "tir.popcount": integer_function({"uint32": "__popc", "uint64": "__popcll"}),
        "tir.clz": integer_function({"uint32": "__clz", "uint64": "__clzll"}),
        "tir.atomic_add": _atomic_add,
        "tir.tvm_storage_sync": _barrier,
        "tir.tvm_warp_shuffle": _shuffle("__shfl_sync"),
        "tir.tvm_warp_shuffle_up": _shuffle("__shfl_up_sync"),
        "tir.tvm_warp_shuffle_down": _shuffle("__shfl_down_sync"),
        "tir.tvm_warp_activemask": lambda p, node: "__activemask()",
        "tir.dp4a": _dot4(0),
        "extern.__dp4a": _dot4(1),
    }
    statements: ClassVar[dict[type, Callable]] = {**GpuLike.statements, Allocate: _allocate}

    def __init__(self, source, name: str, result: str = "void"):
        super().__init__(source, name, result)
        self.fragments: dict[Var, cuda_matrix.Fragment] = {}

    def look_at(self, params, body) -> None:
        super().look_at(params, body)
        self.fragments = cuda_matrix.fragments_of(self, body)

    def _float_literal(self, dtype: str, number: float) -> str:
        if dtype in self.native_16_bit_floats:
            bits = (half_bits if dtype == "float16" else bfloat_bits)(number)
            return f"{self.scalar_type(dtype)}::of(0x{bits:04x})"
        if number - number != 0:
            function, infinite, nothing = _MANTISSA[dtype]
            text = f"{function}({nothing if number != number else infinite})"
            return f"(-{text})" if number == float("-inf") else text
        return super()._float_literal(dtype, number)

    def declare_shared(self, var: Var, dtype: str, count: int) -> None:
        if self.storage_scope(var) != "shared.dyn":
            super().declare_shared(var, dtype, count)
            return
        self.dynamic_bytes += count * info(element(dtype)).bytes
        # The size of dynamic shared memory is an argument of the launch. It gets the largest alignment, because bulk
        # copies and warpgroup matmuls need it.
        kind = self.memory_type(element(dtype))
        most = cuda_warpgroup.GROUP_BYTES if any(x.of_group for x in self.fragments.values()) else 128
        self.head.append(f"  extern __shared__ __align__({most}) {kind} {self.names[var]}[];")

    def copy(self, array: str, place: str, first: int, dtype: str, count: int, var: Var, load: bool) -> None:
        if count == 1:
            here, there = f"{array}[{first}]", f"*({place})"
        else:
            size = count * info(dtype).bytes
            kind = _OWN_ACCESS.get((dtype, size)) or _ACCESS[size]
            const = "const " if load and var in self.read_only else ""
            here, there = f"*({kind}*)({array} + {first})", f"*({const}{kind}*)({place})"
        self.line(f"{here} = {there};" if load else f"{there} = {here};")


# Programmatic dependent launch: memory is accessed only after the preceding kernels have finished and their stores are
# visible. The next kernel may then be launched and waits in the same way, which hides its launch latency.
_DEPENDENT = ('  asm volatile("griddepcontrol.wait;" ::: "memory");',
              '  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");')  # fmt: skip
_ENTRY = re.compile(r"\.entry\s+(\w+)")
# PTX instructions that access memory other than the kernel's parameters.
_ACCESS_IN_PTX = re.compile(r"\b(?:ld\.(?!param)|st\.|atom\.|red\.|cp\.|prefetch|call)")


@functools.cache
def dialect_of(arch: str) -> type[Cuda]:
    """Return the printer class for CUDA C with the instructions of an architecture."""
    row = nvidia.architecture(arch)
    return type("Cuda", (Cuda,), {"architecture": row, "prologue": _DEPENDENT if row.has_dependent_launch else ()})


def waits_first(ptx: str) -> dict[str, bool]:
    """Return for each kernel whether it accesses memory only after its wait for the preceding kernels. The compiler
    assumes that memory behind restrict pointers is constant, and may move loads before the wait."""
    found = {}
    parts = _ENTRY.split(ptx)
    for name, body in zip(parts[1::2], parts[2::2]):
        wait, access = body.find("griddepcontrol.wait"), _ACCESS_IN_PTX.search(body)
        found[name] = wait >= 0 and (access is None or wait < access.start())
    return found


def emit(mod: IRModule, target: Target) -> tuple[str, dict[str, gpu_like.Kernel]]:
    """Return the source of a module and its kernels."""
    dialect = dialect_of(str(target.attrs.get("arch") or nvidia.DEFAULT))
    source, kernels = emit_kernels(prim_functions(mod), dialect, gpu_like.limits_of(target))
    body = "\n".join([*source.functions, *source.helpers.values(), *source.constants])
    head = ["/* Generated by TVM Classic: CUDA C without headers. */"]
    head += [text for name, text in cuda_half.TYPES.items() if name in body]
    return kernel_text(source, head), kernels


def build(mod: IRModule, target: Target) -> Module:
    text, kernels = emit(mod, target)
    change = get_global_func("tvm_callback_cuda_postproc", allow_missing=True)
    if change is not None:
        text = str(change(text, target))
    images = [*compiled(text, target), Image("cuda", "", text.encode())]
    return device_module.build("cuda", images, _checked(kernels, images))


def _checked(kernels: dict[str, gpu_like.Kernel], images: list[Image]) -> dict[str, gpu_like.Kernel]:
    """Return the kernels with the launch properties that their compiled code allows."""
    ptx = next((image.data.decode(errors="replace") for image in images if image.format == "ptx"), "")
    waiting = waits_first(ptx)
    return {name: k._replace(dependent=k.dependent and waiting.get(name, False)) for name, k in kernels.items()}


def compiled(text: str, target: Target) -> list[Image]:
    """Compile source to machine code and PTX."""
    arch = nvrtc.usable(str(target.attrs.get("arch") or nvidia.DEFAULT))
    own = get_global_func("tvm_callback_cuda_compile", allow_missing=True)
    if own is not None:
        code = own(text, target)
        code = code.encode() if isinstance(code, str) else bytes(code)
        # PTX is text; machine code is an ELF file.
        is_binary = code[:4] == b"\x7fELF" or code[:4] == b"\x50\xed\x55\xba"
        return [Image("cubin" if is_binary else "ptx", arch if is_binary else "", code)]
    code = nvrtc.compile_all(text, arch)
    return [Image("cubin", arch, code["cubin"]), Image("ptx", arch, code["ptx"])]


def compile_for_device(text: str, arch: str) -> Image:
    """Compile source to machine code; the workers of a tuner call this function."""
    arch = nvrtc.usable(arch or nvidia.DEFAULT)
    code = nvrtc.compile_all(text, arch)
    if _DEPENDENT[0] in text:
        early = [name for name, first in waits_first(code["ptx"].decode(errors="replace")).items() if not first]
        if early:
            raise TVMError(f"kernel {early[0]} accesses memory before it waits for the preceding kernels")
    return Image("cubin", arch, code["cubin"])


__all__ = ["Cuda", "build", "compile_for_device", "compiled", "emit", "waits_first"]
