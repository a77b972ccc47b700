"""Matrix fragments in tile registers of x86 (AMX).

Buffers of the scopes ``wmma.*`` are registers: each fragment gets one of eight registers by its position in the
program, and none is spilled. A task configures the register sizes before it uses them.
"""

from __future__ import annotations

from ...dtype import info
from ...error import TVMError
from ...ir.prim import Call, PrimExpr, Var
from ...ir.visit import post_order
from ...tir.stmt import Allocate, IfThenElse, Stmt
from ...tir.transform.tagged_memory import scope_of
from . import memory
from .builder import Builder
from .intrinsic import check_available
from .runtime import return_if_failed, runtime_call
from .value import value

REGISTERS = 8
MAX_ROWS, ROW_BYTES = 16, 64
# Bytes of an accumulator element; an accumulator element also combines this many bytes of adjacent operand elements.
SUM_BYTES = 4
_A, _B, _ACCUMULATOR = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"
SCOPES = frozenset((_A, _B, _ACCUMULATOR))
_SIZED = frozenset(("tir.tvm_load_matrix_sync", "tir.tvm_fill_fragment", "tir.tvm_store_matrix_sync"))
# The layout of an operand whose cache lines should not evict others from the L1 cache.
NON_TEMPORAL = "row_major_non_temporal"
# The instruction for each pair of operand types.
_INSTRUCTIONS = {
    ("bfloat16", "bfloat16"): "tdpbf16ps",
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
}


class Registers:
    """The tile registers of a fragment buffer: first register, number, shape of each, and element type."""

    def __init__(self, first: int, count: int, rows: int, row_bytes: int, dtype: str):
        self.first, self.count, self.rows, self.row_bytes, self.dtype = first, count, rows, row_bytes, dtype


def is_fragment(stmt: Allocate) -> bool:
    return scope_of(stmt.buffer_var) in SCOPES


def allocate(b: Builder, stmt: Allocate, emit) -> None:
    """Allocate the registers of a buffer, then emit its body. The outermost buffer allocates for all buffers inside
    it."""
    is_outermost = not b.tiles
    if is_outermost:
        b.tiles = _plan(b, stmt)
        if b.tiles:
            _begin(b, _sizes(b))
    emit(b, stmt.body)
    if is_outermost:
        b.tiles = {}


def _sizes(b: Builder) -> str:
    """Return the tile configuration, which is the same for the whole function."""
    config = bytearray(64)
    config[0] = 1
    for held in b.tiles.values():
        for number in range(held.first, held.first + held.count):
            config[16 + 2 * number : 18 + 2 * number] = held.row_bytes.to_bytes(2, "little")
            config[48 + number] = held.rows
    return b.module.bytes_constant(bytes(config), 64)


def _begin(b: Builder, sizes: str) -> None:
    """Request the tile registers at the start of the function, once for all its tasks. If the system denies them,
    return an error before a register is used."""
    if b.tile_sizes is None:
        # Values emitted here are available only after the first block.
        start, known = len(b.out), b.numbered
        b.numbered = {}
        b.push()
        b.tile_status = runtime_call(b, "use_tiles", [("ptr", sizes)])
        b.pop()
        b.numbered = known
        b.entry.extend(b.out[start:])
        del b.out[start:]
        b.module.declare("llvm.x86.tilerelease", "void", "")
        # Steps of a tile contain parts of the epilogue of the previous tile, which the first tile does not have.
        b.module.has_loop_conditions = True
    elif b.tile_sizes != sizes:
        raise TVMError(f"{b.name}: a function must not contain fragments with different tile configurations")
    # Returns emitted here have no registers to release.
    b.tile_sizes = None
    return_if_failed(b, b.tile_status)
    b.tile_sizes = sizes


def _plan(b: Builder, root: Allocate) -> dict[Var, Registers]:
    """Allocate registers for all fragment buffers in a statement. Only buffers in different branches of a condition
    share registers."""
    shapes: dict[Var, tuple[int, int, int]] = {}
    found: list[Allocate] = []
    for node in post_order(root):
        if isinstance(node, Call) and getattr(node.op, "name", "") in _SIZED:
            var, shape = node.args[0], tuple(int(a.value) for a in node.args[1:4])
            if shapes.setdefault(var, shape) != shape:
                raise TVMError(f"{b.name}: fragments of {var.name} have different shapes, {shapes[var]} and {shape}")
        elif isinstance(node, Allocate) and is_fragment(node):
            found.append(node)
    plan: dict[Var, Registers] = {}
    apart = _branches(root, {node.buffer_var for node in found})
    used = _uses(root, {node.buffer_var for node in found})
    found = [node for node in reversed(found) if node.buffer_var in used]
    nodes = sorted(found, key=lambda node: apart.get(node.buffer_var, 0))
    first = highest = low = 0
    for place, node in enumerate(nodes):
        var = node.buffer_var
        branch = apart.get(var, 0)
        if place and branch != apart.get(nodes[place - 1].buffer_var, 0):
            # Both branches use the same first register.
            low = first if branch == 1 else low
            first = low
        if var not in shapes:
            raise TVMError(f"{b.name}: fragments of {var.name} are neither loaded nor filled")
        m, n, k = shapes[var]
        scope, size = scope_of(var), info(node.dtype).bytes
        if scope == _ACCUMULATOR:
            rows, row_bytes, elements = m, n * size, m * n
        elif scope == _A:
            rows, row_bytes, elements = m, k * size, m * k
        else:
            rows, row_bytes, elements = -(-k * size // SUM_BYTES), n * SUM_BYTES, k * n
        if not (0 < rows <= MAX_ROWS and 0 < row_bytes <= ROW_BYTES and row_bytes % SUM_BYTES == 0):
            raise TVMError(
                f"{b.name}: a fragment of {rows} rows of {row_bytes} bytes ({var.name}) is too large; a tile "
                f"register has at most {MAX_ROWS} rows of {ROW_BYTES} bytes, and rows are multiples of 4 bytes"
            )
        count = _elements(node) // elements
        plan[var] = Registers(first, count, rows, row_bytes, node.dtype)
        first += count
        highest = max(highest, first)
    if highest > REGISTERS:
        parts = ", ".join(f"{h.count} of {v.name}" for v, h in plan.items())
        raise TVMError(f"{b.name}: {highest} tile registers are needed ({parts}), but there are only {REGISTERS}")
    return plan


def _branches(root: Allocate, fragments: set[Var]) -> dict[Var, int]:
    """Return 1 for the fragments that occur only in the first branch of a condition, 2 for those only in the second.
    The dict is empty if a branch may use values of an earlier execution: fragments must be loaded or filled before
    use."""
    uses = _uses(root, fragments)
    for node in post_order(root):
        if isinstance(node, IfThenElse) and node.else_case is not None:
            inside = [_uses(case, fragments) for case in (node.then_case, node.else_case)]
            own = [{v: n for v, n in part.items() if len(n) == len(uses[v])} for part in inside]
            if all(own) and all(n[0] in ("fill", "load") for part in own for n in part.values()):
                return {v: number for number, part in enumerate(own, 1) for v in part}
    return {}


def _uses(root: Stmt, fragments: set[Var]) -> dict[Var, list[str]]:
    """Return the operations on each fragment buffer, in order."""
    found: dict[Var, list[str]] = {}
    for node in post_order(root):
        if isinstance(node, Call) and getattr(node.op, "name", "") in CALLS:
            for a in node.args:
                if isinstance(a, Var) and a in fragments:
                    found.setdefault(a, []).append(node.op.name.split("_")[1])
    return found


def _elements(node: Allocate) -> int:
    count = info(node.dtype).lanes
    for extent in node.extents:
        count *= int(extent.value)
    return count


def _register(b: Builder, fragment: PrimExpr, index: PrimExpr) -> str:
    held = b.tiles.get(fragment)
    if held is None:
        raise TVMError(f"{b.name}: {fragment} is not a fragment buffer on this target")
    number = value(b, index)
    if number[0] == "%":
        raise TVMError(
            f"{b.name}: the index of a fragment of {fragment} must be constant; unroll the loops over fragments"
        )
    if not 0 <= int(number) < held.count:
        raise TVMError(
            f"{b.name}: fragment index {number} of {fragment} is out of range; it has {held.count} fragments"
        )
    return str(held.first + int(number))


def _call(b: Builder, name: str, *arguments: tuple[str, str]) -> str:
    full = f"llvm.x86.{name}"
    check_available(full, b.module.cpu)
    function = b.module.declare(full, "void", ", ".join(t + " immarg" * (t == "i8") for t, _ in arguments))
    b.line(f"call void {function}({', '.join(f'{t} {x}' for t, x in arguments)})")
    return "0"


def _row_stride(b: Builder, fragment: PrimExpr, stride: PrimExpr) -> str:
    """Return the stride between rows in bytes."""
    size = info(b.tiles[fragment].dtype).bytes
    return memory.index_value(b, memory.access_of(b, stride * size).base)


def _load(b: Builder, node: Call) -> str:
    fragment, _, _, _, index, place, stride, layout = node.args
    register = _register(b, fragment, index)
    name = "tileloaddt164" if layout.value == NON_TEMPORAL else "tileloadd64"
    return _call(b, name, ("i8", register), ("ptr", value(b, place)), ("i64", _row_stride(b, fragment, stride)))


def _store(b: Builder, node: Call) -> str:
    fragment, _, _, _, index, place, stride, _ = node.args
    register = _register(b, fragment, index)
    _call(b, "tilestored64", ("i8", register), ("ptr", value(b, place)), ("i64", _row_stride(b, fragment, stride)))
    b.forget_memory()
    return "0"


def _fill(b: Builder, node: Call) -> str:
    fragment, index, start = node.args[0], node.args[4], node.args[5]
    if getattr(start, "value", None) != 0:
        raise TVMError(f"{b.name}: fragments can only be filled with zero on this target, not with {start}")
    return _call(b, "tilezero", ("i8", _register(b, fragment, index)))


def _multiply(b: Builder, node: Call) -> str:
    d, a, w, c = (_register(b, *node.args[2 * i : 2 * i + 2]) for i in range(4))
    kinds = b.tiles[node.args[2]].dtype, b.tiles[node.args[4]].dtype
    if d != c or kinds not in _INSTRUCTIONS:
        raise TVMError(f"{b.name}: matmuls of {kinds[0]} and {kinds[1]} in tile registers must accumulate in place")
    return _call(b, _INSTRUCTIONS[kinds], ("i8", d), ("i8", a), ("i8", w))


CALLS = {
    "tir.tvm_load_matrix_sync": _load,
    "tir.tvm_store_matrix_sync": _store,
    "tir.tvm_fill_fragment": _fill,
    "tir.tvm_mma_sync": _multiply,
}

__all__ = ["CALLS", "SCOPES", "allocate", "is_fragment"]
