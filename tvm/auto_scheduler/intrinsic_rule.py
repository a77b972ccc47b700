"""The sketch rule of tensor intrinsics.

An intrinsic applies to a sum of products whose operands have the required types and memory layouts. The rule tiles such
a stage so that the intrinsic computes the innermost loops; the loops around them are searched as in other sketches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from ..ir.prim import Add, Cast, IntImm, Mul, PrimExpr, ProducerLoad, Reduce, Var
from ..ir.structural import structural_equal
from ..ir.visit import post_order
from ..target import Target
from ..te.tensor import ComputeOp
from ..te.tensor_intrin import TensorIntrin
from .access import NO_SPLIT_AT_INNER, NO_SPLIT_AT_OUTER
from .intrinsics import SearchIntrinsic, intrinsics_of
from .loop_state import State
from .queries import has_cache_write
from .sketch_rules import FUSION_LEVELS, Condition, Found, Rule, Sketching, is_to_be_tiled
from .tiling import follow_tiles, names_in, tile

# An operand of a matmul: the read, and the type in which it is multiplied.
Operand = tuple[ProducerLoad, str]


def operands(op: Any) -> tuple[Reduce, list[Operand]] | None:
    """Return the reduction of an operation and the factors of its terms; None if it is not a sum of products of two
    reads."""
    reduce = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if not isinstance(reduce, Reduce) or len(reduce.source) != 1 or reduce.init:
        return None
    if not isinstance(reduce.condition, IntImm) or not reduce.condition.value:
        return None
    term, found = reduce.source[0], []
    for factor in (term.a, term.b) if isinstance(term, Mul) else ():
        read = factor.value if isinstance(factor, Cast) else factor
        if isinstance(read, ProducerLoad):
            found.append((read, factor.dtype))
    return (reduce, found) if len(found) == 2 else None


def step_along(index: PrimExpr, axis: Var) -> int | None:
    """Return the stride of an index along an axis; None if the index is not a sum of axes with constant factors."""
    todo, step = [index], 0
    while todo:
        node = todo.pop()
        if isinstance(node, Add):
            todo += [node.a, node.b]
        elif node is axis:
            step += 1
        elif isinstance(node, Mul) and node.a is axis and isinstance(node.b, IntImm):
            step += node.b.value
        elif _mentions(node, axis):
            return None
    return step


def _mentions(index: PrimExpr, axis: Var) -> bool:
    return any(node is axis for node in post_order(index))


def _reads_alike(own: ProducerLoad, meaning: ProducerLoad, axes: dict[Var, Var]) -> bool:
    """Return whether a read accesses the last dimensions of its tensor in the same way as a read of an intrinsic;
    ``axes`` maps the axes of the intrinsic to those of the operation."""
    places = len(own.indices) - len(meaning.indices)
    if places < 0 or own.dtype != meaning.dtype:
        return False
    for place, index in enumerate(own.indices):
        wanted = meaning.indices[place - places] if place >= places else None
        for theirs, ours in axes.items():
            if wanted is theirs:
                if step_along(index, ours) != 1:
                    return False
            elif _mentions(index, ours):
                return False
    return True


def tile_of(op: Any, intrin: TensorIntrin, is_padded: bool = False) -> dict[str, int] | None:
    """Return the axes of an operation, by name, whose innermost tiles an intrinsic computes, with the lengths of the
    tiles. Return None if the intrinsic does not apply: unless ``is_padded``, its lengths must divide those of the
    operation. The axes are ordered like those of the operand with the most of them, so that constants stored in loop
    order match the order in which the intrinsic reads them."""
    own, meaning = operands(op), operands(intrin.op)
    if own is None or meaning is None or len(op.axis) < len(intrin.op.axis):
        return None
    if own[0].dtype != meaning[0].dtype or not structural_equal(own[0].combiner, meaning[0].combiner):
        return None
    if [dtype for _, dtype in own[1]] != [dtype for _, dtype in meaning[1]]:
        return None
    # Elements are stored along the last axes, in their order.
    elements = op.axis[len(op.axis) - len(intrin.op.axis) :]
    theirs = (*intrin.op.axis, *intrin.op.reduce_axis)
    for terms in permutations(op.reduce_axis, len(intrin.op.reduce_axis)):
        pairs = list(zip(theirs, (*elements, *terms)))
        if is_padded or all(_divides(a.dom.extent, b.dom.extent) for a, b in pairs):
            axes = {a.var: b.var for a, b in pairs}
            if all(_reads_alike(mine[0], its[0], axes) for mine, its in zip(own[1], meaning[1])):
                order = max((its[0].indices for its in meaning[1]), key=len)
                pairs.sort(key=lambda pair: order.index(pair[0].var) if pair[0].var in order else -1)
                return {b.var.name: a.dom.extent.value for a, b in pairs}
    return None


def _divides(length: Any, extent: Any) -> bool:
    return isinstance(extent, IntImm) and extent.value % length.value == 0


class _Intrinsics:
    """The rule for the intrinsics of a target."""

    def __init__(self, intrinsics: Sequence[SearchIntrinsic]):
        self.intrinsics = [(one, one.make()) for one in intrinsics]

    def _fitting(self, op: Any) -> list[tuple[str, dict[str, int]]]:
        """Return the intrinsics that can compute tiles of an operation, with the lengths of the tiles."""
        whole = names_in(op, NO_SPLIT_AT_INNER) | names_in(op, NO_SPLIT_AT_OUTER)
        found = {
            one: lengths
            for one, intrin in self.intrinsics
            if (lengths := tile_of(op, intrin)) is not None and not whole & set(lengths)
        }
        replaced = {one.replaces for one in found}
        return [(one.name, lengths) for one, lengths in found.items() if one.name not in replaced]

    def condition(self, at: Sketching) -> Condition:
        # A stage and its cache compute the same values; the rule creates the cache itself.
        is_new = is_to_be_tiled(at) and not has_cache_write(at.state, at.stage_id)
        return Condition.APPLY if is_new and self._fitting(at.stage.op) else Condition.PASS

    def apply(self, at: Sketching) -> list[Found]:
        if at.queries.matched_consumer(at.stage_id) is None:
            # Sums are accumulated in registers, not in the output.
            state = at.open()
            state.cache_write(at.stage_id, "global")
            at = replace(at, state=state.state_object)
        target, found = at.queries.matched_consumer(at.stage_id), []
        for name, lengths in self._fitting(at.stage.op):
            base = at.open()
            tiles = tile(base, at.stage_id, at.structure, lengths)
            self._tensorize(base, at.stage_id, name, len(lengths))
            for level in FUSION_LEVELS if target is not None else ():
                if at.structure[level - 1] == "S":
                    state = base.copy()
                    state.compute_at(at.stage_id, target, follow_tiles(state, target, tiles, level))
                    found.append((state.state_object, at.stage_id - 1))
        return found

    @staticmethod
    def _tensorize(state: State, stage_id: int, name: str, loops: int) -> None:
        iters = state.stages[stage_id].iters
        state.tensorize(stage_id, iters[len(iters) - loops], name)


def intrinsic_rules(target: Target) -> list[Rule]:
    """Return the rule for the intrinsics of a target; none if it has none."""
    found = [one for one in intrinsics_of(target) if one.blocks is None]
    if not found:
        return []
    made = _Intrinsics(found)
    return [Rule("tensor intrinsic", made.condition, made.apply)]


__all__ = ["intrinsic_rules", "operands", "step_along", "tile_of"]
