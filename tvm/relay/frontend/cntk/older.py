"""Convert the node fields of the binary format to attributes of CNTK 2. Axes of the binary format count from 1."""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from .binary import BinaryNetwork, BinaryNode
from .dictionary import ALL_AXES, ALL_STATIC_AXES, Axis
from .schema import DTYPES

# Special axis numbers of the binary format.
_ALL_STATIC, _ALL, _SEQUENCE = 0, -1, -2
# The name of the sequence axis of an input or output without a sequence.
NO_SEQUENCE = "__noSequenceAxis"
_NUMBERS = {name: number for number, name in DTYPES.items()}
# Slices use a different number for the sequence axis.
_SLICED_SEQUENCE = -1


def converted(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    """Return the attributes of a node."""
    make = _MAKERS.get(node.type)
    return dict(node.fields) if make is None else make(network, node, inputs)


def _axis(number: int) -> Axis:
    return Axis(number - 1, "", False)


def _window(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    f = node.fields
    if f.get("imageLayout", 1) != 1:
        raise TVMError(f"{node.type} '{node.name}' has the unsupported imageLayout 'HWC'")
    out = {k: f[k] for k in ("strides", "sharing", "autoPadding", "lowerPad", "upperPad", "transpose", "outputShape",
                             "dilation", "ceilOutDim", "includePad") if k in f}  # fmt: skip
    out["kernelShape"] = f["kernelShape"]
    if node.type == "Convolution":
        out["mapCount"] = f["mapCount"]
    else:
        out["poolingType"] = f["poolKind"] - 1
        out["poolingWindowShape"] = out["unpoolingWindowShape"] = f["kernelShape"]
    if f.get("convolution2D"):
        out["kernelShape"] = f["kernelShape"][:2]
        out["strides"] = f["strides"][:2]
    return out


def _old_window(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    f = node.fields
    if f["imageLayout"] != 1:
        raise TVMError(f"{node.type} '{node.name}' has the unsupported imageLayout 'HWC'")
    return {
        "poolingType": int(node.type == "AveragePooling"),
        "poolingWindowShape": (f["width"], f["height"], 1),
        "strides": (f["strideX"], f["strideY"], 1),
        "autoPadding": [False],
        "lowerPad": (0,),
        "upperPad": (0,),
    }


def _slice(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    f = node.fields
    axes = [Axis(0, "defaultDynamicAxis", True) if a == _SLICED_SEQUENCE else _axis(a) for a in f["axes"]]
    return {"axisVec": axes, "beginIndexVec": f["begins"], "endIndexVec": f["ends"], "sliceStridesVec": f["steps"]}


def _reduced(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    f = node.fields
    axes = []
    for a in f["axes"]:
        if a in (_ALL_STATIC, _ALL):
            axes.append(Axis(0, ALL_STATIC_AXES if a == _ALL_STATIC else ALL_AXES, False))
        elif a == _SEQUENCE:
            axes.append(Axis(0, "defaultDynamicAxis", True))
        elif a < 0:
            raise TVMError(f"{node.type} '{node.name}' reduces the batch axis, which is not supported")
        else:
            axes.append(_axis(a))
    return {"axisVec": axes, "reductionOpName": f["operation"], "reductionKeepDimensions": f["keep"]}


def _transposed(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    f = node.fields
    if "order" in f:
        return {"axisVec": [_axis(a + 1) for a in f["order"]]}
    return {"axis1": _axis(f["axis1"]), "axis2": _axis(f["axis2"])}


def _reshaped(network: BinaryNetwork, node: BinaryNode, inputs: list[str]) -> dict[str, Any]:
    """Return the attributes of a reshape of the axes ``beginAxis`` to ``endAxis`` - 1; an ``endAxis`` of 0 is the
    end."""
    f = node.fields
    out: dict[str, Any] = {"newShape": f["newShape"], "beginAxis": _axis(f["beginAxis"])}
    if f["endAxis"] > 0:
        out["endAxis"] = _axis(f["endAxis"])
    return out


_MAKERS = {
    "Convolution": _window, "Pooling": _window, "MaxUnpooling": _window, "MaxPooling": _old_window,
    "AveragePooling": _old_window, "Slice": _slice, "ReduceElements": _reduced, "TransposeDimensions": _transposed,
    "Reshape": _reshaped,
    "RowStack": lambda network, node, inputs: {"axis": _axis(node.fields.get("spliceDim", 1))},
    "Cast": lambda network, node, inputs: {"newDataType": _NUMBERS[node.dtype]},
    "Where": lambda network, node, inputs: {"newDynamicAxes": [None] * (node.fields.get("axisName") == NO_SEQUENCE)},
    "PastValue": lambda network, node, inputs: {**node.fields, "dtype": node.dtype},
    "FutureValue": lambda network, node, inputs: {**node.fields, "dtype": node.dtype},
}  # fmt: skip

__all__ = ["NO_SEQUENCE", "converted"]
