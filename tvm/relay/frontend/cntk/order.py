"""The order of a graph that may have circles."""

from __future__ import annotations

from collections.abc import Callable


def components(roots: list[str], needs: Callable[[str], list[str]]) -> list[list[str]]:
    """What some nodes need, each after what it needs; nodes that need each other are one group. Tarjan's algorithm,
    with a list in place of calls, so that deep graphs are no danger."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    found: list[list[str]] = []
    for root in roots:
        if root in number:
            continue
        work = [(root, iter(needs(root)))]
        number[root] = lowest[root] = len(number)
        open_nodes.append(root)
        is_open.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    open_nodes.append(other)
                    is_open.add(other)
                    work.append((other, iter(needs(other))))
                    break
                if other in is_open:
                    lowest[node] = min(lowest[node], number[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(open_nodes.pop())
                        is_open.discard(group[-1])
                    found.append(group[::-1])
    return found


__all__ = ["components"]
