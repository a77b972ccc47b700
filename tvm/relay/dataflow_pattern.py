"""Patterns of graphs: match, rewrite, partition.

    is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))

A pattern matches an expression when its own test holds and its parts match the parts of the expression; one pattern
object stands for one expression, so using it twice demands the same expression twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..error import TVMError
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim import IntImm, PrimExpr
from ..ir.structural import structural_equal
from ..ir.tensor_type import TensorType
from ..ir.type import Type
from ..ir.visit import post_order
from ..ir.visit import rewrite as rewrite_nodes
from .expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from .infer import infer_type
from .substitute import free_vars


class DFPattern:
    """Base of patterns. Operators of Python on patterns make patterns of the relay operators."""

    def __call__(self, *args) -> CallPattern:
        return CallPattern(self, list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args))

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other):
        return is_op("add")(self, other)

    def __sub__(self, other):
        return is_op("subtract")(self, other)

    def __mul__(self, other):
        return is_op("multiply")(self, other)

    def __truediv__(self, other):
        return is_op("divide")(self, other)

    def has_attr(self, attrs: dict[str, Any]) -> AttrPattern:
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        return DataTypePattern(self, dtype)

    def has_shape(self, shape) -> ShapePattern:
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """This pattern, or what ``option_constructor`` puts around it."""
        return AltPattern(option_constructor(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This pattern as the end of all ways that lead from ``parent`` through ``path``."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def match(self, expr: RelayExpr) -> bool:
        """Whether the expression matches."""
        return match(self, expr)

    def rewrite(self, callback: DFPatternCallback, expr: RelayExpr) -> RelayExpr:
        """The expression with what matches replaced by ``callback``."""
        return rewrite(callback, expr)

    def partition(
        self, expr: RelayExpr, attrs: dict | None = None, check: Callable[[RelayExpr], bool] = lambda x: True
    ):
        """The expression with what matches moved into functions."""
        return partition(self, expr, attrs, check)

    def parts(self) -> list[DFPattern]:
        """Patterns inside this one."""
        return []


class WildcardPattern(DFPattern):
    """Matches everything."""

    def redirect_to(self, pat: DFPattern) -> None:
        """Let this pattern stand for another: for patterns that refer to themselves."""
        self.target = pat

    target: DFPattern | None = None


class ExprPattern(DFPattern):
    """Matches expressions equal to one given."""

    def __init__(self, expr: RelayExpr):
        self.expr = expr


class ConstantPattern(DFPattern):
    """Matches constants."""


class VarPattern(DFPattern):
    """Matches variables, of one name if given."""

    def __init__(self, name_hint: str = ""):
        self.name = name_hint


class CallPattern(DFPattern):
    def __init__(self, op: DFPattern, args: list[DFPattern] | None):
        self.op, self.args = op, args

    def parts(self):
        return [self.op, *(self.args or [])]


class FunctionPattern(DFPattern):
    def __init__(self, params: list[DFPattern] | None, body: DFPattern):
        self.params, self.body = params, body

    def parts(self):
        return [*(self.params or []), self.body]


class IfPattern(DFPattern):
    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern):
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch

    def parts(self):
        return [self.cond, self.true_branch, self.false_branch]


class LetPattern(DFPattern):
    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern):
        self.var, self.value, self.body = var, value, body

    def parts(self):
        return [self.var, self.value, self.body]


class TuplePattern(DFPattern):
    def __init__(self, fields: list[DFPattern] | None):
        self.fields = fields

    def parts(self):
        return list(self.fields or [])


class TupleGetItemPattern(DFPattern):
    def __init__(self, tuple_value: DFPattern, index: int | None = None):
        self.tuple_value, self.index = tuple_value, -1 if index is None else index

    def parts(self):
        return [self.tuple_value]


class AltPattern(DFPattern):
    """Matches what either side matches; the left one is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern):
        self.left, self.right = left, right

    def parts(self):
        return [self.left, self.right]


class _Around(DFPattern):
    """A pattern with a further test."""

    def __init__(self, pattern: DFPattern):
        self.pattern = pattern

    def parts(self):
        return [self.pattern]

    def holds(self, e: RelayExpr) -> bool:
        raise NotImplementedError(type(self).__name__)


class AttrPattern(_Around):
    """Matches calls, operators and functions with these attributes."""

    def __init__(self, pattern: DFPattern, attrs: dict[str, Any]):
        super().__init__(pattern)
        self.attrs = dict(attrs)

    def holds(self, e: RelayExpr) -> bool:
        if isinstance(e, Op):
            return all(e.attrs.get(k) == v for k, v in self.attrs.items())
        have = getattr(e, "attrs", None)
        return have is not None and all(k in have and _plain(have[k]) == _plain(v) for k, v in self.attrs.items())


class TypePattern(_Around):
    def __init__(self, pattern: DFPattern, ttype: Type):
        super().__init__(pattern)
        self.type = ttype

    def holds(self, e: RelayExpr) -> bool:
        return structural_equal(_type(e), self.type)


class DataTypePattern(_Around):
    def __init__(self, pattern: DFPattern, dtype: str):
        super().__init__(pattern)
        self.dtype = str(dtype)

    def holds(self, e: RelayExpr) -> bool:
        t = _type(e)
        return isinstance(t, TensorType) and t.dtype == self.dtype


class ShapePattern(_Around):
    def __init__(self, pattern: DFPattern, shape):
        super().__init__(pattern)
        self.shape = tuple(shape)

    def holds(self, e: RelayExpr) -> bool:
        t = _type(e)
        return (
            isinstance(t, TensorType)
            and len(t.shape) == len(self.shape)
            and all(_plain(a) == _plain(b) for a, b in zip(t.shape, self.shape))
        )


class DominatorPattern(DFPattern):
    """``child`` uses what ``parent`` produces, and every use of the parent leads through ``path`` to the child."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern):
        self.parent, self.path, self.child = parent, path, child

    def parts(self):
        return [self.parent, self.path, self.child]


def _plain(value: Any) -> Any:
    if isinstance(value, IntImm) or hasattr(value, "value") and isinstance(value, PrimExpr):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    return value


def _type(e: RelayExpr) -> Type | None:
    if getattr(e, "checked_type_", None) is None and not isinstance(e, Op):
        try:
            infer_type(e)
        except TVMError:
            return None
    return getattr(e, "checked_type_", None)


# -- matching --------------------------------------------------------------------------------------------------------


class Matcher:
    """One attempt: remembers which pattern matched which expression, and takes it back when an attempt fails.

    Depth of calls follows the pattern, not the graph.
    """

    def __init__(self, root: RelayExpr):
        self.root = root
        self.memo: dict[int, RelayExpr] = {}
        self.order: list[int] = []
        self.patterns: dict[int, DFPattern] = {}
        self._users: dict[int, list[RelayExpr]] | None = None

    def match(self, p: DFPattern, e: RelayExpr) -> bool:
        known = self.memo.get(id(p))
        if known is not None:
            return known is e
        mark = len(self.order)
        if self.test(p, e):
            self.memo[id(p)] = e
            self.patterns[id(p)] = p
            self.order.append(id(p))
            return True
        self.forget(mark)
        return False

    def forget(self, mark: int) -> None:
        while len(self.order) > mark:
            key = self.order.pop()
            self.memo.pop(key, None)
            self.patterns.pop(key, None)

    def all(self, patterns, expressions) -> bool:
        return len(patterns) == len(expressions) and all(self.match(p, e) for p, e in zip(patterns, expressions))

    def test(self, p: DFPattern, e: RelayExpr) -> bool:
        return _TESTS[type(p)](self, p, e)

    def wildcard(self, p: WildcardPattern, e) -> bool:
        return True if p.target is None else self.match(p.target, e)

    def expr(self, p: ExprPattern, e) -> bool:
        return p.expr is e or isinstance(e, Node) and type(p.expr) is type(e) and structural_equal(p.expr, e)

    def var(self, p: VarPattern, e) -> bool:
        return isinstance(e, Var) and (not p.name or p.name == e.name_hint)

    def alt(self, p: AltPattern, e) -> bool:
        return self.match(p.left, e) or self.match(p.right, e)

    def around(self, p: _Around, e) -> bool:
        return self.match(p.pattern, e) and p.holds(e)

    def attr(self, p: AttrPattern, e) -> bool:
        return self.match(p.pattern, e) and (
            p.holds(e)
            or isinstance(e, Call)
            and isinstance(e.op, Op)
            and set(p.attrs) <= set(e.op.attrs)
            and p.holds(e.op)
        )

    def call(self, p: CallPattern, e) -> bool:
        if not isinstance(e, Call):
            return False
        if self.operands(p, e):
            return True
        return self.rotated(p, e)

    def operands(self, p: CallPattern, e: Call) -> bool:
        mark = len(self.order)
        if self.match(p.op, e.op) and (p.args is None or self.all(p.args, e.args)):
            return True
        self.forget(mark)
        name = _pattern_name(p.op)
        if (
            name in ("add", "multiply")
            and p.args is not None
            and len(p.args) == 2
            and self.match(p.op, e.op)
            and self.all(p.args[::-1], e.args)
        ):
            return True
        self.forget(mark)
        return False

    def rotated(self, p: CallPattern, e: Call) -> bool:
        """(a * b) / c also matches a * (b / c) and the reverse, as in TVM."""
        outer, inner = _pattern_name(p.op), None
        if outer not in ("multiply", "divide") or not p.args or len(p.args) != 2 or not isinstance(e.op, Op):
            return False
        for side, q in enumerate(p.args):
            if not isinstance(q, CallPattern) or not q.args or len(q.args) != 2:
                continue
            inner = _pattern_name(q.op)
            if outer == "divide" and inner == "multiply" and side == 0 and e.op.name == "multiply":
                # pattern (x * y) / z against x * (y / z)
                for x, y in (q.args, q.args[::-1]):
                    for a, b in (e.args, e.args[::-1]):
                        mark = len(self.order)
                        if (
                            isinstance(b, Call)
                            and isinstance(b.op, Op)
                            and b.op.name == "divide"
                            and self.match(x, a)
                            and self.match(y, b.args[0])
                            and self.match(p.args[1], b.args[1])
                        ):
                            return True
                        self.forget(mark)
            if outer == "multiply" and inner == "divide" and e.op.name == "divide":
                # pattern x * (y / z) against (x * y) / z
                top, x = e.args[0], p.args[1 - side]
                if isinstance(top, Call) and isinstance(top.op, Op) and top.op.name == "multiply":
                    for a, b in (top.args, top.args[::-1]):
                        mark = len(self.order)
                        if self.match(x, a) and self.match(q.args[0], b) and self.match(q.args[1], e.args[1]):
                            return True
                        self.forget(mark)
        return False

    def function(self, p: FunctionPattern, e) -> bool:
        return (
            isinstance(e, Function)
            and (p.params is None or self.all(p.params, e.params))
            and self.match(p.body, e.body)
        )

    def if_(self, p: IfPattern, e) -> bool:
        return isinstance(e, If) and self.all(p.parts(), (e.cond, e.true_branch, e.false_branch))

    def let(self, p: LetPattern, e) -> bool:
        return isinstance(e, Let) and self.all(p.parts(), (e.var, e.value, e.body))

    def tuple(self, p: TuplePattern, e) -> bool:
        return isinstance(e, Tuple) and (p.fields is None or self.all(p.fields, e.fields))

    def get_item(self, p: TupleGetItemPattern, e) -> bool:
        return isinstance(e, TupleGetItem) and p.index in (-1, e.index) and self.match(p.tuple_value, e.tuple_value)

    def dominator(self, p: DominatorPattern, e) -> bool:
        """The child is ``e``; below it some expression matches the parent, and what lies between matches the path."""
        if not self.match(p.child, e):
            return False
        for source in self.below(p, e):
            mark = len(self.order)
            if self.match(p.parent, source) and self.leads(p, source, e):
                return True
            self.forget(mark)
        return False

    def below(self, p: DominatorPattern, e: RelayExpr) -> Iterator[RelayExpr]:
        """Operands of the child, and of what matches the path below it, nearest first."""
        seen, queue = {id(e)}, [e]
        while queue:
            node = queue.pop(0)
            for operand in _operands(node):
                if id(operand) in seen:
                    continue
                seen.add(id(operand))
                if Matcher(self.root).match(p.parent, operand):
                    yield operand
                if Matcher(self.root).match(p.path, operand):
                    queue.append(operand)

    def leads(self, p: DominatorPattern, source: RelayExpr, end: RelayExpr) -> bool:
        """Whether all uses of the source go through the path to the end."""
        stack, seen = [source], set()
        while stack:
            users = self.users().get(id(stack.pop()), [])
            if not users:
                return False
            for user in users:
                if user is end or id(user) in seen:
                    continue
                if not Matcher(self.root).match(p.path, user):
                    return False
                seen.add(id(user))
                stack.append(user)
        return True

    def users(self) -> dict[int, list[RelayExpr]]:
        if self._users is None:
            self._users = {}
            for node in post_order(self.root):
                for child in node.children():
                    self._users.setdefault(id(child), []).append(node)
        return self._users


def _operands(e: RelayExpr) -> list:
    return list(e.args) if isinstance(e, Call) else [] if isinstance(e, (Op, Function)) else e.children()


def _pattern_name(p: DFPattern) -> str:
    return p.expr.name if isinstance(p, ExprPattern) and isinstance(p.expr, Op) else ""


_TESTS = {
    WildcardPattern: Matcher.wildcard,
    ExprPattern: Matcher.expr,
    ConstantPattern: lambda self, p, e: isinstance(e, Constant),
    VarPattern: Matcher.var,
    CallPattern: Matcher.call,
    FunctionPattern: Matcher.function,
    IfPattern: Matcher.if_,
    LetPattern: Matcher.let,
    TuplePattern: Matcher.tuple,
    TupleGetItemPattern: Matcher.get_item,
    AltPattern: Matcher.alt,
    AttrPattern: Matcher.attr,
    TypePattern: Matcher.around,
    DataTypePattern: Matcher.around,
    ShapePattern: Matcher.around,
    DominatorPattern: Matcher.dominator,
}


def match(pattern: DFPattern, expr: RelayExpr) -> bool:
    """Whether the expression matches the pattern."""
    return Matcher(expr).match(pattern, expr)


# -- rewriting -------------------------------------------------------------------------------------------------------


class DFPatternCallback:
    """What to do with a match: set ``pattern`` and define ``callback(pre, post, node_map)``.

    ``pre`` is the expression before, ``post`` with its operands already rewritten, ``node_map`` says for each pattern
    object which expressions it matched.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False):
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: RelayExpr) -> RelayExpr:
        return rewrite(self, expr)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        raise NotImplementedError(f"{type(self).__name__} must define callback(pre, post, node_map)")


class NodeMap(dict):
    """Pattern -> list of the expressions it matched."""


def _node_map(matcher: Matcher) -> NodeMap:
    return NodeMap({matcher.patterns[key]: [e] for key, e in matcher.memo.items()})


def rewrite(callbacks: DFPatternCallback | list[DFPatternCallback], expr: RelayExpr, mod: Any = None) -> RelayExpr:
    """Apply callbacks to everything that matches, operands first, until nothing changes."""
    for callback in [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks):
        if callback.pattern is None:
            raise ValueError(f"{type(callback).__name__} has no pattern; set self.pattern")
        # A rule that matches its own result makes the graph grow in every round.
        largest = 20 * sum(1 for _ in post_order(expr)) + 1000
        while True:
            if callback.require_type:
                expr = infer_type(expr, mod)
            new = _rewrite_once(callback, expr)
            done = new is expr or callback.rewrite_once or structural_equal(new, expr, True)
            expr = new
            if done:
                break
            if sum(1 for _ in post_order(expr)) > largest:
                raise TVMError(f"rewriting with {type(callback).__name__} does not come to an end")
    return expr


def _rewrite_once(callback: DFPatternCallback, root: RelayExpr) -> RelayExpr:
    shared = Matcher(root)
    done = False

    def attempt(node):
        nonlocal done
        if done or not isinstance(node, RelayExpr) or isinstance(node, Op):
            return None
        matcher = Matcher(root)
        matcher._users = shared._users
        ok = matcher.match(callback.pattern, node)
        shared._users = matcher._users
        if not ok:
            return None
        done = callback.rewrite_once
        return matcher

    matches = {}
    for node in post_order(root):
        found = attempt(node)
        if found is not None:
            matches[id(node)] = (node, found)
    if not matches:
        return root
    memo: dict[int, tuple[Node, Node]] = {}

    def renewed(e):
        got = memo.get(id(e))
        return e if got is None else got[1]

    return _rebuild(root, callback, matches, memo, renewed)


def _rebuild(root, callback: DFPatternCallback, matches, memo, renewed) -> RelayExpr:
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in memo:
            continue
        if not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in node.children() if id(c) not in memo)
            continue
        post = node.map_children(renewed)
        _keep_type(node, post)
        if id(node) in matches:
            _, matcher = matches[id(node)]
            found = NodeMap(
                {p: [post if e is node else renewed(e) for e in es] for p, es in _node_map(matcher).items()}
            )
            got = callback.callback(node, post, found)
            post = post if got is None else got
        memo[id(node)] = (node, post)
    return memo[id(root)][1]


def _keep_type(old: RelayExpr, new: RelayExpr) -> None:
    """A rebuilt node has the type of the old one; it gets it only above operands with types, as inference expects."""
    if new is not old and isinstance(new, RelayExpr) and getattr(new, "checked_type_", 1) is None:
        if all(getattr(c, "checked_type_", 1) is not None for c in new.children()):
            new.checked_type_ = old.checked_type_


# -- partitioning ----------------------------------------------------------------------------------------------------


def _inside(pattern: DFPattern, matcher: Matcher) -> list[RelayExpr]:
    """Expressions a match covers: what its patterns matched, except where the pattern says nothing of the inside."""
    covered = {}
    for key, e in matcher.memo.items():
        p = matcher.patterns[key]
        if isinstance(p, (CallPattern, TuplePattern, TupleGetItemPattern, ConstantPattern, IfPattern, FunctionPattern)):
            covered[id(e)] = e
        elif isinstance(p, DominatorPattern):
            covered.update(_between(p, matcher))
    return list(covered.values())


def _between(p: DominatorPattern, matcher: Matcher) -> dict[int, RelayExpr]:
    """What lies on the ways from the parent of a dominator pattern to its child."""
    source, end = matcher.memo[id(p.parent)], matcher.memo[id(p.child)]
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
    """Move every match into a function marked with the pattern's text (``PartitionedFromPattern``) and ``attrs``."""
    # Parameters of the new functions take the types of what they stand for, where these can be told.
    _type(expr)
    users: dict[int, list[RelayExpr]] = {}
    order = list(post_order(expr))
    for node in order:
        for c in node.children():
            users.setdefault(id(c), []).append(node)
    taken: set[int] = set()
    groups: dict[int, tuple[RelayExpr, set[int]]] = {}
    for node in reversed(order):
        if id(node) in taken or not isinstance(node, RelayExpr) or isinstance(node, Op):
            continue
        matcher = Matcher(expr)
        matcher._users = users
        if not matcher.match(pattern, node):
            continue
        inside = {id(e) for e in _inside(pattern, matcher)} | {id(node)}
        constants = {id(n) for n in order if isinstance(n, Constant)}
        leaks = any(u not in inside for i in inside - {id(node)} - constants for u in map(id, users.get(i, [])))
        if inside & taken - constants or leaks or not check(node):
            continue
        taken |= inside
        groups[id(node)] = (node, inside)
    return _extract(expr, groups, attrs or {}) if groups else expr


def _extract(expr: RelayExpr, groups: dict[int, tuple[RelayExpr, set[int]]], attrs: dict) -> RelayExpr:
    memo: dict[int, tuple[Node, Node]] = {}

    def post_builder(node: RelayExpr, inside: set[int]) -> RelayExpr:
        params: dict[int, tuple[Var, RelayExpr]] = {}

        def enter(e):
            if id(e) in inside or isinstance(e, Op):
                return None
            if isinstance(e, Constant):
                return e
            if id(e) not in params:
                params[id(e)] = (Var(f"FunctionVar_{len(params)}", getattr(e, "checked_type_", None)), e)
            return params[id(e)][0]

        body = rewrite_nodes(node, None, enter)
        facts = {"PartitionedFromPattern": _described(node, inside), **attrs}
        made = Function([v for v, _ in params.values()], body, None, (), facts)
        return Call(made, tuple(memo[id(e)][1] for _, e in params.values()))

    stack: list[tuple[Any, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in memo:
            continue
        group = groups.get(id(node))
        needs = node.children() if group is None else _outside_of(node, group[1])
        if not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in needs if id(c) not in memo)
            continue
        new = post_builder(*group) if group is not None else node.map_children(lambda c: memo[id(c)][1])
        _keep_type(node, new)
        memo[id(node)] = (node, new)
    return memo[id(expr)][1]


def _outside_of(node: RelayExpr, inside: set[int]) -> list[RelayExpr]:
    found, stack, seen = [], [node], set()
    while stack:
        for child in stack.pop().children():
            if id(child) in seen or isinstance(child, Op):
                continue
            seen.add(id(child))
            stack.append(child) if id(child) in inside else found.append(child)
    return found


def _described(node: RelayExpr, inside: set[int]) -> str:
    """The operators of a partition, operands first: "nn.conv2d_nn.relu_"."""
    names = []
    for e in post_order(node):
        if id(e) in inside:
            if isinstance(e, Call) and isinstance(e.op, Op):
                names.append(e.op.name)
            elif isinstance(e, TupleGetItem):
                names.append(f"TupleGetItem{e.index}")
            elif isinstance(e, Tuple):
                names.append("Tuple")
    return "".join(n + "_" for n in names)


# -- making patterns -------------------------------------------------------------------------------------------------


def wildcard() -> WildcardPattern:
    """Matches everything."""
    return WildcardPattern()


def is_op(op_name: str) -> ExprPattern:
    """Matches an operator; call it with patterns of the inputs."""
    return ExprPattern(Op.get(op_name))


def is_expr(expr: RelayExpr) -> ExprPattern:
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    return ConstantPattern()


def is_tuple(fields=None) -> TuplePattern:
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond, true_branch, false_branch) -> IfPattern:
    return IfPattern(cond, true_branch, false_branch)


def is_let(var, value, body) -> LetPattern:
    return LetPattern(var, value, body)


def has_type(ttype, pattern: DFPattern | None = None) -> TypePattern:
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape, pattern: DFPattern | None = None) -> ShapePattern:
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: dict, pattern: DFPattern | None = None) -> AttrPattern:
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    return DominatorPattern(parent, path, child)


__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DFPatternCallback",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "free_vars",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "match",
    "partition",
    "rewrite",
    "wildcard",
]
