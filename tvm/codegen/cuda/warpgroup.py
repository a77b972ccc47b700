"""Products by a warpgroup, four warps together, of matrices in shared memory (``wgmma``, sm_90a).

The unit is told of a matrix by a descriptor: where it begins, how far apart groups of it lie, and the pattern of its
rows of 128 bytes. Matrices lie one of two ways. Along the sum: rows of 128 bytes, one below the other. Across it: for
each 128 bytes of columns a block with one row per term. Sums are registers of all 128 threads, each warp having sixteen
of 64 rows; they are nobody's while products are on their way.
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
# Threads, and rows of one product.
THREADS, ROWS = 128, 64
# Bytes of a row as the unit reads it, of the terms of one product, and of eight rows.
ROW, TERMS, GROUP = 128, 32, 1024
_KINDS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
# In the upper word of a descriptor: rows of 128 bytes whose pieces change places.
_SWIZZLE = 1 << 30


class Matrix(NamedTuple):
    """How an operand lies, in units of sixteen bytes."""

    along: bool
    # Between blocks of columns; of no meaning where rows go along the sum.
    lead: int
    # From the terms of one product to those of the next, and from 64 rows to the next.
    step: int
    down: int


def matrix(p: Cuda, dtype: str, along: bool, stride: int) -> Matrix:
    """``stride``: elements between rows that go along the sum, or between blocks of columns."""
    size = info(dtype).bytes
    if along:
        if stride * size != ROW:
            raise TVMError(f"{p.name}: rows of a matrix for ptx_wgmma are {ROW} bytes apart, got {stride * size}")
        return Matrix(True, 1, TERMS // 16, ROWS * ROW // 16)
    if size != 2:
        raise TVMError(f"{p.name}: ptx_wgmma turns 16-bit numbers only; matrices of {dtype} have to lie along the sum")
    if stride * size % GROUP:
        raise TVMError(f"{p.name}: blocks of a matrix for ptx_wgmma begin at multiples of {GROUP} bytes")
    lead = stride * size // 16
    return Matrix(False, lead, TERMS // size * ROW // 16, lead * (ROWS * size // ROW))


_DESCRIPTOR = _INLINE + """unsigned long long tvm_matrix_descriptor(const void* shared, unsigned lead, unsigned high) {
  unsigned low = ((unsigned)__cvta_generic_to_shared(shared) >> 4 & 0x3fff) | lead << 16;
  return (unsigned long long)high << 32 | low;
}"""
_FENCE = _INLINE + """void tvm_warpgroup_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}"""
_COMMIT = _INLINE + """void tvm_warpgroup_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}"""
# What is written as usual becomes visible to units that run beside the program.
_VISIBLE = _INLINE + """void tvm_warpgroup_visible() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}"""


def _instruction(p: Cuda, dtype: str, columns: int, left: Matrix, right: Matrix) -> str:
    """The name of the function around one instruction."""
    kind, count = _KINDS[dtype], ROWS * columns // THREADS
    shape = f"m{ROWS}n{columns}k{TERMS // info(dtype).bytes}"
    turned = f", {int(not left.along)}, {int(not right.along)}" if info(dtype).bytes == 2 else ""
    name = f"tvm_wgmma_{shape}_{kind}" + turned.replace(", ", "_")
    sums = ", ".join(f"%{i}" for i in range(count))
    p.source.add_helper(name, _INLINE + f"""void {name}(float* d, unsigned long long a, unsigned long long b) {{
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} "
               "{{{sums}}}, %{count}, %{count + 1}, p, 1, 1{turned}; }}"
               : {', '.join(f'"+f"(d[{i}])' for i in range(count))}
               : "l"(a), "l"(b));
}}""")
    return name


def multiply(p: Cuda, node: Call) -> str:
    from .matrix import number_of, text_of

    dtype = text_of(node.args[0], "the type of ptx_wgmma")
    rows, columns, terms = (number_of(a, "the shape of ptx_wgmma") for a in node.args[1:4])
    along = [bool(number_of(node.args[at], "the layout of ptx_wgmma")) for at in (7, 10)]
    strides = [number_of(node.args[at], "a stride of ptx_wgmma") for at in (8, 11)]
    check(p, dtype, rows, columns, terms)
    left, right = (matrix(p, dtype, x, stride) for x, stride in zip(along, strides))
    call = _instruction(p, dtype, columns, left, right)
    for name, text in (("tvm_matrix_descriptor", _DESCRIPTOR), ("tvm_warpgroup_begin", _FENCE),
                       ("tvm_warpgroup_commit", _COMMIT)):  # fmt: skip
        p.source.add_helper(name, text)
    name = f"tvm_warpgroup_product_{_KINDS[dtype]}_{rows}x{columns}x{terms}_" + "_".join(
        f"{'k' if m.along else 'n'}{m.lead}" for m in (left, right)
    )
    high = GROUP // 16 | _SWIZZLE
    each = ROWS * columns // THREADS
    lines = [f"  {call}(d + {m * each}, x + {m * left.down + k * left.step}, y + {k * right.step});"
             for k in range(terms * info(dtype).bytes // TERMS) for m in range(rows // ROWS)]
    p.source.add_helper(name, _INLINE + f"""void {name}(float* d, const void* a, const void* b) {{
  const unsigned long long x = tvm_matrix_descriptor(a, {left.lead}, 0x{high:x});
  const unsigned long long y = tvm_matrix_descriptor(b, {right.lead}, 0x{high:x});
  tvm_warpgroup_begin();
{chr(10).join(lines)}
  tvm_warpgroup_commit();
}}""")
    sums, _ = p.pointer(node.args[4])
    count = rows * columns // THREADS
    places = [bare(p.pointer(node.args[at])[0]) for at in (6, 9)]
    p.line(f"{name}({sums} + {p.value(node.args[5])} * {count}, {', '.join(places)});")
    return "0"


def check(p: Cuda, dtype: str, rows: int, columns: int, terms: int) -> None:
    if not p.architecture.has_warpgroups:
        raise TVMError(f"{p.name}: ptx_wgmma is an instruction of sm_90a alone; compile with -arch=sm_90a")
    if dtype not in _KINDS:
        raise TVMError(f"{p.name}: ptx_wgmma multiplies {', '.join(_KINDS)}, got {dtype}")
    if rows % ROWS or columns % 8 or not 8 <= columns <= 256 or terms * info(dtype).bytes % TERMS:
        raise TVMError(
            f"{p.name}: ptx_wgmma multiplies multiples of {ROWS} rows, 8, 16, ... or 256 columns and multiples of "
            f"{TERMS // info(dtype).bytes} terms of {dtype}; got {rows} x {columns} x {terms}"
        )


def wait(p: Cuda, node: Call) -> str:
    """Until at most so many groups of products are on their way; the sums may be looked at when none is."""
    from .matrix import number_of

    left = number_of(node.args[0], "the number of groups ptx_wgmma_wait may leave")
    name = f"tvm_warpgroup_wait_{left}"
    p.source.add_helper(name, _INLINE + f"""void {name}() {{
  asm volatile("wgmma.wait_group.sync.aligned {left};" ::: "memory");
}}""")
    p.line(f"{name}();")
    if len(node.args) > 1:
        fragment = p.fragments[node.args[1]]
        # Nothing of the sums is taken from before the wait.
        p.source.add_helper("tvm_warpgroup_hold", _INLINE + """void tvm_warpgroup_hold(float& x) {
  asm volatile("" : "+f"(x) :: "memory");
}""")
        p.line("#pragma unroll")
        i = p.fresh("i")
        p.line(f"for (int {i} = 0; {i} < {fragment.registers.count}; ++{i}) "
               f"tvm_warpgroup_hold({p.value(node.args[1])}[{i}]);")
    return "0"


def visible(p: Cuda) -> None:
    """Before a barrier: what this thread wrote to shared memory is there for products behind it."""
    p.source.add_helper("tvm_warpgroup_visible", _VISIBLE)
    p.line("tvm_warpgroup_visible();")


def store(p: Cuda, fragment: Fragment, source: str, target: str, stride: str, layout: str) -> None:
    """Sums to memory, two neighbours at a time."""
    if layout != "row":
        raise TVMError(f"{p.name}: sums of a warpgroup are stored row by row")
    rows, columns, _ = fragment.shape
    name = f"tvm_warpgroup_store_{rows}x{columns}"
    p.source.add_helper(name, _INLINE + f"""void {name}(float* y, const float* x, int stride) {{
  const int thread = threadIdx.x % {THREADS};
  y += (thread / 32 * 16 + thread % 32 / 4) * stride + thread % 4 * 2;
  #pragma unroll
  for (int m = 0; m < {rows // ROWS}; ++m) {{
    #pragma unroll
    for (int i = 0; i < {columns // 4}; ++i) {{
      float2 pair = {{x[m * {columns // 2} + 2 * i], x[m * {columns // 2} + 2 * i + 1]}};
      *(float2*)(y + (m * {ROWS} + i % 2 * 8) * stride + i / 2 * 8) = pair;
    }}
  }}
}}""")
    p.line(f"{name}((float*){target}, {source}, {bare(stride)});")
