"""Register use of the innermost loops of a stage, computed on arrays of states.

The code generator unrolls loops from the innermost one outwards up to the unrolling limit; the unrolled code is the
body. Accumulators of the body stay in registers during the serial reduction loops directly around it, so that their
loads and stores are executed once for all those iterations. LLVM vectorizes a body without vector lanes if its reads
are contiguous along the loop around it. The bottleneck of a body is its loads: each distinct vector, scalar or single
lane is one load.
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
    "body vectors",
    "body accumulators",
    "carried terms",
    "body loads",
    "lanes gathered",
    "registers",
    "trips",
    "loads per vector",
    "gathers per vector",
    "vectorized trips",
    "strided along trips",
    "odd lanes",
    "spilled",
    "tile bytes",
)
# The minimum number of vector registers of a machine with vectors of other sizes than 32 bytes, and with 32-byte
# vectors.
_REGISTERS, _FEW_REGISTERS, _FEW_BYTES = 32, 16, 32
# Registers of a body that contain operands; operands of tensor intrinsics are assembled from parts, several at a time.
_OPERANDS, _OPERANDS_IN_PARTS = 2, 8
# Arithmetic operations of a term that form one instruction: a multiplication and an addition.
_FUSED = 2
# Instructions to load and store an accumulator, and to do this and also sum up its lanes.
_MOVED, _ADDED_UP = 2, 4
# The size of a row of a matrix register in bytes; and the number of other instructions in the time of multiplying one
# row of the lhs with all rows of the rhs.
_ROW_BYTES, _ROW_STEPS = 64, 2
_KINDS = ("still", "next", "far", "")


@dataclass
class RegisterTile:
    """The bodies of a stage: arrays with one value per state.

    ``expanded``: unrolled iterations, without vector lanes. ``vectors``: vector instructions. ``accumulators``:
    registers of accumulators. ``terms``: terms added to an accumulator between its load and its store; ``outside``: the
    part of them outside the body. ``loads``: loads of the body; ``gathered``: the part of them that loads single lanes.
    ``registers``: registers needed for one term. ``trips``: iterations of the serial loop around the body;
    ``vectorized``: how many of them LLVM combines. ``strided``: non-contiguous reads along these iterations. ``odd``:
    lanes that do not fill a register. ``spilled``: accumulators without a register. ``size``: bytes of the elements of
    a nest. ``runs``: executions of the body by all nests. ``is_word``: whether a multiplication and its additions are
    one instruction. ``joined``: instructions that assemble the operands of intrinsics.
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
        """Return the instructions of all executions, given the ``arithmetic`` of a term: the arithmetic, loads, loading
        and storing accumulators, and loop overhead. An intrinsic is one instruction."""
        own = self.vectors * np.where(self.is_word, 1, max(arithmetic / _FUSED, 1))
        # Loads overlap with dot products, which have as many operands as other arithmetic instructions but do four
        # times the work.
        loads = np.where(self.is_word, self.loads / 2, self.loads)
        spilled = 2 * self.spilled / self.accumulators * self.vectors
        # Accumulators are loaded and stored once for all iterations; the lanes of dot product accumulators are summed
        # up at the end.
        is_added_up = self.is_word & (self.vectorized > 1)
        ends = np.where(is_added_up, _ADDED_UP, _MOVED) * self.accumulators / self.outside
        return self.runs * ((own + loads + self.joined + spilled + 1) / self.vectorized + ends)


def register_tile(
    facts: OperationFacts, loops: StageLoops, vector_bytes: int, has_dot_products: bool = False
) -> RegisterTile:
    """Return the bodies of a stage on a machine with vector registers of ``vector_bytes``, with or without int8 dot
    products."""
    if has_fragments(loops.stage):
        return _matrix_tile(facts, loops)
    unit = max(vector_bytes // facts.store.width, 1)
    is_lane, is_term = loops.how == Annotation.VECTORIZE, loops.is_kind(IteratorKind.REDUCTION)
    in_body = body_of(loops)
    around, lanes = np.where(in_body, 1.0, loops.extents), loops.product(is_lane)
    # The terms that an instruction adds at once count as one: as many terms as fit in the bytes of an accumulator.
    word_loops = loops.how == Annotation.TENSORIZE
    expanded, is_made = in_body & ~is_lane & ~word_loops, word_loops.any(axis=0)
    narrowest = min((buffer.width for buffer in facts.reads), default=facts.store.width)
    words = np.maximum(loops.product(word_loops) * narrowest / facts.store.width, 1)
    # Lanes beyond the last full register are processed in parts of 1, 2, 4 ... lanes.
    odd = lanes % unit
    whole = lanes // unit + sum((odd // (1 << bit)) % 2 for bit in range(max(unit.bit_length() - 1, 1)))
    iterations = loops.product(expanded)
    vectors, accumulators = iterations * whole * words, loops.product(expanded & ~is_term) * whole
    outside, trip = _around(around, is_term)
    loads, gathered = _loads(facts, loops, expanded, is_lane, lanes, whole)
    held, _ = _loads(facts, loops, expanded & ~is_term, is_lane, lanes, whole)
    registers = _FEW_REGISTERS if vector_bytes == _FEW_BYTES else _REGISTERS
    # LLVM converts sums of products of narrow integers to dot products; their registers contain the narrow integers.
    is_narrow = has_dot_products and facts.is_integer and narrowest < facts.store.width
    over_terms = is_narrow & (trip >= 0) & is_term[trip, 0] if loops.axes else np.zeros(len(trip), dtype=bool)
    trips, vectorized, strided = _trips(
        facts, loops, around, trip, np.where(over_terms, vector_bytes // narrowest, unit), lanes, expanded
    )
    vectorized = np.where(_repeats(loops, trip, expanded), 1.0, vectorized)
    is_word = is_made | over_terms & (vectorized > 1)
    operands = np.where(is_made, _OPERANDS_IN_PARTS, _OPERANDS)
    # Single words are inserted one by one; rows of several words are transposed, which takes two instructions per row.
    joined = np.where(is_made, gathered * np.where(words > 1, 2, 1), 0)
    space = loops.product(loops.is_kind(IteratorKind.SPATIAL))
    return RegisterTile(
        iterations,
        vectors,
        accumulators,
        outside * loops.product(expanded & is_term),
        outside,
        loads,
        gathered,
        accumulators + held,
        trips,
        vectorized,
        strided,
        np.where(lanes > 1, odd, 0),
        np.maximum(accumulators + operands - registers, 0),
        space * facts.store.width,
        around.prod(axis=0) * loops.times,
        is_word,
        joined,
    )


def _matrix_tile(facts: OperationFacts, loops: StageLoops) -> RegisterTile:
    """Return the bodies of a stage that an intrinsic of matrix registers computes: matmuls of blocks of these
    registers. A body is a tile of terms, and accumulators stay in registers for all terms of the intrinsic."""
    made = np.array([it.annotation is Annotation.TENSORIZE for it in loops.stage.iters])[loops.owners][:, None]
    is_term, one = loops.is_kind(IteratorKind.REDUCTION), np.ones(loops.extents.shape[1])
    inside = _extents(loops, made)
    narrowest, lanes = min(buffer.width for buffer in facts.reads), _ROW_BYTES // facts.store.width
    steps = np.maximum(loops.product(made & is_term) * narrowest / _ROW_BYTES, 1)
    accumulators = np.maximum(loops.product(made & ~is_term) / lanes, 1)
    loads = sum(buffer.elements(inside) * buffer.width / _ROW_BYTES / steps for buffer in facts.reads) * one
    space, zero = loops.product(loops.is_kind(IteratorKind.SPATIAL)), np.zeros_like(one)
    return RegisterTile(
        one,
        _ROW_STEPS * accumulators,
        accumulators,
        steps,
        steps,
        loads,
        zero,
        accumulators,
        steps,
        one,
        zero,
        zero,
        zero,
        space * facts.store.width,
        loops.product(~made) * steps * loops.times,
        one > 0,
        zero,
    )


def body_of(loops: StageLoops) -> np.ndarray:
    """Return which loops are vector lanes and which are unrolled (loops × states)."""
    count = loops.extents.shape[1]
    is_lane, is_parallel = loops.how == Annotation.VECTORIZE, loops.how == Annotation.PARALLEL
    # Vectorized loops, loops with an unroll annotation and loops of one iteration belong to the body regardless of the
    # limit.
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
            # Loops outside all reduction loops also initialize the accumulators.
            elements = [inner for inner in range(terms[0], len(lengths)) if inner not in terms]
            steps = steps + lengths[elements].prod(axis=0)
        made = steps * lengths[place]
        goes_on = goes_on & (is_lane[place] | (made <= loops.unroll) | is_taken[place]) & ~is_parallel[place]
        if not goes_on.any():
            break
        found[place], steps = goes_on, np.where(goes_on, made, steps)
    return found


def _around(around: np.ndarray, is_term: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterations of the serial reduction loops directly around a body, up to the first spatial loop; and the
    index of the innermost serial loop, -1 if there is none."""
    count = around.shape[1]
    outside, goes_on, trip = np.ones(count), np.ones(count, dtype=bool), np.full(count, -1)
    for place in reversed(range(len(around))):
        is_serial = around[place] > 1
        trip = np.where((trip < 0) & is_serial, place, trip)
        goes_on &= is_term[place] | ~is_serial
        outside = np.where(goes_on, outside * around[place], outside)
    return outside, trip


def _trips(
    facts: OperationFacts,
    loops: StageLoops,
    around: np.ndarray,
    trip: np.ndarray,
    unit: np.ndarray,
    lanes: np.ndarray,
    expanded: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the iterations of the loop around a body, how many of them LLVM combines, and the number of non-contiguous
    reads."""
    if not loops.axes:
        return np.ones_like(lanes), np.ones_like(lanes), np.zeros_like(lanes)
    every = np.arange(len(trip))
    moves = np.stack([facts.moves_along(axis) for axis in loops.axes])[trip]
    # An input that is stored in loop order is contiguous along these iterations only if a body reads one element of it.
    inside, far = _extents(loops, expanded), moves[:, 2]
    for buffer in facts.reads:
        if buffer.is_layout_free:
            is_along = np.array([facts.step_of(buffer, axis) == "next" for axis in loops.axes])[trip]
            far = far + (is_along & (buffer.elements(inside) > 1))
    trips = np.where(trip >= 0, around[trip, every], 1.0)
    is_element = ~loops.is_kind(IteratorKind.REDUCTION)[trip, 0]
    # For a spatial loop, the reads and the store must be contiguous; for a reduction loop, only the reads.
    is_even = (far == 0) & (~is_element | (moves[:, 3] > 0)) & (trip >= 0)
    is_free = np.array(loops.owners)[trip] >= loops.free_from
    is_vectorized = is_even & is_free & (lanes == 1) & (trips >= unit)
    is_vectorized &= loops.how[trip, every] != Annotation.PARALLEL
    # The remaining iterations run one by one.
    groups = np.floor(trips / unit) + trips % unit
    return trips, np.where(is_vectorized, trips / groups, 1.0), far * (trip >= 0)


def _repeats(loops: StageLoops, trip: np.ndarray, expanded: np.ndarray) -> np.ndarray:
    """Return whether a body contains several iterations of the axis whose loop is around it. Its reads are then not
    contiguous between iterations of that loop, and LLVM does not vectorize the loop."""
    if not loops.axes:
        return np.zeros(expanded.shape[1], dtype=bool)
    same = np.array([[own is other for own in loops.axes] for other in loops.axes])[trip].T
    return (trip >= 0) & (loops.product(expanded & same) > 1)


def _extents(loops: StageLoops, over: np.ndarray) -> dict[Var, np.ndarray]:
    """Return the extents of axes over the loops selected by ``over``."""
    lengths = np.where(over, loops.extents, 1.0)
    found: dict[Var, np.ndarray] = {}
    for place, axis in enumerate(loops.axes):
        found[axis] = found[axis] * lengths[place] if axis in found else lengths[place]
    return found


def _loads(
    facts: OperationFacts,
    loops: StageLoops,
    over: np.ndarray,
    is_lane: np.ndarray,
    lanes: np.ndarray,
    whole: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of loads for the iterations of the loops selected by ``over``, and how many of them load single
    lanes."""
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
