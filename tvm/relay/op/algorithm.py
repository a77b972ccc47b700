"""Sorting and searching operators."""

from __future__ import annotations

from ... import topi
from ...dtype import canonical
from ..expr import TupleWrapper
from .dynamic import is_dynamic
from .record import OPAQUE, call, op
from .reshape import ints


@op(
    "sort",
    1,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.sort(inputs[0], attrs.axis, attrs.is_ascend, gpu=gpu),
)
def sort(data, axis=-1, is_ascend=1):
    """Sort the elements along an axis."""
    return call("sort", data, axis=int(axis), is_ascend=bool(is_ascend))


@op(
    "argsort",
    1,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.argsort(
        inputs[0], None, attrs.axis, attrs.is_ascend, attrs.dtype, gpu=gpu
    ),
)
def argsort(data, axis=-1, is_ascend=1, dtype="int32"):
    """Return the indices that sort the elements along an axis."""
    return call("argsort", data, axis=int(axis), is_ascend=bool(is_ascend), dtype=canonical(dtype))


@op(
    "topk",
    1,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out, gpu=None: topi.topk(
        inputs[0], attrs.k, attrs.axis, attrs.ret_type, attrs.is_ascend, attrs.dtype, gpu=gpu
    ),
)
def topk(data, k=1, axis=-1, ret_type="both", is_ascend=False, dtype="int32"):
    """Return the k largest (or smallest) elements along an axis in order: their values, their indices or both."""
    if is_dynamic(k):
        made = call(
            "dyn.topk", data, k, axis=int(axis), ret_type=ret_type, is_ascend=bool(is_ascend), dtype=canonical(dtype)
        )
        return TupleWrapper(made, 2) if ret_type == "both" else made
    made = call(
        "topk",
        data,
        k=ints(k)[0],
        axis=int(axis),
        ret_type=ret_type,
        is_ascend=bool(is_ascend),
        dtype=canonical(dtype),
    )
    return TupleWrapper(made, 2) if ret_type == "both" else made


@op(
    "searchsorted",
    2,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out: topi.searchsorted(inputs[0], inputs[1], attrs.right, attrs.dtype),
)
def searchsorted(sorted_sequence, values, right=False, dtype="int32"):
    """Return the index at which each value would be inserted into a sorted sequence."""
    return call("searchsorted", sorted_sequence, values, right=bool(right), dtype=canonical(dtype))


__all__ = ["argsort", "searchsorted", "sort", "topk"]
