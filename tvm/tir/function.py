"""PrimFunc, a function over scalars and buffers, and TensorIntrin, a pair of PrimFuncs that describes an
instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..error import ExprTypeError, ExprValueError
from ..ir.module import BaseFunc
from ..ir.node import Node
from ..ir.prim import IntImm, PrimExpr, Var, const, convert
from ..ir.type import FuncType, Type, VoidType
from ..registry import Registry
from .buffer import Buffer, decl_buffer
from .index_map import IndexMap
from .stmt import Stmt


class Number(int):
    """An integer in the attributes of a function. It has a property ``value`` because scripts expect a literal."""

    __slots__ = ()

    @property
    def value(self) -> int:
        return int(self)


class PrimFunc(BaseFunc, key="tir.PrimFunc"):
    """A function of TensorIR. ``params`` are its variables; ``buffer_map`` maps handle parameters to buffers.

    Parameters
    ----------
    params : tuple of Var
        The parameters.
    body : Stmt
        The statement that the function executes.
    ret_type : Type, optional
        The type of the return value.
    buffer_map : dict of Var to Buffer, optional
        The buffers of handle parameters.
    attrs : DictAttrs or dict, optional
        Attributes, such as "global_symbol" and "target".
    """

    _compared = "params! buffer_map! ret_type body attrs"

    params: tuple[Any, ...]
    body: Stmt
    ret_type: Type | None = None
    buffer_map: Any = None
    attrs: Any = None

    def __init__(self, params, body, ret_type=None, buffer_map=None, attrs=None, span=None):
        variables = []
        buffers = dict(buffer_map or {})
        for p in params:
            if hasattr(p, "as_parameter"):
                p = p.as_parameter()
            if isinstance(p, Buffer):
                handle = Var(f"{p.name}_handle", "handle")
                buffers[handle] = p
                p = handle
            if not isinstance(p, Var):
                raise ExprTypeError(f"a parameter of a PrimFunc must be a Var or a Buffer, got {type(p).__name__}")
            variables.append(p)
        self.params = tuple(variables)
        self.body = body
        self.ret_type = VoidType() if ret_type is None else ret_type
        self.buffer_map = buffers
        self.attrs = {key: Number(value) if type(value) is int else value for key, value in (attrs or {}).items()}
        self.span = span

    @property
    def checked_type(self) -> FuncType:
        return FuncType(tuple(p.type_annotation for p in self.params), self.ret_type)

    def with_body(self, new_body: Stmt, span=None) -> PrimFunc:
        """A copy of this function with another body.

        Parameters
        ----------
        new_body : Stmt
            The body.

        Returns
        -------
        PrimFunc
            The function.
        """
        return self.replace(body=new_body)

    def specialize(self, param_map: Mapping[Var, PrimExpr | Buffer]) -> PrimFunc:
        """A copy of this function for particular arguments. A scalar is replaced by an expression and removed from the
        parameters. A buffer takes the shape, strides and offset of the given buffer.

        Parameters
        ----------
        param_map : dict
            The value or buffer of each parameter to specialize.

        Returns
        -------
        PrimFunc
            The function.

        Raises
        ------
        ExprValueError
            A key is not a parameter, or a value does not match its parameter.
        """
        from .stmt_functor import FoldingRenaming

        values: dict[Var, PrimExpr] = {}
        for param, value in param_map.items():
            if not any(param is p for p in self.params):
                raise ExprValueError(
                    f"specialize: '{param}' is not a parameter; the parameters are {_names(self.params)}"
                )
            if isinstance(value, Buffer):
                _match_buffer(self, param, value, values)
            else:
                _match_scalar(self, param, value, values)
        renaming = FoldingRenaming(values.get)
        buffers = {p: renaming.buffer(b) for p, b in self.buffer_map.items()}
        params = tuple(p for p in self.params if p not in values)
        return self.replace(params=params, buffer_map=buffers, body=renaming(self.body))


def _names(params) -> str:
    return ", ".join(p.name for p in params) or "none"


def _bind(values: dict[Var, PrimExpr], what: str, own: PrimExpr, given: PrimExpr) -> None:
    """Bind ``own`` to ``given``: a variable gets the value; any other expression must already equal it."""
    if isinstance(own, Var):
        known = values.get(own)
        if known is None:
            values[own] = given
            return
        own = known
    same = own is given or (isinstance(own, IntImm) and isinstance(given, IntImm) and own.value == given.value)
    if not same:
        raise ExprValueError(f"specialize: {what} is {own}, but {given} was given")


def _match_scalar(func: PrimFunc, param: Var, value: Any, values: dict[Var, PrimExpr]) -> None:
    if param in func.buffer_map:
        raise ExprValueError(f"specialize: parameter '{param}' is a buffer; give a buffer for it, not {value}")
    value = const(value, param.dtype) if isinstance(value, (bool, int, float)) else convert(value)
    if value.dtype != param.dtype:
        raise ExprValueError(f"specialize: parameter '{param}' is {param.dtype}, but {value} is {value.dtype}")
    _bind(values, f"parameter '{param}'", param, value)


def _match_buffer(func: PrimFunc, param: Var, given: Buffer, values: dict[Var, PrimExpr]) -> None:
    own = func.buffer_map.get(param)
    if own is None:
        raise ExprValueError(f"specialize: parameter '{param}' is a scalar; give a value for it, not a buffer")
    what = f"buffer '{own.name}'"
    if own.dtype != given.dtype:
        raise ExprValueError(f"specialize: {what} has type {own.dtype}, but {given.name} has type {given.dtype}")
    if len(own.shape) != len(given.shape):
        raise ExprValueError(
            f"specialize: {what} has {len(own.shape)} dimensions, but {given.name} has {len(given.shape)}"
        )
    if len(own.strides) != len(given.strides):
        raise ExprValueError(
            f"specialize: {what} has {len(own.strides)} strides, but {given.name} has {len(given.strides)}"
        )
    for n, pair in enumerate(zip(own.shape, given.shape)):
        _bind(values, f"dimension {n} of {what}", *pair)
    for n, pair in enumerate(zip(own.strides, given.strides)):
        _bind(values, f"stride {n} of {what}", *pair)
    _bind(values, f"the offset of {what}", own.elem_offset, given.elem_offset)
    if given.data_alignment % own.data_alignment or given.offset_factor % own.offset_factor:
        raise ExprValueError(f"specialize: the alignment of {given.name} is smaller than that of {what}")


_INTRINSICS: Registry[TensorIntrin] = Registry("tensor intrinsic")


class TensorIntrin(Node, key="tir.TensorIntrin"):
    """A hardware instruction: its semantics (``desc``) and the call that executes it (``impl``).

    Parameters
    ----------
    desc : PrimFunc
        The computation as plain loops.
    impl : PrimFunc
        The call of the instruction.
    """

    desc: PrimFunc
    impl: PrimFunc

    def __init__(self, desc, impl, span=None):
        if len(desc.params) != len(impl.params):
            raise ExprValueError(
                f"TensorIntrin: the description has {len(desc.params)} parameters, "
                f"the implementation {len(impl.params)}"
            )
        for ours, theirs in zip(desc.params, impl.params):
            if ours not in desc.buffer_map or theirs not in impl.buffer_map:
                raise ExprValueError("TensorIntrin: every parameter must be a buffer")
        self.desc = desc
        self.impl = impl
        self.span = span

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Register an intrinsic under a name.

        Parameters
        ----------
        name : str
            The name for ``TensorIntrin.get``.
        desc : PrimFunc
            The computation as plain loops.
        impl : PrimFunc
            The call of the instruction.
        override : bool, optional
            Whether to replace an intrinsic of the same name.

        Raises
        ------
        ValueError
            The name is already registered and ``override`` is false.
        ExprValueError
            The functions have different numbers of parameters, or a parameter is not a buffer.
        """
        _INTRINSICS.register(name, TensorIntrin(desc, impl), override)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic registered under a name.

        Parameters
        ----------
        name : str
            The name.
        allow_missing : bool, optional
            Whether to return None if there is no such intrinsic.

        Returns
        -------
        TensorIntrin, optional

        Raises
        ------
        ExprValueError
            No intrinsic has this name and ``allow_missing`` is false.
        """
        got = _INTRINSICS.get(name)
        if got is None and not allow_missing:
            raise ExprValueError(f"tensor intrinsic '{name}' is not registered")
        return got


__all__ = ["Buffer", "IndexMap", "PrimFunc", "TensorIntrin", "decl_buffer"]
