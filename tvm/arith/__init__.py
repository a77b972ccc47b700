"""Integer analysis of scalar expressions: bounds, divisibility, simplification and integer sets."""

from __future__ import annotations

from typing import Any

from . import int_set
from .analyzer import Analyzer, ConstIntBound, Extension, ModularSet, ProofStrength
from .compare import expr_deep_equal
from .interval_set import IntervalSet, IntSet, eval_set, intersect, union, union_lower_bound
from .rewrite_make import stats

__all__ = [
    "Analyzer",
    "ConstIntBound",
    "Extension",
    "IntSet",
    "IntervalSet",
    "ModularSet",
    "ProofStrength",
    "eval_set",
    "expr_deep_equal",
    "int_set",
    "intersect",
    "stats",
    "union",
    "union_lower_bound",
]

# Names defined in submodules that are imported on first use.
_LAZY = {
    "bound_deducer": ("deduce_bound",),
    "domain": ("domain_touched",),
    "linear": ("detect_clip_bound", "detect_linear_equation"),
    "iter_map": (
        "IterMapExpr",
        "IterMapLevel",
        "IterMapResult",
        "IterMark",
        "IterSplitExpr",
        "IterSumExpr",
        "detect_iter_map",
        "inverse_affine_iter_map",
        "iter_map_simplify",
        "normalize_iter_map_to_expr",
        "normalize_to_iter_sum",
        "subspace_divide",
    ),
    "region": (
        "estimate_region_lower_bound",
        "estimate_region_strict_bound",
        "estimate_region_upper_bound",
    ),
    "solve": (
        "solve_linear_equations",
        "solve_linear_inequalities",
        "IntConstraints",
        "IntConstraintsTransform",
        "IntGroupBounds",
    ),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}
# Submodules that are public modules of Apache TVM.
_MODULES = frozenset({"_ffi_api", "analyzer", "bound", "int_solver", "iter_affine_map", "pattern"})


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'tvm.arith' has no attribute '{name}'")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
