"""Weight-only quantization: quantize the weights of dense layers to 8 or 4 bits with a scale for each group.

This is for models limited by memory bandwidth for weights, such as language models. The kernel reads the integers and
dequantizes them in registers. The data stays float, and no data set is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.visit import post_order
from .. import transform
from ..expr import Call, Constant, Function, RelayExpr
from ..op.nn.nbits import contrib_dense_nbits
from ..transform.cpu.pack_dense import constant_weight
from ..transform.function_pass import is_call, rewrite_typed
from .plan import check_skipped, name_of
from .prepare import SUMS, prerequisite_optimize
from .ranges import decibels

# The default number of features per scale; 0 means all features of a unit.
GROUP_SIZES = {8: 0, 4: 32}
# The candidate ranges of a group, relative to its largest weight. A smaller range clips that weight but has finer
# steps.
_REACHES = {8: (1.0,), 4: (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)}


class Grouped(NamedTuple):
    """A quantized matrix: integers packed into bytes (units, bytes) and scales (units, groups)."""

    bytes: np.ndarray
    scale: np.ndarray


class WeightLoss(NamedTuple):
    """The signal-to-noise ratio of a layer's weights in decibels, and their size in bytes before and after."""

    name: str
    operator: str
    noise: float
    before: int
    after: int


def grouped(weight: np.ndarray, bits: int, group_size: int) -> Grouped:
    """Quantize a matrix symmetrically to 8 or 4 bits. The last group is padded with zeros.

    Parameters
    ----------
    weight : numpy.ndarray
        The matrix of shape (units, features).
    bits : int
        The number of bits, 8 or 4.
    group_size : int
        The number of features per scale.

    Returns
    -------
    Grouped
    """
    units, features = weight.shape
    groups, last = -(-features // group_size), 2 ** (bits - 1) - 1
    parts = np.pad(weight.astype("float32"), ((0, 0), (0, groups * group_size - features)))
    parts = parts.reshape(units, groups, group_size)
    top = np.abs(parts).max(2)
    best = np.full(top.shape, np.inf, "float32")
    scale, integers = np.ones(top.shape, "float32"), np.zeros(parts.shape, "int8")
    for reach in _REACHES[bits]:
        tried = np.where(top > 0, top * np.float32(reach / last), 1).astype("float32")
        whole = np.clip(np.round(parts / tried[..., None]), -last, last)
        error = np.square(whole * tried[..., None] - parts).sum(2)
        better = error < best
        best, scale = np.where(better, error, best), np.where(better, tried, scale)
        integers = np.where(better[..., None], whole, integers).astype("int8")
    integers = integers.reshape(units, -1)
    return Grouped(packed_bytes(integers, bits), scale)


def packed_bytes(integers: np.ndarray, bits: int) -> np.ndarray:
    """Pack int8 integers (units, features) into bytes: two 4-bit integers per byte, the first in the low bits.

    Parameters
    ----------
    integers : numpy.ndarray
    bits : int
        The number of bits, 8 or 4.

    Returns
    -------
    numpy.ndarray
    """
    if bits == 8:
        return integers
    return ((integers[:, ::2] & 15) | (integers[:, 1::2] << 4)).astype("int8")


def matrix_of(made: Grouped, bits: int, features: int) -> np.ndarray:
    """Dequantize a matrix to float.

    Parameters
    ----------
    made : Grouped
    bits : int
    features : int
        The number of columns, without the padding of the last group.

    Returns
    -------
    numpy.ndarray
    """
    units, groups = made.scale.shape
    whole = made.bytes
    if bits == 4:
        whole = np.stack([(whole << 4).astype("int8") >> 4, whole >> 4], 2).reshape(units, -1)
    parts = whole.reshape(units, groups, -1).astype("float32") * made.scale[..., None]
    return parts.reshape(units, -1)[:, :features]


class WeightQuantization:
    """A model whose dense layers with constant weights have quantized weights.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        The parameters of the model by name, which become constants.
    bits : int
        The number of bits, 8 or 4.
    group_size : int, optional
        The number of features per scale, which must be even; 0 means all features of a unit. The default is 0 for 8
        bits and 32 for 4 bits.
    skip : collection of str
        The node names or operator names of layers to leave unchanged.

    Raises
    ------
    TVMError
        The number of bits or the group size is not supported, or ``skip`` names an unknown layer.
    """

    def __init__(self, mod: IRModule, params: Mapping[str, Any] | None = None, bits: int = 8,
                 group_size: int | None = None, skip: Collection[str] = ()):  # fmt: skip
        if bits not in GROUP_SIZES:
            raise TVMError(f"quantize_weights: bits must be 8 or 4, got {bits}")
        self.bits, self.group_size = bits, GROUP_SIZES[bits] if group_size is None else group_size
        if self.group_size < 0 or self.group_size % 2:
            raise TVMError(f"quantize_weights: group_size must be an even number of features or 0, got {group_size}")
        self.skip = frozenset(skip)
        self.losses: list[WeightLoss] = []
        self.left: list[str] = []
        self._made: dict[int, tuple[Constant, Constant, int]] = {}
        mod = prerequisite_optimize(mod, params)
        func: Function = mod["main"]
        check_skipped(skip, {name_of(node) for node in post_order(func.body) if _is_layer(node)})
        mod["main"] = func.replace(body=rewrite_typed(func.body, self._layer, mod))
        self.mod: IRModule = transform.InferType()(mod)

    def _layer(self, node: Any) -> RelayExpr | None:
        if not _is_layer(node):
            return None
        weight = constant_weight(node)
        if weight is None or self.skip & {name_of(node), node.op.name}:
            self.left.append(name_of(node))
            return None
        matrix = weight.rows()
        group = self.group_size or matrix.shape[1] + matrix.shape[1] % 2
        key = id(weight.constant)
        if key not in self._made:
            made = grouped(matrix, self.bits, group)
            self._made[key] = Constant(made.bytes), Constant(made.scale), group
            error = matrix_of(made, self.bits, matrix.shape[1]) - matrix
            noise = float(decibels(np.square(matrix, dtype="float64").sum(), np.square(error, dtype="float64").sum()))
            after = made.bytes.nbytes + made.scale.nbytes
            self.losses.append(WeightLoss(name_of(node), node.op.name, noise, matrix.nbytes, after))
        integers, scale, group = self._made[key]
        return contrib_dense_nbits(node.args[0], integers, scale, self.bits, group)


def _is_layer(node: Any) -> bool:
    return isinstance(node, Call) and is_call(node, *SUMS[2:], "nn.matmul")


def quantize_weights(mod: IRModule, params: Mapping[str, Any] | None = None, bits: int = 8,
                     group_size: int | None = None, skip: Collection[str] = ()) -> IRModule:  # fmt: skip
    """Quantize the weights of dense layers to 8 or 4 bits. The data stays float, and no data set is needed.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        The parameters of the model by name, which become constants.
    bits : int
        The number of bits, 8 or 4.
    group_size : int, optional
        The number of features per scale, which must be even; 0 means all features of a unit. The default is 0 for 8
        bits and 32 for 4 bits.
    skip : collection of str
        The node names or operator names of layers to leave unchanged.

    Returns
    -------
    IRModule

    Raises
    ------
    TVMError
        The number of bits or the group size is not supported, or ``skip`` names an unknown layer.
    """
    return WeightQuantization(mod, params, bits, group_size, skip).mod


__all__ = ["GROUP_SIZES", "Grouped", "WeightLoss", "WeightQuantization", "grouped", "matrix_of", "packed_bytes",
           "quantize_weights"]  # fmt: skip
