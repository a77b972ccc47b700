"""Several layers that read the same data become one wider layer whose result is cut apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ..expr import Call, Function, RelayExpr
from ..infer import dims, infer_function
from ..op import transform
from ..op.record import CallAttrs
from .function_pass import RelayFunctionPass, function_pass, replacement


def _known(e: RelayExpr) -> bool:
    return e.checked_type_ is not None and all(isinstance(d, int) for d in dims(e.checked_type_))


def _conv_key(node: Call) -> Any:
    """Convolutions with one key can be joined: all is equal but the number of filters."""
    attrs = node.attrs
    if attrs.groups != 1 or attrs.kernel_layout != "OIHW" or attrs.data_layout != "NCHW" or not _known(node.args[1]):
        return None
    same = tuple((k, v) for k, v in attrs.items() if k not in ("channels",))
    return same, dims(node.args[1].checked_type_)[2:]


def _dense_key(node: Call) -> Any:
    if not _known(node.args[1]):
        return None
    return node.attrs.out_dtype, node.args[1].checked_type_.dtype


def _batch_matmul_key(node: Call) -> Any:
    if node.attrs.transpose_a or not node.attrs.transpose_b or not _known(node.args[1]):
        return None
    if dims(node.args[0].checked_type_)[0] != dims(node.args[1].checked_type_)[0]:
        return None
    return node.attrs.out_dtype, node.args[1].checked_type_.dtype


class _Kind:
    """What joining one operator needs: when, along which axis of the weight and of the result."""

    def __init__(self, name: str, key: Callable, weight_axis: int, out_axis: int, count: str | None):
        self.name, self.key, self.weight_axis, self.out_axis, self.count = name, key, weight_axis, out_axis, count


CONV2D = _Kind("nn.conv2d", _conv_key, 0, 1, "channels")
DENSE = _Kind("nn.dense", _dense_key, 0, -1, "units")
BATCH_MATMUL = _Kind("nn.batch_matmul", _batch_matmul_key, 1, 2, None)


def _groups(func: Function, kind: _Kind) -> list[list[Call]]:
    found: dict[Any, list[Call]] = {}
    for node in post_order(func):
        if type(node) is Call and type(node.op) is Op and node.op.name == kind.name:
            key = kind.key(node)
            if key is not None:
                found.setdefault((id(node.args[0]), key), []).append(node)
    return list(found.values())


def _depends(node: RelayExpr, on: set[int]) -> bool:
    return any(id(n) in on for n in post_order(node))


def combine(func: Function, mod: IRModule | None, kind: _Kind, min_branches: int) -> Function:
    """The weights of a group are joined; each branch becomes a slice of the joint result."""
    parts: dict[int, tuple[list[Call], int]] = {}
    for group in _groups(func, kind):
        ids = {id(n) for n in group}
        group = [n for n in group if not _depends(n.args[1], ids)]
        if len(group) >= min_branches:
            for place, node in enumerate(group):
                parts[id(node)] = (group, place)
    if not parts:
        return func
    return _replace(func, mod, kind, parts)


def _replace(func: Function, mod, kind: _Kind, parts: dict[int, tuple[list[Call], int]]) -> Function:
    """Operands first, every node once: a joint call waits for the data and for the weights of all its branches."""
    made: dict[int, Any] = {}
    joint: dict[int, Call] = {}

    def operands(node: Any) -> tuple:
        if id(node) not in parts:
            return node.children()
        group = parts[id(node)][0]
        return (group[0].args[0], *(n.args[1] for n in group))

    def whole(group: list[Call]) -> Call:
        first = group[0]
        if id(first) not in joint:
            weight = transform.concatenate([made[id(n.args[1])] for n in group], kind.weight_axis)
            attrs = first.attrs
            if kind.count is not None:
                total = sum(dims(n.args[1].checked_type_)[kind.weight_axis] for n in group)
                attrs = CallAttrs({**attrs.entries, kind.count: total})
            joint[id(first)] = Call(first.op, (made[id(first.args[0])], weight), attrs, (), first.span)
        return joint[id(first)]

    def build(node: Any) -> Any:
        if id(node) in parts:
            group, place = parts[id(node)]
            sizes = [dims(n.args[1].checked_type_)[kind.weight_axis] for n in group]
            start = sum(sizes[:place])
            rank = len(dims(node.checked_type_))
            end = start + sizes[place]
            return transform.strided_slice(whole(group), [start], [end], [1], [kind.out_axis % rank])
        return node.map_children(lambda child: made[id(child)])

    for node in post_order(func, operands=operands):
        made[id(node)] = replacement(build, node)
    return infer_function(made[id(func)], mod)


def _pass(kind: _Kind, name: str, min_num_branches: int) -> RelayFunctionPass:
    @function_pass(opt_level=4, name=name, required=["InferType"])
    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return combine(func, mod, kind, min_num_branches)

    return run


def CombineParallelConv2D(min_num_branches: int = 3) -> RelayFunctionPass:
    """Join convolutions of the same data."""
    return _pass(CONV2D, "CombineParallelConv2d", min_num_branches)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> RelayFunctionPass:
    """Join dense layers of the same data. They become one dense layer whatever ``to_batch`` says: it needs no equal
    shapes and is never slower."""
    return _pass(DENSE, "CombineParallelDense", min_num_branches)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> RelayFunctionPass:
    """Join batched products with the same left side."""
    return _pass(BATCH_MATMUL, "CombineParallelBatchMatmul", min_num_branches)


__all__ = ["CombineParallelBatchMatmul", "CombineParallelConv2D", "CombineParallelDense"]
