"""What to do with matches: replace them, or move them into functions."""

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
    """What to do with a match: set ``pattern`` and define ``callback(pre, post, node_map)``.

    ``pre`` is the expression before, ``post`` with its operands already rewritten, ``node_map`` says for each pattern
    object which expressions it matched.

    Parameters
    ----------
    require_type : bool, optional
        Whether types are inferred before each callback.
    rewrite_once : bool, optional
        Whether matches are looked for once only.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False):
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: RelayExpr) -> RelayExpr:
        """Apply this callback to everything in an expression that matches, until it changes nothing.

        Parameters
        ----------
        expr : RelayExpr
            The expression.

        Returns
        -------
        RelayExpr
            The expression after the last change.

        Raises
        ------
        ValueError
            ``pattern`` is not set.
        TVMError
            Rewriting does not come to an end.
        """
        return rewrite(self, expr)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """What takes the place of a match.

        Parameters
        ----------
        pre : RelayExpr
            The expression that matched, as it was.
        post : RelayExpr
            The same with its operands rewritten, which what is given is made of.
        node_map : NodeMap
            For each pattern the list of expressions that it matched.

        Returns
        -------
        RelayExpr
            The new expression; ``post`` to leave the match as it is.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define callback(pre, post, node_map)")


class NodeMap(dict):
    """Pattern -> list of the expressions it matched."""


def rewrite(callbacks: DFPatternCallback | list[DFPatternCallback], expr: RelayExpr, mod: Any = None) -> RelayExpr:
    """Apply callbacks to everything that matches, operands first, in turn, until none of them changes anything.

    Parameters
    ----------
    callbacks : DFPatternCallback | list[DFPatternCallback]
        What is done with matches.
    expr : RelayExpr
        The expression.
    mod : IRModule, optional
        The module the expression belongs to.

    Returns
    -------
    RelayExpr
        The expression after the last change.

    Raises
    ------
    ValueError
        A callback has no pattern.
    TVMError
        Rewriting does not come to an end.
    """
    left = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for callback in left:
        if callback.pattern is None:
            raise ValueError(f"{type(callback).__name__} has no pattern; set self.pattern")
    # A rule that matches its own result makes the graph grow in every round; rules that undo each other never stop.
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
                raise TVMError(f"rewriting with {type(callback).__name__} does not come to an end")
        left = [callback for callback in left if not callback.rewrite_once]
        if not changed:
            return expr
    names = ", ".join(dict.fromkeys(type(callback).__name__ for callback in changed))
    raise TVMError(f"rewriting with {names} does not come to an end")


def _rewrite_once(callback: DFPatternCallback, root: RelayExpr) -> RelayExpr:
    """One round: matches that do not overlap, found from the root down, so that the largest of a pattern that refers to
    itself comes first."""
    users = Matcher(root).users()
    matches: dict[int, tuple[RelayExpr, Matcher]] = {}
    covered: set[int] = set()
    for node in reversed(list(post_order(root))):
        if id(node) in covered or not isinstance(node, RelayExpr) or isinstance(node, Op):
            continue
        matcher = Matcher(root, users)
        if matcher.match(callback.pattern, node):
            matches[id(node)] = (node, matcher)
            covered.update(id(e) for e in _inside(matcher) if not isinstance(e, Constant))
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
    """A rebuilt node has the type of the old one; it gets it only above operands with types, as inference expects."""
    if new is not old and isinstance(new, RelayExpr) and getattr(new, "checked_type_", 1) is None:
        if all(getattr(c, "checked_type_", 1) is not None for c in new.children()):
            with_type_of(new, old)


# -- partitioning ----------------------------------------------------------------------------------------------------


def _inside(matcher: Matcher) -> list[RelayExpr]:
    """Expressions a match covers: what its patterns matched, except where the pattern says nothing of the inside; of a
    function that a pattern describes, all."""
    covered = {}
    for p, e in matcher.matched:
        if isinstance(p, FunctionPattern):
            covered.update((id(x), x) for x in post_order(e))
        elif isinstance(p, (CallPattern, TuplePattern, TupleGetItemPattern, ConstantPattern, IfPattern)):
            covered[id(e)] = e
        elif isinstance(p, DominatorPattern):
            covered.update(_between(p, matcher))
    return list(covered.values())


def _between(p: DominatorPattern, matcher: Matcher) -> dict[int, RelayExpr]:
    """What lies on the ways from the parent of a dominator pattern to its child."""
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
    """Move every match into a function marked with the pattern's text (``PartitionedFromPattern``) and ``attrs``.
    Its parameters are what the leaves of the pattern matched, in the order of the pattern.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
    expr : RelayExpr
        The expression.
    attrs : dict, optional
        Further attributes of the functions.
    check : callable, optional
        Says which matches are moved.

    Returns
    -------
    RelayExpr
        The expression with calls of those functions.
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
        covered = _inside(matcher)
        inside = {id(e) for e in covered} | {id(node)}
        within = {id(e) for e in covered if not isinstance(e, (Constant, Function))} - {id(node)}
        if within & taken or not _ends_in(node, within, inside, users) or not check(node):
            continue
        taken |= within | {id(node)}
        groups[id(node)] = _Match(node, inside, _inputs(pattern, matcher, inside))
    return _extract(expr, groups, attrs or {}) if groups else expr


def _ends_in(root: RelayExpr, within: set[int], inside: set[int], users: dict[int, list[RelayExpr]]) -> bool:
    """Whether all that uses the inside of a match leads to its root. What does so from outside is an input of the
    match, made from a second copy of the inside."""
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
    """A match: its root, the ids of what it covers, and the expressions it takes from outside."""

    root: RelayExpr
    inside: set[int]
    inputs: list[RelayExpr]


def _partitioned(order: list[RelayExpr]) -> set[int]:
    """Ids of what earlier partitions hold."""
    done = [n for n in order if isinstance(n, Function) and "PartitionedFromPattern" in n.attrs]
    return {id(n) for f in done for n in (f, *post_order(f.body))}


def _inputs(pattern: DFPattern, matcher: Matcher, inside: set[int]) -> list[RelayExpr]:
    """What the leaves of a pattern matched, in its order, each once. A constant is an input where the pattern does not
    ask for a constant."""
    found: dict[int, RelayExpr] = {}
    for p in _leaves(pattern):
        asked = isinstance(p, (ConstantPattern, ExprPattern))
        for e in matcher.memo.get(id(p), ()):
            parts = e.args if isinstance(p, CallPattern) else e.fields if isinstance(p, TuplePattern) else (e,)
            found.update((id(x), x) for x in parts if not isinstance(x, (Op, Function)) and id(x) not in inside
                         and not (asked and isinstance(x, Constant)))
    return list(found.values())


def _leaves(pattern: DFPattern) -> list[DFPattern]:
    """Patterns that say nothing of the inside of what they match, operands first and each once."""
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
    """What the inside of a match takes from outside, from left to right."""
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
    """The operators of a partition, operands first: "nn.conv2d_nn.relu_"."""
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
