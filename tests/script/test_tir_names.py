"""``from tvm.script import tir as T``: names of expressions work, functions in TVMScript refuse to be used."""

import pytest

import tvm
from tvm.not_built import FeatureNotBuilt
from tvm.script import ir as I
from tvm.script import tir as T


@T.prim_func
def scale(
    a: T.handle,
    B: T.Buffer((16,), "float32"),
    C: T.Buffer[(4, 4), "int8"],  # noqa: F821
    n: T.int32,
    p: T.Ptr[T.float32],
):
    T.func_attr({"global_symbol": "scale"})
    for i in T.serial(16):
        B[i] = B[i] * 2.0


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def main(a: T.handle):
        T.evaluate(0)


@pytest.mark.parametrize(
    "use",
    [lambda: scale.body, lambda: Module["main"], lambda: scale.with_attr("k", 1), lambda: T.axis.spatial(16, 0),
     lambda: tvm.script.from_source("")],
    ids=["field", "index", "method", "statement", "source"],
)  # fmt: skip
def test_a_function_in_tvmscript_refuses_to_be_used(use):
    with pytest.raises(FeatureNotBuilt, match="reading TVMScript is not available yet"):
        use()


def test_building_a_function_in_tvmscript_says_what_is_missing():
    with pytest.raises(ValueError, match="prim_func of 'scale': reading TVMScript is not available yet"):
        tvm.build(scale, target="llvm")


def test_names_of_expressions_make_expressions():
    x = tvm.tir.Var("x", "float32")
    tvm.ir.assert_structural_equal(T.exp(x), tvm.tir.exp(x))
    tvm.ir.assert_structural_equal(T.int64(3), tvm.tir.const(3, "int64"))
    tvm.ir.assert_structural_equal(T.float16(x), tvm.tir.Cast("float16", x))
    tvm.ir.assert_structural_equal(T.Select(x > 0.0, x, T.float32(0)), tvm.tir.Select(x > 0.0, x, T.float32(0)))
    assert T.int32().dtype == "int32" and T.handle("float32", "shared").type_annotation.storage_scope == "shared"
    buffer = T.Buffer((4, 8), "int8", scope="local")
    assert buffer.dtype == "int8" and [int(d) for d in buffer.shape] == [4, 8] and buffer.scope() == "local"
    y = tvm.tir.Var("y", "float32")
    tvm.ir.assert_structural_equal(T.Let(x + y, {x: y}), tvm.tir.Let(x, y, x + y))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        T.nothing
