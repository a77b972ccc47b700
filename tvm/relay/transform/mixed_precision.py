"""Convert convolutions, matmuls and the operators that follow them to half precision."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...ir.type import TupleType
from ..expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import infer_function, infer_type
from ..op import tensor
from ..op.record import BROADCAST, ELEMWISE, CallAttrs, pattern_of
from .function_pass import RelayFunctionPass, function_pass, is_contraction

MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = 0, 1, 2

# The category of each operator. Matmuls and convolutions are always converted. An operator without entry stays in
# float32; if it is not element-wise, ``missing_op_mode`` decides whether this is an error or a warning.
CATEGORY = {
    **dict.fromkeys(
        (
            "add subtract multiply divide maximum minimum where clip concatenate stack split reshape "
            "expand_dims squeeze transpose "
            "nn.batch_flatten nn.bias_add nn.relu nn.leaky_relu nn.prelu nn.pad nn.max_pool1d "
            "nn.max_pool2d nn.max_pool3d "
            "nn.avg_pool2d nn.global_max_pool2d nn.global_avg_pool2d nn.adaptive_avg_pool2d "
            "nn.adaptive_max_pool2d take gather "
            "strided_slice slice_like reverse repeat tile broadcast_to layout_transform copy "
            "zeros_like ones_like full_like max "
            "min nn.upsampling nn.dropout nn.batch_norm nn.depth_to_space nn.space_to_depth "
            "image.resize2d negative abs "
            "floor ceil round sigmoid tanh sqrt argmax argmin"
        ).split(),
        MIXED_PRECISION_FOLLOW,
    ),
    **dict.fromkeys(
        (
            "exp log power sum mean prod variance std nn.softmax nn.log_softmax nn.layer_norm "
            "nn.instance_norm nn.group_norm erf "
            "rsqrt nn.cross_entropy nn.l2_normalize nn.lrn cumsum topk sort argsort logsumexp"
        ).split(),
        MIXED_PRECISION_NEVER,
    ),
}

# These reductions stay in half precision if their input already is. An input is not converted for them, because they
# add many elements.
REDUCTIONS = frozenset({"nn.global_avg_pool2d", "nn.adaptive_avg_pool2d", "nn.avg_pool2d"})
# The accumulation type, if it differs from the operand type: bfloat16 has too few mantissa bits.
ACCUMULATION_TYPE = {"bfloat16": "float32"}
# The largest finite value of each type whose range is smaller than that of float32.
LARGEST = {"float16": 65504.0}


def _is_wide(t: Any) -> bool:
    if isinstance(t, TupleType):
        return any(_is_wide(f) for f in t.fields)
    return isinstance(t, TensorType) and t.dtype == "float32"


class _Conversion:
    """Maps original expressions to converted ones; each cast of an expression is created once."""

    def __init__(self, narrow: str, missing_op_mode: int):
        self.narrow = narrow
        self.missing = missing_op_mode
        self.value: dict[int, RelayExpr] = {}
        self.casts: dict[tuple[int, str], RelayExpr] = {}
        # The float32 value of each rounded value, in creation order, and the number of uses of each original
        # expression.
        self.wide: dict[int, tuple[int, RelayExpr]] = {}
        self.uses: dict[int, int] = {}
        self.unknown: set[str] = set()

    def dtype(self, e: RelayExpr) -> str:
        if e.checked_type_ is None:
            infer_type(e)
        t = e.checked_type_
        return t.dtype if isinstance(t, TensorType) else ""

    def cast(self, e: RelayExpr, dtype: str) -> RelayExpr:
        """Cast a floating-point value to another precision; other values are returned unchanged."""
        if isinstance(e, Tuple):
            return infer_type(Tuple([self.cast(f, dtype) for f in e.fields]))
        have = self.dtype(e)
        if have not in ("float32", self.narrow) or have == dtype:
            return e
        key = (id(e), dtype)
        if key not in self.casts:
            self.casts[key] = infer_type(tensor.cast(e, dtype))
        return self.casts[key]

    def category(self, node: Call) -> int:
        rule = self.rule(node)
        if rule is not None:
            return int(rule[0])
        found = MIXED_PRECISION_ALWAYS if is_contraction(node) else CATEGORY.get(node.op.name)
        if found is not None:
            return found
        if pattern_of(node.op) == ELEMWISE:
            return MIXED_PRECISION_NEVER
        if self.missing == 0:
            raise TVMError(f"ToMixedPrecision: operator {node.op.name} has no rule; use missing_op_mode 1 or 2")
        self.unknown.add(node.op.name)
        return MIXED_PRECISION_NEVER

    def rule(self, node: Call) -> list | None:
        """Return the rule that a user registered for the operator: category, accumulation type, output type."""
        make = node.op.attrs.get("FTVMMixedPrecisionConversionType")
        return None if make is None else make(node, self.narrow)

    def call(self, node: Call) -> RelayExpr:
        args = [self.value[id(a)] for a in node.args]
        category = self.category(node)
        attrs = node.attrs
        if category == MIXED_PRECISION_FOLLOW:
            category = MIXED_PRECISION_ALWAYS if self.follows(node, args) else MIXED_PRECISION_NEVER
        if category == MIXED_PRECISION_NEVER or not any(self.floats(a) for a in args):
            return Call(node.op, self.unrounded(node), attrs, node.type_args, node.span)
        if self.is_epilogue(node):
            made = infer_type(Call(node.op, self.unrounded(node), attrs, node.type_args, node.span))
            return self.rounded(made, self.narrow)
        args = [self.cast(a, self.narrow) for a in args]
        if attrs is not None and "out_dtype" in attrs and is_contraction(node):
            rule = self.rule(node)
            usual = (ACCUMULATION_TYPE.get(self.narrow, self.narrow), self.narrow)
            accumulation, result = (rule[1], rule[2]) if rule is not None else usual
            made = Call(node.op, tuple(args), CallAttrs({**attrs.entries, "out_dtype": accumulation}), (), node.span)
            return made if accumulation == result else self.rounded(infer_type(made), result)
        return Call(node.op, tuple(args), attrs, node.type_args, node.span)

    def rounded(self, e: RelayExpr, dtype: str) -> RelayExpr:
        """Cast a matmul output to its output type. For bfloat16, element-wise operators that follow are computed before
        rounding."""
        narrow = infer_type(tensor.cast(e, dtype))
        if dtype == self.narrow in ACCUMULATION_TYPE and self.dtype(e) == "float32":
            self.wide[id(narrow)] = len(self.wide), e
        return narrow

    def unrounded(self, node: Call) -> tuple[RelayExpr, ...]:
        """Return the arguments of a call in float32.

        If this call is the only user of a matmul output, it reads the unrounded value. Of several such arguments only
        the last one is unrounded, since the call is fused with it.
        """
        own = [place for place, old in enumerate(node.args) if self.is_own_matmul_output(old)]
        kept = max(own, key=lambda place: self.wide[id(self.value[id(node.args[place])])][0], default=None)
        return tuple(
            self.wide[id(self.value[id(old)])][1] if place == kept else self.cast(self.value[id(old)], "float32")
            for place, old in enumerate(node.args)
        )

    def is_own_matmul_output(self, old: RelayExpr) -> bool:
        """Return whether an argument is a rounded matmul output without other users."""
        return id(self.value[id(old)]) in self.wide and self.uses.get(id(old), 0) == 1

    def is_epilogue(self, node: Call) -> bool:
        """Return whether a call applies an element-wise operator or a reshape to a matmul output without other
        users."""
        is_fused = pattern_of(node.op) in (ELEMWISE, BROADCAST) or node.op.name in ("reshape", "expand_dims", "squeeze")
        return is_fused and any(self.is_own_matmul_output(a) for a in node.args)

    def follows(self, node: Call, args: list[RelayExpr]) -> bool:
        """Return whether a call is converted because its arguments are in half precision.

        Constants and function parameters are ignored, because they are available in either precision at no cost.
        """
        if node.op.name == "clip" and max(abs(node.attrs.a_min), abs(node.attrs.a_max)) > LARGEST.get(
            self.narrow, math.inf
        ):
            return False
        free = (Constant,) if node.op.name in REDUCTIONS else (Constant, Var)
        asked = [d for a in args if not isinstance(a, free) for d in self.floats(a)]
        some = asked or any(self.floats(a) for a in args if isinstance(a, Var)) and node.op.name not in REDUCTIONS
        return bool(some) and all(d == self.narrow for d in asked)

    def floats(self, e: RelayExpr) -> list[str]:
        if e.checked_type_ is None:
            infer_type(e)
        stack, out = [e.checked_type_], []
        while stack:
            t = stack.pop()
            if isinstance(t, TupleType):
                stack.extend(t.fields)
            elif isinstance(t, TensorType) and t.dtype in ("float32", self.narrow):
                out.append(t.dtype)
        return out

    def run(self, root: RelayExpr) -> RelayExpr:
        from ..scopes import written_order

        order = written_order(root)
        bound: dict[int, list[Var]] = {}
        for node in order:
            if isinstance(node, Let):
                bound.setdefault(id(node.value), []).append(node.var)
        for node in order:
            for child in node.children():
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
        for node in order:
            new = self.node(node)
            if new is not node and not isinstance(new, Op):
                infer_type(new)
            self.value[id(node)] = new
            for var in bound.get(id(node), ()):
                # The variable gets the type of its converted value.
                if new.checked_type_ != node.checked_type_:
                    self.value[id(var)] = infer_type(Var(var.name_hint, new.checked_type_))
        return self.value[id(root)]

    def node(self, node: RelayExpr) -> RelayExpr:
        kind = type(node)
        if kind is Call and isinstance(node.op, Op):
            return self.call(node)
        if kind in (Var, Constant, Op):
            return self.value.get(id(node), node)
        if kind in (Tuple, TupleGetItem):
            return node.map_children(lambda c: self.value[id(c)])
        if kind is Let:
            var = self.value.get(id(node.var), node.var)
            return node.replace(var=var, value=self.value[id(node.value)], body=self.value[id(node.body)])
        if kind in (If, Function, Call):
            # Values that enter or leave a function or an if keep their type.
            return node.map_children(lambda c: self.restored(c))
        return node

    def restored(self, old: RelayExpr) -> RelayExpr:
        new = self.value[id(old)]
        if isinstance(old, Op) or not isinstance(getattr(old, "checked_type_", None), TensorType):
            return new
        return self.cast(new, old.checked_type_.dtype) if _is_wide(old.checked_type_) else new


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> RelayFunctionPass:
    """Convert convolutions, matmuls and the operators that can follow them to half precision.

    Parameters
    ----------
    mixed_precision_type : str, optional
        The type to compute in: float16, bfloat16 or float64.
    missing_op_mode : int, optional
        How to handle operators without a rule: 0 raises an error, 1 warns, 2 keeps them in float32 silently.

    Returns
    -------
    RelayFunctionPass

    Raises
    ------
    ValueError
        The type is not float16, bfloat16 or float64.

    Examples
    --------
    >>> x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8))
    >>> mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, w)))
    >>> half = relay.transform.InferType()(relay.transform.ToMixedPrecision("float16")(mod))
    >>> half["main"].ret_type.dtype
    'float16'
    """
    if mixed_precision_type not in ("float16", "bfloat16", "float64"):
        raise ValueError(
            f"ToMixedPrecision: the type must be float16, bfloat16 or float64, got '{mixed_precision_type}'"
        )

    @function_pass(opt_level=0, name="ToMixedPrecision", required=["InferType"])
    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        work = _Conversion(mixed_precision_type, missing_op_mode)
        body = work.run(func.body)
        if ctx.config.get("relay.ToMixedPrecision.keep_orig_output_dtype"):
            parts = body.fields if isinstance(body, Tuple) else None
            body = (
                Tuple(
                    [
                        work.cast(p, "float32") if _is_wide(o.checked_type_) else p
                        for p, o in zip(parts, func.body.fields)
                    ]
                )
                if parts is not None
                else work.restored(func.body)
            )
        if work.unknown and missing_op_mode == 1:
            warnings.warn(
                f"ToMixedPrecision: no rule for {', '.join(sorted(work.unknown))}; kept in float32", stacklevel=2
            )
        return infer_function(Function(func.params, body, None, func.type_params, func.attrs, func.span), mod)

    return convert


__all__ = ["ToMixedPrecision"]
