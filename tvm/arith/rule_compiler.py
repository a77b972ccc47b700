"""The compiler of the rules in ``rules.py``: converts them to closures, looked up by the classes of a node and its
operands.

A rule is text: a pattern, its replacement and optionally a condition, in Python syntax. ``//`` and ``%`` are floor
division and remainder; ``truncdiv``, ``truncmod``, ``min``, ``max``, ``select``, ``ramp`` and ``broadcast`` are written
as calls. A name like ``c1`` matches an integer literal and represents its value, ``lanes`` a number of lanes; any other
name matches any expression. A part of a replacement that consists of literals is computed. In a condition ``lo(x)`` and
``hi(x)`` are constant bounds, and the queries listed in ``_QUERIES`` may be called.

Patterns with commutative operators match all orders of the operands unless the rule sets ``swap=False``.
"""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

import ast
import re
from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

from ..dtype import element
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
)


class LiteralOverflow(Exception):
    """A literal computed by a replacement does not fit its type, so the rule must not be applied."""


_OPERATORS: dict[type[ast.AST], type[Any]] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.FloorDiv: FloorDiv,
    ast.Mod: FloorMod,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.And: And,
    ast.Or: Or,
}
_SYMBOLS: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_FUNCTIONS = {
    "truncdiv": Div,
    "truncmod": Mod,
    "min": Min,
    "max": Max,
    "select": Select,
    "ramp": Ramp,
    "broadcast": Broadcast,
}
_FIELDS = {
    Select: ("condition", "true_value", "false_value"),
    Ramp: ("base", "stride", "lanes"),
    Broadcast: ("value", "lanes"),
    Not: ("a",),
}
_OPERANDS = ("a", "b")
_LOGICAL = frozenset({And, Or})
_COMMUTES = frozenset({Add, Mul, Min, Max, EQ, NE, And, Or})
# Queries in rules: methods of the analyzer. Those in the first set return integers and may occur in a replacement.
_NUMBERS = frozenset({"lo", "hi", "congruent"})
_QUERIES = _NUMBERS | {
    "below",
    "decided",
    "finite",
    "has_product",
    "implied",
    "in_chain",
    "in_conjunction",
    "in_disjunction",
    "is_congruent",
    "is_const",
    "is_extreme",
    "is_multiple",
    "never_above",
    "one_bucket",
    "product_below_sum",
    "same_difference",
}
_PYTHON = frozenset({"lanes", "min", "max", "abs", "gcd"})


class Pattern(NamedTuple):
    """A parsed pattern: ``head`` is a node class, "any", "const", "lanes" or an int."""

    head: Any
    name: str
    args: tuple[Any, ...]


def _is_const_name(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()


def _called(call: ast.Call) -> str:
    """Return the name of the function that a call in a rule uses."""
    if not isinstance(call.func, ast.Name):
        raise _unknown(call)
    return call.func.id


def _unknown(node: ast.AST) -> ValueError:
    return ValueError(f"a rule cannot contain {ast.unparse(node)}")


def _parse(node: ast.AST) -> Pattern:
    if isinstance(node, ast.Expression):
        return _parse(node.body)
    if isinstance(node, ast.Name):
        if node.id == "lanes":
            return Pattern("lanes", node.id, ())
        return Pattern("const" if _is_const_name(node.id) else "any", node.id, ())
    if isinstance(node, ast.Constant):
        return Pattern(node.value, "", ())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return Pattern(-ast.literal_eval(node.operand), "", ())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Pattern(Not, "", (_parse(node.operand),))
    if isinstance(node, ast.BinOp):
        return Pattern(_OPERATORS[type(node.op)], "", (_parse(node.left), _parse(node.right)))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return Pattern(_OPERATORS[type(node.ops[0])], "", (_parse(node.left), _parse(node.comparators[0])))
    if isinstance(node, ast.BoolOp):
        parts = [_parse(v) for v in node.values]
        got = parts[0]
        for p in parts[1:]:
            got = Pattern(_OPERATORS[type(node.op)], "", (got, p))
        return got
    if isinstance(node, ast.Call):
        return Pattern(_FUNCTIONS[_called(node)], "", tuple(_parse(a) for a in node.args))
    raise _unknown(node)


def _mirrors(p: Pattern) -> list[Pattern]:
    """Return all patterns that equal this one except for the order of commutative operands."""
    if not p.args:
        return [p]
    combos: list[tuple[Any, ...]] = [()]
    for arg in p.args:
        combos = [c + (m,) for c in combos for m in _mirrors(arg)]
    out = [Pattern(p.head, p.name, c) for c in combos]
    # A literal is always the right operand of a normalized node, except in min and max nodes, which keep their order.
    if p.head in _COMMUTES and not any(a.head == "const" or isinstance(a.head, int) for a in p.args):
        out += [Pattern(p.head, p.name, (b, a)) for _, _, (a, b) in list(out)]
    return out


class _Writer:
    """A generator of the Python source of one rule."""

    def __init__(self):
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def match(self, p: Pattern, where: str, sure: bool = False) -> None:
        """Append a check that the expression ``where`` matches; ``sure`` means that its class is already known."""
        if p.head == "any":
            if p.name in self.names:
                self.lines.append(f"if {where} is not {self.names[p.name]}: return None")
            else:
                self.names[p.name] = where
        elif p.head == "lanes":
            if p.name in self.names:
                self.lines.append(f"if {where} != {self.names[p.name]}: return None")
            else:
                self.names[p.name] = where
        elif p.head == "const" or isinstance(p.head, int):
            if not sure:
                self.lines.append(f"if {where}.__class__ is not IntImm: return None")
            if p.head != "const":
                self.lines.append(f"if {where}.value != {p.head}: return None")
            elif p.name in self.names:
                self.lines.append(f"if {where}.value != {self.names[p.name]}: return None")
            else:
                self.names[p.name] = p.name
                self.lines.append(f"{p.name} = {where}.value")
        else:
            if not sure:
                self.lines.append(f"if {where}.__class__ is not {p.head.__name__}: return None")
            parts: list[tuple[Pattern, str]] = []
            for field, arg in zip(_FIELDS.get(p.head, _OPERANDS), p.args):
                name = self.fresh()
                self.lines.append(f"{name} = {where}.{field}")
                parts.append((arg, name))
            for arg, name in parts:
                self.match(arg, name)

    def number(self, node: Any) -> str | None:
        """Return the Python source of a part whose value is known when the rule is applied, else None."""
        if isinstance(node, ast.Name):
            if node.id == "lanes":
                return self.names["lanes"]
            return node.id if _is_const_name(node.id) or node.id in _PYTHON else None
        if isinstance(node, ast.Constant):
            return repr(node.value)
        if isinstance(node, ast.Call):
            if _called(node) in _NUMBERS:
                return self.query(node)
            args = [text for text in map(self.number, node.args) if text is not None]
            if _called(node) not in _PYTHON or len(args) != len(node.args):
                return None
            return f"{_called(node)}({', '.join(args)})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            got = self.number(node.operand)
            return None if got is None else f"(-{got})"
        if isinstance(node, ast.BinOp):
            left, right = self.number(node.left), self.number(node.right)
            if left is None or right is None:
                return None
            return f"({left} {_SYMBOLS[type(node.op)]} {right})"
        return None

    def query(self, call: ast.Call) -> str:
        """Return the Python source of a query to the analyzer."""
        args: list[str] = []
        for a in call.args:
            number = self.number(a)
            args.append(number if number is not None else self.build(a, "d"))
        name = _called(call)
        if name in ("lo", "hi"):
            return f"an.bound({args[0]})[{0 if name == 'lo' else 1}]"
        return f"an.{name}({', '.join(args)})"

    def build(self, node: ast.AST, dtype: str) -> str:
        """Return the Python source that builds the expression."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return f"literal({int(node.value)}, 'bool')"
        number = self.number(node)
        if number is not None:
            return f"literal({number}, {dtype})"
        if isinstance(node, ast.Name):
            return self.names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"an.make_not({self.build(node.operand, dtype)})"
        if isinstance(node, ast.UnaryOp):
            return f"make(Sub, literal(0, {dtype}), {self.build(node.operand, dtype)})"
        if isinstance(node, ast.BinOp):
            args = f"{self.build(node.left, dtype)}, {self.build(node.right, dtype)}"
            return f"make({_OPERATORS[type(node.op)].__name__}, {args})"
        if isinstance(node, ast.Compare):
            args = f"{self.build(node.left, dtype)}, {self.build(node.comparators[0], dtype)}"
            return f"make({_OPERATORS[type(node.ops[0])].__name__}, {args})"
        if isinstance(node, ast.BoolOp):
            got = self.build(node.values[0], dtype)
            for v in node.values[1:]:
                got = f"make({_OPERATORS[type(node.op)].__name__}, {got}, {self.build(v, dtype)})"
            return got
        if not isinstance(node, ast.Call):
            raise _unknown(node)
        cls = _FUNCTIONS[_called(node)]
        args = [
            self.names["lanes"] if isinstance(a, ast.Name) and a.id == "lanes" else self.build(a, dtype)
            for a in node.args
        ]
        if cls in _FIELDS:
            return f"an.make_{_called(node)}({', '.join(args)})"
        return f"make({cls.__name__}, {', '.join(args)})"

    def condition(self, node: ast.AST) -> str:
        """Return the Python source of a condition, with its queries as calls of the analyzer."""
        writer = self

        class Rewrite(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call):
                if _called(node) not in _QUERIES:
                    return self.generic_visit(node)
                return ast.parse(writer.query(node), mode="eval").body

        return ast.unparse(Rewrite().visit(node))


def _class_of(p: Pattern) -> type | None:
    if p.head == "const" or isinstance(p.head, int):
        return IntImm
    return None if p.head in ("any", "lanes") else p.head


def _source(name: str, p: Pattern, replacement: str, condition: str | None) -> str:
    w = _Writer()
    for arg, where in zip(p.args, ("a", "b", "c")):
        if arg.head not in ("any", "lanes", "const") and not isinstance(arg.head, int):
            continue
        w.match(arg, where, sure=True)
    for arg, where in zip(p.args, ("a", "b", "c")):
        if arg.head not in ("any", "lanes", "const") and not isinstance(arg.head, int):
            w.match(arg, where, sure=True)
    tree = ast.parse(replacement, mode="eval").body
    test = None if condition is None else ast.parse(condition, mode="eval").body
    body = list(w.lines)
    if test is not None:
        body.append(f"if not ({w.condition(test)}): return None")
    result = w.build(tree, "d")
    body.append(f"return {result}")
    if any("literal(" in line and ", d)" in line for line in body):
        # The operands of a logical node are conditions; the type of its literals is that of the compared values.
        source = w.names["x"] if p.head in _LOGICAL else "a"
        body.insert(len(w.lines), f"d = element({source}.dtype)" if "lanes" in w.names else f"d = {source}.dtype")
    text = "\n    ".join(body)
    return f"def {name}(an, a, b, make, literal):\n    {text}\n"


def _renamed(p: Pattern, replacement: str, condition: str) -> tuple[Any, ...]:
    """Return a key that is equal for two rules that differ only in the names of their variables."""
    order: dict[str, str] = {}

    def shape(q: Pattern) -> Any:
        name = q.name and order.setdefault(q.name, f"v{len(order)}")
        return (q.head, name, tuple([shape(a) for a in q.args]))

    def rename(match: re.Match[str]) -> str:
        return order.get(match[0], match[0])

    return shape(p), _NAME.sub(rename, replacement), _NAME.sub(rename, condition)


_NAME = re.compile(r"[A-Za-z_]\w*")
_CLASSES: dict[str, Any] = {c.__name__: c for c in (*_OPERATORS.values(), *_FUNCTIONS.values(), Not, IntImm)}
_SCOPE = _CLASSES | {"element": element, "gcd": gcd}

# A rule is compiled when it first matches, or after this many attempts.
_PATIENCE = 40


def _fits(p: Pattern, e: Any) -> bool:
    """Return whether the classes and literals of a pattern match an expression; names are not compared."""
    head = p.head
    if head == "any" or head == "lanes":
        return True
    if head == "const":
        return e.__class__ is IntImm
    if isinstance(head, int):
        return e.__class__ is IntImm and e.value == head
    if e.__class__ is not head:
        return False
    for field, arg in zip(_FIELDS.get(head, _OPERANDS), p.args):
        if not _fits(arg, getattr(e, field)):
            return False
    return True


class Rule:
    """One rule with one order of its commutative operands. ``left`` and ``right`` are the required classes of the
    operands.

    ``apply`` initially interprets the pattern; the closure is compiled when the pattern first matches, because most
    rules never match in one run.
    """

    __slots__ = ("apply", "condition", "left", "looked", "pattern", "ready", "replacement", "right", "text")

    def __init__(
        self, text: str, pattern: Pattern, replacement: str, condition: str | None, ready: Callable[[Rule], None]
    ):
        self.text, self.pattern, self.replacement, self.condition = text, pattern, replacement, condition
        self.left, self.right = _class_of(pattern.args[0]), _class_of(pattern.args[1])
        self.looked = 0
        self.ready = ready
        self.apply: Callable[[Any, Any, Any, Any, Any], Any] = self._first

    def _first(self, an: Any, a: Any, b: Any, make: Any, literal: Any) -> Any:
        self.looked += 1
        x, y = self.pattern.args
        if self.looked < _PATIENCE and not (_fits(x, a) and _fits(y, b)):
            return None
        scope = dict(_SCOPE)
        exec(compile(_source("rule", self.pattern, self.replacement, self.condition), self.text, "exec"), scope)
        self.apply = scope["rule"]
        self.ready(self)
        return self.apply(an, a, b, make, literal)


def make_rules(rows: list[tuple[Any, ...]], ready: Callable[[Rule], None] = lambda rule: None) -> list[Rule]:
    """Return the rules with the same root class, in order, including all orders of commutative operands."""
    out: list[Rule] = []
    seen: set[Any] = set()
    for text, replacement, condition, swap in rows:
        p = _parse(ast.parse(text, mode="eval"))
        for image in _mirrors(p) if swap else [p]:
            key = _renamed(image, replacement, condition or "")
            if key not in seen:
                seen.add(key)
                out.append(Rule(text, image, replacement, condition, ready))
    return out


class RuleTable:
    """The rules for one kind of dtype by root class, looked up by the classes of the operands."""

    def __init__(self, rows: dict[type, list[tuple[Any, ...]]]):
        self.rows = rows
        self.made: dict[type, list[Rule]] = {}
        self.index: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def find(self, cls: type, left: type, right: type) -> tuple[Any, ...]:
        """Return the closures that may match ``cls(left, right)``."""
        rules = self.made.get(cls)
        if rules is None:
            rules = self.made[cls] = make_rules(self.rows.get(cls, []), self._compiled)
        got = tuple([r.apply for r in rules if r.left in (None, left) and r.right in (None, right)])
        self.index[cls, left, right] = got
        return got

    def _compiled(self, rule: Rule) -> None:
        """Record that a rule was compiled. Lists with the interpreted version are rebuilt when they are next used."""
        root = rule.pattern.head
        self.index = {k: v for k, v in list(self.index.items()) if k[0] is not root}
