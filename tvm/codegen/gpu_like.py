"""Kernels in the C family: the common parts of the OpenCL and CUDA code generators.

A kernel is one PrimFunc of ``split_host_device``. Shared memory is declared at the top of the kernel, wherever the
program allocates it. Vectors are loaded and stored in the largest parts that their alignment allows. Read-only pointers
are ``const``. Kernels return no value and cannot report errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import ClassVar, NamedTuple

from ..arith import Analyzer
from ..dtype import element, info, int_range
from ..error import ScheduleError, TVMError, not_defined
from ..ir.prim import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from ..ir.visit import pre_order
from ..target.target import Target
from ..tir.function import PrimFunc
from ..tir.stmt import Allocate, AllocateConst, AssertStmt, AttrStmt, BufferStore, Stmt
from .c import call as c_call
from .c import expr as c_expr
from .c import helpers as c_helpers
from .c import stmt as c_stmt
from .c import vector as c_vector
from .c.like import CLike
from .c.names import addend, bare, clean, unique
from .c.source import Source

_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
SHARED = ("shared", "shared.dyn")
# Small scalars are passed as these wider types.
PROMOTED = {
    "bool": "int32", "int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32",
    "float16": "float32", "bfloat16": "float32",
}  # fmt: skip


class Kernel(NamedTuple):
    """The properties of a kernel that the runtime needs to launch it."""

    args: tuple[str, ...]
    launch: tuple[str, ...]
    threads: int
    shared: int
    # Whether the kernel itself waits for the preceding kernels, so that it may be launched before they have finished.
    dependent: bool = False


# Calls that only read the memory of their third argument.
_COPIES = ("tir.ptx_cp_async", "tir.ptx_cp_async_bulk")


def written(body) -> set[Var]:
    """Return the variables whose memory may be written by a store or a call."""
    out: set[Var] = set()
    for node in pre_order(body):
        if isinstance(node, BufferStore):
            out.add(node.buffer.data)
        elif isinstance(node, Call):
            source = node.args[2] if getattr(node.op, "name", "") in _COPIES else None
            for arg in node.args:
                if arg is source:
                    continue
                if isinstance(arg, Var) and arg.dtype == "handle":
                    out.add(arg)
                elif isinstance(arg, BufferLoad) and getattr(node.op, "name", "") == "tir.address_of":
                    out.add(arg.buffer.data)
    return out


def _power_of_two(limit: int, coefficient: int, base: int) -> int:
    """Return the largest power of two up to ``limit`` that divides ``coefficient * k + base`` for every k."""
    got = 1
    while got * 2 <= limit and coefficient % (got * 2) == 0 and base % (got * 2) == 0:
        got *= 2
    return got


def _plus(place: str, steps: int) -> str:
    return f"{place} + {steps}" if steps else place


# Statements


def _allocate(p: GpuLike, stmt: Allocate) -> Stmt:
    var, scope = stmt.buffer_var, p.storage_scope(stmt.buffer_var)
    if scope not in SHARED:
        if scope == "global":
            raise TVMError(
                f"{p.name}: buffer {var.name} is allocated inside the kernel in scope global, where all threads of "
                "the device would share it; use scope local or shared (set_scope), or compute it in an earlier kernel"
            )
        return c_stmt.STATEMENTS[Allocate](p, stmt)
    count = info(stmt.dtype).lanes
    for extent in stmt.extents:
        if not isinstance(extent, IntImm):
            raise TVMError(f"{p.name}: buffer {var.name} in scope {scope} needs a constant size, got {extent}")
        count *= extent.value
    c_stmt.own_memory(p, var, stmt.dtype)
    name = unique(clean(var.name), {*p.taken, *p.source.taken})
    # The name is reserved for the whole kernel.
    p.taken[name] = True
    p.names[var] = name
    p.declare_shared(var, stmt.dtype, count)
    return stmt.body


def _allocate_const(p: GpuLike, stmt: AllocateConst) -> Stmt:
    data = stmt.data_or_idx
    array = data.numpy() if hasattr(data, "numpy") else data
    dtype = element(stmt.dtype)
    numbers = [p.literal(dtype, x) for x in array.ravel().tolist()] or ["0"]
    rows = [", ".join(numbers[i : i + 12]) for i in range(0, len(numbers), 12)]
    after = f"[{len(numbers)}] = {{\n  " + ",\n  ".join(rows) + "\n}"
    constant = p.source.constant(stmt.buffer_var.name, p.constant_scope + p.memory_type(dtype), after, p.taken)
    p.private.add(stmt.buffer_var)
    p.pointees[stmt.buffer_var] = dtype
    p.bind(stmt.buffer_var, constant)
    return stmt.body


def _thread_axis(p: GpuLike, stmt: AttrStmt) -> Stmt:
    tag, value = getattr(stmt.node, "thread_tag", ""), stmt.value
    text = p.thread_axes.get(tag)
    if text is None:
        raise TVMError(f"{p.name}: unknown thread axis {tag or stmt.node}; use one of {', '.join(p.thread_axes)}")
    known = value.value if isinstance(value, IntImm) else None
    if tag.startswith("threadIdx."):
        p.block.setdefault(tag, known)
    var = stmt.node.var
    if var not in p.names:
        name = p.bind(var)
        p.line(f"const {p.scalar_type(var.dtype)} {name} = {text};{p.named(var)}")
        p.ranges.bind(var, (0, known - 1 if known is not None else int_range(var.dtype)[1]))
    return stmt.body


# Calls


def _access_ptr(p: GpuLike, node: Call) -> str:
    annotation, data, offset = node.args[:3]
    kind = info(annotation.dtype)
    dtype = element(annotation.dtype)
    have = p.pointees.get(data)
    pointer = p.value(data)
    if have is None or p.memory_type(have) != p.memory_type(dtype):
        pointer = p.view(data, pointer, dtype)
    if isinstance(offset, IntImm) and offset.value == 0:
        return pointer
    steps = p.value(offset) if kind.lanes == 1 else f"{p.value(offset)} * {kind.lanes}"
    return f"({pointer} + {addend(steps)})"


def _extern(p: GpuLike, node: Call) -> str:
    """Print a call of a function of the language, or of source imported with pragma import_c."""
    if not isinstance(node.args[0], StringImm):
        raise TVMError(
            f"{p.name}: the first argument of call_extern must be the name of the function, got {node.args[0]}"
        )
    name = node.args[0].value
    own = p.calls.get("extern." + name)
    if own is not None:
        return own(p, node)
    return f"{name}({', '.join(bare(p.value(a)) for a in node.args[1:])})"


def _barrier(p: GpuLike, node: Call) -> str:
    scope = node.args[0].value if node.args and isinstance(node.args[0], StringImm) else ""
    text = p.barriers.get(scope)
    if text is None:
        raise TVMError(f"{p.name}: {p.language} does not support a barrier for memory of scope '{scope}'")
    # Barriers for two storage scopes may be the same barrier in this language; it is printed once.
    if text and not (p.lines and p.lines[-1].strip() == text):
        p.line(text)
    return "0"


def _nothing(p: GpuLike, node: Call) -> str:
    return "0"


def integer_function(names: dict[str, str]) -> Callable[[GpuLike, Call], str]:
    """Return a function that prints an integer function by the type of its operand."""

    def emit(p: GpuLike, node: Call) -> str:
        dtype = element(node.args[0].dtype)
        bits = info(dtype).bits
        wide = f"uint{max(bits, 32)}"
        own = p.scalar_type(f"uint{bits}")
        text = f"({names[wide]}(({p.scalar_type(wide)})({own}){p.value(node.args[0])}))"
        if "clz" in names[wide] and bits < 32:
            text = f"({text} - {32 - bits})"
        return p.conversion("int32", element(node.dtype), text)

    return emit


def _ldexp(p: GpuLike, node: Call) -> str:
    dtype = element(node.dtype)
    wide = "float64" if dtype == "float64" else "float32"
    x = p.conversion(dtype, wide, p.value(node.args[0]))
    power = p.conversion(element(node.args[1].dtype), "int32", p.value(node.args[1]))
    name = p.math_functions["ldexp"] + (p.single_suffix if wide == "float32" else "")
    return p.conversion(wide, dtype, f"{name}({bare(x)}, {bare(power)})")


CALLS: dict[str, Callable] = {
    "tir.tvm_access_ptr": _access_ptr,
    "tir.address_of": c_call.address_of,
    "tir.call_extern": _extern,
    "tir.call_pure_extern": _extern,
    "tir.tvm_storage_sync": _barrier,
    "tir.prefetch": _nothing,
    "tir.ldexp": _ldexp,
}

STATEMENTS: dict[type, Callable] = {
    Allocate: _allocate,
    AllocateConst: _allocate_const,
    # Device code cannot report errors, so assertions are removed; later code may still rely on their conditions.
    AssertStmt: lambda p, stmt: stmt.body,
}


class GpuLike(CLike):
    """A printer for one kernel."""

    local_function: ClassVar[str] = "static inline "
    alignment: ClassVar[str] = " __attribute__((aligned(16)))"
    unroll_line: ClassVar[str] = "#pragma unroll"
    lane_line: ClassVar[str] = "#pragma unroll"
    # The text before the name of a kernel; {threads}, {x}, {y}, {z} are the block sizes if they are constant.
    kernel_head: ClassVar[str] = ""
    sized_kernel_head: ClassVar[str] = ""
    # The first lines of every kernel.
    prologue: ClassVar[tuple[str, ...]] = ()
    constant_scope: ClassVar[str] = "static const "
    # The size in bytes of the widest access, and whether it must be aligned to its size.
    widest: ClassVar[int] = 16
    aligned_access: ClassVar[bool] = True
    calls: ClassVar[dict[str, Callable]] = {**c_call.CALLS, **CALLS}
    statements: ClassVar[dict[type, Callable]] = {**c_stmt.STATEMENTS, **STATEMENTS}
    attributes: ClassVar[dict[str, Callable]] = {**c_stmt.ATTRIBUTES, "thread_extent": _thread_axis}

    def __init__(self, source: Source, name: str, result: str = "void"):
        super().__init__(source, name, result)
        self.head: list[str] = []
        # The size of static shared memory, and of dynamic shared memory.
        self.shared_bytes = 0
        self.dynamic_bytes = 0
        self.block: dict[str, int | None] = {}
        self.read_only: set[Var] = set()
        self.analyzer = Analyzer()

    # Parameters -----------------------------------------------------------------------------------------------

    def look_at(self, params: Iterable[Var], body) -> None:
        params = list(params)
        super().look_at(params, body)
        self.read_only = {v for v in params if v.dtype == "handle"} - written(body)

    def parameter(self, var: Var, restricted: bool) -> str:
        if var.dtype != "handle":
            return self.scalar_parameter(var)
        name = self.bind(var)
        if restricted:
            self.private.add(var)
        const = "const " if var in self.read_only else ""
        kind = self.pointer_type(var).replace("void*", f"{self.memory_type('uint8')}*")
        scope = self.pointer_scopes.get(self.storage_scope(var), "")
        promise = f" {self.restrict}" if restricted else ""
        return f"{scope}{const}{kind.removeprefix(scope)}{promise} {name}"

    def scalar_parameter(self, var: Var) -> str:
        passed = PROMOTED.get(var.dtype)
        if passed is None:
            return f"{self.scalar_type(var.dtype)} {self.bind(var)}"
        given = self.fresh(f"{clean(var.name)}_given")
        text = self.conversion(passed, var.dtype, given)
        self.line(f"const {self.scalar_type(var.dtype)} {self.bind(var)} = {bare(text)};")
        return f"{self.scalar_type(passed)} {given}"

    # Memory ---------------------------------------------------------------------------------------------------

    def view(self, var: Var, name: str, dtype: str) -> str:
        scope = self.pointer_scopes.get(self.storage_scope(var), "")
        const = "const " if var in self.read_only else ""
        return f"(({scope}{const}{self.memory_type(dtype)}*){name})"

    def pieces(self, dtype: str, buffer, index: PrimExpr) -> list[tuple[int, int]]:
        """Return (first lane, lanes) of the accesses that make up a vector access."""
        size, lanes = info(element(dtype)).bytes, info(dtype).lanes
        most = max(self.widest // size, 1)
        if self.aligned_access:
            step = info(buffer.dtype).lanes
            base = c_vector.contiguous_base(index, buffer.dtype)
            known = self.analyzer.modular_set(base)
            most = _power_of_two(most, known.coeff * step, known.base * step)
        out, first = [], 0
        while first < lanes:
            count = most
            while count > lanes - first or (self.aligned_access and first % count):
                count //= 2
            out.append((first, count))
            first += count
        return out

    def is_wide(self, dtype: str, buffer, index: PrimExpr) -> bool:
        if self.storage_scope(buffer.data) not in ("global", *SHARED):
            return False
        return c_vector.contiguous_base(index, buffer.dtype) is not None and info(dtype).lanes > 1

    def load_wide(self, array: str, dtype: str, buffer, index: PrimExpr) -> None:
        place = self.vector_address(buffer, index)
        for first, count in self.pieces(dtype, buffer, index):
            self.copy(array, _plus(place, first), first, element(dtype), count, buffer.data, True)

    def store_wide(self, array: str, dtype: str, buffer, index: PrimExpr) -> None:
        place = self.vector_address(buffer, index)
        for first, count in self.pieces(dtype, buffer, index):
            self.copy(array, _plus(place, first), first, element(dtype), count, buffer.data, False)

    def vector_address(self, buffer, index: PrimExpr) -> str:
        """Return the address of a vector; the index is one sum, so that it is widened to 64 bits only once."""
        base, lanes = c_vector.contiguous_base(index, buffer.dtype), info(buffer.dtype).lanes
        steps = self.value(base) if lanes == 1 else f"({self.value(base)} * {lanes})"
        return f"{c_expr.data_pointer(self, buffer)} + {steps}"

    def copy(self, array: str, place: str, first: int, dtype: str, count: int, var: Var, load: bool) -> None:
        """Print one access of ``count`` elements between ``array``, starting at lane ``first``, and memory."""
        raise not_defined(self, "copy")

    def copy_bytes(self, target: str, source: str, size: int) -> None:
        byte = self.memory_type("uint8")
        self.line(self.lane_line)
        name = self.fresh("byte")
        step = f"(({byte}*){target})[{name}] = (({byte}*){source})[{name}];"
        self.line(f"for (int {name} = 0; {name} < {size}; ++{name}) {step}")

    def declare_shared(self, var: Var, dtype: str, count: int) -> None:
        """Declare an array at the top of the kernel."""
        self.shared_bytes += count * info(element(dtype)).bytes
        scope = self.scopes[self.storage_scope(var)]
        name = self.names[var]
        self.head.append(f"  {scope}{self.memory_type(element(dtype))} {name}[{max(count, 1)}]{self.alignment};")

    # Expressions ----------------------------------------------------------------------------------------------

    def _wants_name(self, node: PrimExpr, text: str) -> bool:
        # The C type of a pointer contains its memory space, but its dtype does not, so pointers are printed inline.
        return node.dtype != "handle" and super()._wants_name(node, text)

    def pointer(self, node: PrimExpr) -> tuple[str, Var]:
        """Return the text of a pointer and the variable from which it is computed."""
        if isinstance(node, Var):
            return self.value(node), node
        name = getattr(getattr(node, "op", None), "name", "")
        if name == "tir.tvm_access_ptr":
            return self.value(node), node.args[1]
        if name == "tir.address_of":
            return self.value(node), node.args[0].buffer.data
        raise TVMError(f"{self.name}: a pointer in device code must point into a buffer, got {node}")


def helpers_with(prefix: str, own: dict[str, str]) -> dict[str, str]:
    """Return the typed helper functions that are plain C, with the prefix that a language requires for functions."""
    shared = ("min", "max", "floordiv", "floormod", *(name for name in c_helpers.BY_TYPE if name.startswith("to_")))
    return {**{name: c_helpers.BY_TYPE[name].replace("static inline ", prefix) for name in shared}, **own}


# Modules


class Limits(NamedTuple):
    """The limits of a kernel: threads of a block, and bytes of shared memory (static, and including dynamic)."""

    threads: int
    shared: int
    dynamic: int
    args: int = 0


def limits_of(target: Target) -> Limits:
    features = target.features
    shared, dynamic = features.shared_bytes, features.dynamic_shared_bytes
    return Limits(features.max_threads, shared, dynamic, features.max_function_args)


def emit_kernels(
    functions: Iterable[tuple[str, PrimFunc]], dialect: type[GpuLike], limits: Limits
) -> tuple[Source, dict[str, Kernel]]:
    """Return the source of kernels and the launch properties of each."""
    source = Source(dialect)
    kernels: dict[str, Kernel] = {}
    rows = []
    for name, function in functions:
        symbol = str(function.attrs.get("global_symbol") or name)
        if symbol in kernels or symbol in (row[0] for row in rows):
            raise TVMError(f"two kernels of the module have the same name '{symbol}'")
        if not _IDENTIFIER.match(symbol) or symbol in source.taken:
            raise TVMError(
                f"'{symbol}' is not a valid kernel name in {dialect.language}; use only letters, "
                "digits and underscores, and no reserved word of the language"
            )
        source.taken.add(symbol)
        rows.append((symbol, function))
    for symbol, function in rows:
        kernels[symbol] = _emit_kernel(source, dialect, symbol, function, limits)
    return source, kernels


def _emit_kernel(source: Source, dialect: type[GpuLike], symbol: str, function: PrimFunc, limits: Limits) -> Kernel:
    printer = dialect(source, symbol, "void")
    printer.look_at(function.params, function.body)
    noalias = bool(function.attrs.get("tir.noalias"))
    parameters = [printer.parameter(var, noalias) for var in function.params]
    printer.stmt(function.body)
    # Zero means a block size that is known only at run time.
    sizes = [printer.block.get(f"threadIdx.{axis}", 1) or 0 for axis in "xyz"]
    threads = sizes[0] * sizes[1] * sizes[2]
    head = dialect.kernel_head
    if threads:
        head = dialect.sized_kernel_head.format(threads=threads, x=sizes[0], y=sizes[1], z=sizes[2])
    begin = f"{head}{symbol}({', '.join(parameters)}) {{"
    text = [begin, *printer.head, *dialect.prologue, *printer.lines, "}", ""]
    source.functions.append("\n".join(text))
    args = tuple(PROMOTED.get(var.dtype, var.dtype) for var in function.params)
    launch = tuple(str(tag) for tag in function.attrs.get("tir.kernel_launch_params", ()))
    kernel = Kernel(args, launch, threads, printer.shared_bytes, bool(dialect.prologue))
    check_limits(symbol, kernel, printer.dynamic_bytes, limits)
    return kernel


def check_limits(name: str, kernel: Kernel, dynamic: int, limits: Limits) -> None:
    total = kernel.shared + dynamic
    over = [
        (kernel.threads, limits.threads, "threads in a block", "max_threads_per_block", "smaller blocks"),
        (kernel.shared, limits.shared, "bytes of shared memory", "max_shared_memory_per_block", "smaller tiles"),
        (total, limits.dynamic, "bytes of shared memory", "max_shared_memory_per_block", "smaller tiles"),
        (len(kernel.args), limits.args or 1 << 30, "arguments", "max_function_args", "fewer operators in one function"),
    ]
    for asked, allowed, what, option, remedy in over:
        if asked > allowed:
            raise ScheduleError(
                f"kernel {name} needs {asked} {what}, but the target allows {allowed} ({option}); use {remedy}, or "
                f"set -{option}={asked} in the target if the device supports it"
            )


def kernel_text(source: Source, head: Iterable[str]) -> str:
    """Return the complete source file."""
    parts = [line for line in head if line]
    parts.append("")
    for text in source.imported:
        parts += [text.rstrip("\n"), ""]
    for lines in (source.helpers.values(), source.constants):
        if lines:
            parts += [*lines, ""]
    parts += source.functions
    return "\n".join(parts).rstrip("\n") + "\n"
