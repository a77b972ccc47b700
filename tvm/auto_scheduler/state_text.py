"""The loops of a state as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .iterator import ANNOTATION_NAMES, Annotation, Iterator

if TYPE_CHECKING:
    from .state import StateObject

_ROOT, _INLINED = 0, 1


def state_text(state: StateObject, delete_trivial_loop: bool = True) -> str:
    """Return the loops as text, with each stage at its compute location; loops of one iteration are omitted."""
    stages = state.stages
    lines = []
    inputs = [stage.op.name for stage in stages if stage.is_placeholder]
    if inputs:
        lines.append(f"Placeholder: {', '.join(inputs)}")
    inside: dict[tuple[int, int], list[int]] = {}
    for place, stage in enumerate(stages):
        if stage.attach is not None:
            inside.setdefault(stage.attach, []).append(place)

    def loop(it: Iterator) -> str:
        kind = "for" if it.annotation is Annotation.NONE else ANNOTATION_NAMES[it.annotation]
        return f"{kind} {it.name} ({f'{it.min},{it.extent}' if it.extent is not None else 'None'})"

    # Stages and lines that are not printed yet, in reverse order.
    todo: list[tuple[int, int, int] | str] = [
        (place, 0, 0)
        for place in reversed(range(len(stages)))
        if not stages[place].is_placeholder and stages[place].compute_at == _ROOT
    ]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        place, first, indent = item
        stage = stages[place]
        if first == 0 and stage.auto_unroll_max_step:
            lines.append(f"{' ' * indent}{stage.op.name} auto_unroll: {stage.auto_unroll_max_step}")
        if first == len(stage.iters):
            lines.append(f"{' ' * indent}{stage.op.name} = ...")
            continue
        it = stage.iters[first]
        if not (delete_trivial_loop and it.extent == 1):
            lines.append(f"{' ' * indent}{loop(it)}")
            indent += 2
        todo.append((place, first + 1, indent))
        todo += [(child, 0, indent) for child in reversed(inside.get((place, first), []))]
    return "\n".join(lines) + "\n"


__all__ = ["state_text"]
