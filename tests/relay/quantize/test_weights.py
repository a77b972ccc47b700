"""Weights of dense layers in 8 and 4 bits: the operator, its kernel for CPUs, and models that read it."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.cpus import BASELINE, OLDER
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import TVMError
from tvm.relay.quantize import weights
from tvm.relay.quantize.weights import WeightQuantization, grouped, matrix_of, quantize_weights


def run(mod, opt_level=3, target="llvm", **inputs):
    with tvm.transform.PassContext(opt_level=opt_level):
        built = relay.build(mod, target)
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    executor.run(**inputs)
    return executor.get_output(0).numpy(), built


def dense_model(weight, rows, bias=False):
    x = relay.var("x", shape=(*rows, weight.shape[1]))
    out = relay.nn.dense(x, relay.const(weight))
    if bias:
        out = relay.nn.relu(relay.add(out, relay.const(np.float32(0.5))))
    return tvm.IRModule.from_expr(out)


@pytest.mark.parametrize("bits", [8, 4])
def test_integers_are_the_nearest_and_come_back(bits, rng):
    weight = rng.normal(size=(7, 70)).astype("float32")
    made = grouped(weight, bits, 32)
    assert made.bytes.shape == (7, 96 * bits // 8) and made.scale.shape == (7, 3) and made.bytes.dtype == "int8"
    back = matrix_of(made, bits, 70)
    step = np.repeat(made.scale, 32, 1)[:, :70]
    last = 2 ** (bits - 1) - 1
    clipped = np.clip(weight, -last * step, last * step)
    np.testing.assert_array_less(np.abs(back - clipped), step * 0.5001)
    # Searching for the reach of a group is never worse than taking its largest weight.
    plain = np.abs(np.pad(weight, ((0, 0), (0, 26)))).reshape(7, 3, 32).max(2) / last
    at_most = np.round(weight / np.repeat(plain, 32, 1)[:, :70]) * np.repeat(plain, 32, 1)[:, :70]
    assert np.square(back - weight).sum() <= np.square(at_most - weight).sum() * 1.0001


def test_zero_weights_and_one_feature_have_integers():
    assert not matrix_of(grouped(np.zeros((3, 4), "float32"), 4, 2), 4, 4).any()
    one = np.float32([[2.5], [-1.0]])
    np.testing.assert_allclose(matrix_of(grouped(one, 4, 2), 4, 1), one, rtol=1e-6)


@pytest.mark.parametrize("bits, group", [(8, 0), (8, 16), (4, 32), (4, 128)])
@pytest.mark.parametrize("rows, units, features", [((1,), 64, 64), ((3,), 50, 70), ((2, 5), 33, 130), ((17,), 7, 1)])
@pytest.mark.parametrize("opt_level", [1, 3])
def test_a_dense_layer_computes_with_the_integers(bits, group, rows, units, features, opt_level, rng):
    weight = rng.normal(size=(units, features)).astype("float32")
    x = rng.normal(size=(*rows, features)).astype("float32")
    mod = quantize_weights(dense_model(weight, rows, bias=True), bits=bits, group_size=group)
    got, _ = run(mod, opt_level, x=x)
    meant = matrix_of(grouped(weight, bits, group or features + features % 2), bits, features)
    want = np.maximum(x.astype("float64") @ meant.T.astype("float64") + 0.5, 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", [f"llvm -mcpu={BASELINE}", f"llvm -mcpu={OLDER}", "c"])
def test_other_processors_compute_the_same(target, rng):
    weight, x = rng.normal(size=(40, 96)).astype("float32"), rng.normal(size=(5, 96)).astype("float32")
    mod = quantize_weights(dense_model(weight, (5,)), bits=4)
    got, _ = run(mod, 3, target, x=x)
    np.testing.assert_allclose(got, x @ matrix_of(grouped(weight, 4, 32), 4, 96).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opt_level", [2, 3])
@pytest.mark.parametrize("bits", [8, 4])
def test_a_dynamic_number_of_rows(bits, opt_level, rng):
    weight = rng.normal(size=(40, 96)).astype("float32")
    mod = tvm.IRModule.from_expr(relay.nn.dense(relay.var("x", shape=(relay.Any(), 96)), relay.const(weight)))
    mod = quantize_weights(mod, bits=bits)
    with tvm.transform.PassContext(opt_level=opt_level):
        evaluate = relay.create_executor("vm", mod, target="llvm").evaluate()
    meant = matrix_of(grouped(weight, bits, 96 if bits == 8 else 32), bits, 96)
    for rows in (1, 7, 50):
        x = rng.normal(size=(rows, 96)).astype("float32")
        want = x @ meant.T
        np.testing.assert_allclose(evaluate(x).numpy(), want, rtol=1e-4, atol=1e-4)


def test_products_of_all_kinds_are_found_and_others_stay(rng):
    a, b = rng.normal(size=(1, 32, 16)).astype("float32"), rng.normal(size=(16, 24)).astype("float32")
    x = relay.var("x", shape=(3, 4, 32))
    first = relay.nn.batch_matmul(x, relay.const(a), transpose_b=False)
    second = relay.nn.matmul(first, relay.const(b))
    out = relay.nn.batch_matmul(second, second)
    float_mod = tvm.IRModule.from_expr(out)
    made = WeightQuantization(float_mod, bits=8)
    assert len(made.losses) == 2 and len(made.left) == 1
    data = rng.normal(size=(3, 4, 32)).astype("float32")
    got, want = run(made.mod, x=data)[0], run(float_mod, x=data)[0]
    assert np.abs(got - want).max() < 0.03 * np.abs(want).max()
    skipped = WeightQuantization(float_mod, bits=8, skip=["nn.matmul"])
    assert len(skipped.losses) == 1 and len(skipped.left) == 2


def test_a_wrong_name_of_a_layer_is_rejected_before_weights_are_quantized(rng, monkeypatch):
    def quantized(*args):
        raise AssertionError("the weights were quantized first")

    monkeypatch.setattr(weights, "grouped", quantized)
    with pytest.raises(TVMError, match="there is no layer 'dens'"):
        WeightQuantization(dense_model(rng.normal(size=(8, 16)).astype("float32"), (1,)), skip=["dens"])


def test_weights_stay_packed_in_the_package(rng):
    weight = rng.normal(size=(256, 512)).astype("float32")
    sizes = {}
    for bits in (32, 8, 4):
        mod = dense_model(weight, (1,))
        mod = mod if bits == 32 else quantize_weights(mod, bits=bits)
        _, built = run(mod, x=np.zeros((1, 512), "float32"))
        sizes[bits] = sum(p.numpy().nbytes for p in built.get_params().values())
    assert sizes == {32: 256 * 512 * 4, 8: 256 * (512 + 4), 4: 256 * (256 + 4 * 16)}


def test_what_cannot_be_is_refused(rng):
    mod = dense_model(rng.normal(size=(4, 8)).astype("float32"), (1,))
    with pytest.raises(tvm.TVMError, match="quantize_weights: bits must be 8 or 4, got 3"):
        quantize_weights(mod, bits=3)
    with pytest.raises(tvm.TVMError, match="even number of features or 0, got 7"):
        quantize_weights(mod, bits=4, group_size=7)

    def typed(bits=8, group_size=32, weight=(4, 64), scale=(4, 2), units=None, dtype="int8"):
        x, w, s = relay.var("x", shape=(1, 64)), relay.var("w", shape=weight, dtype=dtype), relay.var("s", shape=scale)
        made = relay.nn.contrib_dense_nbits(x, w, s, bits, group_size, units)
        return relay.transform.InferType()(tvm.IRModule.from_expr(made))["main"].ret_type

    assert tuple(typed().shape) == (1, 4)
    for words, given in {
        "bits must be 8 or 4, got 5": {"bits": 5},
        "must fill whole bytes": {"bits": 4, "group_size": 3},
        "require 2 scales and 64 bytes": {"weight": (4, 60)},
        "require 2 scales": {"scale": (4, 3)},
        r"got \(4, 64\) and \(3, 2\)": {"scale": (3, 2)},
        "units is 5": {"units": 5},
        "weight must be int8, got uint8": {"dtype": "uint8"},
    }.items():
        with pytest.raises(Exception, match=words):
            typed(**given)


def language_model(rng, width=64, heads=4, length=8, words=96, layers=1) -> tvm.IRModule:
    """A decoder as GPT-2's: tokens in, the scores of the next one out."""

    def weight(*shape):
        return relay.const((rng.normal(size=shape) / np.sqrt(shape[-1])).astype("float32"))

    def normal(x):
        ones, zeros = (relay.const(f(width, "float32")) for f in (np.ones, np.zeros))
        return relay.nn.layer_norm(x, ones, zeros)

    def heads_of(x):
        parts = relay.transpose(relay.reshape(x, (length, heads, width // heads)), (1, 0, 2))
        return relay.reshape(parts, (heads, length, width // heads))

    mask = relay.const(np.where(np.tril(np.ones((length, length))), 0, -1e9).astype("float32"))
    embedding = weight(words, width)
    x = relay.take(embedding, relay.var("tokens", shape=(length,), dtype="int32"), axis=0)
    for _ in range(layers):
        y = normal(x)
        q, k, v = (heads_of(relay.nn.dense(y, weight(width, width))) for _ in range(3))
        scores = relay.divide(relay.nn.batch_matmul(q, k), relay.const(np.float32((width // heads) ** 0.5)))
        scores = relay.add(scores, mask)
        mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
        mixed = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (length, width))
        x = relay.add(x, relay.nn.dense(mixed, weight(width, width)))
        inner = relay.nn.relu(relay.nn.dense(normal(x), weight(4 * width, width)))
        x = relay.add(x, relay.nn.dense(inner, weight(width, 4 * width)))
    return tvm.IRModule.from_expr(relay.nn.dense(normal(x), embedding))


@pytest.mark.parametrize("bits, decibels, share", [(8, 34.0, 0.3), (4, 13.0, 0.2)])
def test_a_language_model_loses_little_and_takes_a_part_of_the_memory(bits, decibels, share):
    rng = np.random.default_rng(11)
    float_mod = language_model(rng)
    made = WeightQuantization(float_mod, bits=bits)
    # The table of words is looked up in float as well.
    assert len(made.losses) == 7 and len(made.left) == 2
    assert sum(loss.after for loss in made.losses) < share * sum(loss.before for loss in made.losses)
    tokens = rng.integers(0, 96, 8).astype("int32")
    want, got = run(float_mod, tokens=tokens)[0], run(made.mod, tokens=tokens)[0]
    lost = 10 * np.log10(np.square(want).sum() / np.square(got - want).sum())
    assert lost > decibels, f"{lost:.1f} dB"
