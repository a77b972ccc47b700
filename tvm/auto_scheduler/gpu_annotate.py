"""Annotation of sketches for GPUs: bind stages that no rule has bound to blocks and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .attach_steps import ROOT
from .gpu_limits import LANES, GPULimits, scope_of, thread_options
from .gpu_rules import is_on_threads, is_plain, spread
from .iterator import Annotation, IteratorKind
from .loop_nests import LoopNests
from .loop_state import State
from .queries import has_fragments

if TYPE_CHECKING:
    from .annotate import Choices

UNROLL_STEPS = (0, 16, 64, 512, 1024)
# Options for the number of buffers of an operand in shared memory: one is read while the others are filled.
BUFFERS = (1, 2, 3, 4)


def bind_plain_stages(state: State, choices: Choices, limits: GPULimits) -> None:
    """Bind the outer loops of unbound stages to blocks and threads; plain elementwise stages may be vectorized."""
    for place in range(len(state.stages)):
        stage = state.stages[place]
        if stage.is_placeholder or stage.compute_at != ROOT or is_on_threads(stage):
            continue
        count, total = 0, 1
        for loop, it in enumerate(stage.iters):
            if it.kind is not IteratorKind.SPATIAL or it.annotation is not Annotation.NONE:
                break
            count, total = count + 1, total * (it.extent or 1)
            if state.state_object.attached_to(place, loop):
                break
        threads = thread_options(total, limits)
        options = list(threads)
        if is_plain(stage) and count == len(stage.iters) and count:
            last = stage.iters[-1].extent or 1
            options += [(t, lanes) for (t,) in threads for lanes in LANES[1:] if last % lanes == 0]
        spread(state, place, count, choices.pick("threads", place, options))


def buffer_operands(state: State, choices: Choices, nests: LoopNests) -> None:
    """Prefetch the operands of fragments; both operands of a matmul use the same distance."""
    copies: dict[int, list[int]] = {}
    for place, stage in enumerate(state.stages):
        if (
            stage.attach is not None
            and scope_of(stage.op) == "shared.dyn"
            and has_fragments(state.stages[stage.attach[0]])
        ):
            copies.setdefault(stage.attach[0], []).append(place)
    for reader, places in copies.items():
        stage = state.stages[places[0]]
        assert stage.attach is not None
        trips = nests.nests[reader].loops[stage.attach[1]].extent
        count = choices.pick("buffers", places[0], [n for n in BUFFERS if n <= trips])
        for place in places if count > 1 else ():
            state.double_buffer(place, count)


__all__ = ["BUFFERS", "UNROLL_STEPS", "bind_plain_stages", "buffer_operands"]
