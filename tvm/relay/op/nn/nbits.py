"""The matmul with 8-bit or 4-bit weights."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....topi.nn.nbits import IN_BYTE
from ..record import OUT_ELEMWISE_FUSABLE, call, op
from ..rules import dims, tensor
from .dense import matmul_macs


def _nbits_type(attrs, types):
    data, weight, scale = (tensor(t, what) for t, what in zip(types, ("the data", "the weight", "the scales")))
    x, w, s = dims(data), dims(weight), dims(scale)
    bits, group = int(attrs.bits), int(attrs.group_size)
    if bits not in IN_BYTE:
        raise TypeError(f"bits must be 8 or 4, got {bits}")
    if group < 1 or group % IN_BYTE[bits]:
        raise TypeError(f"group_size must fill whole bytes; {group} features of {bits} bits do not")
    if weight.dtype != "int8":
        raise TypeError(f"the weight must be int8, got {weight.dtype}")
    if len(w) not in (2, 3) or len(s) != len(w) or (w[0], *w[2:]) != (s[0], *s[2:]):
        raise TypeError(
            f"expected a weight (units, bytes) and scales (units, groups), or panels of both, got {w} and {s}"
        )
    groups = -(-x[-1] // group) if x and isinstance(x[-1], int) else None
    if groups is None:
        raise TypeError(f"the number of features must be static, got data of shape {x}")
    if (w[1], s[1]) != (groups * group // IN_BYTE[bits], groups):
        raise TypeError(
            f"{x[-1]} features in groups of {group} require {groups} scales and "
            f"{groups * group // IN_BYTE[bits]} bytes for each unit, got {s[1]} and {w[1]}"
        )
    width = w[2] if len(w) == 3 else 1
    units = int(attrs.units) if attrs.units is not None else w[0] * width
    if not w[0] * width - width < units <= w[0] * width:
        raise TypeError(f"units is {units}, but the weight has {w[0] * width}")
    return TensorType((*x[:-1], units), attrs.out_dtype or data.dtype)


@op(
    "nn.contrib_dense_nbits",
    3,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_nbits_type,
    macs=matmul_macs,
    compute=lambda attrs, inputs, out, dense=topi.nn.dense_nbits: dense(
        *inputs, attrs.bits, attrs.group_size, attrs.units, out.dtype
    ),
)
def contrib_dense_nbits(data, weight, scale, bits=8, group_size=32, units=None, out_dtype=""):
    """Compute data . weight^T with signed 8-bit or 4-bit integer weights and scales.

    Each group of ``group_size`` features of a unit has one scale. A byte contains two 4-bit integers, the first one in
    its low bits. The weight has shape (units, bytes) and the scales have shape (units, groups); both may be packed into
    panels (units / n, ..., n).

    Parameters
    ----------
    bits : int, optional
        The number of bits of a weight, 8 or 4.
    group_size : int, optional
        The number of features of a unit that share one scale.

    Examples
    --------
    >>> x, s = relay.var("x", shape=(1, 64)), relay.var("s", shape=(8, 2))
    >>> w = relay.var("w", shape=(8, 32), dtype="int8")
    >>> made = relay.nn.contrib_dense_nbits(x, w, s, bits=4, group_size=32)
    >>> relay.transform.InferType()(tvm.IRModule.from_expr(made))["main"].ret_type
    Tensor[(1, 8), float32]
    """
    return call("nn.contrib_dense_nbits", data, weight, scale, bits=int(bits), group_size=int(group_size), units=units,
                out_dtype=out_dtype)  # fmt: skip
