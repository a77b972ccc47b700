"""Control flow of TensorFlow 1.

A branch consists of the nodes between ``Switch`` and ``Merge``. A loop is a frame: values enter through ``Enter``, are
carried by ``Merge`` and ``NextIteration``, and leave through ``Exit``.
"""

from __future__ import annotations

from ....error import TVMError
from ...expr import RelayExpr
from . import control
from .graph import Body, Node, Ref

_SWITCH, _MERGE, _ENTER = ("Switch", "RefSwitch"), ("Merge", "RefMerge"), ("Enter", "RefEnter")
_EXIT, _NEXT = ("Exit", "RefExit"), ("NextIteration", "RefNextIteration")
OPERATORS = (*_SWITCH, *_MERGE, *_ENTER, *_EXIT, *_NEXT, "LoopCond")


def converts(node: Node) -> bool:
    return node.op in OPERATORS


class Frame:
    """A loop: its loop-carried and loop-invariant values."""

    def __init__(self, name: str):
        self.name = name
        self.enters: list[Node] = []
        # For each loop-carried value: the Merge, its Enter, and the node of the next value.
        self.carried: list[tuple[Node, Node, Node]] = []
        self.switches: dict[str, list[Node]] = {}
        self.condition: Node | None = None

    @property
    def constant(self) -> list[Node]:
        entered = {enter.name for _, enter, _ in self.carried}
        return [e for e in self.enters if e.name not in entered]


def frames_of(body: Body) -> dict[str, Frame]:
    """Return the loops of a body by the names of their Merge nodes; the result is cached."""
    found = getattr(body, "frames", None)
    if found is None:
        found = body.frames = _found(body)  # type: ignore[attr-defined]
    return found


def _found(body: Body) -> dict[str, Frame]:
    by_name: dict[str, Frame] = {}
    for node in body.nodes.values():
        if node.op in _ENTER:
            name = str(node.attrs.get("frame_name", ""))
            by_name.setdefault(name, Frame(name)).enters.append(node)
    merges: dict[str, Frame] = {}
    for node in body.nodes.values():
        if node.op in _MERGE and len(node.inputs) == 2:
            first, second = (body.nodes.get(r.node) for r in node.inputs)
            if first is not None and second is not None and first.op in _ENTER and second.op in _NEXT:
                frame = by_name[str(first.attrs.get("frame_name", ""))]
                frame.carried.append((node, first, second))
                merges[node.name] = frame
    for node in body.nodes.values():
        if node.op in _SWITCH and len(node.inputs) == 2 and node.inputs[0].node in merges:
            test = body.nodes.get(node.inputs[1].node)
            if test is not None and test.op == "LoopCond":
                frame = merges[node.inputs[0].node]
                frame.condition = test
                frame.switches.setdefault(node.inputs[0].node, []).append(node)
    return merges


def _frame_of_exit(body: Body, node: Node) -> tuple[Frame, str]:
    """Return the loop that an Exit leaves, and the Merge of its value."""
    switch = body.node(node.inputs[0].node, f"Exit '{node.name}'") if node.inputs else None
    merge = switch.inputs[0].node if switch is not None and switch.op in _SWITCH and switch.inputs else ""
    frame = frames_of(body).get(merge)
    if frame is None or frame.condition is None:
        raise TVMError(f"Exit '{node.name}' does not belong to a loop with a condition")
    return frame, merge


def needs(body: Body, node: Node) -> list[str]:
    """Return the nodes that a node depends on; for an Exit, the nodes that enter the loop."""
    if node.op in _EXIT:
        frame, _ = _frame_of_exit(body, node)
        return [e.inputs[0].node for e in frame.enters if e.inputs]
    return [r.node for r in node.inputs]


def convert(ctx) -> list:
    """Convert a node of control flow and return its outputs."""
    node, importer, scope = ctx.node, ctx.importer, ctx.scope
    if node.op in _EXIT:
        frame, merge = _frame_of_exit(scope.body, node)
        return [_looped(ctx, frame)[merge]]
    values = [importer.result(scope, r, ctx.where) for r in node.inputs]
    if node.op in _SWITCH:
        return [values[0], values[0]]
    if node.op in _MERGE:
        return _merged(ctx, values)
    raise TVMError("the node does not belong to a loop")


# -- branches ---------------------------------------------------------------------------------------------------------


def _guards(body: Body, start: Ref) -> dict[Ref, int]:
    """Return the conditions under which a value is computed, each with the branch that the value is in."""
    found: dict[Ref, int] = {}
    work, seen = [start], set()
    while work:
        ref = work.pop()
        node = body.nodes.get(ref.node)
        key = (ref.node, ref.port if node is not None and node.op in _SWITCH else 0)
        if node is None or key in seen:
            continue
        seen.add(key)
        if node.op in _SWITCH and len(node.inputs) == 2:
            found.setdefault(_plain(body, node.inputs[1]), node.number(ref))
            work.append(node.inputs[0])
        elif node.op in _MERGE:
            inner = [_guards_once(body, r) for r in node.inputs]
            for condition, side in inner[0].items() if inner else ():
                if all(other.get(condition, -1) == side for other in inner):
                    found.setdefault(condition, side)
        else:
            work += node.inputs
            work += [Ref(c, 0) for c in node.controls]
    return found


def _guards_once(body: Body, ref: Ref) -> dict[Ref, int]:
    """Return the cached result of ``_guards``; a cycle through a Merge adds no conditions."""
    known = body.__dict__.setdefault("guards", {})
    if ref not in known:
        known[ref] = {}
        known[ref] = _guards(body, ref)
    return known[ref]


def _plain(body: Body, ref: Ref) -> Ref:
    """Return a condition without Identity nodes in front of it."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref.node)
        if node is None or node.op != "Identity" or not node.inputs:
            break
        ref = node.inputs[0]
    return Ref(ref.node, ref.port)


def _merged(ctx, values: list) -> list:
    node, scope = ctx.node, ctx.scope
    if len(values) != 2:
        raise TVMError(f"a Merge of {len(values)} values is not supported; it must have 2")
    first, second = (_guards_once(scope.body, r) for r in node.inputs)
    found = next((c for c, side in first.items() if second.get(c, side) != side), None)
    if found is None:
        raise TVMError("no Switch condition selects between the two inputs of the Merge")
    ctx.importer.evaluate(scope, [found.node])
    test = ctx.importer.result(scope, found, ctx.where)
    yes, no = values if first[found] else values[::-1]
    chosen = control.chosen(ctx, test, lambda: [yes], lambda: [no])
    return [chosen[0], control.place(ctx, test, 1 - first[found])]


# -- loops ------------------------------------------------------------------------------------------------------------


def _looped(ctx, frame: Frame) -> dict[str, object]:
    """Return the final values of a loop by Merge; the loop is converted once for all of its Exit nodes."""
    importer, scope = ctx.importer, ctx.scope
    done = scope.values.get(f"loop {frame.name}")
    if done is not None:
        return done[0]
    constant = frame.constant
    starts = [importer.result(scope, e.inputs[0], ctx.where) for _, e, _ in frame.carried]
    fixed = [importer.result(scope, e.inputs[0], ctx.where) for e in constant]
    count = len(starts)

    def inside(values: list):
        known: dict[str, list] = {e.name: [v] for e, v in zip(constant, values[count:])}
        for (merge, enter, _), value in zip(frame.carried, values):
            known[merge.name] = [value, None]
            known[enter.name] = [value]
            for switch in frame.switches.get(merge.name, []):
                known[switch.name] = [value, value]
        return type(scope)(scope.body, known, scope.depth + 1)

    def test(values: list) -> RelayExpr:
        inner, ref = inside(values), frame.condition.inputs[0]
        importer.evaluate(inner, [ref.node])
        return importer.result(inner, ref, ctx.where)

    def step(values: list) -> list:
        inner, refs = inside(values), [n.inputs[0] for _, _, n in frame.carried]
        importer.evaluate(inner, [r.node for r in refs])
        return [*(importer.result(inner, r, ctx.where) for r in refs), *values[count:]]

    if scope.depth >= 64:
        raise TVMError("loops are nested more than 64 levels deep")
    last = control.loop(ctx, [*starts, *fixed], test, step)
    found = {merge.name: value for (merge, _, _), value in zip(frame.carried, last)}
    scope.values[f"loop {frame.name}"] = [found]
    return found


__all__ = ["OPERATORS", "convert", "converts", "needs"]
