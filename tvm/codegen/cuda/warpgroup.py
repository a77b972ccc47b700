"""Matmuls by a warpgroup (four warps) with operands in shared memory (``wgmma``, sm_90a).

A descriptor describes a matrix to the instruction: its address, the stride of its row groups, and the swizzle of its
rows of 128 bytes. Matrices have one of two layouts. If k is contiguous: consecutive rows of 128 bytes. If the matrix is
transposed: for each 128 bytes along m or n, a block with one row per k. Accumulators are in registers of all 128
threads; each warp holds 16 of 64 rows. They must not be accessed while a matmul is in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...dtype import info
from ...error import TVMError
from ...ir.prim import Call
from ..c.names import bare

if TYPE_CHECKING:
    from .build import Cuda
    from .matrix import Fragment

_INLINE = "static __device__ __forceinline__ "
# The number of threads of a warpgroup, and the m of one instruction.
THREADS, M = 128, 64
# The size in bytes of a row of an operand tile, of the k of one instruction, and of a group of eight rows.
ROW_BYTES, K_BYTES, GROUP_BYTES = 128, 32, 1024
_KINDS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
# Bit in the upper word of a descriptor: rows of 128 bytes are swizzled.
_SWIZZLE = 1 << 30


class Matrix(NamedTuple):
    """The layout of an operand; strides are in units of 16 bytes."""

    k_contiguous: bool
    # The stride of blocks along m or n; unused if k is contiguous.
    block_stride: int
    # The strides from the k of one instruction to the next, and from 64 rows to the next.
    k_stride: int
    m_stride: int


def matrix(p: Cuda, dtype: str, k_contiguous: bool, stride: int) -> Matrix:
    """Return the layout of an operand. ``stride`` is in elements: between rows if k is contiguous, else between blocks
    along m or n."""
    size = info(dtype).bytes
    if k_contiguous:
        if stride * size != ROW_BYTES:
            raise TVMError(
                f"{p.name}: the row stride of a matrix for ptx_wgmma must be {ROW_BYTES} bytes, got {stride * size}"
            )
        return Matrix(True, 1, K_BYTES // 16, M * ROW_BYTES // 16)
    if size != 2:
        raise TVMError(
            f"{p.name}: ptx_wgmma can only transpose 16-bit operands; {dtype} operands must be contiguous along k"
        )
    if stride * size % GROUP_BYTES:
        raise TVMError(f"{p.name}: blocks of a matrix for ptx_wgmma must be aligned to {GROUP_BYTES} bytes")
    lead = stride * size // 16
    return Matrix(False, lead, K_BYTES // size * ROW_BYTES // 16, lead * (M * size // ROW_BYTES))


_DESCRIPTOR = (
    _INLINE
    + """unsigned long long tvm_matrix_descriptor(const void* shared, unsigned lead, unsigned high) {
  unsigned low = ((unsigned)__cvta_generic_to_shared(shared) >> 4 & 0x3fff) | lead << 16;
  return (unsigned long long)high << 32 | low;
}"""
)
_FENCE = (
    _INLINE
    + """void tvm_warpgroup_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}"""
)
_COMMIT = (
    _INLINE
    + """void tvm_warpgroup_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}"""
)
# Make ordinary stores to shared memory visible to asynchronous instructions.
_VISIBLE = (
    _INLINE
    + """void tvm_warpgroup_visible() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}"""
)


def _instruction(p: Cuda, dtype: str, columns: int, lhs: Matrix, rhs: Matrix) -> str:
    """Return the name of the function around one instruction."""
    kind, count = _KINDS[dtype], M * columns // THREADS
    shape = f"m{M}n{columns}k{K_BYTES // info(dtype).bytes}"
    transposes = f", {int(not lhs.k_contiguous)}, {int(not rhs.k_contiguous)}" if info(dtype).bytes == 2 else ""
    name = f"tvm_wgmma_{shape}_{kind}" + transposes.replace(", ", "_")
    sums = ", ".join(f"%{i}" for i in range(count))
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}(float* d, unsigned long long a, unsigned long long b) {{
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} "
               "{{{sums}}}, %{count}, %{count + 1}, p, 1, 1{transposes}; }}"
               : {", ".join(f'"+f"(d[{i}])' for i in range(count))}
               : "l"(a), "l"(b));
}}""",
    )
    return name


def multiply(p: Cuda, node: Call) -> str:
    from .matrix import number_of, text_of

    dtype = text_of(node.args[0], "the type of ptx_wgmma")
    rows, columns, terms = (number_of(a, "the shape of ptx_wgmma") for a in node.args[1:4])
    k_contiguous = [bool(number_of(node.args[at], "the layout of ptx_wgmma")) for at in (7, 10)]
    strides = [number_of(node.args[at], "a stride of ptx_wgmma") for at in (8, 11)]
    check(p, dtype, rows, columns, terms)
    lhs, rhs = (matrix(p, dtype, x, stride) for x, stride in zip(k_contiguous, strides))
    call = _instruction(p, dtype, columns, lhs, rhs)
    for name, text in (("tvm_matrix_descriptor", _DESCRIPTOR), ("tvm_warpgroup_begin", _FENCE),
                       ("tvm_warpgroup_commit", _COMMIT)):  # fmt: skip
        p.source.add_helper(name, text)
    name = f"tvm_warpgroup_product_{_KINDS[dtype]}_{rows}x{columns}x{terms}_" + "_".join(
        f"{'k' if m.k_contiguous else 'n'}{m.block_stride}" for m in (lhs, rhs)
    )
    high = GROUP_BYTES // 16 | _SWIZZLE
    each = M * columns // THREADS
    lines = [
        f"  {call}(d + {m * each}, x + {m * lhs.m_stride + k * lhs.k_stride}, y + {k * rhs.k_stride});"
        for k in range(terms * info(dtype).bytes // K_BYTES)
        for m in range(rows // M)
    ]
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}(float* d, const void* a, const void* b) {{
  const unsigned long long x = tvm_matrix_descriptor(a, {lhs.block_stride}, 0x{high:x});
  const unsigned long long y = tvm_matrix_descriptor(b, {rhs.block_stride}, 0x{high:x});
  tvm_warpgroup_begin();
{chr(10).join(lines)}
  tvm_warpgroup_commit();
}}""",
    )
    accumulators, _ = p.pointer(node.args[4])
    count = rows * columns // THREADS
    pointers = [bare(p.pointer(node.args[at])[0]) for at in (6, 9)]
    p.line(f"{name}({accumulators} + {p.value(node.args[5])} * {count}, {', '.join(pointers)});")
    return "0"


def check(p: Cuda, dtype: str, m: int, n: int, k: int) -> None:
    if not p.architecture.has_warpgroups:
        raise TVMError(f"{p.name}: ptx_wgmma is only available on sm_90a; compile with -arch=sm_90a")
    if dtype not in _KINDS:
        raise TVMError(f"{p.name}: ptx_wgmma supports the types {', '.join(_KINDS)}, got {dtype}")
    if m % M or n % 8 or not 8 <= n <= 256 or k * info(dtype).bytes % K_BYTES:
        raise TVMError(
            f"{p.name}: ptx_wgmma needs m to be a multiple of {M}, n one of 8, 16, ... 256 and k a multiple of "
            f"{K_BYTES // info(dtype).bytes} for {dtype}; got {m} x {n} x {k}"
        )


def wait(p: Cuda, node: Call) -> str:
    """Print a wait until at most a number of matmul groups is in flight; accumulators may be read when none is."""
    from .matrix import number_of

    left = number_of(node.args[0], "the number of groups ptx_wgmma_wait may leave")
    name = f"tvm_warpgroup_wait_{left}"
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}() {{
  asm volatile("wgmma.wait_group.sync.aligned {left};" ::: "memory");
}}""",
    )
    p.line(f"{name}();")
    if len(node.args) > 1:
        fragment = p.fragments[node.args[1]]
        # The compiler must not read accumulators before the wait.
        p.source.add_helper(
            "tvm_warpgroup_hold",
            _INLINE
            + """void tvm_warpgroup_hold(float& x) {
  asm volatile("" : "+f"(x) :: "memory");
}""",
        )
        p.line("#pragma unroll")
        i = p.fresh("i")
        p.line(
            f"for (int {i} = 0; {i} < {fragment.registers.count}; ++{i}) "
            f"tvm_warpgroup_hold({p.value(node.args[1])}[{i}]);"
        )
    return "0"


def visible(p: Cuda) -> None:
    """Print a fence before a barrier: the stores of this thread to shared memory become visible to later matmuls."""
    p.source.add_helper("tvm_warpgroup_visible", _VISIBLE)
    p.line("tvm_warpgroup_visible();")


def store(p: Cuda, fragment: Fragment, source: str, target: str, stride: str, layout: str) -> None:
    """Print a store of accumulators to memory, two adjacent elements at a time."""
    if layout != "row":
        raise TVMError(f"{p.name}: accumulators of a warpgroup can only be stored in row-major layout")
    rows, columns, _ = fragment.shape
    name = f"tvm_warpgroup_store_{rows}x{columns}"
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}(float* y, const float* x, int stride) {{
  const int thread = threadIdx.x % {THREADS};
  y += (thread / 32 * 16 + thread % 32 / 4) * stride + thread % 4 * 2;
  #pragma unroll
  for (int m = 0; m < {rows // M}; ++m) {{
    #pragma unroll
    for (int i = 0; i < {columns // 4}; ++i) {{
      float2 pair = {{x[m * {columns // 2} + 2 * i], x[m * {columns // 2} + 2 * i + 1]}};
      *(float2*)(y + (m * {M} + i % 2 * 8) * stride + i / 2 * 8) = pair;
    }}
  }}
}}""",
    )
    p.line(f"{name}((float*){target}, {source}, {bare(stride)});")
