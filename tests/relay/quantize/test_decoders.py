"""Decoders with dynamic sizes and a cache of keys and values, their weights in 8 and 4 bits."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tvm
from tests.relay.quantize.decoders import DECODERS, inputs_of
from tvm import relay
from tvm.relay.quantize.weights import WeightQuantization, grouped, matrix_of


def dequantized(g, bits: int):
    """The ONNX model with the values that the quantized matrices stand for."""

    def values(rows):
        group = rows.shape[1] if bits == 8 else 32
        return matrix_of(grouped(rows, bits, group), bits, rows.shape[1])

    for name in g.matrices:
        g.weights[name] = values(g.weights[name].T).T
    if g.tied is not None:
        table, node = g.tied
        node.input[0] = g.const(values(g.weights[table]))
    return g.model()


def quantized(g) -> tvm.IRModule:
    """The model with weights in 8 and in 4 bits, one pair of outputs, so that kernels without weights are shared."""
    mod, params = relay.frontend.from_onnx(g.model())
    funcs = []
    for bits in (8, 4):
        made = WeightQuantization(mod, params, bits=bits)
        assert len(made.losses) == len(g.matrices) + (g.tied is not None)
        funcs.append(made.mod["main"])
    other = relay.bind(funcs[1].body, dict(zip(funcs[1].params, funcs[0].params)))
    return tvm.IRModule.from_expr(relay.Function(funcs[0].params, relay.Tuple([funcs[0].body, other])))


@pytest.mark.parametrize("name", DECODERS)
def test_every_matrix_of_a_decoder_is_quantized(name):
    quantized(DECODERS[name]())


@pytest.mark.slow("calibrates and compiles whole networks")
def test_a_decoder_with_small_weights_equals_the_dequantized_model(rng):
    """Every seed has another one; TVM_CONFORMANCE_CASES=all has all of them."""
    names = sorted(DECODERS)
    for name in names if os.environ.get("TVM_CONFORMANCE_CASES") else [str(rng.choice(names))]:
        check(name)


def check(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    g = DECODERS[name]()
    mod = quantized(g)
    with tvm.transform.PassContext(opt_level=3):
        run = relay.create_executor("vm", mod, target="llvm").evaluate()
    sessions = [
        onnxruntime.InferenceSession(dequantized(DECODERS[name](), bits).SerializeToString()) for bits in (8, 4)
    ]
    for batch, past, length in ((2, 0, 5), (1, 6, 1), (3, 2, 9)):
        inputs = inputs_of(g, batch, past, length)
        made = run(*(inputs[p.name_hint] for p in mod["main"].params))
        for got, session in zip(made, sessions):
            want = session.run(None, inputs)
            assert len(got) == len(want) == 3
            for value, expected in zip(got, want):
                np.testing.assert_allclose(value.numpy(), expected, rtol=2e-4, atol=2e-4)
