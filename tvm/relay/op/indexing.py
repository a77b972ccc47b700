"""Scatter, mask, cumulative and other indexing operators."""

from __future__ import annotations

from ... import te, tir, topi
from ...dtype import canonical
from ...ir import primop
from ...ir.prim import Any_
from ...ir.tensor_type import TensorType
from ..expr import RelayExpr, TupleWrapper, const
from .dynamic import is_dynamic
from .record import BROADCAST, INJECTIVE, OPAQUE, as_expr, call, op
from .reshape import ints
from .rules import dims, may_equal, tensor


def _scatter_type(attrs, types):
    data, indices, updates = (tensor(t, w) for t, w in zip(types, ("the data", "the indices", "the updates")))
    if not may_equal(dims(indices), dims(updates)):
        raise TypeError(f"indices and updates must have the same shape, got {dims(indices)} and {dims(updates)}")
    if len(dims(data)) != len(dims(indices)):
        raise TypeError(f"data and indices must have the same rank, got {len(dims(data))} and {len(dims(indices))}")
    if data.dtype != updates.dtype:
        raise TypeError(f"data and updates must have the same type, got {data.dtype} and {updates.dtype}")
    return data


@op(
    "scatter_elements",
    3,
    pattern=OPAQUE,
    type_rule=_scatter_type,
    compute=lambda attrs, inputs, out: topi.scatter_elements(
        inputs[0], inputs[1], inputs[2], attrs.axis, attrs.reduction
    ),
)
def scatter_elements(data, indices, updates, axis=0, reduction="update"):
    """Replace elements along an axis by updates, or combine them with a reduction."""
    return call("scatter_elements", data, indices, updates, axis=int(axis), reduction=reduction)


def scatter(data, indices, updates, axis):
    """Replace elements along an axis by updates (deprecated name of scatter_elements)."""
    return scatter_elements(data, indices, updates, axis, "update")


def scatter_add(data, indices, updates, axis):
    """Add updates to elements along an axis (deprecated form of scatter_elements)."""
    return scatter_elements(data, indices, updates, axis, "add")


@op(
    "scatter_nd",
    3,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out: topi.scatter_nd(inputs[0], inputs[1], inputs[2], attrs.mode),
)
def scatter_nd(data, indices, updates, mode="update"):
    """Replace slices at points by updates, or combine them; ``indices[:, k]`` is the k-th point."""
    return call("scatter_nd", data, indices, updates, mode=mode)


@op(
    "sparse_to_dense",
    3,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out: topi.sparse_to_dense(inputs[0], attrs.output_shape, inputs[1], inputs[2]),
)
def sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0):
    """Create a dense tensor filled with ``default_value``, with values at the given indices."""
    if isinstance(default_value, (int, float)):
        from ..expr import _known_dtype

        default_value = const(default_value, _known_dtype(as_expr(sparse_values)))
    if is_dynamic(output_shape):
        return call("dyn.sparse_to_dense", sparse_indices, sparse_values, default_value, output_shape)
    return call("sparse_to_dense", sparse_indices, sparse_values, default_value, output_shape=ints(output_shape))


@op(
    "one_hot",
    3,
    pattern=BROADCAST,
    compute=lambda attrs, inputs, out: topi.one_hot(
        inputs[0],
        inputs[1]().astype(attrs.dtype),
        inputs[2]().astype(attrs.dtype),
        attrs.depth,
        attrs.axis,
        attrs.dtype,
    ),
)
def one_hot(indices, on_value, off_value, depth, axis, dtype):
    """Encode indices as one-hot vectors along a new axis: ``on_value`` at the index, ``off_value`` elsewhere."""
    on, off = (v if isinstance(v, RelayExpr) else const(v, dtype) for v in (on_value, off_value))
    if is_dynamic(depth):
        return call("dyn.one_hot", indices, on, off, depth, axis=int(axis), dtype=canonical(dtype))
    return call("one_hot", indices, on, off, depth=ints(depth)[0], axis=int(axis), dtype=canonical(dtype))


@op("unravel_index", 2, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.unravel_index(inputs[0], inputs[1]))
def unravel_index(indices, shape):
    """Convert flat indices to coordinates within a shape."""
    return call("unravel_index", indices, shape if isinstance(shape, RelayExpr) else const(list(shape), "int64"))


@op(
    "sequence_mask",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.sequence_mask(inputs[0], inputs[1], attrs.mask_value, attrs.axis),
)
def sequence_mask(data, valid_length, mask_value=0, axis=0):
    """Replace elements after the end of each sequence by ``mask_value``."""
    return call("sequence_mask", data, valid_length, mask_value=float(mask_value), axis=int(axis))


@op(
    "trilu",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.trilu(
        inputs[0], inputs[1]() if not inputs[1].shape else inputs[1](0), attrs.upper
    ),
)
def trilu(data, k, upper=True):
    """Return the upper or lower triangle of matrices, from the k-th diagonal on."""
    return call("trilu", data, k if isinstance(k, RelayExpr) else const(k, "int32"), upper=bool(upper))


@op(
    "matrix_set_diag",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.matrix_set_diag(inputs[0], inputs[1], (attrs.k1, attrs.k2), attrs.align),
)
def matrix_set_diag(data, diagonal, k=0, align="RIGHT_LEFT"):
    """Replace diagonals of matrices."""
    low, high = (int(k[0]), int(k[-1])) if isinstance(k, (tuple, list)) else (int(k), int(k))
    return call("matrix_set_diag", data, diagonal, k1=low, k2=high, align=align)


@op("adv_index", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.adv_index(inputs[0], inputs[1:]))
def adv_index(inputs):
    """Index the first tensor by the others along its leading dimensions; the indices are broadcast to one shape."""
    return call("adv_index", as_expr(list(inputs) if isinstance(inputs, (list, tuple)) else inputs))


def _argwhere_shape(attrs, inputs, out_ndims):
    (condition,) = inputs
    axes = [te.reduce_axis((0, d)) for d in condition.shape]
    one, none = tir.const(1, "int64"), tir.const(0, "int64")

    def found(*at):
        value = condition(*at)
        return tir.Select(primop.not_equal(value, tir.const(0, value.dtype)), one, none)

    count = te.compute((1,), lambda i: te.sum(found(*axes), axis=axes) if axes else found(), name="count")
    rank = tir.const(len(axes), "int64")
    return [te.compute((2,), lambda i: tir.Select(i < 1, count[0], rank), name="shape")]


@op(
    "argwhere",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TensorType((Any_(), len(tensor(types[0]).shape)), "int32"),
    compute=lambda attrs, inputs, out, gpu=None: topi.argwhere(out.shape, inputs[0], gpu=gpu),
    FShapeFunc=_argwhere_shape,
    TShapeDataDependent=True,
)
def argwhere(condition):
    """Return the indices of the non-zero elements, whose number is known only at run time."""
    return call("argwhere", condition)


@op("invert_permutation", 1, pattern=OPAQUE, compute=lambda attrs, inputs, out: topi.invert_permutation(inputs[0]))
def invert_permutation(data):
    """Return the inverse of a permutation."""
    return call("invert_permutation", data)


def _scan(name: str, function, doc: str):
    @op(
        name,
        1,
        pattern=OPAQUE,
        compute=lambda attrs, inputs, out, gpu=None: function(
            inputs[0], attrs.axis, attrs.dtype or None, attrs.exclusive, gpu=gpu
        ),
    )
    def build(data, axis=None, dtype=None, exclusive=None):
        return call(
            name,
            data,
            axis=None if axis is None else int(axis),
            dtype=canonical(dtype) if dtype else "",
            exclusive=bool(exclusive),
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = doc
    return build


cumsum = _scan("cumsum", topi.cumsum, "The sum of all elements so far, along an axis.")
cumprod = _scan("cumprod", topi.cumprod, "The product of all elements so far, along an axis.")


@op(
    "unique",
    1,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.unique(inputs[0], attrs.sorted, attrs.return_counts, gpu=gpu),
)
def unique(data, is_sorted=True, return_counts=False):
    """Return the unique elements of a vector.

    The outputs are the unique elements, the index of the first occurrence of each, the index of the unique element for
    each input element, the number of unique elements, and how often each occurs. All vectors have the length of the
    data.
    """
    made = call("unique", data, sorted=bool(is_sorted), return_counts=bool(return_counts))
    return TupleWrapper(made, 5 if return_counts else 4)


__all__ = [
    "adv_index",
    "argwhere",
    "cumprod",
    "cumsum",
    "invert_permutation",
    "matrix_set_diag",
    "one_hot",
    "scatter",
    "scatter_add",
    "scatter_elements",
    "scatter_nd",
    "sequence_mask",
    "sparse_to_dense",
    "trilu",
    "unique",
    "unravel_index",
]
