"""Type rules that many operators share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ... import te
from ...dtype import info
from ...error import TVMError
from ...ir.op import TYPE_RELATIONS
from ...ir.prim import Any_, IntImm, PrimExpr, SizeVar, const, convert
from ...ir.subst import variables
from ...ir.tensor_type import TensorType
from ...ir.type import IncompleteType, TupleType, Type, TypeVar
from ...runtime.registry import register_func
from ...topi.assumptions import agree
from ...topi.broadcast import broadcast_dim
from ..infer import dims


def tensor(t: Type, what: str = "an input") -> TensorType:
    if not isinstance(t, TensorType):
        raise TypeError(f"{what} must be a tensor, got {t}")
    return t


def same_as_first(attrs, types) -> Type:
    return tensor(types[0])


def check_real(dtype: str, name: str = "") -> None:
    """Raise a TypeError if a function of real numbers is applied to another type."""
    if not info(dtype).is_float:
        of = f"{name}: " if name else ""
        raise TypeError(f"{of}not defined for {dtype}; cast to float32 first")


def numbers_like_first(attrs, types) -> Type:
    t = tensor(types[0])
    if t.dtype == "bool":
        raise TypeError("arithmetic on bool is not defined; cast to an integer type first")
    return t


def bool_like_first(attrs, types) -> Type:
    return TensorType(tensor(types[0]).shape, "bool")


def broadcast_dims(a, b) -> tuple:
    """Broadcast two shapes with NumPy's rule; a dynamic dimension combined with a static one other than 1 has its
    size."""
    n = max(len(a), len(b))
    x, y = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    out = []
    for p, q in zip(x, y):
        if p == 1 if isinstance(p, int) else False:
            out.append(q)
        elif q == 1 if isinstance(q, int) else False:
            out.append(p)
        elif isinstance(p, Any_) or isinstance(q, Any_):
            # A symbolic dimension may be 1 if it is combined with an anonymous one.
            out.append(next((d for d in (p, q) if isinstance(d, int)), q if isinstance(q, Any_) else p))
        elif isinstance(p, PrimExpr) or isinstance(q, PrimExpr):
            out.append(broadcast_dim(convert(p), convert(q), "broadcast"))
        elif p != q:
            raise TypeError(f"shapes {tuple(a)} and {tuple(b)} do not broadcast: sizes {p} and {q}")
        else:
            out.append(p)
    return tuple(out)


def broadcast(attrs, types) -> Type:
    a, b = tensor(types[0], "the left side"), tensor(types[1], "the right side")
    if a.dtype != b.dtype:
        raise TypeError(f"both operands must have the same element type, got {a.dtype} and {b.dtype}; cast one of them")
    return TensorType(broadcast_dims(dims(a), dims(b)), a.dtype)


def broadcast_bool(attrs, types) -> Type:
    return TensorType(broadcast(attrs, types).shape, "bool")


def _relation(rule: Callable[[Any, Any], Type]) -> Callable[..., bool]:
    """Convert a type rule to a type relation, which assigns the output type and returns False while an input type is
    unknown."""

    def relation(types: Any, num_inputs: int, attrs: Any, reporter: Any) -> bool:
        inputs = list(types)[:num_inputs]
        if any(isinstance(t, (IncompleteType, TypeVar)) for t in inputs):
            return False
        reporter.assign(types[num_inputs], rule(attrs, inputs))
        return True

    return relation


for _name, _rule in (("Identity", same_as_first), ("Broadcast", broadcast), ("BroadcastComp", broadcast_bool)):
    TYPE_RELATIONS.register(_name, _rule)
    register_func(f"tvm.relay.type_relation.{_name}", _relation(_rule))


def normalize_axis(axis: int, rank: int) -> int:
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def normalize_axes(axes: Any, rank: int) -> list[int]:
    if isinstance(axes, int):
        axes = [axes]
    out = [normalize_axis(a, rank) for a in axes]
    if len(set(out)) != len(out):
        raise ValueError(f"axes {list(axes)} contain duplicates")
    return out


def concrete(t: Type, what: str) -> tuple[int, ...]:
    d = dims(t)
    if any(not isinstance(x, int) for x in d):
        raise TypeError(f"{what} must have a static shape, got {d}")
    return d


def may_equal(a: tuple, b: tuple, what: str = "sizes") -> bool:
    """Return whether two shapes may be equal at run time."""
    return len(a) == len(b) and all(agree(x, y, what) for x, y in zip(a, b))


def fixed(t: TensorType, size: tuple, what: str) -> TensorType:
    """Check that a tensor has the given shape; dynamic dimensions match any size."""
    got = dims(tensor(t, what))
    if not may_equal(got, tuple(size), f"the shape of {what}"):
        raise TypeError(f"{what} must have shape {tuple(size)}, got {got}")
    return t


def product(values) -> Any:
    total: Any = 1
    for v in values:
        total = Any_() if isinstance(v, Any_) or isinstance(total, Any_) else total * v
    return total


def fields(t: Type) -> tuple:
    if not isinstance(t, TupleType):
        raise TypeError(f"expected a tuple of tensors, got {t}")
    return t.fields


_INT64 = re.compile(r"T\.int64\((-?\d+)\)")


def by_compute(compute):
    """Return a type rule that runs the computation on placeholders of the input types.

    The dimensions are int64, so that sizes computed from them do not overflow.
    """

    def rule(attrs, types) -> Type:
        inputs = []
        unknown: set = set()
        for t in types:
            for part in t.fields if isinstance(t, TupleType) else (t,):
                shape = []
                for d in tensor(part).shape:
                    if isinstance(d, Any_):
                        d = SizeVar("any", "int64")
                        unknown.add(d)
                    shape.append(const(d.value, "int64") if isinstance(d, IntImm) else d)
                inputs.append(te.placeholder(shape, part.dtype))
        try:
            got = compute(attrs, inputs, None)
        except TVMError as problem:
            # The message is printed without the int64 suffixes, which only this rule adds.
            raise TypeError(_INT64.sub(r"\1", str(problem))) from problem
        if isinstance(got, (list, tuple)):
            return TupleType(tuple(_type_of(t, unknown) for t in got))
        return _type_of(got, unknown)

    return rule


def _type_of(t, unknown: set) -> TensorType:
    shape = []
    for d in t.shape:
        lost = unknown and any(n in unknown for n in variables(d))
        shape.append(Any_() if lost else d.value if isinstance(d, IntImm) else d)
    return TensorType(shape, t.dtype)


__all__ = [
    "broadcast",
    "numbers_like_first",
    "by_compute",
    "broadcast_bool",
    "check_real",
    "broadcast_dims",
    "bool_like_first",
    "concrete",
    "dims",
    "fields",
    "fixed",
    "may_equal",
    "normalize_axes",
    "normalize_axis",
    "product",
    "same_as_first",
    "tensor",
]
