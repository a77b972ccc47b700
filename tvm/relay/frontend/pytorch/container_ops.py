"""Converters of TorchScript's operators on lists, dictionaries, strings and other Python values."""

from __future__ import annotations

import functools

from ....error import TVMError
from ...expr import RelayExpr
from .table import Number, op


def _known(*values) -> None:
    if any(isinstance(v, (RelayExpr, Number)) for v in values):
        raise TVMError("an index into a list or dictionary must be known at compile time")


@op("__getitem__")
def getitem(ctx, self, index=None, other=None, key=None):
    at = next((v for v in (index, other, key) if v is not None), None)
    at = ctx.number(at) if isinstance(at, RelayExpr) else at
    _known(at)
    return self[at]


@op("_set_item")
def set_item(ctx, self, index=None, other=None, el=None, k=None, v=None):
    at = index if index is not None else k if k is not None else other
    _known(at)
    self[at] = el if el is not None else v
    return None


@op("append")
def append(ctx, self, el=None, other=None):
    self.append(el if el is not None else other)
    return self


@op("extend")
def extend(ctx, self, other):
    self.extend(other)
    return self


@op("insert")
def insert(ctx, self, index, other=None, el=None):
    self.insert(index, el if el is not None else other)
    return self


@op("pop")
def pop(ctx, self, index=-1):
    return self.pop(index)


@op("reverse")
def reverse(ctx, self):
    self.reverse()
    return self


@op("clear")
def clear(ctx, self):
    self.clear()
    return self


@op("list", "copy.t")
def list_(ctx, self):
    return list(self)


@op("__contains__")
def contains(ctx, self, item=None, key=None, other=None):
    wanted = next((v for v in (item, key, other) if v is not None), None)
    if not isinstance(wanted, Number):
        return wanted in self
    found = [ctx.convert("eq", wanted, v) for v in self]
    return functools.reduce(lambda a, b: ctx.convert("__or__", a, b), found) if found else False


@op("keys")
def keys(ctx, self):
    return list(self.keys())


@op("values")
def values(ctx, self):
    return list(self.values())


@op("items")
def items(ctx, self):
    return list(self.items())


@op("dict")
def dict_(ctx, self=None, inputs=None):
    """Return a new dictionary from another one, from pairs, or empty."""
    return dict(next((v for v in (self, inputs) if v is not None), ()))


@op("update")
def update(ctx, self, to_add):
    self.update(to_add)
    return None


@op("get")
def get(ctx, self, key, default_value=None):
    return self.get(key, default_value)


@op("__is__")
def is_(ctx, self, obj):
    return self is obj


@op("__isnot__")
def isnot(ctx, self, obj):
    return self is not obj


@op("__range_length")
def range_length(ctx, lo, hi, step):
    return len(range(lo, hi, step))


@op("__derive_index")
def derive_index(ctx, index, start, step):
    return ctx.convert("add", start, ctx.convert("mul", index, step))


@op("format", "percentFormat")
def format_(ctx, self, **given):
    return str(self)


@op("prim::type")
def device_type(ctx, self):
    """Return the type of a device that is written as ``cuda:0``."""
    return str(self).partition(":")[0]


@op("prim::tolist")
def tolist(ctx, **given):
    raise TVMError("Tensor.tolist() is not supported")


@op("str")
def str_(ctx, self):
    return str(self)


@op("lower")
def lower(ctx, self):
    return self.lower()


@op("prim::min", "prim::max", "prim::abs")
def extremes(ctx, self, other=None):
    if ctx.name == "prim::abs":
        return ctx.convert("abs", self)
    values = list(self) if isinstance(self, (list, tuple)) and other is None else [self, other]
    if not any(isinstance(v, (RelayExpr, Number)) for v in values):
        return (min if ctx.name == "prim::min" else max)(values)
    name = "minimum" if ctx.name == "prim::min" else "maximum"
    return functools.reduce(lambda a, b: ctx.convert(name, a, b), values)


@op("is_grad_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled")
def disabled(ctx, **given):
    return False


@op("set_grad_enabled")
def nothing(ctx, **given):
    return None
