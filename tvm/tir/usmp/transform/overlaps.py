"""Find functions whose pointers may overlap in a memory plan.

A plan may reuse the memory of an argument for a buffer of the called function, after the last access to the argument.
The attribute ``tir.noalias`` is then incorrect: with it, code generation may move loads across stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from ....ir.prim import Call, Var
from ....ir.visit import post_order, pre_order
from ...function import PrimFunc
from ...stmt import Allocate, AllocateConst, LetStmt, Stmt
from ..calls import Callees, allocated_bytes, arguments, is_pointer, roots_of
from ..utils import PoolAllocation

Places = Mapping[Stmt, PoolAllocation]


def planned_in(callees: Callees, places: Places) -> dict[str, set[Any]]:
    """Return the planned allocations of each function, including those of the functions that it calls."""
    found: dict[str, set[Any]] = {}
    needs: dict[str, set[str]] = {}
    for var, function in callees.functions.values():
        nodes = list(post_order(function.body))
        found[var.name_hint] = {n for n in nodes if isinstance(n, Stmt) and n in places}
        called = (callees.called(n) for n in nodes if type(n) is Call)
        needs[var.name_hint] = {one[0].name_hint for one in called if one is not None}
    changed = True
    while changed:
        changed = False
        for name, called in needs.items():
            more = found[name].union(*(found[c] for c in called))
            changed |= len(more) > len(found[name])
            found[name] = more
    return found


def functions_with_overlaps(callees: Callees, places: Places, main: str) -> set[str]:
    """Return the functions that have two pointers into the same memory in at least one call."""
    planned = planned_in(callees, places)
    found: set[str] = set()
    for var, function in callees.functions.values():
        is_main = var is callees.functions[main][0]
        for node, environment in _calls(function, places, is_main):
            called = callees.called(node)
            if called is None or called[0].name_hint in found:
                continue
            groups = [roots_of(a, environment) for a in arguments(node) if is_pointer(a)]
            groups.append(frozenset(planned[called[0].name_hint]))
            if any(_overlap(places, a, b) for a, b in combinations(groups, 2)):
                found.add(called[0].name_hint)
    return found


def _calls(function: PrimFunc, places: Places, is_main: bool) -> Iterator[tuple[Call, dict[Var, frozenset[Any]]]]:
    """Yield the calls in a function, with the planned allocations to which its pointers may point. Parameters of the
    main function are outside of the pools. Parameters of other functions may point to any memory, which is None."""
    environment: dict[Var, frozenset[Any]] = {}
    if not is_main:
        for param in function.params:
            data = function.buffer_map[param].data if param in function.buffer_map else param
            if data.dtype == "handle":
                environment[data] = frozenset((None,))
    calls: list[Call] = []
    for node in pre_order(function.body):
        if isinstance(node, (Allocate, AllocateConst)) and node in places:
            environment[node.buffer_var] = frozenset((node,))
        elif isinstance(node, LetStmt) and node.value.dtype == "handle":
            environment[node.var] = roots_of(node.value, environment)
        elif type(node) is Call:
            calls.append(node)
    return ((call, environment) for call in calls)


def _overlap(places: Places, first: Iterable[Any], second: Iterable[Any]) -> bool:
    second = list(second)
    for a in first:
        for b in second:
            if a is b and a is not None:
                continue
            if a is None or b is None:
                return True
            mine, theirs = places[a], places[b]
            if mine.pool_info is not theirs.pool_info:
                continue
            start, begin = mine.byte_offset, theirs.byte_offset
            if start < begin + (allocated_bytes(b) or 0) and begin < start + (allocated_bytes(a) or 0):
                return True
    return False
