"""How operators between ``qnn.dequantize`` and ``qnn.quantize`` work on the integers themselves.

Each value carries its ``Affine``: what its integers mean. A row of ``RULES`` makes an operator anew over integers.
"""

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
    """real = scale * (integer - zero); ``axis`` is the one several scales run along, -1 the last."""

    scale: RelayExpr
    zero: RelayExpr
    dtype: str
    axis: int = -1

    def single(self) -> bool:
        """One scale for the whole tensor."""
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
    """An operator between dequantize and quantize that cannot be brought to integers."""


# Numbers of float32 beyond stand for no bound.
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
        raise NoRule("an operand is not quantized, or has several scales")
    return operand


def _number(e: RelayExpr) -> np.ndarray:
    if not isinstance(e, Constant):
        raise NoRule("a scale or zero point is not known")
    return e.data.numpy()


def _again(node: Call, *args: RelayExpr) -> RelayExpr:
    return Call(node.op, args, node.attrs, (), node.span)


def _single(out: Affine) -> Affine:
    """The meaning of a result, for operators that are at once in the integers of it."""
    if not out.single():
        raise NoRule("the result has several scales")
    return out


def _along(numbers: np.ndarray, node: Call, affine: Affine) -> np.ndarray:
    """Numbers of each channel, shaped so that they spread over the operand of a call."""
    rank = len(dims(node.args[0].checked_type_))
    shape = [-1 if i == affine.axis % rank else 1 for i in range(rank)]
    return numbers.reshape(shape) if numbers.ndim else numbers


MOVED = ("reshape", "transpose", "squeeze", "expand_dims", "nn.batch_flatten", "strided_slice", "nn.max_pool2d", "max",
         "min", "nn.global_max_pool2d", "nn.depth_to_space", "nn.space_to_depth", "broadcast_to", "split")  # fmt: skip


@rule(*MOVED)
def moved(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """The same integers in other places, or the largest of them."""
    x = value_of(args[0], single=True)
    return Value(_again(node, x.expr), x.affine)


@rule("topk")
def topk(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    if node.attrs.ret_type != "values":
        raise NoRule("the places of topk are asked for")
    return moved(node, args, out)


@rule("take")
def take(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, places = value_of(args[0], single=True), node.args[1]
    if not isinstance(places, (Constant, Var)):
        raise NoRule("the places of take are computed")
    return Value(_again(node, x.expr, places), x.affine)


@rule("sum")
def summed(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = value_of(args[0], single=True)
    centered = tensor.subtract(tensor.cast(x.expr, "int32"), x.affine.zero)
    return Value(_again(node, centered), x.affine._replace(zero=infer_type(const(0, "int32")), dtype="int32"))


@rule("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "mean",
      "image.resize2d")  # fmt: skip
def averaged(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """Averages are taken in int32, of a fraction of the result's quantum as far as the sums have room."""
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
        raise NoRule("the padding is not known")
    real = _number(wanted).item()
    if abs(real) > _UNBOUNDED:
        # The lowest or highest number there is: the last integer of the result.
        x = requantized(x, _single(out))
    kind = np.iinfo(x.affine.dtype)
    whole = np.round(real / _number(x.affine.scale).item()) + _number(x.affine.zero).item()
    value = int(np.clip(whole, kind.min, kind.max))
    if value != whole and abs(real) <= _UNBOUNDED:
        raise NoRule("the padding is outside the integers of the data")
    return Value(nn.pad(x.expr, node.attrs.pad_width, const(value, x.affine.dtype), node.attrs.pad_mode), x.affine)


def _product(x: Value, w: Value, axis: int) -> Affine:
    """What the sums of products mean: the scales multiply, the zero point is zero."""
    scale = tensor.multiply(x.affine.scale, w.affine.scale)
    if all(isinstance(e, Constant) for e in (x.affine.scale, w.affine.scale)):
        scale = Constant(_number(x.affine.scale) * _number(w.affine.scale))
    zero = const(0, "int32")
    return Affine(infer_type(scale), infer_type(zero), "int32", axis)


@rule("nn.conv2d", "nn.conv2d_transpose")
def convolution(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, w, attrs = value_of(args[0], single=True), value_of(args[1]), node.attrs
    if attrs.out_layout:
        raise NoRule("a layout of its own")
    shape = dict(zip(attrs.kernel_layout, dims(node.args[-1].checked_type_)))
    sizes = tuple(shape[c] for c in "HW")
    filters = dims(node.checked_type_)[attrs.data_layout.index("C")]
    names = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout")
    options = {k: attrs[k] for k in (*names, *(("output_padding",) if "output_padding" in attrs else ()))}
    build = qnn.conv2d if node.op.name == "nn.conv2d" else qnn.conv2d_transpose
    made = build(x.expr, w.expr, x.affine.zero, w.affine.zero, x.affine.scale, w.affine.scale, kernel_size=sizes,
                 channels=filters, out_dtype="int32", **options)  # fmt: skip
    return Value(made, _product(x, w, attrs.data_layout.index("C")))


@rule("nn.dense")
def dense(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, w = value_of(args[0], single=True), value_of(args[1])
    units = dims(node.args[-1].checked_type_)[0]
    made = qnn.dense(x.expr, w.expr, x.affine.zero, w.affine.zero, x.affine.scale, w.affine.scale, units)
    return Value(made, _product(x, w, len(dims(node.checked_type_)) - 1))


@rule("nn.batch_matmul")
def batch_matmul(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, y = (value_of(a, single=True) for a in args)
    if node.attrs.transpose_a or not node.attrs.transpose_b:
        raise NoRule("a transposed first operand")
    made = qnn.batch_matmul(x.expr, y.expr, x.affine.zero, y.affine.zero, x.affine.scale, y.affine.scale)
    return Value(made, _product(x, y, 2))


@rule("nn.bias_add")
def bias_add(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """The bias in the integers of the sum it is added to."""
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


def _two(build) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        """Two quantized tensors, at once in the integers of the result; those wider than it in int32 first, as each
        may lie outside of the result where the two together do not."""
        if not all(_fits(operand, out) for operand in args):
            return _wide(node, args, out)
        x, y = (_quantized(operand, _single(out)) for operand in args)
        made = build(x.expr, y.expr, x.affine.scale, x.affine.zero, y.affine.scale, y.affine.zero, out.scale, out.zero,
                     x.affine.axis, y.affine.axis)  # fmt: skip
        return Value(made, out)

    return made


def _fits(operand: Value | RelayExpr, out: Affine) -> bool:
    """Whether an operand is, or can be, in integers of the kind of the result."""
    if isinstance(operand, Value):
        return operand.affine.dtype == out.dtype
    if not (isinstance(operand, Constant) and out.single() and isinstance(out.scale, Constant)):
        return True
    kind, whole = np.iinfo(out.dtype), np.round(_number(operand) / _number(out.scale)) + _number(out.zero)
    return bool((kind.min <= whole).all() and (whole <= kind.max).all())


def _wide(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """A sum or difference in int32: in the integers of the operands where they mean the same (a bias and the sum of
    products it belongs to), else in steps of the result."""
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
    """A product with a number above zero: the same integers in other steps."""
    for x, by in (args, args[::-1]):
        if isinstance(x, Value) and isinstance(by, Constant) and not dims(by.checked_type_) and _number(by) > 0:
            scale = infer_type(Constant(_number(x.affine.scale) * _number(by)))
            return Value(x.expr, x.affine._replace(scale=scale))
    raise NoRule("an operand is wider than the product")


def _alike(x: Affine, y: Affine) -> bool:
    """Whether sums of int32 have one meaning, but for the rounding of their scales."""
    if not (x.dtype == y.dtype == "int32" and all(isinstance(e, Constant) for e in (*x[:2], *y[:2]))):
        return x.dtype == "int32" and x.same(y)
    scales = _number(x.scale), _number(y.scale)
    return (
        scales[0].size == scales[1].size and np.allclose(scales[0].ravel(), scales[1].ravel(), rtol=1e-6, atol=0)
        and not _number(x.zero).any() and not _number(y.zero).any()
    )  # fmt: skip


def _quantized(operand: Value | RelayExpr, out: Affine) -> Value:
    """An operand; a constant of float in the integers of the result."""
    if isinstance(operand, Value):
        return operand
    return Value(qnn.quantize(operand, out.scale, out.zero, out_dtype=out.dtype), out)


def requantized(x: Value, out: Affine) -> Value:
    """A value in the integers of the result."""
    have = x.affine
    if have.same(out):
        return x
    made = qnn.requantize(x.expr, have.scale, have.zero, _single(out).scale, out.zero, have.axis, out_dtype=out.dtype)
    return Value(made, out)


def _narrow(x: Value, out: Affine) -> Value:
    """Sums of products brought to the integers of the result first."""
    return x if x.affine.dtype == out.dtype else requantized(x, out)


@rule("minimum", "maximum")
def smaller(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, y = (requantized(_quantized(operand, _single(out)), out) for operand in args)
    return Value(_again(node, x.expr, y.expr), out)


def _rounded_once(build) -> Callable[..., Call]:
    """A sum or difference that rounds its result alone, as the sum of the real numbers between is rounded."""

    def made(*args) -> Call:
        call = build(*args)
        return call.replace(attrs=CallAttrs({**call.attrs.entries, "compute_dtype": "float32"}))

    return made


RULES.update({"add": _two(_rounded_once(qnn.add)), "subtract": _two(_rounded_once(qnn.subtract)),
              "multiply": _two(qnn.mul)})  # fmt: skip


@rule("concatenate")
def concatenate(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    values = [_narrow(value_of(a, single=True), _single(out)) for a in args]
    made = qnn.concatenate([v.expr for v in values], [v.affine.scale for v in values],
                           [v.affine.zero for v in values], out.scale, out.zero, node.attrs.axis)  # fmt: skip
    return Value(made, out)


def _one(build) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        """A function of each number, at once in steps of the result; in int32 where the operand is of another kind."""
        x = value_of(args[0], single=True)
        same = x.affine.dtype == _single(out).dtype
        data = x.expr if same or x.affine.dtype == "int32" else tensor.cast(x.expr, "int32")
        made = build(node, data, x.affine.scale, x.affine.zero, out.scale, out.zero)
        return Value(made, out if same else out._replace(dtype="int32"))

    return made


RULES.update({name: _one(lambda node, *args, build=getattr(qnn, name): build(*args))
              for name in ("tanh", "exp", "sqrt", "rsqrt", "erf", "log", "sigmoid", "abs")})  # fmt: skip
RULES["nn.leaky_relu"] = _one(lambda node, x, *args: qnn.leaky_relu(x, node.attrs.alpha, *args))


def _of_user(made_by: Callable[..., Any]) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        """The expression that a function registered for the operator makes of its integers. Operands in float have no
        affine type; a tuple has those of its fields."""
        call, types = _over_integers(node, iter(args))
        types[call] = TensorAffineType(*out)
        try:
            expr, t = made_by(call, types)
        except NotImplementedError:
            raise NoRule(f"the rule of {node.op.name} does not take this call") from None
        parts = t.types if isinstance(t, TupleAffineType) else (t,)
        have = [Affine(infer_type(p.scale), infer_type(p.zero_point), p.dtype, p.axis) for p in parts]
        if not have or not all(have[0].same(other) for other in have[1:]):
            raise NoRule(f"the rule of {node.op.name} gives parts of different scales")
        return Value(expr, have[0])

    return made


def _over_integers(node: Call, values: Iterator[Value | RelayExpr]) -> tuple[RelayExpr, dict[RelayExpr, AffineType]]:
    """A call over the integers of its operands, and the affine types of those that have one."""
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
    """The rules that were registered for operators under a key of ``register_op_attr``."""
    found = {name: OPS[name].attrs.get(key) for name in OPS}
    return {name: _of_user(function) for name, function in found.items() if function is not None}


# Rules that are used where they are named.
OPTIONAL = {"nn.softmax": _one(lambda node, *args: qnn.softmax(*args, axis=node.attrs.axis))}
# Operators whose integers mean something whatever becomes of the result: what training with quantization left in float.
ALWAYS = (*MOVED, "nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul")

__all__ = ["ALWAYS", "Affine", "NoRule", "OPTIONAL", "RULES", "Rule", "Value", "registered", "requantized", "value_of"]
