"""Fourier transforms against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import evaluate
from tvm import te, topi


@pytest.mark.parametrize("shape", [(7,), (3, 16), (1, 1)])
@pytest.mark.parametrize("inverse", [False, True])
def test_dft(rng, shape, inverse):
    re, im = (rng.normal(size=shape).astype("float32") for _ in range(2))
    got = evaluate([re, im], lambda a, b: topi.dft(a, b, inverse))
    wanted = (np.fft.ifft if inverse else np.fft.fft)(re + 1j * im)
    np.testing.assert_allclose(got[0], wanted.real, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[1], wanted.imag, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="real and imaginary part have different shapes"):
        topi.dft(te.placeholder((3,)), te.placeholder((4,)), False)


@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize("onesided, normalized, length", [(True, False, 16), (False, True, 10)])
def test_stft(rng, onesided, normalized, length, kind):
    data, window = rng.normal(size=(2, 50)).astype("float32"), (rng.random(length) * 3).astype(kind)
    got = evaluate([data, window], lambda d, w: topi.stft(d, 16, 5, length, w, normalized, onesided))
    padded = np.zeros(16)
    before = (16 - length) // 2
    padded[before : before + length] = window
    frames = np.stack([data[:, n : n + 16] * padded for n in range(0, 50 - 16 + 1, 5)], 1)
    wanted = (np.fft.rfft if onesided else np.fft.fft)(frames).transpose(0, 2, 1) / (4 if normalized else 1)
    np.testing.assert_allclose(got[..., 0], wanted.real, rtol=1e-3, atol=3e-4)
    np.testing.assert_allclose(got[..., 1], wanted.imag, rtol=1e-3, atol=3e-4)
