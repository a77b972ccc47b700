"""Pictures of schedules: which stage reads which, how loops were made from axes, and where each stage is computed.

Each picture has two forms: SVG, and Graphviz text with the node names that scripts expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..arith import Analyzer
from ..drawing.dot import Digraph, Html, cell, rows
from ..drawing.graph import Edge, Node, draw_graph
from ..drawing.svg import Drawing, shorten
from ..error import TVMError
from ..ir.prim import IterVar, Range, Reduce
from . import axes as algebra
from .attributes import ITER_TYPE_NAMES, AttachType
from .axes import Fuse, Relation, Singleton, Split, Transform
from .schedule import Schedule
from .stage import Stage
from .tensor import ComputeOp, PlaceholderOp

# Names of the iteration types of loops, and their colours in the Graphviz picture.
KINDS = {
    IterVar.DataPar: ("kDataPar", "#FFFFFF"), IterVar.ThreadIndex: ("kThreadIndex", "#2980B9"),
    IterVar.CommReduce: ("kCommReduce", "#FAD7A0"), IterVar.Ordered: ("kOrdered", "#D35400"),
    IterVar.DimInfo: ("kOpaque", "#ABB2B9"), IterVar.Unrolled: ("kUnrolled", "#D2B4DE"),
    IterVar.Vectorized: ("kVectorized", "#AED6F1"), IterVar.Parallelized: ("kParallelized", "#F5B7B1"),
    IterVar.Tensorized: ("kTensorized", "#A9DFBF"),
}  # fmt: skip


class Picture(NamedTuple):
    """A picture as SVG and as Graphviz text."""

    drawing: Drawing
    dot: Digraph


class Loop(NamedTuple):
    """The description of an axis: name, iteration type, range, number of iterations with the abbreviated type, and
    annotations."""

    name: str
    kind: str
    colour: str
    range: str
    short: str
    more: str

    @property
    def words(self) -> str:
        return f"{self.name} ({self.kind})" + (f" {self.range}" if self.range else "") + self.more


class _Shown:
    """A schedule with the data of its pictures: stage numbers and axis ranges."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.stages: list[Stage] = list(schedule.stages)
        self.number = {stage: i for i, stage in enumerate(self.stages)}
        self.ranges = self._ranges()

    def _ranges(self) -> dict[IterVar, Range]:
        """Return the ranges of axes: inferred, or those of the axes themselves while the schedule is incomplete."""
        from .infer import infer_bound

        try:
            return dict(infer_bound(self.schedule.normalize()))
        except (TVMError, ValueError):
            ranges: dict[IterVar, Range] = {}
            for stage in self.stages:
                ranges.update({a: a.dom for a in stage.all_iter_vars if a.dom is not None})
                algebra.pass_down_domain(stage.relations, ranges, Analyzer())
            return ranges

    def loop(self, stage: Stage, axis: IterVar) -> Loop:
        attrs = stage.peek(axis)
        kind = attrs.iter_type if attrs is not None else axis.iter_type
        name, colour = KINDS[kind]
        found = self.ranges.get(axis, axis.dom)
        words = "" if found is None else f"T.Range({found.min}, {found.min + found.extent})"
        more = ""
        if attrs is not None:
            more += f" {attrs.bind_thread.thread_tag}" if attrs.bind_thread is not None else ""
            more += "".join(f" {key}" for key, _ in attrs.pragmas)
        more = more or (f" {axis.thread_tag}" if axis.thread_tag else "")
        short = ("" if found is None else f" {found.extent}") + f" {ITER_TYPE_NAMES[kind]}"
        return Loop(axis.var.name, name, colour, words, short.removesuffix(" data parallel"), more)

    def parent(self, stage: Stage) -> tuple[Stage | None, IterVar | None]:
        """Return the stage and the loop inside which a stage is computed; (None, None) for a stage at the root."""
        node: Stage | None = stage
        while node is not None:
            if node.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
                return node.attach_stage, node.attach_ivar
            node = node.group
            if node is not None and not node.is_group:
                return node, None
        return None, None


def _tensor_words(stage: Stage) -> list[str]:
    return [f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in stage.op.outputs]


def _legend(kinds: Any) -> Digraph:
    graph = Digraph("cluster_legend")
    graph.attribute("label", "Legend")
    graph.node("legend", rows(*((cell(name, BGCOLOR=colour),) for name, colour in kinds)), {"shape": "none"})
    return graph


# -- stages and the tensors they read ----------------------------------------------------------------------------------


def dataflow_graph(schedule: Schedule) -> Picture:
    """Draw the stages and the tensors that they pass to each other."""
    shown = _Shown(schedule)
    dot = Digraph("Dataflow Graph", node_attr={"shape": "none"})
    places = {tensor: (i, k) for i, s in enumerate(shown.stages) for k, tensor in enumerate(s.op.outputs)}
    nodes: list[Node] = []
    edges: list[Edge] = []
    for i, stage in enumerate(shown.stages):
        inputs, outputs = stage.op.input_tensors, stage.op.outputs
        ports = [tuple(cell(f"I_{k}", PORT=f"I_{k}") for k in range(len(inputs)))] if inputs else []
        results = tuple(cell(f"O_{k}", PORT=f"O_{k}") for k in range(len(outputs)))
        middle = cell(f"{stage.name}\n{type(stage.op).__name__}", COLSPAN=max(len(inputs), len(outputs)))
        dot.node(f"Stage_{i}", rows(*ports, (middle,), results))
        for k, words in enumerate(_tensor_words(stage)):
            dot.node(f"Tensor_{i}_{k}", words, {"shape": "box"})
            dot.edge(f"Stage_{i}", f"Tensor_{i}_{k}", ports=(f"O_{k}", ""))
        kind = "input" if isinstance(stage.op, PlaceholderOp) else "output" if stage.is_output else ""
        nodes.append(Node(str(i), stage.name, [type(stage.op).__name__, *_tensor_words(stage)], kind))
        for k, tensor in enumerate(inputs):
            if tensor in places:
                producer, output = places[tensor]
                dot.edge(f"Tensor_{producer}_{output}", f"Stage_{i}", ports=("", f"I_{k}"))
                edges.append(Edge(str(producer), str(i)))
    return Picture(draw_graph("stages of a schedule and what they read", nodes, edges), dot)


# -- loops and their axes ----------------------------------------------------------------------------------------------


def _ends(relation: Relation) -> tuple[list[tuple[IterVar, str]], list[tuple[IterVar, str]]]:
    """Return the inputs and outputs of a relation, each with the name of its port."""
    if isinstance(relation, Split):
        return [(relation.parent, "Input")], [(relation.outer, "Outer"), (relation.inner, "Inner")]
    if isinstance(relation, Fuse):
        return [(relation.outer, "Outer"), (relation.inner, "Inner")], [(relation.fused, "Fused")]
    if isinstance(relation, Transform):
        takes, makes = (
            [(a, f"{port}_{i}") for i, a in enumerate(axes)]
            for port, axes in (("Input", relation.parents), ("Output", relation.made))
        )
        return takes, makes
    assert isinstance(relation, Singleton)
    return [], [(relation.iter, "Iter")]


def axis_graph(schedule: Schedule) -> Picture:
    """Draw for each stage its axes, and the loops that splits and fusions made from them."""
    shown = _Shown(schedule)
    dot = Digraph("IterVar Relationship Graph", node_attr={"shape": "none"})
    dot.subgraph(_legend(KINDS.values()))
    parts: list[tuple[str, Drawing]] = []
    for i, stage in enumerate(shown.stages):
        cluster = Digraph(f"cluster_Stage_{i}")
        cluster.attribute("label", stage.name)
        drawing = _axes_of(shown, i, stage, cluster)
        dot.subgraph(cluster)
        if stage.all_iter_vars:
            parts.append((stage.name, drawing))
    return Picture(_side_by_side("axes of the stages of a schedule", parts), dot)


def _axes_of(shown: _Shown, i: int, stage: Stage, cluster: Digraph) -> Drawing:
    keys = {axis: f"IterVar_{i}_{j}" for j, axis in enumerate(stage.all_iter_vars)}
    nodes: list[Node] = []
    edges: list[Edge] = []
    for axis, key in keys.items():
        loop = shown.loop(stage, axis)
        label = f"{loop.name}\n({loop.kind})" + (f"\n{loop.range}" if loop.range else "")
        cluster.node(key, rows((cell(label, PORT="itervar", BGCOLOR=loop.colour),)))
        kind = "output" if axis in stage.leaf_iter_vars else ""
        nodes.append(Node(key, loop.name, [f"({loop.kind}){loop.more}", loop.range], kind))
    if not keys:
        cluster.node(f"Stage_{i}", "no axes", {"shape": "plaintext"})
    for j, relation in enumerate(stage.relations):
        kind = type(relation).__name__
        key = f"{kind}_Relation_{i}_{j}"
        takes, makes = _ends(relation)
        upper, lower = (tuple(cell(port, PORT=port) for _, port in side) for side in (takes, makes))
        middle = cell(kind, COLSPAN=max(len(takes), len(makes)))
        cluster.node(key, rows(*([upper] if upper else []), (middle,), lower))
        nodes.append(Node(key, _relation_words(relation), kind="constant"))
        for axis, port in takes:
            cluster.edge(keys[axis], key, ports=("itervar", port))
            edges.append(Edge(keys[axis], key))
        for axis, port in makes:
            cluster.edge(key, keys[axis], ports=(port, "itervar"))
            edges.append(Edge(key, keys[axis]))
    return draw_graph(stage.name, nodes, edges)


def _relation_words(relation: Relation) -> str:
    if isinstance(relation, Split):
        return f"Split {relation.factor}" if relation.factor is not None else f"Split into {relation.nparts}"
    return type(relation).__name__


def _side_by_side(label: str, parts: list[tuple[str, Drawing]]) -> Drawing:
    """Place pictures in a row, each in a frame with its title above."""
    width = sum(max(p.width, 7.0 * len(shorten(title))) + 24 for title, p in parts) + 12
    whole = Drawing(label, max(width, 40.0), max((p.height for _, p in parts), default=0.0) + 48)
    x = 12.0
    for title, part in parts:
        own = max(part.width, 7.0 * len(shorten(title)))
        whole.box(x, 6, own + 12, part.height + 30, "box constant", title, rounded=6)
        whole.text(x + own / 2 + 6, 22, shorten(title), "middle", "mono title")
        whole.add(part, x + 6 + (own - part.width) / 2, 28)
        x += own + 24
    return whole


# -- attach points of stages -------------------------------------------------------------------------------------------


def schedule_tree(schedule: Schedule) -> Picture:
    """Draw the stages with their loops, each below the stage inside which it is computed."""
    shown = _Shown(schedule)
    dot = Digraph("Schedule Tree", node_attr={"shape": "none"}, graph_attr={"rankdir": "BT"})
    dot.subgraph(_legend(KINDS.values()))
    dot.node("ROOT", "ROOT", {"shape": "oval"})
    nodes = [Node("ROOT", "ROOT", kind="input")]
    edges: list[Edge] = []
    for i, stage in enumerate(shown.stages):
        lines = list(_stage_lines(shown, stage))
        dot.node(f"Stage_{i}", _stage_label(shown, stage))
        parent, axis = shown.parent(stage)
        number = None if parent is None else shown.number.get(parent)
        port = ""
        if number is not None and parent is not None and axis is not None and axis in parent.leaf_iter_vars:
            port = f"itervar_{parent.leaf_iter_vars.index(axis)}"
            lines.append(f"at {parent.name}: {axis.var.name}")
        to = "ROOT" if number is None else f"Stage_{number}"
        is_inlined = stage.attach_type == AttachType.INLINE
        style = {"style": "dashed"} if is_inlined else {}
        dot.edge(f"Stage_{i}", to, {"color": "#000000", **style}, ("", port))
        kind = "constant" if isinstance(stage.op, PlaceholderOp) or is_inlined else "output" if stage.is_output else ""
        nodes.append(Node(f"Stage_{i}", stage.name, lines, kind, is_list=True))
        edges.append(Edge(to, f"Stage_{i}", "weak" if is_inlined else ""))
    return Picture(draw_graph("tree of the stages of a schedule", nodes, edges), dot)


def _stage_lines(shown: _Shown, stage: Stage) -> Iterator[str]:
    if stage.attach_type == AttachType.INLINE:
        yield "inlined"
    if stage.scope:
        yield f"scope: {stage.scope}"
    for depth, axis in enumerate(stage.leaf_iter_vars):
        loop = shown.loop(stage, axis)
        yield f"{depth}: {loop.name}{loop.short}{loop.more}"
    yield _body(stage)


def _body(stage: Stage) -> str:
    """Return a short description of the computation of a stage."""
    if isinstance(stage.op, ComputeOp) and isinstance(stage.op.body[0], Reduce):
        reduction = stage.op.body[0]
        return shorten(f"reduce over {', '.join(a.var.name for a in reduction.axis)}: {reduction.source[0]}", 80)
    if isinstance(stage.op, ComputeOp):
        return shorten(", ".join(str(expression) for expression in stage.op.body), 80)
    return type(stage.op).__name__


def _stage_label(shown: _Shown, stage: Stage) -> Html:
    title = f"{stage.name}\nScope: {stage.scope}" if stage.scope else stage.name
    if stage.attach_type == AttachType.INLINE:
        title += "\n(inlined)"
    table: list[tuple[Html, ...]] = [(cell(title, COLSPAN=2),)]
    for k, axis in enumerate(stage.leaf_iter_vars):
        loop = shown.loop(stage, axis)
        table.append((cell(k), cell(loop.words, PORT=f"itervar_{k}", BGCOLOR=loop.colour)))
    table.append((cell(f"[{_body(stage)}]", COLSPAN=2),))
    return rows(*table)


__all__ = ["KINDS", "Picture", "axis_graph", "dataflow_graph", "schedule_tree"]
