"""Converters of constants, variables and tables, and of operators that forward a value."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .graph import Node
from .table import Context, Handle, host, op
from .tensors import Text, array_of, plain_dtype
from .variables import shared_name


@host("Const", "HostConst")
def constant(ctx, inputs, attrs):
    if "value" not in attrs:
        raise TVMError("the constant has no value")
    found = array_of(attrs["value"])
    return found if isinstance(found, Text) else Constant(found)


@host("Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "GuaranteeConst", "ReadVariableOp",
      "RefIdentity", "PlaceholderWithDefault", "CheckNumericsV2")  # fmt: skip
def identity(ctx, inputs, attrs):
    value = inputs[0]
    reads = isinstance(value, Handle) and value.kind == "variable" and ctx.node.op in ("ReadVariableOp", "Identity")
    if reads and (ctx.node.op == "ReadVariableOp" or value.node.op != "VarHandleOp"):
        return ctx.importer.variable(value.shared_name)
    return value


@host("IdentityN")
def identity_n(ctx, inputs, attrs):
    return list(inputs)


@op("EnsureShape")
def ensure_shape(ctx, inputs, attrs):
    wanted, have = attrs.get("shape"), ctx.shape(inputs[0])
    if wanted is not None and (
        len(wanted) != len(have) or any(isinstance(h, int) and w >= 0 and h != w for h, w in zip(have, wanted))
    ):
        raise TVMError(f"expected the shape {wanted}, got ({', '.join(map(str, have))})")
    return inputs[0]


@host("NoOp", "Assert", "Print", "PrintV2")
def nothing(ctx, inputs, attrs):
    """Remove operators that only observe the run; Print forwards its first input."""
    return [inputs[0]] if inputs and ctx.node.op == "Print" else []


# -- variables --------------------------------------------------------------------------------------------------------


@host("VarHandleOp", "VariableV2", "Variable")
def variable(ctx, inputs, attrs):
    plain_dtype(attrs.get("dtype", "float32"))
    return Handle("variable", ctx.node, shared_name(ctx.node))


@host("VarIsInitializedOp")
def is_initialized(ctx, inputs, attrs):
    return const(True, "bool")


def variable_value(ctx: Context, value) -> RelayExpr:
    """Return a tensor, or the value of a variable."""
    if isinstance(value, Handle) and value.kind == "variable":
        return ctx.importer.variable(value.shared_name)
    if not isinstance(value, RelayExpr):
        raise TVMError("the input must be a variable or a tensor")
    return value


@host("VariableShape")
def variable_shape(ctx, inputs, attrs):
    shape = ctx.known_shape(variable_value(ctx, inputs[0]))
    return Constant(np.array(shape, ctx.kind(attrs, "out_type", "int32")))


# -- tables -----------------------------------------------------------------------------------------------------------


@host("HashTableV2", "MutableHashTableV2", "HashTable")
def table(ctx, inputs, attrs):
    return Handle("table", ctx.node, shared_name(ctx.node))


def _content(ctx: Context, handle) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys and values with which the model initializes a table."""
    if not isinstance(handle, Handle) or handle.kind != "table":
        raise TVMError("the input must be a table")
    library = ctx.importer.library
    bodies = [ctx.importer.main, *(library.body(name) for name in library.functions)]
    for body in bodies:
        for node in body.nodes.values():
            if node.op in ("LookupTableImportV2", "InitializeTableV2", "InitializeTable") and len(node.inputs) == 3:
                made = body.nodes.get(node.inputs[0].node)
                if made is not None and made.op.endswith(handle.node.op) and shared_name(made) == handle.shared_name:
                    return tuple(_host_array(body.nodes.get(r.node)) for r in node.inputs[1:])  # type: ignore[return-value]
    raise TVMError(f"the model contains no initializer of the table '{handle.shared_name}'")


def _host_array(node: Node | None) -> np.ndarray:
    if node is None or node.op != "Const" or "value" not in node.attrs:
        raise TVMError("the keys and values of a table must be constants")
    found = array_of(node.attrs["value"])
    if isinstance(found, Text):
        raise TVMError("tables of strings are not supported: compiled models have no string tensors")
    return found.reshape(-1)


@host("LookupTableFindV2", "LookupTableFind")
def lookup(ctx, inputs, attrs):
    """Find keys by binary search in the sorted keys; missing keys return the default."""
    keys, values = _content(ctx, inputs[0])
    wanted, default = inputs[1:3]
    if not isinstance(wanted, RelayExpr):
        raise TVMError("looking up strings in a table is not supported")
    if not keys.size:
        return relay.add(relay.cast(relay.zeros_like(wanted), ctx.dtype(default)), default)
    order = np.argsort(keys, kind="stable")
    sorted_keys = const(keys[order])
    at = relay.searchsorted(sorted_keys, wanted, dtype="int64")
    at = relay.minimum(at, const(len(keys) - 1, "int64"))
    hit = relay.equal(relay.take(sorted_keys, at, 0), wanted)
    return relay.where(hit, relay.take(const(values[order]), at, 0), default)


@host("LookupTableSizeV2", "LookupTableSize")
def table_size(ctx, inputs, attrs):
    return const(len(_content(ctx, inputs[0])[0]), "int64")


__all__ = ["variable_value"]
