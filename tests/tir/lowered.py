"""Helpers of the pass tests: run a function before and after a pass and compare."""

from __future__ import annotations

import numpy as np
from interpreter import run

from tvm.ir.prim import Var
from tvm.ir.visit import post_order
from tvm.tir.function import PrimFunc
from tvm.tir.transform.storage_flatten import storage_flatten


def of(kind, node) -> list:
    body = node.body if isinstance(node, PrimFunc) else node
    return [n for n in post_order(body) if isinstance(n, kind)]


def var(name: str, dtype: str = "int32") -> Var:
    return Var(name, dtype)


def results(func, arrays, externs=None) -> list:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
    run(func, *copies, externs=externs)
    return copies


def same_result(function_pass, func, *arrays, externs=None, flatten=False):
    """``function_pass(func)``, after comparing what both compute on the arrays."""
    func = storage_flatten(func) if flatten else func
    new = function_pass(func)
    for a, b in zip(results(func, arrays, externs), results(new, arrays, externs)):
        np.testing.assert_array_equal(a, b)
    return new
