"""Constant weights of matrix products rearranged into panels when compiling.

``data . weight^T`` with a constant weight becomes nn.contrib_dense_pack, whose weight lies as the kernel reads it:
panels a few vectors wide, one row of a panel after the other. Where the data was only flattened into a matrix for the
product and its result is unfolded again, both reshapes go, so that what follows can be done on the result in place.
"""

from __future__ import annotations

import numpy as np

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...target import Target
from ...topi.cpu.machine import Machine
from ...topi.cpu.matmul import panel_width
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims, infer_function
from ..op import transform
from ..op.nn.packed import contrib_dense_pack
from .function_pass import RelayFunctionPass, function_pass, is_call
from .fuse_ops import own_nodes

# Rows below which leading dimensions are better joined with them.
FEW_ROWS = 8


def _shape(e: RelayExpr) -> tuple[int, ...] | None:
    t = e.checked_type_
    shape = dims(t) if t is not None and hasattr(t, "shape") else None
    return tuple(shape) if shape is not None and all(isinstance(d, int) for d in shape) else None


def pack_weight(weight: np.ndarray, width: int) -> np.ndarray:
    """A weight (units, features) as panels (units / width, features, width); zeros fill the last."""
    units, features = weight.shape
    panels = -(-units // width)
    if panels * width != units:
        weight = np.concatenate([weight, np.zeros((panels * width - units, features), weight.dtype)])
    return np.ascontiguousarray(weight.reshape(panels, width, features).transpose(0, 2, 1))


class Packing:
    """Rewrites one function; equal weights are packed once."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.made: dict[int, RelayExpr] = {}
        self.weights: dict[tuple[int, bool, int], Constant] = {}

    def run(self, func: Function) -> Function:
        for node in own_nodes(func.body):
            self.made[id(node)] = self.node(node)
        return func.replace(body=self.made[id(func.body)])

    def node(self, node: RelayExpr) -> RelayExpr:
        if isinstance(node, Function):
            return node
        if isinstance(node, Call) and isinstance(node.op, Op):
            got = self.unfolded(node) if node.op.name == "reshape" else self.product(node)
            if got is not None:
                return got
        return node.map_children(lambda c: c if isinstance(c, Op) else self.made[id(c)])

    def unfolded(self, node: Call) -> RelayExpr | None:
        """reshape(x . w) as reshape(x) . w, if only the rows are unfolded: what follows can then be done by the
        product, and a reshape of its data costs nothing."""
        inner = node.args[0]
        out, flat = _shape(node), _shape(inner)
        if not (isinstance(inner, Call) and isinstance(inner.op, Op) and out is not None and flat is not None):
            return None
        if len(out) < 3 or len(flat) != 2 or out[-1] != flat[-1]:
            return None
        if out[-2] < FEW_ROWS and any(d != 1 for d in out[:-2]):
            return None
        made = self.product(inner)
        if made is None:
            return None
        data = made.args[0]
        source = inner.args[0]
        if is_call(source, "reshape"):
            data, source = self.made[id(source.args[0])], source.args[0]
        wanted = (*out[:-1], (_shape(inner.args[0]) or ())[-1])
        if _shape(source) != wanted:
            data = transform.reshape(data, wanted)
        return made.replace(args=(data, *made.args[1:]))

    def product(self, node: Call) -> Call | None:
        name = node.op.name
        if name not in ("nn.dense", "nn.matmul", "nn.batch_matmul"):
            return None
        data, weight = node.args
        shape, sides = _shape(data), _shape(weight)
        if not isinstance(weight, Constant) or shape is None or sides is None or len(shape) < 2 or 0 in shape + sides:
            return None
        attrs = node.attrs
        transposed = name == "nn.dense" or bool(attrs.transpose_b)
        if name != "nn.dense" and attrs.transpose_a or name == "nn.batch_matmul" and sides[0] != 1:
            return None
        types = {data.checked_type_.dtype, weight.data.dtype, node.checked_type_.dtype}
        if types != {"float32"}:
            return None
        units = sides[-2] if transposed else sides[-1]
        rows = int(np.prod(shape[:-1]))
        width = panel_width(rows, units, self.machine, "float32")
        packed = self.packed(weight, transposed, width)
        return contrib_dense_pack(self.made[id(data)], packed, weight_layout=f"NC{width}n", units=units, out_dtype="")

    def packed(self, weight: Constant, transposed: bool, width: int) -> Constant:
        key = (id(weight), transposed, width)
        if key not in self.weights:
            array = weight.data.numpy()
            array = array.reshape(array.shape[-2:])
            self.weights[key] = Constant(pack_weight(array if transposed else array.T, width))
        return self.weights[key]


def PackDense() -> RelayFunctionPass:
    """Matrix products with constant weights read them from panels made for the target's vectors."""

    @function_pass(opt_level=3, name="PackDense", required=["InferType"])
    def pack(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        target = Target.current(allow_none=True)
        if target is None or "cpu" not in target.keys:
            return func
        return infer_function(Packing(Machine(target)).run(func), mod)

    return pack


__all__ = ["PackDense", "pack_weight"]
