"""Traversals for all IRs: iterative, memoised by identity, preserving sharing and returning unchanged objects."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from .node import Node

T = TypeVar("T")

# A stack entry above a node marks that its operands have been visited.
_READY: Any = object()


def post_order(
    root: Any,
    known: Container[int] = (),
    operands: Callable[[Any], Sequence[Any]] | None = None,
    seen: set[int] | None = None,
) -> Iterator[Any]:
    """Yield every node reachable through children, or through ``operands(node)`` if given, once and operands before
    users.

    Nodes whose ids are in ``known`` when they are reached are skipped, with everything below them. ``seen`` contains
    the ids visited so far, for walks from several roots. The caller processes a node before the next one is searched,
    so ``known`` may be the memo of results.
    """
    seen = set() if seen is None else seen
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node is _READY:
            yield stack.pop()
            continue
        key = id(node)
        if key in seen or key in known:
            continue
        seen.add(key)
        below = node.children() if operands is None else operands(node)
        if not below:
            yield node
            continue
        stack.append(node)
        stack.append(_READY)
        for child in reversed(below):
            if id(child) not in seen:
                stack.append(child)


def components(roots: Iterable[T], needs: Callable[[T], Iterable[T]]) -> list[list[T]]:
    """Return the strongly connected components of the nodes that ``roots`` depend on, each after its dependencies.

    Nodes that depend on each other form one component. Nodes are compared by equality. (Kosaraju's algorithm, linear in
    the number of dependencies.)"""
    same: dict[T, T] = {}
    needed: dict[T, list[T]] = {}

    def operands(node: T) -> list[T]:
        needed[node] = [same.setdefault(n, n) for n in needs(node)]
        return needed[node]

    met: set[int] = set()
    ended = [n for root in roots for n in post_order(same.setdefault(root, root), operands=operands, seen=met)]
    users: dict[T, list[T]] = {node: [] for node in ended}
    for node in ended:
        for n in needed[node]:
            users[n].append(node)
    met = set()
    found = [list(post_order(node, operands=users.__getitem__, seen=met)) for node in reversed(ended)]
    return [component for component in reversed(found) if component]


def pre_order(root: Node, stop: Callable[[Node], bool] | None = None) -> Iterator[Any]:
    """Yield every node once, users before operands; the children of a node are skipped if ``stop(node)`` is true."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if stop is None or not stop(node):
            stack.extend(reversed(node.children()))


def walk(root: Node, visit: Callable[[Node], Any]) -> None:
    """Call ``visit`` on every node, operands first."""
    for node in post_order(root):
        visit(node)


def rewrite(
    root: Node,
    post: Callable[[Node], Node | None] | None = None,
    pre: Callable[[Node], Node | None] | None = None,
    memo: dict[int, tuple[Node, Node]] | None = None,
) -> Any:
    """Rebuild a node bottom-up. ``pre`` may replace a node before its children are visited (which are then not
    visited); ``post`` receives the node with new children and may replace it; None means unchanged.

    ``memo`` maps id(old) to (old, new); storing the old node prevents its id from being reused.
    """
    if memo is None:
        memo = {}

    def lookup(node: Any):
        return memo[id(node)][1]

    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node is _READY:
            node = stack.pop()
            new = node.map_children(lookup)
            if post is not None:
                got = post(new)
                if got is not None:
                    new = got
            memo[id(node)] = (node, new)
            continue
        key = id(node)
        if key in memo:
            continue
        if pre is not None:
            got = pre(node)
            if got is not None:
                memo[key] = (node, got)
                continue
        kids = node.children()
        if not kids:
            got = post(node) if post is not None else None
            memo[key] = (node, node if got is None else got)
            continue
        stack.append(node)
        stack.append(_READY)
        for child in kids:
            if id(child) not in memo:
                stack.append(child)
    return memo[id(root)][1]
