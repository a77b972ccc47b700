"""Operators of training in the simpler form they have when a model only predicts."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import rewrite
from ..expr import Call, Function, RelayExpr, Tuple, TupleGetItem
from ..infer import infer_function
from ..op import tensor, transform
from ..op.rules import normalize_axis
from .function_pass import RelayFunctionPass, function_pass


def expand_to(vector: RelayExpr, rank: int, axis: int) -> RelayExpr:
    """A vector along ``axis`` of tensors with ``rank`` dimensions."""
    after = rank - axis - 1
    return transform.expand_dims(vector, 1, after) if after else vector


def batch_norm(node: Call) -> RelayExpr:
    """Batch normalization as one multiplication and one addition; the factors fold into constants."""
    data, gamma, beta, mean, var = node.args
    attrs = node.attrs
    t = data.checked_type_
    rank = len(t.shape)
    axis = normalize_axis(attrs.axis, rank)
    scale = tensor.rsqrt(tensor.add(var, _like(attrs.epsilon, t.dtype)))
    if attrs.scale:
        scale = tensor.multiply(scale, gamma)
    shift = tensor.multiply(tensor.negative(mean), scale)
    if attrs.center:
        shift = tensor.add(shift, beta)
    out = tensor.multiply(data, expand_to(scale, rank, axis))
    return tensor.add(out, expand_to(shift, rank, axis))


def _like(value: float, dtype: str) -> RelayExpr:
    from ..expr import const

    return const(value, dtype)


RULES = {"nn.batch_norm": lambda node: Tuple((batch_norm(node), node.args[3], node.args[4])),
         "nn.dropout": lambda node: Tuple((node.args[0], tensor.ones_like(node.args[0])))}


def simplify_function(func: Function, mod: IRModule | None = None) -> Function:
    # Operands are rebuilt without types, so rules look at the original node's inputs.
    types: dict[int, object] = {}

    def post(node):
        if type(node) is TupleGetItem and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if type(node) is Call and isinstance(node.op, Op):
            rule = RULES.get(node.op.name)
            if rule is not None:
                typed = infer_inputs(node, types)
                return rule(typed)
        return None

    return infer_function(rewrite(func, post), mod)


def infer_inputs(node: Call, types: dict) -> Call:
    from ..infer import infer_type

    for arg in node.args:
        if arg.checked_type_ is None:
            infer_type(arg)
    return node


def SimplifyInference() -> RelayFunctionPass:
    """Batch normalization and dropout as they are when predicting."""

    @function_pass(opt_level=0, name="SimplifyInference", required=["InferType"])
    def simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return simplify_function(func, mod)

    return simplify
