"""Tensor intrinsics: a compute operation that describes what a hardware instruction or an external function computes,
and the statement that calls it."""

from __future__ import annotations

from typing import Any

from ..arith import Analyzer
from ..error import ScheduleError
from ..ir.prim import IterVar, PrimExpr, Range, Reduce, const, convert
from ..tir.buffer import Buffer, decl_buffer
from ..tir.stmt import Evaluate, Stmt
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice


class TensorIntrin:
    """A tensor intrinsic. ``op`` defines its semantics. ``body`` computes all of it; ``reduce_init`` and
    ``reduce_update`` compute it in two parts.

    Parameters
    ----------
    name : str
        The name of the intrinsic.
    op : ComputeOp
        The semantics, as a tensor program.
    inputs : list[Tensor]
        The inputs of ``op``.
    buffers : list[Buffer]
        The buffers that its statements read and write, inputs first.
    body : Stmt
        The statement that computes the whole intrinsic, or None.
    reduce_init : Stmt
        The statement that initializes the output with the identity, or None.
    reduce_update : Stmt
        The statement that accumulates into the output, or None.
    scalar_params : tuple of Var, optional
        The scalar arguments of a call.
    """

    def __init__(
        self,
        name: str,
        op: ComputeOp,
        inputs: list[Tensor],
        buffers: list[Buffer],
        body: Any,
        reduce_init: Any,
        reduce_update: Any,
        scalar_params: Any = (),
    ):
        self.name = name
        self.op = op
        self.inputs = inputs
        self.buffers = buffers
        self.body: Stmt | None = body
        self.reduce_init: Stmt | None = reduce_init
        self.reduce_update: Stmt | None = reduce_update
        self.scalar_params = list(scalar_params)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"

    def __call__(self, *args: Any, reduce_axis: Any = None) -> TensorIntrinCall:
        """Call the intrinsic inside te.compute, with tensor slices for the inputs and expressions for the scalar
        parameters."""
        slices = [a for a in args if isinstance(a, (Tensor, TensorSlice))]
        scalars = [convert(a) for a in args if not isinstance(a, (Tensor, TensorSlice))]
        if len(slices) != len(self.inputs) or len(scalars) != len(self.scalar_params):
            raise ScheduleError(
                f"tensor intrinsic {self.name}: expected {len(self.inputs)} tensors and {len(self.scalar_params)} "
                f"scalars, got {len(slices)} and {len(scalars)}"
            )
        inputs = [a if isinstance(a, Tensor) else a.tensor for a in slices]
        indices = [() if isinstance(a, Tensor) else a.indices for a in slices]
        regions = [_get_region(i, t, self.name) for i, t in zip(indices, inputs)]
        if reduce_axis is None:
            reduce_axis = ()
        elif isinstance(reduce_axis, IterVar):
            reduce_axis = (reduce_axis,)
        if reduce_axis and self.reduce_update is None:
            raise ScheduleError(
                f"tensor intrinsic {self.name}: reducing over {', '.join(r.var.name for r in reduce_axis)} needs an "
                "update (fcompute returning body, reset, update)"
            )
        return TensorIntrinCall(self, inputs, regions, tuple(reduce_axis), scalars)


class TensorIntrinCall:
    """A call of an intrinsic inside te.compute: the inputs, their regions, and the reduction axes."""

    def __init__(self, intrin: Any, tensors: Any, regions: Any, reduce_axis: Any, scalar_inputs: Any):
        self.intrin: TensorIntrin = intrin
        self.tensors, self.regions = tensors, regions
        self.reduce_axis, self.scalar_inputs = reduce_axis, scalar_inputs


def _get_region(indices: Any, tensor: Tensor, name: str) -> list[Range]:
    """Return one range per dimension, from a slice or an index; missing dimensions are read as a whole."""
    if len(indices) > len(tensor.shape):
        raise ScheduleError(
            f"tensor intrinsic {name}: {tensor.name} has {len(tensor.shape)} dimensions, but {len(indices)} "
            "indices are given"
        )
    out: list[Range] = []
    for i, dim in enumerate(tensor.shape):
        at = indices[i] if i < len(indices) else slice(None)
        if not isinstance(at, slice):
            at = at.var if isinstance(at, IterVar) else convert(at)
            out.append(Range.from_min_extent(at, const(1, at.dtype)))
            continue
        start, stop, step = at.start, at.stop, at.step  # pyright: ignore[reportUnknownMemberType]
        if step not in (None, 1):
            raise ScheduleError(f"tensor intrinsic {name}: the region of {tensor.name} must have step 1")
        begin = convert(0 if start is None else start)
        end = dim if stop is None else convert(stop)
        out.append(Range.from_min_extent(begin, Analyzer().simplify(end - begin)))
    return out


def _statement(value: Any, name: str) -> Stmt | None:
    if value is None or isinstance(value, Stmt):
        return value
    value = convert(value)
    if isinstance(value, PrimExpr):
        return Evaluate(value)
    raise ValueError(f"tensor intrinsic {name}: expected a statement or a call, got {type(value).__name__}")


def decl_tensor_intrin(
    op: Operation,
    fcompute: Any,
    name: Any = "tensor_intrin",
    binds: Any = None,
    scalar_params: Any = None,
    default_buffer_params: Any = None,
) -> TensorIntrin:
    """Declare a tensor intrinsic. ``fcompute(inputs, outputs)`` returns body, or (body, reset, update).

    Parameters
    ----------
    op : Operation
        The semantics of the intrinsic: an operation over placeholders.
    fcompute : callable
        A function that returns one statement, or three, for the buffers of the inputs and outputs.
    name : str, optional
        The name of the intrinsic.
    binds : dict of Tensor to Buffer, optional
        Buffers of tensors, for layouts that are not compact and row-major.
    scalar_params : list of Var, optional
        Scalar arguments that a call passes to ``fcompute`` as a third argument.
    default_buffer_params : dict, optional
        Arguments of ``decl_buffer`` for the buffers that are not in ``binds``.

    Returns
    -------
    TensorIntrin
        The intrinsic, for ``Stage.tensorize``.

    Raises
    ------
    TypeError
        ``op`` is not a compute operation.
    ValueError
        An input is not a placeholder, or ``fcompute`` does not return one, two or three values.
    """
    if not isinstance(op, ComputeOp):
        raise TypeError(f"decl_tensor_intrin: the semantics must be a compute operation, got {type(op).__name__}")
    inputs = _inputs(op)
    tensors = inputs + op.outputs
    options: dict[str, Any] = {"data_alignment": 64, **(default_buffer_params or {})}
    buffers: list[Buffer] = []
    for tensor in tensors:
        buffer: Buffer | None = binds.get(tensor) if binds else None
        if buffer is None:
            buffer = decl_buffer(tensor.shape, tensor.dtype, tensor.op.name, **options)
        buffers.append(buffer)
    for tensor in inputs:
        if not isinstance(tensor.op, PlaceholderOp):
            raise ValueError(f"tensor intrinsic {name}: input {tensor.name} must be a placeholder")
    ins, outs = buffers[: len(inputs)], buffers[len(inputs) :]
    got: Any = fcompute(ins, outs) if not scalar_params else fcompute(ins, outs, scalar_params)
    if not isinstance(got, (tuple, list)):
        got = (got,)
    if len(got) not in (1, 2, 3):
        raise ValueError(
            f"tensor intrinsic {name}: fcompute must return body, or body, reset and update; got {len(got)} values"
        )
    got = [_statement(g, name) for g in got] + [None] * (3 - len(got))
    return TensorIntrin(name, op, inputs, buffers, got[0], got[1], got[2], scalar_params or ())


def _inputs(op: ComputeOp) -> list[Tensor]:
    seen: dict[Tensor, None] = {}
    for body in op.body:
        for e in body.source if isinstance(body, Reduce) else (body,):
            from .tensor import tensors_in

            for t in tensors_in(e):
                seen[t] = None
    return list(seen)


__all__ = ["TensorIntrin", "TensorIntrinCall", "decl_tensor_intrin"]
