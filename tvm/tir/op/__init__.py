"""Functions that build expressions: mathematical functions, reductions, and calls of intrinsics and other functions.

Arithmetic and comparison operators are in ``ir.primop``; this package adds the operations without a Python operator.
``tvm.te`` and ``tvm.tir`` export these functions.
"""

from __future__ import annotations

from ...ir.op import register_intrin_lowering, register_op_attr
from ...ir.prim import const
from ...ir.primop import bitwise_and, bitwise_not, bitwise_or, bitwise_xor, div, floordiv, floormod
from ...ir.primop import left_shift as shift_left
from ...ir.primop import right_shift as shift_right
from ..buffer import type_annotation
from ..intrinsics import CallEffectKind
from . import calls, conditions, floats, integers, intrinsic_calls, literals, reducers
from .calls import *
from .conditions import *
from .floats import *
from .integers import *
from .intrinsic_calls import *
from .literals import *
from .reducers import *

__all__ = [
    "CallEffectKind",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "const",
    "div",
    "floordiv",
    "floormod",
    "register_intrin_lowering",
    "register_op_attr",
    "shift_left",
    "shift_right",
    "type_annotation",
]
__all__ += literals.__all__
__all__ += conditions.__all__
__all__ += floats.__all__
__all__ += integers.__all__
__all__ += reducers.__all__
__all__ += calls.__all__
__all__ += intrinsic_calls.__all__
