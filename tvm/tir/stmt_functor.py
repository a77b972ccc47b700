"""Traversal and rewriting of programs under the names of Apache TVM, and visitor classes with a bounded recursion
depth."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..ir import prim
from ..ir.node import Node
from ..ir.prim import BufferLoad, IterVar, Let, PrimExpr, Var, const, convert
from ..ir.primop import BUILD, is_literal
from ..ir.visit import post_order, pre_order, rewrite
from . import stmt as stmt_nodes
from .buffer import Buffer
from .function import PrimFunc
from .stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    SeqStmt,
    Stmt,
    seq,
)


def _root(node: Any) -> Node:
    return node.body if isinstance(node, PrimFunc) else convert(node)


def ir_transform(stmt: Stmt, preorder: Callable | None, postorder: Callable | None, only_enable=None) -> Stmt:
    """Rewrite ``stmt``.

    ``preorder(node)`` may return a replacement; then the operands of the node are not visited. ``postorder(node)``
    receives the node with rewritten operands. None keeps the node. ``only_enable`` limits the calls to some node types
    ("tir.For").

    Parameters
    ----------
    stmt : Stmt
        The program.
    preorder : callable
        The function that is called before the operands of a node are visited.
    postorder : callable
        The function that is called after the operands of a node are visited.
    only_enable : list of str, optional
        The node types for which the functions are called; all by default.

    Returns
    -------
    Stmt
        The rewritten statement; unchanged parts are the same objects as in ``stmt``.
    """
    kinds = None if only_enable is None else {str(getattr(k, "value", k)) for k in only_enable}

    def only(function: Callable | None) -> Callable | None:
        if function is None:
            return None

        def call(node: Node):
            if not isinstance(node, (Stmt, PrimExpr)):
                return None
            if kinds is not None and node._type_key not in kinds:
                return None
            return function(node)

        return call

    return rewrite(_root(stmt), only(postorder), only(preorder))


def post_order_visit(stmt: Node, fvisit: Callable[[Node], Any]) -> None:
    """Call ``fvisit`` once on every statement and expression, operands before the nodes that use them.

    Parameters
    ----------
    stmt : Stmt
        The program.
    fvisit : callable
        The function that is called with each node.

    Examples
    --------
    >>> found = []
    >>> x = te.var("x")
    >>> tvm.tir.stmt_functor.post_order_visit(x + 1, lambda node: found.append(type(node).__name__))
    >>> found
    ['Var', 'IntImm', 'Add']
    """
    for node in post_order(_root(stmt)):
        if isinstance(node, (Stmt, PrimExpr)):
            fvisit(node)


def pre_order_visit(stmt: Node, fvisit: Callable[[Node], bool]) -> None:
    """Call ``fvisit`` once on every statement and expression, nodes before their operands. If it returns False, the
    operands are not visited.

    Parameters
    ----------
    stmt : Stmt
        The program.
    fvisit : callable
        The function that is called with each node.
    """
    for _ in pre_order(_root(stmt), lambda n: isinstance(n, (Stmt, PrimExpr)) and fvisit(n) is False):
        pass


class Renaming:
    """A substitution of variables in expressions, in buffers and, if a variable is replaced by a variable, in
    definitions.

    Parameters
    ----------
    lookup : callable
        The function that returns the replacement of a variable, or None.
    buffers : Mapping[int, Buffer], optional
        Replacements of buffers, by the identities of the original buffers.
    """

    def __init__(self, lookup: Callable[[Var], Any], buffers: Mapping[int, Buffer] | None = None):
        self.lookup = lookup
        self._buffers: dict[int, tuple[Buffer, Buffer]] = {}
        self._memo: dict[int, tuple[Node, Node]] = {}
        self._known = dict(buffers or {})

    def __call__(self, node: Node) -> Any:
        return rewrite(node, self._post, memo=self._memo)

    def var(self, var: Var) -> Var:
        """The variable that replaces ``var`` in its definition.

        Parameters
        ----------
        var : Var
            The variable.

        Returns
        -------
        Var
            ``var`` itself if it has no replacement, or if the replacement is not a variable.
        """
        got = self.lookup(var)
        return got if isinstance(got, Var) else var

    def axis(self, axis: IterVar) -> IterVar:
        """The axis that replaces ``axis``: its variable is replaced, its range is unchanged.

        Parameters
        ----------
        axis : IterVar
            The axis.

        Returns
        -------
        IterVar
            ``axis`` itself if its variable has no replacement.
        """
        var = self.var(axis.var)
        return axis if var is axis.var else axis.replace(var=var)

    def all(self, items: tuple) -> tuple:
        """Expressions with their variables replaced.

        Parameters
        ----------
        items : tuple of PrimExpr
            The expressions, such as indices or a shape.

        Returns
        -------
        tuple of PrimExpr
            ``items`` itself if nothing changes.
        """
        new = tuple(self(i) for i in items)
        return items if all(a is b for a, b in zip(items, new)) else new

    def buffer(self, buffer: Any) -> Any:
        """The buffer that replaces another one; variables in its pointer, shape, strides and offset are replaced. Each
        buffer is replaced once, so that all accesses use the same new buffer.

        Parameters
        ----------
        buffer : Any
            A buffer; any other object is returned unchanged.

        Returns
        -------
        Any
        """
        if not isinstance(buffer, Buffer):
            return buffer
        got = self._buffers.get(id(buffer))
        if got is None:
            base = self._known.get(id(buffer), buffer)
            new = base.replace(
                data=self.var(buffer.data),
                shape=self.all(buffer.shape),
                strides=self.all(buffer.strides),
                elem_offset=self(buffer.elem_offset),
            )
            got = self._buffers[id(buffer)] = (buffer, new)
        return got[1]

    def _post(self, n: Node) -> Node | None:
        if isinstance(n, Var):
            got = self.lookup(n)
            if got is None or isinstance(got, PrimExpr):
                return got
            return const(got, n.dtype) if isinstance(got, (bool, int, float)) else convert(got)
        handler = _RENAME.get(type(n))
        return None if handler is None else handler(self, n)


class FoldingRenaming(Renaming):
    """A substitution that folds arithmetic on the constants it inserts.

    Parameters
    ----------
    lookup : callable
        The function that returns the replacement of a variable, or None.
    buffers : Mapping[int, Buffer], optional
        Replacements of buffers, by the identities of the original buffers.
    """

    def _post(self, n: Node) -> Node | None:
        got = super()._post(n)
        new: Any = n if got is None else got
        build = BUILD.get(type(new))
        if build is not None and (is_literal(new.a) or is_literal(new.b)):
            return build(new.a, new.b)
        return got


def _rename_access(r: Renaming, n):
    return n.replace(buffer=r.buffer(n.buffer))


def _rename_loop(r: Renaming, n: For):
    return n.replace(loop_var=r.var(n.loop_var))


def _rename_let(r: Renaming, n):
    return n.replace(var=r.var(n.var))


def _rename_allocate(r: Renaming, n):
    return n.replace(buffer_var=r.var(n.buffer_var))


def _rename_axis(r: Renaming, n: IterVar):
    return r.axis(n)


def _rename_attr(r: Renaming, n: AttrStmt):
    return n.replace(node=_rename_object(r, n.node))


def _rename_object(r: Renaming, node: Any) -> Any:
    if isinstance(node, Var):
        return r.var(node)
    if isinstance(node, Buffer):
        return r.buffer(node)
    if isinstance(node, IterVar):
        return r.axis(node)
    if isinstance(node, (list, tuple)):
        new = tuple(_rename_object(r, i) for i in node)
        return node if all(a is b for a, b in zip(node, new)) else new
    return node


def _rename_block(r: Renaming, n: Block):
    buffers = tuple(r.buffer(b) for b in n.alloc_buffers)
    return n if all(a is b for a, b in zip(buffers, n.alloc_buffers)) else n.replace(alloc_buffers=buffers)


_ACCESSES = (BufferLoad, BufferStore, BufferRealize, Prefetch, DeclBuffer, BufferRegion, MatchBufferRegion)

_RENAME: dict[type, Callable[[Renaming, Any], Node]] = {
    **dict.fromkeys(_ACCESSES, _rename_access),
    For: _rename_loop,
    Let: _rename_let,
    LetStmt: _rename_let,
    Allocate: _rename_allocate,
    AllocateConst: _rename_allocate,
    IterVar: _rename_axis,
    AttrStmt: _rename_attr,
    Block: _rename_block,
}


def substitute(node: Any, vmap: Mapping[Any, Any] | Callable[[Var], Any]) -> Any:
    """Replace variables in ``node``, also inside buffers. If ``vmap`` is a function, it returns None for variables to
    keep.

    Parameters
    ----------
    node
        A statement, an expression, a buffer region or a list of them.
    vmap : Mapping[Any, Any] | Callable[[Var], Any]
        The replacements of variables.

    Returns
    -------
    Stmt or PrimExpr
        The node with the variables replaced.

    Examples
    --------
    >>> x, y = te.var("x"), te.var("y")
    >>> tvm.tir.stmt_functor.substitute(x + 1, {x: y * 2})
    y * 2 + 1
    """
    if callable(vmap):
        lookup = vmap
    else:
        lookup = {getattr(k, "var", k): v for k, v in vmap.items()}.get
    renaming = Renaming(lookup)
    if isinstance(node, PrimFunc):
        return node.replace(body=renaming(node.body))
    if isinstance(node, (list, tuple)):
        return type(node)(renaming(n) for n in node)
    return renaming(convert(node))


def definitions(func: PrimFunc) -> tuple[list[Var], list[Buffer]]:
    """The variables and buffers that ``func`` defines, in order.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    tuple[list[Var], list[Buffer]]
    """
    variables: list[Var] = list(func.params)
    buffers: list[Buffer] = list(func.buffer_map.values())
    for buffer in buffers:
        fields = (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset)
        variables.extend(f for f in fields if isinstance(f, Var))
    for node in pre_order(func.body):
        if isinstance(node, For):
            variables.append(node.loop_var)
        elif isinstance(node, (Let, LetStmt)):
            variables.append(node.var)
        elif isinstance(node, (Allocate, AllocateConst)):
            variables.append(node.buffer_var)
        elif isinstance(node, AttrStmt) and isinstance(node.node, IterVar):
            variables.append(node.node.var)
        elif isinstance(node, Block):
            variables.extend(axis.var for axis in node.iter_vars)
            inner = [*node.alloc_buffers, *(m.buffer for m in node.match_buffers)]
            variables.extend(b.data for b in inner)
            buffers.extend(inner)
        elif isinstance(node, DeclBuffer):
            buffers.append(node.buffer)
    return list(dict.fromkeys(variables)), list(dict.fromkeys(buffers))


def renew_defs(func: PrimFunc) -> PrimFunc:
    """A copy of ``func`` with new variables and buffers, so that both functions can be used in one program.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    PrimFunc
    """
    variables, buffers = definitions(func)
    table = {v: v.copy_with_suffix("") for v in variables}
    copies = {id(b): Buffer(**{f: getattr(b, f) for f in b._fields}) for b in buffers}
    renaming = Renaming(table.get, copies)
    buffer_map = {table[p]: renaming.buffer(b) for p, b in func.buffer_map.items()}
    params = tuple(table[p] for p in func.params)
    return PrimFunc(params, renaming(func.body), func.ret_type, buffer_map, func.attrs, func.span)


# --- visitor classes -------------------------------------------------------------------------------------------------

# Operands of expressions of a greater height are visited before the expression itself, from the leaves up, so that
# overrides do not nest too deeply.
_HEIGHT_LIMIT = 100


def _method_name(cls: type) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__.rstrip("_"))
    return f"visit_{words.lower()}_"


def _node_classes() -> Iterable[type]:
    for module in (prim, stmt_nodes):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, (PrimExpr, Stmt)) and value._type_key:
                yield value


METHODS: dict[type, str] = {cls: _method_name(cls) for cls in _node_classes()}


def _height_above(root: Node, limit: int) -> bool:
    heights: dict[int, int] = {}
    for node in post_order(root):
        height = 1 + max((heights[id(c)] for c in node.children()), default=0)
        if height > limit:
            return True
        heights[id(node)] = height
    return False


class _Functor:
    """A base class with one method per node class: ``visit_for_``, ``visit_buffer_load_``, ``visit_add_``, ...
    Subclasses override the methods they need.

    A shared subexpression of an expression is visited once.
    """

    def __init__(self) -> None:
        self._results: dict[int, tuple[Node, Any]] | None = None

    def visit(self, node: Node) -> Any:
        return self.visit_stmt(node) if isinstance(node, Stmt) else self.visit_expr(node)

    def visit_stmt(self, stmt: Stmt) -> Any:
        outer = getattr(self, "_results", None)
        self._results = None
        try:
            return getattr(self, METHODS[type(stmt)])(stmt)
        finally:
            self._results = outer

    def visit_expr(self, expr: PrimExpr) -> Any:
        if getattr(self, "_results", None) is not None:
            return self._visit_once(expr)
        self._results = {}
        try:
            if _height_above(expr, _HEIGHT_LIMIT):
                for node in post_order(expr):
                    if isinstance(node, PrimExpr):
                        self._visit_once(node)
            return self._visit_once(expr)
        finally:
            self._results = None

    def _visit_once(self, expr: PrimExpr) -> Any:
        results = self._results
        assert results is not None
        got = results.get(id(expr))
        if got is None:
            got = results[id(expr)] = (expr, getattr(self, METHODS[type(expr)])(expr))
        return got[1]


class StmtExprVisitor(_Functor):
    """A visitor of all statements and expressions."""

    def _default(self, node: Node) -> None:
        for child in node.children():
            if isinstance(child, Stmt):
                self.visit_stmt(child)
            elif isinstance(child, PrimExpr):
                self.visit_expr(child)
            else:
                StmtExprVisitor._default(self, child)


class StmtExprMutator(_Functor):
    """A rewriter of statements and expressions. Nodes that no override changes stay the same objects."""

    def _default(self, node: Node) -> Node:
        new: Any = node.map_children(self._child)
        if isinstance(node, SeqStmt) and new is not node:
            return seq(*new.seq)
        return new

    def _child(self, child: Node) -> Node:
        if isinstance(child, Stmt):
            return self.visit_stmt(child)
        if isinstance(child, PrimExpr):
            return self.visit_expr(child)
        return child.map_children(self._child)


def _add_defaults(functor: type) -> None:
    def default(self, op):
        """Visit a node for which the subclass has no method. A visitor visits the operands; a mutator rebuilds the node
        from its rewritten operands.

        Parameters
        ----------
        op : Node
            The statement or expression.

        Returns
        -------
        Node, optional
            The rebuilt node, which is the same object if no operand changed. A visitor returns None.
        """
        return functor._default(self, op)

    for name in set(METHODS.values()):
        setattr(functor, name, default)


_add_defaults(StmtExprVisitor)
_add_defaults(StmtExprMutator)

StmtVisitor = ExprVisitor = StmtExprVisitor
StmtMutator = ExprMutator = StmtExprMutator
