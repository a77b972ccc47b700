"""Quantization played with real numbers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.topi import nn

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}


def run(simulate, data, dtype, scale, zero, axis):
    x, code = te.placeholder(data.shape, name="x"), te.placeholder((), "int32", name="code")
    s, z = te.placeholder((te.size_var("s"),), name="scale"), te.placeholder((te.size_var("z"),), "int32", name="zero")
    y = simulate(x, code, s, z, axis)
    out = tvm.nd.array(np.zeros(data.shape, "float32"))
    arrays = [data, np.array(nn.SQNN_DTYPE_TO_CODE[dtype], "int32"), scale, zero]
    tvm.build(te.create_schedule(y.op), [x, code, s, z, y], "llvm")(*(tvm.nd.array(a) for a in arrays), out)
    return out.numpy()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "disable"])
@pytest.mark.parametrize("channels, axis", [(1, -1), (5, 1), (2, -3)])
def test_numbers_are_what_integers_of_a_type_would_be(rng, dtype, channels, axis):
    data = rng.uniform(-40, 40, (2, 5, 3)).astype("float32")
    scale, zero = rng.uniform(0.1, 0.3, channels).astype("float32"), rng.integers(-9, 9, channels).astype("int32")
    wide = [1, 1, 1]
    wide[axis] = channels
    s, z = scale.reshape(wide), zero.reshape(wide)
    whole = data if dtype == "disable" else np.clip(np.round(data / s) + z, *LIMITS[dtype])
    np.testing.assert_array_equal(run(nn.simulated_quantize, data, dtype, scale, zero, axis), whole)
    back = data if dtype == "disable" else (data - z) * s
    np.testing.assert_allclose(run(nn.simulated_dequantize, data, dtype, scale, zero, axis), back, rtol=1e-6)


def test_parameters_that_are_no_vectors_are_refused():
    data, code, number = te.placeholder((2, 3)), te.placeholder((), "int32"), te.placeholder(())
    with pytest.raises(tvm.TVMError, match="the scale and the zero point must be vectors"):
        nn.simulated_quantize(data, code, number, number)
    vector = te.placeholder((1,))
    with pytest.raises(tvm.TVMError, match="the dtype code must be a scalar, got 1 dimensions"):
        nn.simulated_dequantize(data, vector, vector, vector)
    with pytest.raises(tvm.TVMError, match="axis 2 is out of range for 2 dimensions"):
        nn.simulated_quantize(data, code, vector, vector, axis=2)
