"""Prepare GPU matmuls that read an operand through layout-changing ops.

The pass brings the graph into the form that fusion expects: it folds transposes of operands into the matmul
(``transpose_a``, ``transpose_b``) and duplicates layout-changing ops that have other users. A rule decides for each
matmul whether it reads through these ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....dtype import info
from ....ir.module import IRModule
from ....ir.prim import Any_, IntImm, const
from ....ir.tensor_type import TensorType
from ....ir.transform import PassContext
from ....target import Target
from ....topi.gpu import gemm, operand_layout
from ....topi.gpu.strided_view import StridedView
from ....topi.nominal import Nominal
from ....topi.slicing import slice_bounds
from ...checked_type import with_type_of
from ...expr import Call, Function, RelayExpr, TupleGetItem
from ...infer import dims
from ...op import transform
from ..function_pass import (
    RelayFunctionPass,
    function_pass,
    is_call,
    is_contraction,
    only_changes_layout,
    rewrite_typed,
    type_of,
    use_counts,
)
from ..simplify_algebra import axes_of


def reads_vectors(matmul: Call, index: int, chain: Sequence[Call]) -> bool:
    """Return whether a matmul reads one of its operands through a chain of layout-changing ops.

    This requires that vectors stay contiguous, so that a block copies them to shared memory as in a plain matmul.
    Matmuls without a template, for example with a small n, read their operands directly."""
    if not is_contraction(matmul, "matmul") or all(node.op.attrs.get("reshape_only") for node in chain):
        return False
    if not all(_has_sizes(e) for e in (chain[0].args[0], *matmul.args)):
        return False
    # Dynamic dimensions are replaced by primes; a property of the nominal sizes then holds for all sizes.
    sizes = Nominal()
    view = _view(chain, sizes)
    if view is None or not _is_tiled(matmul, sizes):
        return False
    lanes = operand_layout.COPY_BYTES // info(chain[0].args[0].checked_type_.dtype).bytes
    return lanes in operand_layout.VECTOR_WIDTHS and any(view.has_vectors(x, lanes) for x in _axes(matmul, index))


def _nominal_shape(e: RelayExpr, sizes: Nominal) -> list[int]:
    return [sizes.size(d) for d in e.checked_type_.shape]


def _is_tiled(matmul: Call, sizes: Nominal) -> bool:
    """Return whether a template computes the matmul."""
    shapes = [_nominal_shape(a, sizes) for a in matmul.args]
    n = _nominal_shape(matmul, sizes)[-1]
    batch = matmul.checked_type_.shape[0] if matmul.op.name == "nn.batch_matmul" else 1
    batch = int(batch) if isinstance(batch, (int, IntImm)) else 1
    return min(map(len, shapes)) > 1 and gemm.fills_tiles(shapes, n, batch)


def _axes(matmul: Call, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of an operand along k, and along m or n. The row axes of stacked matrices are merged into m."""
    attrs, rank = matmul.attrs, len(dims(matmul.args[index].checked_type_))
    if matmul.op.name == "nn.dense":
        k_last = True
    else:
        k_last = not attrs.transpose_a if index == 0 else bool(attrs.transpose_b)
    lead = () if matmul.op.name == "nn.batch_matmul" else tuple(range(rank - 2))
    return ((rank - 1,), (*lead, rank - 2)) if k_last else ((rank - 2,), (*lead, rank - 1))


def _view(chain: Sequence[Call], sizes: Nominal) -> StridedView | None:
    """Return a strided view of the source of a chain that describes its output; None if strides cannot express it."""
    view: StridedView | None = StridedView.of_shape(_nominal_shape(chain[0].args[0], sizes))
    for node, after in zip(chain, [*chain[1:], None]):
        if view is None:
            return None
        if after is not None and node.op.attrs.get("reshape_only") and after.op.attrs.get("reshape_only"):
            # Of consecutive reshapes only the last one determines the shape.
            continue
        if node.op.name == "transpose":
            view = view.transposed(axes_of(node))
        elif node.op.name == "strided_slice":
            shape = [const(d, "int32") for d in _nominal_shape(node.args[0], sizes)]
            a = node.attrs
            found = slice_bounds(shape, a.begin, a.end, a.strides, a.axes, a.slice_mode, "strided_slice")
            view = view.sliced([tuple(map(int, bound)) for bound in found])
        else:
            view = view.reshaped(_nominal_shape(node, sizes)) if node.op.attrs.get("reshape_only") else None
    return view


def _has_sizes(e: RelayExpr) -> bool:
    """Return whether the dimensions of a value are static or symbolic."""
    t = e.checked_type_
    return isinstance(t, TensorType) and not any(isinstance(d, Any_) for d in t.shape)


def _is_known(e: RelayExpr) -> bool:
    t = e.checked_type_
    return isinstance(t, TensorType) and all(isinstance(d, int) for d in dims(t))


def _applied(value: RelayExpr, chain: Sequence[Call]) -> RelayExpr:
    """Apply a chain of operators to a value as new calls."""
    for node in chain:
        value = with_type_of(Call(node.op, (value,), node.attrs, (), node.span), node)
    return value


def operand_rule(target: Target) -> Callable[[Call, int, Sequence[Call]], bool] | None:
    """Return the operand rule of a target.

    None if matmuls read their operands directly: without shared memory, GPU threads read an operand repeatedly."""
    return reads_vectors if target.features.has_near_shared else None


class Operands:
    """Rewrites the matmuls of a function."""

    def __init__(self, reads_through: Callable[[Call, int, Sequence[Call]], bool], counts: dict[int, int]):
        self.reads_through = reads_through
        self.counts = counts

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if not isinstance(node, Call) or not is_contraction(node, "matmul"):
            return None
        new = node if node.op.name == "nn.dense" else self.absorb_transposes(node)
        type_of(new)
        args = [self.private_operand(new, index) for index in range(len(new.args))]
        if any(a is not b for a, b in zip(args, new.args)):
            new = Call(new.op, tuple(args), new.attrs, (), new.span)
        return None if new is node else new

    def absorb_transposes(self, node: Call) -> Call:
        """Fold transposes of the operands into the flags of a matmul, if the flags can express them."""
        attrs, args = dict(node.attrs.entries), list(node.args)
        for index, flag in enumerate(("transpose_a", "transpose_b")):
            untransposed = self.untransposed(args[index])
            if untransposed is not None:
                args[index], attrs[flag] = untransposed, not attrs[flag]
        if all(a is b for a, b in zip(args, node.args)):
            return node
        return Call(node.op, tuple(args), type(node.attrs)(attrs), (), node.span)

    def untransposed(self, e: RelayExpr) -> RelayExpr | None:
        """Return the operand with its last two dimensions swapped if this makes the last one contiguous, else None."""
        if not _has_sizes(e):
            return None
        given, sizes = e, Nominal()
        *lead, rows, columns = _nominal_shape(e, sizes)
        while is_call(e, "reshape") and self.counts.get(id(e), 1) == 1 and _has_sizes(e.args[0]):
            if _nominal_shape(e.args[0], sizes)[-2:] != [rows, columns]:
                return None
            e = e.args[0]
        if not is_call(e, "transpose") or self.counts.get(id(e), 1) > 1:
            return None
        rank = len(dims(e.checked_type_))
        axes = list(axes_of(e))
        if axes[-2] != rank - 1:
            return None
        axes[-2:] = axes[:-3:-1]
        moved = e.args[0] if axes == list(range(rank)) else transform.transpose(e.args[0], axes)
        if _nominal_shape(e, sizes)[:-2] == lead:
            return moved
        return transform.reshape(moved, (*lead, columns, rows)) if _is_known(given) else None

    def private_operand(self, matmul: Call, index: int) -> RelayExpr:
        """Return the operand with its layout-changing ops duplicated for this matmul, as far as it reads through
        them."""
        chain: list[Call] = []
        given = matmul.args[index]
        source, shared = given, False
        while calls := _layout_changing_calls(source):
            # A new call has no other users, so it is not shared.
            shared = shared or calls[-1] is not source or self.counts.get(id(source), 1) > 1
            chain[:0] = calls
            source = calls[0].args[0]
        while chain and not self.reads_through(matmul, index, chain):
            del chain[0]
        return _applied(chain[0].args[0], chain) if chain and shared else given


def _layout_changing_calls(e: RelayExpr) -> list[Call]:
    """Return an expression as a list of layout-changing ops: itself or an equivalent. The list is empty for other
    expressions."""
    if only_changes_layout(e):
        return [e]
    if isinstance(e, TupleGetItem) and is_call(e.tuple_value, "split"):
        return _split_as_slice(e.tuple_value, e.index)
    return []


def _split_as_slice(split: Call, index: int) -> list[Call]:
    """Return one output of a split as a slice."""
    if not _is_known(split.args[0]):
        return []
    shape = dims(split.args[0].checked_type_)
    axis = split.attrs.axis % len(shape)
    cuts = split.attrs.indices_or_sections
    if isinstance(cuts, int):
        cuts = [shape[axis] // cuts * n for n in range(1, cuts)]
    begin, end = [0, *cuts][index], [*cuts, shape[axis]][index]
    piece = transform.strided_slice(split.args[0], [begin], [end], axes=[axis])
    type_of(piece)
    return [piece]


def GPUOperands(target: Target) -> RelayFunctionPass:
    """Let matmuls read their operands through layout-changing ops."""

    @function_pass(opt_level=3, name="GPUOperands", required=["InferType"])
    def read(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        rule = operand_rule(target)
        if rule is None:
            return func
        counts = use_counts(func)
        return rewrite_typed(func, Operands(rule, counts), mod, counts)

    return read


__all__ = ["GPUOperands", "operand_rule"]
