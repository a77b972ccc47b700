"""Buffers: typed, shaped memory behind a pointer variable."""

from __future__ import annotations

from typing import Any

from ..dtype import canonical, info, with_lanes
from ..error import ExprTypeError, ExprValueError
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim import (
    Add,
    BufferLoad,
    Call,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Range,
    Var,
    const,
    convert,
)
from ..ir.type import PointerType, PrimType


class Buffer(Node, key="tir.Buffer"):
    """A multi-dimensional array in memory.

    Element ``i0, i1, ...`` is at ``data[elem_offset + i0 * strides[0] + ...]``. Without strides the layout is row-major
    and dense. ``elem_offset`` must be a multiple of ``offset_factor``.

    Parameters
    ----------
    data : Var
        The pointer to the memory.
    dtype : str
        The type of an element.
    shape : tuple of PrimExpr
        The size of each dimension.
    strides : tuple of PrimExpr
        The distance between adjacent elements along each dimension, in elements; empty for a dense row-major layout.
    elem_offset : PrimExpr
        The offset of the first element from ``data``, in elements.
    name : str
        The name of the buffer.
    data_alignment : int, optional
        The alignment of the memory in bytes.
    offset_factor : int, optional
        ``elem_offset`` is a multiple of this value.
    buffer_type : str, optional
        "auto_broadcast" makes dimensions of size one broadcast: any index reads their only element.
    axis_separators : tuple of int, optional
        The positions that split the dimensions into groups. Each group becomes one dimension of the physical memory.
    """

    _compared = "data! dtype shape! strides! elem_offset! axis_separators data_alignment offset_factor buffer_type"

    READ = 1
    WRITE = 2

    data: Var
    dtype: str
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...]
    elem_offset: PrimExpr
    name: str
    data_alignment: int = 64
    offset_factor: int = 1
    buffer_type: str = ""
    axis_separators: tuple = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def scope(self) -> str:
        """The storage scope, such as global, shared or local.

        Returns
        -------
        str
            The scope.
        """
        kind = self.data.type_annotation
        return (kind.storage_scope if isinstance(kind, PointerType) else "") or "global"

    def __getitem__(self, indices):
        if not isinstance(indices, (tuple, list)):
            indices = (indices,)
        if any(isinstance(i, slice) for i in indices):
            return self._region_or_ramp(indices)
        return BufferLoad(self, tuple(convert(i) for i in indices))

    def _region_or_ramp(self, indices):
        from .stmt import BufferRegion

        if all(not isinstance(i, slice) or i.step is None for i in indices):
            region = []
            for i, extent in zip(indices, self.shape):
                if isinstance(i, slice):
                    start = convert(0 if i.start is None else i.start)
                    stop = convert(extent if i.stop is None else i.stop)
                    region.append(Range.from_min_extent(start, _simplified(stop - start)))
                else:
                    region.append(Range.from_min_extent(i, 1))
            return BufferRegion(self, tuple(region))
        out = []
        for i in indices:
            if isinstance(i, slice):
                step = 1 if i.step is None else i.step
                start = 0 if i.start is None else i.start
                lanes = _simplified((convert(i.stop) - start + (step - 1)) // step)
                if not isinstance(lanes, IntImm):
                    raise ExprValueError(
                        f"buffer {self.name}: the slice {i.start}:{i.stop}:{step} has no constant length"
                    )
                lanes = lanes.value
                out.append(convert(start) if lanes == 1 else Ramp(start, step, lanes))
            else:
                out.append(convert(i))
        return BufferLoad(self, tuple(out))

    def vload(self, begin, dtype=None) -> PrimExpr:
        """Load a value of type ``dtype``, a scalar or a vector, from ``begin``.

        Parameters
        ----------
        begin : PrimExpr or tuple
            The index of the first element in each dimension.
        dtype : str, optional
            The type to load; the element type of the buffer by default.

        Returns
        -------
        PrimExpr
            The loaded value.
        """
        begin = [convert(b) for b in (begin if isinstance(begin, (tuple, list)) else (begin,))]
        lanes = self._lanes(dtype)
        if lanes > 1:
            begin[-1] = Ramp(begin[-1], const(1, begin[-1].dtype), lanes)
        return BufferLoad(self, tuple(begin))

    def vstore(self, begin, value):
        """Store ``value``, a scalar or a vector, at ``begin``.

        Parameters
        ----------
        begin : PrimExpr or tuple
            The index of the first element in each dimension.
        value : PrimExpr
            The value to store.

        Returns
        -------
        Stmt
            The store statement.
        """
        from .stmt import BufferStore

        begin = [convert(b) for b in (begin if isinstance(begin, (tuple, list)) else (begin,))]
        value = convert(value)
        lanes = self._lanes(value.dtype)
        if lanes > 1:
            begin[-1] = Ramp(begin[-1], const(1, begin[-1].dtype), lanes)
        return BufferStore(self, value, tuple(begin))

    def _lanes(self, dtype) -> int:
        if not dtype:
            return 1
        wanted, own = info(canonical(dtype)), info(self.dtype)
        if (wanted.code, wanted.bits) != (own.code, own.bits) or wanted.lanes % own.lanes:
            raise ExprTypeError(
                f"buffer {self.name} has elements of type {self.dtype} and cannot be accessed as {dtype}"
            )
        return wanted.lanes // own.lanes

    def offset_of(self, indices) -> tuple[PrimExpr]:
        """The flat element offset of ``indices``. Indices that recombine a split (``x // y * y + x % y``) are
        simplified.

        Parameters
        ----------
        indices : list of PrimExpr
            The indices.

        Returns
        -------
        tuple of PrimExpr
            The offset.
        """
        indices = [convert(i) for i in (indices if isinstance(indices, (tuple, list)) else [indices])]
        return (_simplified(merge_splits(self.flat_offset(indices))),)

    def flat_offset(self, indices) -> PrimExpr:
        """The offset of the element at ``indices`` in elements, computed from the strides of the buffer.

        Parameters
        ----------
        indices : list of PrimExpr
            The indices.

        Returns
        -------
        PrimExpr
            The offset.
        """
        offset = self.elem_offset
        if self.strides:
            for index, stride in zip(indices, self.strides):
                offset = offset + index * stride
            return offset
        flat: Any = None
        for index, extent in zip(indices, self.shape):
            flat = index if flat is None else flat * extent + index
        if flat is None:
            return offset
        return flat + offset

    def access_ptr(self, access_mask, ptr_type="handle", content_lanes=1, offset=0, extent=None) -> PrimExpr:
        """A pointer to the buffer for an intrinsic, with its access mode ("r", "w", "rw" or a mask).

        Parameters
        ----------
        access_mask : str or int
            The access mode: a string of r and w, or a bit mask.
        ptr_type : str
            The type of the pointer.
        content_lanes : int
            The number of vector lanes of the pointer's element type.
        offset : PrimExpr
            The offset of the pointer from the start of the buffer, in elements.
        extent : PrimExpr, optional
            The number of elements that are accessed.

        Returns
        -------
        PrimExpr
            The pointer.

        Raises
        ------
        ExprValueError
            The mask contains a letter other than r and w.
        """
        if isinstance(access_mask, str):
            mask = 0
            for letter in access_mask:
                if letter not in "rw":
                    raise ExprValueError(f"access_ptr: unknown access mode '{letter}' ; use r, w or rw")
                mask |= Buffer.READ if letter == "r" else Buffer.WRITE
            access_mask = mask
        offset = convert(offset)
        size: Any
        if extent is not None:
            size = convert(extent)
        elif self.strides:
            size = convert(self.strides[0]) * self.shape[0] - offset
        else:
            size = const(1, "int32")
            for e in self.shape:
                size = size * e
            size = size - offset
        elem_offset = self.elem_offset + offset
        element = self.dtype
        if content_lanes > 1:
            element = with_lanes(self.dtype, content_lanes * info(self.dtype).lanes)
            size = size // const(content_lanes, size.dtype)
            elem_offset = elem_offset // const(content_lanes, elem_offset.dtype)
        args = (type_annotation(element), self.data, elem_offset, size, const(access_mask, "int32"))
        return Call(ptr_type, Op.get("tir.tvm_access_ptr"), args)

    def get_flattened_buffer(self) -> Buffer:
        """The same memory as a buffer with one dimension, or with one dimension more than there are axis separators.

        Returns
        -------
        Buffer
            The buffer.
        """
        if self.axis_separators and not self.strides:
            return self._joined_between_separators()
        if self.strides:
            extent: Any = None
            for size, stride in zip(self.shape, self.strides):
                reach = (size - 1) * stride
                extent = reach if extent is None else extent + reach
            extent = const(1, "int32") if extent is None else extent + 1
        else:
            extent = const(1, "int32")
            for size in self.shape:
                extent = extent * size
        if len(self.shape) == 1 and not self.strides:
            return self
        return self.replace(shape=(extent,), strides=(), axis_separators=())

    def _joined_between_separators(self) -> Buffer:
        cuts = [0, *(int(cut) for cut in self.axis_separators), len(self.shape)]
        shape = []
        for low, high in zip(cuts, cuts[1:]):
            extent: Any = const(1, "int32")
            for size in self.shape[low:high]:
                extent = extent * size
            shape.append(extent)
        separators = tuple(range(1, len(shape)))
        return self.replace(shape=tuple(shape), axis_separators=separators)

    def __call__(self, *args, **kwargs):
        raise ExprTypeError(f"buffer {self.name} is not callable; use square brackets")


def _simplified(e: PrimExpr) -> PrimExpr:
    from ..arith import Analyzer

    return e if isinstance(e, IntImm) else Analyzer().simplify(e)


def _terms(e: PrimExpr) -> list[PrimExpr]:
    """Return the terms of a sum, after products of sums are expanded."""
    out, stack = [], [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += [node.b, node.a]
        elif isinstance(node, Mul) and isinstance(node.a, Add):
            stack += [node.a.b * node.b, node.a.a * node.b]
        else:
            out.append(node)
    return out


def merge_splits(e: PrimExpr) -> PrimExpr:
    """Return a sum in which ``x // y * y + x % y`` is replaced by ``x``; ``y`` may be any expression."""
    from ..arith.compare import expr_deep_equal

    def is_split(term: PrimExpr, rest: FloorMod) -> bool:
        return (
            isinstance(term, Mul)
            and isinstance(term.a, FloorDiv)
            and expr_deep_equal(term.b, rest.b)
            and expr_deep_equal(term.a.b, rest.b)
            and expr_deep_equal(term.a.a, rest.a)
        )

    kept, merged = _terms(e), []
    while True:
        terms = kept + merged
        pair = next(((t, r) for r in terms if isinstance(r, FloorMod) for t in terms if is_split(t, r)), None)
        if pair is None:
            break
        kept, merged = ([t for t in group if t is not pair[0] and t is not pair[1]] for group in (kept, merged))
        merged += _terms(pair[1].a)
    if not merged:
        return e
    out = None
    for term in kept + merged:
        out = term if out is None else out + term
    return out


def type_annotation(dtype: str) -> PrimExpr:
    """An expression that represents a type in the arguments of an intrinsic.

    Parameters
    ----------
    dtype : str
        The type.

    Returns
    -------
    PrimExpr
    """
    return Call(dtype, Op.get("tir.type_annotation"), ())


def decl_buffer(
    shape,
    dtype=None,
    name="buffer",
    data=None,
    strides=None,
    elem_offset=None,
    scope="",
    data_alignment=-1,
    offset_factor=0,
    buffer_type="",
    axis_separators=None,
    span=None,
) -> Buffer:
    """Declare a buffer. Omitted arguments get fresh variables or defaults.

    Parameters
    ----------
    shape : tuple of PrimExpr
        The size of each dimension.
    dtype : str, optional
        The type of an element; float32 by default.
    name : str, optional
        The name of the buffer.
    data : Var, optional
        The pointer to the memory.
    strides : list of PrimExpr, optional
        The distance between adjacent elements along each dimension; empty for a dense row-major layout.
    elem_offset : PrimExpr, optional
        The offset of the first element from ``data``, in elements.
    scope : str, optional
        The storage scope: "global", "shared", "local" ...
    data_alignment : int, optional
        The alignment of the memory in bytes; -1 for the default.
    offset_factor : int, optional
        ``elem_offset`` is a multiple of this value. If it is not zero, the default offset is a variable.
    buffer_type : str, optional
        "auto_broadcast" makes dimensions of size one broadcast: any index reads their only element.
    axis_separators : list of int, optional
        The positions that split the dimensions into groups. Each group becomes one dimension of the physical memory.

    Returns
    -------
    Buffer
        The buffer.
    """
    dtype = canonical(dtype) if dtype is not None else "float32"
    shape = tuple(convert(s) for s in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    index = shape[0].dtype if shape and not isinstance(shape[0], IntImm) else "int32"
    if any(s.dtype == "int64" for s in shape):
        index = "int64"
    if data is None:
        element = PrimType("int8" if dtype == "bool" else dtype)
        data = Var(name, PointerType(element, scope or "global"))
    if elem_offset is None and offset_factor:
        elem_offset = Var(f"{name}_elem_offset", index)
    elem_offset = const(0, index) if elem_offset is None else convert(elem_offset)
    strides = tuple(convert(s) for s in strides) if strides is not None else ()
    if buffer_type == "auto_broadcast" and not strides:
        strides = tuple(Var(f"{name}_stride_{i}", index) for i in range(len(shape)))
    return Buffer(
        data,
        dtype,
        shape,
        strides,
        elem_offset,
        name,
        64 if data_alignment <= 0 else data_alignment,
        offset_factor or 1,
        "" if buffer_type in ("", "default") else buffer_type,
        tuple(axis_separators or ()),
    )
