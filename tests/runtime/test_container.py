"""Containers under classic names."""

from __future__ import annotations

import tvm
from tvm import runtime, te


def test_shapes_equal_tuples_and_lists_and_hash_as_tuples():
    shape = runtime.ShapeTuple([7, 8, 9])
    assert shape == (7, 8, 9) and shape == [7, 8, 9] and shape != [7, 8] and shape != "789"
    assert {shape: 1}[(7, 8, 9)] == 1 and shape[-1] == 9


def test_everything_says_what_kind_it_is():
    kinds = [runtime.convert([1]), runtime.convert({"a": 1}), runtime.String("x"), runtime.ShapeTuple([1])]
    assert [k.type_key for k in kinds] == ["Array", "Map", "runtime.String", "runtime.ShapeTuple"]
    nodes = [tvm.tir.const(1), te.var("x"), te.placeholder((1,)), tvm.IRModule({})]
    assert [n.type_key for n in nodes] == ["IntImm", "tir.Var", "Tensor", "IRModule"]
