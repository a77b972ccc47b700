"""``tvm.ir.base``: alias module of Apache TVM for nodes, their comparison and their text form."""

from __future__ import annotations

from .env_func import EnvFunc
from .node import Node
from .serialize import load_json, save_json
from .span import SequentialSpan, SourceName, Span
from .structural import (
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)

__all__ = [
    "EnvFunc",
    "Node",
    "SequentialSpan",
    "SourceName",
    "Span",
    "assert_structural_equal",
    "get_first_structural_mismatch",
    "load_json",
    "save_json",
    "structural_equal",
    "structural_hash",
]
