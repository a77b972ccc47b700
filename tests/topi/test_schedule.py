"""The schedules of the CPU change no result: every family of operators, alone and fused, against the plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.topi.evaluate import evaluate
from tvm import te, topi
from tvm.topi.schedule import schedule_for

FAMILIES = {
    "elementwise": lambda a, b, i: topi.tanh(a) * 2 + topi.clip(b, -1, 1),
    "reduction": lambda a, b, i: topi.sum(topi.exp(a), 1, True),
    "reduction of all": lambda a, b, i: topi.max(topi.abs(a)),
    "after a reduction": lambda a, b, i: topi.divide(a, topi.sum(topi.abs(a), -1, True) + 1.0),
    "place": lambda a, b, i: topi.argmax(a, 0),
    "transpose": lambda a, b, i: topi.transpose(topi.add(a, b)),
    "reshape": lambda a, b, i: topi.reshape(topi.transpose(a), (-1,)),
    "concatenate": lambda a, b, i: topi.concatenate([a, topi.negative(b), a], 1),
    "stack": lambda a, b, i: topi.stack([a, b], 0),
    "take": lambda a, b, i: topi.exp(topi.take(a, i, 1)),
    "slice": lambda a, b, i: topi.strided_slice(a, [1, -1], [100, 0], [2, -3]) * 3.0,
    "sort": lambda a, b, i: topi.exp(topi.sort(topi.add(a, b), 1)),
    "scan": lambda a, b, i: topi.cumsum(topi.multiply(a, b), 1) - 1.0,
    "matmul": lambda a, b, i: topi.matmul(a, b, False, True),
    "einsum": lambda a, b, i: topi.einsum("ij,ij->i", a, b),
    "resize": lambda a, b, i: topi.image.resize2d(topi.expand_dims(a, 0, 2), None, (7, 9), method="cubic"),
    "layout": lambda a, b, i: topi.layout_transform(topi.expand_dims(topi.expand_dims(a, 0), -1), "NCHW", "NCHW4c"),
}


@pytest.mark.parametrize("shape", [(5, 37), (1, 1), (64, 32)])
def test_results_stay(rng, shape):
    a, b = (rng.normal(size=shape).astype("float32") for _ in range(2))
    i = rng.integers(0, shape[1], 7).astype("int64")
    make = lambda *t: [family(*t) for family in FAMILIES.values()]
    plain = evaluate([a, b, i], make)
    scheduled = evaluate([a, b, i], make, schedule_for=schedule_for)
    for name, first, second in zip(FAMILIES, plain, scheduled):
        np.testing.assert_allclose(second, first, rtol=1e-4, atol=1e-5, err_msg=name)


def test_tensors_without_elements():
    a = np.zeros((3, 0), "float32")
    made = evaluate(
        [a], lambda t: [topi.exp(t), topi.transpose(t), topi.sum(t, 1), topi.sum(t, 0)], schedule_for=schedule_for
    )
    assert [m.shape for m in made] == [(3, 0), (0, 3), (3,), (0,)]
    assert not made[2].any()


def test_transpositions_go_along_the_lines_they_read():
    target = tvm.target.Target("llvm")
    with target:
        a = te.placeholder((128, 768), name="a")
        out = topi.reshape(topi.transpose(topi.reshape(a, (1, 128, 12, 64)), (0, 2, 3, 1)), (12, 64, 128))
        s = schedule_for([out], target)
        text = str(tvm.lower(s, [a, out]))
        built = tvm.build(s, [a, out], target)
    # The innermost loop runs over the 64 that lie side by side in the input, not over blocks of the 128.
    assert "in range(64)" in text
    data = np.random.default_rng(0).random((128, 768), dtype="float32")
    got = tvm.nd.empty((12, 64, 128))
    built(tvm.nd.array(data), got)
    np.testing.assert_array_equal(got.numpy(), data.reshape(128, 12, 64).transpose(1, 2, 0))
