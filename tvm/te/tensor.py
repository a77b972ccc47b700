"""Tensors and the operations that make them: the nodes of a tensor program."""

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
    """``A[i]`` or ``A[i, j]``: becomes an element once it has as many indices as the tensor has dimensions.

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
            There are not as many indices as the tensor has dimensions.
        TypeError
            An index is no integer expression.
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
        The type of the value, such as "float32" or "int32x4".
    op : Operation
        The operation that makes it.
    value_index : int
        Which output of the operation it is.
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
        """The tensor that saved fields stand for: that of its operation, so that there is one.

        Parameters
        ----------
        fields : dict
            ``op``, the operation, and ``value_index``, which output of it the tensor is.

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
        """The iteration axes of the operation that makes this tensor."""
        return self.op.axis

    def __call__(self, *indices: Any) -> PrimExpr:
        if len(indices) == 1 and isinstance(indices[0], (list, tuple)):
            indices = tuple(indices[0])
        if len(indices) != len(self.shape):
            raise ValueError(f"tensor {self.name} has {len(self.shape)} dimensions; it was indexed with {len(indices)}")
        return ProducerLoad(self, tuple(_index(self, i) for i in indices))

    def __getitem__(self, indices: Any):
        return TensorSlice(self, indices)

    def __len__(self) -> int:
        length: Any = self.shape[0]
        return int(length)

    def __iter__(self):
        raise TypeError(f"tensor {self.name} cannot be iterated: its elements are not known while building the program")

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
    """Makes tensors. ``name`` shows in loops and buffers, ``tag`` says what kind of operation it is.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    """

    name: str
    tag: str
    attrs: dict[Any, Any] | None

    if TYPE_CHECKING:
        # A slot of each subclass: tensors are made once, so identity of a tensor is equality.
        _outputs: list[Tensor] = slot_field()

    @classmethod
    def from_fields(cls, fields: dict[Any, Any]) -> Operation:
        """An operation from its saved fields, with no outputs made yet.

        Parameters
        ----------
        fields : dict
            The value of each field by its name; a field that is not among them is None.

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
        """Shape and dtype of each output.

        Returns
        -------
        list of tuple
            A tuple of extents and the name of a type for each output.

        Raises
        ------
        TypeError
            The class does not say what its outputs are.
        """
        raise TypeError(f"{type(self).__name__} has no outputs")

    def output(self, index: int) -> Tensor:
        """The tensor of one output. Tensors are made when first asked for, and once.

        Parameters
        ----------
        index : int
            Which output.

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
        The type of the value, such as "float32" or "int32x4".
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
    """An operation computed point by point over its axes.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    """


class ComputeOp(BaseComputeOp, key="ComputeOp", derived={"_outputs": "[]", "_inputs": "None"}):
    """output[axis...] = body. Several bodies make several tensors of one shape; a reduction has one combiner for
    all.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    axis : tuple of IterVar
        The axes it is computed over.
    body : tuple of PrimExpr
        The value at a point, one for each output.
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
        """The same axes with another body: schedules made on the axes stay valid.

        Parameters
        ----------
        body : tuple of PrimExpr
            The values of an element, one for each output, over the axes of this operation.

        Returns
        -------
        ComputeOp
            A new operation of the same name, tag and attributes.
        """
        return ComputeOp(self.name, self.tag, self.attrs, self.axis_, body)


class TensorComputeOp(BaseComputeOp, key="TensorComputeOp", derived={"_outputs": "[]"}):
    """Computed tile by tile by an intrinsic: the first ``schedulable_ndim`` axes and ``reduce_axis`` are loops, the
    others are what one call makes. ``input_regions`` says which part of each input a call reads.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    axis : tuple of IterVar
        The axes it is computed over.
    reduce_axis : tuple of IterVar
        The axes that are summed over, tile by tile.
    schedulable_ndim : int
        How many of the axes are loops.
    intrin : TensorIntrin
        What computes a tile.
    inputs : list of Tensor
        The tensors that are read.
    input_regions : tuple
        The region of each input that a call reads.
    scalar_inputs : tuple of PrimExpr
        Numbers the intrinsic is given.
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
        """The same computation on other tensors.

        Parameters
        ----------
        inputs : list of Tensor
            The tensors that are read, in the order of the ones they replace.
        scalar_inputs : tuple of PrimExpr
            Numbers the intrinsic is given.

        Returns
        -------
        TensorComputeOp
            A new operation with the same axes and regions.
        """
        return TensorComputeOp(self.name, self.tag, self.attrs, self.axis_, self.reduce_axis_, self.schedulable_ndim,
                               self.intrin, inputs, self.input_regions, scalar_inputs)

    def output_types(self):
        shape = tuple(a.dom.extent for a in self.axis_)
        return [(shape, t.dtype) for t in self.intrin.op.outputs]

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys((*self.inputs, *tensors_in(self.scalar_inputs))))


class ScanOp(Operation, key="ScanOp", derived={"_outputs": "[]"}):
    """state[t] for t in the scan axis: ``init`` gives the first rows, ``update`` the others from earlier ones.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    scan_axis : IterVar
        The axis along which states follow each other.
    init : tuple of Tensor
        The first rows of each state.
    update : tuple of Tensor
        The next row of each state.
    state_placeholder : tuple of Tensor
        What stands for earlier rows in ``update``.
    inputs : list of Tensor
        The tensors that are read.
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
    """Made by a statement over buffers: one for each input and output.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    inputs : list of Tensor
        The tensors that are read.
    input_placeholders : tuple of Buffer
        The buffers that the statement reads, one for each input.
    output_placeholders : tuple of Buffer
        The buffers that the statement writes, one for each output.
    body : Stmt
        The statement that fills the outputs.
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
    """Made by a statement over tensors, written in hybrid script; its loops carry the axes.

    Parameters
    ----------
    name : str
        The name of its tensors.
    tag : str
        What kind of operation it is, for schedules that look for one.
    attrs : dict
        Further facts, by name.
    inputs : list of Tensor
        The tensors that are read.
    outputs : tuple of Tensor
        What the statement makes.
    axis : tuple of IterVar
        The axes of its loops.
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
    """Tensors read in an expression or a tuple of them, in order of first use."""
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
            raise TypeError(f"no operator '{name}' between tensors; compute element by element with te.compute")
        return function(a, b)
    return NotImplemented


primop.TENSOR_BINARY.give(_tensor_operator)
