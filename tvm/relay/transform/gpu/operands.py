"""Products of a GPU that read an operand through the operators that move it.

The pass puts graphs into the form that fusion takes: an operand turned around is read turned around, and what moves an
operand is the product's own, however many others use it too. The rule says of each product whether it reads so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ....autotvm.task.dispatcher import FallbackContext, using
from ....dtype import info
from ....ir.module import IRModule
from ....ir.structural import structural_key
from ....ir.tensor_type import TensorType
from ....ir.transform import PassContext
from ....target import Target
from ....te.graph import post_order_ops
from ....topi.gpu import gemm, tensor_cores
from ...backend.te_compiler import ToTensors
from ...expr import Call, Function, RelayExpr, TupleGetItem, Var
from ...infer import dims
from ...op import transform
from ..function_pass import RelayFunctionPass, function_pass, is_call, is_mover, rewrite_typed, type_of, use_counts
from ..simplify_expr import axes_of

PRODUCTS = ("nn.batch_matmul", "nn.dense", "nn.matmul")
TAGS = (gemm.TAG, tensor_cores.TAG)


class Reader:
    """The rule for one target: asks the template of the product how it would read, once for each kind of product.

    A chain is read through where whole vectors stay whole: the copies of a block to shared memory are then those of
    the plain product. Products without a template (of few columns, say) take their operands as they are."""

    def __init__(self, target: Target):
        self.target = target
        self.asked: dict[str, bool] = {}

    def __call__(self, product: Call, place: int, chain: Sequence[Call]) -> bool:
        if product.op.name not in PRODUCTS or all(node.op.attrs.get("reshape_only") for node in chain):
            return False
        if not all(_is_known(e) for e in (chain[0].args[0], *product.args)):
            return False
        kernel = _alone(product, place, chain)
        key = structural_key(kernel)
        if key not in self.asked:
            self.asked[key] = self.reads_vectors(kernel, place)
        return self.asked[key]

    def reads_vectors(self, kernel: Function, place: int) -> bool:
        # What tuning found does not change how operands lie.
        with using(FallbackContext()):
            outputs = ToTensors(kernel, self.target).outputs
        made = [op for op in post_order_ops([t.op for t in outputs]) if op.tag in TAGS]
        if len(made) != 1:
            return False
        operand = made[0].attrs["operands"][place]
        return operand.vector_width * info(kernel.params[place].type_annotation.dtype).bytes == tensor_cores.COPY_BYTES


def _is_known(e: RelayExpr) -> bool:
    t = e.checked_type_
    return isinstance(t, TensorType) and all(isinstance(d, int) for d in dims(t))


def _alone(product: Call, place: int, chain: Sequence[Call]) -> Function:
    """The product and what moves one of its operands, as a function of its own."""
    params = [Var(f"p{i}", a.checked_type_) for i, a in enumerate(product.args)]
    params[place] = Var(f"p{place}", chain[0].args[0].checked_type_)
    operand = _moved(params[place], chain)
    body = Call(product.op, tuple(operand if i == place else p for i, p in enumerate(params)), product.attrs)
    body.checked_type_ = product.checked_type_
    return Function(params, body, product.checked_type_, (), {"Primitive": 1})


def _moved(value: RelayExpr, chain: Sequence[Call]) -> RelayExpr:
    """What a chain makes of a value, by calls of its own."""
    for node in chain:
        value = Call(node.op, (value,), node.attrs, (), node.span)
        value.checked_type_ = node.checked_type_
    return value


@functools.lru_cache(maxsize=64)
def operand_rule(target: Target) -> Callable[[Call, int, Sequence[Call]], bool] | None:
    """The rule of a target; None where products take their operands as they are: without shared memory the threads of a
    GPU read an operand again and again."""
    return Reader(target) if target.features.has_near_shared else None


class Operands:
    """Rewrites the products of a function."""

    def __init__(self, reads_through: Callable[[Call, int, Sequence[Call]], bool], counts: dict[int, int]):
        self.reads_through = reads_through
        self.counts = counts

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if not isinstance(node, Call) or not is_call(node, *PRODUCTS):
            return None
        new = node if node.op.name == "nn.dense" else self.turned(node)
        type_of(new)
        args = [self.own(new, place) for place in range(len(new.args))]
        if any(a is not b for a, b in zip(args, new.args)):
            new = Call(new.op, tuple(args), new.attrs, (), new.span)
        return None if new is node else new

    def turned(self, node: Call) -> Call:
        """Operands turned around so that their neighbours lie across the product, read as they were before."""
        attrs, args = dict(node.attrs.entries), list(node.args)
        for place, flag in enumerate(("transpose_a", "transpose_b")):
            found = self.straight(args[place])
            if found is not None:
                args[place], attrs[flag] = found, not attrs[flag]
        if all(a is b for a, b in zip(args, node.args)):
            return node
        return Call(node.op, tuple(args), type(node.attrs)(attrs), (), node.span)

    def straight(self, e: RelayExpr) -> RelayExpr | None:
        """The operand with its last two dimensions in the other order, if that brings neighbours together."""
        if not _is_known(e):
            return None
        *lead, rows, columns = dims(e.checked_type_)
        while is_call(e, "reshape") and self.counts.get(id(e), 1) == 1 and _is_known(e.args[0]):
            if list(dims(e.args[0].checked_type_)[-2:]) != [rows, columns]:
                return None
            e = e.args[0]
        if not is_call(e, "transpose") or self.counts.get(id(e), 1) > 1:
            return None
        rank = len(dims(e.checked_type_))
        axes = list(axes_of(e))
        if axes[-2] != rank - 1:
            return None
        axes[-2:] = axes[:-3:-1]
        made = e.args[0] if axes == list(range(rank)) else transform.transpose(e.args[0], axes)
        same = list(dims(e.checked_type_)[:-2]) == lead
        return made if same else transform.reshape(made, (*lead, columns, rows))

    def own(self, product: Call, place: int) -> RelayExpr:
        """The operand by calls that are the product's alone, as far as it reads through them."""
        chain: list[Call] = []
        given = product.args[place]
        source, shared = given, False
        while movers := _movers(source):
            # A new call is nobody else's.
            shared = shared or movers[-1] is not source or self.counts.get(id(source), 1) > 1
            chain[:0] = movers
            source = movers[0].args[0]
        while chain and not self.reads_through(product, place, chain):
            del chain[0]
        return _moved(chain[0].args[0], chain) if chain and shared else given


def _movers(e: RelayExpr) -> list[Call]:
    """An expression as calls that only move data: itself, or what does the same; none if it is nothing of the kind."""
    if is_mover(e):
        return [e]
    if isinstance(e, TupleGetItem) and is_call(e.tuple_value, "split"):
        return _part(e.tuple_value, e.index)
    return []


def _part(split: Call, index: int) -> list[Call]:
    """One part of a split as a slice."""
    if not _is_known(split.args[0]):
        return []
    shape = dims(split.args[0].checked_type_)
    axis = split.attrs.axis % len(shape)
    cuts = split.attrs.indices_or_sections
    if isinstance(cuts, int):
        cuts = [shape[axis] // cuts * n for n in range(1, cuts)]
    begin, end = [0, *cuts][index], [*cuts, shape[axis]][index]
    made = transform.strided_slice(split.args[0], [begin], [end], axes=[axis])
    type_of(made)
    return [made]


def GPUOperands(target: Target) -> RelayFunctionPass:
    """Products read their operands where they lie."""

    @function_pass(opt_level=3, name="GPUOperands", required=["InferType"])
    def read(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        rule = operand_rule(target)
        if rule is None:
            return func
        counts = use_counts(func)
        return rewrite_typed(func, Operands(rule, counts), mod, counts)

    return read


__all__ = ["GPUOperands", "operand_rule"]
