"""Fragments in the register layout of ``mma`` instructions (sm_75 and newer).

A fragment of 16 x 16 float16 or bfloat16 (or 16 x 8 float32, computed as tf32) consists of four 32-bit registers of
each thread, which one ``ldmatrix`` loads from shared memory. An accumulator of 16 x 16 float32 consists of two adjacent
m16n8 tiles in eight registers. Because this layout is documented, unlike that of ``wmma``, accumulators can be stored
directly from registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.prim import Call, PrimExpr, Var
from ...ir.visit import pre_order
from ..c.names import bare

if TYPE_CHECKING:
    from .build import Cuda
    from .matrix import Fragment

_INLINE = "static __device__ __forceinline__ "
# Type of the operands -> (m, n, k) of one fragment matmul.
SHAPES = {"float16": (16, 16, 16), "bfloat16": (16, 16, 16), "float32": (16, 16, 8)}

# (operand, layout) -> row and column of the eight (or four) elements whose address a lane passes to ldmatrix, and
# whether ldmatrix transposes them.
_LDMATRIX_ADDRESSES = {
    ("a", "row"): ("lane % 16", "lane / 16 * {half}", False),
    ("a", "col"): ("lane / 16 * 8 + lane % 8", "lane / 8 % 2 * 8", True),
    ("b", "col"): ("lane / 16 * 8 + lane % 8", "lane / 8 % 2 * {half}", False),
    ("b", "row"): ("lane % 16", "lane / 16 * 8", True),
}
# Row and column of register i of a lane if ldmatrix cannot be used: it transposes only 2-byte elements.
_TF32_TRANSPOSED = {
    ("a", "col"): ("lane % 4 + i / 2 * 4", "lane / 4 + i % 2 * 8"),
    ("b", "row"): ("lane % 4 + i % 2 * 4", "lane / 4 + i / 2 * 8"),
}
_ROUND = """  #pragma unroll
  for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[i]) : "f"(__uint_as_float(y[i])));
"""


def are_known(p: Cuda, body, fragments: dict[Var, Fragment]) -> bool:
    """Return whether all fragments of a kernel have ``mma`` shapes and load their operands from shared memory."""
    operands = {f.dtype for f in fragments.values() if f.use != "c"}
    if len(operands) != 1 or not operands <= p.architecture.mma_k.keys():
        return False
    shape = SHAPES[next(iter(operands))]
    if any(f.shape != shape or f.use == "c" and f.dtype != "float32" for f in fragments.values()):
        return False
    for node in pre_order(body):
        if isinstance(node, Call) and getattr(node.op, "name", "") == "tir.tvm_load_matrix_sync":
            if fragments[node.args[0]].use == "c" or not _memory(p, node.args[5]).startswith("shared"):
                return False
    return True


def _memory(p: Cuda, node: PrimExpr) -> str:
    """Return the storage scope of the memory that a pointer points to."""
    if isinstance(node, Call):
        name = getattr(node.op, "name", "")
        if name == "tir.tvm_access_ptr":
            return p.storage_scope(node.args[1])
        if name == "tir.address_of":
            return p.storage_scope(node.args[0].buffer.data)
    return p.storage_scope(node) if isinstance(node, Var) else ""


def load(p: Cuda, fragment: Fragment, target: str, source: str, stride: str) -> None:
    from .matrix import ldmatrix_helper

    key, single = (fragment.use, fragment.layout), fragment.dtype == "float32"
    kind = p.memory_type(fragment.dtype)
    name = f"tvm_fragment_{fragment.use}_{fragment.layout}_{fragment.dtype}"
    head = f"void {name}(unsigned* y, const {kind}* x, int stride) {{\n  const int lane = threadIdx.x % 32;\n"
    if single and key in _TF32_TRANSPOSED:
        row, column = _TF32_TRANSPOSED[key]
        body = "  #pragma unroll\n  for (int i = 0; i < 4; ++i) "
        body += f"y[i] = __float_as_uint(x[({row}) * stride + {column}]);\n"
    else:
        row, column, flip = _LDMATRIX_ADDRESSES[key]
        call = ldmatrix_helper(p, 4, flip, "b16")
        body = f"  {call}(y, x + ({row}) * stride + {column});\n".replace("{half}", "4" if single else "8")
    p.source.add_helper(name, _INLINE + head + body + (_ROUND if single else "") + "}")
    p.line(f"{name}({target}, (const {kind}*){source}, {bare(stride)});")


_STORE = """void tvm_fragment_store_row(float* y, const float* x, int stride) {
  const int lane = threadIdx.x % 32;
  y += lane / 4 * stride + lane % 4 * 2;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 pair = {x[2 * i], x[2 * i + 1]};
    *(float2*)(y + i % 2 * 8 * stride + i / 2 * 8) = pair;
  }
}"""
_STORE_TRANSPOSED = """void tvm_fragment_store_col(float* y, const float* x, int stride) {
  const int lane = threadIdx.x % 32;
  y += lane / 4 + lane % 4 * 2 * stride;
  #pragma unroll
  for (int i = 0; i < 8; ++i) y[i / 2 % 2 * 8 + (i / 4 * 8 + i % 2) * stride] = x[i];
}"""


def store(p: Cuda, source: str, target: str, stride: str, layout: str) -> None:
    name = f"tvm_fragment_store_{layout}"
    p.source.add_helper(name, _INLINE + (_STORE if layout == "row" else _STORE_TRANSPOSED))
    p.line(f"{name}((float*){target}, {source}, {bare(stride)});")


def multiply(p: Cuda, dtype: str, pointers: tuple[str, str, str, str]) -> None:
    """Print d = a @ b + c as two matmuls with n = 8."""
    from .matrix import mma_helper

    kind = {"float16": "fp16", "bfloat16": "bf16", "float32": "tf32"}[dtype]
    mma_k = p.architecture.mma_k[dtype]
    mma = mma_helper(p, f"m16n8k{mma_k}", kind, kind, "fp32")
    count = SHAPES[dtype][2] // mma_k
    name = f"tvm_fragment_product_{dtype}"
    lines = [f"    {mma}(d + 4 * i, a + {2 * k}, b + 2 * i + {k});" for k in range(count)]
    head = f"void {name}(float* d, const unsigned* a, const unsigned* b, const float* c)"
    p.source.add_helper(
        name,
        _INLINE
        + f"""{head} {{
  #pragma unroll
  for (int i = 0; i < 8; ++i) d[i] = c[i];
  #pragma unroll
  for (int i = 0; i < 2; ++i) {{
{chr(10).join(lines)}
  }}
}}""",
    )
    p.line(f"{name}({', '.join(pointers)});")
