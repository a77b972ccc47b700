"""Branch and bound for buffers in one pool.

The buffers of an optimal layout can be moved down until each is at the bottom or on top of a conflicting buffer.
Placing buffers in the order of their offsets builds exactly these layouts, so the search only chooses the next buffer.
The search prunes a branch if a clique of conflicting buffers can no longer end below the peak of the best layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import gcd

from .problem import align


@dataclass
class Packing:
    """The buffers of one pool, largest first: the size, alignment and neighbours (conflicting buffers) of each."""

    sizes: list[int]
    alignments: list[int]
    neighbours: list[set[int]]
    padded: list[int] = field(init=False)
    cliques: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        # Every offset is a multiple of this number, so the size of a buffer below another one is rounded up to it.
        unit = gcd(*self.alignments)
        self.padded = [align(size, unit) for size in self.sizes]
        self.cliques = cliques(self.neighbours)

    def slack(self, clique: list[int]) -> int:
        return max(self.padded[n] - self.sizes[n] for n in clique)

    @property
    def bound(self) -> int:
        """A lower bound of the peak: buffers of a clique cannot overlap, so their sizes add up."""
        return max(sum(self.padded[n] for n in c) - self.slack(c) for c in self.cliques)


def cliques(neighbours: Sequence[set[int]]) -> list[list[int]]:
    """Return cliques: sets of buffers that all conflict with each other. Maximum cardinality search finds every maximal
    clique if each buffer is live in one interval of time."""
    visited: dict[int, None] = {}
    weight = [0] * len(neighbours)
    queue = [(0, n) for n in range(len(neighbours))]
    found: dict[frozenset[int], None] = {}
    while queue:
        negative, n = heappop(queue)
        if n in visited or -negative < weight[n]:
            continue
        clique = [n]
        for m in sorted(neighbours[n] & visited.keys()):
            if all(m in neighbours[k] for k in clique):
                clique.append(m)
        found[frozenset(clique)] = None
        visited[n] = None
        for m in neighbours[n] - visited.keys():
            weight[m] += 1
            heappush(queue, (-weight[m], m))
    return _maximal(found)


def _maximal(found: Iterable[frozenset[int]]) -> list[list[int]]:
    """Return the sets that are not a subset of another one."""
    containing: dict[int, list[frozenset[int]]] = {}
    kept: list[list[int]] = []
    for clique in sorted(found, key=lambda c: (-len(c), sorted(c))):
        members = sorted(clique)
        if not any(clique < other for other in containing.get(members[0], ())):
            kept.append(members)
            for n in members:
                containing.setdefault(n, []).append(clique)
    return kept


@dataclass
class _Choice:
    """A node of the search tree: the buffer that was placed, the alternatives to try next, and the state changes to
    undo."""

    options: list[int]
    placed: int = -1
    raised: list[tuple[int, int]] = field(default_factory=list)
    floors: list[tuple[int, int]] = field(default_factory=list)
    previous: tuple[int, int] = (0, -1)


class Search:
    """The state of the search. ``low`` is the lowest possible offset of each buffer above its placed neighbours.
    ``floor`` is the end of the placed buffers of each clique, and ``remaining`` is the size of its other buffers."""

    def __init__(self, packing: Packing, peak: int, target: int, work: int):
        self.packing, self.peak, self.target, self.work = packing, peak, target, work
        count = len(packing.sizes)
        self.low = [0] * count
        self.offsets = [-1] * count
        self.member_of: list[list[int]] = [[] for _ in range(count)]
        self.slack = [packing.slack(c) for c in packing.cliques]
        self.floor = [0] * len(packing.cliques)
        self.remaining = [sum(packing.padded[n] for n in c) for c in packing.cliques]
        for number, clique in enumerate(packing.cliques):
            for n in clique:
                self.member_of[n].append(number)
        self.left = count
        self.last = (0, -1)
        self.best: list[int] | None = None

    def run(self) -> list[int] | None:
        """Return the offsets of a layout with a peak below the given one; None if the search finds none before it
        reaches its work limit."""
        stack = [_Choice(self.options())]
        while stack and self.work > 0:
            choice = stack[-1]
            if choice.placed >= 0:
                self.undo(choice)
            if not choice.options:
                stack.pop()
                continue
            self.put(choice, choice.options.pop())
            if not self.left:
                self.peak = max(o + s for o, s in zip(self.offsets, self.packing.sizes))
                self.best = list(self.offsets)
                if self.peak <= self.target:
                    break
            elif self.is_open():
                stack.append(_Choice(self.options()))
        return self.best

    def options(self) -> list[int]:
        """Return the buffers that may be placed next, the best one last. A buffer is excluded if another one fits
        entirely below its offset, because that one has to be placed first."""
        sizes, low, offsets = self.packing.sizes, self.low, self.offsets
        self.work -= len(sizes)
        open_ = [n for n in range(len(sizes)) if offsets[n] < 0]
        if any(low[n] + sizes[n] >= self.peak for n in open_):
            return []
        below = min(low[n] + max(sizes[n], 1) for n in open_)
        found = [n for n in open_ if (low[n], n) > self.last and low[n] < below]
        return sorted(found, key=lambda n: (low[n], n), reverse=True)

    def put(self, choice: _Choice, n: int) -> None:
        packing, offset = self.packing, self.low[n]
        end = offset + packing.sizes[n]
        choice.placed, choice.previous, self.last = n, self.last, (offset, n)
        self.offsets[n] = offset
        self.left -= 1
        for m in packing.neighbours[n]:
            if self.offsets[m] < 0:
                raised = align(end, packing.alignments[m])
                if raised > self.low[m]:
                    choice.raised.append((m, self.low[m]))
                    self.low[m] = raised
        for clique in self.member_of[n]:
            choice.floors.append((clique, self.floor[clique]))
            self.floor[clique] = max(self.floor[clique], offset + packing.padded[n])
            self.remaining[clique] -= packing.padded[n]
        self.work -= len(packing.neighbours[n]) + len(self.member_of[n])

    def undo(self, choice: _Choice) -> None:
        n = choice.placed
        self.offsets[n] = -1
        self.left += 1
        for m, low in choice.raised:
            self.low[m] = low
        for clique, floor in choice.floors:
            self.floor[clique] = floor
            self.remaining[clique] += self.packing.padded[n]
        self.last = choice.previous
        choice.placed = -1
        choice.raised.clear()
        choice.floors.clear()

    def is_open(self) -> bool:
        """Return whether each clique can still end below the peak, given that offsets of later buffers do not
        decrease."""
        current = self.last[0]
        self.work -= len(self.floor)
        return all(
            not rest or max(floor, current) + rest - slack < self.peak
            for floor, rest, slack in zip(self.floor, self.remaining, self.slack)
        )
