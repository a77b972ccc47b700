"""Match expressions against patterns."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.node import Node
from ...ir.op import Op
from ...ir.structural import structural_equal
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from .patterns import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    _Around,
)


class Matcher:
    """One attempt to match a pattern. It records the expressions that each pattern matched, and backtracks on failure.

    The recursion depth is that of the pattern, not of the graph.
    """

    def __init__(self, root: RelayExpr, users: dict[int, list[RelayExpr]] | None = None):
        self.root = root
        # A pattern object matches a single expression, except in patterns that refer to themselves.
        self.memo: dict[int, list[RelayExpr]] = {}
        self.matched: list[tuple[DFPattern, RelayExpr]] = []
        self._users = users

    def match(self, p: DFPattern, e: RelayExpr) -> bool:
        known = self.memo.get(id(p))
        if known:
            return any(k is e for k in known)
        mark = len(self.matched)
        if self.test(p, e):
            self.memo.setdefault(id(p), []).append(e)
            self.matched.append((p, e))
            return True
        self.forget(mark)
        return False

    def forget(self, mark: int) -> None:
        while len(self.matched) > mark:
            p, _ = self.matched.pop()
            self.memo[id(p)].pop()

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
        mark = len(self.matched)
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
        """Match (a * b) / c against a * (b / c) and the reverse, as Apache TVM does."""
        for wanted in _rotations(p, e):
            mark = len(self.matched)
            if all(self.match(pattern, part) for pattern, part in wanted):
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
        return isinstance(e, TupleGetItem) and p.index in (-1, e.index) and self.match(p.tuple, e.tuple_value)

    def dominator(self, p: DominatorPattern, e) -> bool:
        """Match a dominator pattern:

        ``e`` matches the child, an expression it depends on matches the parent, and all expressions between the two
        match the path.
        """
        if not self.match(p.child, e):
            return False
        for source in self.below(p, e):
            mark = len(self.matched)
            if self.match(p.parent, source) and self.leads(p, source, e) and self.comes_from(p, source, e):
                return True
            self.forget(mark)
        return False

    def below(self, p: DominatorPattern, e: RelayExpr) -> Iterator[RelayExpr]:
        """Yield expressions that match the parent: operands of the child and of expressions that match the path,
        nearest first."""
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
        """Return whether all uses of the source go through the path to the end."""
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

    def comes_from(self, p: DominatorPattern, source: RelayExpr, end: RelayExpr) -> bool:
        """Return whether all expressions on the path from the end lead back to the source, and to no other parent."""
        stack, seen = [end], {id(source)}
        while stack:
            for operand in _operands(stack.pop()):
                if id(operand) in seen:
                    continue
                seen.add(id(operand))
                on_path = Matcher(self.root).match(p.path, operand)
                if not on_path and not Matcher(self.root).match(p.parent, operand):
                    continue
                if isinstance(operand, Call) and not any(node is source for node in post_order(operand)):
                    return False
                if on_path:
                    stack.append(operand)
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


def _is_call(e: RelayExpr, name: str) -> bool:
    return isinstance(e, Call) and isinstance(e.op, Op) and e.op.name == name


def _rotations(p: CallPattern, e: Call) -> Iterator[list[tuple[DFPattern, RelayExpr]]]:
    """Yield alternative pairs of patterns and expressions for a quotient of a product, or a product with a quotient."""
    outer = _pattern_name(p.op)
    if outer not in ("multiply", "divide") or not p.args or len(p.args) != 2:
        return
    for side, q in enumerate(p.args):
        if not isinstance(q, CallPattern) or not q.args or len(q.args) != 2:
            continue
        pair = outer, _pattern_name(q.op)
        if pair == ("divide", "multiply") and side == 0 and _is_call(e, "multiply"):
            # Match the pattern (x * y) / z against x * (y / z).
            for x, y in (q.args, q.args[::-1]):
                quotients = [(a, b) for a, b in (e.args, e.args[::-1]) if _is_call(b, "divide")]
                yield from ([(x, a), (y, b.args[0]), (p.args[1], b.args[1])] for a, b in quotients)
        if pair == ("multiply", "divide") and _is_call(e, "divide") and _is_call(e.args[0], "multiply"):
            # Match the pattern x * (y / z) against (x * y) / z.
            for a, b in (e.args[0].args, e.args[0].args[::-1]):
                yield [(p.args[1 - side], a), (q.args[0], b), (q.args[1], e.args[1])]


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
    """Return whether the expression matches the pattern.

    Parameters
    ----------
    pattern : DFPattern
        The pattern.
    expr : RelayExpr
        The expression.

    Returns
    -------
    bool
        True if the expression matches.
    """
    return Matcher(expr).match(pattern, expr)
