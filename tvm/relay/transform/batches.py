"""Passes that change one dimension of the inputs: to another size, or to several sizes chosen at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.module import GlobalVar, IRModule
from ...ir.prim import Any_
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...ir.type import TupleType, Type
from .. import op
from ..expr import Call, Function, If, RelayExpr, Tuple, TupleGetItem, Var, const
from ..infer import infer_module
from ..substitute import substitute_vars
from .function_pass import RelayFunctionPass, function_pass
from .inline import fresh


def _resized(var: Var, dim: int, size: Any, name: str) -> Var:
    """Return a copy of a parameter in which one dimension has another size."""
    old = var.type_annotation
    if not isinstance(old, TensorType):
        raise ValueError(f"{name}: input '{var.name_hint}' has type {old}; a tensor with a shape is needed")
    if not -len(old.shape) <= dim < len(old.shape):
        rank = len(old.shape)
        raise ValueError(f"{name}: input '{var.name_hint}' has {rank} dimensions; there is no dimension {dim}")
    shape = list(old.shape)
    shape[dim] = size
    return Var(var.name_hint, TensorType(shape, old.dtype))


def _with_params(function: Function, table: Mapping[Var, Var]) -> Function:
    """Return a copy of the function with replaced parameters; its return type is inferred again."""
    copy = fresh(function)
    new = {mine: table[given] for given, mine in zip(function.params, copy.params) if given in table}
    params = [new.get(p, p) for p in copy.params]
    return Function(params, substitute_vars(copy.body, new), None, copy.type_params, copy.attrs, copy.span)


def ChangeBatch(data: Mapping[Var, int], batch_size: int = 16) -> RelayFunctionPass:
    """Compile a model for another batch size.

    Parameters
    ----------
    data : dict of Var to int
        The inputs, each with the index of its batch dimension.
    batch_size : int, optional
        The new size of that dimension.

    Returns
    -------
    RelayFunctionPass
    """

    @function_pass(opt_level=1, name="ChangeBatch")
    def change(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        table = {p: _resized(p, data[p], batch_size, "ChangeBatch") for p in func.params if p in data}
        return _with_params(func, table) if table else func

    return change


class FlexibleShapeDispatch:
    """Compile a module that serves several sizes of one dimension of its inputs.

    ``main`` reads the size at run time and calls a function compiled for this size. Other sizes are executed by a
    function with dynamic shapes.

    Parameters
    ----------
    dim : int, optional
        The index of the dimension, the same for all inputs.
    buckets : list of int, optional
        The sizes for which a function is compiled.
    auto_pad : bool, optional
        Whether inputs of other sizes are padded to the next larger bucket.
    pad_value : float, optional
        The value of the padding.
    input_indices : list of int, optional
        The indices of the inputs that have the dimension.
    affects_output : bool, optional
        Whether the outputs have the dimension too, so that the padding is removed from them.
    """

    def __init__(
        self, dim: int = 0, buckets: Sequence[int] = (1,), auto_pad: bool = False, pad_value: float = 0,
        input_indices: Sequence[int] = (0,), affects_output: bool = True,
    ):  # fmt: skip
        self.dim = dim
        self.buckets = [int(b) for b in buckets]
        self.auto_pad = auto_pad
        self.pad_value = pad_value
        self.input_indices = list(input_indices)
        self.affects_output = affects_output
        if not self.buckets or min(self.buckets) < 1 or sorted(set(self.buckets)) != self.buckets:
            raise ValueError(
                f"FlexibleShapeDispatch: buckets must be positive sizes in ascending order, got {list(buckets)}"
            )

    def __call__(self, mod: IRModule) -> IRModule:
        """Return a module whose ``main`` accepts any size of the dimension.

        Parameters
        ----------
        mod : IRModule
            The module to convert.

        Returns
        -------
        IRModule

        Raises
        ------
        ValueError
            An input index is out of range, or the input does not have the dimension.
        """
        mod = infer_module(mod).clone()
        main = mod["main"]
        missing = [i for i in self.input_indices if not 0 <= i < len(main.params)]
        if missing:
            count = len(main.params)
            raise ValueError(f"FlexibleShapeDispatch: main has {count} inputs; there is no input {missing[0]}")
        flexible = [main.params[i] for i in self.input_indices]
        table = {p: self._resized(p, Any_()) for p in flexible}
        params = [table.get(p, Var(p.name_hint, p.type_annotation)) for p in main.params]
        first = params[self.input_indices[0]]
        size = op.take(op.shape_of(first, "int64"), const(self.dim % len(first.type_annotation.shape), "int64"))
        body: RelayExpr = Call(self._specialized(mod, main, flexible, Any_(), "dynamic"), params)
        for bucket in reversed(self.buckets):
            body = self._choice(mod, main, flexible, params, size, bucket, body)
        mod["main"] = Function(params, body, None, main.type_params, main.attrs, main.span)
        return infer_module(mod)

    def _resized(self, var: Var, size: Any) -> Var:
        return _resized(var, self.dim, size, "FlexibleShapeDispatch")

    def _specialized(self, mod: IRModule, main: Function, flexible: list[Var], size: Any, name: str) -> GlobalVar:
        """Add a copy of ``main`` for one size to the module, and return its global variable."""
        made = GlobalVar(f"main_{name}")
        mod[made] = _with_params(main, {p: self._resized(p, size) for p in flexible})
        return made

    def _choice(
        self, mod: IRModule, main: Function, flexible: list[Var], params: list[Var], size: RelayExpr, bucket: int,
        otherwise: RelayExpr,
    ) -> If:  # fmt: skip
        """Return an ``If`` that calls the function of a bucket if the size equals the bucket or can be padded to it."""
        function = self._specialized(mod, main, flexible, bucket, str(bucket))
        # Smaller buckets are tested first, so this condition selects the smallest bucket that fits.
        held = (op.less_equal if self.auto_pad else op.equal)(size, const(bucket, "int64"))
        is_flexible = {id(params[i]) for i in self.input_indices}
        called = Call(function, [self._fixed(p, bucket) if id(p) in is_flexible else p for p in params])
        return If(held, self._cut(called, mod, main, size), otherwise)

    def _fixed(self, data: Var, bucket: int) -> RelayExpr:
        """Return an input in the shape of a bucket.

        Padding is computed by appending a full bucket of the pad value and slicing, so that no shape depends on
        run-time values."""
        shape = list(self._resized(data, bucket).type_annotation.shape)
        if not self.auto_pad:
            return op.reshape(data, shape)
        axis = self.dim % len(shape)
        filler = op.full(const(self.pad_value, data.type_annotation.dtype), shape, data.type_annotation.dtype)
        joined = op.concatenate([data, filler], axis)
        return op.reshape(op.strided_slice(joined, [0], [bucket], axes=[axis]), shape)

    def _cut(self, called: RelayExpr, mod: IRModule, main: Function, size: RelayExpr) -> RelayExpr:
        """Remove the padding from the outputs."""
        if not (self.auto_pad and self.affects_output):
            return called
        kept = op.arange(const(0, "int64"), size, const(1, "int64"), "int64")

        def of(value: RelayExpr, type_: Type) -> RelayExpr:
            if isinstance(type_, TupleType):
                return Tuple([of(TupleGetItem(value, i), field) for i, field in enumerate(type_.fields)])
            return op.take(value, kept, axis=self.dim)

        return of(called, main.ret_type or main.body.checked_type_)


__all__ = ["ChangeBatch", "FlexibleShapeDispatch"]
