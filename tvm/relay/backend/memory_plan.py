"""Static memory planning: assign storage to every value, and reuse storage after the last use of its values.

A value may be stored inside another one (a reshape, a part of a concatenation). A kernel that reads an input only at
the element it writes may run in place. A storage belongs to one device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..symbolic import has_dynamic_dims
from .program import Kind, Program, byte_size


@dataclass
class Entry:
    """One output of one node. A ``pinned`` entry (input, parameter, output of the graph) does not share its storage
    with other entries, except those contained in it. ``offset`` is its first byte within the storage. The entry is
    live from step ``first_use`` to step ``last_use``. An entry that is contained in the memory of another entry has
    that entry as ``root`` and the same lifetime."""

    nbytes: int
    pinned: bool = False
    device: int = 1
    storage: int = -1
    offset: int = 0
    first_use: int = -1
    last_use: int = -1
    root: int = -1


@dataclass
class Step:
    """A node of the program: the entries that it reads and writes, and the inputs that it may overwrite."""

    reads: list[int]
    writes: list[int]
    in_place: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """The storage of every entry, the size and device of every storage, and statistics about sharing."""

    entries: list[Entry] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)
    unshared_bytes: int = 0
    in_place: int = 0
    inside: int = 0

    @property
    def planned_bytes(self) -> int:
        return sum(size for i, size in enumerate(self.sizes) if i in self.shared())

    def shared(self) -> set[int]:
        """Return the storages that intermediate values share."""
        own = {e.storage for e in self.entries if e.pinned}
        return {e.storage for e in self.entries if not e.pinned} - own

    def summary(self) -> str:
        before, after = self.unshared_bytes, self.planned_bytes
        saved = 100.0 * (1 - after / before) if before else 0.0
        sizes = f"{after / 2**20:.1f} MiB in place of {before / 2**20:.1f} MiB"
        more = f", {self.in_place} results written over an input, {self.inside} inside another"
        return f"memory of intermediate results: {sizes} ({saved:.0f} % saved{more})"


def plan(steps: list[Step], entries: list[Entry], within: dict[int, tuple[int, int]]) -> Plan:
    """Assign storage to the entries; freed storage is reused best fit first.

    ``within`` maps an entry to the entry that contains it and to its byte offset there.
    """
    result = Plan(entries)

    def base(e: int) -> int:
        return _base(within, e)

    for at, step in enumerate(steps):
        for e in step.reads + step.writes:
            own = entries[base(e)]
            own.first_use, own.last_use = own.first_use if own.first_use >= 0 else at, at
    over: dict[int, int] = {}
    free: dict[int, list[int]] = {e.device: [] for e in entries}
    for i, e in enumerate(entries):
        if e.pinned and i not in within:
            e.storage = _new(result, e.nbytes, e.device)
    for at, step in enumerate(steps):
        taken = -1
        for w in step.writes:
            own = entries[base(w)]
            if own.storage < 0:
                taken = _written_over(step, at, entries, base, w)
                own.storage = entries[taken].storage if taken >= 0 else _take(free[own.device], result, own)
                if taken >= 0:
                    over[w] = taken
        for e in dict.fromkeys(base(x) for x in step.reads + step.writes):
            own = entries[e]
            if own.last_use == at and not own.pinned and e != taken:
                free[own.device].append(own.storage)
    for e in within:
        own, offset = e, 0
        while own in within:
            own, more = within[own]
            offset += more
        entries[e].storage, entries[e].offset = entries[own].storage, offset
        entries[e].first_use, entries[e].last_use = entries[own].first_use, entries[own].last_use
        result.inside += entries[e].nbytes != entries[own].nbytes
    result.in_place = len(over)
    for i, e in enumerate(entries):
        e.root = base(i)
        while e.root in over:
            e.root = over[e.root]
    # Without a plan, a reshape needs no separate memory, but the parts of a concatenation do.
    kept = [e for i, e in enumerate(entries) if i not in within or e.nbytes != entries[base(i)].nbytes]
    result.unshared_bytes = sum(e.nbytes for e in kept if not e.pinned)
    return result


def _written_over(step: Step, at: int, entries: list[Entry], base, w: int) -> int:
    """Return the input whose storage an output can reuse in place, or -1.

    It must be the last use of the input, no other input may be stored in it, and the sizes must be equal.
    """
    if base(w) != w or len(step.writes) != 1:
        return -1
    for r in step.in_place:
        e = base(r)
        readers = sum(base(x) == e for x in step.reads)
        if entries[e].last_use == at and not entries[e].pinned and readers == 1 and entries[e].storage >= 0:
            if entries[e].nbytes == entries[r].nbytes == entries[w].nbytes:
                return e
    return -1


def _new(result: Plan, nbytes: int, device: int) -> int:
    result.sizes.append(nbytes)
    result.devices.append(device)
    return len(result.sizes) - 1


def _take(free: list[int], result: Plan, own: Entry) -> int:
    """Return the smallest free storage that fits, else the largest one after growing it, else a new one."""
    sizes = result.sizes
    fitting = [s for s in free if sizes[s] >= own.nbytes]
    if fitting:
        best = min(fitting, key=lambda s: (sizes[s], s))
    else:
        best = max(free, key=lambda s: (sizes[s], -s), default=-1)
        if best < 0 or sizes[best] * 16 < own.nbytes:
            return _new(result, own.nbytes, own.device)
        sizes[best] = own.nbytes
    free.remove(best)
    return best


def plan_program(program: Program) -> Plan:
    """Return the memory plan of a program.

    Inputs, constants and outputs have unshared storage. So do values with dynamic shapes, whose planned size is 0.
    """
    rows = program.first_entries()
    outputs = {rows[n] + i for n, i in program.outputs}
    entries: list[Entry] = []
    within: dict[int, tuple[int, int]] = {}
    steps: list[Step] = []
    for number, node in enumerate(program.nodes):
        outs = list(range(rows[number], rows[number + 1]))
        ins = [rows[n] + i for n, i in node.inputs]
        for e, t in zip(outs, node.types):
            known = not has_dynamic_dims(t)
            own = node.is_given or e in outputs or not known
            entries.append(Entry(byte_size(t) if known else 0, own, node.device))
        if node.kind is Kind.VIEW and (len(ins) == 1 or node.function is not None):
            within[outs[0]] = (ins[0], 0)
        elif node.kind is Kind.VIEW:
            offset = 0
            for e in ins:
                within[e] = (outs[0], offset)
                offset += entries[e].nbytes
        steps.append(Step(ins, outs, [rows[n] + i for n, i in node.in_place]))
    for e in outputs:
        entries[_base(within, e)].pinned = True
    for e in within:
        # A contained entry follows the lifetime of the entry that contains it.
        entries[e].pinned = False
    return plan(steps, entries, within)


def _base(within: dict[int, tuple[int, int]], e: int) -> int:
    """Return the outermost entry that contains an entry; the entry itself if none does."""
    while e in within:
        e = within[e][0]
    return e
