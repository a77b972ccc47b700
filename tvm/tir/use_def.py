"""The definitions and uses of variables in a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir.node import Node
from ..ir.prim import BufferLoad, CommReducer, IterVar, Let, PrimExpr, Reduce, Var, convert
from ..ir.visit import post_order
from .buffer import Buffer
from .function import PrimFunc
from .stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    Stmt,
)

THREAD_KEYS = ("thread_extent", "virtual_thread")


class UseDef:
    """Definitions and uses. ``undefined`` maps a variable to the statement or expression that first uses it without a
    definition in scope. ``repeated`` contains variables that are defined more than once, ``nested`` those that are
    defined again inside their scope.

    A thread axis may be bound several times: it is the same hardware axis.

    Parameters
    ----------
    defined : Iterable[Var], optional
        Variables that are defined outside the program.
    """

    def __init__(self, defined: Iterable[Var] = ()):
        self.undefined: dict[Var, Node] = {}
        self.repeated: dict[Var, Node] = {}
        self.nested: dict[Var, Node] = {}
        self._scope: dict[Var, int] = dict.fromkeys(defined, 1)
        self._ever: set[Var] = set(self._scope)
        self._threads: set[Var] = set()

    # --- entry point ---

    def run(self, node: Any) -> UseDef:
        """Record the variables that a program defines and uses.

        Parameters
        ----------
        node : PrimFunc, Stmt, PrimExpr or list of these
            The program. The variables of a function's parameters are defined in its body.

        Returns
        -------
        UseDef
            This object with its tables filled.
        """
        if isinstance(node, PrimFunc):
            for param in node.params:
                self._define(param, node)
            for buffer in node.buffer_map.values():
                self.buffer_definition(buffer, node)
            self.statement(node.body)
        elif isinstance(node, Stmt):
            self.statement(node)
        elif isinstance(node, (list, tuple)):
            for item in node:
                self.run(item)
        elif isinstance(node, Node):
            self.expression(node, node)
        return self

    # --- scopes ---

    def _define(self, var: Var, where: Node) -> None:
        if self._scope.get(var, 0):
            self.nested.setdefault(var, where)
        if var in self._ever:
            self.repeated.setdefault(var, where)
        self._ever.add(var)
        self._scope[var] = self._scope.get(var, 0) + 1

    def _forget(self, var: Var) -> None:
        self._scope[var] -= 1

    def _use(self, var: Var, where: Node) -> None:
        if not self._scope.get(var, 0):
            self.undefined.setdefault(var, where)

    def buffer_definition(self, buffer: Buffer, where: Node) -> list[Var]:
        """Record the variables that a buffer declaration defines: fields of the buffer that are variables and not
        defined yet.

        Parameters
        ----------
        buffer : Buffer
            The declared buffer.
        where : Node
            The function or statement that declares it.

        Returns
        -------
        list of Var
            The variables that the declaration defines.
        """
        new = []
        for e in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(e, Var) and not self._scope.get(e, 0):
                self._define(e, where)
                new.append(e)
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            self.expression(e, where)
        return new

    # --- traversal ---

    def expression(self, e: Node, where: Node) -> None:
        """Record the variables that an expression uses. The variables of its lets, reducers and reduction axes are
        defined inside it.

        Parameters
        ----------
        e : Node
            The expression.
        where : Node
            The statement that contains the expression; it is reported for an undefined variable.
        """
        order = list(post_order(e))
        inner: list[Var] = []
        for node in order:
            if isinstance(node, Let):
                inner.append(node.var)
            elif isinstance(node, CommReducer):
                inner += [*node.lhs, *node.rhs]
            elif isinstance(node, Reduce):
                inner += [axis.var for axis in node.axis]
        for var in inner:
            self._scope[var] = self._scope.get(var, 0) + 1
        for node in order:
            if isinstance(node, Var):
                self._use(node, where)
            elif isinstance(node, (BufferLoad, BufferRegion)) and isinstance(node.buffer, Buffer):
                self._use(node.buffer.data, where)
            elif isinstance(node, IterVar):
                self._use(node.var, where)
        for var in inner:
            self._scope[var] -= 1

    def statement(self, stmt: Stmt) -> None:
        """Record the variables that a statement and its inner statements define and use.

        Parameters
        ----------
        stmt : Stmt
            The statement.
        """
        for child in stmt.children():
            if isinstance(child, PrimExpr) or not isinstance(child, (Stmt, IterVar, BufferRegion, MatchBufferRegion)):
                self.expression(child, stmt)
        handler = _SCOPES.get(type(stmt))
        if handler is not None:
            handler(self, stmt)
        else:
            self.parts(stmt)

    def parts(self, stmt: Stmt) -> None:
        """Record the variables that the direct inner statements of a statement define and use.

        Parameters
        ----------
        stmt : Stmt
            The enclosing statement.
        """
        for child in stmt.children():
            if isinstance(child, Stmt):
                self.statement(child)


def _with(u: UseDef, variables: Iterable[Var], stmt: Stmt, body: Stmt) -> None:
    variables = list(variables)
    for var in variables:
        u._define(var, stmt)
    u.statement(body)
    for var in variables:
        u._forget(var)


def _for(u: UseDef, s: For) -> None:
    _with(u, [s.loop_var], s, s.body)


def _let(u: UseDef, s: LetStmt) -> None:
    _with(u, [s.var], s, s.body)


def _allocate(u: UseDef, s: Allocate) -> None:
    _with(u, [s.buffer_var], s, s.body)


def _attr(u: UseDef, s: AttrStmt) -> None:
    if isinstance(s.node, IterVar) and s.attr_key in THREAD_KEYS:
        var = s.node.var
        if var in u._threads:
            # A rebound thread axis is in scope in the body, but this is not a second definition.
            u._scope[var] += 1
            u.statement(s.body)
            u._forget(var)
        else:
            u._threads.add(var)
            _with(u, [var], s, s.body)
    else:
        u.statement(s.body)


def _realize(u: UseDef, s: BufferRealize) -> None:
    known = u._scope.get(s.buffer.data, 0)
    _with(u, [] if known else [s.buffer.data], s, s.body)


def _declare(u: UseDef, s: DeclBuffer) -> None:
    new = u.buffer_definition(s.buffer, s)
    u.statement(s.body)
    for var in new:
        u._forget(var)


def _access(u: UseDef, s) -> None:
    if isinstance(s.buffer, Buffer):
        u._use(s.buffer.data, s)


def _block_realize(u: UseDef, s: BlockRealize) -> None:
    u.statement(s.block)


def _block(u: UseDef, s: Block) -> None:
    new: list[Var] = []
    for axis in s.iter_vars:
        if axis.dom is not None:
            u.expression(axis.dom, s)
    for axis in s.iter_vars:
        u._define(axis.var, s)
        new.append(axis.var)
    for buffer in s.alloc_buffers:
        new += u.buffer_definition(buffer, s)
    for match in s.match_buffers:
        u.expression(match.source, s)
        new += u.buffer_definition(match.buffer, s)
    for region in (*s.reads, *s.writes):
        u.expression(region, s)
    if s.init is not None:
        u.statement(s.init)
    u.statement(s.body)
    for var in new:
        u._forget(var)


_SCOPES = {
    For: _for, LetStmt: _let, Allocate: _allocate, AllocateConst: _allocate, AttrStmt: _attr,
    BufferRealize: _realize, DeclBuffer: _declare, BufferStore: _access, Prefetch: _access, Block: _block,
    BlockRealize: _block_realize,
}  # fmt: skip


def undefined_vars(node: Any, defs: Iterable[Var] | None = None) -> list[Var]:
    """The variables that are used in a program but not defined in it (nor in ``defs``), in order of use.

    Parameters
    ----------
    node
        A statement, an expression or a function.
    defs : Iterable[Var], optional
        Variables that are defined outside.

    Returns
    -------
    list[Var]
    """
    return list(UseDef(defs or ()).run(convert(node)).undefined)


__all__ = ["THREAD_KEYS", "UseDef", "undefined_vars"]
