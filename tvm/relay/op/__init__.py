"""Operators: one record each."""

from ...ir.op import Op, register_intrin_lowering, register_op_attr
from . import nn, reduce, tensor, transform
from .record import OpPattern, as_expr, call, op
from .reduce import *
from .tensor import *
from .transform import *


def get(op_name: str) -> Op:
    """The operator of this name."""
    return Op.get(op_name)
