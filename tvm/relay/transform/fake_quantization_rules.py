"""Rules that rebuild operators between ``qnn.dequantize`` and ``qnn.quantize`` over integers.

Each value has an ``Affine`` type, which relates its integers to real numbers. An entry of ``RULES`` rebuilds one
operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...ir.affine_type import AffineType, TensorAffineType, TupleAffineType
from ...ir.op import OPS
from ...ir.structural import structural_equal
from ..expr import Call, Constant, RelayExpr, Tuple, Var, const
from ..infer import dims, infer_type
from ..op import nn, tensor
from ..op.record import CallAttrs
from ..qnn.op import qnn


class Affine(NamedTuple):
    """The affine type ``real = scale * (integer - zero)``; several scales vary along ``axis`` (-1 is the last axis)."""

    scale: RelayExpr
    zero: RelayExpr
    dtype: str
    axis: int = -1

    def single(self) -> bool:
        """Return whether one scale applies to the whole tensor."""
        return all(not dims(e.checked_type_) or dims(e.checked_type_) == (1,) for e in (self.scale, self.zero))

    def same(self, other: Affine) -> bool:
        return (
            self.dtype == other.dtype and structural_equal(self.scale, other.scale)
            and structural_equal(self.zero, other.zero) and (self.single() or self.axis == other.axis)
        )  # fmt: skip


class Value(NamedTuple):
    expr: RelayExpr
    affine: Affine


class NoRule(Exception):
    """Raised for an operator between dequantize and quantize that cannot be converted to integers."""


# float32 values of larger magnitude mean that there is no bound.
_UNBOUNDED = 1e37

Rule = Callable[[Call, "list[Value | RelayExpr]", Affine], Value]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(made: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, made))
        return made

    return add


def value_of(operand: Value | RelayExpr, single: bool = False) -> Value:
    if not isinstance(operand, Value) or single and not operand.affine.single():
        raise NoRule("an operand is not quantized or has per-channel scales")
    return operand


def _number(e: RelayExpr) -> np.ndarray:
    if not isinstance(e, Constant):
        raise NoRule("a scale or zero point is not a constant")
    return e.data.numpy()


def _again(node: Call, *args: RelayExpr) -> RelayExpr:
    return Call(node.op, args, node.attrs, (), node.span)


def _single(out: Affine) -> Affine:
    """Return the affine type of an output for operators that directly produce it; per-channel scales are rejected."""
    if not out.single():
        raise NoRule("the output has per-channel scales")
    return out


def _along(numbers: np.ndarray, node: Call, affine: Affine) -> np.ndarray:
    """Reshape per-channel values so that they broadcast against the first operand of a call."""
    rank = len(dims(node.args[0].checked_type_))
    shape = [-1 if i == affine.axis % rank else 1 for i in range(rank)]
    return numbers.reshape(shape) if numbers.ndim else numbers


MOVED = ("reshape", "transpose", "squeeze", "expand_dims", "nn.batch_flatten", "strided_slice", "nn.max_pool2d", "max",
         "min", "nn.global_max_pool2d", "nn.depth_to_space", "nn.space_to_depth", "broadcast_to", "split")  # fmt: skip


@rule(*MOVED)
def moved(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """Apply an operator that only moves or selects elements to the integers; their affine type stays the same."""
    x = value_of(args[0], single=True)
    return Value(_again(node, x.expr), x.affine)


@rule("topk")
def topk(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    if node.attrs.ret_type != "values":
        raise NoRule("topk is supported only with ret_type 'values'")
    return moved(node, args, out)


@rule("take")
def take(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, places = value_of(args[0], single=True), node.args[1]
    if not isinstance(places, (Constant, Var)):
        raise NoRule("the indices of take must be a constant or a variable")
    return Value(_again(node, x.expr, places), x.affine)


@rule("sum")
def summed(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = value_of(args[0], single=True)
    centered = tensor.subtract(tensor.cast(x.expr, "int32"), x.affine.zero)
    return Value(_again(node, centered), x.affine._replace(zero=infer_type(const(0, "int32")), dtype="int32"))


@rule("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "mean",
      "image.resize2d")  # fmt: skip
def averaged(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """Compute an average in int32. The input is first requantized to a fraction of the output scale, as fine as int32
    sums allow."""
    x = value_of(args[0], single=True)
    wide, affine = tensor.cast(x.expr, "int32"), x.affine
    if out.single() and isinstance(out.scale, Constant):
        count = max(prod(dims(node.args[0].checked_type_)) // max(prod(dims(node.checked_type_)), 1), 1)
        largest = 256 * _number(affine.scale).item() / _number(out.scale).item() * count
        parts = next((p for p in (256, 64, 16, 4, 1) if largest * p < 2**30), None)
        if parts is not None:
            fine = infer_type(const(_number(out.scale).item() / parts, "float32"))
            affine = Affine(fine, infer_type(const(0, "int32")), "int32")
            wide = qnn.requantize(x.expr, x.affine.scale, x.affine.zero, fine, affine.zero, out_dtype="int32")
    made = _again(node, wide)
    return Value(made if affine.dtype == "int32" else tensor.cast(made, affine.dtype), affine)


@rule("nn.relu")
def relu(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = value_of(args[0])
    zero = tensor.cast(x.affine.zero, x.affine.dtype)
    if not x.affine.single():
        zero = const(_along(_number(x.affine.zero), node, x.affine), x.affine.dtype)
    return Value(tensor.maximum(x.expr, zero), x.affine)


@rule("clip")
def clip(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = value_of(args[0])
    scale, zero = _number(x.affine.scale), _number(x.affine.zero)
    kind = np.iinfo(x.affine.dtype)
    limits = (node.attrs.a_min, node.attrs.a_max)
    low, high = (np.clip(np.round(v / scale) + zero, kind.min, kind.max) for v in limits)
    if x.affine.single():
        return Value(tensor.clip(x.expr, low.item(), high.item()), x.affine)
    low, high = (const(_along(numbers, node, x.affine), x.affine.dtype) for numbers in (low, high))
    return Value(tensor.minimum(tensor.maximum(x.expr, low), high), x.affine)


@rule("nn.pad")
def pad(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, wanted = value_of(args[0], single=True), args[1]
    if not isinstance(wanted, Constant):
        raise NoRule("the pad value is not a constant")
    real = _number(wanted).item()
    if abs(real) > _UNBOUNDED:
        # The pad value represents the smallest or largest value; use the bound of the output's integer type.
        x = requantized(x, _single(out))
    kind = np.iinfo(x.affine.dtype)
    whole = np.round(real / _number(x.affine.scale).item()) + _number(x.affine.zero).item()
    value = int(np.clip(whole, kind.min, kind.max))
    if value != whole and abs(real) <= _UNBOUNDED:
        raise NoRule("the pad value is outside the integer range of the data")
    return Value(nn.pad(x.expr, node.attrs.pad_width, const(value, x.affine.dtype), node.attrs.pad_mode), x.affine)


def _matmul_affine(x: Value, w: Value, axis: int) -> Affine:
    """Return the affine type of a matmul or convolution output: the scales multiply, the zero point is 0."""
    scale = tensor.multiply(x.affine.scale, w.affine.scale)
    if all(isinstance(e, Constant) for e in (x.affine.scale, w.affine.scale)):
        scale = Constant(_number(x.affine.scale) * _number(w.affine.scale))
    zero = const(0, "int32")
    return Affine(infer_type(scale), infer_type(zero), "int32", axis)


@rule("nn.conv2d", "nn.conv2d_transpose")
def convolution(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, w, attrs = value_of(args[0], single=True), value_of(args[1]), node.attrs
    if attrs.out_layout:
        raise NoRule("a convolution with a separate out_layout")
    shape = dict(zip(attrs.kernel_layout, dims(node.args[-1].checked_type_)))
    sizes = tuple(shape[c] for c in "HW")
    filters = dims(node.checked_type_)[attrs.data_layout.index("C")]
    names = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout")
    options = {k: attrs[k] for k in (*names, *(("output_padding",) if "output_padding" in attrs else ()))}
    build = qnn.conv2d if node.op.name == "nn.conv2d" else qnn.conv2d_transpose
    made = build(x.expr, w.expr, x.affine.zero, w.affine.zero, x.affine.scale, w.affine.scale, kernel_size=sizes,
                 channels=filters, out_dtype="int32", **options)  # fmt: skip
    return Value(made, _matmul_affine(x, w, attrs.data_layout.index("C")))


@rule("nn.dense")
def dense(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, w = value_of(args[0], single=True), value_of(args[1])
    units = dims(node.args[-1].checked_type_)[0]
    made = qnn.dense(x.expr, w.expr, x.affine.zero, w.affine.zero, x.affine.scale, w.affine.scale, units)
    return Value(made, _matmul_affine(x, w, len(dims(node.checked_type_)) - 1))


@rule("nn.batch_matmul")
def batch_matmul(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, y = (value_of(a, single=True) for a in args)
    if node.attrs.transpose_a or not node.attrs.transpose_b:
        raise NoRule("batch_matmul requires transpose_a=False and transpose_b=True")
    made = qnn.batch_matmul(x.expr, y.expr, x.affine.zero, y.affine.zero, x.affine.scale, y.affine.scale)
    return Value(made, _matmul_affine(x, y, 2))


@rule("nn.bias_add")
def bias_add(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """Add the bias in int32, with the scale of the data."""
    x, bias = value_of(args[0]), args[1]
    zero = const(0, "int32")
    if isinstance(bias, Value):
        whole, have = bias.expr, bias.affine
        if have.dtype != "int32" or not structural_equal(have.scale, x.affine.scale):
            whole = qnn.requantize(whole, have.scale, have.zero, x.affine.scale, zero, axis=0, out_dtype="int32")
    else:
        whole = qnn.quantize(bias, x.affine.scale, zero, axis=0, out_dtype="int32")
    wide = x.expr if x.affine.dtype == "int32" else tensor.cast(x.expr, "int32")
    return Value(nn.bias_add(wide, whole, node.attrs.axis), x.affine._replace(dtype="int32"))


def _binary_rule(build) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        """Combine two quantized tensors directly in the affine type of the output.

        If an operand does not fit the integer type of the output, the operator is computed in int32 first."""
        if not all(_fits(operand, out) for operand in args):
            return _wide(node, args, out)
        x, y = (_quantized(operand, _single(out)) for operand in args)
        made = build(x.expr, y.expr, x.affine.scale, x.affine.zero, y.affine.scale, y.affine.zero, out.scale, out.zero,
                     x.affine.axis, y.affine.axis)  # fmt: skip
        return Value(made, out)

    return made


def _fits(operand: Value | RelayExpr, out: Affine) -> bool:
    """Return whether an operand has, or can be represented in, the integer type of the output."""
    if isinstance(operand, Value):
        return operand.affine.dtype == out.dtype
    if not (isinstance(operand, Constant) and out.single() and isinstance(out.scale, Constant)):
        return True
    kind, whole = np.iinfo(out.dtype), np.round(_number(operand) / _number(out.scale)) + _number(out.zero)
    return bool((kind.min <= whole).all() and (whole <= kind.max).all())


def _wide(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """Compute an addition or subtraction in int32. Operands of the same affine type (such as a bias and its matmul) are
    used directly; others are requantized to the scale of the output."""
    if node.op.name == "multiply":
        return _scaled(args)
    x, y = args
    if isinstance(x, Value) and isinstance(y, Value) and _alike(x.affine, y.affine):
        ranks = [len(dims(a.checked_type_)) for a in node.args]
        axes = {v.affine.axis % rank - rank for v, rank in zip((x, y), ranks) if rank}
        if x.affine.single() or len(axes) == 1 and all(ranks):
            affine = x.affine if x.affine.single() else x.affine._replace(axis=max(ranks) + axes.pop())
            return Value(_again(node, x.expr, y.expr), affine)
    steps = Affine(_single(out).scale, infer_type(const(0, "int32")), "int32")
    x, y = (requantized(_quantized(operand, steps), steps) for operand in args)
    return Value(_again(node, x.expr, y.expr), steps)


def _scaled(args: list[Value | RelayExpr]) -> Value:
    """Multiply by a positive scalar constant: the integers stay and the scale is multiplied."""
    for x, by in (args, args[::-1]):
        if isinstance(x, Value) and isinstance(by, Constant) and not dims(by.checked_type_) and _number(by) > 0:
            scale = infer_type(Constant(_number(x.affine.scale) * _number(by)))
            return Value(x.expr, x.affine._replace(scale=scale))
    raise NoRule("an operand has a wider integer type than the output")


def _alike(x: Affine, y: Affine) -> bool:
    """Return whether two int32 values have the same affine type, up to rounding of their scales."""
    if not (x.dtype == y.dtype == "int32" and all(isinstance(e, Constant) for e in (*x[:2], *y[:2]))):
        return x.dtype == "int32" and x.same(y)
    scales = _number(x.scale), _number(y.scale)
    return (
        scales[0].size == scales[1].size and np.allclose(scales[0].ravel(), scales[1].ravel(), rtol=1e-6, atol=0)
        and not _number(x.zero).any() and not _number(y.zero).any()
    )  # fmt: skip


def _quantized(operand: Value | RelayExpr, out: Affine) -> Value:
    """Return a quantized operand; a float constant is quantized with the affine type of the output."""
    if isinstance(operand, Value):
        return operand
    return Value(qnn.quantize(operand, out.scale, out.zero, out_dtype=out.dtype), out)


def requantized(x: Value, out: Affine) -> Value:
    """Convert a value to another affine type."""
    have = x.affine
    if have.same(out):
        return x
    made = qnn.requantize(x.expr, have.scale, have.zero, _single(out).scale, out.zero, have.axis, out_dtype=out.dtype)
    return Value(made, out)


def _narrow(x: Value, out: Affine) -> Value:
    """Requantize a value to the affine type of the output unless the integer types are equal."""
    return x if x.affine.dtype == out.dtype else requantized(x, out)


@rule("minimum", "maximum")
def smaller(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, y = (requantized(_quantized(operand, _single(out)), out) for operand in args)
    return Value(_again(node, x.expr, y.expr), out)


def _rounded_once(build) -> Callable[..., Call]:
    """Wrap an addition or subtraction so that it computes in float32 and rounds only its output."""

    def made(*args) -> Call:
        call = build(*args)
        return call.replace(attrs=CallAttrs({**call.attrs.entries, "compute_dtype": "float32"}))

    return made


RULES.update({"add": _binary_rule(_rounded_once(qnn.add)), "subtract": _binary_rule(_rounded_once(qnn.subtract)),
              "multiply": _binary_rule(qnn.mul)})  # fmt: skip


@rule("concatenate")
def concatenate(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    values = [_narrow(value_of(a, single=True), _single(out)) for a in args]
    made = qnn.concatenate([v.expr for v in values], [v.affine.scale for v in values],
                           [v.affine.zero for v in values], out.scale, out.zero, node.attrs.axis)  # fmt: skip
    return Value(made, out)


def _unary_rule(build) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        """Apply a unary function, directly in the scale of the output; in int32 if the operand has another integer
        type."""
        x = value_of(args[0], single=True)
        same = x.affine.dtype == _single(out).dtype
        data = x.expr if same or x.affine.dtype == "int32" else tensor.cast(x.expr, "int32")
        made = build(node, data, x.affine.scale, x.affine.zero, out.scale, out.zero)
        return Value(made, out if same else out._replace(dtype="int32"))

    return made


RULES.update({name: _unary_rule(lambda node, *args, build=getattr(qnn, name): build(*args))
              for name in ("tanh", "exp", "sqrt", "rsqrt", "erf", "log", "sigmoid", "abs")})  # fmt: skip
RULES["nn.leaky_relu"] = _unary_rule(lambda node, x, *args: qnn.leaky_relu(x, node.attrs.alpha, *args))


def _user_rule(made_by: Callable[..., Any]) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        """Call a rule registered for the operator on the integer operands. Float operands have no affine type; a tuple
        has the affine types of its fields."""
        call, types = _over_integers(node, iter(args))
        types[call] = TensorAffineType(*out)
        try:
            expr, t = made_by(call, types)
        except NotImplementedError:
            raise NoRule(f"the rule of {node.op.name} does not support this call") from None
        parts = t.types if isinstance(t, TupleAffineType) else (t,)
        have = [Affine(infer_type(p.scale), infer_type(p.zero_point), p.dtype, p.axis) for p in parts]
        if not have or not all(have[0].same(other) for other in have[1:]):
            raise NoRule(f"the rule of {node.op.name} returns tuple fields with different affine types")
        return Value(expr, have[0])

    return made


def _over_integers(node: Call, values: Iterator[Value | RelayExpr]) -> tuple[RelayExpr, dict[RelayExpr, AffineType]]:
    """Return a call over the integers of its operands, and the affine types of the quantized operands."""
    types: dict[RelayExpr, AffineType] = {}

    def integers(operand: RelayExpr) -> RelayExpr:
        value = next(values, operand)
        if not isinstance(value, Value):
            return value
        types[value.expr] = TensorAffineType(*value.affine)
        return value.expr

    arguments = []
    for argument in node.args:
        if not isinstance(argument, Tuple):
            arguments.append(integers(argument))
            continue
        fields = [integers(f) for f in argument.fields]
        arguments.append(Tuple(fields))
        if all(f in types for f in fields):
            types[arguments[-1]] = TupleAffineType(tuple(types[f] for f in fields))
    return _again(node, *arguments), types


def registered(key: str) -> dict[str, Rule]:
    """Return the rules registered for operators with ``register_op_attr`` under a key."""
    found = {name: OPS[name].attrs.get(key) for name in OPS}
    return {name: _user_rule(function) for name, function in found.items() if function is not None}


# Rules that are applied only if they are requested by name.
OPTIONAL = {"nn.softmax": _unary_rule(lambda node, *args: qnn.softmax(*args, axis=node.attrs.axis))}
# Operators that are converted even if no quantize follows them, for networks from quantization-aware training.
ALWAYS = (*MOVED, "nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul")

__all__ = ["ALWAYS", "Affine", "NoRule", "OPTIONAL", "RULES", "Rule", "Value", "registered", "requantized", "value_of"]
