"""Networks that compute in float between dequantize and quantize, brought to integers.

Before every ``qnn.quantize``, the operators down to ``qnn.dequantize`` are made anew over the integers themselves. Each
value carries its ``Affine``: what its integers mean. A row of ``RULES`` says how an operator works on integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.structural import structural_equal
from ...ir.transform import PassContext
from ...ir.visit import rewrite
from ..expr import Call, Constant, Function, RelayExpr, Tuple, const
from ..infer import dims, infer_function, infer_type
from ..op import nn, tensor
from ..qnn.op import qnn
from .function_pass import RelayFunctionPass, function_pass, is_call
from .fuse_ops import own_nodes


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
        return self.dtype == other.dtype and structural_equal(self.scale, other.scale) and structural_equal(
            self.zero, other.zero)  # fmt: skip


class Value(NamedTuple):
    expr: RelayExpr
    affine: Affine


class NoRule(Exception):
    """An operator between dequantize and quantize that cannot be brought to integers."""


Rule = Callable[[Call, "list[Value | RelayExpr]", Affine], Value]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(made: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, made))
        return made

    return add


def _value(operand: Value | RelayExpr, single: bool = False) -> Value:
    if not isinstance(operand, Value) or single and not operand.affine.single():
        raise NoRule("an operand is not quantized, or has several scales")
    return operand


def _number(e: RelayExpr) -> np.ndarray:
    if not isinstance(e, Constant):
        raise NoRule("a scale or zero point is not known")
    return e.data.numpy()


def _again(node: Call, *args: RelayExpr) -> RelayExpr:
    return Call(node.op, args, node.attrs, (), node.span)


@rule("reshape", "transpose", "squeeze", "expand_dims", "nn.batch_flatten", "strided_slice", "nn.max_pool2d", "max",
      "min", "nn.global_max_pool2d", "nn.depth_to_space", "nn.space_to_depth", "broadcast_to")  # fmt: skip
def moved(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """The same integers in other places, or the largest of them."""
    x = _value(args[0], single=True)
    return Value(_again(node, x.expr), x.affine)


@rule("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d", "mean", "image.resize2d")
def averaged(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """Averages are taken in int32."""
    x = _value(args[0], single=True)
    return Value(tensor.cast(_again(node, tensor.cast(x.expr, "int32")), x.affine.dtype), x.affine)


@rule("nn.relu")
def relu(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = _value(args[0], single=True)
    return Value(tensor.maximum(x.expr, tensor.cast(x.affine.zero, x.affine.dtype)), x.affine)


@rule("clip")
def clip(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = _value(args[0], single=True)
    scale, zero = _number(x.affine.scale).item(), _number(x.affine.zero).item()
    kind = np.iinfo(x.affine.dtype)
    limits = (node.attrs.a_min, node.attrs.a_max)
    low, high = (float(np.clip(round(v / scale) + zero, kind.min, kind.max)) for v in limits)
    return Value(tensor.clip(x.expr, low, high), x.affine)


@rule("nn.pad")
def pad(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x = _value(args[0], single=True)
    scale, zero = _number(x.affine.scale).item(), _number(x.affine.zero).item()
    wanted = args[1]
    value = round(float(_number(wanted).item()) / scale) + zero if isinstance(wanted, Constant) else None
    if value is None:
        raise NoRule("the padding is not known")
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
    x, w, attrs = _value(args[0], single=True), _value(args[1]), node.attrs
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
    x, w = _value(args[0], single=True), _value(args[1])
    units = dims(node.args[-1].checked_type_)[0]
    made = qnn.dense(x.expr, w.expr, x.affine.zero, w.affine.zero, x.affine.scale, w.affine.scale, units)
    return Value(made, _product(x, w, len(dims(node.checked_type_)) - 1))


@rule("nn.batch_matmul")
def batch_matmul(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    x, y = (_value(a, single=True) for a in args)
    if node.attrs.transpose_a or not node.attrs.transpose_b:
        raise NoRule("a transposed first operand")
    made = qnn.batch_matmul(x.expr, y.expr, x.affine.zero, y.affine.zero, x.affine.scale, y.affine.scale)
    return Value(made, _product(x, y, 2))


@rule("nn.bias_add")
def bias_add(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    """The bias in the integers of the sum it is added to."""
    x, bias = _value(args[0]), args[1]
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
        """Two quantized tensors, at once in the integers of the result."""
        values = []
        for operand in args:
            if not isinstance(operand, Value):
                operand = Value(qnn.quantize(operand, out.scale, out.zero, out_dtype=out.dtype), out)
            values.append(_narrow(_value(operand, single=True), out))
        x, y = values
        made = build(x.expr, y.expr, x.affine.scale, x.affine.zero, y.affine.scale, y.affine.zero, out.scale, out.zero)
        return Value(made, out)

    return made


def _narrow(x: Value, out: Affine) -> Value:
    """Sums of products brought to the integers of the result first."""
    if x.affine.dtype == out.dtype:
        return x
    have = x.affine
    made = qnn.requantize(x.expr, have.scale, have.zero, out.scale, out.zero, have.axis, out_dtype=out.dtype)
    return Value(made, out)


RULES.update({"add": _two(qnn.add), "subtract": _two(qnn.subtract), "multiply": _two(qnn.mul)})


@rule("concatenate")
def concatenate(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
    values = [_narrow(_value(a, single=True), out) for a in args]
    made = qnn.concatenate([v.expr for v in values], [v.affine.scale for v in values],
                           [v.affine.zero for v in values], out.scale, out.zero, node.attrs.axis)  # fmt: skip
    return Value(made, out)


# Operators that TVM calls optional: worked out through a table or float inside one operator.
OPTIONAL = {"tanh": qnn.tanh, "exp": qnn.exp, "sqrt": qnn.sqrt, "rsqrt": qnn.rsqrt, "erf": qnn.erf, "log": qnn.log,
            "sigmoid": qnn.sigmoid, "abs": qnn.abs}  # fmt: skip


def _one(build) -> Rule:
    def made(node: Call, args: list[Value | RelayExpr], out: Affine) -> Value:
        x = _value(args[0], single=True)
        narrow = _narrow(x, out)
        return Value(build(narrow.expr, narrow.affine.scale, narrow.affine.zero, out.scale, out.zero), out)

    return made


class _Region:
    """What lies before one quantize, made over integers; operands first, so nothing recurses."""

    def __init__(self, out: Affine, rules: dict[str, Rule], memo: dict):
        self.out, self.rules, self.memo = out, rules, memo
        self.values: dict[int, Value | RelayExpr] = {}

    def run(self, root: RelayExpr) -> Value:
        stack = [root]
        while stack:
            e = stack[-1]
            if id(e) in self.values:
                stack.pop()
                continue
            waiting = [o for o in self.operands(e) if id(o) not in self.values]
            if waiting:
                stack.extend(waiting)
                continue
            self.values[id(e)] = self.make(e)
            stack.pop()
        return _value(self.values[id(root)])

    def operands(self, e: RelayExpr) -> Iterable[RelayExpr]:
        if isinstance(e, Constant) or is_call(e, "qnn.dequantize"):
            return ()
        if not isinstance(e, Call) or not isinstance(e.op, Op) or e.op.name not in self.rules:
            name = e.op.name if isinstance(e, Call) and isinstance(e.op, Op) else type(e).__name__
            raise NoRule(f"{name} has no rule for integers")
        return [f for a in e.args for f in (a.fields if isinstance(a, Tuple) else (a,))]

    def make(self, e: RelayExpr) -> Value | RelayExpr:
        if isinstance(e, Constant):
            return e
        assert isinstance(e, Call)
        if e.op.name == "qnn.dequantize":
            data, scale, zero = e.args
            return Value(rewrite(data, memo=self.memo), Affine(scale, zero, data.checked_type_.dtype, e.attrs.axis))
        return self.rules[e.op.name](e, [self.values[id(o)] for o in self.operands(e)], self.out)


def _quantized(node: RelayExpr, rules: dict[str, Rule], hard_fail: bool, memo: dict) -> RelayExpr | None:
    if not isinstance(node, Call) or not is_call(node, "qnn.quantize"):
        return None
    data, scale, zero = node.args
    out = Affine(scale, zero, node.attrs.out_dtype, node.attrs.axis)
    if not out.single() or isinstance(data, Constant):
        return None
    try:
        value = _Region(out, rules, memo).run(data)
    except NoRule as why:
        if hard_fail:
            raise TVMError(f"FakeQuantizationToInteger: {why}") from None
        return None
    if value.affine.same(out):
        return value.expr
    have = value.affine
    return qnn.requantize(value.expr, have.scale, have.zero, scale, zero, have.axis, out_dtype=out.dtype)


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: list[str] | None = None
) -> RelayFunctionPass:
    """Bring what stands between dequantize and quantize to integers. ``hard_fail`` refuses operators without a rule
    instead of leaving them in float; ``optional_qnn_ops`` names functions to be taken over as well.

    Parameters
    ----------
    hard_fail : bool, optional
        Whether an operator without a rule is an error.
    use_qat : bool, optional
        Whether numbers of training with quantization are taken over too.
    optional_qnn_ops : list[str], optional
        Functions that are taken over as well.

    Returns
    -------
    RelayFunctionPass

    Raises
    ------
    TVMError
        ``use_qat`` is asked for, or an optional rule is not known.
    """
    if use_qat:
        raise TVMError("FakeQuantizationToInteger: use_qat=True (ranges learnt in training) is not offered; quantize "
                       "the network's constants before importing it")  # fmt: skip
    unknown = [n for n in optional_qnn_ops or () if n not in OPTIONAL]
    if unknown:
        raise TVMError(f"FakeQuantizationToInteger: no optional rule for {unknown[0]}; there are {', '.join(OPTIONAL)}")
    rules = {**RULES, **{n: _one(OPTIONAL[n]) for n in optional_qnn_ops or ()}}

    @function_pass(opt_level=0, name="FakeQuantizationToInteger", required=["InferType"])
    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        # Regions are read in the old graph, whose types are known; ``memo`` has what became of it so far.
        memo: dict[int, tuple[Any, Any]] = {}
        found = False
        for node in own_nodes(func.body):
            got = _quantized(node, rules, hard_fail, memo)
            if got is not None:
                memo[id(node)] = (node, got)
                found = True
        return infer_function(func.replace(body=rewrite(func.body, memo=memo)), mod) if found else func

    return convert


__all__ = ["FakeQuantizationToInteger"]
