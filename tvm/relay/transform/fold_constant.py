"""Constant folding: what can be computed when compiling is."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...ir.visit import rewrite
from ..evaluate import evaluate_call
from ..expr import Call, Constant, Function, If, RelayExpr, Tuple, TupleGetItem
from ..infer import infer_function
from ..op.implementation import is_computed
from .function_pass import RelayFunctionPass, function_pass

# Results larger than this are only kept when their inputs were at least as large: folding must not blow up a model.
LARGEST = 1 << 26


def _constants(node: Call) -> list | None:
    """The arrays of all inputs if they are constants, tuples taken apart."""
    out = []
    for arg in node.args:
        parts = arg.fields if isinstance(arg, Tuple) else (arg,)
        for part in parts:
            if not isinstance(part, Constant):
                return None
            out.append(part.data.numpy())
    return out


def _elements(t) -> int:
    total = 1
    for d in t.shape:
        total *= getattr(d, "value", 1 << 40)
    return total


class _Fold:
    """Replaces calls of constants by their results; operands come first, so whole chains fold."""

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if type(node) is TupleGetItem and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if type(node) is If and isinstance(node.cond, Constant):
            return node.true_branch if node.cond.data.numpy().item() else node.false_branch
        if type(node) is Call and isinstance(node.op, Op):
            return self.call(node)
        return None

    def call(self, node: Call) -> RelayExpr | None:
        if node.op.name == "shape_of" and isinstance(node.args[0].checked_type_, TensorType):
            shape = node.args[0].checked_type_.shape
            if all(hasattr(d, "value") for d in shape):
                import numpy as np

                return Constant(np.array([d.value for d in shape], node.attrs.dtype))
        if node.op.attrs.get("random") or not is_computed(node.op):
            return None
        arrays = _constants(node)
        if arrays is None or not node.args and node.op.name != "arange":
            return None
        if node.checked_type_ is None:
            node = self.typed(node)
        t = node.checked_type_
        if isinstance(t, TensorType):
            size = _elements(t)
            if size > LARGEST and size > sum(a.size for a in arrays):
                return None
        result = evaluate_call(node, arrays)
        if isinstance(result, list):
            return Tuple([Constant(r) for r in result])
        return Constant(result)

    def typed(self, node: Call) -> Call:
        node.checked_type_ = node.op.attrs["type_rule"](node.attrs, [_type(a) for a in node.args])
        return node


def _type(e: RelayExpr):
    from ...ir.type import TupleType

    if e.checked_type_ is None and isinstance(e, Tuple):
        return TupleType(tuple(_type(f) for f in e.fields))
    return e.checked_type_


def fold_function(func: Function, mod: IRModule | None = None) -> Function:
    return infer_function(rewrite(func, _Fold()), mod)


def FoldConstant(fold_qnn: bool = False) -> RelayFunctionPass:
    """Compute the parts of a graph that depend on constants only."""

    @function_pass(opt_level=2, name="FoldConstant", required=["InferType"])
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fold_function(func, mod)

    return fold


def FoldConstantExpr(expr: RelayExpr, mod: IRModule, fold_qnn: bool = False) -> RelayExpr:
    """One expression with its constant parts computed."""
    return rewrite(expr, _Fold())
