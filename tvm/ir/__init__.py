"""The parts every IR shares: nodes, expressions, types, modules, operators, passes."""

from __future__ import annotations

from . import primop  # noqa: F401  (the operators of expressions live there)
from .attrs import Attrs, DictAttrs, make_node
from .instrument import PassInstrument, PassTimingInstrument, pass_instrument
from .module import BaseFunc, GlobalVar, IRModule
from .node import Node
from .op import Op, register_intrin_lowering, register_op_attr
from .prim import BaseExpr, PrimExpr, Range
from .structural import (
    ObjectPath,
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from .tensor_type import TensorType
from .transform import Pass, PassContext, PassInfo, Sequential, module_pass
from .type import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    PointerType,
    PrimType,
    RelayRefType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
    VoidType,
)
