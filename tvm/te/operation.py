"""Making tensor programs: placeholder, compute, scan, extern, axes and variables."""

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
    """Dimensions as expressions; whole floats (``N / bn`` in published scripts) become integers."""
    if isinstance(shape, (PrimExpr, int, float)):
        shape = (shape,)
    out: list[PrimExpr] = []
    for dim in shape:
        if isinstance(dim, float):
            if not dim.is_integer():
                raise ValueError(f"{what}: dimension {dim} is not a whole number")
            dim = int(dim)
        dim = convert(dim)
        if not isinstance(dim, PrimExpr) or not info(dim.dtype).is_integer:
            raise TypeError(f"{what}: a dimension is an integer or an integer expression, got {dim!r}")
        if isinstance(dim, IntImm) and dim.value < 0:
            raise ValueError(f"{what}: a dimension is {dim.value}; sizes cannot be negative")
        out.append(dim)
    return tuple(out)


def _of_one_type(dims: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """Sizes whose constants are as wide as the others: the axes of one computation are fused with each other."""
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
    Tensor

    Examples
    --------
    >>> te.placeholder((4, 8), name="A").shape
    (4, 8)
    """
    return PlaceholderOp(name, _shape(shape, f"placeholder '{name}'"), dtype or "float32").output(0)


def var(name: str = "tindex", dtype: str = "int32", span: Span | None = None) -> Var:
    """An integer variable, known when the program runs.

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
    """A variable that is at least zero: the size of a tensor.

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
    """Names for the axes: those of the function's own parameters where it has them."""
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
    """output[i, j, ...] = fcompute(i, j, ...). A tuple of expressions makes a list of tensors.

    Parameters
    ----------
    shape : tuple of PrimExpr
        The shape of the result.
    fcompute : callable
        Gives the element at the indices it is called with, or a tuple of elements.
    name : str, optional
        The name of the result.
    tag : str, optional
        What kind of operation it is, for schedules that look for one.
    attrs : dict, optional
        Further facts, by name.
    varargs_names : list of str, optional
        Names of the axes where ``fcompute`` takes ``*indices``.

    Returns
    -------
    Tensor or list of Tensor
        The result; a list where ``fcompute`` gives a tuple.

    Raises
    ------
    ValueError
        ``fcompute`` takes another number of indices than ``shape`` has dimensions, or a tag is given inside a tag
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
    # A call of a tensor intrinsic makes the dimensions that the function does not name.
    loops = len(names)
    names = list(names) + [f"ax{i}" for i in range(loops, len(dims))]
    axis = [IterVar(Range.from_min_extent(_zero(d), d), Var(n, d.dtype), IterVar.DataPar) for n, d in zip(names, dims)]
    result = fcompute(*[a.var for a in axis[:loops]])
    if isinstance(result, TensorIntrinCall):
        op = TensorComputeOp(name, tag, attrs, axis, result.reduce_axis, loops, result.intrin, result.tensors,
                             result.regions, result.scalar_inputs)
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
            raise TypeError(f"{what}: the function returned tensor {value.name}, not an element of it; index it")
        value = value()
    if isinstance(value, TensorSlice):
        value = value.asobject()
    value = convert(value)
    if not isinstance(value, PrimExpr):
        raise TypeError(f"{what}: the function returned {type(value).__name__}; an expression is wanted")
    return value


def check_body(body: tuple[Any, ...], what: str) -> None:
    """A reduction is the whole of a body, and the bodies of one operation share one reduction."""
    reductions = [isinstance(b, Reduce) for b in body]
    if any(reductions) and not all(reductions):
        raise ValueError(f"{what}: either every output is a reduction or none")
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
                        f"{what}: a reduction must be the whole value of a compute; "
                        "put the reduction in a compute of its own and read its result"
                    )


def reduce_axis(dom: Any, name: Any = "rv", thread_tag: Any = "", span: Span | None = None) -> IterVar:
    """An axis to reduce over; ``dom`` is (begin, end) or a Range.

    Parameters
    ----------
    dom : Range or tuple
        Where it runs.
    name : str, optional
        Its name in loops.
    thread_tag : str, optional
        The hardware thread that carries it, if one does.

    Returns
    -------
    IterVar

    Raises
    ------
    TypeError
        ``dom`` is no range and no pair.
    ValueError
        ``dom`` has another number of values than two.

    Examples
    --------
    >>> k = te.reduce_axis((0, 8), name="k")
    >>> k.dom.extent
    8
    """
    if not isinstance(dom, (Range, tuple, list)):
        raise TypeError(f"reduce_axis: the domain is a pair (begin, end), got {dom!r}")
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise ValueError(f"reduce_axis: the domain is a pair (begin, end), got {len(dom)} values")
        begin, end = (int(d) if isinstance(d, float) and d.is_integer() else d for d in dom)
        dom = Range(begin, end)
    return IterVar(dom, Var(name, dom.extent.dtype), IterVar.CommReduce, thread_tag)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Span | None = None) -> IterVar:
    """An axis carried by hardware threads: ``thread_axis("threadIdx.x")`` or ``thread_axis((0, 32),
    "threadIdx.x")``.

    Parameters
    ----------
    dom : Range, tuple or str, optional
        Where it runs; a text is taken for ``tag``.
    tag : str, optional
        The hardware thread, such as "blockIdx.x".
    name : str, optional
        Its name in loops.

    Returns
    -------
    IterVar

    Raises
    ------
    ValueError
        There is no tag.

    Examples
    --------
    >>> te.thread_axis("threadIdx.x").var.name
    'threadIdx.x'
    """
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise ValueError('thread_axis: a tag is needed, such as "threadIdx.x"')
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
    """state[t] computed one after the other along the first dimension; see the README of examples for a cumulative
    sum.

    Parameters
    ----------
    init : Tensor or list of Tensor
        The first rows of each state.
    update : Tensor or list of Tensor
        The next row of each state, computed from ``state_placeholder``.
    state_placeholder : Tensor or list of Tensor
        What stands for earlier rows; its shape is that of the result.
    inputs : list of Tensor, optional
        Tensors that ``update`` reads besides.
    name : str, optional
        The name of the result.
    tag : str, optional
        What kind of operation it is, for schedules that look for one.
    attrs : dict, optional
        Further facts, by name.

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
    """A tensor made by a statement: ``fcompute(input_buffers, output_buffers)`` gives a statement, a call, or one
    expression per output.

    Parameters
    ----------
    shape : tuple or list of tuples
        The shape of the result, or of each.
    inputs : list of Tensor
        The tensors that the statement reads.
    fcompute : callable
        Gives the statement for the buffers of inputs and outputs.
    name : str, optional
        The name of the result.
    dtype : str or list of str, optional
        The type of the result, or of each; without it, that of the inputs where they agree.
    in_buffers : list of Buffer, optional
        Buffers to stand for the inputs.
    out_buffers : list of Buffer, optional
        Buffers to stand for the outputs.
    tag : str, optional
        What kind of operation it is, for schedules that look for one.
    attrs : dict, optional
        Further facts, by name.

    Returns
    -------
    Tensor or list of Tensor

    Raises
    ------
    TypeError
        An input is no tensor.
    ValueError
        There are more or fewer buffers than inputs, ``fcompute`` gives no statement, or a tag is given inside a tag
        scope.

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
            raise ValueError(f"extern '{name}': cannot tell the output type from its inputs; pass dtype")
        dtype = [kinds.pop()] * len(shapes)
    elif isinstance(dtype, str):
        dtype = [dtype] * len(shapes)
    if len(dtype) != len(shapes):
        raise ValueError(f"extern '{name}': {len(shapes)} outputs but {len(dtype)} types")
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
