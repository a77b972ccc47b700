"""Calls of compiled partitions: one opaque operator, which executors call like a kernel."""

from __future__ import annotations

from ....ir.op import Op
from ....tir.function import PrimFunc
from ...expr import Call, Function
from ...op.record import OPAQUE, CallAttrs
from .summary import operators_in

# The operator has no entry in the table of operators, since it exists only during a compilation.
PARTITION = Op(
    "partition",
    "Call of a partition that an external code generator compiled.",
    attrs={"TOpPattern": OPAQUE, "num_inputs": -1, "type_rule": lambda attrs, types: attrs.result},
)


def partition_call(symbol: str, call: Call, function: Function, loops: PrimFunc | None) -> Call:
    """Return the call of a partition with the arguments of ``call``. ``loops`` is its function if the target of the
    model compiles it."""
    attrs = {
        "symbol": symbol,
        "compiler": str(function.attrs["Compiler"]),
        "operators": operators_in(function),
        "result": function.body.checked_type_,
        "loops": loops,
    }
    return Call(PARTITION, call.args, CallAttrs(attrs), (), call.span)


def attrs_of_partition(function: Function) -> CallAttrs | None:
    """Return the attributes of the call of a partition, if it is the body of a fused function; None for other
    functions."""
    body = function.body
    return body.attrs if isinstance(body, Call) and body.op is PARTITION else None


__all__ = ["PARTITION", "attrs_of_partition", "partition_call"]
