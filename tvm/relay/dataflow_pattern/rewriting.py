"""Rewrite matches of patterns, or partition them into functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...error import TVMError
from ...ir.node import Node
from ...ir.op import Op
from ...ir.structural import structural_equal
from ...ir.visit import post_order
from ...ir.visit import rewrite as rewrite_nodes
from ..checked_type import with_type_of
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import infer_type
from .matching import Matcher
from .patterns import (
    CallPattern,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    TupleGetItemPattern,
    TuplePattern,
)


class DFPatternCallback:
    """A rewrite rule: subclasses set ``pattern`` and define ``callback(pre, post, node_map)``.

    ``pre`` is the matched expression, ``post`` the same expression with rewritten operands, and ``node_map`` maps each
    pattern object to the expressions that it matched.

    Parameters
    ----------
    require_type : bool, optional
        Whether to infer types before each callback.
    rewrite_once : bool, optional
        Whether to rewrite in a single round.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False):
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: RelayExpr) -> RelayExpr:
        """Apply this callback to all matches in an expression until nothing changes.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        RelayExpr
            The rewritten expression.

        Raises
        ------
        ValueError
            ``pattern`` is not set.
        TVMError
            Rewriting does not terminate.
        """
        return rewrite(self, expr)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """Return the replacement of a match.

        Parameters
        ----------
        pre : RelayExpr
            The matched expression before rewriting.
        post : RelayExpr
            The same expression with rewritten operands; build the replacement from this one.
        node_map : NodeMap
            Maps each pattern to the list of expressions that it matched.

        Returns
        -------
        RelayExpr
            The replacement, or ``post`` to leave the match unchanged.

        Raises
        ------
        NotImplementedError
            The class does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} must define callback(pre, post, node_map)")


class NodeMap(dict):
    """Maps each pattern to the list of expressions that it matched."""


def rewrite(callbacks: DFPatternCallback | list[DFPatternCallback], expr: RelayExpr, mod: Any = None) -> RelayExpr:
    """Apply callbacks in turn to all matches, operands first, until nothing changes.

    Parameters
    ----------
    callbacks : DFPatternCallback | list[DFPatternCallback]
        The rewrite rules.
    expr : RelayExpr
        The expression.
    mod : IRModule, optional
        The module that contains the expression.

    Returns
    -------
    RelayExpr
        The rewritten expression.

    Raises
    ------
    ValueError
        A callback has no pattern.
    TVMError
        Rewriting does not terminate.
    """
    left = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for callback in left:
        if callback.pattern is None:
            raise ValueError(f"{type(callback).__name__} has no pattern; set self.pattern")
    # A rule that matches its own output grows the graph in each round; rules that undo each other never terminate.
    size = sum(1 for _ in post_order(expr))
    for _ in range(size + 100):
        changed = []
        for callback in left:
            if callback.require_type:
                expr = infer_type(expr, mod)
            new = _rewrite_once(callback, expr)
            if new is not expr and not structural_equal(new, expr, True):
                changed.append(callback)
            expr = new
            if sum(1 for _ in post_order(expr)) > 20 * size + 1000:
                raise TVMError(f"rewriting with {type(callback).__name__} does not terminate")
        left = [callback for callback in left if not callback.rewrite_once]
        if not changed:
            return expr
    names = ", ".join(dict.fromkeys(type(callback).__name__ for callback in changed))
    raise TVMError(f"rewriting with {names} does not terminate")


def _rewrite_once(callback: DFPatternCallback, root: RelayExpr) -> RelayExpr:
    """Rewrite one round of matches that do not overlap.

    They are searched from the root, so that the largest match of a recursive pattern comes first.
    """
    users = Matcher(root).users()
    matches: dict[int, tuple[RelayExpr, Matcher]] = {}
    covered: set[int] = set()
    for node in reversed(list(post_order(root))):
        if id(node) in covered or not isinstance(node, RelayExpr) or isinstance(node, Op):
            continue
        matcher = Matcher(root, users)
        if matcher.match(callback.pattern, node):
            matches[id(node)] = (node, matcher)
            covered.update(id(e) for e in _covered(matcher) if not isinstance(e, Constant))
    if not matches:
        return root
    memo: dict[int, tuple[Node, Node]] = {}

    def renewed(e):
        got = memo.get(id(e))
        return e if got is None else got[1]

    return _rebuild(root, callback, matches, memo, renewed)


def _rebuild(root, callback: DFPatternCallback, matches, memo, renewed) -> RelayExpr:
    for node in post_order(root):
        post = node.map_children(renewed)
        _keep_type(node, post)
        if id(node) in matches:
            _, matcher = matches[id(node)]
            found = NodeMap()
            for p, e in matcher.matched:
                found.setdefault(p, []).append(post if e is node else renewed(e))
            got = callback.callback(node, post, found)
            post = post if got is None else got
        memo[id(node)] = (node, post)
    return memo[id(root)][1]


def _keep_type(old: RelayExpr, new: RelayExpr) -> None:
    """Give a rebuilt node the type of the old one. This requires operands with types, as type inference expects."""
    if new is not old and isinstance(new, RelayExpr) and getattr(new, "checked_type_", 1) is None:
        if all(getattr(c, "checked_type_", 1) is not None for c in new.children()):
            with_type_of(new, old)


# -- partitioning ----------------------------------------------------------------------------------------------------


def _covered(matcher: Matcher) -> list[RelayExpr]:
    """Return the expressions that a match covers.

    These are the expressions that its patterns matched, without the inside of expressions that a leaf pattern matched.
    A function pattern covers the whole function.
    """
    covered = {}
    for p, e in matcher.matched:
        if isinstance(p, FunctionPattern):
            covered.update((id(x), x) for x in post_order(e))
        elif isinstance(p, (CallPattern, TuplePattern, TupleGetItemPattern, ConstantPattern, IfPattern)):
            covered[id(e)] = e
        elif isinstance(p, DominatorPattern):
            covered.update(_path_expressions(p, matcher))
    return list(covered.values())


def _path_expressions(p: DominatorPattern, matcher: Matcher) -> dict[int, RelayExpr]:
    """Return the expressions on the paths from the parent of a dominator pattern to its child."""
    source, end = matcher.memo[id(p.parent)][0], matcher.memo[id(p.child)][0]
    found, stack = {}, [source]
    while stack:
        for user in matcher.users().get(id(stack.pop()), []):
            if user is not end and id(user) not in found:
                found[id(user)] = user
                stack.append(user)
    return found


def partition(
    pattern: DFPattern, expr: RelayExpr, attrs: dict | None = None, check: Callable[[RelayExpr], bool] = lambda x: True
) -> RelayExpr:
    """Move each match into a function.

    The function has the attributes ``PartitionedFromPattern`` (the pattern's text) and ``attrs``. Its parameters are
    the expressions that the leaves of the pattern matched, in pattern order.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
    expr : RelayExpr
        The expression.
    attrs : dict, optional
        Additional attributes of the functions.
    check : callable, optional
        A predicate that selects the matches to move.

    Returns
    -------
    RelayExpr
        The expression with calls of the functions.
    """
    order = list(post_order(expr))
    users = Matcher(expr).users()
    taken: set[int] = _partitioned(order)
    groups: dict[int, _Match] = {}
    for node in reversed(order):
        if id(node) in taken or not isinstance(node, RelayExpr) or isinstance(node, Op):
            continue
        matcher = Matcher(expr, users)
        if not matcher.match(pattern, node):
            continue
        covered = _covered(matcher)
        inside = {id(e) for e in covered} | {id(node)}
        within = {id(e) for e in covered if not isinstance(e, (Constant, Function))} - {id(node)}
        if within & taken or not _ends_in(node, within, inside, users) or not check(node):
            continue
        taken |= within | {id(node)}
        groups[id(node)] = _Match(node, inside, _inputs(pattern, matcher, inside))
    return _extract(expr, groups, attrs or {}) if groups else expr


def _ends_in(root: RelayExpr, within: set[int], inside: set[int], users: dict[int, list[RelayExpr]]) -> bool:
    """Return whether all outside uses of a match's inner expressions lead to its root.

    Such an outside expression becomes an input of the match and is computed from a copy of the inner expressions.
    """
    stack = [u for i in within for u in users.get(i, ()) if id(u) not in inside]
    seen = {id(root)}
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not users.get(id(node)):
            return False
        stack.extend(users[id(node)])
    return True


class _Match(NamedTuple):
    """A match: its root, the ids of the expressions it covers, and its input expressions."""

    root: RelayExpr
    inside: set[int]
    inputs: list[RelayExpr]


def _partitioned(order: list[RelayExpr]) -> set[int]:
    """Return the ids of all expressions inside earlier partitions."""
    done = [n for n in order if isinstance(n, Function) and "PartitionedFromPattern" in n.attrs]
    return {id(n) for f in done for n in (f, *post_order(f.body))}


def _inputs(pattern: DFPattern, matcher: Matcher, inside: set[int]) -> list[RelayExpr]:
    """Return the distinct expressions that the leaves of a pattern matched, in pattern order.

    A constant is an input unless the pattern requires a constant there.
    """
    found: dict[int, RelayExpr] = {}
    for p in _leaves(pattern):
        asked = isinstance(p, (ConstantPattern, ExprPattern))
        for e in matcher.memo.get(id(p), ()):
            parts = e.args if isinstance(p, CallPattern) else e.fields if isinstance(p, TuplePattern) else (e,)
            found.update(
                (id(x), x)
                for x in parts
                if not isinstance(x, (Op, Function)) and id(x) not in inside and not (asked and isinstance(x, Constant))
            )
    return list(found.values())


def _leaves(pattern: DFPattern) -> list[DFPattern]:
    """Return the distinct leaf patterns, which do not restrict the inside of their matches, operands first."""
    seen: set[int] = set()
    found: list[DFPattern] = []
    stack = [pattern]
    while stack:
        p = stack.pop()
        if id(p) in seen or isinstance(p, FunctionPattern):
            continue
        seen.add(id(p))
        unsaid = isinstance(p, CallPattern) and p.args is None or isinstance(p, TuplePattern) and p.fields is None
        if unsaid or not p.parts():
            found.append(p)
        stack.extend(reversed(p.parts()))
    return found


def _extract(expr: RelayExpr, groups: dict[int, _Match], attrs: dict) -> RelayExpr:
    memo: dict[int, tuple[Node, Node]] = {}
    numbers = {group: number for number, group in enumerate(groups)}

    def moved(match: _Match) -> RelayExpr:
        params: dict[int, Var] = {}
        pairs: list[tuple[Var, RelayExpr]] = []
        known = {id(e) for e in match.inputs}
        further = [e for e in _outside_of(match.root, match.inside) if id(e) not in known]
        for e in [*match.inputs, *[e for e in further if not isinstance(e, (Constant, Function))]]:
            params[id(e)] = Var(f"FunctionVar_{numbers[id(match.root)]}_{len(pairs)}")
            pairs.append((params[id(e)], e))

        def enter(e):
            if id(e) in params:
                return params[id(e)]
            return None if id(e) in match.inside or isinstance(e, Op) else e

        body = rewrite_nodes(match.root, None, enter)
        facts = {"PartitionedFromPattern": _described(match.root, match.inside), **attrs}
        made = Function([v for v, _ in pairs], body, None, (), facts)
        return Call(made, tuple(memo[id(e)][1] for _, e in pairs))

    def needs(node: RelayExpr) -> Any:
        group = groups.get(id(node))
        return node.children() if group is None else [*group.inputs, *_outside_of(node, group.inside)]

    for node in post_order(expr, operands=needs):
        group = groups.get(id(node))
        new = moved(group) if group is not None else node.map_children(lambda c: memo[id(c)][1])
        _keep_type(node, new)
        memo[id(node)] = (node, new)
    return memo[id(expr)][1]


def _outside_of(node: RelayExpr, inside: set[int]) -> list[RelayExpr]:
    """Return the expressions outside a match that its inside depends on, from left to right."""
    found, stack, seen = [], [node], set()
    while stack:
        e = stack.pop()
        if id(e) in seen or isinstance(e, Op):
            continue
        seen.add(id(e))
        if id(e) in inside:
            stack.extend(reversed(e.children()))
        else:
            found.append(e)
    return found


def _described(node: RelayExpr, inside: set[int]) -> str:
    """Return the operator names of a partition, operands first, such as "nn.conv2d_nn.relu_"."""
    names = []
    for e in post_order(node):
        if id(e) in inside:
            if isinstance(e, Call):
                names.append(e.op.name if isinstance(e.op, Op) else "FunctionCall")
            elif isinstance(e, TupleGetItem):
                names.append(f"TupleGetItem{e.index}")
            elif isinstance(e, Tuple):
                names.append("Tuple")
    return "".join(n + "_" for n in names)
