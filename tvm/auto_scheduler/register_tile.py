"""What the innermost loops of a stage do in registers, over arrays of states.

The emitter expands loops from the innermost one outwards as far as the limit of unrolling goes; what it expands is the
body. Elements that the body accumulates stay in registers through the serial loops over terms right around it, so that
their loads and stores are shared by all those terms. A body without lanes whose reads go along with the loop around it
is made into vectors by LLVM. What limits a body is what it loads: each distinct vector, scalar or single lane is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ir.prim import Var
from .iterator import Annotation, IteratorKind
from .operation_facts import OperationFacts
from .queries import has_fragments

if TYPE_CHECKING:
    from .state_features import StageLoops

NAMES = (
    "body vectors", "body accumulators", "carried terms", "body loads", "lanes gathered", "registers", "trips",
    "loads per vector", "gathers per vector", "vectorized trips", "strided along trips", "odd lanes", "spilled",
    "tile bytes",
)
# Vector registers that a machine has at least where its vectors are not of 32 bytes, and where they are.
_REGISTERS, _FEW_REGISTERS, _FEW_BYTES = 32, 16, 32
# Registers of a body that hold operands; those of tensor intrinsics are put together from parts, several at a time.
_OPERANDS, _OPERANDS_IN_PARTS = 2, 8
# The arithmetic of a term that is one instruction: a product and its sum.
_FUSED = 2
# Instructions that load and store an accumulator, and those that also add its lanes up.
_MOVED, _ADDED_UP = 2, 4
# Bytes of a row of a matrix register, and the instructions that could run while a row of the lhs is multiplied with all
# rows of the rhs.
_ROW_BYTES, _ROW_STEPS = 64, 2
_KINDS = ("still", "next", "far", "")


@dataclass
class RegisterTile:
    """The bodies of a stage: arrays with a number for each state.

    ``expanded`` are its iterations, lanes aside, ``vectors`` its vector instructions, ``accumulators`` the registers it
    accumulates in, ``terms`` how many terms are added to them between their load and their store, ``outside`` those of
    them that are not in the body, ``loads`` what it loads, ``gathered`` those of them that are single lanes,
    ``registers`` what one term takes, ``trips`` the iterations of the serial loop around it, ``vectorized`` how many of
    them LLVM makes one, ``strided`` the reads that go far along them, ``odd`` the lanes that fill no register,
    ``spilled`` the accumulators for which there is no register, ``size`` the bytes of the elements of a nest,
    ``runs`` how often all nests run it, ``is_word`` says where products and their sums are one instruction, and
    ``joined`` counts what puts the operands of intrinsics together.
    """

    expanded: np.ndarray
    vectors: np.ndarray
    accumulators: np.ndarray
    terms: np.ndarray
    outside: np.ndarray
    loads: np.ndarray
    gathered: np.ndarray
    registers: np.ndarray
    trips: np.ndarray
    vectorized: np.ndarray
    strided: np.ndarray
    odd: np.ndarray
    spilled: np.ndarray
    size: np.ndarray
    runs: np.ndarray
    is_word: np.ndarray
    joined: np.ndarray

    def features(self) -> list[np.ndarray]:
        return [self.vectors, self.accumulators, self.terms, self.loads, self.gathered, self.registers, self.trips,
                16 * self.loads / self.vectors, 16 * self.gathered / self.vectors, self.vectorized, self.strided,
                self.odd, self.spilled, self.size]  # fmt: skip

    def steps(self, arithmetic: int) -> np.ndarray:
        """Instructions of all runs where a term takes some ``arithmetic``: that, loads, accumulators that come and go,
        and the loop itself. An intrinsic is one instruction, whatever it computes."""
        own = self.vectors * np.where(self.is_word, 1, max(arithmetic / _FUSED, 1))
        # Loads run beside dot products, which take as many inputs as other arithmetic and do four times as much.
        loads = np.where(self.is_word, self.loads / 2, self.loads)
        spilled = 2 * self.spilled / self.accumulators * self.vectors
        # Accumulators come and go once for all trips; the lanes of those of dot products are added up at the end.
        is_added_up = self.is_word & (self.vectorized > 1)
        ends = np.where(is_added_up, _ADDED_UP, _MOVED) * self.accumulators / self.outside
        return self.runs * ((own + loads + self.joined + spilled + 1) / self.vectorized + ends)


def register_tile(
    facts: OperationFacts, loops: StageLoops, vector_bytes: int, has_dot_products: bool = False
) -> RegisterTile:
    """The bodies of a stage on a machine with registers of so many bytes, and with dot products of bytes or without."""
    if has_fragments(loops.stage):
        return _matrix_tile(facts, loops)
    unit = max(vector_bytes // facts.store.width, 1)
    is_lane, is_term = loops.how == Annotation.VECTORIZE, loops.is_kind(IteratorKind.REDUCTION)
    in_body = body_of(loops)
    around, lanes = np.where(in_body, 1.0, loops.extents), loops.product(is_lane)
    # The terms that an instruction adds at once are one: as many as fill the bytes of an accumulator.
    word_loops = loops.how == Annotation.TENSORIZE
    expanded, is_made = in_body & ~is_lane & ~word_loops, word_loops.any(axis=0)
    narrowest = min((buffer.width for buffer in facts.reads), default=facts.store.width)
    words = np.maximum(loops.product(word_loops) * narrowest / facts.store.width, 1)
    # Lanes beyond the last whole register are handled in pieces of 1, 2, 4 ... of them.
    odd = lanes % unit
    whole = lanes // unit + sum((odd // (1 << bit)) % 2 for bit in range(max(unit.bit_length() - 1, 1)))
    iterations = loops.product(expanded)
    vectors, accumulators = iterations * whole * words, loops.product(expanded & ~is_term) * whole
    outside, trip = _around(around, is_term)
    loads, gathered = _loads(facts, loops, expanded, is_lane, lanes, whole)
    held, _ = _loads(facts, loops, expanded & ~is_term, is_lane, lanes, whole)
    registers = _FEW_REGISTERS if vector_bytes == _FEW_BYTES else _REGISTERS
    # LLVM makes dot products of sums of narrow integers, whose registers are filled with these.
    is_narrow = has_dot_products and facts.is_integer and narrowest < facts.store.width
    over_terms = is_narrow & (trip >= 0) & is_term[trip, 0] if loops.axes else np.zeros(len(trip), dtype=bool)
    trips, vectorized, strided = _trips(
        facts, loops, around, trip, np.where(over_terms, vector_bytes // narrowest, unit), lanes, expanded)
    vectorized = np.where(_repeats(loops, trip, expanded), 1.0, vectorized)
    is_word = is_made | over_terms & (vectorized > 1)
    operands = np.where(is_made, _OPERANDS_IN_PARTS, _OPERANDS)
    # Single words are inserted one by one; rows of several are transposed in as many steps as it takes to halve four.
    joined = np.where(is_made, gathered * np.where(words > 1, 2, 1), 0)
    space = loops.product(loops.is_kind(IteratorKind.SPATIAL))
    return RegisterTile(
        iterations, vectors, accumulators, outside * loops.product(expanded & is_term), outside, loads, gathered,
        accumulators + held, trips, vectorized, strided, np.where(lanes > 1, odd, 0),
        np.maximum(accumulators + operands - registers, 0), space * facts.store.width,
        around.prod(axis=0) * loops.times, is_word, joined)


def _matrix_tile(facts: OperationFacts, loops: StageLoops) -> RegisterTile:
    """The bodies of a stage that an intrinsic with rows and columns computes: products of blocks of matrix registers. A
    body is a tile of terms, and sums are in registers for all of those of the intrinsic."""
    made = np.array([it.annotation is Annotation.TENSORIZE for it in loops.stage.iters])[loops.owners][:, None]
    is_term, one = loops.is_kind(IteratorKind.REDUCTION), np.ones(loops.extents.shape[1])
    inside = _extents(loops, made)
    narrowest, lanes = min(buffer.width for buffer in facts.reads), _ROW_BYTES // facts.store.width
    steps = np.maximum(loops.product(made & is_term) * narrowest / _ROW_BYTES, 1)
    accumulators = np.maximum(loops.product(made & ~is_term) / lanes, 1)
    loads = sum(buffer.elements(inside) * buffer.width / _ROW_BYTES / steps for buffer in facts.reads) * one
    space, zero = loops.product(loops.is_kind(IteratorKind.SPATIAL)), np.zeros_like(one)
    return RegisterTile(
        one, _ROW_STEPS * accumulators, accumulators, steps, steps, loads, zero, accumulators, steps, one, zero, zero,
        zero, space * facts.store.width, loops.product(~made) * steps * loops.times, one > 0, zero)


def body_of(loops: StageLoops) -> np.ndarray:
    """Which loops are lanes or expanded (loops × states)."""
    count = loops.extents.shape[1]
    is_lane, is_parallel = loops.how == Annotation.VECTORIZE, loops.how == Annotation.PARALLEL
    # Loops that are lanes, asked for or of one iteration go into a body whatever the limit is.
    is_word = loops.how == Annotation.TENSORIZE
    is_taken = (loops.how == Annotation.UNROLL) | (loops.extents <= 1) | is_word
    lengths = np.where(is_lane | is_word, 1.0, loops.extents)
    steps, goes_on = np.ones(count), np.ones(count, dtype=bool)
    found = np.zeros(loops.extents.shape, dtype=bool)
    terms = [place for place, kind in enumerate(loops.kinds) if kind is IteratorKind.REDUCTION]
    for place in reversed(range(len(lengths))):
        if loops.owners[place] < loops.free_from:
            break
        if terms and place == terms[0] - 1:
            # Loops around all terms also set the accumulators that these are added to.
            elements = [inner for inner in range(terms[0], len(lengths)) if inner not in terms]
            steps = steps + lengths[elements].prod(axis=0)
        made = steps * lengths[place]
        goes_on = goes_on & (is_lane[place] | (made <= loops.unroll) | is_taken[place]) & ~is_parallel[place]
        if not goes_on.any():
            break
        found[place], steps = goes_on, np.where(goes_on, made, steps)
    return found


def _around(around: np.ndarray, is_term: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The iterations of the serial loops over terms right around a body, up to the first one over elements, and the
    innermost of all serial loops, -1 where there is none."""
    count = around.shape[1]
    outside, goes_on, trip = np.ones(count), np.ones(count, dtype=bool), np.full(count, -1)
    for place in reversed(range(len(around))):
        is_serial = around[place] > 1
        trip = np.where((trip < 0) & is_serial, place, trip)
        goes_on &= is_term[place] | ~is_serial
        outside = np.where(goes_on, outside * around[place], outside)
    return outside, trip


def _trips(
    facts: OperationFacts, loops: StageLoops, around: np.ndarray, trip: np.ndarray, unit: np.ndarray, lanes: np.ndarray,
    expanded: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The iterations of the loop around a body, how many of them LLVM makes one, and the reads that go far."""
    if not loops.axes:
        return np.ones_like(lanes), np.ones_like(lanes), np.zeros_like(lanes)
    every = np.arange(len(trip))
    moves = np.stack([facts.moves_along(axis) for axis in loops.axes])[trip]
    # What is stored in the order of the loops lies together along the trips only where a body reads one element of it.
    inside, far = _extents(loops, expanded), moves[:, 2]
    for buffer in facts.reads:
        if buffer.is_layout_free:
            is_along = np.array([facts.step_of(buffer, axis) == "next" for axis in loops.axes])[trip]
            far = far + (is_along & (buffer.elements(inside) > 1))
    trips = np.where(trip >= 0, around[trip, every], 1.0)
    is_element = ~loops.is_kind(IteratorKind.REDUCTION)[trip, 0]
    # Reads and the store of a loop over elements go along; those of a loop over terms end in one element.
    is_even = (far == 0) & (~is_element | (moves[:, 3] > 0)) & (trip >= 0)
    is_free = np.array(loops.owners)[trip] >= loops.free_from
    is_vectorized = is_even & is_free & (lanes == 1) & (trips >= unit)
    is_vectorized &= loops.how[trip, every] != Annotation.PARALLEL
    # What is left over runs one by one.
    groups = np.floor(trips / unit) + trips % unit
    return trips, np.where(is_vectorized, trips / groups, 1.0), far * (trip >= 0)


def _repeats(loops: StageLoops, trip: np.ndarray, expanded: np.ndarray) -> np.ndarray:
    """Whether a body has several iterations of the axis whose loop is around it: what it reads then lies apart from
    trip to trip, and LLVM makes no vectors of trips."""
    if not loops.axes:
        return np.zeros(expanded.shape[1], dtype=bool)
    same = np.array([[own is other for own in loops.axes] for other in loops.axes])[trip].T
    return (trip >= 0) & (loops.product(expanded & same) > 1)


def _extents(loops: StageLoops, over: np.ndarray) -> dict[Var, np.ndarray]:
    """The extents of axes over the loops in ``over``."""
    lengths = np.where(over, loops.extents, 1.0)
    found: dict[Var, np.ndarray] = {}
    for place, axis in enumerate(loops.axes):
        found[axis] = found[axis] * lengths[place] if axis in found else lengths[place]
    return found


def _loads(
    facts: OperationFacts, loops: StageLoops, over: np.ndarray, is_lane: np.ndarray, lanes: np.ndarray,
    whole: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """What is loaded for the iterations of the loops in ``over``, and how much of it is single lanes."""
    count = loops.extents.shape[1]
    total, gathered = np.zeros(count), np.zeros(count)
    if not loops.axes:
        return total + len(facts.reads), gathered
    inside = _extents(loops, over)
    moving = is_lane & (loops.extents > 1)
    last = len(moving) - 1 - moving[::-1].argmax(axis=0)
    for buffer in facts.reads:
        elements = buffer.elements(inside)
        kinds = np.array([_KINDS.index(facts.step_of(buffer, axis)) for axis in loops.axes])
        kind = np.where(moving.any(axis=0), kinds[last], 0)
        total = total + elements * np.where(kind == 0, 1.0, np.where(kind == 1, whole, lanes))
        gathered = gathered + elements * np.where(kind == 2, lanes, 0.0)
    return total, gathered


__all__ = ["NAMES", "RegisterTile", "body_of", "register_tile"]
