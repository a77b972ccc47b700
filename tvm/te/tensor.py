"""Tensors and operations: the nodes of a tensor program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import canonical
from ..hooks import Hook
from ..ir import primop
from ..ir.node import Node
from ..ir.prim import ExprOp, IterVar, PrimExpr, ProducerLoad, Reduce, convert
from ..ir.visit import post_order

if TYPE_CHECKING:
    from ..ir.node import slot_field
    from ..ir.span import Span


class TensorSlice(ExprOp):
    """``A[i]`` or ``A[i, j]``. The slice converts to an element once it has as many indices as the tensor has
    dimensions.

    Parameters
    ----------
    tensor : Tensor
        The tensor.
    indices : tuple of PrimExpr
        The indices so far.
    """

    __slots__ = ("tensor", "indices")

    def __init__(self, tensor: Tensor, indices: Any):
        self.tensor = tensor
        self.indices: tuple[Any, ...] = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)

    def __getitem__(self, indices: Any):
        more: tuple[Any, ...] = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        return TensorSlice(self.tensor, self.indices + more)

    def asobject(self) -> PrimExpr:
        """The element at the indices.

        Returns
        -------
        PrimExpr
            A load from the tensor.

        Raises
        ------
        ValueError
            The number of indices differs from the number of dimensions.
        TypeError
            An index is not an integer expression.
        """
        return self.tensor(*self.indices)

    @property
    def dtype(self) -> str:
        return self.tensor.dtype


class Tensor(ExprOp, Node, key="Tensor"):
    """Output ``value_index`` of an operation. There is one Tensor object per output.

    Parameters
    ----------
    shape : tuple of PrimExpr
        The size of each dimension.
    dtype : str
        The dtype of the elements, such as "float32" or "int32x4".
    op : Operation
        The operation that computes the tensor.
    value_index : int
        The index of the output of the operation.
    """

    shape: tuple[PrimExpr, ...]
    dtype: str
    op: Any
    value_index: int

    __hash__ = object.__hash__

    def __eq__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(other, Tensor):
            return self is other
        return ExprOp.__eq__(self, other)

    def __ne__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(other, Tensor):
            return self is not other
        return ExprOp.__ne__(self, other)

    @classmethod
    def from_fields(cls, fields: dict[Any, Any]) -> Tensor:
        """The tensor for saved fields, taken from its operation so that there is one object per output.

        Parameters
        ----------
        fields : dict
            The fields: ``op`` is the operation, ``value_index`` the index of its output.

        Returns
        -------
        Tensor
        """
        return fields["op"].output(fields["value_index"])

    def children(self) -> list[Any]:
        return []

    def map_children(self, f: Any):
        return self

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def axis(self) -> tuple[Any, ...]:
        """The iteration axes of the operation that computes this tensor."""
        return self.op.axis

    def __call__(self, *indices: Any) -> PrimExpr:
        if len(indices) == 1 and isinstance(indices[0], (list, tuple)):
            indices = tuple(indices[0])
        if len(indices) != len(self.shape):
            raise ValueError(
                f"tensor {self.name} has {len(self.shape)} dimensions, but is indexed with {len(indices)} indices"
            )
        return ProducerLoad(self, tuple(_index(self, i) for i in indices))

    def __getitem__(self, indices: Any):
        return TensorSlice(self, indices)

    def __len__(self) -> int:
        length: Any = self.shape[0]
        return int(length)

    def __iter__(self):
        raise TypeError(
            f"tensor {self.name} cannot be iterated: its elements have no values while the program is being built"
        )

    def __bool__(self):
        raise ValueError(f"tensor {self.name} has no truth value while the program is being built")


def _index(tensor: Tensor, value: Any) -> PrimExpr:
    index = convert(value)
    if not isinstance(index, PrimExpr):
        raise TypeError(f"tensor {tensor.name}: an index must be an integer expression, got {type(value).__name__}")
    if index.dtype.startswith("float"):
        raise TypeError(f"tensor {tensor.name}: an index must be an integer expression, got one of type {index.dtype}")
    return index


class Operation(Node):
    """An operation that computes tensors. ``name`` is the name of its loops and buffers, ``tag`` the kind of operation.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    """

    name: str
    tag: str
    attrs: dict[Any, Any] | None

    if TYPE_CHECKING:
        # A slot of each subclass. Each tensor is created once, so tensors can be compared by identity.
        _outputs: list[Tensor] = slot_field()

    @classmethod
    def from_fields(cls, fields: dict[Any, Any]) -> Operation:
        """An operation from its saved fields, without output tensors; they are created on first use.

        Parameters
        ----------
        fields : dict
            The value of each field by its name; missing fields are None.

        Returns
        -------
        Operation
        """
        op = cls.__new__(cls)
        for name in (*cls._fields, "span"):
            setattr(op, name, fields.get(name))
        op._outputs = []
        if isinstance(op, ComputeOp):
            op._inputs = None  # pyright: ignore[reportPrivateUsage]
        return op

    @property
    def num_outputs(self) -> int:
        return len(self.output_types())

    def output_types(self) -> list[tuple[tuple[Any, ...], str]]:
        """The shape and dtype of each output.

        Returns
        -------
        list of tuple
            A tuple of extents and a dtype for each output.

        Raises
        ------
        TypeError
            The class does not define its outputs.
        """
        raise TypeError(f"{type(self).__name__} has no outputs")

    def output(self, index: int) -> Tensor:
        """The tensor of one output, which is created on first use.

        Parameters
        ----------
        index : int
            The index of the output.

        Returns
        -------
        Tensor
        """
        if not self._outputs:
            self._outputs.extend(Tensor(s, d, self, i) for i, (s, d) in enumerate(self.output_types()))
        return self._outputs[index]

    @property
    def outputs(self) -> list[Tensor]:
        self.output(0)
        return list(self._outputs)

    @property
    def input_tensors(self) -> list[Tensor]:
        return []

    @property
    def axis(self) -> tuple[Any, ...]:
        return ()

    @property
    def reduce_axis(self) -> tuple[Any, ...]:
        return ()

    def children(self) -> list[Any]:
        return []

    def map_children(self, f: Any):
        return self


class PlaceholderOp(Operation, key="PlaceholderOp", derived={"_outputs": "[]"}):
    """An input of the program.

    Parameters
    ----------
    name : str
        The name of the tensor.
    shape : tuple of PrimExpr
        The size of each dimension.
    dtype : str
        The dtype of the elements, such as "float32" or "int32x4".
    """

    shape: tuple[Any, ...]
    dtype: str

    def __init__(self, name: str, shape: Any, dtype: str, span: Span | None = None):
        self.name, self.tag, self.attrs = name, "", {}
        self.shape = tuple(convert(s) for s in shape)
        self.dtype = canonical(dtype)
        self._outputs = []
        self.span = span

    def output_types(self):
        return [(self.shape, self.dtype)]


class BaseComputeOp(Operation):
    """An operation that computes each element at a point of its axes.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    """


class ComputeOp(BaseComputeOp, key="ComputeOp", derived={"_outputs": "[]", "_inputs": "None"}):
    """output[axis...] = body. Several bodies compute several tensors of the same shape; several reductions share one
    combiner.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    axis : tuple of IterVar
        The iteration axes.
    body : tuple of PrimExpr
        The value of each output at a point.
    """

    axis_: tuple[Any, ...]
    body: tuple[Any, ...]

    def __init__(self, name: str, tag: str, attrs: Any, axis: Any, body: Any, span: Span | None = None):
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self.axis_ = tuple(axis)
        self.body = tuple(body)
        self._outputs = []
        self._inputs = None
        self.span = span

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self.axis_

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(a.dom.extent for a in self.axis_)

    def output_types(self):
        shape = self.shape
        return [(shape, b.dtype) for b in self.body]

    @property
    def input_tensors(self) -> list[Tensor]:
        if self._inputs is None:
            self._inputs = tensors_in(self.body)
        return list(self._inputs)

    def with_body(self, body: tuple[Any, ...]) -> ComputeOp:
        """The operation with the same axes and another body; schedules made for the axes stay valid.

        Parameters
        ----------
        body : tuple of PrimExpr
            The value of an element for each output, over the axes of this operation.

        Returns
        -------
        ComputeOp
            A new operation of the same name, tag and attributes.
        """
        return ComputeOp(self.name, self.tag, self.attrs, self.axis_, body)


class TensorComputeOp(BaseComputeOp, key="TensorComputeOp", derived={"_outputs": "[]"}):
    """An operation that an intrinsic computes tile by tile. The first ``schedulable_ndim`` axes and ``reduce_axis`` are
    loops; one call of the intrinsic covers the other axes and reads the part of each input given in ``input_regions``.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    axis : tuple of IterVar
        The iteration axes.
    reduce_axis : tuple of IterVar
        The axes that are reduced tile by tile.
    schedulable_ndim : int
        The number of axes that are loops.
    intrin : TensorIntrin
        The intrinsic that computes a tile.
    inputs : list of Tensor
        The input tensors.
    input_regions : tuple
        The region of each input that a call reads.
    scalar_inputs : tuple of PrimExpr
        The scalar arguments of the intrinsic.
    """

    axis_: tuple[Any, ...]
    reduce_axis_: tuple[Any, ...]
    schedulable_ndim: int
    intrin: Any
    inputs: tuple[Any, ...]
    input_regions: tuple[Any, ...]
    scalar_inputs: tuple[Any, ...]

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        axis: Any,
        reduce_axis: Any,
        schedulable_ndim: Any,
        intrin: Any,
        inputs: Any,
        input_regions: Any,
        scalar_inputs: Any,
        span: Span | None = None,
    ):
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self.axis_, self.reduce_axis_ = tuple(axis), tuple(reduce_axis)
        self.schedulable_ndim = schedulable_ndim
        self.intrin = intrin
        self.inputs = tuple(inputs)
        self.input_regions = tuple(tuple(r) for r in input_regions)
        self.scalar_inputs = tuple(scalar_inputs)
        self._outputs = []
        self.span = span

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self.axis_

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return self.reduce_axis_

    @property
    def loops(self) -> tuple[IterVar, ...]:
        """The axes that are loops around the intrinsic."""
        return self.axis_[: self.schedulable_ndim] + self.reduce_axis_

    def with_inputs(self, inputs: Any, scalar_inputs: Any) -> TensorComputeOp:
        """The same computation with other inputs.

        Parameters
        ----------
        inputs : list of Tensor
            The new inputs, in the order of the old ones.
        scalar_inputs : tuple of PrimExpr
            The scalar arguments of the intrinsic.

        Returns
        -------
        TensorComputeOp
            A new operation with the same axes and regions.
        """
        return TensorComputeOp(
            self.name,
            self.tag,
            self.attrs,
            self.axis_,
            self.reduce_axis_,
            self.schedulable_ndim,
            self.intrin,
            inputs,
            self.input_regions,
            scalar_inputs,
        )

    def output_types(self):
        shape = tuple(a.dom.extent for a in self.axis_)
        return [(shape, t.dtype) for t in self.intrin.op.outputs]

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys((*self.inputs, *tensors_in(self.scalar_inputs))))


class ScanOp(Operation, key="ScanOp", derived={"_outputs": "[]"}):
    """state[t] for t in the scan axis: ``init`` computes the first entries, ``update`` the others from earlier ones.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    scan_axis : IterVar
        The axis that enumerates the steps of the scan.
    init : tuple of Tensor
        The first entries of each state.
    update : tuple of Tensor
        The next entry of each state.
    state_placeholder : tuple of Tensor
        The placeholders for earlier entries in ``update``.
    inputs : list of Tensor
        The input tensors.
    spatial : tuple of IterVar, optional
        The other axes of the states.
    """

    scan_axis: Any
    init: tuple[Any, ...]
    update: tuple[Any, ...]
    state_placeholder: tuple[Any, ...]
    inputs: tuple[Any, ...]
    spatial_axis_: tuple[Any, ...]

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        scan_axis: Any,
        init: Any,
        update: Any,
        state_placeholder: Any,
        inputs: Any,
        spatial: Any = None,
        span: Span | None = None,
    ):
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self.scan_axis = scan_axis
        self.init, self.update = tuple(init), tuple(update)
        self.state_placeholder, self.inputs = tuple(state_placeholder), tuple(inputs)
        if spatial is None:
            spatial = []
            for i, state in enumerate(self.state_placeholder):
                for k in range(1, len(state.shape)):
                    spatial.append(IterVar((0, state.shape[k]), f"{name}.out{i}.i{k}", IterVar.DataPar))
        self.spatial_axis_ = tuple(spatial)
        self._outputs = []
        self.span = span

    @property
    def axis(self) -> tuple[Any, ...]:
        return (self.scan_axis,) + self.spatial_axis_

    def output_types(self):
        return [(state.shape, state.dtype) for state in self.state_placeholder]

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys(self.init + self.update))


class ExternOp(Operation, key="ExternOp", derived={"_outputs": "[]"}):
    """An operation computed by a statement over buffers, one for each input and output.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    inputs : list of Tensor
        The input tensors.
    input_placeholders : tuple of Buffer
        The buffers that the statement reads, one for each input.
    output_placeholders : tuple of Buffer
        The buffers that the statement writes, one for each output.
    body : Stmt
        The statement that computes the outputs.
    """

    inputs: tuple[Any, ...]
    input_placeholders: tuple[Any, ...]
    output_placeholders: tuple[Any, ...]
    body: Any

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        inputs: Any,
        input_placeholders: Any,
        output_placeholders: Any,
        body: Any,
        span: Span | None = None,
    ):
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self.inputs = tuple(inputs)
        self.input_placeholders, self.output_placeholders = tuple(input_placeholders), tuple(output_placeholders)
        self.body = body
        self._outputs = []
        self.span = span

    def output_types(self):
        return [(b.shape, b.dtype) for b in self.output_placeholders]

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys(self.inputs))


class HybridOp(Operation, key="HybridOp", derived={"_outputs": "[]"}):
    """An operation computed by a statement over tensors, written in hybrid script. The axes of the operation are those
    of the statement's loops.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict
        Additional attributes, by name.
    inputs : list of Tensor
        The input tensors.
    outputs : tuple of Tensor
        The output tensors of the statement.
    axis : tuple of IterVar
        The axes of the loops.
    body : Stmt
        The statement.
    """

    inputs: tuple[Any, ...]
    outputs_: tuple[Any, ...]
    axis_: tuple[Any, ...]
    body: Any

    def __init__(
        self, name: str, tag: str, attrs: Any, inputs: Any, outputs: Any, axis: Any, body: Any, span: Span | None = None
    ):
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self.inputs, self.outputs_, self.axis_, self.body = tuple(inputs), tuple(outputs), tuple(axis), body
        self._outputs = []
        self.span = span

    @property
    def axis(self) -> tuple[Any, ...]:
        return self.axis_

    def output_types(self):
        return [(o.shape, o.dtype) for o in self.outputs_]

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys(self.inputs))


def tensors_in(body: Any) -> list[Tensor]:
    """Return the tensors read in an expression or a tuple of expressions, in order of first use."""
    found: dict[Tensor, None] = {}
    for e in body if isinstance(body, tuple) else (body,):
        for node in post_order(e):
            if isinstance(node, ProducerLoad) and isinstance(node.producer, Tensor):
                found[node.producer] = None
    return list(found)


OPERATOR: Hook[[str], Callable[[Any, Any], Any] | None] = Hook(
    "te.tensor.OPERATOR", "returns the function of an operator on tensors by its name, or None"
)


def _tensor_operator(name: str, a: Any, b: Any):
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        function = OPERATOR(name)
        if function is None:
            raise TypeError(f"the operator '{name}' does not support tensors; compute each element with te.compute")
        return function(a, b)
    return NotImplemented


primop.TENSOR_BINARY.give(_tensor_operator)
