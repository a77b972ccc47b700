"""Local simplifications: a table of rules by the operator at the root of the matched pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dtype import info
from ...ir.module import IRModule
from ...ir.op import OPS, Op
from ...ir.transform import PassContext
from ..expr import Call, Constant, Function, RelayExpr, const
from ..op import tensor, transform
from ..op.record import CallAttrs
from . import recognize
from . import simplify_algebra as algebra
from .fold_padding import padding_absorbed
from .function_pass import (
    RelayFunctionPass,
    function_pass,
    is_call,
    only_changes_layout,
    rewrite_typed,
    type_of,
    use_counts,
)
from .live_window import live_window
from .simplify_algebra import axes_of, filled_with, static_shape

RESHAPES = ("reshape", "expand_dims", "squeeze", "nn.batch_flatten", "contrib_reverse_reshape")
Rule = Callable[[Call, dict], "RelayExpr | None"]
Table = dict[str, tuple[Rule, ...]]
# A scalar is moved past a matmul only if it and its reciprocal are at most this, since accumulators scale likewise.
MODERATE = 1024.0


def reshape_chain(node: Call, counts) -> RelayExpr | None:
    """Merge adjacent reshapes, and remove a reshape to the same shape."""
    shape = static_shape(node)
    if shape is None:
        return None
    source = node.args[0]
    while is_call(source, *RESHAPES):
        source = source.args[0]
    if static_shape(source) == shape:
        return source
    return transform.reshape(source, shape, 0 in shape) if source is not node.args[0] else None


def transpose_chain(node: Call, counts) -> RelayExpr | None:
    """Merge adjacent transposes, and remove identity transposes."""
    axes, source = axes_of(node), node.args[0]
    while is_call(source, "transpose"):
        inner = axes_of(source)
        axes, source = tuple(inner[a] for a in axes), source.args[0]
    if axes == tuple(range(len(axes))):
        return source
    shape = static_shape(source)
    if shape is not None:
        order = [a for a in axes if shape[a] != 1]
        if order == sorted(order):
            # The transpose permutes only dimensions of size 1, so no element moves.
            return transform.reshape(source, [shape[a] for a in axes], True)
    return transform.transpose(source, axes) if source is not node.args[0] else None


def take_to_slice(node: Call, counts) -> RelayExpr | None:
    """Replace a take of one constant index by a slice, which is a layout-changing op."""
    data, indices = node.args
    shape, wanted = static_shape(data), static_shape(node)
    if shape is None or wanted is None or not isinstance(indices, Constant) or indices.data.shape != ():
        return None
    if node.attrs.axis is None or node.attrs.batch_dims:
        return None
    axis, index = node.attrs.axis % len(shape), int(indices.data.numpy())
    if not 0 <= index < shape[axis]:
        return None
    return transform.reshape(transform.strided_slice(data, [index], [index + 1], [1], [axis]), wanted, True)


def layout_chain(node: Call, counts) -> RelayExpr | None:
    """Remove a layout transform to the same layout, and pairs of inverse layout transforms."""
    inner, source = node.args[0], None
    if node.attrs.src_layout == node.attrs.dst_layout:
        return inner
    if is_call(inner, "layout_transform") and inner.attrs.dst_layout == node.attrs.src_layout:
        source = inner.args[0]
        if inner.attrs.src_layout == node.attrs.dst_layout and source.checked_type_ == node.checked_type_:
            return source
    return None


def _holds_all(wide: str, narrow: str) -> bool:
    """Return whether type ``wide`` represents every value of type ``narrow``."""
    w, n = info(wide), info(narrow)
    if narrow == "bool":
        return True
    if w.code == n.code:
        return w.bits >= n.bits and "bfloat" not in (w.code, n.code)
    mantissa = {"float16": 11, "float32": 24, "float64": 53}.get(wide, 0)
    if n.code in ("int", "uint") and mantissa:
        return n.bits - (n.code == "int") <= mantissa
    return w.code == "int" and n.code == "uint" and w.bits > n.bits


def cast_chain(node: Call, counts) -> RelayExpr | None:
    """Remove a cast to the same type, and skip a lossless cast before another cast."""
    source = node.args[0]
    dtype = node.attrs.dtype
    if getattr(source.checked_type_, "dtype", "") == dtype:
        return source
    if is_call(source, "cast"):
        first, middle = source.args[0].checked_type_.dtype, source.attrs.dtype
        if _holds_all(middle, first):
            return source.args[0] if first == dtype else tensor.cast(source.args[0], dtype)
    return None


def _uniform(e: RelayExpr) -> Any:
    """Return the value of a constant whose elements are all equal, else None."""
    fill = filled_with(e)
    e = e if fill is None else fill
    if not isinstance(e, Constant) or e.data.dtype == "bfloat16":
        return None
    if not 0 < e.data.size <= 4096:
        return None
    array = e.data.numpy()
    first = array.reshape(-1)[0]
    return first if (array == first).all() else None


# Operators with a neutral element: name -> (the neutral element, the operands that may be neutral).
NEUTRAL = {"add": (0, (0, 1)), "subtract": (0, (1,)), "multiply": (1, (0, 1)), "divide": (1, (1,))}


def neutral(node: Call, counts) -> RelayExpr | None:
    """Remove ``x + 0``, ``x - 0``, ``x * 1`` and ``x / 1``."""
    value, sides = NEUTRAL[node.op.name]
    for side in sides:
        other = node.args[1 - side]
        uniform = _uniform(node.args[side])
        if uniform is not None and uniform == value and other.checked_type_ == node.checked_type_:
            return other
    return None


def fold_constants_right(node: Call, counts) -> RelayExpr | None:
    """Rewrite ``(x + c) + d`` as ``x + (c + d)``, and multiplications likewise."""
    name = node.op.name
    inner, outer = node.args
    if not isinstance(outer, Constant) or not is_call(inner, name) or counts.get(id(inner), 1) > 1:
        return None
    x, c = inner.args
    if isinstance(x, Constant) or not isinstance(c, Constant) or c.data.dtype in ("bfloat16", "float16"):
        return None
    if x.checked_type_ != node.checked_type_:
        return None
    a, b = c.data.numpy(), outer.data.numpy()
    both = Constant((a + b if name == "add" else a * b).astype(a.dtype))
    return OPS[name].attrs["build"](x, both)


def constant_right(node: Call, counts) -> RelayExpr | None:
    """Move constants to the right operand of commutative operators."""
    a, b = node.args
    if isinstance(a, Constant) and not isinstance(b, Constant):
        return Call(node.op, (b, a), node.attrs, (), node.span)
    return None


def rsqrt(node: Call, counts) -> RelayExpr | None:
    """Rewrite ``1 / sqrt(x)`` as ``rsqrt(x)``."""
    one, root = node.args
    numerator = _uniform(one)
    if is_call(root, "sqrt") and numerator is not None and numerator == 1 and root.checked_type_ == node.checked_type_:
        return tensor.rsqrt(root.args[0])
    return None


def absorb_padding(node: Call, counts) -> RelayExpr | None:
    """Fold zero padding of the data of a convolution into its padding attribute."""
    return padding_absorbed(node, node.attrs.data_layout, lambda value: value == 0)


def absorb_rhs_transpose(node: Call, counts) -> RelayExpr | None:
    """Fold a transpose of the right operand into ``transpose_b`` of a batched matmul. A reshape that merges two batch
    dimensions may follow the transpose."""
    a, b = node.args
    is_merged = is_call(b, "reshape") and counts.get(id(b), 1) == 1 and _merges_batches(b)
    moved = b.args[0] if is_merged else b
    axes = (0, 1, 3, 2) if is_merged else (0, 2, 1)
    if not is_call(moved, "transpose") or axes_of(moved) != axes or counts.get(id(moved), 1) > 1:
        return None
    attrs = CallAttrs({**node.attrs.entries, "transpose_b": not node.attrs.transpose_b})
    rhs = transform.reshape(moved.args[0], (-3, 0, 0)) if is_merged else moved.args[0]
    return Call(node.op, (a, rhs), attrs, (), node.span)


def _merges_batches(node: Call) -> bool:
    """Return whether a reshape merges the first two of four dimensions and keeps the others."""
    if node.attrs.newshape is not None and tuple(node.attrs.newshape) in ((-3, -2), (-3, 0, 0)):
        return len(type_of(node.args[0]).shape) == 4
    before, after = static_shape(node.args[0]), static_shape(node)
    return before is not None and len(before) == 4 and after == (before[0] * before[1], *before[2:])


def _is_moved(e: RelayExpr) -> bool:
    """Return whether an expression moves elements, that is, contains a layout-changing op other than a reshape."""
    while only_changes_layout(e):
        if not e.op.attrs.get("reshape_only"):
            return True
        e = e.args[0]
    return False


def _strip_scalar(e: RelayExpr, counts, mixed: bool = False) -> tuple[RelayExpr, float] | None:
    """Return ``(x, c)`` of ``x * c`` with a scalar c, if the matmul is the only user and x is computed by
    layout-changing ops.

    Layout-changing ops after the multiplication are kept. If ``mixed``, the multiplication may be computed in a wider
    type than x and the operand.
    """
    chain: list[Call] = []
    dtype = e.checked_type_.dtype
    while isinstance(e, Call) and isinstance(e.op, Op) and counts.get(id(e), 1) == 1:
        if is_call(e, "multiply"):
            x, c = e.args
            if not isinstance(c, Constant) or c.data.size != 1 or x.checked_type_ != e.checked_type_:
                return None
            if x.checked_type_.dtype != dtype:
                if not is_call(x, "cast") or x.args[0].checked_type_.dtype != dtype:
                    return None
                x = x.args[0]
            scalar = float(c.data.numpy().reshape(()))
            if not 1 / MODERATE <= abs(scalar) <= MODERATE or not _is_moved(x):
                # A larger scalar may prevent overflow of accumulators; otherwise it is fused into the kernel that
                # computes x.
                return None
            for moving_op in reversed(chain):
                x = Call(moving_op.op, (x,), moving_op.attrs, (), moving_op.span)
            return x, scalar
        if only_changes_layout(e):
            chain.append(e)
        elif not (mixed and is_call(e, "cast") and _widens(dtype, e.args[0].checked_type_.dtype)):
            return None
        e = e.args[0]
    return None


def _widens(narrow: str, wide: str) -> bool:
    """Return whether a half-precision type is converted to float32 or float64."""
    return narrow in ("float16", "bfloat16") and wide in ("float32", "float64")


def hoist_scalar_past_matmul(node: Call, counts, mixed: bool = False) -> RelayExpr | None:
    """Rewrite ``(a * c) . b`` as ``(a . b) * c``, so that the matmul reads its operand through layout-changing ops.

    The rewrite is not applied to half-precision outputs, which might not represent the unscaled sums. Operands of
    another type than the output are rewritten only if ``mixed``, because they are then no longer rounded after scaling.
    """
    dtype = node.checked_type_.dtype
    if dtype not in ("float32", "float64") or not mixed and any(a.checked_type_.dtype != dtype for a in node.args):
        return None
    stripped = [_strip_scalar(arg, counts, mixed) for arg in node.args]
    if not any(stripped):
        return None
    args = tuple(pair[0] if pair else arg for pair, arg in zip(stripped, node.args))
    scalar = 1.0
    for pair in stripped:
        scalar *= pair[1] if pair else 1.0
    return tensor.multiply(Call(node.op, args, node.attrs, (), node.span), const(scalar, dtype))


def filled_like(value: int) -> Rule:
    def rule(node: Call, counts) -> RelayExpr | None:
        shape = static_shape(node)
        return (
            None
            if shape is None
            else transform.full(const(value, node.checked_type_.dtype), shape, node.checked_type_.dtype)
        )

    return rule


def concrete_like(node: Call, counts) -> RelayExpr | None:
    """Replace the reference tensor of ``*_like`` operators by its shape or type."""
    data, shape, name = node.args[0], static_shape(node), node.op.name
    if name == "cast_like":
        return tensor.cast(data, node.args[1].checked_type_.dtype)
    if shape is None:
        return None
    if name == "full_like":
        return transform.full(node.args[1], shape, node.checked_type_.dtype)
    if name == "reshape_like":
        return transform.reshape(data, shape, 0 in shape)
    return (transform.broadcast_to if name == "broadcast_to_like" else transform.collapse_sum_to)(data, shape)


_LIKE = {
    "zeros_like": (filled_like(0),),
    "ones_like": (filled_like(1),),
    **dict.fromkeys(
        ("reshape_like", "cast_like", "broadcast_to_like", "full_like", "collapse_sum_like"), (concrete_like,)
    ),
}

# Target-independent simplification rules, applied by the public pass.
RULES: Table = {
    **dict.fromkeys(RESHAPES, (reshape_chain,)),
    **dict.fromkeys(("transpose", "layout_transform"), (algebra.merge_transposes,)),
    "cast": (cast_chain, algebra.skip_cast_after_clip),
    "clip": (algebra.drop_full_range_clip, algebra.merge_clips),
    "add": (neutral, algebra.full_to_scalar, algebra.combine_constants, algebra.double_to_scale),
    "multiply": (neutral, algebra.full_to_scalar, algebra.combine_constants, algebra.distribute_scale),
    "subtract": (neutral, algebra.full_to_scalar),
    "divide": (neutral, algebra.full_to_scalar, algebra.divide_by_sqrt),
    **dict.fromkeys(("argmax", "argmin", "argsort"), (algebra.order_before_dequantize,)),
    **_LIKE,
}

# Rules that prepare a graph for code generation.
KERNEL_RULES: Table = {
    **dict.fromkeys(RESHAPES, (reshape_chain,)),
    "transpose": (transpose_chain,),
    "layout_transform": (layout_chain,),
    "cast": (cast_chain,),
    "add": (neutral, constant_right, fold_constants_right, recognize.shifted),
    "multiply": (neutral, constant_right, fold_constants_right, recognize.normalized, recognize.scaled),
    "subtract": (neutral,),
    "divide": (neutral, rsqrt, recognize.normalized),
    "take": (take_to_slice,),
    "nn.batch_matmul": (absorb_rhs_transpose, hoist_scalar_past_matmul),
    "nn.matmul": (hoist_scalar_past_matmul,),
    "nn.dense": (hoist_scalar_past_matmul,),
    "nn.conv1d": (absorb_padding, live_window),
    "nn.conv2d": (absorb_padding, live_window),
    "nn.conv3d": (absorb_padding, live_window),
    **_LIKE,
}


def simplify_function(func: Function, mod: IRModule | None = None, table: Table = KERNEL_RULES) -> Function:
    counts = use_counts(func)

    def rule(node):
        if type(node) is not Call or type(node.op) is not Op:
            return None
        result = None
        changed = True
        while changed and type(node) is Call and type(node.op) is Op:
            changed = False
            for row in table.get(node.op.name, ()):
                simplified = row(node, counts)
                if simplified is not None:
                    if simplified.checked_type_ is None:
                        type_of(simplified, mod)
                    result, node, changed = simplified, simplified, True
                    break
        return result

    return rewrite_typed(func, rule, mod, counts)


def SimplifyExpr(kernels: bool = False, rules: Table | None = None) -> RelayFunctionPass:
    """Apply a table of simplification rules.

    Parameters
    ----------
    kernels : bool, optional
        Whether to apply the rules that prepare a graph for code generation instead of the general ones.
    rules : Table, optional
        Additional rules of a back end, which are tried after those of the table.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> x = relay.var("x", shape=(2, 3))
    >>> mod = tvm.IRModule.from_expr(relay.reshape(relay.reshape(x, (6,)), (3, 2)))
    >>> print(relay.transform.SimplifyExpr()(relay.transform.InferType()(mod))["main"].body.attrs.newshape)
    (3, 2)
    """
    table = dict(KERNEL_RULES if kernels else RULES)
    for name, extra in (rules or {}).items():
        table[name] = (*table.get(name, ()), *extra)

    @function_pass(opt_level=0, name="SimplifyExpr", required=["InferType"])
    def simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return simplify_function(func, mod, table)

    return simplify


__all__ = ["KERNEL_RULES", "RULES", "SimplifyExpr", "simplify_function"]
