"""The layered layout of a graph, in which edges point down.

The steps are those of Sugiyama: edges that close a cycle are reversed, nodes are assigned to layers by their longest
path, long edges get a dummy vertex in each layer, and layers are ordered and aligned (``columns.py``) by neighbours.
Every step makes a few passes over nodes and edges, without recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .columns import columns

_MARGIN, _GAP, _LAYER_GAP = 12.0, 18.0, 30.0
# The width of an edge at a dummy vertex.
_EDGE_WIDTH = 4.0
_SWEEPS = 6
# Maximum number of dummy vertices per node and edge; the longest edges get none beyond it.
_PASSES_PER_PART, _PASSES = 4, 2_000

Point = tuple[float, float]


class Layout(NamedTuple):
    """The centre of each node, and points for each edge: straight lines from even to odd points, through a layer, and
    curves from odd to even points, between layers."""

    centers: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Compute the layout of nodes with these widths and heights."""
    turned = _closing(len(sizes), edges)
    down = [(b, a) if i in turned else (a, b) for i, (a, b) in enumerate(edges)]
    ranks = _ranks(len(sizes), down)
    widths = [width for width, _ in sizes]
    chains = _chains(down, ranks, widths)
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for vertex, rank in enumerate(ranks):
        layers[rank].append(vertex)
    above: list[list[int]] = [[] for _ in ranks]
    below: list[list[int]] = [[] for _ in ranks]
    for chain in chains:
        for a, b in zip(chain, chain[1:]):
            # An edge without dummy vertices does not affect the order; it is drawn below other elements.
            if ranks[b] == ranks[a] + 1:
                below[a].append(b)
                above[b].append(a)
    _order(layers, above, below)
    centers = columns(layers, *_pulling(above, below), widths, len(sizes), _GAP)
    return _placed(sizes, layers, chains, turned, centers)


def _closing(count: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    """Return the indices of the edges that close a cycle in a depth-first search from the first node."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    for i, (a, _) in enumerate(edges):
        leaving[a].append(i)
    state, found = [0] * count, set()
    for root in range(count):
        stack = [(root, iter(leaving[root]))] if state[root] == 0 else []
        state[root] = state[root] or 1
        while stack:
            vertex, rest = stack[-1]
            edge = next(rest, None)
            if edge is None:
                state[vertex] = 2
                stack.pop()
                continue
            to = edges[edge][1]
            if state[to] == 1:
                found.add(edge)
            elif state[to] == 0:
                state[to] = 1
                stack.append((to, iter(leaving[to])))
    return found


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node: below all its predecessors; a node without predecessors is right above its
    users."""
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in edges:
        if a != b:
            after[a].append(b)
            waiting[b] += 1
    sources = [v for v in range(count) if not waiting[v]]
    ranks, todo = [0] * count, list(sources)
    for vertex in todo:
        for to in after[vertex]:
            ranks[to] = max(ranks[to], ranks[vertex] + 1)
            waiting[to] -= 1
            if not waiting[to]:
                todo.append(to)
    for vertex in sources:
        if after[vertex]:
            ranks[vertex] = min(ranks[to] for to in after[vertex]) - 1
    return ranks


def _chains(edges: Sequence[tuple[int, int]], ranks: list[int], widths: list[float]) -> list[list[int]]:
    """Return the vertices of each edge; a dummy vertex for each intermediate layer is added to ``ranks``."""
    spans = [ranks[b] - ranks[a] for a, b in edges]
    left = _PASSES + _PASSES_PER_PART * (len(ranks) + len(edges))
    chains = [[a, b] for a, b in edges]
    for i in sorted(range(len(edges)), key=lambda i: spans[i]):
        left -= max(spans[i] - 1, 0)
        if left < 0:
            break
        a, b = edges[i]
        between = range(ranks[a] + 1, ranks[b])
        chains[i] = [a, *range(len(ranks), len(ranks) + len(between)), b]
        ranks += between
        widths += [_EDGE_WIDTH] * len(between)
    return chains


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Order each layer by the positions of neighbours, alternating down and up, to reduce crossings."""
    place = {vertex: float(i) for layer in layers for i, vertex in enumerate(layer)}
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {v: _mean([place[n] for n in neighbours[v]], place[v]) for v in layer}
            layer.sort(key=wanted.__getitem__)
            for i, vertex in enumerate(layer):
                place[vertex] = float(i)


def _pulling(above: list[list[int]], below: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the neighbours without nodes that have no predecessors, such as parameters, if there are others: computed
    nodes are aligned, and parameters are next to them."""
    up = [[n for n in near if above[n]] or near for near in above]
    kept = [set(near) for near in up]
    return up, [[n for n in near if v in kept[n]] for v, near in enumerate(below)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _placed(
    sizes: Sequence[tuple[float, float]],
    layers: list[list[int]],
    chains: list[list[int]],
    turned: set[int],
    at: list[float],
) -> Layout:
    """Return coordinates relative to the top left corner."""
    nodes = len(sizes)
    left = min((at[v] - sizes[v][0] / 2 for v in range(nodes)), default=0.0)
    left = min([left, *at[nodes:]]) - _MARGIN
    at = [x - left for x in at]
    right = max((at[v] + sizes[v][0] / 2 for v in range(nodes)), default=0.0)
    right = max([right, *at[nodes:]])
    top, bottom, y = [0.0] * len(at), [0.0] * len(at), _MARGIN
    for layer in layers:
        height = max((sizes[v][1] for v in layer if v < nodes), default=0.0)
        for v in layer:
            top[v], bottom[v] = y, y + height
        y += height + _LAYER_GAP
    centers = [(at[v], (top[v] + bottom[v]) / 2) for v in range(nodes)]
    routes = []
    for i, chain in enumerate(chains):
        (x1, y1), (x2, y2) = centers[chain[0]], centers[chain[-1]]
        begin, end = (x1, y1 + sizes[chain[0]][1] / 2), (x2, y2 - sizes[chain[-1]][1] / 2)
        passed = [point for v in chain[1:-1] for point in ((at[v], top[v]), (at[v], bottom[v]))]
        route = [begin, (x1, bottom[chain[0]]), *passed, (x2, top[chain[-1]]), end]
        routes.append(route[::-1] if i in turned else route)
    return Layout(centers, routes, right + _MARGIN, max(y - _LAYER_GAP, 0.0) + _MARGIN)


__all__ = ["Layout", "layered"]
