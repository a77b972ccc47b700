"""Memory accesses: addresses, vector and scalar loads and stores, and the known contents of memory in the current
block."""

from __future__ import annotations

from math import gcd

from ...arith.sums import Sum
from ...dtype import element, info, with_lanes
from ...error import TVMError
from ...ir.prim import BufferLoad, Call, Let, PrimExpr, SizeVar, Var
from ...ir.visit import post_order
from ...tir.stmt import BufferStore
from ..linear import Access, access_form, one_index
from .builder import Builder
from .value import build_vector, extract, splat, value

# Buffers whose memory may have aliases share one entry in Builder.loads.
_ANY = Var("any", "handle")
# The size of a cache line in bytes.
LINE = 64
_ARITHMETIC = frozenset(f"tir.{n}" for n in ("bitwise_and", "if_then_else", "likely", "shift_left", "shift_right"))


def access_of(b: Builder, index: PrimExpr) -> Access:
    """Return the linear form of an index, computed once per node and module."""
    known = b.module.accesses.get(id(index))
    if known is None:
        known = b.module.accesses[id(index)] = (index, access_form(index))
    return known[1]


def wide_value(b: Builder, node: PrimExpr) -> str:
    """Return an integer operand in the index type."""
    wide = b.wide.get(node)
    if wide is not None:
        return wide
    got = value(b, node)
    text = b.types[node.dtype]
    if text == b.index or got[0] != "%":
        return got
    have, want = int(text[1:]), int(b.index[1:])
    if have > want:
        return b.op(f"trunc {text} {got} to {b.index}")
    return b.op(f"{'sext' if info(node.dtype).is_int else 'zext'} {text} {got} to {b.index}")


def _atom_value(b: Builder, atom: PrimExpr) -> str:
    """Return a term of a sum in the index type. A copy of an unrolled body reuses the term of another copy if its
    variables have the same values there."""
    if not b.constants:
        return wide_value(b, atom)
    used = _variables(b, atom)
    if used is None:
        return wide_value(b, atom)
    values = [str(b.constants[v]) if v in b.constants else b.wide.get(v) or value(b, v) for v in used]
    text = f"{id(atom)} of {' '.join(values)}"
    got = b.numbered.get(text)
    if got is None:
        got = wide_value(b, atom)
        b.note(text, got)
    return got


def _level(b: Builder, atom: PrimExpr) -> int:
    """Return the depth of the innermost loop that a term with dynamic dimensions depends on. Terms of unknown depth and
    terms with constant sizes come last, because LLVM finds the invariant parts of their quotients."""
    used = _variables(b, atom)
    if used is None or not any(isinstance(v, SizeVar) for v in used):
        return 99
    return max((b.level.get(v, 0) for v in used if v not in b.constants), default=0)


def _variables(b: Builder, atom: PrimExpr) -> list[Var] | None:
    """Return the variables of a term, or None if the same values of the variables may give another value."""
    known = b.module.variables.get(id(atom))
    if known is None:
        nodes = list(post_order(atom))
        used = [n for n in nodes if isinstance(n, Var)] if all(map(_is_arithmetic, nodes)) else None
        known = b.module.variables[id(atom)] = (atom, used)
    return known[1]


def _is_arithmetic(node: PrimExpr) -> bool:
    """Return whether the value of a node depends only on the values of its variables."""
    if isinstance(node, Call):
        return getattr(node.op, "name", "") in _ARITHMETIC
    return not isinstance(node, (BufferLoad, Let))


def sum_of(b: Builder, form: Sum) -> tuple[str | None, int]:
    """Return the non-constant part of a sum (None if there is none) and the constant to add to it."""
    constant = form.constant
    level, fixed_of, inner = b.level, b.constants, b.inner
    parts: list[tuple[int, str, int]] = []
    for atom, scale in form.terms.items():
        fixed = fixed_of.get(atom)
        if fixed is not None:
            constant += scale * fixed
            continue
        if atom is inner and not -2 < scale < 2:
            b.strided = True
        operand = wide_value(b, atom) if isinstance(atom, Var) else _atom_value(b, atom)
        if operand[0] != "%":
            constant += scale * (1 if operand == "true" else 0 if operand == "false" else int(operand))
            continue
        parts.append((level[atom] if atom in level else _level(b, atom), operand, scale))
    if not parts:
        return None, constant
    # Outer variables come first, so that partial sums are invariant in inner loops.
    if len(parts) > 1:
        parts.sort(key=lambda part: part[0])
    total = None
    text, op = b.index, b.op
    for _, operand, scale in parts:
        term = operand if scale == 1 else op(f"mul nsw {text} {operand}, {scale}")
        total = term if total is None else op(f"add nsw {text} {total}, {term}")
    return total, constant


def index_value(b: Builder, form: Sum) -> str:
    """Return a sum as one operand of the index type."""
    total, constant = sum_of(b, form)
    if total is None:
        return str(constant)
    return total if constant == 0 else b.op(f"add nsw {b.index} {total}, {constant}")


def pointer_of(b: Builder, var: Var) -> str:
    return value(b, var)


def address(b: Builder, var: Var, unit: str, form: Sum) -> str:
    """Return a pointer to the element at ``form``; ``unit`` is the type of the element. The constant part is a separate
    offset, so that adjacent elements share the rest of the address."""
    total, constant = sum_of(b, form)
    pointer = pointer_of(b, var)
    if total is not None:
        # Without the constant part, the address may be outside the buffer.
        bounds = "" if constant else "inbounds "
        pointer = b.op(f"getelementptr {bounds}{unit}, ptr {pointer}, {b.index} {total}")
    if constant:
        pointer = b.op(f"getelementptr {unit}, ptr {pointer}, {b.index} {constant}")
    return pointer


def alignment(b: Builder, var: Var, form: Sum, unit_bytes: int, natural: int) -> int:
    """Return the known alignment of the address in bytes; elements of arguments only have their natural alignment."""
    base = b.alignment.get(var, 0)
    if base <= natural:
        return natural
    common = base
    constant = form.constant
    for atom, scale in form.terms.items():
        fixed = b.constants.get(atom)
        if fixed is None:
            common = gcd(common, scale * unit_bytes)
        else:
            constant += scale * fixed
    return max(gcd(common, constant * unit_bytes), natural)


def _memory_class(b: Builder, var: Var) -> Var:
    return var if var in b.private else _ANY


def _forget(b: Builder, var: Var) -> None:
    """Invalidate known memory contents after a store through ``var``."""
    if var in b.private:
        b.loads.pop(var, None)
        b.loads.pop(_ANY, None)
    else:
        b.loads.clear()


def read(b: Builder, var: Var, dtype: str, pointer: str, align: int) -> str:
    """Load a value of ``dtype``, or reuse known memory contents of the block."""
    types = b.types
    text = f"load {types.memory(dtype)}, ptr {pointer}, align {align}"
    known = b.loads.setdefault(_memory_class(b, var), {})
    got = known.get(text)
    if got is None:
        got = b.effect(text)
        if info(dtype).is_bool:
            memory = types.memory(dtype)
            got = b.effect(f"icmp ne {memory} {got}, {'0' if memory == 'i8' else 'zeroinitializer'}")
        known[text] = got
    return got


def _write(b: Builder, dtype: str, operand: str, pointer: str, align: int) -> None:
    memory = b.types.memory(dtype)
    if info(dtype).is_bool:
        if operand[0] == "%":
            operand = b.op(f"zext {b.types[dtype]} {operand} to {memory}")
        elif memory == "i8":
            operand = "1" if operand == "true" else "0"
        else:
            operand = "zeroinitializer" if operand == "zeroinitializer" else "splat (i8 1)"
    if memory == "<3 x i8>" and operand[0] == "%":
        # On AArch64, LLVM 22 terminates the process for a vector store of three bytes that were truncated from wider
        # integers.
        for lane in range(3):
            byte = b.op(f"extractelement {memory} {operand}, i32 {lane}")
            place = b.op(f"getelementptr i8, ptr {pointer}, i64 {lane}") if lane else pointer
            b.out.append(f"  store i8 {byte}, ptr {place}, align 1")
        return
    hint = b.store_hint if align % LINE == 0 else ""
    if hint and dtype == "bfloat16x32":
        # LLVM does not support streaming stores of bfloat16, and would fold a cast that it can analyze.
        bits = b.op(f"bitcast {memory} {operand} to <16 x i32>")
        memory, operand = "<16 x i32>", b.effect(f'call <16 x i32> asm "", "=v,0"(<16 x i32> {bits})')
    b.out.append(f"  store {memory} {operand}, ptr {pointer}, align {align}{hint}")


def load(b: Builder, node: BufferLoad) -> str:
    buffer = node.buffer
    index = one_index(buffer, node.indices)
    access = access_of(b, index)
    unit = b.types.element(buffer.dtype)
    kind = info(buffer.dtype)
    natural, unit_bytes = kind.bytes, kind.bytes * kind.lanes
    if access.lanes == 1 or access.stride == 1:
        pointer = address(b, buffer.data, unit, access.base)
        return read(b, buffer.data, node.dtype, pointer, alignment(b, buffer.data, access.base, unit_bytes, natural))
    if access.stride == 0 and kind.lanes == 1:
        return splat(
            b,
            buffer.dtype,
            read(b, buffer.data, buffer.dtype, address(b, buffer.data, unit, access.base), natural),
            access.lanes,
        )
    if access.scattered is not None and kind.lanes == 1 and not kind.is_bool:
        place, lanes = access.scattered
        first, count = min(lanes), max(lanes) - min(lanes) + 1
        if count <= access.lanes:
            return _permuted(b, node, Sum(place.terms, place.constant + first), count, [x - first for x in lanes])
    pieces = [read(b, buffer.data, buffer.dtype, p, natural) for p in _lane_addresses(b, node, access, unit)]
    return _join(b, node.dtype, buffer.dtype, pieces)


def _permuted(b: Builder, node: BufferLoad, place: Sum, count: int, lanes: list[int]) -> str:
    """Load lanes in permuted order: load the whole short row, whose first and last element are among the lanes, and
    shuffle it."""
    dtype = node.buffer.dtype
    pointer = address(b, node.buffer.data, b.types.element(dtype), place)
    if count == 1:
        return splat(b, dtype, read(b, node.buffer.data, dtype, pointer, info(dtype).bytes), len(lanes))
    row = read(b, node.buffer.data, with_lanes(dtype, count), pointer, info(dtype).bytes)
    mask, text = ", ".join(f"i32 {lane}" for lane in lanes), b.types[with_lanes(dtype, count)]
    return b.op(f"shufflevector {text} {row}, {text} poison, <{len(lanes)} x i32> <{mask}>")


def _lane_addresses(b: Builder, node, access: Access, unit: str) -> list[str]:
    """Return a pointer per lane of a strided or general vector index."""
    data = node.buffer.data
    if access.base is not None:
        form, step = access.base, access.stride
        assert step is not None, "an index with a base has a stride"
        return [address(b, data, unit, Sum(form.terms, form.constant + i * step)) for i in range(access.lanes)]
    if access.scattered is not None:
        place, lanes = access.scattered
        return [address(b, data, unit, Sum(place.terms, place.constant + lane)) for lane in lanes]
    index = node.indices[0]
    vector = value(b, index)
    scalar = element(index.dtype)
    signed = "sext" if info(scalar).is_int else "zext"
    pointer = pointer_of(b, data)
    out = []
    for lane in range(access.lanes):
        offset = extract(b, index.dtype, vector, lane)
        text = b.types[scalar]
        if int(text[1:]) < int(b.index[1:]):
            offset = b.op(f"{signed} {text} {offset} to {b.index}")
        elif text != b.index:
            offset = b.op(f"trunc {text} {offset} to {b.index}")
        out.append(b.op(f"getelementptr inbounds {unit}, ptr {pointer}, {b.index} {offset}"))
    return out


def _join(b: Builder, dtype: str, piece_dtype: str, pieces: list[str]) -> str:
    """Concatenate scalars or short vectors."""
    lanes = info(piece_dtype).lanes
    if lanes == 1:
        return build_vector(b, dtype, pieces)
    return build_vector(b, dtype, [extract(b, piece_dtype, p, i) for p in pieces for i in range(lanes)])


def store(b: Builder, node: BufferStore) -> None:
    buffer, data = node.buffer, node.buffer.data
    index = one_index(buffer, node.indices)
    access = access_of(b, index)
    kind = info(buffer.dtype)
    natural, unit_bytes = kind.bytes, kind.bytes * kind.lanes
    unit = b.types.element(buffer.dtype)
    operand = value(b, node.value)
    given = info(node.value.dtype)
    if access.lanes == 1 or access.stride == 1:
        dtype = node.value.dtype
        wanted = kind.lanes * access.lanes
        if given.lanes != wanted:
            if given.lanes != 1:
                raise TVMError(
                    f"buffer {buffer.name}: a value of {given.lanes} lanes is stored at an index of {wanted} lanes"
                )
            operand, dtype = splat(b, dtype, operand, wanted), with_lanes(dtype, wanted)
        if element(dtype) != element(buffer.dtype):
            raise TVMError(f"cannot store a value of type {dtype} in buffer {buffer.name} of type {buffer.dtype}")
        pointer = address(b, data, unit, access.base)
        _forget(b, data)
        align = alignment(b, data, access.base, unit_bytes, natural)
        _write(b, dtype, operand, pointer, align)
        if not given.is_bool:
            text = f"load {b.types.memory(dtype)}, ptr {pointer}, align {align}"
            b.loads.setdefault(_memory_class(b, data), {})[text] = operand
        return
    _scatter(b, node, access, unit, operand, natural)


def _scatter(b: Builder, node: BufferStore, access: Access, unit: str, operand: str, natural: int) -> None:
    """Store lanes in order, so that the last one remains if several have the same address."""
    buffer = node.buffer
    lanes = info(buffer.dtype).lanes
    pointers = _lane_addresses(b, node, access, unit)
    vector = node.value.dtype
    single = info(vector).lanes == 1
    _forget(b, buffer.data)
    for number, pointer in enumerate(pointers):
        if single:
            piece = operand
        elif lanes == 1:
            piece = extract(b, vector, operand, number)
        else:
            parts = [extract(b, vector, operand, number * lanes + i) for i in range(lanes)]
            piece = build_vector(b, buffer.dtype, parts)
        _write(b, buffer.dtype, piece, pointer, natural)


def element_address(b: Builder, node: BufferLoad) -> str:
    """Return the address of the first element of a load."""
    access = access_of(b, one_index(node.buffer, node.indices))
    if access.base is None:
        raise TVMError(f"address_of: a vector load has no single address: {node}")
    return address(b, node.buffer.data, b.types.element(node.buffer.dtype), access.base)
