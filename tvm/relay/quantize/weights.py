"""Weights of dense layers as integers of 8 or 4 bits with a scale for each group; data stays float.

This is for models limited by the memory their weights are read from, such as language models: the kernel reads the
integers and dequantizes them in registers. No data set is needed.
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

# Features that have one scale where it is not said; 0: all features of a unit.
GROUP_SIZES = {8: 0, 4: 32}
# Reaches of a group that are tried, in parts of its largest weight: a smaller one has finer steps for all but that.
_REACHES = {8: (1.0,), 4: (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)}


class Grouped(NamedTuple):
    """A matrix (units, features) as integers in bytes (units, bytes) and scales (units, groups)."""

    bytes: np.ndarray
    scale: np.ndarray


class WeightLoss(NamedTuple):
    """What the weights of a layer lost in decibels, and their bytes before and after."""

    name: str
    operator: str
    noise: float
    before: int
    after: int


def grouped(weight: np.ndarray, bits: int, group_size: int) -> Grouped:
    """A matrix as integers of 8 or 4 bits, zero in the middle; zeros fill up the last group.

    Parameters
    ----------
    weight : numpy.ndarray
        (units, features)
    bits : int
        8 or 4.
    group_size : int
        Features that have one scale.

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
    """Integers (units, features) of type int8 in bytes: two of 4 bits in one, the first in the low half.

    Parameters
    ----------
    integers : numpy.ndarray
    bits : int
        8 or 4.

    Returns
    -------
    numpy.ndarray
    """
    if bits == 8:
        return integers
    return ((integers[:, ::2] & 15) | (integers[:, 1::2] << 4)).astype("int8")


def matrix_of(made: Grouped, bits: int, features: int) -> np.ndarray:
    """The float matrix that integers and scales stand for.

    Parameters
    ----------
    made : Grouped
    bits : int
    features : int
        Columns of the matrix, without those that fill up the last group.

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
    """A model whose dense layers with known weights have them in few bits.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        Its parameters by name; they are bound.
    bits : int
        8 or 4.
    group_size : int, optional
        Features that have one scale, an even number; 0: all features of a unit. Of 8 bits that is what holds if it is
        not given, of 4 bits 32.
    skip : collection of str
        Layers that stay as they are, by the names of their nodes or by operator.

    Raises
    ------
    TVMError
        Bits or the size of a group are none that there are, or ``skip`` names a layer that is not in the model.
    """

    def __init__(self, mod: IRModule, params: Mapping[str, Any] | None = None, bits: int = 8,
                 group_size: int | None = None, skip: Collection[str] = ()):  # fmt: skip
        if bits not in GROUP_SIZES:
            raise TVMError(f"quantize_weights: weights have 8 or 4 bits, got {bits}")
        self.bits, self.group_size = bits, GROUP_SIZES[bits] if group_size is None else group_size
        if self.group_size < 0 or self.group_size % 2:
            raise TVMError(f"quantize_weights: group_size is an even number of features or 0, got {group_size}")
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
    """A model whose dense layers read weights of 8 or 4 bits; data stays float and no data set is needed.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        Its parameters by name; they are bound.
    bits : int
        8 or 4.
    group_size : int, optional
        Features that have one scale, an even number; 0: all features of a unit, which holds for 8 bits if it is not
        given. Of 4 bits 32 do.
    skip : collection of str
        Layers that stay as they are, by the names of their nodes or by operator.

    Returns
    -------
    IRModule

    Raises
    ------
    TVMError
        Bits or the size of a group are none that there are, or ``skip`` names a layer that is not in the model.
    """
    return WeightQuantization(mod, params, bits, group_size, skip).mod


__all__ = ["GROUP_SIZES", "Grouped", "WeightLoss", "WeightQuantization", "grouped", "matrix_of", "packed_bytes",
           "quantize_weights"]  # fmt: skip
