"""InjectCopyIntrin: replace copies with a pragma by the statement that a function returns, such as a DMA instruction.

A copy is a loop nest, starting at zero, around one store of one load whose indices are linear in the loop variables.
The load may be cast. It may be under bounds of the loop variables, outside which a padding value is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...arith import Analyzer
from ...arith.linear import detect_clip_bound, detect_linear_equation
from ...dtype import info
from ...error import TVMError
from ...ir import primop
from ...ir.prim import BufferLoad, Cast, IntImm, PrimExpr, Select, Var, const
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer, decl_buffer
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferStore, For, Stmt
from .statement import StmtRewriter, int_value, is_call

# Arguments: source, destination, padding elements before and after in each dimension, and the padding value.
LowerCopy = Callable[[Buffer, Buffer, list[PrimExpr], list[PrimExpr], Any], Stmt]


class Copies(StmtRewriter):
    def __init__(self, pragma_key: str, lower: LowerCopy):
        self.pragma_key, self.lower = pragma_key, lower

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "pragma_" + self.pragma_key:
            return self.keep(node)
        made = self.lower(*arguments(node.body, self.pragma_key))
        if not isinstance(made, Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TVMError(
                f"pragma {self.pragma_key}: the function that lowers copies must return a statement, got {made!r}"
            )
        return made


class Source(NamedTuple):
    """The source of a copy: a load, the condition of the load, and the padding value that is stored otherwise."""

    load: BufferLoad
    condition: PrimExpr | None = None
    padding: PrimExpr | None = None


def source_of(value: PrimExpr) -> Source | None:
    condition = padding = None
    if is_call(value, "tir.if_then_else"):
        condition, value, padding = value.args
    elif isinstance(value, Select):
        condition, value, padding = value.condition, value.true_value, value.false_value
    elif isinstance(value, Cast):
        value = value.value
    return Source(value, condition, padding) if isinstance(value, BufferLoad) else None


def arguments(stmt: Stmt, pragma_key: str) -> tuple[Buffer, Buffer, list[PrimExpr], list[PrimExpr], PrimExpr | None]:
    """Return the arguments of the function that lowers copies."""

    def refuse(reason: str) -> TVMError:
        return TVMError(f"pragma {pragma_key}: the statement is not a copy of memory: {reason}: {stmt}")

    loops: list[For] = []
    body = stmt
    while isinstance(body, For):
        if int_value(body.min) != 0:
            raise refuse(f"the loop over {body.loop_var.name} does not start at zero")
        loops.append(body)
        body = body.body
    if not isinstance(body, BufferStore):
        raise refuse("the loops contain more than one store")
    source = source_of(body.value)
    if source is None or info(source.load.dtype).lanes != 1:
        raise refuse("the stored value is not one element of a buffer")
    if len(body.indices) != 1 or len(source.load.indices) != 1:
        raise refuse("the memory is not flat; run StorageFlatten first")
    variables = [loop.loop_var for loop in loops]
    to, of = (place(access.indices[0], loops) for access in (body, source.load))
    if to is None or of is None:
        raise refuse("an index is not linear in the loop variables")
    shape = [loop.extent for loop in loops] or [const(1, "int32")]
    target = view(body.buffer, body.value.dtype, shape, *to)
    if source.condition is None:
        return view(source.load.buffer, source.load.dtype, shape, *of), target, [], [], None
    clip = detect_clip_bound(source.condition, variables)
    if not clip:
        raise refuse("the condition is not a conjunction of loop bounds")
    inside, start, before, after = clipped(shape, *of, clip)
    return view(source.load.buffer, source.load.dtype, inside, of[0], start), target, before, after, source.padding


def place(index: PrimExpr, loops: list[For]) -> tuple[list[PrimExpr], PrimExpr] | None:
    """Return the stride of each loop and the index of the first iteration, or None if the index is not linear.

    A loop of one iteration has no stride; it gets the stride of a dense layout.
    """
    variables = [loop.loop_var for loop in loops]
    form = detect_linear_equation(narrow(index), variables)
    if not form:
        return None
    analyzer = Analyzer()
    start = analyzer.simplify(substitute(index, {v: const(0, v.dtype) for v in variables}))
    one = const(1, "int32")
    steps = [analyzer.simplify(step) for step in form[:-1]]
    steps = [one if int_value(step) == 0 and int_value(loop.extent) == 1 else step for step, loop in zip(steps, loops)]
    return steps or [one], start


def narrow(index: PrimExpr) -> PrimExpr:
    """Return a 64-bit index over 32-bit variables in the type of its variables; it is used only to find the strides."""

    def after(node: Any):
        if isinstance(node, Cast) and node.dtype == "int64" and node.value.dtype == "int32":
            return node.value
        if isinstance(node, IntImm) and node.dtype == "int64" and abs(node.value) < 1 << 31:
            return const(node.value, "int32")
        build = primop.BUILD.get(type(node))
        return build(node.a, node.b) if build is not None else None

    nodes = list(post_order(index))
    if index.dtype != "int64" or any(isinstance(n, Var) and n.dtype == "int64" for n in nodes):
        return index
    return rewrite(index, after)


def clipped(
    shape: list[PrimExpr], steps: list[PrimExpr], start: PrimExpr, clip: list[PrimExpr | None]
) -> tuple[list[PrimExpr], PrimExpr, list[PrimExpr], list[PrimExpr]]:
    """Return the shape and start of the region that is read, and the padding before and after it in each dimension."""
    analyzer = Analyzer()
    inside, before, after = [], [], []
    for extent, step, low, high in zip(shape, steps, clip[::2], clip[1::2]):
        zero = const(0, extent.dtype)
        first = zero if low is None else analyzer.simplify(primop.maximum(low, zero))
        last = zero if high is None else analyzer.simplify(primop.maximum(extent - high - 1, zero))
        start = start + primop.cast(start.dtype, first) * primop.cast(start.dtype, step)
        inside.append(analyzer.simplify(extent - first - last))
        before.append(first)
        after.append(last)
    return inside, analyzer.simplify(start), before, after


def view(buffer: Buffer, dtype: str, shape: list[PrimExpr], steps: list[PrimExpr], start: PrimExpr) -> Buffer:
    return decl_buffer(shape, dtype, buffer.name, buffer.data, strides=steps, elem_offset=start)


def inject_copy_intrin(func: PrimFunc, pragma_key: str, lower: LowerCopy) -> PrimFunc:
    return func.replace(body=Copies(pragma_key, lower).stmt(func.body))
