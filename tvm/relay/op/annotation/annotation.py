"""Annotation operators for passes: each returns its argument and stores information in its attributes."""

from __future__ import annotations

from .... import topi
from ...expr import TupleWrapper
from ..record import OPAQUE, as_expr, call, device_text, op


def _mark(name: str, doc: str, build):
    """Register an annotation operator, which returns its argument of any type."""
    build.__doc__ = doc
    return op(
        name,
        1,
        pattern=OPAQUE,
        type_rule=lambda attrs, types: types[0],
        # The argument may have no type yet: a recursive call of a local function.
        infer_inputs=lambda attrs, types: types,
        is_annotation=True,
        compute=lambda attrs, inputs, out: [topi.identity(i) for i in inputs],
        expand=lambda attrs, args, types: args[0],
    )(build)


def _plain(data):
    return data.astuple() if isinstance(data, TupleWrapper) else as_expr(data)


def on_device(body, device, constrain_result=False, constrain_body=True):
    return call(
        "on_device",
        _plain(body),
        device=device_text(device),
        constrain_result=bool(constrain_result),
        constrain_body=bool(constrain_body),
    )


def stop_fusion(data):
    return call("annotation.stop_fusion", _plain(data))


def checkpoint(data):
    return call("annotation.checkpoint", _plain(data))


def compiler_begin(data, compiler):
    return call("annotation.compiler_begin", _plain(data), compiler=str(compiler))


def compiler_end(data, compiler):
    return call("annotation.compiler_end", _plain(data), compiler=str(compiler))


_mark("on_device", "The expression is to run on a device.", on_device)
_mark("annotation.stop_fusion", "Operators before and after are not fused with each other.", stop_fusion)
_mark("annotation.checkpoint", "The expression is computed again when gradients need it.", checkpoint)
_mark("annotation.compiler_begin", "A region for another compiler begins.", compiler_begin)
_mark("annotation.compiler_end", "A region for another compiler ends.", compiler_end)
