"""IRBuilder: build programs statement by statement, with Python's ``with`` for scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtype import canonical, info, with_lanes
from ..error import ExprTypeError, ExprValueError, TVMError
from ..ir.prim import BufferLoad, ExprOp, PrimExpr, Ramp, StringImm, Var, const, convert
from ..ir.primop import cast
from ..ir.type import PointerType, PrimType
from . import op
from .buffer import Buffer, decl_buffer
from .stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, LetStmt, Stmt, While, no_op, seq

_KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "vectorized": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "unrolled": ForKind.UNROLLED,
}


class WithScope:
    """A scope of an IRBuilder. ``with ... as`` binds its value, and leaving the block ends the scope.

    Parameters
    ----------
    enter_value
        The value that ``with ... as`` binds.
    exit_cb : callable
        The function that is called when the scope ends.
    """

    def __init__(self, enter_value: Any, exit_cb: Callable[[], None]):
        self._enter_value = enter_value
        self._exit_cb = exit_cb

    def __enter__(self) -> Any:
        return self._enter_value

    def __exit__(self, kind, value, trace) -> None:
        # After an exception the program is incomplete; closing the scopes could raise another error that hides it.
        if value is None:
            self._exit_cb()


class BufferVar(ExprOp):
    """A buffer that is accessed with square brackets. One access loads or stores a value of type ``content_type``:
    "float32x4" means four elements.

    Parameters
    ----------
    builder : IRBuilder
        The builder that receives the store statements.
    buffer : Buffer
        The buffer.
    content_type : str
        The type of one access.
    is_pointer : bool, optional
        Whether the buffer is a plain pointer with one dimension.
    """

    def __init__(self, builder: IRBuilder, buffer: Buffer, content_type: str, is_pointer: bool = False):
        self._builder = builder
        self._buffer = buffer
        self._content_type = content_type
        self._is_pointer = is_pointer

    @property
    def dtype(self) -> str:
        return self._content_type

    def as_parameter(self) -> Buffer | Var:
        """The parameter or argument that passes this buffer to a function.

        Returns
        -------
        Buffer or Var
            The pointer variable of a plain pointer, else the buffer.
        """
        return self._buffer.data if self._is_pointer else self._buffer

    asobject = as_parameter

    def _indices(self, index: Any) -> tuple[PrimExpr, ...]:
        indices = list(index) if isinstance(index, (list, tuple)) else [index]
        shape = self._buffer.shape
        if len(shape) > 1 and len(indices) == 1 and not isinstance(indices[0], slice):
            indices = self._unflatten(convert(indices[0]))
        if len(indices) != len(shape):
            raise ExprValueError(
                f"buffer {self._buffer.name} has {len(shape)} dimensions, but {len(indices)} indices were given"
            )
        indices = [convert(i) for i in indices]
        wanted, own = info(self._content_type).lanes, info(self._buffer.dtype).lanes
        if wanted != own and info(indices[-1].dtype).lanes == 1:
            lanes = wanted // own
            last = indices[-1]
            indices[-1] = Ramp(last * lanes, const(1, last.dtype), lanes)
        return tuple(indices)

    def _unflatten(self, flat: PrimExpr) -> list[PrimExpr]:
        out = []
        for extent in reversed(self._buffer.shape[1:]):
            out.append(flat % extent)
            flat = flat // extent
        return [flat, *reversed(out)]

    def __getitem__(self, index: Any) -> PrimExpr:
        load = BufferLoad(self._buffer, self._indices(index))
        return cast("bool", load) if self._content_type == "bool" and load.dtype != "bool" else load

    def __setitem__(self, index: Any, value: Any) -> None:
        indices = self._indices(index)
        target = BufferLoad(self._buffer, indices).dtype
        value = convert(value)
        if value.dtype != target:
            if info(value.dtype).lanes not in (1, info(target).lanes):
                raise ExprValueError(
                    f"cannot store a value of type {value.dtype} in buffer {self._buffer.name} with elements of type "
                    f"{target}"
                )
            value = cast(target, value)
        self._builder.emit(BufferStore(self._buffer, value, indices))


class IRBuilder:
    """A builder that collects statements; ``get`` returns the program. ``create`` makes a new builder."""

    def __init__(self) -> None:
        self._stack: list[list[Stmt | Callable[[Stmt], Stmt]]] = [[]]
        self.nidx = 0

    # --- scopes ---

    def _pop(self) -> Stmt:
        """Return the innermost scope as one statement. Open attributes and allocations in it wrap the statements after
        them."""
        body: Stmt | None = None
        for item in reversed(self._stack.pop()):
            if isinstance(item, Stmt):
                body = item if body is None else seq(item, body)
            else:
                body = item(no_op() if body is None else body)
        return no_op() if body is None else body

    def _scope(self, value: Any, wrap: Callable[[Stmt], Stmt]) -> WithScope:
        self._stack.append([])
        return WithScope(value, lambda: self.emit(wrap(self._pop())))

    def emit(self, stmt: Stmt | PrimExpr | Callable[[Stmt], Stmt]) -> None:
        """Add a statement, an expression to evaluate, or a function that wraps the statements after it.

        Parameters
        ----------
        stmt : Stmt, PrimExpr or Callable
            The statement, the expression or the function.

        Raises
        ------
        ExprTypeError
            ``stmt`` is none of these.
        """
        if isinstance(stmt, PrimExpr):
            stmt = Evaluate(stmt)
        if not isinstance(stmt, Stmt) and not callable(stmt):
            raise ExprTypeError(f"emit takes a statement or an expression, got {type(stmt).__name__}")
        self._stack[-1].append(stmt)

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """Attach an attribute to all following statements of the scope.

        Parameters
        ----------
        node : Any
            The object that the attribute describes.
        attr_key : str
            The name of the attribute.
        value : PrimExpr
            The value of the attribute.
        """
        if isinstance(node, str):
            node = StringImm(node)
        value = StringImm(value) if isinstance(value, str) else convert(value)
        self.emit(lambda body: AttrStmt(node, attr_key, value, body))

    def for_range(self, begin, end, name="i", dtype=None, kind="serial", annotations=None) -> WithScope:
        """A loop; ``with ... as`` binds the loop variable. Annotations are hints for passes and code generators.

        Parameters
        ----------
        begin : PrimExpr
            The first value of the loop variable.
        end : PrimExpr
            The end of the loop (exclusive).
        name : str
            The name of the loop variable.
        dtype : str, optional
            The type of the loop variable; the wider type of the bounds by default.
        kind : str
            "serial", "parallel", "vectorize" or "unroll".
        annotations : dict, optional
            The annotations of the loop.

        Returns
        -------
        WithScope
            The scope for ``with``; its value is the loop variable.

        Raises
        ------
        ExprValueError
            ``kind`` is not one of these.
        """
        if kind not in _KINDS:
            raise ExprValueError(f"for_range: unknown kind '{kind}'; use one of {', '.join(sorted(_KINDS))}")
        if name == "i":
            name = chr(ord(name) + self.nidx) if self.nidx < 3 else f"{name}_{self.nidx - 3}"
            self.nidx += 1
        begin, end = convert(begin), convert(end)
        dtype = canonical(dtype) if dtype else _wider(begin.dtype, end.dtype)
        var = Var(name, dtype)
        extent = cast(dtype, end - begin)
        begin = cast(dtype, begin)

        def wrap(body: Stmt) -> Stmt:
            return For(var, begin, extent, _KINDS[kind], body, annotations=annotations)

        return self._scope(var, wrap)

    def while_loop(self, condition) -> WithScope:
        """A loop that runs while a condition is true.

        Parameters
        ----------
        condition : PrimExpr
            The condition.

        Returns
        -------
        WithScope
            The scope for ``with``.
        """
        condition = convert(condition)
        return self._scope(None, lambda body: While(condition, body))

    def if_scope(self, cond) -> WithScope:
        """The branch that runs if a condition is true.

        Parameters
        ----------
        cond : PrimExpr
            The condition.

        Returns
        -------
        WithScope
            The scope for ``with``.
        """
        cond = convert(cond)
        return self._scope(None, lambda body: IfThenElse(cond, body))

    def else_scope(self) -> WithScope:
        """The else branch of the ``if_scope`` that ends directly before it.

        Returns
        -------
        WithScope
            The scope for ``with``.

        Raises
        ------
        TVMError
            The previous statement is not an ``if_scope``.
        """
        previous = self._stack[-1][-1] if self._stack[-1] else None
        if not isinstance(previous, IfThenElse) or previous.else_case is not None:
            raise TVMError("else_scope can only follow an if_scope")
        self._stack[-1].pop()
        return self._scope(None, lambda body: previous.replace(else_case=body))

    def new_scope(self) -> WithScope:
        """A nested scope: its attributes and allocations end with it.

        Returns
        -------
        WithScope
            The scope for ``with``.
        """
        return self._scope(None, lambda body: body)

    # --- values and memory ---

    def let(self, var_name: str, value) -> Var:
        """Bind a value to a variable for the rest of this scope.

        Parameters
        ----------
        var_name : str
            The name of the variable.
        value : PrimExpr
            The value.

        Returns
        -------
        Var
            The variable.
        """
        value = convert(value)
        var = Var(var_name, value.dtype)
        self.emit(lambda body: LetStmt(var, value, body))
        return var

    def allocate(self, dtype, shape, name="buf", axis_separators=None, scope="") -> BufferVar:
        """Allocate a buffer for the rest of this scope.

        Parameters
        ----------
        dtype : str
            The type of an element.
        shape : int, PrimExpr or tuple
            The extents.
        name : str
            The name.
        axis_separators : list of int, optional
            The positions that split the dimensions into groups. Each group becomes one dimension of the physical
            memory.
        scope : str
            The storage scope.

        Returns
        -------
        BufferVar
            The buffer; access it with square brackets.
        """
        dtype = canonical(dtype)
        shape = tuple(convert(s) for s in (shape if isinstance(shape, (list, tuple)) else (shape,)))
        data = Var(name, PointerType(PrimType(dtype), scope or "global"))
        buffer = decl_buffer(shape, dtype, name, data=data, axis_separators=axis_separators)
        self.emit(lambda body: Allocate(data, dtype, shape, const(True, "bool"), body))
        return BufferVar(self, buffer, dtype)

    def pointer(self, content_type, name="ptr", scope="") -> BufferVar:
        """Declare a pointer parameter of the program.

        Parameters
        ----------
        content_type : str
            The type of an element.
        name : str
            The name.
        scope : str
            The storage scope.

        Returns
        -------
        BufferVar
            The pointer; access it with square brackets.
        """
        content_type = canonical(content_type)
        element = with_lanes(content_type, 1)
        data = Var(name, PointerType(PrimType(element), scope or "global"))
        return BufferVar(self, decl_buffer((1,), element, name, data=data), content_type, is_pointer=True)

    def buffer_ptr(self, buf: Buffer) -> BufferVar:
        """Access an existing buffer with one flat index or with one index per dimension.

        Parameters
        ----------
        buf : Buffer
            The buffer.

        Returns
        -------
        BufferVar
            The accessor of the buffer; use square brackets.
        """
        return BufferVar(self, buf, buf.dtype)

    def likely(self, expr) -> PrimExpr:
        """Mark a condition as true in nearly all cases.

        Parameters
        ----------
        expr : PrimExpr
            The condition.

        Returns
        -------
        PrimExpr
            The marked condition.
        """
        return op.likely(expr)

    def get(self) -> Stmt:
        """Return the program built so far and reset the builder.

        Returns
        -------
        Stmt
            The program.

        Raises
        ------
        TVMError
            A scope is still open.
        """
        if len(self._stack) != 1:
            raise TVMError(f"get: {len(self._stack) - 1} scopes are still open; leave every 'with' block first")
        stmt = self._pop()
        self._stack = [[]]
        return stmt


def _wider(a: str, b: str) -> str:
    return a if info(a).bits >= info(b).bits else b


def create() -> IRBuilder:
    """Create an empty builder.

    Returns
    -------
    IRBuilder
        The builder.
    """
    return IRBuilder()


__all__ = ["BufferVar", "IRBuilder", "WithScope", "create"]
