"""The parser of Relay text, as the printer or users write it, to modules and expressions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dtype import int_range
from ..error import DiagnosticError
from ..ir.adt import Constructor, TypeData
from ..ir.attrs import near_matches
from ..ir.module import GlobalVar, IRModule
from ..ir.op import OPS
from ..ir.type import GlobalTypeVar, IncompleteType
from .adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from .expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
)
from .infer import infer_module
from .op.record import CallAttrs, device_text
from .parser_tokens import Token
from .parser_types import TypeReader

_INFIX = {
    "*": (3, "multiply"),
    "/": (3, "divide"),
    "+": (2, "add"),
    "-": (2, "subtract"),
    "<": (1, "less"),
    ">": (1, "greater"),
    "<=": (1, "less_equal"),
    ">=": (1, "greater_equal"),
    "==": (0, "equal"),
    "!=": (0, "not_equal"),
}


class _Absent:
    pass


class Parser(TypeReader):
    """Parses one text. The lines of a block are parsed in a loop, so that long graphs do not cause deep recursion."""

    def __init__(
        self, source: str, name: str = "from_string", module: IRModule | None = None, meta: Mapping | None = None
    ):
        self.module = module.clone() if module is not None else IRModule()
        super().__init__(source, name, meta, {v.name_hint: v for v in self.module.type_definitions})
        self.globals: dict[str, GlobalVar] = {v.name_hint: v for v in self.module.functions}
        self.constructors = {c.name_hint: c for d in self.module.type_definitions.values() for c in d.constructors}
        # The visible names, innermost scope last.
        self.scopes: list[dict[str, RelayExpr]] = [{}]

    # -- modules -----------------------------------------------------------------------------------------------------

    def parse_module(self) -> IRModule:
        self.declare_types()
        loose: RelayExpr | None = None
        while self.look().kind != "end":
            if self.sees("def"):
                self.definition()
            elif self.sees("type", "extern"):
                self.type_definition()
            else:
                loose = self.block("")
        if loose is not None:
            main = loose if isinstance(loose, Function) else Function(self.free, loose)
            self.module[self.global_var("main")] = main
        missing = [n for n, v in self.globals.items() if v not in self.module]
        if missing:
            raise DiagnosticError(f"{self.source_name}: @{missing[0]} is used but not defined")
        return self.module

    @property
    def free(self) -> list[Var]:
        return [v for v in self.scopes[0].values() if isinstance(v, Var)]

    def declare_types(self) -> None:
        """Declare all types of the text, since types may be used before their definition."""
        for i, token in enumerate(self.tokens):
            if token.kind == "name" and token.text == "type" and self.tokens[i + 1].kind == "name":
                before = self.tokens[i - 1].text if i else "}"
                if before in ("}", ";", "extern"):
                    self.types.setdefault(self.tokens[i + 1].text, GlobalTypeVar(self.tokens[i + 1].text))

    def global_var(self, name: str) -> GlobalVar:
        return self.globals.setdefault(name, GlobalVar(name))

    def definition(self) -> None:
        self.expect("def")
        name = self.need("global", "the name of a function, such as @main,")[1:]
        if name in {v.name_hint for v in self.module.functions}:
            raise self.fail(f"@{name} is defined twice")
        self.module[self.global_var(name)] = self.function_rest()

    def type_definition(self) -> None:
        self.accept("extern")
        self.expect("type")
        name = self.need("name", "the name of a type")
        header = self.types[name]
        if header in self.module.type_definitions:
            raise self.fail(f"type {name} is defined twice")
        outer = dict(self.types)
        variables = [self.type_variable() for _ in [0] if self.accept("[")]
        parameters = variables[0] if variables else []
        constructors = []
        if self.accept("{"):
            constructors = self.items("}", lambda: self.constructor(header, constructors_so_far=constructors))
        else:
            self.accept(";")
        self.constructors.update((c.name_hint, c) for c in constructors)
        self.types = outer
        self.module[header] = TypeData(header, tuple(parameters), tuple(constructors))

    def constructor(self, header, constructors_so_far) -> Constructor:
        name = self.need("name", "a constructor")
        inputs = self.items(")", self.type) if self.accept("(") else []
        return Constructor(name, tuple(inputs), header)

    # -- functions and blocks ----------------------------------------------------------------------------------------

    def function_rest(self) -> Function:
        """Parse a function from its parameters on."""
        outer = dict(self.types)
        parameters = self.type_variable() if self.accept("[") else []
        self.expect("(")
        self.scopes.append({})
        attrs: dict[str, Any] = {}
        params = [p for p in self.items(")", lambda: self.parameter(attrs)) if p is not None]
        result = self.type() if self.accept("->") else None
        self.expect("{")
        body = self.block("}")
        self.scopes.pop()
        self.types = outer
        place = attrs.pop("virtual_device", None)
        made = Function(params, body, result, parameters, attrs)
        made.virtual_device_ = place
        return made

    def parameter(self, attrs: dict[str, Any]) -> Var | None:
        token = self.look()
        if token.kind == "local":
            return self.bind()
        if token.kind not in ("name", "string"):
            raise self.fail(f"expected a parameter such as %x, found '{token.text}'")
        self.take()
        key = _unquote(token.text) if token.kind == "string" else token.text
        self.expect("=")
        attrs[key] = self.value()
        return None

    def bind(self) -> Var:
        """Parse a variable definition: ``%x``, ``%x: type`` or ``%x {virtual_device=...}: type``."""
        name = self.need("local", "a variable such as %x")[1:]
        place = self.place() if self.accept("{") else None
        annotation = self.type() if self.accept(":") else None
        made = Var(name, None if isinstance(annotation, IncompleteType) else annotation)
        made.virtual_device_ = place
        self.scopes[-1]["%" + name] = made
        return made

    def place(self) -> Any:
        """Parse the device of a variable: the rest of ``{virtual_device=meta[VirtualDevice][0]}``."""
        self.expect("virtual_device")
        self.expect("=")
        found = self.meta_reference()
        self.expect("}")
        return found

    def block(self, close: str) -> RelayExpr:
        """Parse lines up to the closing brace, or until no further expression can start; the last one is the value."""
        lets: list[tuple[Var, RelayExpr]] = []
        self.scopes.append({}) if close else None
        while True:
            token = self.look()
            if token.text == "free_var":
                self.take()
                made = self.bind()
                self.scopes[0]["%" + made.name_hint] = made
                self.expect(";")
            elif token.text == "let":
                lets.append(self.let())
            elif token.kind == "graph" and self.look(1).text == "=":
                self.at += 2
                value = self.expression()
                self.expect(";")
                self.scopes[-1][token.text] = value
            else:
                result = self.expression()
                if self.accept(";"):
                    # The expression is evaluated for its side effect.
                    lets.append((Var("_"), result))
                    continue
                break
        if close:
            self.expect(close)
            self.scopes.pop()
        for var, value in reversed(lets):
            result = Let(var, value, result)
        return result

    def let(self) -> tuple[Var, RelayExpr]:
        self.expect("let")
        name = self.need("local", "a variable such as %x")[1:]
        annotation = self.type() if self.accept(":") else None
        made = Var(name, None if isinstance(annotation, IncompleteType) else annotation)
        self.expect("=")
        if self.sees("fn"):
            # A function may refer to the variable that it is bound to.
            self.scopes[-1]["%" + name] = made
        value = self.expression()
        self.expect(";")
        self.scopes[-1]["%" + name] = made
        return made, value

    # -- expressions -------------------------------------------------------------------------------------------------

    def expression(self, level: int = 0) -> RelayExpr:
        left = self.postfix()
        while self.look().kind == "mark" and self.look().text in _INFIX:
            strength, name = _INFIX[self.look().text]
            if strength < level:
                break
            self.take()
            right = self.expression(strength + 1)
            left = Call(OPS[name], (left, right))
        return left

    def postfix(self) -> RelayExpr:
        e = self.primary()
        while True:
            if self.sees("(") and not isinstance(e, Constant):
                self.take()
                e = self.call(e)
            elif self.sees(".") and self.look(1).kind == "int":
                self.at += 1
                e = TupleGetItem(e, int(self.take().text))
            elif self.look().kind == "float" and self.look().text.startswith("."):
                e = TupleGetItem(e, int(self.take().text[1:]))
            else:
                return e

    def primary(self) -> RelayExpr:
        token = self.look()
        if token.kind in ("local", "graph"):
            self.take()
            return self.lookup(token)
        if token.kind == "global":
            self.take()
            return self.global_var(token.text[1:])
        if token.kind in ("int", "float") or token.text in ("True", "False", "nan", "inf"):
            return self.number()
        if token.text == "-" and token.kind == "mark":
            return self.negative()
        if token.kind == "name":
            return self.word(token)
        if self.accept("("):
            return self.parenthesis()
        if self.accept("{"):
            return self.block("}")
        if self.accept("["):
            return Tuple(self.items("]", self.expression))
        raise self.fail(f"expected an expression, found '{token.text or 'the end of the text'}'")

    def word(self, token: Token) -> RelayExpr:
        rule = _WORDS.get(token.text)
        if rule is not None and not (token.text == "ref" and self.look(1).text != "("):
            self.take()
            return rule(self)
        if token.text == "meta":
            return self.meta_reference()
        self.take()
        if token.text in self.constructors:
            made = self.constructors[token.text]
            return made if self.sees("(") or made.inputs else Call(made, ())
        if token.text in OPS:
            return OPS[token.text]
        known = [*self.constructors, *OPS.names()]
        raise self.fail(f"unknown operator '{token.text}'; {near_matches(token.text, known)}", token.at)

    def lookup(self, token: Token) -> RelayExpr:
        for scope in reversed(self.scopes):
            if token.text in scope:
                return scope[token.text]
        raise self.fail(f"{token.text} is not defined", token.at)

    def negative(self) -> RelayExpr:
        """Parse a number with signs, or the negation of an expression."""
        ahead = 0
        while self.look(ahead).text == "-":
            ahead += 1
        if self.look(ahead).kind in ("int", "float"):
            return self.number()
        self.take()
        return Call(OPS["negative"], (self.postfix(),))

    def number(self) -> Constant:
        return const(*self.literal())

    def literal(self) -> tuple[Any, str]:
        """Parse a number and its element type."""
        sign = 1
        while self.accept("-"):
            sign = -sign
        token = self.take()
        if token.text in ("True", "False"):
            return token.text == "True", "bool"
        if token.kind == "int":
            digits = re.fullmatch(r"(\d+)([iu]?)(\d*)", token.text)
            kind = "uint" if digits[2] == "u" else "int"
            value = sign * int(digits[1])
            # A number without bit width has the smallest type that represents it.
            widths = [digits[3]] if digits[3] else ["32"] if digits[2] else ["32", "64"]
            for dtype in (kind + bits for bits in widths):
                least, most = int_range(dtype)
                if least <= value <= most:
                    return value, dtype
            raise self.fail(f"{value} is out of range for {dtype}", token.at)
        if token.kind == "float":
            m = re.fullmatch(r"(inf|nan|[^f]+)(?:f(\d*))?", token.text)
            value, dtype = sign * float(m[1]), "float" + (m[2] or "32")
            with np.errstate(over="ignore"):
                wide = np.isinf(const(value, dtype).data.numpy())
            if wide and m[1] != "inf":
                raise self.fail(f"{m[1]} is out of range for {dtype}", token.at)
            return value, dtype
        raise self.fail(f"expected a number, found '{token.text}'", token.at)

    def parenthesis(self) -> RelayExpr:
        if self.accept(")"):
            return Tuple(())
        if self.sees("let"):
            inside = self.block("")
            self.expect(")")
            return inside
        first = self.expression()
        if self.accept(")"):
            return first
        self.expect(",")
        return Tuple([first, *self.items(")", self.expression)])

    def if_(self) -> If:
        self.expect("(")
        cond = self.expression()
        self.expect(")")
        self.expect("{")
        yes = self.block("}")
        self.expect("else")
        if self.accept("if"):
            return If(cond, yes, self.if_())
        self.expect("{")
        return If(cond, yes, self.block("}"))

    def reference(self, cls, count: int) -> RelayExpr:
        self.expect("(")
        args = self.items(")", self.expression)
        if len(args) != count:
            raise self.fail(f"{cls.__name__} requires {count} operands, got {len(args)}")
        return cls(*args)

    def match(self) -> Match:
        complete = not self.accept("?")
        self.expect("(")
        data = self.expression()
        self.expect(")")
        self.expect("{")
        return Match(data, tuple(self.items("}", self.clause)), complete)

    def clause(self) -> Clause:
        self.scopes.append({})
        pattern = self.pattern()
        self.expect("=>")
        result = self.block("}") if self.accept("{") else self.expression()
        self.scopes.pop()
        return Clause(pattern, result)

    def pattern(self) -> Pattern:
        token = self.look()
        if token.kind == "local":
            return PatternVar(self.bind())
        if self.accept("_"):
            return PatternWildcard()
        if self.accept("("):
            return PatternTuple(tuple(self.items(")", self.pattern)))
        name = self.need("name", "a pattern")
        if name not in self.constructors:
            raise self.fail(f"unknown constructor '{name}'; {near_matches(name, self.constructors)}", token.at)
        inner = self.items(")", self.pattern) if self.accept("(") else []
        return PatternConstructor(self.constructors[name], tuple(inner))

    # -- calls and attributes ----------------------------------------------------------------------------------------

    def call(self, callee: RelayExpr) -> RelayExpr:
        attrs: dict[str, Any] = {}
        args = [a for a in self.items(")", lambda: self.argument(attrs)) if a is not _Absent]
        if callee.__class__.__name__ == "Op":
            return operator_call(callee, args, attrs)
        return Call(callee, args, CallAttrs(attrs) if attrs else None)

    def argument(self, attrs: dict[str, Any]) -> Any:
        token = self.look()
        if token.kind == "name" and self.look(1).text == "=":
            self.at += 2
            attrs[token.text] = self.value()
            return _Absent
        return self.expression()

    def value(self) -> Any:
        """Parse the value of an attribute: Python data, or a node from the metadata."""
        token = self.look()
        if token.kind == "string":
            self.take()
            return _unquote(token.text)
        if self.accept("None"):
            return None
        if self.accept("[") or self.accept("("):
            return tuple(self.items("]" if token.text == "[" else ")", self.value))
        if self.accept("{"):
            return dict(self.items("}", self.pair))
        if token.text == "meta":
            return self.meta_reference()
        if token.kind in ("int", "float") or token.text in ("-", "True", "False"):
            return self.literal()[0]
        if token.kind == "name":
            # Element types and layouts may be unquoted.
            return self.take().text
        raise self.fail(f"expected the value of an attribute, found '{token.text}'")

    def pair(self) -> tuple[str, Any]:
        key = _unquote(self.need("string", "a name in quotes"))
        if not self.accept("="):
            self.expect(":")
        return key, self.value()


_WORDS = {
    "if": Parser.if_,
    "fn": Parser.function_rest,
    "let": lambda p: (setattr(p, "at", p.at - 1), p.block(""))[1],
    "match": Parser.match,
    "ref": lambda p: p.reference(RefCreate, 1),
    "ref_read": lambda p: p.reference(RefRead, 1),
    "ref_write": lambda p: p.reference(RefWrite, 2),
}


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])


def operator_call(op, args: list, attrs: dict[str, Any]) -> Call:
    """Return a call with defaults for missing attributes, from the operator's builder."""
    made = _built(op, args, attrs)
    if made is None:
        return Call(op, args, CallAttrs(attrs) if attrs else None)
    if made.attrs is None:
        return Call(op, args, CallAttrs(attrs) if attrs else None)
    return Call(op, args, CallAttrs({**made.attrs.entries, **attrs}))


def _built(op, args: list, attrs: dict[str, Any]) -> Call | None:
    build = op.attrs.get("build")
    if build is None:
        return None
    # Annotations and copies have other attribute names for devices in the text than in their builders.
    for key in [k for k in attrs if "virtual_device" in k]:
        attrs[key.replace("virtual_", "")] = device_text(attrs.pop(key))
    params = list(inspect.signature(build).parameters)
    if any(k not in params for k in attrs):
        return None
    inputs = dict(zip([p for p in params if p not in attrs], args))
    try:
        made = build(**inputs, **attrs)
    except (TypeError, ValueError, IndexError, AttributeError):
        return None
    made = made.astuple() if isinstance(made, TupleWrapper) else made
    return made if isinstance(made, Call) and made.op is op and len(made.args) == len(args) else None


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping | None = None,
) -> IRModule:
    """Parse a module and infer its types. A text that consists of one expression becomes @main.

    Parameters
    ----------
    source : str
        The text to parse.
    source_name : str, optional
        The name of the text in error messages.
    init_module : IRModule, optional
        The module to which the definitions are added.
    init_meta_table : Mapping, optional
        Constants to which the text refers.

    Returns
    -------
    IRModule
        The typed module.

    Raises
    ------
    ParseError
        The text is not a valid program; the message contains the position.
    """
    return infer_module(Parser(source, source_name, init_module, init_meta_table).parse_module())


def parse_expr(source: str) -> RelayExpr:
    """Parse an expression.

    Parameters
    ----------
    source : str
        The text to parse.

    Returns
    -------
    RelayExpr
        The expression.

    Raises
    ------
    DiagnosticError
        The text is not an expression, or more text follows it.
    """
    parser = Parser(source)
    got = parser.block("")
    if parser.look().kind != "end":
        raise parser.fail(f"unexpected '{parser.look().text}' after the end of the expression")
    return got


def fromtext(source: str, source_name: str = "from_string") -> Any:
    """Parse a module or a single expression, as written by ``astext``.

    Parameters
    ----------
    source : str
        The text to parse.
    source_name : str, optional
        The name of the text in error messages.

    Returns
    -------
    IRModule or RelayExpr
        The parsed module or expression.
    """
    parser = Parser(source, source_name)
    if parser.sees("def", "type"):
        return infer_module(parser.parse_module())
    return parser.block("")


__all__ = ["Parser", "fromtext", "parse", "parse_expr"]
