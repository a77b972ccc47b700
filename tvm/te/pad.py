"""The step that pads a matmul-like reduction to axes with multiples of given factors. It adds padded copies of both
operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..arith import Analyzer
from ..error import ScheduleError
from ..ir.prim import Add, Cast, IntImm, IterVar, Mul, ProducerLoad, Range, Reduce, Var, const
from ..ir.primop import floordiv, logical_and
from ..ir.subst import substitute
from ..ir.visit import rewrite
from .dataflow import guarded, swap_op
from .steps import ScheduleStep, TensorRef, primitive
from .tensor import ComputeOp, Tensor

if TYPE_CHECKING:
    from .schedule import Schedule

# The most elements of one vectorized copy. If the row length is a multiple of it, a copy is entirely inside or entirely
# outside.
MOST_LANES = 8


@primitive("pad")
class PadStep(ScheduleStep):
    """Compute a sum of products over padded axes whose extents are multiples of ``factors`` (reduction axes last), and
    copy the result out. The step adds stages for both operands, padded with zeros, and for the padded sum."""

    tensor: TensorRef
    factors: tuple[int, ...]

    def act(self, schedule: Schedule) -> tuple[Tensor, ...]:
        stage = schedule.stage_by_uid(self.tensor.stage)
        op, why = stage.op, refusal(stage.op, self.factors)
        if why is None and (
            stage.leaf_iter_vars != [*op.axis, *op.reduce_axis]
            or stage.iter_var_attrs
            or any(other.attach_stage is stage for other in schedule.stages)
        ):
            why = "its loops have been changed, or other stages are computed in them; call pad first"
        if why is not None:
            raise ScheduleError(f"pad of {stage.name}: {why}")
        assert isinstance(op, ComputeOp), "refusal has already checked the operation"
        axes, moved = _longer_axes(op, self.factors)
        first, reads = op.body[0], _factors(op.body[0])
        operands = [_padded(read, _bounds(read, axes, moved)) for read in reads]
        swapped: dict[Any, Any] = {
            read: made.output(0)(*[substitute(index, moved) for index in read.indices])
            for read, made in zip(reads, operands)
        }
        source = (rewrite(first.source[0], pre=swapped.get),)
        body = Reduce(first.combiner, source, tuple(axes[len(op.axis) :]), first.condition, 0)
        total = ComputeOp(f"{op.name}.pad", op.tag, op.attrs, axes[: len(op.axis)], (body,))
        out = ComputeOp(op.name, "", op.attrs, op.axis, (total.output(0)(*[axis.var for axis in op.axis]),))
        place = schedule.stages.index(stage)
        news = [schedule.add_stage(made, place + number) for number, made in enumerate((*operands, total))]
        for new in news:
            new.group = stage.group
        for axis, factor in zip(total.axis, self.factors):
            # Compute the whole padded tile even if only a part of it is copied out.
            news[-1].attributes(axis).region_factor = factor
        stage.all_iter_vars, stage.leaf_iter_vars = list(op.axis), list(op.axis)
        swap_op(schedule, stage, out, skip=set(news))
        return tuple(new.op.output(0) for new in news)


def refusal(op: Any, factors: Sequence[int]) -> str | None:
    """Return why the axes of an operation cannot be padded, or None if they can."""
    reads = _factors(op.body[0]) if isinstance(op, ComputeOp) and len(op.body) == 1 else []
    if len(reads) != 2 or reads[0].producer is reads[1].producer:
        return "it is not a sum of products of two tensors"
    axes: list[Any] = [*op.axis, *op.reduce_axis]
    if len(factors) != len(axes) or any(type(factor) is not int or factor < 1 for factor in factors):
        return f"pass one factor for each of its {len(axes)} axes, got {list(factors)}"
    sizes = [*(axis.dom.extent for axis in axes), *(size for read in reads for size in read.producer.shape)]
    if not all(isinstance(size, IntImm) for size in sizes) or any(axis.dom.min.value for axis in axes):
        return "an axis has a dynamic extent or does not start at zero"
    for axis, factor in zip(axes[len(op.axis) :], factors[len(op.axis) :]):
        if axis.dom.extent.value % factor and not all(_ends_with(read, axis) for read in reads):
            return f"an operand extends past the end of {axis.var.name}"
    longer, moved = _longer_axes(op, factors)
    bounds = [bound for read in reads for bound in _bounds(read, longer, moved)]
    return "an operand would be read before its first element" if any(bound.min_value < 0 for bound in bounds) else None


def _factors(reduce: Any) -> list[ProducerLoad]:
    """Return the two reads of a sum of products, or an empty list for any other reduction."""
    if not isinstance(reduce, Reduce) or len(reduce.source) != 1 or reduce.init or not _is_always(reduce.condition):
        return []
    (total,), term = reduce.combiner.result, reduce.source[0]
    if not isinstance(total, Add) or not isinstance(term, Mul):
        return []
    factors = [factor.value if isinstance(factor, Cast) else factor for factor in (term.a, term.b)]
    return [read for read in factors if isinstance(read, ProducerLoad)]


def _is_always(condition: Any) -> bool:
    return isinstance(condition, IntImm) and condition.value == 1


def _ends_with(read: ProducerLoad, axis: Any) -> bool:
    """Return whether a dimension of an operand is indexed by an axis alone and has the same extent."""
    return any(
        index is axis.var and getattr(size, "value", None) == axis.dom.extent.value
        for index, size in zip(read.indices, read.producer.shape)
    )


def _longer_axes(op: Any, factors: Sequence[int]) -> tuple[list[IterVar], dict[Any, Any]]:
    """Return the axes with extents rounded up, and a map from the variables of the operation to theirs."""
    axes: list[IterVar] = []
    moved: dict[Any, Any] = {}
    for axis, factor in zip((*op.axis, *op.reduce_axis), factors):
        length = -(-axis.dom.extent.value // factor) * factor
        moved[axis.var] = Var(axis.var.name, axis.var.dtype)
        axes.append(
            IterVar(Range(min=axis.dom.min, extent=const(length, axis.var.dtype)), moved[axis.var], axis.iter_type)
        )
    return axes, moved


def _bounds(read: ProducerLoad, axes: list[IterVar], moved: dict[Any, Any]) -> list[Any]:
    """Return the bounds of the indices of a read over the padded axes."""
    analyzer = Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, axis.dom)
    return [analyzer.const_int_bound(substitute(index, moved)) for index in read.indices]


def _padded(read: ProducerLoad, bounds: list[Any]) -> ComputeOp:
    """Return an operand with zeros past its end, in the size that the padded axes read."""
    axes: list[IterVar] = []
    source, inside = read.producer, const(True, "bool")
    for number, (bound, size) in enumerate(zip(bounds, source.shape)):
        dtype, length = size.dtype, max(size.value, bound.max_value + 1)
        var = Var(f"ax{number}", dtype)
        axes.append(IterVar(Range(min=const(0, dtype), extent=const(length, dtype)), var, IterVar.DataPar))
        if length > size.value:
            # Decide one condition for all elements of a vectorized copy.
            lanes = lanes_of(size.value) if number == len(source.shape) - 1 else 1
            inside = logical_and(inside, floordiv(var, const(lanes, dtype)) < const(size.value // lanes, dtype))
    value = source(*[axis.var for axis in axes])
    return ComputeOp(f"{source.name}.pad", "", {}, axes, (guarded(value, inside, const(0, value.dtype)),))


def lanes_of(length: int) -> int:
    """Return the most elements of one vectorized copy for rows of a given length."""
    return next(lanes for lanes in (MOST_LANES, 4, 2, 1) if length % lanes == 0)


__all__ = ["PadStep", "lanes_of", "refusal"]
