"""TVMScript text of expressions, buffers, types and attribute values.

Expressions are printed with an explicit stack, so their depth is not limited. If an expression shares subexpressions so
much that its tree would be huge, the shared subexpressions are assigned to names first (see ``Writer.text``).
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..dtype import info
from ..ir.module import GlobalVar
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Any_,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    ConstExpr,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ..ir.primop import add, multiply
from ..ir.type import PointerType, PrimType, TupleType
from ..ir.visit import post_order
from ..tir.buffer import Buffer
from ..tir.stmt import BufferRegion


@dataclass(frozen=True, slots=True)
class Options:
    """The options of ``script``, with the names of Apache TVM."""

    name: str | None = None
    show_meta: bool = False
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    verbose_expr: bool = False
    indent_spaces: int = 4
    print_line_numbers: bool = False
    syntax_sugar: bool = True


# Operator precedences, as in Python.
OR, AND, NOT, COMPARE, SUM, PRODUCT, ATOM = 1, 2, 3, 4, 5, 6, 7

_BINARY = {
    Add: ("+", SUM), Sub: ("-", SUM), Mul: ("*", PRODUCT), FloorDiv: ("//", PRODUCT), FloorMod: ("%", PRODUCT),
    EQ: ("==", COMPARE), NE: ("!=", COMPARE), LT: ("<", COMPARE), LE: ("<=", COMPARE), GT: (">", COMPARE),
    GE: (">=", COMPARE), And: ("and", AND), Or: ("or", OR),
}  # fmt: skip

ITER_TYPES = (
    "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized", "Parallelized", "Tensorized",
)  # fmt: skip

# Above this number of text pieces, the shared subexpressions of an expression are assigned to names.
_TREE_LIMIT = 200_000


def float_text(value: float) -> str:
    if math.isnan(value):
        return '"nan"'
    if math.isinf(value):
        return '"inf"' if value > 0 else '"-inf"'
    text = repr(value)
    return text.removesuffix(".0")


class Names:
    """Names of objects: each is unique and a valid Python identifier."""

    def __init__(self, reserved: tuple[str, ...]):
        self.table: dict[int, str] = {}
        self.keep: list[Any] = []
        self.used: set[str] = set(reserved) | set(keyword.kwlist) | {"range"}

    def fresh(self, hint: str) -> str:
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint) or "v"
        if base[0].isdigit():
            base = "_" + base
        name, count = base, 0
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        return name

    def define(self, node: Any, hint: str) -> str:
        return self.bind(node, self.fresh(hint))

    def bind(self, node: Any, text: str) -> str:
        """Print ``node`` as ``text`` from now on."""
        self.table[id(node)] = text
        self.keep.append(node)
        return text

    def get(self, node: Any) -> str | None:
        return self.table.get(id(node))


class Writer:
    """A printer of everything except statements.

    ``declarations`` collects lines for objects that are used before their definition, ``shared`` lines that assign
    names to subexpressions. The caller prints both before the text.
    """

    def __init__(self, options: Options):
        self.options = options
        self.t = options.tir_prefix
        self.names = Names((options.tir_prefix, options.ir_prefix))
        self.declarations: list[str] = []
        self.shared: list[str] = []
        self.module_name = ""

    # --- names ---

    def var(self, var: Var) -> str:
        got = self.names.get(var)
        if got is None:
            got = self.names.define(var, var.name)
            self.declarations.append(f"{got} = {self.var_declaration(var)}")
        return got

    def buffer(self, buffer: Any) -> str:
        got = self.names.get(buffer)
        if got is None:
            got = self.names.define(buffer, buffer.name or "buf")
            self.declarations.append(f"{got} = {self.buffer_declaration(buffer, got, 'Buffer')}")
        return got

    def var_declaration(self, var: Var) -> str:
        size = "is_size_var=True" if isinstance(var, SizeVar) else ""
        kind = var.type_annotation
        if isinstance(kind, PointerType):
            return self.type_text(kind, size)
        return f"{self.t}.{var.dtype}({size})"

    def type_text(self, kind: Any, extra: str = "") -> str:
        if isinstance(kind, PointerType):
            element = kind.element_type
            args = [json.dumps(element.dtype) if isinstance(element, PrimType) else self.type_text(element)]
            if kind.storage_scope:
                args.append(json.dumps(kind.storage_scope))
            return f"{self.t}.handle({', '.join(args + ([extra] if extra else []))})"
        if isinstance(kind, TupleType):
            if not kind.fields:
                return "None"
            return f"{self.t}.Tuple({', '.join(self.type_text(f) for f in kind.fields)})"
        if isinstance(kind, PrimType):
            return f"{self.t}.{kind.dtype}"
        return str(kind)

    # --- buffers ---

    def buffer_declaration(self, buffer: Buffer, name: str, function: str, first: str = "", data: bool = True) -> str:
        """Return the call that creates ``buffer``. Variables that only the buffer defines are printed as its attributes
        from now on."""
        args = [first] if first else []
        args.append(self.tuple_text(buffer.shape))
        if buffer.dtype != self.options.buffer_dtype:
            args.append(json.dumps(buffer.dtype))
        if self.names.get(buffer.data) is None:
            self.names.bind(buffer.data, f"{name}.data")
        elif data:
            args.append(f"data={self.text(buffer.data)}")
        args += self._layout(buffer, name)
        if buffer.scope() != "global":
            args.append(f"scope={json.dumps(buffer.scope())}")
        if buffer.data_alignment != 64:
            args.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor != 1:
            args.append(f"offset_factor={buffer.offset_factor}")
        if buffer.buffer_type:
            args.append('buffer_type="auto"')
        if buffer.axis_separators:
            args.append(f"axis_separators=[{', '.join(map(str, buffer.axis_separators))}]")
        return f"{self.t}.{function}({', '.join(args)})"

    def _layout(self, buffer: Buffer, name: str) -> list[str]:
        out = []
        if buffer.strides:
            texts = []
            for i, stride in enumerate(buffer.strides):
                if isinstance(stride, Var) and self.names.get(stride) is None:
                    self.names.bind(stride, f"{name}.strides[{i}]")
                    texts.append(json.dumps(stride.name))
                else:
                    texts.append(self.text(stride))
            out.append(f"strides=({', '.join(texts)}{',' if len(texts) == 1 else ''})")
        offset = buffer.elem_offset
        if isinstance(offset, Var) and self.names.get(offset) is None:
            self.names.bind(offset, f"{name}.elem_offset")
        elif not (isinstance(offset, IntImm) and offset.value == 0):
            out.append(f"elem_offset={self.text(offset)}")
        return out

    def buffer_annotation(self, buffer: Buffer) -> str:
        return f"{self.t}.Buffer({self.tuple_text(buffer.shape)}, {json.dumps(buffer.dtype)})"

    def tuple_text(self, items) -> str:
        texts = [self.text(i) for i in items]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    # --- expressions ---

    def text(self, e: Node, level: int = 0) -> str:
        """Return the text of an expression, in parentheses if its precedence is lower than ``level``."""
        got = self._write(e, level, {}, _TREE_LIMIT)
        if got is not None:
            return got
        return self._write_shared(e, level)

    def _write(self, e: Node, level: int, named: dict[int, str], limit: float) -> str | None:
        out: list[str] = []
        stack: list[Any] = [(e, level)]
        while stack:
            item = stack.pop()
            if item.__class__ is str:
                out.append(item)
                continue
            node, wanted = item
            name = named.get(id(node))
            if name is not None and node is not e:
                out.append(name)
                continue
            handler = EXPRESSIONS.get(type(node))
            if handler is None:
                out.append(self.value(node))
                continue
            strength, parts = handler(self, node)
            if strength < wanted:
                out.append("(")
                stack.append(")")
            stack.extend(reversed(parts))
            if len(out) > limit:
                return None
        return "".join(out)

    def _write_shared(self, e: Node, level: int) -> str:
        """Return the text of an expression after lines that assign names to its repeated subexpressions."""
        uses: dict[int, int] = {}
        order = list(post_order(e))
        for node in order:
            for child in node.children():
                uses[id(child)] = uses.get(id(child), 0) + 1
        named: dict[int, str] = {}
        for node in order:
            if uses.get(id(node), 0) > 1 and node.children() and isinstance(node, PrimExpr):
                text = self._write(node, 0, named, math.inf)
                named[id(node)] = self.names.fresh("shared")
                self.shared.append(f"{named[id(node)]}: {self.t}.{node.dtype} = {text}")
        return self._write(e, level, named, math.inf) or ""

    def index_parts(self, indices) -> list[Any]:
        if not indices:
            return ["[()]"]
        parts: list[Any] = ["["]
        for n, index in enumerate(indices):
            if n:
                parts.append(", ")
            if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
                stop = add(index.base, multiply(index.stride, index.lanes))
                parts += slice_parts(index.base, stop, index.stride.value)
            else:
                parts.append((index, 0))
        parts.append("]")
        return parts

    def region_text(self, buffer: str, region) -> str:
        parts: list[Any] = [buffer, "["]
        for n, r in enumerate(region):
            if n:
                parts.append(", ")
            if isinstance(r.extent, IntImm) and r.extent.value == 1:
                parts.append((r.min, 0))
            else:
                parts += slice_parts(r.min, end_of(r), 1)
        parts.append("]" if region else "()]")
        return "".join(p if isinstance(p, str) else self.text(p[0], p[1]) for p in parts)

    def call_parts(self, function: str, args, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> list[Any]:
        parts: list[Any] = [function, "("]
        for arg in (*before, *((a, 0) for a in args), *after):
            parts += [arg, ", "]
        if len(parts) > 2:
            parts.pop()
        parts.append(")")
        return parts

    def tir_call(self, function: str, *args: Any) -> list[Any]:
        """Return the parts of ``T.function(args)``; string arguments are already text, nodes are expressions."""
        parts: list[Any] = [f"{self.t}.{function}("]
        for n, arg in enumerate(args):
            if n:
                parts.append(", ")
            parts.append(arg if isinstance(arg, str) else (arg, 0))
        parts.append(")")
        return parts

    # --- values of attributes ---

    def value(self, value: Any) -> str:
        """Return the text of an object in an attribute, annotation or AttrStmt."""
        if value is None:
            return "None"
        if isinstance(value, bool):
            return f"{self.t}.bool({value})"
        if isinstance(value, int):
            return str(int(value)) if -(1 << 31) <= value < (1 << 31) else f"{self.t}.int64({int(value)})"
        if isinstance(value, float):
            return f"{self.t}.float32({float_text(value)})"
        if isinstance(value, str):
            return json.dumps(str(value))
        if isinstance(value, Mapping):
            return self.dict_text(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.value(v) for v in value)}]"
        special = VALUES.get(type(value))
        if special is not None:
            return special(self, value)
        if type(value) in EXPRESSIONS:
            return self.text(value)
        if hasattr(value, "export") and hasattr(value, "kind"):
            return f"{self.t}.target({self.value(value.export())})"
        if isinstance(value, Node):
            return str(value)
        return json.dumps(str(value))

    def dict_text(self, items: Mapping) -> str:
        pairs = sorted((self.value(str(k)) if not isinstance(k, Node) else self.value(k), v) for k, v in items.items())
        return "{" + ", ".join(f"{k}: {self.value(v)}" for k, v in pairs) + "}"


def end_of(r: Any) -> PrimExpr:
    """Return the first value after a Range or loop."""
    if isinstance(r.extent, Sub) and r.extent.b is r.min:
        return r.extent.a
    return add(r.min, r.extent)


def slice_parts(start: PrimExpr, stop: PrimExpr, step: int) -> list[Any]:
    parts: list[Any] = [(start, 0), ":", (stop, 0)]
    return parts if step == 1 else [*parts, f":{step}"]


# --- one function per expression class: returns (precedence, parts) ---


def _var(w: Writer, e: Var):
    return ATOM, [w.var(e)]


def _int(w: Writer, e: IntImm):
    if e.dtype == "bool":
        return ATOM, [f"{w.t}.bool({bool(e.value)})"]
    if e.dtype == w.options.int_dtype:
        return ATOM, [str(e.value)]
    return ATOM, [f"{w.t}.{e.dtype}({e.value})"]


def _float(w: Writer, e: FloatImm):
    if e.dtype == w.options.float_dtype and math.isfinite(e.value):
        return ATOM, [repr(e.value)]
    return ATOM, [f"{w.t}.{e.dtype}({float_text(e.value)})"]


def _string(w: Writer, e: StringImm):
    return ATOM, [json.dumps(e.value)]


def _binary(w: Writer, e):
    sign, strength = _BINARY[type(e)]
    if isinstance(e.a, ConstExpr) and isinstance(e.b, ConstExpr):
        # The parser would fold the operator form.
        return ATOM, w.tir_call(type(e).__name__, e.a, e.b)
    left = strength + 1 if strength == COMPARE else strength
    return strength, [(e.a, left), f" {sign} ", (e.b, strength + 1)]


def _div(w: Writer, e: Div):
    if info(e.a.dtype).is_float and not (isinstance(e.a, ConstExpr) and isinstance(e.b, ConstExpr)):
        return PRODUCT, [(e.a, PRODUCT), " / ", (e.b, PRODUCT + 1)]
    return ATOM, w.tir_call("Div", e.a, e.b)


def _two(name: str) -> Callable:
    return lambda w, e: (ATOM, w.tir_call(name, e.a, e.b))


def _not(w: Writer, e: Not):
    return NOT, ["not ", (e.a, NOT)]


def _cast(w: Writer, e: Cast):
    return ATOM, w.tir_call("Cast", json.dumps(e.dtype), e.value)


def _select(w: Writer, e: Select):
    return ATOM, w.tir_call("Select", e.condition, e.true_value, e.false_value)


def _ramp(w: Writer, e: Ramp):
    return ATOM, w.tir_call("Ramp", e.base, e.stride, str(e.lanes))


def _broadcast(w: Writer, e: Broadcast):
    return ATOM, w.tir_call("Broadcast", e.value, str(e.lanes))


def _shuffle(w: Writer, e: Shuffle):
    parts: list[Any] = [f"{w.t}.Shuffle("]
    parts += [*_list(e.vectors), ", ", *_list(e.indices), ")"]
    return ATOM, parts


def _list(items) -> list[Any]:
    parts: list[Any] = ["["]
    for n, item in enumerate(items):
        if n:
            parts.append(", ")
        parts.append((item, 0))
    return [*parts, "]"]


def _call(w: Writer, e: Call):
    op = e.op
    if isinstance(op, Op):
        name = op.attrs.get("TScriptPrinterName") or op.name.removeprefix("tir.")
        where = op.attrs.get("TScriptDtypePrintLocation")
        dtype = (json.dumps(e.dtype),)
        return ATOM, w.call_parts(
            f"{w.t}.{name}", e.args, dtype if where == "first" else (), dtype if where == "last" else ()
        )
    name = w.value(op)
    return ATOM, w.call_parts(name, e.args)


def _let(w: Writer, e: Let):
    var = w.names.get(e.var) or w.names.define(e.var, e.var.name)
    return ATOM, [f"{w.t}.Let(", (e.body, 0), f", where={{{var}: ", (e.value, 0), "})"]


def _load(w: Writer, e: BufferLoad):
    return ATOM, [w.buffer(e.buffer), *w.index_parts(e.indices)]


def producer_name(producer: Any) -> str:
    """Return the name of the tensor or other object that is loaded from."""
    return str(getattr(producer, "name", None) or producer.op.name)


def _producer(w: Writer, e: ProducerLoad):
    return ATOM, [producer_name(e.producer), *w.index_parts(e.indices)]


def _reduce(w: Writer, e: Reduce):
    parts: list[Any] = [f"{w.t}.reduce(", (e.combiner, 0), ", source=", *_list(e.source), ", init=", *_list(e.init)]
    parts += [", axis=", *_list(e.axis), ", condition=", (e.condition, 0), f", value_index={e.value_index})"]
    return ATOM, parts


def _reducer(w: Writer, e: CommReducer):
    names = [w.names.define(v, v.name) for v in (*e.lhs, *e.rhs)]
    w.names.used.difference_update(names)
    body = _list(e.result) if len(e.result) > 1 else [(e.result[0], 0)]
    if len(e.result) > 1:
        body[0], body[-1] = "(", ")"
    head = f"{w.t}.comm_reducer(lambda {', '.join(names)}: "
    return ATOM, [head, *body, ", ", *_list(e.identity_element), ")"]


def _range(w: Writer, e: Range):
    return ATOM, w.tir_call("Range", e.min, end_of(e))


def _iter_var(w: Writer, e: IterVar):
    dom: Any = "None" if e.dom is None else e.dom
    return ATOM, w.tir_call("iter_var", e.var, dom, json.dumps(ITER_TYPES[e.iter_type]), json.dumps(e.thread_tag))


def _any(w: Writer, e: Any_):
    return ATOM, [f"{w.t}.Any()"]


def _buffer(w: Writer, e: Buffer):
    return ATOM, [w.buffer(e)]


def _region(w: Writer, e: BufferRegion):
    return ATOM, [w.region_text(w.buffer(e.buffer), e.region)]


def _global_var(w: Writer, e: GlobalVar) -> str:
    if w.module_name:
        return f"{w.module_name}.{e.name_hint}"
    return f"{w.options.ir_prefix}.GlobalVar({json.dumps(e.name_hint)})"


EXPRESSIONS: dict[type, Callable] = {
    Var: _var, SizeVar: _var, IntImm: _int, FloatImm: _float, StringImm: _string, **dict.fromkeys(_BINARY, _binary),
    Div: _div, Mod: _two("truncmod"), Min: _two("min"), Max: _two("max"), Not: _not, Cast: _cast, Select: _select,
    Ramp: _ramp, Broadcast: _broadcast, Shuffle: _shuffle, Call: _call, Let: _let, BufferLoad: _load,
    ProducerLoad: _producer, Reduce: _reduce, CommReducer: _reducer, Range: _range, IterVar: _iter_var, Any_: _any,
    Buffer: _buffer, BufferRegion: _region,
}  # fmt: skip

# Printers for objects of other layers inside TVMScript: type -> f(writer, object) -> text.
VALUES: dict[type, Callable[[Writer, Any], str]] = {
    GlobalVar: _global_var,
    PrimType: lambda w, t: w.type_text(t),
    PointerType: lambda w, t: w.type_text(t),
    TupleType: lambda w, t: w.type_text(t),
}
