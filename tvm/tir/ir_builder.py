"""Building programs statement by statement, with Python's ``with`` for scopes."""

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
    """A scope whose end is told to the builder. Its value is what ``with ... as`` binds.

    Parameters
    ----------
    enter_value
        What ``with ... as`` binds.
    exit_cb : callable
        Called when the scope ends.
    """

    def __init__(self, enter_value: Any, exit_cb: Callable[[], None]):
        self._enter_value = enter_value
        self._exit_cb = exit_cb

    def __enter__(self) -> Any:
        return self._enter_value

    def __exit__(self, kind, value, trace) -> None:
        # An exception leaves the program unfinished; closing scopes would only hide it.
        if value is None:
            self._exit_cb()


class BufferVar(ExprOp):
    """A buffer that is read and written with square brackets. ``content_type`` decides how many elements one access
    takes: "float32x4" loads and stores four at a time.

    Parameters
    ----------
    builder : IRBuilder
        The builder its accesses are emitted to.
    buffer : Buffer
        The buffer.
    content_type : str
        The type of one access.
    is_pointer : bool, optional
        Whether it is bare memory, of one dimension.
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
        """What stands for it among parameters and arguments: memory of unknown size is a plain pointer.

        Returns
        -------
        Buffer or Var
            The variable of the pointer for bare memory, else the buffer.
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
                raise ExprValueError(f"cannot store {value.dtype} into {target} elements of {self._buffer.name}")
            value = cast(target, value)
        self._builder.emit(BufferStore(self._buffer, value, indices))


class IRBuilder:
    """Collects statements; ``get`` gives the program. See ``create``."""

    def __init__(self) -> None:
        self._stack: list[list[Stmt | Callable[[Stmt], Stmt]]] = [[]]
        self.nidx = 0

    # --- scopes ---

    def _pop(self) -> Stmt:
        """The innermost scope as one statement; scopes without an end of their own wrap what follows them."""
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
        """Add a statement, an expression to evaluate, or a function that wraps everything after it.

        Parameters
        ----------
        stmt : Stmt, PrimExpr or Callable
            What is added.

        Raises
        ------
        ExprTypeError
            It is none of these.
        """
        if isinstance(stmt, PrimExpr):
            stmt = Evaluate(stmt)
        if not isinstance(stmt, Stmt) and not callable(stmt):
            raise ExprTypeError(f"emit takes a statement or an expression, got {type(stmt).__name__}")
        self._stack[-1].append(stmt)

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """An attribute of everything that follows in this scope.

        Parameters
        ----------
        node : Any
            What the attribute is of.
        attr_key : str
            Its name.
        value : PrimExpr
            Its value.
        """
        if isinstance(node, str):
            node = StringImm(node)
        value = StringImm(value) if isinstance(value, str) else convert(value)
        self.emit(lambda body: AttrStmt(node, attr_key, value, body))

    def for_range(self, begin, end, name="i", dtype=None, kind="serial", annotations=None) -> WithScope:
        """A loop; its scope is bound to the loop variable. Annotations are notes for whoever reads the loop.

        Parameters
        ----------
        begin : PrimExpr
            The first value.
        end : PrimExpr
            The value after the last.
        name : str
            The name of the variable.
        dtype : str, optional
            Its type; the wider one of the bounds by default.
        kind : str
            "serial", "parallel", "vectorize" or "unroll".
        annotations : dict, optional
            Notes.

        Returns
        -------
        WithScope
            The scope, for ``with``, which gives the variable.

        Raises
        ------
        ExprValueError
            The kind is another one.
        """
        if kind not in _KINDS:
            raise ExprValueError(f"for_range: unknown kind '{kind}'; known are {', '.join(sorted(_KINDS))}")
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
        """A loop that runs as long as a condition holds.

        Parameters
        ----------
        condition : PrimExpr
            The condition.

        Returns
        -------
        WithScope
            The scope, for ``with``.
        """
        condition = convert(condition)
        return self._scope(None, lambda body: While(condition, body))

    def if_scope(self, cond) -> WithScope:
        """What to do where a condition holds.

        Parameters
        ----------
        cond : PrimExpr
            The condition.

        Returns
        -------
        WithScope
            The scope, for ``with``.
        """
        cond = convert(cond)
        return self._scope(None, lambda body: IfThenElse(cond, body))

    def else_scope(self) -> WithScope:
        """What to do otherwise; comes right after an ``if_scope``.

        Returns
        -------
        WithScope
            The scope, for ``with``.

        Raises
        ------
        TVMError
            There is no ``if_scope`` right before it.
        """
        previous = self._stack[-1][-1] if self._stack[-1] else None
        if not isinstance(previous, IfThenElse) or previous.else_case is not None:
            raise TVMError("else_scope can only follow an if_scope")
        self._stack[-1].pop()
        return self._scope(None, lambda body: previous.replace(else_case=body))

    def new_scope(self) -> WithScope:
        """A scope of its own: attributes and allocations in it end with it.

        Returns
        -------
        WithScope
            The scope, for ``with``.
        """
        return self._scope(None, lambda body: body)

    # --- values and memory ---

    def let(self, var_name: str, value) -> Var:
        """A name for a value in the rest of this scope.

        Parameters
        ----------
        var_name : str
            The name.
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
        """Memory for the rest of this scope.

        Parameters
        ----------
        dtype : str
            The type of an element.
        shape : int, PrimExpr or tuple
            The extents.
        name : str
            The name.
        axis_separators : list of int, optional
            Where groups of dimensions that stay apart begin.
        scope : str
            The kind of memory.

        Returns
        -------
        BufferVar
            The memory, which is indexed.
        """
        dtype = canonical(dtype)
        shape = tuple(convert(s) for s in (shape if isinstance(shape, (list, tuple)) else (shape,)))
        data = Var(name, PointerType(PrimType(dtype), scope or "global"))
        buffer = decl_buffer(shape, dtype, name, data=data, axis_separators=axis_separators)
        self.emit(lambda body: Allocate(data, dtype, shape, const(True, "bool"), body))
        return BufferVar(self, buffer, dtype)

    def pointer(self, content_type, name="ptr", scope="") -> BufferVar:
        """A pointer parameter of the program.

        Parameters
        ----------
        content_type : str
            The type of an element.
        name : str
            The name.
        scope : str
            The kind of memory.

        Returns
        -------
        BufferVar
            The pointer, which is indexed.
        """
        content_type = canonical(content_type)
        element = with_lanes(content_type, 1)
        data = Var(name, PointerType(PrimType(element), scope or "global"))
        return BufferVar(self, decl_buffer((1,), element, name, data=data), content_type, is_pointer=True)

    def buffer_ptr(self, buf: Buffer) -> BufferVar:
        """Access to an existing buffer, with one flat index or one index per dimension.

        Parameters
        ----------
        buf : Buffer
            The buffer.

        Returns
        -------
        BufferVar
            What is indexed.
        """
        return BufferVar(self, buf, buf.dtype)

    def likely(self, expr) -> PrimExpr:
        """A condition that holds nearly always.

        Parameters
        ----------
        expr : PrimExpr
            The condition.

        Returns
        -------
        PrimExpr
            The condition, marked.
        """
        return op.likely(expr)

    def get(self) -> Stmt:
        """The program built so far; the builder starts anew.

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
            raise TVMError(f"get: {len(self._stack) - 1} scopes are still open")
        stmt = self._pop()
        self._stack = [[]]
        return stmt


def _wider(a: str, b: str) -> str:
    return a if info(a).bits >= info(b).bits else b


def create() -> IRBuilder:
    """A new builder.

    Returns
    -------
    IRBuilder
        A builder without statements.
    """
    return IRBuilder()


__all__ = ["BufferVar", "IRBuilder", "WithScope", "create"]
