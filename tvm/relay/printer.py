"""The printer of Relay text in the syntax of Apache TVM.

Every expression other than a name or a literal gets a line ``%3 = ...;`` in the innermost block that contains all its
uses, so that sharing is preserved. The last expression of a block has no name. The printer does not recurse over the
graph: the text of operands is created before that of their users.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from ..ir.adt import Constructor, TypeData
from ..ir.attrs import DictAttrs
from ..ir.module import AS_TEXT, GlobalVar, IRModule
from ..ir.node import PRINTER, Node
from ..ir.op import Op
from ..ir.prim import Any_, IntImm, PrimExpr, StringImm
from ..ir.prim import Var as PrimVar
from ..ir.serialize import save_json
from ..ir.span import Span
from ..ir.tensor_type import TensorType
from ..ir.type import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    PointerType,
    PrimType,
    RelayRefType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from .adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from .expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem, Var
from .scopes import ATOMS, Block, Placement

VERSION = '#[version = "0.0.5"]'
_SUFFIX = {
    "int32": "",
    "float32": "f",
    "float16": "f16",
    "float64": "f64",
    **{f"int{n}": f"i{n}" for n in (8, 16, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
}


class MetaTable:
    """A table of values without textual syntax: ``meta[type key][index]``."""

    def __init__(self):
        self.entries: dict[str, list[Any]] = {}
        self.index: dict[int, str] = {}

    def text(self, node: Any) -> str:
        got = self.index.get(id(node))
        if got is None:
            key = type(node)._type_key
            items = self.entries.setdefault(key, [])
            got = self.index[id(node)] = f"meta[{key}][{len(items)}]"
            items.append(node)
        return got

    def json(self) -> str:
        return save_json(self.entries)


# -- types and values ------------------------------------------------------------------------------------------------


def type_text(t: Any, meta: MetaTable | None = None) -> str:
    """Return the text of a type."""
    if isinstance(t, TensorType):
        if not t.shape:
            return t.dtype
        return f"Tensor[({', '.join(_dim(d, meta) for d in t.shape)}), {t.dtype}]"
    if isinstance(t, TupleType):
        inner = ", ".join(type_text(f, meta) for f in t.fields)
        return f"({inner},)" if len(t.fields) == 1 else f"({inner})"
    if isinstance(t, FuncType):
        names = f"[{', '.join(type_text(p, meta) for p in t.type_params)}]" if t.type_params else ""
        return f"fn {names}({', '.join(type_text(a, meta) for a in t.arg_types)}) -> {type_text(t.ret_type, meta)}"
    if isinstance(t, RelayRefType):
        return f"ref({type_text(t.value, meta)})"
    if isinstance(t, (TypeVar, GlobalTypeVar)):
        return t.name_hint
    if isinstance(t, TypeCall):
        args = ", ".join(type_text(a, meta) for a in t.args)
        return type_text(t.func, meta) + (f"[{args}]" if args else "")
    if isinstance(t, IncompleteType) or t is None:
        return "_"
    return (meta or MetaTable()).text(t) if isinstance(t, Node) else str(t)


def _dim(d: PrimExpr, meta: MetaTable | None) -> str:
    if isinstance(d, IntImm):
        return (
            str(d.value) if d.dtype == "int32" else f"{d.value}i{d.dtype[3:]}" if d.dtype == "int64" else str(d.value)
        )
    if isinstance(d, Any_):
        return "?"
    if isinstance(d, PrimVar):
        return d.name
    return meta.text(d) if meta is not None else str(d)


def _float(value: float, suffix: str) -> str:
    text = repr(float(value))
    return (text[:-2] if text.endswith(".0") else text) + suffix


def literal_text(node: Constant) -> str | None:
    """Return a scalar of a common type as a literal; None for other constants."""
    if node.data.shape != ():
        return None
    dtype = node.data.dtype
    if dtype == "bool":
        return "True" if node.data.numpy().item() else "False"
    if dtype not in _SUFFIX:
        return None
    value = node.data.numpy()
    if dtype.startswith("int"):
        return f"{value.item()}{_SUFFIX[dtype]}"
    # NumPy's shortest decimal text of a number is parsed to the same number.
    text = str(value[()])
    return (text[:-2] if text.endswith(".0") else text) + _SUFFIX[dtype]


def value_text(value: Any, meta: MetaTable) -> str:
    """Return the text of an attribute value."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(value, "f")
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(v, meta) for v in value) + "]"
    if isinstance(value, (dict, DictAttrs)):
        return "{" + ", ".join(f"{value_text(str(k), meta)}={value_text(v, meta)}" for k, v in value.items()) + "}"
    if isinstance(value, IntImm):
        return ("True" if value.value else "False") if value.dtype == "bool" else str(value.value)
    if isinstance(value, StringImm):
        return value_text(value.value, meta)
    if isinstance(value, Node):
        return meta.text(value)
    if hasattr(value, "numpy"):
        return meta.text(Constant(value))
    return value_text(str(value), meta)


_DEFAULTS: dict[str, dict[str, Any]] = {}

# Attributes that are printed even if they have the default value, because they are essential for the reader.
_ALWAYS_WRITTEN = {"pool_size"}


def _defaults(op: Op) -> dict[str, Any]:
    """Return the default attributes of an operator's builder."""
    got = _DEFAULTS.get(op.name)
    if got is None:
        build = op.attrs.get("build")
        params = inspect.signature(build).parameters.values() if build is not None else ()
        filled = {p.name: p.default for p in params if p.default is not p.empty and p.name not in _ALWAYS_WRITTEN}
        if op.name == "transpose":
            del filled["axes"]
        got = _DEFAULTS[op.name] = filled
    return got


def _is_default(value: Any, default: Any) -> bool:
    if type(value) is tuple and type(default) in (int, float):
        return all(type(v) in (int, float) and v == default for v in value) and len(value) > 0
    if isinstance(value, (tuple, list)) and isinstance(default, (tuple, list)):
        return tuple(value) == tuple(default)
    return type(value) is type(default) and value == default


# -- graphs ----------------------------------------------------------------------------------------------------------


class TextPrinter:
    """Prints expressions, functions and modules."""

    def __init__(self, meta: MetaTable | None = None, annotate: Callable[[Any], str] | None = None, types: bool = True):
        self.meta = meta or MetaTable()
        self.annotate = annotate
        self.types = types
        # Types of constants are always known; they are not printed if the other expressions are untyped.
        self.typed = True
        self.taken: set[str] = set()
        self.names: dict[Var, str] = {}
        self.temporary = 0

    # names

    def name(self, v: Var) -> str:
        got = self.names.get(v)
        if got is None:
            # Names in models contain slashes, as in base/conv.
            base = re.sub(r"[^\w/]|/(?![A-Za-z_])|^/", "_", v.name_hint) or "v"
            base = "v" + base if base[0].isdigit() else base
            got, n = base, 1
            while got in self.taken:
                got, n = f"{base}_{n}", n + 1
            self.taken.add(got)
            self.names[v] = got
        return "%" + got

    def info(self, e: RelayExpr) -> str:
        """Return the comment after an expression: the user's annotation, or else its type."""
        if self.annotate is not None:
            return self.annotate(e)
        t = getattr(e, "checked_type_", None)
        known = self.types and t is not None and not isinstance(t, IncompleteType)
        words = [f"ty={type_text(t)}"] if known and (self.typed or not isinstance(e, Constant)) else []
        if type(e) is Call and self.types and isinstance(e.span, Span):
            words.append(f"span={e.span.source_name}:{e.span.line}:{e.span.column}".replace("*/", "* /"))
        return f" /* {' '.join(words)} */" if words else ""

    def definition(self, v: Var) -> str:
        text = self.name(v)
        if v.type_annotation is not None:
            text += ": " + type_text(v.type_annotation, self.meta)
        return text + self.info(v)

    def expression(self, root: RelayExpr, top: Block | None = None) -> tuple[Block, str]:
        """Return the lines before an expression and its own text."""
        top = top or Block(None)
        self.places = Placement(root, top)
        text: dict[int, Any] = {}
        for e in self.places.order:
            if isinstance(e, ATOMS):
                text[id(e)] = self.atom(e)
                continue
            written = self.write(e, text)
            if id(e) in self.places.tail:
                text[id(e)] = written
                continue
            name = f"%{self.temporary}"
            self.temporary += 1
            if type(e) is Let:
                written = ["{", self.places.inner[id(e)][0].lines, "}"]
            self.places.home[id(e)].lines.append(_line(f"{name} = ", written, ";"))
            text[id(e)] = name
        return top, text[id(root)]

    def atom(self, e: RelayExpr) -> str:
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, GlobalVar):
            return "@" + e.name_hint
        if isinstance(e, Op):
            return e.name
        if isinstance(e, Constructor):
            return e.name_hint
        return (literal_text(e) or self.meta.text(e)) + self.info(e)

    def write(self, e: RelayExpr, text: dict[int, Any]) -> Any:
        return _WRITERS[type(e)](self, e, text)

    def call(self, e: Call, text) -> str:
        parts = [text[id(a)] for a in e.args]
        parts += self.attributes(e)
        callee = text[id(e.op)]
        if isinstance(e.op, Constructor) and not parts:
            return callee + self.info(e)
        return _inline(callee) + "(" + ", ".join(_inline(p) for p in parts) + ")" + self.info(e)

    def attributes(self, e: Call) -> list[str]:
        if e.attrs is None:
            return []
        known = _defaults(e.op) if isinstance(e.op, Op) else {}
        out = []
        for key, value in e.attrs.items():
            if key in known and _is_default(value, known[key]):
                continue
            out.append(f"{key}={value_text(value, self.meta)}")
        return out

    def tuple(self, e: Tuple, text) -> str:
        inner = ", ".join(_inline(text[id(f)]) for f in e.fields)
        return f"({inner},)" + self.info(e) if len(e.fields) == 1 else f"({inner})" + self.info(e)

    def get_item(self, e: TupleGetItem, text) -> str:
        return f"{text[id(e.tuple_value)]}.{e.index}" + self.info(e)

    def condition(self, e: If, text) -> Any:
        yes, no = self.places.inner[id(e)]
        yes.lines.append(text[id(e.true_branch)])
        no.lines.append(text[id(e.false_branch)])
        return [f"if ({_inline(text[id(e.cond)])}) {{", yes.lines, "} else {", no.lines, "}" + self.info(e)]

    def let(self, e: Let, text) -> Any:
        """Return the text of a let: at the end of a block its lines are appended to the block, elsewhere it is a nested
        block."""
        rest = self.places.inner[id(e)][0]
        rest.lines.append(text[id(e.body)])
        line = _line(f"let {self.definition(e.var)} = ", text[id(e.value)], ";")
        if id(e) in self.places.tail:
            return _Flat([line, _Flat(rest.lines)])
        rest.lines[:] = [line, _Flat(list(rest.lines))]
        return None

    def match(self, e: Match, text) -> Any:
        lines: list[Any] = []
        for clause, block in zip(e.clauses, self.places.inner[id(e)]):
            block.lines.append(text[id(clause.rhs)])
            head = f"{self.pattern(clause.lhs)} => "
            if len(block.lines) == 1 and isinstance(block.lines[0], str):
                lines.append(head + block.lines[0] + ",")
            else:
                lines.append([head + "{", block.lines, "},"])
        word = "match" if e.complete else "match?"
        return [f"{word} ({_inline(text[id(e.data)])}) {{", lines, "}" + self.info(e)]

    def pattern(self, p: Pattern) -> str:
        if isinstance(p, PatternVar):
            return self.definition(p.var)
        if isinstance(p, PatternConstructor):
            inner = ", ".join(self.pattern(q) for q in p.patterns)
            return f"{p.constructor.name_hint}({inner})" if p.patterns else p.constructor.name_hint
        if isinstance(p, PatternTuple):
            inner = ", ".join(self.pattern(q) for q in p.patterns)
            return f"({inner},)" if len(p.patterns) == 1 else f"({inner})"
        return "_"

    def function(self, e: Function, text, head: str = "fn ") -> Any:
        block = self.places.inner[id(e)][0]
        block.lines.append(text[id(e.body)])
        comment = self.info(e) if head == "fn " else ""
        return [self.signature(e, head) + " {", block.lines, "}" + comment]

    def signature(self, e: Function, head: str) -> str:
        names = f"[{', '.join(type_text(p) for p in e.type_params)}]" if e.type_params else ""
        params = [self.definition(p) for p in e.params]
        params += [f"{_key(k)}={value_text(v, self.meta)}" for k, v in e.attrs.items()]
        result = f" -> {type_text(e.ret_type, self.meta)}" if e.ret_type is not None else ""
        return f"{head}{names}({', '.join(params)}){result}"

    # whole texts

    def global_function(self, name: str, f: Function) -> list[Any]:
        self.taken, self.names, self.temporary = set(), {}, 0
        for p in f.params:
            self.name(p)
        top, body = self.expression(f.body)
        top.lines.append(body)
        return [self.signature(f, f"def @{name}") + " {", top.lines, "}"]

    def type_data(self, data: TypeData) -> list[Any]:
        names = f"[{', '.join(v.name_hint for v in data.type_vars)}]" if data.type_vars else ""
        lines: list[Any] = []
        for c in data.constructors:
            inner = f"({', '.join(type_text(t, self.meta) for t in c.inputs)})" if c.inputs else ""
            lines.append(f"{c.name_hint}{inner},")
        return [f"type {data.header.name_hint}{names} {{", lines, "}"]

    def module(self, mod: IRModule) -> str:
        parts = [_render(self.type_data(d)) for d in mod.type_definitions.values() if isinstance(d, TypeData)]
        for var, f in mod.functions.items():
            if isinstance(f, Function):
                parts.append(_render(self.global_function(var.name_hint, f)))
            else:
                parts.append(_other_function(var.name_hint, f))
        return "\n\n".join(parts) + "\n" if parts else ""


def _other_function(name: str, f: Any) -> str:
    """Return the text of a function of another IR as a comment, since graphs only refer to its name."""
    text = PRINTER(f)
    return f"/* @{name} is a {type(f).__name__}:\n{text.replace('*/', '* /')}\n*/"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) else '"' + name.replace('"', '\\"') + '"'


_WRITERS = {
    Call: TextPrinter.call,
    Tuple: TextPrinter.tuple,
    TupleGetItem: TextPrinter.get_item,
    If: TextPrinter.condition,
    Let: TextPrinter.let,
    Match: TextPrinter.match,
    Function: TextPrinter.function,
    RefCreate: lambda self, e, text: f"ref({_inline(text[id(e.value)])})",
    RefRead: lambda self, e, text: f"ref_read({_inline(text[id(e.ref)])})",
    RefWrite: lambda self, e, text: f"ref_write({_inline(text[id(e.ref)])}, {_inline(text[id(e.value)])})",
}


class _Flat(list):
    """Lines that are printed without further indentation."""


def _inline(text: Any) -> str:
    return text if isinstance(text, str) else _render(text)


def _line(before: str, text: Any, after: str) -> Any:
    if isinstance(text, str):
        return before + text + after
    if isinstance(text, _Flat):
        return [before + "{", list(text), "}" + after]
    return [before + text[0], *text[1:-1], text[-1] + after]


def _render(text: Any) -> str:
    """Convert nested lists to text: a list is [line, inner lines, line, ...], and inner lists are indented."""
    out: list[str] = []
    stack: list[tuple[Any, int]] = [(text, 0)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            out.append("  " * depth + item)
        elif isinstance(item, _Flat):
            stack.extend((i, depth) for i in reversed(item))
        elif isinstance(item, list):
            # In the text of a construct, elements at odd indices are the blocks between its own lines.
            for place in range(len(item) - 1, -1, -1):
                part = item[place]
                if place % 2 and isinstance(part, list):
                    stack.extend((i, depth + 1) for i in reversed(part))
                else:
                    stack.append((part, depth))
    return "\n".join(out)


def astext(obj: Any, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None) -> str:
    """Return the text of an expression, type or module, which can be parsed if it includes metadata.

    Parameters
    ----------
    obj
        The object to print.
    show_meta_data : bool, optional
        Whether constants are printed, which is required for parsing.
    annotate : callable, optional
        Returns a comment for an expression.

    Returns
    -------
    str
        The text.
    """
    printer = TextPrinter(annotate=annotate)
    if isinstance(obj, IRModule):
        body = printer.module(obj)
    elif isinstance(obj, Type):
        body = type_text(obj, printer.meta)
    elif isinstance(obj, TypeData):
        body = _render(printer.type_data(obj))
    elif isinstance(obj, Pattern):
        body = printer.pattern(obj)
    elif isinstance(obj, Clause):
        body = _inline([f"{printer.pattern(obj.lhs)} => {{", [printer.expression(obj.rhs)[1]], "}"])
    elif isinstance(obj, (GlobalVar, Op)):
        return TextPrinter().atom(obj)
    else:
        body = _expression_text(printer, obj)
    if not show_meta_data:
        return body
    text = f"{VERSION}\n{body}"
    if printer.meta.entries:
        text += ("" if text.endswith("\n") else "\n") + "\n#[metadata]\n" + printer.meta.json() + "\n"
    return text


def _expression_text(printer: TextPrinter, e: RelayExpr) -> str:
    from .substitute import free_vars

    printer.typed = getattr(e, "checked_type_", None) is not None and not isinstance(e, Constant)
    head = [f"free_var {printer.definition(v)};" for v in free_vars(e)]
    if isinstance(e, Function):
        for p in e.params:
            printer.name(p)
    top, text = printer.expression(e)
    return _render(_Flat([*head, _Flat(top.lines), text]))


def pretty_print(obj: Any) -> str:
    """Return the text without metadata; for a variable, its name.

    Parameters
    ----------
    obj
        The object to print.

    Returns
    -------
    str
        The text.
    """
    return TextPrinter().name(obj) if isinstance(obj, Var) else astext(obj, show_meta_data=False)


_OWN = (
    RelayExpr,
    TensorType,
    TupleType,
    FuncType,
    RelayRefType,
    TypeVar,
    GlobalTypeVar,
    TypeCall,
    IncompleteType,
    TypeData,
    Pattern,
    Clause,
)


def is_relay(node: Any) -> bool:
    """Return whether this printer supports a node."""
    if isinstance(node, IRModule):
        return bool(node.type_definitions) or any(isinstance(f, Function) for f in node.functions.values())
    if isinstance(node, GlobalVar) or isinstance(node, Op):
        return False
    if isinstance(node, RelayExpr):
        return type(node) in _WRITERS or isinstance(node, ATOMS)
    if isinstance(node, TupleType) and node.fields and all(isinstance(f, (PrimType, PointerType)) for f in node.fields):
        return False
    return isinstance(node, _OWN)


def install() -> None:
    """Use this printer for ``str`` of Relay nodes."""

    def text(node: Any, **options: Any) -> str:
        return pretty_print(node) if is_relay(node) else before(node, **options)

    def as_text(node: Any, show_meta_data: bool, annotate: Any) -> str:
        own = is_relay(node) or isinstance(node, (GlobalVar, Op))
        return astext(node, show_meta_data, annotate) if own else str(node)

    before = PRINTER.give(text)
    AS_TEXT.give(as_text)


__all__ = ["TextPrinter", "astext", "install", "is_relay", "pretty_print", "type_text"]
