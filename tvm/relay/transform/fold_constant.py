"""Constant folding: compute constant parts of a graph at compile time."""

from __future__ import annotations

import numpy as np

from ...dtype import info
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...ir.visit import post_order, rewrite
from ...runtime.ndarray import elements
from ..checked_type import with_derived_type
from ..evaluate import evaluate_call
from ..expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import infer_function, infer_type
from ..op.implementation import is_computed
from ..scopes import written_order
from .expand_ops import expand_function
from .function_pass import RelayFunctionPass, function_pass, is_call

# A result with more elements than this is folded only if its inputs are at least as large, to limit the model size.
LARGEST = 1 << 26


def _placed(e: RelayExpr) -> RelayExpr:
    """Return a value without its ``on_device`` annotation."""
    return e.args[0] if is_call(e, "on_device") else e


def _constants(node: Call) -> list | None:
    """Return the arrays of all inputs, with tuples flattened, if all of them are constants; else None."""
    out = []
    for arg in node.args:
        parts = arg.fields if isinstance(arg, Tuple) else (arg,)
        for part in map(_placed, parts):
            if not isinstance(part, Constant) or info(part.data.dtype).is_custom:
                return None
            out.append(elements(part.data))
    return out


def _known_shape(node: Call) -> RelayExpr | None:
    """Return the shape of a tensor or its number of elements as a constant, if its type is static."""
    t = node.args[0].checked_type_
    if not isinstance(t, TensorType) or not all(hasattr(d, "value") for d in t.shape):
        return None
    shape = [d.value for d in t.shape]
    value = shape if node.op.name == "shape_of" else np.prod(shape, dtype="int64")
    return Constant(np.array(value, node.attrs.dtype))


def _elements(t) -> int:
    total = 1
    for d in t.shape:
        total *= getattr(d, "value", 1 << 40)
    return total


def _operand(e: RelayExpr) -> RelayExpr:
    """Return an operand without annotations; the type of a rebuilt tuple is derived from its fields."""
    if not isinstance(e, Tuple):
        return _placed(e)
    made = e.map_children(_placed)
    return with_derived_type(made) if made.checked_type_ is None else made


def _transposed(node: RelayExpr) -> Constant | None:
    """Fold a chain of transposes of a constant into one transpose, or into the constant itself if they cancel out."""
    orders = []
    while is_call(node, "transpose"):
        orders.append(node.attrs.axes)
        node = node.args[0]
    if not orders or not isinstance(node, Constant):
        return None
    axes = np.arange(node.data.ndim)
    for order in reversed(orders):
        axes = axes[::-1] if order is None else axes[list(order)]
    is_same = np.array_equal(axes, np.arange(len(axes)))
    return node if is_same else node._transposed(axes.tolist())


class _Fold:
    """Replaces calls on constants by their results. Operands are rewritten first, so that whole chains are folded."""

    def __init__(self, fold_qnn: bool = False):
        self.fold_qnn = fold_qnn

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if type(node) is TupleGetItem and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if type(node) is If and isinstance(node.cond, Constant):
            return node.true_branch if node.cond.data.numpy().item() else node.false_branch
        if type(node) is Call and isinstance(node.op, Op):
            return self.call(node)
        return None

    def call(self, node: Call) -> RelayExpr | None:
        if node.op.name in ("shape_of", "ndarray_size"):
            found = _known_shape(node)
            if found is not None:
                return found
        if node.op.attrs.get("random") or node.op.name == "on_device":
            return None
        if not is_computed(node.op):
            return self.expanded(node)
        arrays = _constants(node)
        if arrays is None or not node.args and node.op.name != "arange":
            return None
        node = node.map_children(_operand)
        if node.checked_type_ is None:
            with_derived_type(node)
        t = node.checked_type_
        if isinstance(t, TensorType):
            if info(t.dtype).is_custom:
                return None
            size = _elements(t)
            if size > LARGEST and size > sum(a.size for a in arrays):
                return None
        result = evaluate_call(node, arrays)
        if isinstance(result, list):
            return Tuple([Constant(r) for r in result])
        return Constant(result)

    def expanded(self, node: Call) -> RelayExpr | None:
        """Fold an operator that is defined by simpler operators, if its operands are constants.

        QNN operators are folded only with ``fold_qnn``, because later passes match them. Dropout is never folded."""
        quantized = node.op.name.startswith("qnn.")
        if quantized and not self.fold_qnn or node.op.name == "nn.dropout" or "expand" not in node.op.attrs:
            return None
        if not node.args or _constants(node) is None:
            return None
        plain = infer_function(Function([], node.map_children(_placed)))
        made = rewrite(expand_function(plain, lambda call: not is_computed(call.op)), _Fold(self.fold_qnn)).body
        parts = made.fields if isinstance(made, Tuple) else (made,)
        return made if all(isinstance(p, Constant) for p in parts) else None


def _fold_lets(root: RelayExpr, fold: _Fold) -> RelayExpr:
    """Rewrite an expression with ``fold``, and replace let variables whose values are constants by the constants."""
    bound = {n.var: n.value for n in post_order(root) if type(n) is Let}
    memo: dict[int, RelayExpr] = {}

    def value(e):
        source = bound.get(e) if type(e) is Var else None
        found = None if source is None else memo.get(id(source))
        return found if found is not None and isinstance(_placed(found), Constant) else memo.get(id(e), e)

    for node in written_order(root):
        if type(node) is Let and isinstance(_placed(value(node.var)), Constant):
            memo[id(node)] = value(node.body)
            continue
        new = node.map_children(value)
        got = fold(new)
        memo[id(node)] = new if got is None else got
    return value(root)


def fold_function(func: Function, mod: IRModule | None = None, fold_qnn: bool = False) -> Function:
    fold = _Fold(fold_qnn)
    lets = any(type(n) is Let for n in post_order(func))
    made = func.replace(body=_fold_lets(func.body, fold)) if lets else rewrite(func, fold, _transposed)
    return infer_function(made, mod)


def FoldConstant(fold_qnn: bool = False) -> RelayFunctionPass:
    """Fold the parts of a graph that depend only on constants.

    Parameters
    ----------
    fold_qnn : bool, optional
        Whether QNN operators are folded too.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> mod = tvm.IRModule.from_expr(relay.var("x", shape=()) * (relay.const(2.0) + relay.const(3.0)))
    >>> print(relay.transform.FoldConstant()(mod)["main"].body.args[1])
    5f
    """

    @function_pass(opt_level=2, name="FoldConstant", required=["InferType"])
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fold_function(func, mod, fold_qnn)

    return fold


def FoldConstantExpr(expr: RelayExpr, mod: IRModule, fold_qnn: bool = False) -> RelayExpr:
    """Fold the constant parts of an expression.

    Parameters
    ----------
    expr : RelayExpr
        The expression to fold.
    mod : IRModule
        The module with the functions that the expression uses.
    fold_qnn : bool, optional
        Whether QNN operators are folded too.

    Returns
    -------
    RelayExpr
    """
    return rewrite(infer_type(expr, mod), _Fold(fold_qnn), _transposed)
