"""Static memory: where every result lies. Storage is free again after the last reader of what lies there has run.

A result may lie inside another one (a reshape, a part of a join), and a kernel that reads an input only at the element
it writes may write over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Entry:
    """One output of one node. ``pinned`` storage belongs to it and what lies in it alone (inputs, parameters, results).
    ``offset`` is its first byte within the storage."""

    nbytes: int
    pinned: bool = False
    storage: int = -1
    offset: int = 0
    last_use: int = -1


@dataclass
class Step:
    """A node: the entries it reads and writes, and those of the inputs it may write over."""

    reads: list[int]
    writes: list[int]
    in_place: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """The storage of every entry and what sharing saved."""

    entries: list[Entry] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    unshared_bytes: int = 0
    in_place: int = 0
    inside: int = 0

    @property
    def planned_bytes(self) -> int:
        return sum(size for i, size in enumerate(self.sizes) if i in self._shared())

    def _shared(self) -> set[int]:
        own = {e.storage for e in self.entries if e.pinned}
        return {e.storage for e in self.entries if not e.pinned} - own

    def summary(self) -> str:
        before, after = self.unshared_bytes, self.planned_bytes
        saved = 100.0 * (1 - after / before) if before else 0.0
        sizes = f"{after / 2**20:.1f} MiB in place of {before / 2**20:.1f} MiB"
        more = f", {self.in_place} results written over an input, {self.inside} inside another"
        return f"memory of intermediate results: {sizes} ({saved:.0f} % saved{more})"


def plan(steps: list[Step], entries: list[Entry], within: dict[int, tuple[int, int]]) -> Plan:
    """``within`` maps an entry to the one it lies in and its first byte there. Freed storage is reused best fit
    first."""
    result = Plan(entries)

    def base(e: int) -> int:
        while e in within:
            e = within[e][0]
        return e

    for at, step in enumerate(steps):
        for e in step.reads + step.writes:
            entries[base(e)].last_use = at
    free: list[int] = []
    for i, e in enumerate(entries):
        if e.pinned and i not in within:
            e.storage = len(result.sizes)
            result.sizes.append(e.nbytes)
    for at, step in enumerate(steps):
        taken = -1
        for w in step.writes:
            own = entries[base(w)]
            if own.storage < 0:
                taken = _written_over(step, at, entries, base, w)
                own.storage = entries[taken].storage if taken >= 0 else _take(free, result.sizes, own.nbytes)
                result.in_place += taken >= 0
        for e in dict.fromkeys(base(x) for x in step.reads + step.writes):
            own = entries[e]
            if own.last_use == at and not own.pinned and e != taken:
                free.append(own.storage)
    for e in within:
        own, offset = e, 0
        while own in within:
            own, more = within[own]
            offset += more
        entries[e].storage, entries[e].offset = entries[own].storage, offset
        result.inside += entries[e].nbytes != entries[own].nbytes
    # A reshape needs no memory of its own even without a plan; the parts of a join would.
    kept = [e for i, e in enumerate(entries) if i not in within or e.nbytes != entries[base(i)].nbytes]
    result.unshared_bytes = sum(e.nbytes for e in kept if not e.pinned)
    return result


def _written_over(step: Step, at: int, entries: list[Entry], base, w: int) -> int:
    """The input whose storage the result takes over, -1 if there is none: it ends here, no other input lies in it, and
    the sizes agree."""
    if base(w) != w or len(step.writes) != 1:
        return -1
    for r in step.in_place:
        e = base(r)
        readers = sum(base(x) == e for x in step.reads)
        if entries[e].last_use == at and not entries[e].pinned and readers == 1 and entries[e].storage >= 0:
            if entries[e].nbytes == entries[r].nbytes == entries[w].nbytes:
                return e
    return -1


def _take(free: list[int], sizes: list[int], nbytes: int) -> int:
    """The smallest free storage that fits, else the largest one grown, else a new one."""
    fitting = [s for s in free if sizes[s] >= nbytes]
    if fitting:
        best = min(fitting, key=lambda s: (sizes[s], s))
    elif free:
        best = max(free, key=lambda s: (sizes[s], -s))
        if sizes[best] * 16 < nbytes:
            sizes.append(nbytes)
            return len(sizes) - 1
        sizes[best] = nbytes
    else:
        sizes.append(nbytes)
        return len(sizes) - 1
    free.remove(best)
    return best
