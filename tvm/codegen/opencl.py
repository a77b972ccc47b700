"""The opencl back end: generate OpenCL C 1.2 source, which the driver compiles when it is loaded."""

from __future__ import annotations

from typing import ClassVar

from ..dtype import info
from ..error import TVMError
from ..ir.module import IRModule
from ..ir.prim import Call, Var
from ..runtime.module import Module
from ..target.target import Target
from . import device_module, gpu_like
from .c.names import bare
from .gpu_like import GpuLike, emit_kernels, integer_function, kernel_text
from .llvm.build import prim_functions

_WORDS = """
    kernel global local constant private __kernel __global __local __constant __private read_only write_only read_write
    uchar ushort uint ulong half quad complex imaginary event_t sampler_t image1d_t image2d_t image3d_t pipe
    barrier mem_fence get_group_id get_local_id get_global_id get_num_groups get_local_size get_global_size
    CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE min max clamp mad mix step sign select dot cross length distance normalize
    any all shuffle bitselect rotate popcount clz ctz hadd rhadd mul24 mad24 mul_hi rsqrt rint exp10 sinpi cospi
    vload_half vstore_half vstore_half_rte atomic_add atomic_cmpxchg atom_add prefetch printf
"""
_VECTORS = frozenset(
    f"{kind}{lanes}"
    for kind in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double")
    for lanes in (2, 3, 4, 8, 16)
)
_FIXED = {
    "tvm_half_to_float": """static inline float tvm_half_to_float(ushort x) {
  return vload_half(0, (const __private half*)&x);
}""",
    "tvm_float_to_half": """static inline ushort tvm_float_to_half(float x) {
  ushort y;
  vstore_half_rte(x, 0, (__private half*)&y);
  return y;
}""",
    "tvm_bfloat16_to_float": """static inline float tvm_bfloat16_to_float(ushort x) {
  return as_float((uint)x << 16);
}""",
    "tvm_float_to_bfloat16": """static inline ushort tvm_float_to_bfloat16(float x) {
  uint bits = as_uint(x);
  if (x != x) return (ushort)(bits >> 16 | 0x40);
  return (ushort)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}""",
    "tvm_round_to_odd": """static inline float tvm_round_to_odd(double x) {
  /* Inexact values get an odd last digit, so that rounding the result once more is exact. */
  float near = (float)x;
  double size = fabs(x), rounded = fabs((double)near);
  uint bits = as_uint(near);
  if (rounded > size) bits -= 1;
  if (rounded != size && x == x) bits |= 1;
  return as_float(bits);
}""",
}
# Atomic float addition, which OpenCL 1.2 does not provide.
_ATOMIC_ADD = """static inline {T} {name}(volatile {scope} {T}* place, {T} amount) {
  volatile {scope} {U}* bits = (volatile {scope} {U}*)place;
  {U} seen = *bits, old;
  do {
    old = seen;
    seen = {exchange}(bits, old, as_{U}(as_{T}(old) + amount));
  } while (seen != old);
  return as_{T}(old);
}"""
_FUNCTIONS = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "pow fmod hypot copysign nextafter atan2 floor ceil round trunc fabs fma ldexp"
).split()


def _atomic_add(p: GpuLike, node: Call) -> str:
    place, var = p.pointer(node.args[0])
    amount, dtype = p.value(node.args[1]), node.args[1].dtype
    kind, scope = info(dtype), p.pointer_scopes[p.storage_scope(var)].strip()
    text = p.scalar_type(dtype)
    if kind.is_integer and kind.bits in (32, 64):
        function = "atomic_add" if kind.bits == 32 else "atom_add"
        return f"{function}((volatile {scope} {text}*){place}, {bare(amount)})"
    if dtype not in ("float32", "float64"):
        raise TVMError(
            f"{p.name}: atomic addition of {dtype} is not supported for opencl; use float32 or a 32-bit integer"
        )
    name = f"tvm_atomic_add_{dtype}_{scope.strip('_')}"
    words = {
        "name": name, "T": text, "U": "uint" if kind.bits == 32 else "ulong", "scope": scope,
        "exchange": "atomic_cmpxchg" if kind.bits == 32 else "atom_cmpxchg",
    }  # fmt: skip
    body = _ATOMIC_ADD
    for word, value in words.items():
        body = body.replace("{" + word + "}", value)
    p.source.add_helper(name, body)
    return f"{name}({bare(place)}, {bare(amount)})"


class OpenCL(GpuLike):
    """A printer for OpenCL C without extensions: float16 values are stored as their bits."""

    language: ClassVar[str] = "opencl"
    scalar_types: ClassVar[dict[str, str]] = {
        "int8": "char", "int16": "short", "int32": "int", "int64": "long",
        "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
        "float32": "float", "float64": "double", "bool": "bool", "handle": "void*",
        "float16": "ushort", "bfloat16": "ushort",
    }  # fmt: skip
    bool_memory: ClassVar[str] = "char"
    suffixes: ClassVar[dict[str, str]] = {"uint32": "U", "int64": "L", "uint64": "UL", "float32": "f"}
    restrict: ClassVar[str] = "restrict"
    scopes: ClassVar[dict[str, str]] = {"shared": "__local ", "shared.dyn": "__local "}
    pointer_scopes: ClassVar[dict[str, str]] = {
        "global": "__global ", "shared": "__local ", "shared.dyn": "__local ", "local": "__private ",
    }  # fmt: skip
    constant_scope: ClassVar[str] = "__constant "
    kernel_head: ClassVar[str] = "__kernel void "
    sized_kernel_head: ClassVar[str] = "__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void "
    thread_axes: ClassVar[dict[str, str]] = {
        **{f"blockIdx.{axis}": f"(int)get_group_id({n})" for n, axis in enumerate("xyz")},
        **{f"threadIdx.{axis}": f"(int)get_local_id({n})" for n, axis in enumerate("xyz")},
    }
    barriers: ClassVar[dict[str, str]] = {
        "shared": "barrier(CLK_LOCAL_MEM_FENCE);",
        "shared.dyn": "barrier(CLK_LOCAL_MEM_FENCE);",
        "global": "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        "warp": "",
    }
    math_functions: ClassVar[dict[str, str]] = {**{name: name for name in _FUNCTIONS}, "nearbyint": "rint"}
    single_suffix: ClassVar[str] = ""
    reserved: ClassVar[frozenset[str]] = frozenset(_WORDS.split()) | _VECTORS
    typed_helpers: ClassVar[dict[str, str]] = gpu_like.helpers_with("static inline ", {})
    fixed_helpers: ClassVar[dict[str, str]] = _FIXED
    bits_helper: ClassVar[str] = "static inline {new} {name}({old} x) { return as_{new}(x); }"
    aligned_access: ClassVar[bool] = False
    # The widest vector has sixteen lanes.
    widest: ClassVar[int] = 128
    calls: ClassVar[dict] = {
        **GpuLike.calls,
        "tir.popcount": integer_function({"uint32": "(int)popcount", "uint64": "(int)popcount"}),
        "tir.clz": integer_function({"uint32": "(int)clz", "uint64": "(int)clz"}),
        "tir.atomic_add": _atomic_add,
    }

    def copy(self, array: str, place: str, first: int, dtype: str, count: int, var: Var, load: bool) -> None:
        lanes = f"{array} + {first}" if first else array
        if count == 1:
            here, there = f"{array}[{first}]", f"*({place})"
            self.line(f"{here} = {there};" if load else f"{there} = {here};")
        elif load:
            self.line(f"vstore{count}(vload{count}(0, {place}), 0, {lanes});")
        else:
            self.line(f"vstore{count}(vload{count}(0, {lanes}), 0, {place});")

    def pieces(self, dtype, buffer, index):
        parts = super().pieces(dtype, buffer, index)
        limit = 16
        return [(first + k, min(limit, count - k)) for first, count in parts for k in range(0, count, limit)]


class OpenCLHalf(OpenCL):
    """A printer for OpenCL C with cl_khr_fp16, which supports float16 arithmetic."""

    native_16_bit_floats: ClassVar[frozenset[str]] = frozenset(("float16",))
    scalar_types: ClassVar[dict[str, str]] = {**OpenCL.scalar_types, "float16": "half"}
    suffixes: ClassVar[dict[str, str]] = {**OpenCL.suffixes, "float16": "h"}


def emit(mod: IRModule, target: Target) -> tuple[str, dict[str, gpu_like.Kernel]]:
    """Return the source of a module and its kernels."""
    dialect = OpenCLHalf if target.attrs.get("supports_float16") else OpenCL
    source, kernels = emit_kernels(prim_functions(mod), dialect, gpu_like.limits_of(target))
    body = "\n".join([*source.functions, *source.helpers.values(), *source.constants])
    head = ["/* Generated by TVM Classic: OpenCL C 1.2. */"]
    if "double" in body:
        head.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    if dialect is OpenCLHalf and "half" in body:
        head.append("#pragma OPENCL EXTENSION cl_khr_fp16 : enable")
    if "atom_add" in body or "atom_cmpxchg" in body:
        head.append("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable")
    return kernel_text(source, head), kernels


def build(mod: IRModule, target: Target) -> Module:
    text, kernels = emit(mod, target)
    return device_module.build("opencl", [compile_for_device(text, "")], kernels)


def compile_for_device(text: str, arch: str) -> device_module.Image:
    """Return the source itself; the driver of the device compiles it."""
    return device_module.Image("opencl", "", text.encode())


__all__ = ["OpenCL", "OpenCLHalf", "build", "compile_for_device", "emit"]
