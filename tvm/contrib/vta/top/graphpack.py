"""Graph packing: the integer part of a quantized graph in blocks of batch and channels.

Values between a start operator and a stop operator are packed where the accelerator can compute on them. An operator
that needs plain data gets its operands unpacked, so every graph stays correct.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.visit import post_order
from ....relay import op, transform
from ....relay.expr import Call, Constant, Function, RelayExpr
from ....relay.transform.function_pass import is_call

# Operators on one tensor, and perhaps on scalars, that do not depend on the layout.
_ELEMENTWISE = ("right_shift", "left_shift", "clip", "cast", "nn.relu", "copy", "annotation.stop_fusion",
                "annotation.cast_hint")  # fmt: skip
_BINARY = ("add", "multiply", "subtract", "maximum", "minimum")


def run_opt_pass(expr: RelayExpr, opt_pass: Any) -> RelayExpr:
    """Run a Relay pass on an expression.

    Parameters
    ----------
    expr : RelayExpr
        A function or another expression.
    opt_pass : Pass
        The pass.

    Returns
    -------
    RelayExpr
        The new function, or its body if the expression is no function.
    """
    main = opt_pass(IRModule.from_expr(expr))["main"]
    return main if isinstance(expr, Function) else main.body


def _shape(e: RelayExpr) -> list[int]:
    return [int(d) for d in e.checked_type.shape]


class _Packer:
    """Packs the values between two calls. ``packed`` contains the packed form of values, by the id of the original."""

    def __init__(self, bfactor: int, cfactor: int, start: Call, stop: Call):
        self.bfactor, self.cfactor = bfactor, cfactor
        self.start, self.stop = start, stop
        self.plain: dict[int, RelayExpr] = {}
        self.packed: dict[int, RelayExpr] = {}
        self.is_inside = False

    def pack(self, e: RelayExpr) -> RelayExpr:
        """Return the packed form of a value of four dimensions."""
        if id(e) not in self.packed:
            n, c, h, w = _shape(e)
            sizes = (n // self.bfactor, self.bfactor, c // self.cfactor, self.cfactor, h, w)
            self.packed[id(e)] = op.transpose(op.reshape(self.unpacked(e), sizes), (0, 2, 4, 5, 1, 3))
        return self.packed[id(e)]

    def unpacked(self, e: RelayExpr) -> RelayExpr:
        if id(e) not in self.plain:
            made = op.transpose(self.packed[id(e)], (0, 4, 1, 5, 2, 3))
            self.plain[id(e)] = op.reshape(made, _shape(e))
        return self.plain[id(e)]

    def fits(self, e: RelayExpr) -> bool:
        shape = _shape(e)
        return len(shape) == 4 and shape[0] % self.bfactor == 0 and shape[1] % self.cfactor == 0

    def channels(self, e: RelayExpr, like: list[int]) -> RelayExpr | None:
        """Return a value for each channel in the packed layout, or None if the operand is no such value."""
        shape = _shape(e)
        per_channel = shape in ([like[1], 1, 1], [1, like[1], 1, 1]) and like[1] % self.cfactor == 0
        if not per_channel:
            return None
        blocks = op.reshape(self.unpacked(e), (like[1] // self.cfactor, 1, 1, 1, self.cfactor))
        return op.broadcast_to(blocks, (like[1] // self.cfactor, 1, 1, self.bfactor, self.cfactor))

    def call(self, node: Call) -> RelayExpr | None:
        """Return the packed form of a call with a packed operand, or None if there is none."""
        name = getattr(node.op, "name", "")
        if not node.args or id(node.args[0]) not in self.packed:
            return self.swapped(node) if name in _BINARY[:2] else None
        first = self.packed[id(node.args[0])]
        if name == "nn.conv2d":
            return self.conv2d(node, first)
        if name in _ELEMENTWISE and all(not _shape(a) for a in node.args[1:]):
            return Call(node.op, (first, *map(self.unpacked, node.args[1:])), node.attrs)
        if name == "nn.bias_add" and int(node.attrs.axis) in (1, -3):
            count = _shape(node.args[1])[0]
            bias = op.reshape(self.unpacked(node.args[1]), (count // self.cfactor, 1, 1, 1, self.cfactor))
            bias = op.broadcast_to(bias, (count // self.cfactor, 1, 1, self.bfactor, self.cfactor))
            return op.add(first, bias)
        if name in _BINARY:
            second = self.operand(node.args[1], _shape(node.args[0]))
            return None if second is None else Call(node.op, (first, second), node.attrs)
        return None

    def swapped(self, node: Call) -> RelayExpr | None:
        """Pack a commutative operator whose second operand is packed."""
        if len(node.args) != 2 or id(node.args[1]) not in self.packed:
            return None
        other = self.operand(node.args[0], _shape(node.args[1]))
        return None if other is None else Call(node.op, (self.packed[id(node.args[1])], other), node.attrs)

    def operand(self, e: RelayExpr, like: list[int]) -> RelayExpr | None:
        shape = _shape(e)
        if not shape:
            return self.unpacked(e)
        return self.pack(e) if shape == like else self.channels(e, like)

    def conv2d(self, node: Call, data: RelayExpr) -> RelayExpr | None:
        attrs, weight = node.attrs, _shape(node.args[1])
        is_plain = attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW" and int(attrs.groups) == 1
        dilation = [int(d) for d in attrs.dilation]
        types = (node.args[0].checked_type.dtype, node.args[1].checked_type.dtype, node.checked_type.dtype)
        if not is_plain or dilation != [1, 1] or types != ("int8", "int8", "int32") or not self.fits(node):
            return None
        block = self.cfactor
        sizes = (weight[0] // block, block, weight[1] // block, block, *weight[2:])
        kernel = op.transpose(op.reshape(self.unpacked(node.args[1]), sizes), (0, 2, 4, 5, 1, 3))
        layouts = {
            "data_layout": f"NCHW{self.bfactor}n{block}c",
            "kernel_layout": f"OIHW{block}o{block}i",
            "out_layout": "",
        }
        return Call(node.op, (data, kernel), type(attrs)(**{**attrs.entries, **layouts}))

    def run(self, func: Function) -> Function:
        for node in post_order(func.body):
            if not isinstance(node, RelayExpr):
                continue
            if not isinstance(node, Call):
                known = [c for c in node.children() if isinstance(c, RelayExpr)]
                self.plain[id(node)] = self.rebuilt(node) if known else node
                continue
            made = self.call(node) if self.is_inside and node is not self.stop else None
            if made is not None:
                self.packed[id(node)] = made
            else:
                args = tuple(self.unpacked(a) for a in node.args)
                self.plain[id(node)] = Call(node.op, args, node.attrs, node.type_args)
            if node is self.start:
                if not self.fits(node):
                    raise TVMError(
                        f"graph_pack: blocks of {self.bfactor} and {self.cfactor} do not divide {_shape(node)}"
                    )
                self.is_inside = True
                self.pack(node)
            if node is self.stop:
                self.is_inside = False
        return Function(func.params, self.unpacked(func.body))

    def rebuilt(self, node: RelayExpr) -> RelayExpr:
        return node.map_children(lambda c: self.unpacked(c) if isinstance(c, RelayExpr) else c)


def _find(func: Function, name: str, index: int | None, count_meta: bool) -> Call:
    """Return the first call of an operator, or the one at an index among all operators."""
    position = -1
    for node in post_order(func.body):
        position += isinstance(node, Call) or (count_meta and isinstance(node, Constant))
        if is_call(node, name) and (index is None or index == position):
            return node
    where = "" if index is None else f" at index {index}"
    raise TVMError(f"graph_pack: the graph has no operator {name}{where}")


def graph_pack(
    expr: Function,
    bfactor: int,
    cfactor: int,
    weight_bits: int,
    start_name: str = "nn.max_pool2d",
    stop_name: str = "nn.global_avg_pool2d",
    start_name_idx: int | None = None,
    stop_name_idx: int | None = None,
    count_meta: bool = False,
) -> Function:
    """Pack the values of an integer graph from the output of one operator to the input of another.

    Parameters
    ----------
    expr : Function
        The graph, with int8 convolutions in layout NCHW.
    bfactor, cfactor : int
        The blocks of the batch and of channels.
    weight_bits : int
        The width of weights; 8.
    start_name, stop_name : str
        The operator whose output is the first packed value, and the operator whose operands are plain again.
    start_name_idx, stop_name_idx : int, optional
        The positions of these operators among all operators, in the order of execution; by default the first ones.
    count_meta : bool
        Whether positions count constants too.

    Returns
    -------
    Function
        The packed graph.

    Raises
    ------
    TVMError
        The graph lacks an operator, the blocks do not divide the output of the start operator, or ``weight_bits`` is
        not 8.
    """
    if weight_bits != 8:
        raise TVMError(f"graph_pack: weights have 8 bits, got weight_bits={weight_bits}")
    func = run_opt_pass(expr, transform.InferType())
    start = _find(func, start_name, start_name_idx, count_meta)
    stop = _find(func, stop_name, stop_name_idx, count_meta)
    packed = _Packer(bfactor, cfactor, start, stop).run(func)
    return run_opt_pass(packed, transform.InferType())
