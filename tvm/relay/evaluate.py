"""Evaluate operators on arrays: in NumPy if the table contains the operator, else compiled.

Constant folding and the debug executor use this module.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtype import info
from ..ir.module import IRModule
from ..ir.tensor_type import TensorType
from ..ir.transform import PassContext
from ..ir.type import TupleType
from ..target import Target
from .checked_type import with_type, with_type_of
from .expr import Call, Function, RelayExpr, Tuple, Var
from .infer import dims, infer_type
from .op.implementation import rules_of

# The operators that NumPy's function of the same name computes.
_UNARY = "abs negative floor ceil logical_not isnan isinf isfinite".split()
_UNARY_OF_FLOATS = "exp log sqrt tanh sin cos".split()
_BINARY = (
    "add subtract multiply maximum minimum equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor"
).split()
_TABLE: dict[str, Callable[..., Any]] = {}
_COMPILED: dict[Any, Any] = {}


def _numpy_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions (attrs, arrays, out_type) of operators that NumPy computes, by name."""
    if _TABLE:
        return _TABLE
    for name in _UNARY:
        _TABLE[name] = lambda attrs, a, out, f=getattr(np, name): f(a[0])
    for name in _UNARY_OF_FLOATS:
        _TABLE[name] = lambda attrs, a, out, f=getattr(np, name): _of_floats(f, a[0])
    for name in _BINARY:
        _TABLE[name] = lambda attrs, a, out, f=getattr(np, name): f(a[0], a[1])
    _TABLE["rsqrt"] = lambda attrs, a, out: _of_floats(lambda x: (1 / np.sqrt(x)).astype(x.dtype), a[0])
    # Integer division subtracts the remainder first, since float64 does not represent every int64.
    _TABLE["divide"] = lambda attrs, a, out: (
        np.divide(a[0], a[1]) if a[0].dtype.kind == "f" else np.floor_divide(a[0] - np.fmod(a[0], a[1]), a[1])
    )
    _TABLE["cast"] = lambda attrs, a, out: _cast(a[0], attrs.dtype)
    _TABLE["reshape"] = lambda attrs, a, out: a[0].reshape([int(d) for d in out.shape])
    for name in ("squeeze", "expand_dims", "nn.batch_flatten"):
        _TABLE[name] = _TABLE["reshape"]
    _TABLE["transpose"] = lambda attrs, a, out: np.transpose(a[0], attrs.axes)
    _TABLE["concatenate"] = lambda attrs, a, out: np.concatenate(a, attrs.axis)
    _TABLE["broadcast_to"] = lambda attrs, a, out: np.broadcast_to(a[0], [int(d) for d in out.shape]).copy()
    _TABLE["full"] = lambda attrs, a, out: np.full([int(d) for d in out.shape], a[0], out.dtype)
    _TABLE["zeros_like"] = lambda attrs, a, out: np.zeros_like(a[0])
    _TABLE["ones_like"] = lambda attrs, a, out: np.ones_like(a[0])
    _TABLE["where"] = lambda attrs, a, out: np.where(a[0], a[1], a[2])
    _TABLE["shape_of"] = lambda attrs, a, out: np.array(a[0].shape, attrs.dtype)
    _TABLE["copy"] = lambda attrs, a, out: a[0].copy()
    _TABLE.update(_moving_functions())
    for name in ("sum", "prod", "max", "min"):
        _TABLE[name] = lambda attrs, a, out, f=getattr(np, name): _reduced(f, attrs, a[0], out)
    return _TABLE


def _of_floats(f, array):
    if array.dtype.kind != "f":
        raise NotImplementedError("NumPy computes functions of real numbers on floats only")
    return f(array)


def _cast(array, dtype: str):
    """Cast an array: floats out of the range of an integer type saturate, NaN becomes zero."""
    if array.dtype.kind in "iub" or dtype == "bool" or not (info(dtype).is_int or info(dtype).is_uint):
        return array.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    wide = array.astype("float64")
    inside = (wide > low) & (wide < float(high))
    ends = np.where(wide > 0, np.array(high, dtype), np.where(np.isnan(wide), np.array(0, dtype), np.array(low, dtype)))
    return np.where(inside, np.where(inside, wide, 0).astype(dtype), ends)


def _reduced(f, attrs, array, out):
    if not array.size:
        raise NotImplementedError("reductions of empty arrays are computed by kernels")
    chosen = attrs.axis
    chosen = tuple(range(array.ndim)) if chosen is None else (chosen,) if isinstance(chosen, int) else tuple(chosen)
    chosen = {c % array.ndim for c in chosen}
    if attrs.exclude:
        chosen = set(range(array.ndim)) - chosen
    return f(array, axis=tuple(chosen), keepdims=attrs.keepdims).astype(out.dtype) if chosen else array


def _moving_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of operators that move elements, such as those in shape computations of a graph."""

    def take(attrs, a, out):
        if attrs.batch_dims or attrs.mode == "wrap":
            raise NotImplementedError("take with batch_dims or mode wrap is computed by kernels")
        size = a[0].size if attrs.axis is None else a[0].shape[attrs.axis]
        return np.take(a[0], np.clip(a[1].astype("int64"), 0, size - 1), attrs.axis)

    def strided_slice(attrs, a, out):
        if attrs.slice_mode != "end":
            raise NotImplementedError("strided_slice with slice_mode 'size' is computed by kernels")
        cut = [slice(None)] * a[0].ndim
        axes = range(a[0].ndim) if attrs.axes is None else attrs.axes
        for axis, b, e, s in zip(
            axes, *[itertools.chain(v, itertools.repeat(None)) for v in (attrs.begin, attrs.end, attrs.strides)]
        ):
            # With a negative stride, an end below -size selects up to the first element.
            cut[axis] = slice(b, None if s and s < 0 and e is not None and e < -a[0].shape[axis] else e, s)
        return np.array(a[0][tuple(cut)], order="C")

    return {
        "take": take,
        "strided_slice": strided_slice,
        "stack": lambda attrs, a, out: np.stack(a, attrs.axis),
        "tile": lambda attrs, a, out: np.tile(a[0], attrs.reps),
        "repeat": lambda attrs, a, out: np.repeat(a[0], attrs.repeats, attrs.axis),
        "reverse": lambda attrs, a, out: np.flip(a[0], attrs.axis).copy(),
        "floor_divide": lambda attrs, a, out: np.floor_divide(a[0], a[1]),
        "floor_mod": lambda attrs, a, out: np.mod(a[0], a[1]),
    }


def evaluate_call(node: Call, arrays: list) -> Any:
    """Return the output of an operator (an array, or a list of arrays) on arrays of its flattened inputs."""
    plain = None if any(rules_of(node.op)) else _numpy_functions().get(node.op.name)
    if not all(_is_sized(t) for t in (*[a.checked_type_ for a in node.args], node.checked_type_)):
        node = _sized(node, arrays)
    out = node.checked_type_
    known = isinstance(out, TensorType) and info(out.dtype).code != "bfloat" and not info(out.dtype).is_custom
    if plain is not None and known and all(isinstance(a, np.ndarray) for a in arrays):
        try:
            with np.errstate(all="ignore"):
                got = np.asarray(plain(node.attrs, arrays, out)).astype(out.dtype, copy=False)
        except NotImplementedError:
            return _run_compiled(node, arrays)
        if got.shape == tuple(int(d) for d in out.shape):
            return got
    return _run_compiled(node, arrays)


def _is_sized(t: Any) -> bool:
    parts = t.fields if isinstance(t, TupleType) else (t,)
    return all(isinstance(p, TensorType) and all(isinstance(d, int) for d in dims(p)) for p in parts)


def _sized(node: Call, arrays: list) -> Call:
    """Return the call with input types that have the shapes of its arrays, if its types are dynamic."""
    rest = iter(arrays)

    def known(a: RelayExpr) -> RelayExpr:
        t = a.checked_type_
        if isinstance(t, TupleType):
            return Tuple([Var("", TensorType(next(rest).shape, f.dtype)) for f in t.fields])
        return Var("", TensorType(next(rest).shape, t.dtype))

    return infer_type(Call(node.op, tuple(known(a) for a in node.args), node.attrs))


def _run_compiled(node: Call, arrays: list) -> Any:
    from ..ir.structural import structural_key
    from ..runtime import ndarray
    from .symbolic import flatten_type

    params, args = [], []
    for arg in node.args:
        t = arg.checked_type_
        if isinstance(t, TupleType):
            parts = [Var(f"p{len(params) + i}", f) for i, f in enumerate(t.fields)]
            params += parts
            args.append(with_type(Tuple(parts), t))
        else:
            params.append(Var(f"p{len(params)}", t))
            args.append(params[-1])
    body = with_type_of(Call(node.op, tuple(args), node.attrs), node)
    function = Function(params, body, node.checked_type_, (), {"Primitive": 1})
    key = (structural_key(function), rules_of(node.op))
    if key not in _COMPILED:
        # The kernel is cached for all pass contexts, so user options and instruments are not applied.
        with PassContext():
            _COMPILED[key] = _compiled(function)
    lib, name, sizes = _COMPILED[key]
    types = flatten_type(node.checked_type_)
    shapes = [t.shape for t in types] if sizes is None else _shapes(lib, sizes, arrays)
    outs = [ndarray.empty([int(d) for d in shape], t.dtype) for t, shape in zip(types, shapes)]
    given = [a if isinstance(a, ndarray.NDArray) else ndarray.array(np.asarray(a, order="C")) for a in arrays]
    lib[name](*given, *outs)
    results = [o if info(o.dtype).is_custom else o.numpy() for o in outs]
    return results if isinstance(node.checked_type_, TupleType) else results[0]


def _compiled(function: Function) -> tuple[Any, str, Any]:
    """Return the library of a function, the name of its kernel, and its shape function for data-dependent shapes."""
    from ..driver.build_module import build_parts
    from .backend.shape_func import shape_function
    from .backend.te_compiler import KernelCompiler
    from .symbolic import has_dynamic_dims

    target = Target("llvm")
    kernel = KernelCompiler(target, "fold").lower(function)
    sizes = shape_function(function, "fold_shape") if has_dynamic_dims(function.ret_type) else None
    parts = IRModule()
    for module in (kernel.module, *([] if sizes is None else [sizes.module])):
        parts.update(module)
    return build_parts({target: parts}, target), kernel.name, sizes


def _shapes(lib: Any, sizes: Any, arrays: list) -> list:
    """Return the data-dependent shapes of the outputs."""
    from ..runtime import ndarray
    from .backend.shape_func import NOTHING, VALUE

    taken = [(np.asarray(a, order="C"), mode) for a, mode in zip(arrays, sizes.inputs) if mode != NOTHING]
    given = [a if mode == VALUE else np.array(a.shape, "int64") for a, mode in taken]
    outs = [ndarray.empty([rank], "int64") for rank in sizes.ranks]
    lib[sizes.name](*map(ndarray.array, given), *outs)
    return [o.numpy().tolist() for o in outs]


__all__ = ["evaluate_call"]
