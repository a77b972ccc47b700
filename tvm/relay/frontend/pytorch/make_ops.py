"""Converters of operators that create tensors or return properties of tensors."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .dtypes import category, dtype_name
from .elementwise import cast
from .table import Number, Raised, op, shown

# Filled tensors of at most this many elements become constants, larger ones operators.
_SMALL = 1 << 16


def filled(ctx, size, value, dtype: str):
    """Return a tensor filled with one value."""
    sizes = ctx.sizes(size)
    if all(isinstance(s, int) for s in sizes):
        if isinstance(value, (int, float)) and math.prod(sizes) <= _SMALL:
            one = ctx.tensor(value, dtype).data.numpy()
            return Constant(np.full(sizes, one, one.dtype))
        return relay.full(ctx.tensor(value, dtype), sizes, dtype)
    return ctx.sized(relay.full(ctx.tensor(value, dtype), ctx.infer(ctx.shape_vector(sizes)), dtype), sizes)


def _dtype(ctx, dtype, value=None) -> str:
    if dtype is not None:
        return dtype_name(dtype)
    return ctx.importer.default_dtype if value is None else ctx.kind(value)


@op("full")
def full(ctx, size, fill_value, dtype=None, names=None):
    return filled(ctx, size, fill_value, _dtype(ctx, dtype, fill_value))


@op("zeros", "empty", "new_empty_strided", "empty_permuted")
def zeros(ctx, size, dtype=None, names=None, physical_layout=None):
    return filled(ctx, size, 0, _dtype(ctx, dtype))


@op("empty_strided")
def empty_strided(ctx, size, stride, dtype=None):
    return filled(ctx, size, 0, _dtype(ctx, dtype))


@op("ones")
def ones(ctx, size, dtype=None, names=None):
    return filled(ctx, size, 1, _dtype(ctx, dtype))


def _like(ctx, x, value, dtype):
    kind = ctx.dtype(x) if dtype is None else dtype_name(dtype)
    return filled(ctx, [ctx.size(x, i) for i in range(ctx.rank(x))], value, kind)


@op("zeros_like", "empty_like")
def zeros_like(ctx, self, dtype=None):
    return _like(ctx, self, 0, dtype)


@op("ones_like")
def ones_like(ctx, self, dtype=None):
    return _like(ctx, self, 1, dtype)


@op("full_like")
def full_like(ctx, self, fill_value, dtype=None):
    return _like(ctx, self, fill_value, dtype)


@op("fill", "zero")
def fill(ctx, self, value=0):
    return _like(ctx, self, value if not isinstance(value, RelayExpr) else Number(ctx.tensor(value)), None)


@op("new_zeros", "new_empty")
def new_zeros(ctx, self, size, dtype=None):
    return filled(ctx, size, 0, ctx.dtype(self) if dtype is None else dtype_name(dtype))


@op("new_ones")
def new_ones(ctx, self, size, dtype=None):
    return filled(ctx, size, 1, ctx.dtype(self) if dtype is None else dtype_name(dtype))


@op("new_full")
def new_full(ctx, self, size, fill_value, dtype=None):
    return filled(ctx, size, fill_value, ctx.dtype(self) if dtype is None else dtype_name(dtype))


@op("arange", "range")
def arange(ctx, end=None, start=0, step=1, dtype=None):
    values = [ctx.number(v) if isinstance(v, RelayExpr) else v for v in (start, end, step)]
    kinds = [ctx.kind(v) for v in values]
    kind = (
        dtype_name(dtype)
        if dtype is not None
        else (ctx.importer.default_dtype if any(category(k) == 2 for k in kinds) else "int64")
    )
    if any(isinstance(v, Number) for v in values):
        inner = kind if category(kind) == 1 else "int64" if all(category(k) == 1 for k in kinds) else "float64"
        made = relay.arange(*[ctx.tensor(v, inner) for v in values], inner)
        return made if inner == kind else relay.cast(made, kind)
    first, stop, by = values
    count = math.ceil((stop - first) / by) + (ctx.name == "range" and (stop - first) % by == 0)
    return ctx.tensor(Constant(first + np.arange(max(count, 0)) * by), kind)


@op("linspace")
def linspace(ctx, start, end, steps, dtype=None):
    ends = [ctx.known_number(v, "the ends") for v in (start, end)]
    kind = _dtype(ctx, dtype)
    return ctx.tensor(Constant(np.linspace(*ends, ctx.known_int(steps, "the steps")).astype("float64")), kind)


@op("eye")
def eye(ctx, n, m=None, dtype=None):
    rows = ctx.known_int(n, "the size")
    return const(np.eye(rows, rows if m is None else ctx.known_int(m, "the size")).astype(_dtype(ctx, dtype)))


@op("scalar_tensor", "tensor", "as_tensor")
def scalar_tensor(ctx, s=None, data=None, dtype=None, self=None, t=None):
    value = next(v for v in (s, data, self, t) if v is not None)
    if isinstance(value, (list, tuple)):
        return _nested(ctx, value, dtype)
    kind = _dtype(ctx, dtype, value)
    return cast(ctx, ctx.tensor(value), kind) if isinstance(value, (RelayExpr, Number)) else ctx.tensor(value, kind)


def _nested(ctx, values, dtype):
    """Return a tensor of nested lists of numbers."""
    flat = _leaves(values)
    if not any(isinstance(v, (RelayExpr, Number)) for v in flat):
        kinds = [ctx.kind(v) for v in flat]
        kind = (
            dtype_name(dtype)
            if dtype is not None
            else (max(kinds, key=category) if kinds else ctx.importer.default_dtype)
        )
        return ctx.tensor(Constant(np.array(values, "float64" if category(kind) == 2 else "int64")), kind)
    parts = [_nested(ctx, v, dtype) if isinstance(v, (list, tuple)) else ctx.tensor(v) for v in values]
    kind = dtype_name(dtype) if dtype is not None else ctx.result_type(*parts)
    return relay.stack([ctx.tensor(p, kind) for p in parts], 0)


def _leaves(values) -> list:
    return [leaf for v in values for leaf in (_leaves(v) if isinstance(v, (list, tuple)) else [v])]


@op("sym_sum")
def sym_sum(ctx, self):
    """Return the sum of a list of numbers, some of which can be dimensions known at run time."""
    total = sum(v for v in self if not isinstance(v, Number))
    for v in self:
        total = ctx.convert("add", total, v) if isinstance(v, Number) else total
    return total


@op("_local_scalar_dense", "item", "Int", "Float", "Bool", "IntImplicit", "FloatImplicit", "ScalarImplicit",
    "sym_float", "sym_int")  # fmt: skip
def item(ctx, self):
    kinds = {
        "Int": "int64",
        "IntImplicit": "int64",
        "sym_int": "int64",
        "Float": "float64",
        "FloatImplicit": "float64",
        "sym_float": "float64",
        "Bool": "bool",
    }
    kind = kinds.get(ctx.name)
    if isinstance(self, str) and kind == "float64":
        return float(self)
    value = ctx.number(self) if isinstance(self, RelayExpr) else self
    if isinstance(value, Number):
        return value if kind is None else Number(cast(ctx, value.expr, kind))
    return value if kind is None else {"int64": int, "float64": float, "bool": bool}[kind](value)


@op("prim::NumToTensor")
def number_to_tensor(ctx, self):
    if isinstance(self, Number):
        return self.expr
    return ctx.tensor(self, "float64" if isinstance(self, float) else None)


# -- properties ---------------------------------------------------------------------------------------------------


@op("size", "sym_size")
def size(ctx, self, dim=None):
    if dim is None:
        return [ctx.size(self, i) for i in range(ctx.rank(self))]
    return ctx.size(self, ctx.axis(self, dim))


@op("numel", "sym_numel")
def numel(ctx, self):
    count = 1
    for i in range(ctx.rank(self)):
        count = ctx.convert("mul", count, ctx.size(self, i))
    return count


@op("_shape_as_tensor")
def shape_as_tensor(ctx, self):
    known = ctx.shape(self)
    if all(isinstance(d, int) for d in known):
        return const(np.array(known, "int64"))
    return relay.shape_of(self, "int64")


@op("dim", "prim::dim")
def dim(ctx, self):
    return ctx.rank(self)


@op("len")
def length(ctx, self):
    return ctx.size(self, 0) if isinstance(self, RelayExpr) else len(self)


@op("stride", "sym_stride")
def stride(ctx, self, dim=None):
    """Return the strides of a contiguous tensor."""
    strides: list = [1]
    for axis in range(ctx.rank(self) - 1, 0, -1):
        strides.insert(0, ctx.convert("mul", ctx.size(self, axis), strides[0]))
    return strides[: ctx.rank(self)] if dim is None else strides[dim]


@op("sym_storage_offset", "storage_offset")
def storage_offset(ctx, self):
    return 0


@op("is_floating_point")
def is_floating_point(ctx, self):
    return ctx.is_float(self)


@op("is_complex", "prim::is_quantized", "prim::is_cuda", "prim::is_sparse", "prim::is_mkldnn",
    "prim::requires_grad", "prim::is_nested", "is_inference", "prim::is_meta")  # fmt: skip
def no(ctx, self):
    return False


@op("is_contiguous", "sym_is_contiguous")
def is_contiguous(ctx, self, memory_format=None):
    return True


@op("is_nonzero")
def is_nonzero(ctx, self):
    value = ctx.number(self)
    return value != 0 if not isinstance(value, Number) else Number(cast(ctx, value.expr, "bool"))


@op("prim::dtype")
def dtype(ctx, self):
    return ctx.dtype(self)


@op("prim::device", "prim::layout", "device", "_unwrap_optional")
def device(ctx, self):
    return "cpu" if ctx.name.endswith(("device", "layout")) else self


@op("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window", "fft_fftfreq",
    "fft_rfftfreq", "tril_indices", "triu_indices", "logspace")  # fmt: skip
def made_by_numbers(ctx, dtype=None, layout=None, device=None, pin_memory=None, **numbers):
    """Compute tensors that depend only on numbers by PyTorch at import time."""
    import torch  # pyright: ignore[reportMissingImports]

    given = {k: ctx.known_number(v, k) if not isinstance(v, (bool, int)) else v for k, v in numbers.items()}
    whole = ctx.name.endswith("indices")
    made = getattr(torch.ops.aten, ctx.name)(*given.values(), dtype=torch.int64 if whole else torch.float64)
    kind = dtype_name(dtype) if dtype is not None else "int64" if whole else ctx.importer.default_dtype
    return const(made.numpy().astype(kind))


# -- random numbers -----------------------------------------------------------------------------------------------


@op("rand", "randn", "randperm", "randint", "rand_like", "randn_like", "bernoulli", "multinomial", "normal",
    "uniform")  # fmt: skip
def random(ctx, **given):
    # The random numbers of layers that are skipped at random in training mode are unused in evaluation mode.
    if not ctx.wants(0):
        return None
    raise TVMError(
        f"{ctx.name} draws random numbers, but a compiled model is deterministic. "
        "Draw the numbers outside the model and pass them as an input"
    )


# -- checks -------------------------------------------------------------------------------------------------------


@op("_assert", "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range",
    "sym_constrain_range_for_size", "_check_tensor_all", "warn", "prim::Print")  # fmt: skip
def checked(ctx, **given):
    return None


@op("prim::RaiseException")
def raise_exception(ctx, self=None, msg=None, cls=None):
    raise Raised(f"the model raises an exception here: {shown(msg if msg is not None else self)}")


__all__ = ["filled"]
