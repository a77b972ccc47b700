"""Static memory: which outputs share storage. An output's storage is free again after its last reader has run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Entry:
    """One output of one node. ``pinned`` storage belongs to it alone (inputs, parameters, results)."""

    nbytes: int
    pinned: bool = False
    storage: int = -1
    last_use: int = -1


@dataclass
class Plan:
    """The storage of every entry and what sharing saved."""

    entries: list[Entry] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def planned_bytes(self) -> int:
        return sum(size for i, size in enumerate(self.sizes) if i in self._shared())

    @property
    def unshared_bytes(self) -> int:
        return sum(e.nbytes for e in self.entries if not e.pinned)

    def _shared(self) -> set[int]:
        return {e.storage for e in self.entries if not e.pinned}

    def summary(self) -> str:
        before, after = self.unshared_bytes, self.planned_bytes
        saved = 100.0 * (1 - after / before) if before else 0.0
        sizes = f"{after / 2**20:.1f} MiB in place of {before / 2**20:.1f} MiB"
        return f"memory of intermediate results: {sizes} ({saved:.0f} % saved)"


def plan(steps: list[tuple[list[int], list[int]]], entries: list[Entry], alias: dict[int, int]) -> Plan:
    """``steps`` are (entries read, entries written) in execution order; ``alias`` maps an entry to the one whose
    storage it is (a reshape). Freed storage is reused best fit first."""
    result = Plan(entries)

    def base(e: int) -> int:
        while e in alias:
            e = alias[e]
        return e

    for at, (reads, writes) in enumerate(steps):
        for e in reads + writes:
            entries[base(e)].last_use = at
    free: list[int] = []
    for e in entries:
        if e.pinned:
            e.storage = len(result.sizes)
            result.sizes.append(e.nbytes)
    for at, (reads, writes) in enumerate(steps):
        for w in writes:
            own = entries[base(w)]
            if own.storage < 0:
                own.storage = _take(free, result.sizes, own.nbytes)
        for e in dict.fromkeys(base(x) for x in reads + writes):
            own = entries[e]
            if own.last_use == at and not own.pinned:
                free.append(own.storage)
    for e in alias:
        entries[e].storage = entries[base(e)].storage
    return result


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
