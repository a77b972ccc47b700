"""Layout rewrite: store constant inputs in the order in which a schedule reads them.

The attribute ``layout_free_placeholders`` of an operation names the inputs whose layout is free. The loops of its stage
determine the layout: a loop over a part of an axis becomes a dimension of the array, the outermost loop first, so that
the innermost loops read contiguous memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..ir.prim import IntImm, IterVar, PrimExpr, ProducerLoad, Var
from ..ir.primop import floordiv, floormod
from ..ir.visit import post_order, rewrite
from ..te.axes import Fuse, Split
from ..te.operation import compute, placeholder
from ..te.stage import Stage
from ..te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from .replay import Replay

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .steps import TransformStep


class Part(NamedTuple):
    """A part of a dimension, with the index ``index // stride % extent``."""

    dim: int
    extent: int
    stride: int


@dataclass(frozen=True)
class StoredLayout:
    """The layout of an array of ``shape``: its parts are the dimensions of the stored array."""

    shape: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return tuple(part.extent for part in self.parts)

    def _apart(self) -> list[Part]:
        """Return the parts in the order of the dimensions of the original array."""
        return sorted(self.parts, key=lambda part: (part.dim, -part.stride))

    def store(self, array: np.ndarray) -> np.ndarray:
        """Return the array in the stored layout."""
        apart = self._apart()
        order = [apart.index(part) for part in self.parts]
        return np.ascontiguousarray(array.reshape([part.extent for part in apart]).transpose(order))

    @property
    def restoring_axes(self) -> tuple[int, ...]:
        """Return the permutation after which a reshape to ``shape`` restores the original array."""
        return tuple(self.parts.index(part) for part in self._apart())

    def stored_indices(self, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the indices in the stored array for an element of the original array."""
        found = []
        for dim, extent, stride in self.parts:
            index = indices[dim] if stride == 1 else floordiv(indices[dim], stride)
            found.append(index if stride * extent == self.shape[dim] else floormod(index, extent))
        return found

    def indices(self, stored: Sequence[PrimExpr]) -> list[Any]:
        """Return the indices in the original array for an element of the stored array."""
        found: list[Any] = [0] * len(self.shape)
        for part, index in zip(self.parts, stored):
            found[part.dim] = found[part.dim] + index * part.stride
        return found


def layouts_of(dag: ComputeDAG, steps: Sequence[TransformStep]) -> dict[Tensor, StoredLayout]:
    """Return the layouts that a schedule prefers for the inputs with a free layout. An input has no entry if it already
    has this layout, or if its indices or loops are not affine enough to derive a layout."""
    free = dag.layout_free_placeholders
    return _layouts(free, Replay(dag).run(steps).stages) if free else {}


def needed_layouts(stages: Sequence[Stage]) -> dict[Tensor, StoredLayout]:
    """Return the layouts of inputs that intrinsics of matrix registers read in panels, whether their layout is free or
    not."""
    intrins = [(stage, loop.tensor_intrin) for stage in stages for loop in stage.iter_var_attrs.values()]
    read = [stage.op.input_tensors[1:] for stage, made in intrins if made is not None and len(made.op.axis) > 1]
    return _layouts([tensor for (tensor,) in filter(None, read) if isinstance(tensor.op, PlaceholderOp)], stages)


def _layouts(tensors: Sequence[Tensor], stages: Sequence[Stage]) -> dict[Tensor, StoredLayout]:
    found = {tensor: _layout_of(tensor, stages) for tensor in tensors}
    return {tensor: layout for tensor, layout in found.items() if layout is not None}


def _layout_of(tensor: Tensor, stages: Sequence[Stage]) -> StoredLayout | None:
    readers = [stage for stage in stages if isinstance(stage.op, ComputeOp) and tensor in stage.op.input_tensors]
    shape = [dim.value for dim in tensor.shape if isinstance(dim, IntImm)]
    if len(readers) != 1 or not readers[0].op.reduce_axis or len(shape) != len(tensor.shape):
        return None
    stage = readers[0]
    dims = _dims_of(tensor, stage, shape)
    loops = _parts_of_loops(stage)
    if dims is None or loops is None:
        return None
    parts = [
        Part(dims[axis], extent, stride)
        for leaf in stage.leaf_iter_vars
        for axis, extent, stride in loops[leaf]
        if axis in dims and extent > 1
    ]
    layout = StoredLayout(tuple(shape), _merged(parts))
    return None if list(layout.parts) == layout._apart() else layout


def _dims_of(tensor: Tensor, stage: Stage, shape: Sequence[int]) -> dict[IterVar, int] | None:
    """Return the tensor dimension that each axis of a stage indexes; None if an index is not an axis, or if an axis
    does not cover its dimension."""
    seen: set[int] = set()
    loads = [
        node
        for body in stage.op.body
        for node in post_order(body, seen=seen)
        if isinstance(node, ProducerLoad) and node.producer == tensor
    ]
    if len(loads) != 1:
        return None
    axes = {axis.var: axis for axis in (*stage.op.axis, *stage.op.reduce_axis)}
    dims: dict[IterVar, int] = {}
    for dim, (index, extent) in enumerate(zip(loads[0].indices, shape)):
        axis = axes.get(index) if isinstance(index, Var) else None
        if axis is None and extent == 1:
            continue
        if axis is None or axis in dims or getattr(axis.dom.extent, "value", None) != extent:
            return None
        dims[axis] = dim
    return dims


def _parts_of_loops(stage: Stage) -> dict[IterVar, list[tuple[IterVar, int, int]]] | None:
    """Return the parts of axes (axis, extent, stride) that each loop covers, several for a fused loop. Return None if a
    split is uneven or splits a fused loop."""
    parts = {
        axis: [(axis, axis.dom.extent.value, 1)]
        for axis in (*stage.op.axis, *stage.op.reduce_axis)
        if isinstance(axis.dom.extent, IntImm)
    }
    for relation in stage.relations:
        if isinstance(relation, Fuse):
            parts[relation.fused] = parts[relation.outer] + parts[relation.inner]
        elif isinstance(relation, Split):
            if len(parts[relation.parent]) != 1:
                return None
            ((axis, extent, stride),) = parts[relation.parent]
            inner = _length(relation, extent)
            if inner is None or extent % inner:
                return None
            parts[relation.outer] = [(axis, extent // inner, stride * inner)]
            parts[relation.inner] = [(axis, inner, stride)]
        else:
            return None
    return parts if all(leaf in parts for leaf in stage.leaf_iter_vars) else None


def _length(split: Split, extent: int) -> int | None:
    """Return the extent of the inner loop of a split."""
    given = split.factor if split.factor is not None else split.nparts
    number = given if isinstance(given, int) else getattr(given, "value", None)
    if number is None:
        return None
    return min(number, extent) if split.factor is not None else -(-extent // number)


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts, with parts merged that are adjacent in the array."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and last.dim == part.dim and last.stride == part.extent * part.stride:
            found[-1] = Part(part.dim, last.extent * part.extent, part.stride)
        else:
            found.append(part)
    return tuple(found)


@dataclass(frozen=True)
class Rewritten:
    """A program that reads arrays in stored layouts, with a map from original to new operations."""

    ops: list[Operation]
    output_ops: list[Operation]
    tensors: list[Tensor]
    # The operations that convert original arrays into the stored layout.
    transforms: list[Operation]


def rewritten(dag: ComputeDAG, layouts: dict[Tensor, StoredLayout], converted: Collection[Tensor] = ()) -> Rewritten:
    """Return the program with arrays in stored layouts as arguments, except for those in ``converted``, which the
    program converts from the original arrays."""
    stored: dict[Tensor, Tensor] = {}
    for tensor, layout in layouts.items():
        stored[tensor] = (
            _transform(tensor, layout)
            if tensor in converted
            else placeholder(layout.stored_shape, tensor.dtype, name=tensor.op.name)
        )
    new: dict[Operation, Operation] = {tensor.op: made.op for tensor, made in stored.items()}

    def post(node: Any) -> Any:
        if not isinstance(node, ProducerLoad):
            return None
        if node.producer in stored:
            return stored[node.producer](*layouts[node.producer].stored_indices(node.indices))
        op = new.get(node.producer.op)
        return None if op is None else op.output(node.producer.value_index)(*node.indices)

    for op in dag.ops:
        if isinstance(op, ComputeOp):
            body = tuple(rewrite(one, post) for one in op.body)
            if any(a is not b for a, b in zip(body, op.body)):
                new[op] = ComputeOp(op.name, op.tag, op.attrs, op.axis, body)

    def replaced(tensor: Tensor) -> Tensor:
        if isinstance(tensor.op, PlaceholderOp):
            return tensor if tensor in converted else stored.get(tensor, tensor)
        return new[tensor.op].output(tensor.value_index) if tensor.op in new else tensor

    return Rewritten(
        [new.get(op, op) for op in dag.ops],
        [new.get(op, op) for op in dag.output_ops],
        [replaced(tensor) for tensor in dag.tensors],
        [stored[tensor].op for tensor in converted],
    )


def _transform(tensor: Tensor, layout: StoredLayout) -> Tensor:
    return compute(layout.stored_shape, lambda *at: tensor(*layout.indices(at)), name=f"{tensor.op.name}_stored")


__all__ = ["Part", "Rewritten", "StoredLayout", "layouts_of", "needed_layouts", "rewritten"]
