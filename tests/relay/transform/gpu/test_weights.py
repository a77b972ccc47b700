"""Constant weights as GPU kernels read them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.relay.transform.gpu import GPUWeights


def dense(shape) -> tvm.IRModule:
    x, w = relay.var("x", shape=shape), relay.const(np.arange(50 * 64, dtype="float32").reshape(50, 64))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, w))))


@pytest.mark.parametrize("shape, wanted", [((64,), "nn.dense"), ((3, 64), "nn.matmul"), ((2, 3, 64), "nn.matmul")])
def test_dense_layers_of_matrices_are_matmuls_and_those_of_a_vector_stay(shape, wanted):
    with tvm.transform.PassContext(opt_level=3):
        body = GPUWeights()(dense(shape))["main"].body
    assert body.op.name == wanted and tuple(map(int, body.checked_type.shape)) == (*shape[:-1], 50)


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "opencl"])
def test_a_dense_layer_of_a_vector_is_compiled(target):
    from tvm.autotvm.task.relay_integration import kernels_of

    target = tvm.target.Target(target, host="llvm")
    ((function, _),) = kernels_of(dense((64,)), {}, target)
    assert "threadIdx.x" in str(KernelCompiler(target).lower(function).module)


def test_weights_that_were_transposed_do_not_stay_beside_their_copies():
    mod = dense((2, 64))
    held = weakref.ref(mod["main"].body.args[1].data)
    with tvm.transform.PassContext(opt_level=3):
        moved = GPUWeights()(mod)
    np.testing.assert_array_equal(moved["main"].body.args[1].data.numpy(), held().numpy().T)
    del mod
    gc.collect()
    assert held() is None
