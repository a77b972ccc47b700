"""Pack the constant weights of matmuls into panels at compile time.

``data . weight^T`` with a constant weight becomes nn.contrib_dense_pack. Its weight consists of panels that are a few
vectors wide, each stored row by row, in the order in which the kernel reads them. If the data is only flattened to a
matrix for the matmul and its output is reshaped back, the pass removes both reshapes, so that the epilogue can be
fused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.transform import PassContext
from ....runtime.ndarray import NDArray, assembled, elements
from ....target import Target
from ....topi.cpu import matmul_dots, matmul_nbits, matmul_pairs
from ....topi.cpu.dot_products import dot_product
from ....topi.cpu.machine import Machine
from ....topi.cpu.matmul import NOMINAL_ROWS, panel_width
from ....topi.cpu.matmul_tiles import k_block
from ....topi.cpu.matmul_tiles import panel_width as panel_width_of_tiles
from ....topi.cpu.tiles import BFLOAT16, Kind, kind_of
from ...expr import Call, Constant, Function, RelayExpr
from ...infer import dims, infer_function
from ...op import transform
from ...op.nn.packed import contrib_dense_pack
from ...op.record import CallAttrs
from ..combine_parallel import ParallelLayers, combine
from ..function_pass import RelayFunctionPass, function_pass, is_call, is_contraction, replacement
from ..fuse_ops import own_nodes

# If the last row dimension is smaller, it is faster to fuse the leading dimensions into m.
MIN_ROWS = 8
# The minimum number of matmuls of the same data that are combined into one.
MIN_BRANCHES = 3


def _shape(e: RelayExpr) -> tuple[int, ...] | None:
    t = e.checked_type_
    shape = dims(t) if t is not None and hasattr(t, "shape") else None
    return tuple(shape) if shape is not None and all(isinstance(d, int) for d in shape) else None


def pack_weight(weight: np.ndarray, width: int) -> NDArray:
    """Pack a weight (units, features) into panels (units / width, features, width); the last panel is padded with
    zeros."""
    units, features = weight.shape
    whole, rest = divmod(units, width)
    full = weight[: whole * width].reshape(whole, width, features).transpose(0, 2, 1)
    pieces = [(slice(whole), full)] if whole else []
    if rest:
        last = np.zeros((1, features, width), weight.dtype)
        last[0, :, :rest] = weight[whole * width :].T
        pieces.append((slice(whole, None), last))
    return assembled((whole + bool(rest), features, width), weight.dtype.name, pieces)


class Weight(NamedTuple):
    """The constant right operand of a matmul. Its rows are the output units if ``transposed``, else its columns."""

    constant: Constant
    transposed: bool
    units: int

    def rows(self) -> np.ndarray:
        array = self.constant._elements()
        array = array.reshape(array.shape[-2:])
        return array if self.transposed else array.T


class Packing:
    """The rewrite of one function; equal weights are packed once."""

    def __init__(self, machine: Machine):
        self.machine = machine
        narrow = "bfloat16", "bfloat16"
        self.has_tiles = kind_of(machine.target, *narrow) is not None
        self.has_dots = dot_product(machine.target, *narrow, matmul_dots.PANEL) is not None
        self.rewritten: dict[int, RelayExpr] = {}
        self.weights: dict[tuple, Constant] = {}
        self.panels: dict[tuple, Constant] = {}

    def run(self, func: Function) -> Function:
        for node in own_nodes(func.body):
            self.rewritten[id(node)] = replacement(self.node, node)
        return func.replace(body=self.rewritten[id(func.body)])

    def node(self, node: RelayExpr) -> RelayExpr:
        if isinstance(node, Function):
            return node
        if isinstance(node, Call) and isinstance(node.op, Op):
            forms = {"reshape": self.reshaped_matmul, "nn.contrib_dense_nbits": self.nbits}
            packed = forms.get(node.op.name, self.matmul)(node)
            if packed is not None:
                return packed
        return node.map_children(lambda c: c if isinstance(c, Op) else self.rewritten[id(c)])

    def reshaped_matmul(self, node: Call) -> RelayExpr | None:
        """Rewrite ``reshape(x . w)`` as ``reshape(x) . w`` if the reshape only splits the rows.

        The epilogue can then be fused into the matmul, and the reshape of the data needs no copy."""
        inner = node.args[0]
        out, flat = _shape(node), _shape(inner)
        if not (isinstance(inner, Call) and isinstance(inner.op, Op)) or out is None or flat is None:
            return None
        if len(out) < 3 or len(flat) != 2 or out[-1] != flat[-1]:
            return None
        if out[-2] < MIN_ROWS and any(d != 1 for d in out[:-2]):
            return None
        weight = constant_weight(inner, self.has_tiles, self.has_dots)
        features = _shape(inner.args[0])
        if weight is None or features is None:
            return None
        data, source = self.rewritten[id(inner.args[0])], inner.args[0]
        if is_call(source, "reshape"):
            data, source = self.rewritten[id(source.args[0])], source.args[0]
        wanted = (*out[:-1], features[-1])
        if _shape(source) != wanted:
            data = transform.reshape(data, wanted)
        return self.packed_matmul(data, out, weight)

    def matmul(self, node: Call) -> RelayExpr | None:
        weight = constant_weight(node, self.has_tiles, self.has_dots)
        if weight is None:
            return None
        return self.packed_matmul(self.rewritten[id(node.args[0])], _shape(node), weight)

    def nbits(self, node: Call) -> RelayExpr | None:
        """Pack a matmul with a weight of few bits: its integers and scales become panels."""
        out, operands = _shape(node), node.args[1:]
        if not all(isinstance(e, Constant) and len(e.data.shape) == 2 for e in operands):
            return None
        rows = NOMINAL_ROWS if out is None else int(np.prod(out[:-1]))
        units = operands[0].data.shape[0]
        if 0 in (rows, units, operands[0].data.shape[1]):
            return None
        width = matmul_nbits.panel_width(rows, units, int(node.attrs.bits), self.machine)
        for e in operands:
            if (width, id(e)) not in self.panels:
                self.panels[width, id(e)] = Constant(pack_weight(elements(e.data), width))
        packed = [self.panels[width, id(e)] for e in operands]
        attrs = CallAttrs({**node.attrs.entries, "units": units})
        return Call(node.op, (self.rewritten[id(node.args[0])], *packed), attrs, (), node.span)

    def packed_matmul(self, data: RelayExpr, out: tuple[int, ...] | None, weight: Weight) -> RelayExpr:
        rows = NOMINAL_ROWS if out is None else int(np.prod(out[:-1]))
        if weight.constant.checked_type_.dtype == "bfloat16":
            return self.bfloat16_matmul(data, rows if out is None else out[-2], weight)
        width = panel_width(rows, weight.units, self.machine, "float32")
        key = (width, id(weight.constant), weight.transposed)
        if key not in self.weights:
            self.weights[key] = Constant(pack_weight(weight.rows(), width))
        packed = self.weights[key]
        return contrib_dense_pack(data, packed, weight_layout=f"NC{width}n", units=weight.units, out_dtype="")

    def bfloat16_matmul(self, data: RelayExpr, rows: int, weight: Weight) -> RelayExpr:
        depth = word_depth(self.machine.target, "bfloat16", "bfloat16", "float32", rows)
        key = (-depth, id(weight.constant), weight.transposed)
        if key not in self.weights:
            array = weight.rows()
            self.weights[key] = Constant(pack_tiles(array, BFLOAT16) if self.has_tiles else pack_words(array, depth))
        packed = self.weights[key]
        _, _, group, width, depth = packed.data.shape
        layout = f"NC{group}c{width}n{depth}c"
        units = weight.units if self.has_tiles else None
        product = contrib_dense_pack(data, packed, weight_layout=layout, units=units, out_dtype="float32")
        return product if self.has_tiles else first_columns(product, weight.units)


def pack_tiles(weight: np.ndarray, kind: Kind) -> np.ndarray:
    """Pack a weight (units, features) into panels (units / width, features / block, block / depth, width, depth)."""
    units, features = weight.shape
    width, block = panel_width_of_tiles(units), k_block(features, kind)
    assert width is not None, "weights without panels are not packed"
    whole = np.pad(weight, ((0, -units % width), (0, -features % block)))
    parted = whole.reshape(-1, width, whole.shape[1] // block, block // kind.depth, kind.depth)
    return parted.transpose(0, 2, 3, 1, 4)


def first_columns(product: RelayExpr, count: int) -> RelayExpr:
    """Slice the first ``count`` columns of a matmul whose output was padded to whole panels."""
    if count % matmul_dots.PANEL == 0:
        return product
    return transform.strided_slice(product, [0], [count], axes=[-1])


def word_depth(target: Target, data: str, weight: str, sums: str, rows: int) -> int:
    """Return the elements of k in the words of a packed weight, for a 2x2 matmul or a dot product instruction."""
    pairs = matmul_pairs.instruction_for(target, data, weight, sums, rows)
    return matmul_dots.depth_of(weight) if pairs is None else pairs.depth


def pack_words(weight: np.ndarray, depth: int) -> np.ndarray:
    """Pack a weight (units, features) into panels (units / 16, features / block, block / depth, 16, depth)."""
    units, features = weight.shape
    wide = -(-features // depth) * depth
    block = matmul_dots.k_block(wide, depth, matmul_dots.VECTOR_BYTES // weight.dtype.itemsize)
    whole = np.pad(weight, ((0, -units % matmul_dots.PANEL), (0, wide - features)))
    parted = whole.reshape(-1, matmul_dots.PANEL, wide // block, block // depth, depth)
    return parted.transpose(0, 2, 3, 1, 4)


def constant_weight(node: Call, has_tiles: bool = False, has_dots: bool = False) -> Weight | None:
    """Return the right operand of a matmul if it can be packed, else None.

    A bfloat16 operand requires AMX tiles or bfloat16 dot-product instructions."""
    name = node.op.name
    if not is_contraction(node, "matmul"):
        return None
    data, weight = node.args
    shape, weight_shape = dims(data.checked_type_), _shape(weight)
    if not isinstance(weight, Constant) or weight_shape is None or len(shape) < 2:
        return None
    if not isinstance(shape[-1], int) or any(isinstance(d, int) and d == 0 for d in (*shape, *weight_shape)):
        return None
    attrs = node.attrs
    transposed = name == "nn.dense" or bool(attrs.transpose_b)
    if name != "nn.dense" and attrs.transpose_a or name == "nn.batch_matmul" and weight_shape[0] != 1:
        return None
    types = (data.checked_type_.dtype, weight.checked_type_.dtype, node.checked_type_.dtype)
    found = Weight(weight, transposed, weight_shape[-2] if transposed else weight_shape[-1])
    if types == ("bfloat16", "bfloat16", "float32"):
        is_known = all(isinstance(d, int) for d in shape)
        fits = panel_width_of_tiles(found.units) is not None if has_tiles else has_dots
        return found if is_known and fits else None
    return found if set(types) == {"float32"} else None


def _combined(name: str, transposed: bool) -> ParallelLayers:
    """Return how to combine matmuls before their weights are packed. A combined matmul reads its data once and has more
    work to distribute over the threads."""

    def key(node: Call) -> bool | None:
        weight = constant_weight(node)
        return True if weight is not None and weight.transposed == transposed else None

    count = None if name == "nn.batch_matmul" else "units"
    return ParallelLayers(name, key, -2 if transposed else -1, -1, count, join=None)


COMBINED = (
    _combined("nn.dense", True),
    *(_combined(name, transposed) for name in ("nn.matmul", "nn.batch_matmul") for transposed in (False, True)),
)


def PackDense(target: Target) -> RelayFunctionPass:
    """Pack the constant weights of matmuls into panels of the target's vector width."""

    @function_pass(opt_level=3, name="PackDense", required=["InferType"])
    def pack(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        for kind in COMBINED:
            func = combine(func, mod, kind, MIN_BRANCHES)
        return infer_function(Packing(Machine(target)).run(func), mod)

    return pack


__all__ = ["PackDense", "pack_weight"]
