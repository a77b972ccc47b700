"""Normal forms: let bindings for every expression (A-normal form), only for shared values, or none (graph normal
form)."""

from __future__ import annotations

from typing import Any

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ..adt import Clause, Match
from ..expr import Constant, Function, If, Let, RelayExpr, Var
from ..scopes import ATOMS, Block, Placement
from .function_pass import RelayFunctionPass, function_pass


class _Lets:
    """Rebuilds an expression with let bindings for the expressions that ``wanted`` selects."""

    def __init__(self, root: RelayExpr, wanted):
        self.top = Block(None)
        self.places = Placement(root, self.top)
        self.wanted = wanted
        self.value: dict[int, RelayExpr] = {}
        # A value that is only used by its let binding keeps the variable of the binding.
        self.names = {
            id(e.value): e.var
            for e in self.places.order
            if type(e) is Let and wanted(e, self.places) and id(e.value) in self.places.tail
        }

    def run(self, root: RelayExpr) -> RelayExpr:
        count = 0
        for e in self.places.order:
            if isinstance(e, ATOMS) and type(e) is not Constant:
                self.value[id(e)] = e
                continue
            new = e if type(e) is Constant else self.rebuild(e)
            if type(e) is not Let and self.wanted(e, self.places):
                name = self.names.get(id(e))
                if name is None:
                    name = Var(f"x_{count}")
                    count += 1
                self.places.home[id(e)].lines.append((name, new))
                new = name
            self.value[id(e)] = new
        return self.close(self.top, self.value[id(root)])

    def rebuild(self, e: RelayExpr) -> RelayExpr:
        kind, value, blocks = type(e), self.value, self.places.inner.get(id(e), ())
        if kind is Function:
            body = self.close(blocks[0], value[id(e.body)])
            return e if body is e.body else Function(e.params, body, e.ret_type, e.type_params, e.attrs, e.span)
        if kind is If:
            yes, no = self.close(blocks[0], value[id(e.true_branch)]), self.close(blocks[1], value[id(e.false_branch)])
            same = yes is e.true_branch and no is e.false_branch and value[id(e.cond)] is e.cond
            return e if same else If(value[id(e.cond)], yes, no, e.span)
        if kind is Let:
            return self.let(e, blocks[0])
        if kind is Match:
            clauses = [Clause(c.lhs, self.close(b, value[id(c.rhs)])) for c, b in zip(e.clauses, blocks)]
            return Match(value[id(e.data)], tuple(clauses), e.complete)
        return e.map_children(lambda c: value.get(id(c), c))

    def let(self, e: Let, rest: Block) -> RelayExpr:
        """Rebuild a let. In A-normal form it joins the bindings of its block, else it stays a separate expression."""
        block = self.places.home[id(e)]
        value = self.value[id(e.value)]
        if self.wanted(e, self.places):
            block.lines += rest.lines if value is e.var else [(e.var, value), *rest.lines]
            return self.value[id(e.body)]
        body = self.close(rest, self.value[id(e.body)])
        return e if body is e.body and value is e.value else Let(e.var, value, body, e.span)

    def close(self, block: Block, value: RelayExpr) -> RelayExpr:
        for var, bound in reversed(block.lines):
            value = Let(var, bound, value)
        return value


def _top(e: RelayExpr, wanted) -> RelayExpr:
    if isinstance(e, Function):
        body = _Lets(e.body, wanted).run(e.body)
        return e if body is e.body else Function(e.params, body, e.ret_type, e.type_params, e.attrs, e.span)
    return _Lets(e, wanted).run(e)


def to_a_normal_form(e: RelayExpr) -> RelayExpr:
    """Bind every expression to a variable, including constants."""
    return _top(e, lambda node, places: True)


def to_basic_block_normal_form(e: RelayExpr) -> RelayExpr:
    """Bind each value that several blocks use to a variable, in a block that encloses all of them."""
    return _top(e, lambda node, places: type(node) not in (Let, Constant) and id(node) in places.crossing)


def to_graph_normal_form(root: RelayExpr) -> RelayExpr:
    """Replace let variables by their values. Let bindings of recursive functions are kept."""
    values: dict[Var, RelayExpr] = {}
    for node in Placement(root, Block(None)).order:
        if type(node) is Let and not _mentions(node.value, node.var):
            values[node.var] = node.value

    def stand_in(node: RelayExpr) -> RelayExpr | None:
        """Return the expression that replaces a removed let or variable; None for other nodes."""
        if type(node) is Let and node.var in values:
            return node.body
        return values.get(node) if type(node) is Var else None

    def parts(node: RelayExpr) -> Any:
        found = stand_in(node)
        return node.children() if found is None else [found]

    memo: dict[int, tuple[RelayExpr, Any]] = {}
    for node in post_order(root, operands=parts):
        found = stand_in(node)
        new = node.map_children(lambda c: memo[id(c)][1]) if found is None else memo[id(found)][1]
        memo[id(node)] = (node, new)
    return memo[id(root)][1]


def _mentions(value: RelayExpr, var: Var) -> bool:
    return isinstance(value, Function) and any(n is var for n in post_order(value))


def _make(name: str, convert, opt_level: int = 1) -> RelayFunctionPass:
    @function_pass(opt_level=opt_level, name=name)
    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func if func.attrs.get("Primitive") else convert(func)

    return run


def ToANormalForm() -> RelayFunctionPass:
    """Convert functions to A-normal form: every expression is bound by a let."""
    return _make("ToANormalForm", to_a_normal_form)


def ToANormalFormExpr(e: RelayExpr) -> RelayExpr:
    """Convert an expression to A-normal form.

    Parameters
    ----------
    e : RelayExpr
        The expression to convert.

    Returns
    -------
    RelayExpr
        The expression in A-normal form.
    """
    return to_a_normal_form(e)


def ToBasicBlockNormalForm() -> RelayFunctionPass:
    """Convert functions to basic-block normal form: only values that several blocks share are bound by a let."""
    return _make("ToBasicBlockNormalForm", to_basic_block_normal_form)


def ToGraphNormalForm() -> RelayFunctionPass:
    """Convert functions to graph normal form, without let bindings."""
    return _make("ToGraphNormalForm", to_graph_normal_form)


__all__ = [
    "ToANormalForm",
    "ToANormalFormExpr",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "to_a_normal_form",
    "to_basic_block_normal_form",
    "to_graph_normal_form",
]
