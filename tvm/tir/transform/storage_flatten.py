"""StorageFlatten: flatten multi-dimensional buffers.

After this pass every access has one index, every intermediate buffer is an ``Allocate``, and there are no views. The
variables of a view that was declared for an intrinsic (``buffer_bind_scope``) are replaced by the pointer, offset,
strides and extents of its region. Index arithmetic uses 32 bits only if the memory is known to be small enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...arith.sums import integer_sum
from ...dtype import info, with_lanes
from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import (
    Add,
    BufferLoad,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
    const,
)
from ...ir.structural import structural_equal
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    Prefetch,
    Stmt,
)
from .statement import StmtRewriter, int_value, statements_in

_INT32_MAX = (1 << 31) - 1
# A region with at most this many prefetches is unrolled instead of using loops.
UNROLLED_PREFETCHES = 32


@dataclass(slots=True)
class Layout:
    """The layout of a buffer: ``flat[offset + sum((index - min) * stride)]``."""

    flat: Buffer
    mins: tuple[PrimExpr, ...]
    extents: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...]
    offset: PrimExpr
    wide: bool  # Index arithmetic needs 64 bits
    compact: bool = False  # The strides are those of a contiguous array
    cuts: tuple[int, ...] = ()  # Where the dimensions are split into groups, one per physical dimension


_LINEAR = (Add, Sub, Mul, FloorDiv, FloorMod)


def _rejoined(indices: Sequence[PrimExpr], where: Layout) -> list[tuple[PrimExpr, PrimExpr]]:
    """Return indices with their strides. The quotient and remainder of a fused loop variable are merged again if the
    axes are contiguous; with dynamic dimensions later simplification would not find this."""
    found: list[tuple[PrimExpr, PrimExpr]] = []
    is_open = where.compact and any(int_value(e) is None for e in where.extents)
    for index, extent, stride in zip(indices, where.extents, where.strides):
        if is_open and found and _is_rest(found[-1][0], index, extent):
            index = index.a
            found.pop()
        found.append((index, stride))
    return found


def _is_rest(quotient: PrimExpr, index: PrimExpr, extent: PrimExpr) -> bool:
    """Return whether two indices are the quotient and remainder of one expression by the extent of the second."""
    if not isinstance(quotient, FloorDiv) or not isinstance(index, FloorMod):
        return False
    known = int_value(index.b)
    is_extent = structural_equal(index.b, extent) if known is None else known == int_value(extent)
    return is_extent and structural_equal(quotient.a, index.a) and structural_equal(quotient.b, index.b)


def widen(e: PrimExpr) -> PrimExpr:
    """Return ``e`` computed in int64. Sums and products are widened at their operands, so that they stay linear."""
    lanes = info(e.dtype).lanes
    if lanes != 1:
        if isinstance(e, Ramp):
            return Ramp(widen(e.base), widen(e.stride), e.lanes)
        return primop.cast(with_lanes("int64", lanes), e)
    if e.dtype == "int64":
        return e

    def leaf(node):
        return None if type(node) in _LINEAR else primop.cast("int64", node)

    def fold(node):
        return primop.BUILD[type(node)](node.a, node.b)

    return rewrite(e, fold, leaf)


def product(values) -> PrimExpr:
    """Return the number of elements of a shape: a constant if known, else an expression, in int64 unless it is
    small."""
    literals, rest = 1, None
    for value in values:
        known = int_value(value)
        if known is not None:
            literals *= known
        else:
            rest = value if rest is None else widen(rest) * widen(value)
    if rest is None:
        return const(literals, "int32" if literals <= _INT32_MAX else "int64")
    if literals != 1:
        rest = widen(rest) * const(literals, "int64")
    return rest


def row_major(extents) -> tuple[PrimExpr, ...]:
    """Return the strides of a dense array."""
    strides: list[PrimExpr] = []
    for i in range(len(extents)):
        strides.append(product(extents[i + 1 :]))
    return tuple(strides)


def _aligned_strides(extents, alignment: dict[int, tuple[int, int]]) -> tuple[PrimExpr, ...]:
    """Return row-major strides; the stride of axis k is increased until it is ``offset`` modulo ``factor``."""
    stride: PrimExpr = const(1, "int32")
    out: list[PrimExpr] = []
    for axis in reversed(range(len(extents))):
        if axis in alignment:
            factor, offset = alignment[axis]
            known = int_value(stride)
            if known is not None:
                stride = const(known + (factor + offset - known % factor) % factor, stride.dtype)
            else:
                wanted = const(factor + offset, stride.dtype) - primop.floormod(stride, factor)
                stride = stride + primop.floormod(wanted, factor)
        out.append(stride)
        stride = product([stride, extents[axis]])
    return tuple(reversed(out))


def _cuts(buffer: Buffer) -> tuple[int, ...]:
    """Return the positions that split the dimensions of a buffer into physical dimensions, including both ends; empty
    for flat memory."""
    return (0, *(int(i) for i in buffer.axis_separators), len(buffer.shape)) if buffer.axis_separators else ()


def _strides_between(cuts: tuple[int, ...], extents) -> tuple[PrimExpr, ...]:
    """Return the strides of dense memory, in each physical dimension."""
    parts = list(zip(cuts, cuts[1:])) or [(0, len(extents))]
    return tuple(stride for low, high in parts for stride in row_major(extents[low:high]))


def _sizes_between(cuts: tuple[int, ...], extents) -> tuple[PrimExpr, ...]:
    """Return the extents of the physical dimensions."""
    return tuple(product(extents[low:high]) for low, high in zip(cuts, cuts[1:]))


def _dot(indices: Sequence[PrimExpr], strides: Sequence[PrimExpr], wide: bool) -> PrimExpr:
    total: Any = None
    for index, stride in zip(indices, strides):
        part = widen(index) * widen(stride) if wide else index * stride
        total = part if total is None else total + part
    return const(0, "int64" if wide else "int32") if total is None else total


def _needs_int64(extents, strides, offset) -> bool:
    """Return whether the largest index may not fit in 32 bits."""
    largest = int_value(offset)
    if largest is None:
        # An offset variable is bound at the call; its type determines its range.
        largest = 0
        if info(offset.dtype).bits > 32:
            return True
    nonlinear = [(e, s) for e, s in zip(extents, strides) if int_value(e) != 1]
    if len(nonlinear) == 1 and int_value(nonlinear[0][1]) == 1 and nonlinear[0][0].dtype == "int32":
        return False
    for extent, stride in nonlinear:
        e, s = int_value(extent), int_value(stride)
        if e is None or s is None:
            return True
        largest += max(e - 1, 0) * abs(s)
    return largest > _INT32_MAX


def _storage_dtype(dtype: str) -> str:
    kind = info(dtype)
    return with_lanes("int8", kind.lanes) if kind.is_bool else dtype


class Flattener(StmtRewriter):
    def __init__(self, cache_line_size: int = 64, create_bound_attribute: bool = False, joins_axes: bool = False):
        self.cache_line_size = cache_line_size
        # Whether memory with several physical dimensions is flattened too.
        self.joins_axes = joins_axes
        self.create_bound_attribute = create_bound_attribute
        self.layouts: dict[Buffer, Layout] = {}
        self.realized: set[Buffer] = set()
        self.values: dict[Var, PrimExpr] = {}  # Current values of the variables of views
        self.alignment: dict[Any, dict[int, tuple[int, int]]] = {}
        self.memo: dict = {}
        self.flats: dict[tuple[Var, str], Buffer] = {}

    # Layouts --------------------------------------------------------------------------------------------------
    def flat_buffer(self, buffer: Buffer, data: Var, sizes: tuple[PrimExpr, ...]) -> Buffer:
        dtype = _storage_dtype(buffer.dtype)
        key = (data, dtype)
        got = self.flats.get(key)
        if got is None:
            size = sizes[0]
            if len(sizes) > 1:
                got = Buffer(
                    data,
                    dtype,
                    sizes,
                    (),
                    const(0, "int32"),
                    buffer.name,
                    buffer.data_alignment,
                    axis_separators=tuple(range(1, len(sizes))),
                )
            elif (
                len(buffer.shape) == 1
                and buffer.data is data
                and not buffer.strides
                and dtype == buffer.dtype
                and int_value(buffer.elem_offset) == 0
                and buffer.shape[0] is size
            ):
                got = buffer
            else:
                got = Buffer(data, dtype, (size,), (), const(0, "int32"), buffer.name, buffer.data_alignment)
            self.flats[key] = got
        return got

    def layout(self, buffer: Buffer) -> Layout:
        """Return the layout of a buffer; a buffer without realization uses the layout in its own fields."""
        got = self.layouts.get(buffer)
        if got is None:
            extents = tuple(self.expr(e) for e in buffer.shape)
            cuts = () if self.joins_axes else _cuts(buffer)
            strides = tuple(self.expr(s) for s in buffer.strides) or _strides_between(cuts, extents)
            offset = self.expr(buffer.elem_offset)
            data = self.expr(buffer.data)
            size = buffer.shape[0] if len(buffer.shape) == 1 and not buffer.strides else product(extents)
            flat = self.flat_buffer(buffer, data, _sizes_between(cuts, extents) if cuts else (size,))
            wide = _needs_int64(extents, strides, offset)
            got = Layout(flat, (), extents, strides, offset, wide, not buffer.strides, cuts)
            self.layouts[buffer] = got
        return got

    def positions(self, buffer: Buffer, indices) -> tuple[PrimExpr, ...]:
        """Return the physical indices of an access: one, unless the memory has several physical dimensions."""
        where = self.layout(buffer)
        if not where.cuts:
            return (self.position(buffer, indices),)
        if len(indices) != len(where.extents):
            raise TVMError(
                f"{buffer.name}: accessed with {len(indices)} indices, but it has {len(where.extents)} dimensions"
            )
        shifted = [i - least for i, least in zip(indices, where.mins)] if where.mins else list(indices)
        return tuple(
            _dot(shifted[low:high], where.strides[low:high], where.wide)
            for low, high in zip(where.cuts, where.cuts[1:])
        )

    def position(self, buffer: Buffer, indices) -> PrimExpr:
        """Return the flat index of an access whose indices are already rewritten."""
        where = self.layout(buffer)
        if where.cuts:
            raise TVMError(
                f"{buffer.name}: its memory has {len(where.cuts) - 1} physical dimensions; it can only be accessed "
                "by element, not as a part of flat memory"
            )
        if len(indices) != len(where.extents):
            if len(indices) == 1 and not buffer.strides:
                return indices[0] + where.offset
            raise TVMError(
                f"{buffer.name}: accessed with {len(indices)} indices, but it has {len(where.extents)} dimensions"
            )
        wide = where.wide
        total = widen(where.offset) if wide else where.offset
        if not indices:
            return total
        shifted = [index - least for index, least in zip(indices, where.mins)] if where.mins else indices
        for index, stride in _rejoined(shifted, where):
            if wide:
                index, stride = widen(index), widen(stride)
            total = total + index * stride
        return total

    # Expressions ----------------------------------------------------------------------------------------------
    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, None, self.memo)

    def after(self, node: Any):
        kind = type(node)
        if kind is BufferLoad:
            return self.load(node)
        if isinstance(node, Var):
            return self.values.get(node)
        return None

    def load(self, node: BufferLoad) -> PrimExpr:
        indices = self.positions(node.buffer, node.indices)
        flat = self.layout(node.buffer).flat
        if len(node.indices) == 1 and node.indices[0] is indices[0] and flat is node.buffer:
            return node
        got = BufferLoad(flat, indices)
        return primop.cast(node.dtype, got) if got.dtype != node.dtype else got

    # Statements -----------------------------------------------------------------------------------------------
    def on_BufferStore(self, node: BufferStore) -> Stmt:
        indices = tuple(self.expr(i) for i in node.indices)
        value = self.expr(node.value)
        indices = self.positions(node.buffer, indices)
        flat = self.layout(node.buffer).flat
        stored = with_lanes(flat.dtype, info(value.dtype).lanes)
        return BufferStore(flat, primop.cast(stored, value) if stored != value.dtype else value, indices)

    def on_BufferRealize(self, node: BufferRealize) -> Stmt:
        buffer = node.buffer
        if buffer in self.realized:
            self.memo.clear()
        self.realized.add(buffer)
        mins = tuple(self.expr(r.min) for r in node.bounds)
        extents = tuple(self.expr(r.extent) for r in node.bounds)
        alignment = self.alignment.get(buffer) or self.alignment.get(buffer.data) or {}
        cuts = () if self.joins_axes else _cuts(buffer)
        strides = _aligned_strides(extents, alignment) if alignment else _strides_between(cuts, extents)
        sizes: tuple[PrimExpr, ...] = (product(extents),) if extents else (const(1, "int32"),)
        if cuts:
            if alignment:
                raise TVMError(f"{buffer.name}: strides cannot be aligned in memory with several physical dimensions")
            sizes = _sizes_between(cuts, extents)
        elif alignment:
            sizes = (product([strides[0], extents[0]]),)
        self.flats.pop((buffer.data, _storage_dtype(buffer.dtype)), None)
        flat = self.flat_buffer(buffer, buffer.data, sizes)
        zero = const(0, "int32")
        if all(int_value(m) == 0 for m in mins):
            mins = ()
        wide = _needs_int64(extents, strides, zero)
        self.layouts[buffer] = Layout(flat, mins, extents, strides, zero, wide, cuts=cuts)
        body = self.stmt(node.body)
        return self.bounded(
            buffer.data, product(sizes), Allocate(buffer.data, flat.dtype, sizes, self.expr(node.condition), body)
        )

    def bounded(self, data: Var, size: PrimExpr, body: Stmt) -> Stmt:
        """Return ``body`` with an attribute for the number of elements of a pointer."""
        return AttrStmt(data, "buffer_bound", size, body) if self.create_bound_attribute else body

    def on_Allocate(self, node: Allocate) -> Stmt:
        extents = tuple(self.expr(e) for e in node.extents)
        if len(extents) != 1:
            extents = (product(extents),)
        body = self.stmt(node.body)
        dtype = _storage_dtype(node.dtype)
        return Allocate(node.buffer_var, dtype, extents, self.expr(node.condition), body, node.annotations)

    def on_AllocateConst(self, node: AllocateConst) -> Stmt:
        extents = node.extents if len(node.extents) == 1 else (product(node.extents),)
        return node.replace(extents=extents, dtype=_storage_dtype(node.dtype), body=self.stmt(node.body))

    def on_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        return self.stmt(node.body)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "buffer_bind_scope":
            return self.bind_view(node)
        if node.attr_key == "buffer_dim_align":
            axis, factor, offset = (int(a) for a in node.value.args)
            self.alignment.setdefault(node.node, {})[axis] = (factor, offset)
            return self.stmt(node.body)
        if node.attr_key in ("double_buffer_scope", "double_buffer_write") and isinstance(node.node, Buffer):
            return AttrStmt(node.node.data, node.attr_key, self.expr(node.value), self.stmt(node.body))
        return self.keep(node)

    def bind_view(self, node: AttrStmt) -> Stmt:
        view, target = node.node
        bounds = [self.expr(a) for a in node.value.args]
        begins, extents = bounds[0::2], bounds[1::2]
        new = self.view_values(view, target, begins, extents)
        old = {var: self.values.get(var) for var in new}
        self.memo = {}
        self.values.update(new)
        body = self.stmt(node.body)
        for var, value in old.items():
            if value is None:
                del self.values[var]
            else:
                self.values[var] = value
        self.layouts.pop(view, None)
        self.memo = {}
        return body

    def view_values(self, view: Buffer, target: Buffer, begins, extents) -> dict[Var, PrimExpr]:
        """Return the values of the variables of ``view`` when it is bound to a region of ``target``."""
        where = self.layout(target)
        if len(begins) != len(where.extents):
            raise TVMError(
                f"binding {view.name} to {target.name}: the region has {len(begins)} ranges, but the buffer has "
                f"{len(where.extents)} dimensions"
            )
        extra = len(extents) - len(view.shape)
        if extra < 0 or any(int_value(e) not in (None, 1) for e in extents[:extra]):
            raise TVMError(
                f"binding {view.name} to {target.name}: the view has {len(view.shape)} dimensions, the region has "
                f"extents {_text(extents)}; leading extents must be 1"
            )
        offset = self.position(target, begins)
        strides = list(where.strides[extra:])
        values: dict[Var, PrimExpr] = {}

        def match(what: str, declared: PrimExpr, found: PrimExpr) -> None:
            if isinstance(declared, Var):
                old = values.get(declared)
                if old is None:
                    values[declared] = primop.cast(declared.dtype, found) if found.dtype != declared.dtype else found
                    return
                declared = old
            want, got = _literal(declared), _literal(found)
            if want is not None and got is not None and want != got:
                raise TVMError(
                    f"binding {view.name} to a region of {target.name}: {what} is declared as {want}, "
                    f"but the region has {got}"
                )
            if want is not None and got is None:
                raise TVMError(
                    f"binding {view.name} to a region of {target.name}: {what} is declared as {want}, but the region "
                    f"has {found}, and they are not provably equal; declare it as a variable"
                )

        values[view.data] = where.flat.data
        for i, (declared, found) in enumerate(zip(view.shape, extents[extra:])):
            match(f"shape[{i}]", declared, found)
        if view.strides:
            for i, (declared, found) in enumerate(zip(view.strides, strides)):
                match(f"strides[{i}]", declared, found)
        else:
            dense = row_major(extents[extra:])
            for i, (declared, found) in enumerate(zip(dense, strides)):
                if int_value(extents[extra + i]) != 1:
                    match(f"strides[{i}] of the dense view", declared, found)
        match("elem_offset", view.elem_offset, offset)
        return values

    def on_Prefetch(self, node: Prefetch) -> Stmt:
        """Return one prefetch per cache line of the region."""
        where = self.layout(node.buffer)
        lanes = max(self.cache_line_size // info(where.flat.dtype).bytes, 1)
        # Innermost dimensions that fit into one cache line are prefetched together.
        last = len(node.bounds) - 1
        while last > 0 and int_value(where.extents[last]) is not None and int_value(where.extents[last]) <= lanes:
            lanes //= max(int_value(where.extents[last]), 1)
            last -= 1
        begins = [self.expr(r.min) for r in node.bounds]
        extents = [self.expr(r.extent) for r in node.bounds]
        loops: list[tuple[Var, PrimExpr]] = []
        indices: list[PrimExpr] = []
        for axis, (begin, extent) in enumerate(zip(begins, extents)):
            var = Var(f"prefetch_{node.buffer.name}_{axis}", extent.dtype)
            if axis > last:
                indices.append(begin)
            elif axis == last:
                loops.append((var, primop.floordiv(extent + (lanes - 1), lanes)))
                indices.append(begin + var * lanes)
            else:
                loops.append((var, extent))
                indices.append(begin + var)
        load = BufferLoad(where.flat, self.positions(node.buffer, indices))
        address = Call("handle", Op.get("tir.address_of"), (load,))
        settings = (const(0, "int32"), const(3, "int32"), const(1, "int32"))
        body: Stmt = Evaluate(Call("void", Op.get("tir.prefetch"), (address, *settings)))
        sizes = [int_value(extent) or UNROLLED_PREFETCHES + 1 for _, extent in loops]
        few = prod(sizes) <= UNROLLED_PREFETCHES
        for var, extent in reversed(loops):
            body = For(var, 0, extent, ForKind.UNROLLED if few else ForKind.SERIAL, body)
        return body


def _literal(e: PrimExpr) -> int | None:
    """Return the value of ``e`` if it is a constant after like terms are collected."""
    if isinstance(e, Cast):
        e = e.value
    got = integer_sum(e)
    return None if got is None or got.terms else got.constant


def _text(values) -> str:
    return "(" + ", ".join(str(int_value(v)) if int_value(v) is not None else str(v) for v in values) + ")"


def storage_flatten(func: PrimFunc, cache_line_size: int = 64, create_bound_attribute: bool = False) -> PrimFunc:
    flattener = Flattener(cache_line_size, create_bound_attribute)
    body = flattener.stmt(func.body)
    for buffer in func.buffer_map.values():
        body = flattener.bounded(buffer.data, product(buffer.shape), body)
    return func.replace(body=body)


def join_physical_axes(func: PrimFunc) -> PrimFunc:
    allocations = (n for n in statements_in(func.body) if isinstance(n, Allocate))
    if any(b.axis_separators for b in func.buffer_map.values()) or any(len(a.extents) > 1 for a in allocations):
        return func.replace(body=Flattener(joins_axes=True).stmt(func.body))
    return func
