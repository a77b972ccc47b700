"""An exact solver for small problems, independent of the planner.

Of two conflicting buffers one is below the other. With some of these pairs decided, the longest path gives the lowest
offsets; the solver decides a pair that still overlaps, in both ways, until none does.
"""

from __future__ import annotations


def smallest_peak(sizes, alignments, pairs, at_most):
    """The smallest peak below ``at_most``; ``at_most`` if there is none."""
    best = at_most
    stack = [frozenset()]
    while stack:
        below = stack.pop()
        offsets = lowest_offsets(sizes, alignments, below)
        if offsets is None or max(o + s for o, s in zip(offsets, sizes)) >= best:
            continue
        overlapping = [
            (a, b) for a, b in pairs
            if sizes[a] and sizes[b] and offsets[a] < offsets[b] + sizes[b] and offsets[b] < offsets[a] + sizes[a]
        ]  # fmt: skip
        if not overlapping:
            best = max(o + s for o, s in zip(offsets, sizes))
            continue
        a, b = max(overlapping, key=lambda pair: sizes[pair[0]] + sizes[pair[1]])
        stack += [below | {(a, b)}, below | {(b, a)}]
    return best


def lowest_offsets(sizes, alignments, below):
    """Offsets with the first of each pair below the second; None where the pairs form a circle."""
    offsets = [0] * len(sizes)
    for _ in range(len(sizes) + 1):
        changed = False
        for a, b in below:
            wanted = -(-(offsets[a] + sizes[a]) // alignments[b]) * alignments[b]
            if offsets[b] < wanted:
                offsets[b], changed = wanted, True
        if not changed:
            return offsets
    return None
