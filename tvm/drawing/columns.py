"""Horizontal coordinates of a layered graph, after Brandes and Koepf: four times, vertices are aligned with their
median neighbour (above or below, from the left or from the right) and compacted; the mean of the two median results
gives straight edges without a bias to one side.
"""

from __future__ import annotations

from collections.abc import Sequence

Layers = Sequence[Sequence[int]]
Neighbours = Sequence[Sequence[int]]


def columns(
    layers: Layers, above: Neighbours, below: Neighbours, widths: Sequence[float], nodes: int, gap: float
) -> list[float]:
    """Return the centre of each vertex. Vertices from index ``nodes`` on are bends of edges, which should be
    straight."""
    results = []
    for upwards in (False, True):
        for leftwards in (False, True):
            ordered = [list(reversed(layer)) if leftwards else list(layer) for layer in layers]
            ordered = ordered[::-1] if upwards else ordered
            roots = _lined_up(ordered, below if upwards else above, len(widths), nodes)
            at = _pushed_left(ordered, roots, widths, gap)
            results.append([-x for x in at] if leftwards else at)
    ends = [_ends(at, widths) for at in results]
    narrow = min(range(4), key=lambda i: ends[i][1] - ends[i][0])
    moved = []
    for i, at in enumerate(results):
        side = i % 2
        by = ends[narrow][side] - ends[i][side]
        moved.append([x + by for x in at])
    return [sum(sorted(four)[1:3]) / 2 for four in zip(*moved)]


def _ends(at: Sequence[float], widths: Sequence[float]) -> tuple[float, float]:
    left = min((x - w / 2 for x, w in zip(at, widths)), default=0.0)
    return left, max((x + w / 2 for x, w in zip(at, widths)), default=0.0)


def _lined_up(layers: Layers, neighbours: Neighbours, count: int, nodes: int) -> list[int]:
    """Return the first vertex of the aligned block of each vertex. Blocks do not cross."""
    place = {v: i for layer in layers for i, v in enumerate(layer)}
    root = list(range(count))
    for before, layer in zip(layers, layers[1:]):
        crossed = _crossing_straight_edges(before, layer, neighbours, place, nodes)
        last = -1
        for v in layer:
            near = sorted(neighbours[v], key=place.__getitem__)
            for u in near[(len(near) - 1) // 2 : len(near) // 2 + 1]:
                if root[v] == v and (u, v) not in crossed and place[u] > last:
                    root[v], last = root[u], place[u]
    return root


def _crossing_straight_edges(
    before: Sequence[int], layer: Sequence[int], neighbours: Neighbours, place: dict[int, int], nodes: int
) -> set[tuple[int, int]]:
    """Return the edges between two layers that cross an inner segment of a long edge, which must stay straight."""
    crossed: set[tuple[int, int]] = set()
    left, start = -1, 0
    for i, v in enumerate(layer):
        passing = next((u for u in neighbours[v] if u >= nodes), None) if v >= nodes else None
        if passing is None and i < len(layer) - 1:
            continue
        right = len(before) if passing is None else place[passing]
        for w in layer[start : i + 1]:
            crossed.update((u, w) for u in neighbours[w] if w != v and not left <= place[u] <= right)
        left, start = right, i + 1
    return crossed


def _pushed_left(layers: Layers, root: Sequence[int], widths: Sequence[float], gap: float) -> list[float]:
    """Place each block as far left as possible, then move it towards its right neighbours."""
    after: dict[int, list[tuple[int, float]]] = {root[v]: [] for layer in layers for v in layer}
    waiting = dict.fromkeys(after, 0)
    for layer in layers:
        for u, v in zip(layer, layer[1:]):
            after[root[u]].append((root[v], (widths[u] + widths[v]) / 2 + gap))
            waiting[root[v]] += 1
    order = [v for v, count in waiting.items() if not count]
    x = dict.fromkeys(after, 0.0)
    for v in order:
        for w, room in after[v]:
            x[w] = max(x[w], x[v] + room)
            waiting[w] -= 1
            if not waiting[w]:
                order.append(w)
    for v in reversed(order):
        if after[v]:
            x[v] = max(x[v], min(x[w] - room for w, room in after[v]))
    return [x.get(r, 0.0) for r in root]


__all__ = ["columns"]
