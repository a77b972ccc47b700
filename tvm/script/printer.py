"""TVMScript text of statements, functions and modules, and the text of any node (``str(node)``).

The text of a whole program is the same as in Apache TVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..ir import node as ir_node
from ..ir.module import IRModule
from ..ir.node import Node
from ..ir.prim import Call, IntImm, IterVar, PrimExpr, StringImm, Var
from ..ir.subst import uses_var
from ..ir.type import TupleType
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
)
from . import te_text
from .declare import THREAD_KEYS, Declarations
from .expr_text import EXPRESSIONS, VALUES, Options, Writer, end_of, producer_name
from .inline_buffers import inline_buffers

_LOOPS = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


class Printer:
    """A printer of statements."""

    def __init__(self, options: Options, writer: Writer | None = None):
        self.options = options
        self.w = writer or Writer(options)
        self.t = options.tir_prefix
        self.lines: list[str] = []
        self.depth = 0
        self.places = Declarations()

    def line(self, text: str) -> None:
        pad = " " * (self.options.indent_spaces * self.depth)
        for lines in (self.w.declarations, self.w.shared):
            self.lines.extend(pad + line for line in lines)
            lines.clear()
        self.lines.append(pad + text)

    def text(self, e: Node, level: int = 0) -> str:
        return self.w.text(e, level)

    # --- bodies ---

    def body(self, stmt: Stmt) -> None:
        """Print ``stmt`` as an indented body."""
        self.depth += 1
        self.statement(stmt, True)
        self.depth -= 1

    def statement(self, stmt: Stmt, last: bool) -> None:
        """Print a statement. ``last`` means that it is the last of its body, so its scopes need no ``with``."""
        if isinstance(stmt, SeqStmt):
            for n, child in enumerate(stmt.seq):
                self.statement(child, last and n == len(stmt.seq) - 1)
            return
        self.declare_here(stmt)
        handler = STATEMENTS.get(type(stmt))
        if handler is None:
            self.line(self.w.value(stmt))
        else:
            handler(self, stmt, last)

    def declare_here(self, stmt: Stmt) -> None:
        for buffer in self.places.before.get(id(stmt), ()):
            if self.w.names.get(buffer) is None:
                name = self.w.names.define(buffer, buffer.name or "buf")
                self.line(f"{name} = {self.w.buffer_declaration(buffer, name, 'Buffer')}")

    def scope(self, call: str, name: str | None, body: Stmt, last: bool, annotation: str = "") -> None:
        """Print a statement with a ``body``: as a separate line if it is the last of its body, else with ``with``."""
        if last:
            self.line(f"{name}{annotation} = {call}" if name else call)
            self.statement(body, True)
        else:
            self.line(f"with {call} as {name}:" if name else f"with {call}:")
            self.body(body)

    def declare_free(self) -> None:
        for var in self.places.free:
            if self.w.names.get(var) is None:
                name = self.w.names.define(var, var.name)
                self.line(f"{name} = {self.w.var_declaration(var)}")
        for axis in self.places.env_threads:
            name = self.w.names.define(axis.var, axis.var.name)
            self.line(f"{name} = {self.t}.env_thread({json.dumps(axis.thread_tag)})")

    # --- functions and modules ---

    def function(self, func: PrimFunc, name: str) -> None:
        self.places = Declarations().scan_function(func)
        shown = {k: v for k, v in func.attrs.items() if k != "global_symbol" or v != name}
        private = "" if "global_symbol" in func.attrs else "(private=True)"
        self.line(f"@{self.t}.prim_func{private}")
        params, matches = [], []
        inline = inline_buffers(func) if self.options.syntax_sugar else set()
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and id(buffer) in inline:
                text = self.w.names.define(buffer, buffer.name or "buf")
                self.w.names.bind(buffer.data, f"{text}.data")
                params.append(f"{text}: {self.w.buffer_annotation(buffer)}")
                continue
            text = self.w.names.define(param, param.name)
            params.append(f"{text}: {self._parameter_type(param)}")
            if buffer is not None:
                matches.append((text, buffer))
        result = "" if _is_void(func.ret_type) else f" -> {self.w.type_text(func.ret_type)}"
        self.line(f"def {name}({', '.join(params)}){result}:")
        self.depth += 1
        if shown:
            self.line(f"{self.t}.func_attr({self.w.dict_text(shown)})")
        self.declare_free()
        for param, buffer in matches:
            text = self.w.names.define(buffer, buffer.name or "buf")
            self.line(f"{text} = {self.w.buffer_declaration(buffer, text, 'match_buffer', param)}")
        if not (self.options.syntax_sugar and self._root_block(func.body)):
            self.statement(func.body, True)
        self.depth -= 1

    def _parameter_type(self, param: Var) -> str:
        kind = self.w.type_text(param.type_annotation)
        return f"{self.t}.handle" if kind == f"{self.t}.handle()" else kind

    def _root_block(self, stmt: Stmt) -> bool:
        """Print only the contents of the outermost block if it contains nothing but blocks."""
        if not isinstance(stmt, BlockRealize) or stmt.block.name_hint != "root":
            return False
        block = stmt.block
        if block.iter_vars or block.reads or block.writes or block.match_buffers or block.init is not None:
            return False
        self.line(f"# with {self.t}.block({json.dumps(block.name_hint)}):")
        _block_contents(self, block)
        return True

    def module(self, mod: IRModule) -> None:
        name = self.options.name or "Module"
        i = self.options.ir_prefix
        self.line(f"@{i}.ir_module")
        self.line(f"class {name}:")
        self.depth += 1
        if mod.attrs:
            self.line(f"{i}.module_attrs({self.w.dict_text(mod.attrs)})")
        for n, var in enumerate(mod.get_global_vars()):
            func = mod.functions[var]
            if n or mod.attrs:
                self.lines.append("")
            part = Printer(self.options)
            part.w.module_name = name
            part.depth = self.depth
            if isinstance(func, PrimFunc):
                part.function(func, var.name_hint)
            else:
                part.line(f"{var.name_hint} = {func}")
            self.lines += part.lines
        if not mod.functions and not mod.attrs:
            self.line("pass")
        self.depth -= 1


def _is_void(kind: Any) -> bool:
    return kind is None or (isinstance(kind, TupleType) and not kind.fields)


# --- one function per statement class -------------------------------------------------------------------------------


def _let(p: Printer, s: LetStmt, last: bool) -> None:
    value = p.text(s.value)
    known = p.w.names.get(s.var)
    if known is not None:
        p.scope(f"{p.t}.LetStmt({value}, var={known})", None, s.body, last=False)
    elif last:
        name = p.w.names.define(s.var, s.var.name)
        p.line(f"{name}: {p.w.type_text(s.var.type_annotation)} = {value}")
        p.statement(s.body, True)
    else:
        p.scope(f"{p.t}.LetStmt({value})", p.w.names.define(s.var, s.var.name), s.body, last)


def _assert(p: Printer, s: AssertStmt, last: bool) -> None:
    condition, message = p.text(s.condition), p.text(s.message)
    if last:
        p.line(f"assert {condition}, {message}")
        p.statement(s.body, True)
    else:
        p.scope(f"{p.t}.Assert({condition}, {message})", None, s.body, last)


def _attr(p: Printer, s: AttrStmt, last: bool) -> None:
    node = s.node
    if isinstance(node, IterVar) and s.attr_key in THREAD_KEYS:
        known = p.w.names.get(node.var)
        extent = p.text(s.value)
        if known is not None:
            p.scope(f"{p.t}.launch_thread({known}, {extent})", None, s.body, last)
        else:
            name = p.w.names.define(node.var, node.var.name)
            p.scope(f"{p.t}.launch_thread({json.dumps(node.thread_tag)}, {extent})", name, s.body, last)
        return
    value = p.w.value(s.value)
    p.scope(f"{p.t}.attr({p.w.value(node)}, {json.dumps(s.attr_key)}, {value})", None, s.body, last)


def _grid(p: Printer, s: For) -> list[For]:
    """Return the nested loops, starting at ``s``, that ``T.grid`` can print as one statement."""
    loops = [s]
    while _is_plain(loops[-1]):
        inner = loops[-1].body
        if not isinstance(inner, For) or not _is_plain(inner) or p.places.before.get(id(inner)):
            break
        if uses_var(inner.extent, [loop.loop_var for loop in loops]):
            break
        loops.append(inner)
    return loops


def _is_plain(s: For) -> bool:
    return s.kind == ForKind.SERIAL and not s.annotations and isinstance(s.min, IntImm) and s.min.value == 0


def _for(p: Printer, s: For, last: bool) -> None:
    loops = _grid(p, s) if p.options.syntax_sugar else [s]
    if len(loops) > 1:
        extents = ", ".join(p.text(loop.extent) for loop in loops)
        names = ", ".join(p.w.names.define(loop.loop_var, loop.loop_var.name) for loop in loops)
        p.line(f"for {names} in {p.t}.grid({extents}):")
        p.body(loops[-1].body)
        return
    zero = isinstance(s.min, IntImm) and s.min.value == 0
    args = [p.text(s.extent)] if zero else [p.text(s.min), p.text(end_of(s))]
    if s.thread_binding is not None:
        args.append(f"thread={json.dumps(s.thread_binding.thread_tag)}")
    if s.annotations:
        args.append(f"annotations={p.w.dict_text(s.annotations)}")
    plain = s.kind == ForKind.SERIAL and not s.annotations
    function = "range" if plain else f"{p.t}.{_LOOPS[s.kind]}"
    p.line(f"for {p.w.names.define(s.loop_var, s.loop_var.name)} in {function}({', '.join(args)}):")
    p.body(s.body)


def _while(p: Printer, s: While, last: bool) -> None:
    p.line(f"while {p.text(s.condition)}:")
    p.body(s.body)


def _store(p: Printer, s: BufferStore, last: bool) -> None:
    value = p.text(s.value)
    index = "".join(x if isinstance(x, str) else p.text(*x) for x in p.w.index_parts(s.indices))
    p.line(f"{p.w.buffer(s.buffer)}{index} = {value}")


def _producer_store(p: Printer, s: ProducerStore, last: bool) -> None:
    index = "".join(x if isinstance(x, str) else p.text(*x) for x in p.w.index_parts(s.indices))
    p.line(f"{producer_name(s.producer)}{index} = {p.text(s.value)}")


def _condition(p: Printer, condition: PrimExpr) -> str:
    return "" if isinstance(condition, IntImm) and condition.value else f", {p.text(condition)}"


def _realize(p: Printer, s: BufferRealize, last: bool) -> None:
    region = p.w.region_text(p.w.buffer(s.buffer), s.bounds)
    scope = json.dumps(s.buffer.scope())
    p.scope(f"{p.t}.realize({region}, {scope}{_condition(p, s.condition)})", None, s.body, last)


def _producer_realize(p: Printer, s: ProducerRealize, last: bool) -> None:
    region = p.w.region_text(producer_name(s.producer), s.bounds)
    scope = json.dumps(s.storage_scope or "global")
    p.scope(f"{p.t}.realize({region}, {scope}{_condition(p, s.condition)})", None, s.body, False)


def _allocate(p: Printer, s: Allocate, last: bool) -> None:
    inner = s.body
    if p.options.syntax_sugar and isinstance(inner, DeclBuffer) and _declares(inner.buffer, s):
        buffer = inner.buffer
        name = p.w.names.define(buffer, buffer.name or "buf")
        call = p.w.buffer_declaration(buffer, name, "decl_buffer")
        p.scope(call, name, inner.body, last)
        return
    extents = ", ".join(p.text(e) for e in s.extents)
    kind = s.buffer_var.type_annotation
    args = [f"[{extents}]", json.dumps(s.dtype), json.dumps(getattr(kind, "storage_scope", "") or "global")]
    condition = _condition(p, s.condition)
    if condition:
        args.append(condition[2:])
    if s.annotations:
        args.append(f"annotations={p.w.dict_text(s.annotations)}")
    name = p.w.names.define(s.buffer_var, s.buffer_var.name)
    p.scope(f"{p.t}.allocate({', '.join(args)})", name, s.body, last)


def _declares(buffer: Buffer, s: Allocate) -> bool:
    """Return whether the buffer describes exactly the allocated memory."""
    same = len(buffer.shape) == len(s.extents) and all(
        a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value and a.dtype == b.dtype)
        for a, b in zip(buffer.shape, s.extents)
    )
    return (
        same
        and buffer.data is s.buffer_var
        and buffer.dtype == s.dtype
        and not s.annotations
        and isinstance(s.condition, IntImm)
    )


def _allocate_const(p: Printer, s: AllocateConst, last: bool) -> None:
    data = s.data_or_idx
    if data is None or isinstance(data, (int, IntImm)):
        text = "None" if data is None else str(int(data))
    else:
        array = data.numpy() if hasattr(data, "numpy") else data
        text = str(array.tolist())
    extents = ", ".join(p.text(e) for e in s.extents)
    name = p.w.names.define(s.buffer_var, s.buffer_var.name)
    p.scope(f"{p.t}.allocate_const({text}, {json.dumps(s.dtype)}, [{extents}])", name, s.body, last)


def _decl_buffer(p: Printer, s: DeclBuffer, last: bool) -> None:
    name = p.w.names.define(s.buffer, s.buffer.name or "buf")
    p.scope(p.w.buffer_declaration(s.buffer, name, "decl_buffer"), name, s.body, last)


def _if(p: Printer, s: IfThenElse, last: bool) -> None:
    word = "if"
    while True:
        p.line(f"{word} {p.text(s.condition)}:")
        p.body(s.then_case)
        other = s.else_case
        if other is None:
            return
        if not isinstance(other, IfThenElse) or p.places.before.get(id(other)):
            break
        s, word = other, "elif"
    p.line("else:")
    p.body(other)


def _evaluate(p: Printer, s: Evaluate, last: bool) -> None:
    text = p.text(s.value)
    p.line(text if isinstance(s.value, Call) else f"{p.t}.evaluate({text})")


def _prefetch(p: Printer, s: Prefetch, last: bool) -> None:
    bounds = ", ".join(p.text(r) for r in s.bounds)
    p.line(f"{p.t}.prefetch({p.w.buffer(s.buffer)}, [{bounds}])")


def _block_realize(p: Printer, s: BlockRealize, last: bool) -> None:
    p.line(f"with {p.t}.block({json.dumps(s.block.name_hint)}):")
    p.depth += 1
    p.declare_here(s.block)
    _axes(p, s.block.iter_vars, s.iter_values)
    if not (isinstance(s.predicate, IntImm) and s.predicate.value):
        p.line(f"{p.t}.where({p.text(s.predicate)})")
    _block_regions(p, s.block)
    _block_contents(p, s.block)
    p.depth -= 1


def _block(p: Printer, s: Block, last: bool) -> None:
    p.line(f"with {p.t}.block({json.dumps(s.name_hint)}, no_realize=True):")
    p.depth += 1
    _axes(p, s.iter_vars, None)
    _block_regions(p, s)
    _block_contents(p, s)
    p.depth -= 1


_AXES = {0: "spatial", 2: "reduce", 3: "scan"}


def _axes(p: Printer, iter_vars, values) -> None:
    """Print block axes; axes that are bound to whole loops are printed together as ``remap``."""
    run: list[tuple[IterVar, PrimExpr]] = []
    for n, iv in enumerate(iter_vars):
        value = None if values is None else values[n]
        if p.options.syntax_sugar and isinstance(value, Var) and iv.iter_type in (0, 2) and _from_zero(iv):
            run.append((iv, value))
            continue
        _axis_run(p, run)
        run = []
        _axis(p, iv, value)
    _axis_run(p, run)


def _from_zero(iv: IterVar) -> bool:
    return isinstance(iv.dom.min, IntImm) and iv.dom.min.value == 0


def _axis_run(p: Printer, run) -> None:
    if len(run) < 2:
        for iv, value in run:
            _axis(p, iv, value)
        return
    values = ", ".join(p.text(v) for _, v in run)
    letters = "".join("S" if iv.iter_type == 0 else "R" for iv, _ in run)
    names = ", ".join(p.w.names.define(iv.var, iv.var.name) for iv, _ in run)
    p.line(f'{names} = {p.t}.axis.remap("{letters}", [{values}])')


def _axis(p: Printer, iv: IterVar, value) -> None:
    dom = iv.dom
    args = p.text(dom.extent) if _from_zero(iv) else f"({p.text(dom.min)}, {p.text(end_of(dom))})"
    if value is not None:
        args += f", {p.text(value)}"
    kind = _AXES.get(iv.iter_type, "opaque")
    p.line(f"{p.w.names.define(iv.var, iv.var.name)} = {p.t}.axis.{kind}({args})")


def _block_regions(p: Printer, block: Block) -> None:
    for word, regions in (("reads", block.reads), ("writes", block.writes)):
        texts = ", ".join(p.w.region_text(p.w.buffer(r.buffer), r.region) for r in regions)
        p.line(f"{p.t}.{word}({texts})")


def _block_contents(p: Printer, block: Block) -> None:
    if block.annotations:
        p.line(f"{p.t}.block_attr({p.w.dict_text(block.annotations)})")
    for buffer in block.alloc_buffers:
        name = p.w.names.define(buffer, buffer.name or "buf")
        p.line(f"{name} = {p.w.buffer_declaration(buffer, name, 'alloc_buffer')}")
    for match in block.match_buffers:
        p.line(_match_text(p, match))
    if block.init is not None:
        p.line(f"with {p.t}.init():")
        p.body(block.init)
    p.statement(block.body, True)


def _match_text(p: Printer, match: MatchBufferRegion) -> str:
    source = p.w.region_text(p.w.buffer(match.source.buffer), match.source.region)
    name = p.w.names.define(match.buffer, match.buffer.name or "buf")
    return f"{name} = {p.w.buffer_declaration(match.buffer, name, 'match_buffer', source)}"


STATEMENTS: dict[type, Callable[[Printer, Any, bool], None]] = {
    LetStmt: _let, AssertStmt: _assert, AttrStmt: _attr, For: _for, While: _while, BufferStore: _store,
    ProducerStore: _producer_store, BufferRealize: _realize, ProducerRealize: _producer_realize, Allocate: _allocate,
    AllocateConst: _allocate_const, DeclBuffer: _decl_buffer, IfThenElse: _if, Evaluate: _evaluate,
    Prefetch: _prefetch, BlockRealize: _block_realize, Block: _block,
}  # fmt: skip


# --- entry points ---------------------------------------------------------------------------------------------------

# Printers for whole objects: type -> f(object, options) -> text. Other layers add entries with ``register_printer``.
TEXT: dict[type, Callable[[Any, Options], str]] = {}


def register_printer(cls: type, function: Callable[[Any, Options], str]) -> None:
    """Register the printer of ``str(node)`` for a class; it also applies to subclasses without a printer."""
    TEXT[cls] = function


def _expression_text(node: Node, options: Options) -> str:
    writer = Writer(options)
    text = writer.text(node)
    declarations = writer.declarations if options.verbose_expr else []
    return "\n".join([*declarations, *writer.shared, text])


def _statement_text(node: Stmt, options: Options) -> str:
    printer = Printer(options)
    printer.places.scan_statement(node)
    printer.declare_free()
    printer.statement(node, False)
    return "\n".join(printer.lines)


def _match_region_text(node: MatchBufferRegion, options: Options) -> str:
    printer = Printer(options)
    printer.line(_match_text(printer, node))
    return "\n".join(printer.lines)


def _function_text(func: PrimFunc, options: Options) -> str:
    printer = Printer(options)
    name = options.name or func.attrs.get("global_symbol") or "main"
    name = name.value if isinstance(name, StringImm) else str(name)
    printer.function(func, name)
    return "\n".join([_header(options.tir_prefix, "tir"), "", *printer.lines])


def _module_text(mod: IRModule, options: Options) -> str:
    for func in mod.functions.values():
        other = MODULE_TEXT.get(type(func))
        if other is not None:
            return other(mod, options)
    printer = Printer(options)
    printer.module(mod)
    headers = [_header(options.ir_prefix, "ir")]
    if any(isinstance(f, PrimFunc) for f in mod.functions.values()):
        headers.append(_header(options.tir_prefix, "tir"))
    return "\n".join([*headers, "", *printer.lines])


# Printers for modules with functions of another IR: type of function -> f(module, options) -> text.
MODULE_TEXT: dict[type, Callable[[IRModule, Options], str]] = {}


def _header(prefix: str, part: str) -> str:
    return f"# from tvm.script import {part} as {prefix}"


def text_of(node: Any, options: Options) -> str:
    """Return the text of any node."""
    for cls in type(node).__mro__:
        function = TEXT.get(cls)
        if function is not None:
            return function(node, options)
    function = te_text.TEXT.get(getattr(node, "_type_key", ""))
    if function is not None:
        return function(node, options)
    return ir_node._plain_repr(node)


# Options of Apache TVM that request marks in the text. Marks are not supported, so only the default values are
# accepted.
_UNMARKED = {
    "num_context_lines": -1, "show_object_address": False, "path_to_underline": None, "path_to_annotate": None,
    "obj_to_underline": None, "obj_to_annotate": None,
}  # fmt: skip


def script(node: Any, **options: Any) -> str:
    """Return the TVMScript of a node; the options are the fields of ``Options``."""
    for name, default in _UNMARKED.items():
        if options.pop(name, default) not in (default, [], {}):
            raise ValueError(f"script: the option {name} is not supported; the text cannot contain marks")
    lines = options.get("print_line_numbers")
    text = text_of(node, Options(**options))
    if lines:
        width = len(str(text.count("\n") + 1))
        text = "\n".join(f"{n:>{width}} {line}".rstrip() for n, line in enumerate(text.split("\n"), 1))
    return text


def show(node: Any, **options: Any) -> None:
    """Print the TVMScript of a node."""
    print(script(node, **options))


for _cls in EXPRESSIONS:
    register_printer(_cls, _expression_text)
for _cls in VALUES:
    register_printer(_cls, lambda node, options: Writer(options).value(node))
register_printer(Stmt, _statement_text)
register_printer(MatchBufferRegion, _match_region_text)
register_printer(PrimFunc, _function_text)
register_printer(IRModule, _module_text)
