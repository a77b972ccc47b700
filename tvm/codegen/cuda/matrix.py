"""Tensor cores and asynchronous copies of NVIDIA GPUs, as functions around PTX instructions.

Each function is defined once and takes pointers; inlining removes the calls. Fragment matmuls keep the fragments in
arrays of 32-bit registers; ``index`` is the index of a fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...dtype import element, info
from ...error import TVMError
from ...ir.prim import Call, IntImm, PrimExpr, StringImm, Var
from ...ir.visit import pre_order
from ..c.names import addend, bare
from . import fragments as cuda_fragments
from . import warpgroup as cuda_warpgroup

if TYPE_CHECKING:
    from .build import Cuda

_INLINE = "static __device__ __forceinline__ "
# Type names in calls -> (name in PTX, bits).
_PTX_TYPES = {
    "fp16": ("f16", 16), "float16": ("f16", 16), "bf16": ("bf16", 16), "bfloat16": ("bf16", 16),
    "tf32": ("tf32", 32), "fp32": ("f32", 32), "float32": ("f32", 32), "fp64": ("f64", 64), "float64": ("f64", 64),
    "int8": ("s8", 8), "uint8": ("u8", 8), "int4": ("s4", 4), "uint4": ("u4", 4), "int1": ("b1", 1), "uint1": ("b1", 1),
    "int32": ("s32", 32), "e4m3": ("e4m3", 8), "e5m2": ("e5m2", 8),
}  # fmt: skip


def text_of(node: PrimExpr, what: str) -> str:
    if not isinstance(node, StringImm):
        raise TVMError(f"{what} must be a string, got {node}")
    return node.value


def number_of(node: PrimExpr, what: str) -> int:
    if not isinstance(node, IntImm):
        raise TVMError(f"{what} must be a literal number, got {node}")
    return node.value


def pointer_to(p: Cuda, node: PrimExpr, dtype: str, offset: PrimExpr | None = None) -> str:
    """Return a pointer to elements of ``dtype``, advanced by ``offset`` elements."""
    text, var = p.pointer(node)
    have = p.pointees.get(var) if isinstance(node, Var) else None
    if have is None or p.memory_type(have) != p.memory_type(dtype):
        text = f"(({p.memory_type(dtype)}*){text})"
    if offset is None or (isinstance(offset, IntImm) and offset.value == 0):
        return text
    return f"({text} + {p.value(offset)})"


def _list(registers: list[str], first: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(len(registers))) + "}"


# Asynchronous copies

_COPY = (
    _INLINE
    + """void tvm_copy_async_{size}(void* shared, const void* global, bool wanted) {
#if __CUDA_ARCH__ >= 800
  unsigned place = (unsigned)__cvta_generic_to_shared(shared);
  int count = wanted ? {size} : 0;
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;" :: "r"(place), "l"(global), "r"(count));
#else
  {type} zero = {};
  *({type}*)shared = wanted ? *(const {type}*)global : zero;
#endif
}"""
)
_COPY_TYPES = {4: "unsigned", 8: "uint2", 16: "uint4"}


def _copy_async(p: Cuda, node: Call) -> str:
    dtype = element(node.dtype) if node.dtype not in ("", "void", "handle") else "uint8"
    target, target_offset, source, source_offset, size = node.args[:5]
    count = number_of(size, "the size of ptx_cp_async")
    if count not in _COPY_TYPES:
        raise TVMError(f"{p.name}: ptx_cp_async: the size must be 4, 8 or 16 bytes, got {count}")
    name = f"tvm_copy_async_{count}"
    text = _COPY.replace("{size}", str(count)).replace("{type}", _COPY_TYPES[count])
    # Only copies of 16 bytes can bypass the L1 cache.
    p.source.add_helper(name, text.replace("{cache}", "cg" if count == 16 else "ca"))
    wanted = bare(p.value(node.args[5])) if len(node.args) > 5 else "true"
    pointers = (pointer_to(p, target, dtype, target_offset), pointer_to(p, source, dtype, source_offset))
    p.line(f"{name}({bare(pointers[0])}, {bare(pointers[1])}, {wanted});")
    return "0"


_COMMIT = (
    _INLINE
    + """void tvm_copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}"""
)
_WAIT = (
    _INLINE
    + """void tvm_copy_async_wait_{count}() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group {count};" ::: "memory");
#endif
}"""
)


def _commit(p: Cuda, node: Call) -> str:
    p.source.add_helper("tvm_copy_async_commit", _COMMIT)
    p.line("tvm_copy_async_commit();")
    return "0"


def _wait(p: Cuda, node: Call) -> str:
    count = number_of(node.args[0], "the number of groups ptx_wait_group may leave")
    name = f"tvm_copy_async_wait_{count}"
    p.source.add_helper(name, _WAIT.replace("{count}", str(count)))
    p.line(f"{name}();")
    return "0"


# Barriers in shared memory (sm_90)

_BARRIERS = "tvm_barriers"
_BARRIER_CODE = {
    "tir.ptx_init_barrier_thread_count": (
        "tvm_barrier_init", "int threads",
        '"mbarrier.init.shared.b64 [%0], %1;" :: "r"(place), "r"(threads) : "memory"',
    ),
    "tir.ptx_arrive_barrier": (
        "tvm_barrier_arrive", "", '"{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(place) : "memory"',
    ),
    "tir.ptx_arrive_barrier_expect_tx": (
        "tvm_barrier_expect", "int bytes",
        '"{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" :: "r"(place), "r"(bytes) : "memory"',
    ),
    "tir.ptx_cp_async_barrier": (
        "tvm_barrier_copies", "", '"cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(place) : "memory"',
    ),
    "tir.ptx_wait_barrier": (
        "tvm_barrier_wait", "",
        '"{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @p bra done; bra again; done: }" '
        ':: "r"(place) : "memory"',
    ),
}  # fmt: skip


def _create_barriers(p: Cuda, node: Call) -> str:
    count = number_of(node.args[0], "the number of barriers")
    p.head.append(f"  __shared__ __align__(8) unsigned long long {_BARRIERS}[{count}];")
    p.shared_bytes += 8 * count
    return "0"


def _barrier_call(p: Cuda, node: Call) -> str:
    name, extra, code = _BARRIER_CODE[node.op.name]
    more = f", {extra}" if extra else ""
    code = code.replace("again", "again_%=").replace("done", "done_%=")
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}(unsigned long long* barrier{more}) {{
  unsigned place = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile({code});
}}""",
    )
    operands = "".join(f", {bare(p.value(a))}" for a in node.args[1:])
    p.line(f"{name}({_BARRIERS} + {p.value(node.args[0])}{operands});")
    return "0"


_BULK = (
    _INLINE
    + """void tvm_copy_bulk(void* shared, const void* global, int bytes, unsigned long long* barrier) {
  unsigned place = (unsigned)__cvta_generic_to_shared(shared);
  unsigned done = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(place), "l"(global), "r"(bytes), "r"(done) : "memory");
}"""
)


def _copy_bulk(p: Cuda, node: Call) -> str:
    dtype = element(node.dtype) if node.dtype not in ("", "void", "handle") else "uint8"
    target, target_offset, source, source_offset, size, barrier = node.args[:6]
    p.source.add_helper("tvm_copy_bulk", _BULK)
    pointers = (pointer_to(p, target, dtype, target_offset), pointer_to(p, source, dtype, source_offset))
    words = ", ".join((*map(bare, pointers), bare(p.value(size)), f"{_BARRIERS} + {p.value(barrier)}"))
    p.line(f"tvm_copy_bulk({words});")
    return "0"


# mma and ldmatrix: fragments in a documented register layout


def ldmatrix_helper(p: Cuda, number: int, flip: bool, kind: str) -> str:
    """Return the name of the function that loads ``number`` matrices of 8 x 8."""
    name = f"tvm_ldmatrix_x{number}{'_trans' if flip else ''}"
    results = [f'"=r"(y[{i}])' for i in range(number)]
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}(unsigned* y, const void* shared) {{
  unsigned place = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("ldmatrix.sync.aligned.m8n8.x{number}{".trans" if flip else ""}.shared.{kind} {_list(results, 0)}, \
[%{number}];"
               : {", ".join(results)} : "r"(place));
}}""",
    )
    return name


def _ldmatrix(p: Cuda, node: Call) -> str:
    transposed, count, kind, local, local_offset, shared, shared_offset = node.args[:7]
    number = number_of(count, "the number of matrices of ptx_ldmatrix")
    flip = bool(number_of(transposed, "trans of ptx_ldmatrix"))
    kind = text_of(kind, "the type of ptx_ldmatrix").lstrip(".")
    dtype = element(node.dtype)
    name = ldmatrix_helper(p, number, flip, kind)
    pointers = (pointer_to(p, local, dtype, local_offset), pointer_to(p, shared, dtype, shared_offset))
    p.line(f"{name}((unsigned*){pointers[0]}, {bare(pointers[1])});")
    return "0"


class Operands(NamedTuple):
    """The registers of an operand of an mma instruction: their number, constraint letter in inline assembly, and C
    type."""

    count: int
    letter: str
    type: str


def registers(elements: int, kind: str) -> Operands:
    """Return the number of registers per thread of a warp for ``elements`` elements."""
    name, bits = _PTX_TYPES[kind]
    if name == "f32":
        return Operands(elements // 32, "f", "float")
    if name == "f64":
        return Operands(elements // 32, "d", "double")
    return Operands(max(elements * bits // 1024, 1), "r", "unsigned")


def _ptx_type(p: Cuda, node: PrimExpr) -> str:
    kind = text_of(node, "the type of a matrix")
    if kind not in _PTX_TYPES:
        raise TVMError(f"{p.name}: mma does not support matrices of type '{kind}'; use one of {', '.join(_PTX_TYPES)}")
    return kind


def _shape(p: Cuda, node: PrimExpr) -> tuple[str, int, int, int]:
    text = text_of(node, "the shape of an mma instruction")
    try:
        m, rest = text.removeprefix("m").split("n")
        n, k = rest.split("k")
        return text, int(m), int(n), int(k)
    except ValueError:
        raise TVMError(f"{p.name}: the shape of an mma instruction must have the form m16n8k16, got '{text}'") from None


def _mma_registers(shape: tuple[str, int, int, int], kinds: list[str], sparse: bool) -> list[Operands]:
    _, m, n, k = shape
    return [registers(size, kind) for size, kind in zip((m * k // (2 if sparse else 1), k * n, m * n), kinds)]


def _mma_function(
    p: Cuda,
    known: tuple[str, int, int, int],
    layouts: list[str],
    kinds: list[str],
    saturate: str,
    operator: str,
    selector: int | None,
) -> str:
    """Return the name of the function around an mma instruction."""
    sparse, shape = selector is not None, known[0]
    a, b, c = _mma_registers(known, kinds, sparse)
    pa, pb, pc = (_PTX_TYPES[kind][0] for kind in kinds)
    head = f"mma{'.sp' if sparse else ''}.sync.aligned.{shape}.{layouts[0]}.{layouts[1]}{saturate}.{pc}.{pa}.{pb}.{pc}"
    name = "tvm_" + (head + operator).replace(".sync.aligned", "").replace(".", "_")
    results = [f'"+{c.letter}"(c[{i}])' for i in range(c.count)]
    inputs = [f'"{x.letter}"({letter}[{i}])' for letter, x in (("a", a), ("b", b)) for i in range(x.count)]
    at_a, at_b = c.count, c.count + a.count
    operands = f"{_list(results, 0)}, {_list(inputs[: a.count], at_a)}, {_list(inputs[a.count :], at_b)}, "
    operands += _list(results, 0)
    more = ", unsigned e" if sparse else ""
    if sparse:
        operands += f", %{at_b + b.count}, {selector}"
        inputs.append('"r"(e)')
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}({c.type}* c, const {a.type}* a, const {b.type}* b{more}) {{
  asm("{head}{operator} {operands};"
      : {", ".join(results)}
      : {", ".join(inputs)});
}}""",
    )
    return name


def mma_helper(p: Cuda, text: str, *kinds: str) -> str:
    """Return the name of the function around an mma instruction for a dense row-major by column-major matmul."""
    return _mma_function(p, _shape(p, StringImm(text)), ["row", "col"], list(kinds), "", "", None)


def _mma(p: Cuda, node: Call) -> str:
    sparse = node.op.name == "tir.ptx_mma_sp"
    layouts = [text_of(a, "the layout of a matrix") for a in node.args[1:3]]
    kinds = [_ptx_type(p, a) for a in node.args[3:6]]
    rest = node.args[12:]
    shape = _shape(p, node.args[0])
    selector = number_of(rest[2], "the selector of a sparse mma instruction") if sparse else None
    name = _mma_function(p, shape, layouts, kinds, *_mma_options(p, rest, sparse), selector)
    a, b, c = _mma_registers(shape, kinds, sparse)
    texts = []
    for position, kind in ((10, c), (6, a), (8, b)):
        pointer, _ = p.pointer(node.args[position])
        texts.append(f"({kind.type}*)({pointer} + {addend(p.value(node.args[position + 1]))})")
    if sparse:
        pointer, _ = p.pointer(rest[0])
        texts.append(f"*(unsigned*)({pointer} + {addend(p.value(rest[1]))})")
    p.line(f"{name}({', '.join(texts)});")
    return "0"


def _mma_options(p: Cuda, rest, sparse: bool) -> tuple[str, str]:
    """Return the options of an mma instruction: .satfinite and the bit operation."""
    flag = rest[3] if sparse and len(rest) > 3 else rest[0] if rest and not sparse else None
    saturate = ".satfinite" if isinstance(flag, IntImm) and flag.value else ""
    word = rest[1].value if not sparse and len(rest) > 1 and isinstance(rest[1], StringImm) else ""
    return saturate, f".{word}.popc" if word else ""


def _mma_fill(p: Cuda, node: Call) -> str:
    count, pointer, offset = node.args[:3]
    dtype = element(node.dtype)
    place = pointer_to(p, pointer, dtype, offset)
    with _loop(p, bare(p.value(count))) as name:
        p.line(f"{place}[{name}] = {p.literal(dtype, 0)};")
    return "0"


def _mma_store(p: Cuda, node: Call) -> str:
    """Print a store of an accumulator that consists of two m16n8 tiles, from the registers of a warp to memory."""
    m, n = (number_of(a, "the shape of mma_store") for a in node.args[:2])
    if (m, n) != (16, 16):
        raise TVMError(f"{p.name}: mma_store supports tiles of 16 x 16, got {m} x {n}")
    target, source, offset, stride = node.args[2:6]
    dtype = element(node.dtype)
    to, from_ = pointer_to(p, target, dtype), pointer_to(p, source, dtype, offset)
    with _loop(p, "8") as i:
        row = f"({i} / 2 % 2 * 8 + (int)threadIdx.x % 32 / 4)"
        column = f"({i} / 4 * 8 + (int)threadIdx.x % 4 * 2 + {i} % 2)"
        p.line(f"{to}[{row} * {p.value(stride)} + {column}] = {from_}[{i}];")
    return "0"


class _loop:
    """A context manager that prints an unrolled loop and returns the name of its variable."""

    def __init__(self, p: Cuda, count: str):
        self.p, self.count = p, count

    def __enter__(self) -> str:
        name = self.p.fresh("i")
        self.p.line("#pragma unroll")
        self.p.open(f"for (int {name} = 0; {name} < {self.count}; ++{name}) {{")
        return name

    def __exit__(self, *error) -> None:
        self.p.close()


# wmma: fragments in an undocumented register layout


class Fragment(NamedTuple):
    """The fragment in a variable of scope wmma.*."""

    use: str  # The operand: a, b, or c for the accumulator
    shape: tuple[int, int, int]
    layout: str
    dtype: str
    registers: Operands
    # Whether the register layout is that of mma.
    known: bool = False
    # Whether the fragment is distributed over the four warps of a warpgroup.
    of_group: bool = False

    @property
    def elements(self) -> int:
        m, n, k = self.shape
        return {"a": m * k, "b": k * n, "c": m * n}[self.use]


_USES = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "c"}


def fragment_registers(use: str, shape: tuple[int, int, int], dtype: str) -> Operands:
    m, n, k = shape
    if dtype == "float16" and use in "ab":
        # Two threads hold each element.
        return Operands(8, "r", "unsigned")
    return registers({"a": m * k, "b": k * n, "c": m * n}[use], dtype)


def fragments_of(p: Cuda, body) -> dict[Var, Fragment]:
    """Return the fragments of a kernel, from the calls that load and fill them."""
    out: dict[Var, Fragment] = {}
    groups: dict[Var, Fragment] = {}
    for node in pre_order(body):
        name = node.op.name if isinstance(node, Call) and hasattr(node.op, "name") else ""
        if name == "tir.ptx_wgmma":
            m, n, k = (number_of(a, "the shape of ptx_wgmma") for a in node.args[1:4])
            count = Operands(m * n // cuda_warpgroup.THREADS, "f", "float")
            groups[node.args[4]] = Fragment("c", (m, n, k), "row", "float32", count, of_group=True)
        if name not in ("tir.tvm_load_matrix_sync", "tir.tvm_fill_fragment"):
            continue
        var = node.args[0]
        m, n, k = (number_of(a, "the shape of a fragment") for a in node.args[1:4])
        layout = "row"
        if name == "tir.tvm_load_matrix_sync":
            layout = text_of(node.args[7], "the layout of a fragment").removesuffix("_major")
        use = _USES.get(p.storage_scope(var))
        dtype = p.declared_pointee(var)
        if use is None or dtype is None:
            raise TVMError(f"{p.name}: {var.name} is not a fragment; use one of the scopes {', '.join(_USES)}")
        known = out.get(var)
        if known is None or name == "tir.tvm_load_matrix_sync":
            out[var] = Fragment(use, (m, n, k), layout, dtype, fragment_registers(use, (m, n, k), dtype))
    out = {var: fragment for var, fragment in out.items() if var not in groups}
    if out and cuda_fragments.are_known(p, body, out):
        for var, fragment in out.items():
            count = Operands(8, "f", "float") if fragment.use == "c" else Operands(4, "r", "unsigned")
            out[var] = fragment._replace(known=True, registers=count)
    return {**out, **groups}


def declare_fragment(p: Cuda, var: Var, count: int) -> None:
    """Print the declaration of the array of registers for ``count`` elements."""
    fragment = p.fragments.get(var)
    if fragment is None:
        raise TVMError(f"{p.name}: fragment {var.name} is never loaded or filled")
    size = -(-count // fragment.elements) * fragment.registers.count
    p.line(f"{fragment.registers.type} {p.bind(var)}[{size}];")


def _fragment(p: Cuda, var: PrimExpr, index: PrimExpr) -> tuple[Fragment, str]:
    fragment = p.fragments.get(var)
    if fragment is None:
        raise TVMError(f"{p.name}: {var} is used as a fragment but never loaded or filled")
    return fragment, f"{p.value(var)} + {p.value(index)} * {fragment.registers.count}"


def _wmma_shape(fragment: Fragment) -> str:
    m, n, k = fragment.shape
    return f"m{m}n{n}k{k}"


def _load_matrix(p: Cuda, node: Call) -> str:
    fragment, place = _fragment(p, node.args[0], node.args[4])
    if fragment.known:
        pointer, _ = p.pointer(node.args[5])
        cuda_fragments.load(p, fragment, place, pointer, p.value(node.args[6]))
        return "0"
    kind, count = _PTX_TYPES[fragment.dtype][0], fragment.registers.count
    head = f"wmma.load.{fragment.use}.sync.aligned.{fragment.layout}.{_wmma_shape(fragment)}.{kind}"
    name = "tvm_" + head.replace(".sync.aligned", "").replace(".", "_")
    results = [f'"={fragment.registers.letter}"(y[{i}])' for i in range(count)]
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}({fragment.registers.type}* y, const void* x, int stride) {{
  asm volatile("{head} {_list(results, 0)}, [%{count}], %{count + 1};"
               : {", ".join(results)} : "l"(x), "r"(stride) : "memory");
}}""",
    )
    pointer, _ = p.pointer(node.args[5])
    p.line(f"{name}({place}, {bare(pointer)}, {bare(p.value(node.args[6]))});")
    return "0"


def _store_matrix(p: Cuda, node: Call) -> str:
    fragment, place = _fragment(p, node.args[0], node.args[4])
    kind, count = _PTX_TYPES[fragment.dtype][0], fragment.registers.count
    layout = text_of(node.args[7], "the layout of a matrix").removesuffix("_major")
    if fragment.of_group:
        pointer, _ = p.pointer(node.args[5])
        cuda_warpgroup.store(p, fragment, place, pointer, p.value(node.args[6]), layout)
        return "0"
    if fragment.known:
        pointer, _ = p.pointer(node.args[5])
        cuda_fragments.store(p, place, pointer, p.value(node.args[6]), layout)
        return "0"
    head = f"wmma.store.d.sync.aligned.{layout}.{_wmma_shape(fragment)}.{kind}"
    name = "tvm_" + head.replace(".sync.aligned", "").replace(".", "_")
    inputs = [f'"{fragment.registers.letter}"(x[{i}])' for i in range(count)]
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}(void* y, const {fragment.registers.type}* x, int stride) {{
  asm volatile("{head} [%0], {_list(inputs, 2)}, %1;"
               :: "l"(y), "r"(stride), {", ".join(inputs)} : "memory");
}}""",
    )
    pointer, _ = p.pointer(node.args[5])
    p.line(f"{name}({bare(pointer)}, {place}, {bare(p.value(node.args[6]))});")
    return "0"


def _fill_fragment(p: Cuda, node: Call) -> str:
    fragment, place = _fragment(p, node.args[0], node.args[4])
    value = node.args[5]
    text = p.value(value)
    if fragment.registers.type == "unsigned" and info(fragment.dtype).bits < 32:
        if not (hasattr(value, "value") and value.value == 0):
            raise TVMError(f"{p.name}: fragments of {fragment.dtype} can only be filled with zero, got {value}")
        text = "0"
    with _loop(p, str(fragment.registers.count)) as i:
        p.line(f"({place})[{i}] = {bare(text)};")
    return "0"


def _mma_sync(p: Cuda, node: Call) -> str:
    d, a, b, c = (_fragment(p, node.args[i], node.args[i + 1]) for i in (0, 2, 4, 6))
    if a[0].known:
        cuda_fragments.multiply(p, a[0].dtype, (d[1], a[1], b[1], c[1]))
        return "0"
    kinds = [_PTX_TYPES[x[0].dtype][0] for x in (d, a, b, c)]
    types = f"{kinds[0]}.{kinds[3]}" if kinds[1] == "f16" else ".".join(kinds)
    head = f"wmma.mma.sync.aligned.{a[0].layout}.{b[0].layout}.{_wmma_shape(a[0])}.{types}"
    name = "tvm_" + head.replace(".sync.aligned", "").replace(".", "_")
    rows = [(letter, x[0].registers) for letter, x in (("d", d), ("a", a), ("b", b), ("c", c))]
    results = [f'"={d[0].registers.letter}"(d[{i}])' for i in range(d[0].registers.count)]
    inputs = [f'"{r.letter}"({letter}[{i}])' for letter, r in rows[1:] for i in range(r.count)]
    lists = ", ".join(_lists([r.count for _, r in rows]))
    arguments = ", ".join(f"{'' if letter == 'd' else 'const '}{r.type}* {letter}" for letter, r in rows)
    p.source.add_helper(
        name,
        _INLINE
        + f"""void {name}({arguments}) {{
  asm volatile("{head} {lists};"
               : {", ".join(results)}
               : {", ".join(inputs)});
}}""",
    )
    p.line(f"{name}({d[1]}, {a[1]}, {b[1]}, {c[1]});")
    return "0"


def _lists(counts: list[int]) -> Iterator[str]:
    first = 0
    for count in counts:
        yield "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
        first += count


CALLS: dict[str, Callable[[Cuda, Call], str]] = {
    "tir.ptx_cp_async": _copy_async,
    "tir.ptx_commit_group": _commit,
    "tir.ptx_wait_group": _wait,
    "tir.ptx_cp_async_bulk": _copy_bulk,
    "tir.create_barriers": _create_barriers,
    **dict.fromkeys(_BARRIER_CODE, _barrier_call),
    "tir.ptx_ldmatrix": _ldmatrix,
    "tir.ptx_mma": _mma,
    "tir.ptx_mma_sp": _mma,
    "tir.mma_fill": _mma_fill,
    "tir.mma_store": _mma_store,
    "tir.tvm_load_matrix_sync": _load_matrix,
    "tir.tvm_store_matrix_sync": _store_matrix,
    "tir.tvm_fill_fragment": _fill_fragment,
    "tir.tvm_mma_sync": _mma_sync,
    "tir.ptx_wgmma": cuda_warpgroup.multiply,
    "tir.ptx_wgmma_wait": cuda_warpgroup.wait,
}
