"""Common parts of all IRs: nodes, expressions, types, modules, operators, passes."""

from __future__ import annotations

from ..hooks import IR_LOADED
from ..object_path import ObjectPath
from . import diagnostics, instrument, primop, transform  # primop defines the operators on expressions
from .adt import Constructor, TypeData
from .affine_type import TensorAffineType, TupleAffineType
from .attrs import Attrs, DictAttrs, make_node
from .base import (
    EnvFunc,
    SequentialSpan,
    SourceName,
    Span,
    assert_structural_equal,
    get_first_structural_mismatch,
    load_json,
    save_json,
    structural_equal,
    structural_hash,
)
from .container import Array, Map
from .function import BaseFunc, CallingConv
from .memory_pools import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfo,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from .module import GlobalVar, IRModule, RelayExpr
from .node import Node
from .op import Op, register_intrin_lowering, register_op_attr
from .prim import BaseExpr, PrimExpr, Range
from .supply import GlobalVarSupply, NameSupply
from .tensor_type import TensorType
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

__all__ = [
    "Array",
    "Attrs",
    "BaseExpr",
    "BaseFunc",
    "CallingConv",
    "ConstantMemoryPools",
    "ConstantPoolInfo",
    "Constructor",
    "DictAttrs",
    "EnvFunc",
    "FuncType",
    "GlobalTypeVar",
    "GlobalVar",
    "GlobalVarSupply",
    "IRModule",
    "IncompleteType",
    "Map",
    "NameSupply",
    "Node",
    "ObjectPath",
    "Op",
    "PointerType",
    "PoolInfo",
    "PoolInfoProperties",
    "PrimExpr",
    "PrimType",
    "Range",
    "RelayExpr",
    "RelayRefType",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorAffineType",
    "TensorType",
    "TupleAffineType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "VoidType",
    "WorkspaceMemoryPools",
    "WorkspacePoolInfo",
    "assert_structural_equal",
    "diagnostics",
    "get_first_structural_mismatch",
    "instrument",
    "load_json",
    "make_node",
    "primop",
    "register_intrin_lowering",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
    "transform",
]

IR_LOADED()
