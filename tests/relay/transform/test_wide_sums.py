"""Sums of half-precision products are float32 inside a kernel, and results keep the type the graph asks for."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.op import OPS
from tvm.relay.infer import infer_type
from tvm.relay.transform.wide_sums import WideSums


def widened(e: relay.Expr) -> relay.Expr:
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(e), e)))
    return WideSums()(mod)["main"].body


def contraction(name: str, dtype: str, out_dtype: str) -> relay.Expr:
    if "conv" in name:
        rank = int(name[7])
        data, weight = relay.var("x", shape=(1, 4, *[7] * rank), dtype=dtype), relay.var("w", dtype=dtype)
        build = OPS.get(name).attrs["build"]
        return build(data, weight, channels=4, kernel_size=(3,) * rank, out_dtype=out_dtype)
    lead = (2,) if "batch" in name else ()
    data, weight = (relay.var(v, shape=(*lead, 5, 5), dtype=dtype) for v in "xw")
    return OPS.get(name).attrs["build"](data, weight, out_dtype=out_dtype)


NAMES = [name for name in OPS if OPS.get(name).attrs.get("contraction")]


def test_matmuls_and_convolutions_say_that_they_are_contractions():
    kinds = {name: OPS.get(name).attrs["contraction"] for name in NAMES}
    assert {n for n, kind in kinds.items() if kind == "matmul"} == {"nn.dense", "nn.matmul", "nn.batch_matmul"}
    shapes = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
    assert {n for n, kind in kinds.items() if kind == "convolution"} == {*shapes, *(f"{n}_transpose" for n in shapes)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_in_half_precision_are_summed_in_float32_and_cast_back(name, dtype):
    for out_dtype in ("", dtype):
        cast = widened(contraction(name, dtype, out_dtype))
        assert cast.op.name == "cast" and cast.attrs.dtype == dtype and infer_type(cast).checked_type.dtype == dtype
        assert cast.args[0].op.name == name and cast.args[0].attrs.out_dtype == "float32"


@pytest.mark.parametrize("dtype, out_dtype", [("float16", "float32"), ("float32", ""), ("int8", "int32")])
def test_other_result_types_stay_as_the_graph_has_them(dtype, out_dtype):
    call = widened(contraction("nn.dense", dtype, out_dtype))
    assert call.op.name == "nn.dense" and call.attrs.out_dtype == out_dtype


def test_a_long_sum_in_float16_is_rounded_once():
    # Summed in float16 it stops growing at 2048, where adding one rounds to the same number.
    x, w = relay.var("x", shape=(1, 4096), dtype="float16"), relay.var("w", shape=(3, 4096), dtype="float16")
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w, out_dtype="float16")))
    m = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    m.run(x=np.ones((1, 4096), "float16"), w=np.ones((3, 4096), "float16"))
    np.testing.assert_array_equal(m.get_output(0).numpy(), np.full((1, 3), 4096, "float16"))
