"""Vectors in the C family: loops over lanes, and arrays for operations that combine lanes.

Inside such a loop ``p.lane`` is the loop variable, and the text of a vector node is its value in the current lane.
Before the loop, ``prepare`` evaluates the subexpressions that all lanes share, and stores vectors whose lanes are
permuted in arrays.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...dtype import element, info
from ...error import InternalError, TVMError
from ...ir.prim import Broadcast, BufferLoad, Call, IntImm, Let, PrimExpr, Ramp, Shuffle
from ...ir.visit import pre_order
from ...tir.stmt import BufferStore
from ..linear import access_form
from . import expr as c_expr
from .names import addend, bare, clean

if TYPE_CHECKING:
    from .like import CLike

_CHEAP = frozenset(
    "tir." + n for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "likely", "shift_left",
                         "shift_right", "isnan")
)  # fmt: skip


@contextmanager
def lane_loop(p: CLike, lanes: int) -> Generator[None, None, None]:
    """Print the statements in a ``with`` block once per lane."""
    if p.lane is not None:
        raise InternalError(f"{p.name}: nested loops over lanes")
    name = p.fresh("lane")
    if p.lane_line:
        p.line(p.lane_line)
    p.open(f"for ({p.scalar_type('int32')} {name} = 0; {name} < {lanes}; ++{name}) {{")
    p.lane = name
    yield
    p.lane = None
    p.close()


# Nodes, one lane


def broadcast(p: CLike, node: Broadcast) -> str:
    if info(node.value.dtype).lanes != 1:
        raise TVMError(f"a vector cannot be broadcast: {node}")
    return p.value(node.value)


def ramp(p: CLike, node: Ramp) -> str:
    dtype = element(node.dtype)
    kind = info(dtype)
    base, stride = p.value(node.base), p.value(node.stride)
    exact = id(node) in p.plain or p.ranges.fits(node)
    if isinstance(node.stride, IntImm) and node.stride.value == 1:
        return p.binary("+", dtype, base, p.lane, exact)
    lane = p.lane if dtype == "int32" else f"({p.scalar_type(dtype)}){p.lane}"
    if kind.is_float:
        lane = c_expr.convert(p, "int32", dtype, p.lane)
    return p.binary("+", dtype, base, p.binary("*", dtype, lane, stride, exact), exact)


def shuffle(p: CLike, node: Shuffle) -> str:
    return crossing_value(p, node)


def crossing_value(p: CLike, node: PrimExpr) -> str:
    """Return a node whose lanes differ from those of its operands, stored in an array."""
    array = p.arrays.get(id(node))
    if array is None:
        array = materialise(p, node)
    return f"{array}[{p.lane if info(node.dtype).lanes > 1 else 0}]"


# Before a loop


def prepare(p: CLike, root: PrimExpr) -> None:
    """Evaluate subexpressions before a loop over lanes: those that must or need not be repeated for each lane."""
    stack = [root]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in p.memo or id(node) in p.arrays or not isinstance(node, PrimExpr):
            continue
        seen.add(id(node))
        if node.dtype in ("void", "handle") or info(node.dtype).lanes == 1:
            if node.dtype not in ("void", "handle") and is_costly(p, node):
                p.named_value(node)
        elif is_crossing(p, node):
            materialise(p, node)
        elif isinstance(node, Let):
            # The variable is bound first because vectors of the body may use it.
            c_expr.bind_let(p, node.var, node.value)
            stack.append(node.body)
        elif isinstance(node, BufferLoad):
            index = node.indices[0]
            if info(index.dtype).lanes > 1 and info(node.buffer.dtype).lanes > 1:
                materialise(p, index)
            else:
                stack.append(index)
        else:
            stack.extend(reversed(c_expr.eager_operands(node)))


def is_costly(p: CLike, root: PrimExpr) -> bool:
    """Return whether a scalar should be evaluated once instead of in every lane: it reads memory, contains a call, or
    is long."""

    def look() -> bool:
        for count, node in enumerate(pre_order(root)):
            if count > 24 or isinstance(node, (BufferLoad, Shuffle, Let)):
                return True
            if isinstance(node, Call) and getattr(node.op, "name", "") not in _CHEAP:
                return True
        return False

    return _scan(p, "costly", root, look)


def is_crossing(p: CLike, node: PrimExpr) -> bool:
    """Return whether the lanes of a vector node cannot be computed separately."""
    if isinstance(node, Shuffle):
        return True
    if isinstance(node, BufferLoad):
        return p.is_wide(node.dtype, node.buffer, node.indices[0])
    if not isinstance(node, Call):
        return False
    name = getattr(node.op, "name", "")
    if name == "tir.reinterpret":
        have, want = info(node.args[0].dtype), info(node.dtype)
        return have.lanes != want.lanes or have.bytes != want.bytes
    if name == "tir.if_then_else":
        return _has_crossing(p, node.args[1]) or _has_crossing(p, node.args[2])
    return name in c_expr.CROSSING


def _has_crossing(p: CLike, root: PrimExpr) -> bool:
    """Return whether a subexpression of ``root`` needs statements before the loop, or must be evaluated only once."""

    def look() -> bool:
        for node in pre_order(root):
            if isinstance(node, Shuffle) or (isinstance(node, Call) and c_expr.has_effect(node)):
                return True
            if isinstance(node, Call) and getattr(node.op, "name", "") != "tir.if_then_else" and is_crossing(p, node):
                return True
            if isinstance(node, BufferLoad) and (
                is_crossing(p, node) or min(info(node.buffer.dtype).lanes, info(node.indices[0].dtype).lanes) > 1
            ):
                return True
        return False

    return _scan(p, "crossing", root, look)


def _scan(p: CLike, question: str, root: PrimExpr, look) -> bool:
    known = p.source.scanned.get((question, id(root)))
    if known is None:
        known = p.source.scanned[question, id(root)] = (root, look())
    return known[1]


# Arrays


def materialise(p: CLike, node: PrimExpr, hint: str = "v") -> str:
    """Store the lanes of a node in an array and return its name."""
    known = p.arrays.get(id(node))
    if known is not None:
        return known
    if p.lane is not None:
        raise InternalError(f"{p.name}: {node} was not stored in an array before the loop over its lanes")
    lanes = info(node.dtype).lanes
    name = p.fresh(clean(hint))
    p.line(f"{p.memory_type(element(node.dtype))} {name}[{lanes}]{p.alignment};")
    fill = _fill_of(p, node)
    if fill is not None:
        fill(p, node, name)
    else:
        prepare(p, node)
        with lane_loop(p, lanes):
            p.line(f"{name}[{p.lane}] = {bare(p.value(node))};")
    p.put(p.arrays, id(node), name)
    return name


def _fill_of(p: CLike, node: PrimExpr):
    if isinstance(node, Shuffle):
        return _fill_shuffle
    if isinstance(node, BufferLoad) and is_crossing(p, node):
        return _fill_wide_load
    if not isinstance(node, Call) or not (info(node.dtype).lanes == 1 or is_crossing(p, node)):
        return None
    return _FILLS.get(getattr(node.op, "name", ""))


def _lanes_of(p: CLike, node: PrimExpr) -> list[str]:
    """Return the texts of the lanes of an operand."""
    lanes = info(node.dtype).lanes
    if lanes == 1:
        return [p.named_value(node)]
    array = materialise(p, node) if id(node) not in p.arrays else p.arrays[id(node)]
    return [f"{array}[{i}]" for i in range(lanes)]


def _fill_shuffle(p: CLike, node: Shuffle, name: str) -> None:
    lanes = [text for vector in node.vectors for text in _lanes_of(p, vector)]
    for position, index in enumerate(node.indices):
        if not isinstance(index, IntImm) or not 0 <= index.value < len(lanes):
            raise TVMError(f"the indices of a shuffle must be literals below {len(lanes)}, got {index}")
        p.line(f"{name}[{position}] = {lanes[index.value]};")


def _fill_part(p: CLike, node: Call, name: str) -> None:
    lanes = [text for vector in node.args for text in _lanes_of(p, vector)]
    count = info(node.dtype).lanes
    first = len(lanes) - count if node.op.name == "tir.vectorhigh" else 0
    for position, text in enumerate(lanes[first : first + count]):
        p.line(f"{name}[{position}] = {text};")


def _fill_reinterpret(p: CLike, node: Call, name: str) -> None:
    source = node.args[0]
    have, want = info(source.dtype), info(node.dtype)
    if have.lanes * have.bytes != want.lanes * want.bytes:
        raise TVMError(f"reinterpret: {source.dtype} and {node.dtype} have different sizes")
    p.copy_bytes(name, materialise(p, source), want.lanes * want.bytes)


def _fill_choice(p: CLike, node: Call, name: str) -> None:
    p.open(f"if ({bare(p.value(node.args[0]))}) {{")
    _fill_branch(p, node.args[1], name)
    p.close("} else {")
    p.enter_block()
    p.indent += 1
    _fill_branch(p, node.args[2], name)
    p.close()


def _fill_branch(p: CLike, node: PrimExpr, name: str) -> None:
    prepare(p, node)
    with lane_loop(p, info(node.dtype).lanes):
        p.line(f"{name}[{p.lane}] = {bare(p.value(node))};")


_FILLS = {
    "tir.vectorlow": _fill_part,
    "tir.vectorhigh": _fill_part,
    "tir.vectorcombine": _fill_part,
    "tir.reinterpret": _fill_reinterpret,
    "tir.if_then_else": _fill_choice,
}


# Memory


def first_index(index: PrimExpr) -> PrimExpr | None:
    """Return the index of the first lane."""
    return index.base if isinstance(index, Ramp) else index.value if isinstance(index, Broadcast) else None


def contiguous_base(index: PrimExpr, dtype: str) -> PrimExpr | None:
    """Return the first index of contiguous elements."""
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
        return index.base if info(dtype).lanes == 1 else None
    return index if info(index.dtype).lanes == 1 else None


def first_address(p: CLike, buffer, index: PrimExpr) -> str:
    """Return the address of the first of contiguous elements."""
    lanes, base = info(buffer.dtype).lanes, contiguous_base(index, buffer.dtype)
    steps = p.value(base) if lanes == 1 else f"{p.value(base)} * {lanes}"
    return f"{c_expr.data_pointer(p, buffer)} + {addend(steps)}"


def _fill_wide_load(p: CLike, node: BufferLoad, name: str) -> None:
    p.load_wide(name, node.dtype, node.buffer, node.indices[0])


def store(p: CLike, stmt: BufferStore) -> None:
    """Print a store of several elements; all values are computed before the first is stored."""
    buffer, index, value = stmt.buffer, stmt.indices[0], stmt.value
    lanes = info(index.dtype).lanes * info(buffer.dtype).lanes
    given = info(value.dtype).lanes
    if given not in (1, lanes):
        raise TVMError(f"buffer {buffer.name}: a value of {given} lanes is stored at an index of {lanes} lanes")
    wide = given == lanes and p.is_wide(value.dtype, buffer, index)
    if given == 1:
        p.named_value(value)
    elif wide or _overlaps(p, stmt):
        materialise(p, value)
    else:
        prepare(p, value)
    if wide:
        p.store_wide(p.arrays[id(value)], value.dtype, buffer, index)
        return
    prepare(p, index)
    if min(info(index.dtype).lanes, info(buffer.dtype).lanes) > 1 or _reads(p, index, stmt):
        materialise(p, index)
    with lane_loop(p, lanes):
        array = p.arrays.get(id(value))
        text = f"{array}[{p.lane}]" if array is not None else bare(p.value(value))
        if lanes == info(index.dtype).lanes and id(index) in p.arrays:
            place = f"{c_expr.data_pointer(p, buffer)}[{p.arrays[id(index)]}[{p.lane}]]"
        else:
            place = c_expr.place(p, buffer, index)
        p.line(f"{place} = {text};")


def _overlaps(p: CLike, stmt: BufferStore) -> bool:
    """Return whether the value reads memory that the store of an earlier lane may have changed."""
    form = None
    for node in pre_order(stmt.value):
        if isinstance(node, Call) and getattr(node.op, "name", "") in ("tir.call_extern", "tir.call_pure_extern"):
            return True
        if not isinstance(node, BufferLoad):
            continue
        if node.buffer.data is not stmt.buffer.data:
            if node.buffer.data not in p.private and stmt.buffer.data not in p.private:
                return True
            continue
        form = form or access_form(stmt.indices[0])
        other = access_form(node.indices[0])
        if form.stride in (None, 0) or other.stride != form.stride or other.base != form.base:
            return True
    return False


def _reads(p: CLike, index: PrimExpr, stmt: BufferStore) -> bool:
    """Return whether the index of a store is read from memory that the store may change."""
    for node in pre_order(index):
        if isinstance(node, BufferLoad):
            data = node.buffer.data
            if data is stmt.buffer.data or (data not in p.private and stmt.buffer.data not in p.private):
                return True
    return False


EXPRESSIONS = {Ramp: ramp, Broadcast: broadcast, Shuffle: shuffle}
