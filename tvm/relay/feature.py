"""Detect the language features that a graph uses."""

from __future__ import annotations

from enum import IntEnum

from ..ir.adt import Constructor
from ..ir.module import GlobalVar, IRModule
from ..ir.op import Op
from ..ir.visit import post_order
from .adt import Match
from .expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem, Var
from .substitute import free_vars


class Feature(IntEnum):
    """A language feature. fGraph is an expression with several uses, fLetRec a let whose value uses its own
    variable."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15
    fLetRec = 16


_KINDS = {
    Var: Feature.fVar, GlobalVar: Feature.fGlobalVar, Constant: Feature.fConstant, Tuple: Feature.fTuple,
    TupleGetItem: Feature.fTupleGetItem, Function: Feature.fFunction, Op: Feature.fOp, Call: Feature.fCall,
    Let: Feature.fLet, If: Feature.fIf, RefCreate: Feature.fRefCreate, RefRead: Feature.fRefRead,
    RefWrite: Feature.fRefWrite, Constructor: Feature.fConstructor, Match: Feature.fMatch,
}  # fmt: skip
_ATOMS = (Var, GlobalVar, Constant, Op, Constructor)


def detect_feature(a: RelayExpr | IRModule, b: RelayExpr | IRModule | None = None) -> set[Feature]:
    """Return the features of an expression, a module, or both.

    Parameters
    ----------
    a : RelayExpr | IRModule
        An expression or a module.
    b : RelayExpr | IRModule, optional
        Another expression or module.

    Returns
    -------
    set[Feature]
        The features.
    """
    found: set[Feature] = set()
    for part in (a, b):
        roots = part.functions.values() if isinstance(part, IRModule) else () if part is None else (part,)
        for root in roots:
            found |= _features(root)
    return found


def _features(root: RelayExpr) -> set[Feature]:
    found: set[Feature] = set()
    used: set[int] = set()
    for node in post_order(root):
        kind = _KINDS.get(type(node))
        if kind is not None:
            found.add(kind)
        if type(node) is Let and node.var in free_vars(node.value):
            found.add(Feature.fLetRec)
        if type(node) is Function:
            found.update([Feature.fVar] if node.params else [])
        for child in node.children():
            if isinstance(child, _ATOMS):
                continue
            if id(child) in used:
                found.add(Feature.fGraph)
            used.add(id(child))
    return found


__all__ = ["Feature", "detect_feature"]
