"""Constructors of tensor programs: placeholder, compute, scan, extern, axes and variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.prim import ExprOp, IntImm, IterVar, PrimExpr, ProducerLoad, Range, Reduce, SizeVar, Var, convert
from ..ir.visit import post_order
from ..tir.buffer import Buffer, decl_buffer
from ..tir.stmt import Evaluate, Stmt
from .tag import TagScope
from .tensor import ComputeOp, ExternOp, PlaceholderOp, ScanOp, Tensor, TensorComputeOp, TensorSlice
from .tensor_intrin import TensorIntrinCall

if TYPE_CHECKING:
    from ..ir.span import Span


def _shape(shape: Any, what: str) -> tuple[PrimExpr, ...]:
    """Convert dimensions to expressions. Floats with an integer value (``N / bn`` in published scripts) become
    integers."""
    if isinstance(shape, (PrimExpr, int, float)):
        shape = (shape,)
    out: list[PrimExpr] = []
    for dim in shape:
        if isinstance(dim, float):
            if not dim.is_integer():
                raise ValueError(f"{what}: dimension {dim} is not an integer")
            dim = int(dim)
        dim = convert(dim)
        if not isinstance(dim, PrimExpr) or not info(dim.dtype).is_integer:
            raise TypeError(f"{what}: a dimension must be an integer or an integer expression, got {dim!r}")
        if isinstance(dim, IntImm) and dim.value < 0:
            raise ValueError(f"{what}: dimension {dim.value} is negative")
        out.append(dim)
    return tuple(out)


def _of_one_type(dims: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """Give constant dimensions the widest dtype among the dimensions, because the axes of one computation may be
    fused."""
    if not any(d.dtype == "int64" for d in dims):
        return dims
    return tuple(const(d.value, "int64") if isinstance(d, IntImm) and d.dtype == "int32" else d for d in dims)


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor.

    Parameters
    ----------
    shape : tuple of PrimExpr
        The size of each dimension.
    dtype : str, optional
        The type of the elements; without it, float32.
    name : str, optional
        The name of the tensor.

    Returns
    -------
    The tensor.

    Examples
    --------
    >>> te.placeholder((4, 8), name="A").shape
    (4, 8)
    """
    return PlaceholderOp(name, _shape(shape, f"placeholder '{name}'"), dtype or "float32").output(0)


def var(name: str = "tindex", dtype: str = "int32", span: Span | None = None) -> Var:
    """An integer variable whose value is known at run time.

    Parameters
    ----------
    name : str, optional
        Its name in printed programs.
    dtype : str, optional
        Its type, an integer.

    Returns
    -------
    Var

    Examples
    --------
    >>> n = te.var("n")
    >>> te.placeholder((n,), name="A").shape
    (n,)
    """
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: Span | None = None) -> Var:
    """An integer variable that is at least zero, for dimensions of tensors.

    Parameters
    ----------
    name : str, optional
        Its name in printed programs.
    dtype : str, optional
        Its type, an integer.

    Returns
    -------
    Var
    """
    return SizeVar(name, dtype)


def const(value: Any, dtype: str = "int32", span: Span | None = None):
    from ..ir.prim import const as make

    return make(value, dtype)


def _axis_names(fcompute: Any, ndim: int, what: str) -> list[str]:
    """Return names for the axes: the parameter names of the function where available."""
    try:
        spec = inspect.signature(fcompute)
    except (TypeError, ValueError):
        return [f"i{i}" for i in range(ndim)]
    names: list[str] = []
    for parameter in spec.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names.extend(f"i{i}" for i in range(len(names), ndim))
            return names
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            if parameter.default is inspect.Parameter.empty or len(names) < ndim:
                names.append(parameter.name)
    if len(names) > ndim:
        raise ValueError(f"{what}: the function takes {len(names)} indices but the shape has {ndim} dimensions")
    return names


def compute(
    shape: Any, fcompute: Any, name: str = "compute", tag: str = "", attrs: Any = None, varargs_names: Any = None
) -> Any:
    """output[i, j, ...] = fcompute(i, j, ...). If ``fcompute`` returns a tuple of expressions, the result is a list of
    tensors.

    Parameters
    ----------
    shape : tuple of PrimExpr
        The shape of the output.
    fcompute : callable
        A function that returns the element at the given indices, or a tuple of elements.
    name : str, optional
        The name of the output.
    tag : str, optional
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict, optional
        Additional attributes, by name.
    varargs_names : list of str, optional
        Names of the axes if ``fcompute`` takes ``*indices``.

    Returns
    -------
    Tensor or list of Tensor
        The output; a list if ``fcompute`` returns a tuple.

    Raises
    ------
    ValueError
        ``fcompute`` takes a different number of indices than ``shape`` has dimensions, or a tag is given inside a tag
        scope.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> print(B.op.body[0])
    A[i] + T.float32(1)
    """
    what = f"compute '{name}'"
    dims = _of_one_type(_shape(shape, what))
    if TagScope.current is not None:
        if tag:
            raise ValueError("compute: an explicit tag cannot be given inside a tag scope")
        tag = TagScope.current.tag
    names = _axis_names(fcompute, len(dims), what)
    if varargs_names:
        names = list(names[: len(dims) - len(varargs_names)]) + list(varargs_names)
    # A call of a tensor intrinsic adds the dimensions that are not parameters of the function.
    loops = len(names)
    names = list(names) + [f"ax{i}" for i in range(loops, len(dims))]
    axis = [IterVar(Range.from_min_extent(_zero(d), d), Var(n, d.dtype), IterVar.DataPar) for n, d in zip(names, dims)]
    result = fcompute(*[a.var for a in axis[:loops]])
    if isinstance(result, TensorIntrinCall):
        op = TensorComputeOp(
            name,
            tag,
            attrs,
            axis,
            result.reduce_axis,
            loops,
            result.intrin,
            result.tensors,
            result.regions,
            result.scalar_inputs,
        )
        return op.output(0) if op.num_outputs == 1 else tuple(op.outputs)
    if loops != len(dims):
        raise ValueError(f"{what}: the function takes {loops} indices but the shape has {len(dims)} dimensions")
    several = isinstance(result, (list, tuple))
    body = tuple(_element(b, what) for b in (result if several else (result,)))
    check_body(body, what)
    op = ComputeOp(name, tag, attrs, axis, body)
    outputs = op.outputs
    return tuple(outputs) if several and len(outputs) > 1 else outputs[0]


def _zero(like: PrimExpr) -> PrimExpr:
    return convert(0) if like.dtype == "int32" else _typed_zero(like.dtype)


def _typed_zero(dtype: str):
    from ..ir.prim import const as make

    return make(0, dtype)


def _element(value: Any, what: str) -> PrimExpr:
    if isinstance(value, Tensor):
        if value.shape:
            raise TypeError(
                f"{what}: the function returned tensor {value.name} instead of an element; index the tensor"
            )
        value = value()
    if isinstance(value, TensorSlice):
        value = value.asobject()
    value = convert(value)
    if not isinstance(value, PrimExpr):
        raise TypeError(f"{what}: the function must return an expression, got {type(value).__name__}")
    return value


def check_body(body: tuple[Any, ...], what: str) -> None:
    """Check that a reduction is the whole body, and that all bodies of an operation share one reduction."""
    reductions = [isinstance(b, Reduce) for b in body]
    if any(reductions) and not all(reductions):
        raise ValueError(f"{what}: either all outputs or no output must be a reduction")
    if all(reductions):
        for b in body[1:]:
            if b.axis is not body[0].axis and any(x is not y for x, y in zip(b.axis, body[0].axis)):
                raise ValueError(f"{what}: all outputs must reduce over the same axes")
    for b in body:
        inside = b.source + b.init if isinstance(b, Reduce) else (b,)
        for e in inside:
            for node in post_order(e):
                if isinstance(node, Reduce):
                    raise ValueError(
                        f"{what}: a reduction must be the whole value of a compute; compute the reduction in a "
                        "separate te.compute and read its result"
                    )


def reduce_axis(dom: Any, name: Any = "rv", thread_tag: Any = "", span: Span | None = None) -> IterVar:
    """A reduction axis; ``dom`` is a pair (begin, end) or a Range.

    Parameters
    ----------
    dom : Range or tuple
        The range of the axis.
    name : str, optional
        The name of its loop.
    thread_tag : str, optional
        The tag of the hardware thread axis to which it is bound, if any.

    Returns
    -------
    IterVar

    Raises
    ------
    TypeError
        ``dom`` is neither a Range nor a pair.
    ValueError
        ``dom`` does not have two values.

    Examples
    --------
    >>> k = te.reduce_axis((0, 8), name="k")
    >>> k.dom.extent
    8
    """
    if not isinstance(dom, (Range, tuple, list)):
        raise TypeError(f"reduce_axis: the domain must be a pair (begin, end), got {dom!r}")
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise ValueError(f"reduce_axis: the domain must be a pair (begin, end), got {len(dom)} values")
        begin, end = (int(d) if isinstance(d, float) and d.is_integer() else d for d in dom)
        dom = Range(begin, end)
    return IterVar(dom, Var(name, dom.extent.dtype), IterVar.CommReduce, thread_tag)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Span | None = None) -> IterVar:
    """An axis of hardware threads: ``thread_axis("threadIdx.x")`` or ``thread_axis((0, 32), "threadIdx.x")``.

    Parameters
    ----------
    dom : Range, tuple or str, optional
        The range of the axis; a string is used as ``tag``.
    tag : str, optional
        The tag of the hardware thread axis, such as "blockIdx.x".
    name : str, optional
        The name of its loop.

    Returns
    -------
    IterVar

    Raises
    ------
    ValueError
        The tag is missing.

    Examples
    --------
    >>> te.thread_axis("threadIdx.x").var.name
    'threadIdx.x'
    """
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise ValueError('thread_axis: the tag is missing; pass one such as "threadIdx.x"')
    if dom is not None and not isinstance(dom, Range):
        dom = Range(*dom) if isinstance(dom, (tuple, list)) else Range(dom)
    dtype = dom.extent.dtype if dom is not None else "int32"
    return IterVar(dom, Var(name or tag, dtype), IterVar.ThreadIndex, tag)


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: Any = None,
) -> Any:
    """States computed one after the other along the first dimension; the README of the examples computes a cumulative
    sum.

    Parameters
    ----------
    init : Tensor or list of Tensor
        The first entries of each state.
    update : Tensor or list of Tensor
        The next entry of each state, computed from ``state_placeholder``.
    state_placeholder : Tensor or list of Tensor
        Placeholders for the earlier entries, with the shape of the output.
    inputs : list of Tensor, optional
        Other tensors that ``update`` reads.
    name : str, optional
        The name of the output.
    tag : str, optional
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict, optional
        Additional attributes, by name.

    Returns
    -------
    Tensor or list of Tensor

    Raises
    ------
    ValueError
        The lists differ in length, states differ in type or number of dimensions, or a tag is given inside a tag
        scope.

    Examples
    --------
    >>> X = te.placeholder((5, 3), name="X")
    >>> state = te.placeholder((5, 3))
    >>> init = te.compute((1, 3), lambda _, i: X[0, i])
    >>> update = te.compute((5, 3), lambda t, i: state[t - 1, i] + X[t, i])
    >>> te.scan(init, update, state, inputs=[X]).shape
    (5, 3)
    """
    single = isinstance(init, Tensor)
    init, update, state = ([x] if isinstance(x, Tensor) else list(x) for x in (init, update, state_placeholder))
    inputs = [] if inputs is None else ([inputs] if isinstance(inputs, Tensor) else list(inputs))
    if TagScope.current is not None:
        if tag:
            raise ValueError("scan: an explicit tag cannot be given inside a tag scope")
        tag = TagScope.current.tag
    if not len(init) == len(update) == len(state):
        raise ValueError(f"scan '{name}': init, update and state_placeholder must have one entry per state")
    for i, u, s in zip(init, update, state):
        if not i.dtype == u.dtype == s.dtype:
            raise ValueError(f"scan '{name}': init, update and state differ in type: {i.dtype}, {u.dtype}, {s.dtype}")
        if not len(i.shape) == len(u.shape) == len(s.shape):
            raise ValueError(f"scan '{name}': init, update and state must have the same number of dimensions")
    axis = IterVar(Range(init[0].shape[0], update[0].shape[0]), f"{name}.idx", IterVar.Ordered)
    op = ScanOp(name, tag, attrs, axis, init, update, state, inputs)
    return op.output(0) if single or len(op.outputs) == 1 else list(op.outputs)


def extern(
    shape: Any,
    inputs: Any,
    fcompute: Callable[[Any, Any], Any],
    name: Any = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: Any = "",
    attrs: Any = None,
) -> Any:
    """A tensor computed by a statement. ``fcompute(input_buffers, output_buffers)`` returns a statement, a call, or one
    expression per output.

    Parameters
    ----------
    shape : tuple or list of tuples
        The shape of the output, or of each output.
    inputs : list of Tensor
        The tensors that the statement reads.
    fcompute : callable
        A function that returns the statement for the buffers of inputs and outputs.
    name : str, optional
        The name of the output.
    dtype : str or list of str, optional
        The dtype of the output, or of each output. Default: the dtype of the inputs if they agree.
    in_buffers : list of Buffer, optional
        Buffers for the inputs.
    out_buffers : list of Buffer, optional
        Buffers for the outputs.
    tag : str, optional
        The kind of operation, such as "elemwise", for schedules that search by tag.
    attrs : dict, optional
        Additional attributes, by name.

    Returns
    -------
    Tensor or list of Tensor

    Raises
    ------
    TypeError
        An input is not a tensor.
    ValueError
        The number of buffers differs from the number of inputs, ``fcompute`` does not return a statement, or a tag is
        given inside a tag scope.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> call = lambda ins, outs: tvm.tir.call_packed("my.double", ins[0], outs[0])
    >>> te.extern((4,), [A], call, name="B").shape
    (4,)
    """
    if TagScope.current is not None:
        if tag:
            raise ValueError("extern: an explicit tag cannot be given inside a tag scope")
        tag = TagScope.current.tag
    shapes = [shape] if isinstance(shape, PrimExpr) or not shape or not isinstance(shape[0], (list, tuple)) else shape
    shapes = [_shape(s, f"extern '{name}'") for s in shapes]
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for i in inputs:
        if not isinstance(i, Tensor):
            raise TypeError(f"extern '{name}': inputs must be tensors, got {type(i).__name__}")
    in_buffers = [in_buffers] if isinstance(in_buffers, Buffer) else in_buffers
    out_buffers = [out_buffers] if isinstance(out_buffers, Buffer) else out_buffers
    if in_buffers is not None and len(in_buffers) != len(inputs):
        raise ValueError(f"extern '{name}': {len(inputs)} inputs but {len(in_buffers)} input buffers")
    if in_buffers is None:
        in_buffers = [decl_buffer(i.shape, i.dtype, i.op.name) for i in inputs]
    if out_buffers is None:
        out_buffers = _extern_outputs(shapes, dtype, inputs, name)
    body = fcompute(list(in_buffers), list(out_buffers))
    if isinstance(body, (PrimExpr, ExprOp)):
        body = Evaluate(convert(body))
    if not isinstance(body, Stmt):
        raise ValueError(f"extern '{name}': the function must return a statement or a call, got {type(body).__name__}")
    op = ExternOp(name, tag, attrs, inputs, in_buffers, out_buffers, body)
    return op.output(0) if len(op.outputs) == 1 else list(op.outputs)


def _extern_outputs(shapes: Any, dtype: Any, inputs: Any, name: str) -> list[Buffer]:
    if dtype is None:
        kinds = {t.dtype for t in inputs}
        if len(kinds) != 1:
            raise ValueError(f"extern '{name}': cannot infer the output dtype from the inputs; pass dtype")
        dtype = [kinds.pop()] * len(shapes)
    elif isinstance(dtype, str):
        dtype = [dtype] * len(shapes)
    if len(dtype) != len(shapes):
        raise ValueError(f"extern '{name}': {len(shapes)} outputs but {len(dtype)} dtypes")
    return [decl_buffer(s, d, name) for s, d in zip(shapes, dtype)]


__all__ = [
    "compute",
    "const",
    "extern",
    "placeholder",
    "reduce_axis",
    "scan",
    "size_var",
    "thread_axis",
    "var",
    "ProducerLoad",
]
