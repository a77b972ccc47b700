"""Random numbers: the published test vectors of Threefry, the same numbers again, distributions, independence."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.topi.evaluate import evaluate, run
from tvm import te, topi
from tvm.topi.random import Threefry


def state(seed=7):
    words = np.zeros(10, "uint64")
    words[0], words[8] = seed, 1 << 63
    return words


def test_threefry_gives_the_published_words():
    """Known answers for threefry4x64-20 distributed with Random123."""
    key, counter = (te.placeholder((4,), "uint64", name=n) for n in ("key", "counter"))

    def statement(ins, outs):
        ib = tvm.tir.ir_builder.create()
        given, of, result = (ib.buffer_ptr(b) for b in (*ins, *outs))
        threefry = Threefry(ib)
        threefry.set_key([given[n] for n in range(4)])
        threefry.block([of[n] for n in range(4)])
        for n in range(4):
            result[n] = threefry.words[n]
        return ib.get()

    out = te.extern([(4,)], [key, counter], statement, dtype="uint64", name="words")
    ones = [2**64 - 1] * 4
    pi = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89]
    pi_key = [0x452821E638D01377, 0xBE5466CF34E90C6C, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD]
    for given, of, wanted in (
        ([0] * 4, [0] * 4, [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]),
        (ones, ones, [0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168]),
        (pi, pi_key, [0xA7E8FDE591651BD9, 0xBAAFD0C30138319B, 0x84A5C1A729E685B9, 0x901D406CCEBC1BA4]),
    ):  # fmt: skip
        arrays = [np.array(of, "uint64"), np.array(given, "uint64")]
        assert run([key, counter], out, arrays).tolist() == wanted


def test_the_same_state_gives_the_same_numbers_and_counts_on():
    after, first = evaluate([state()], lambda g: topi.random.threefry_generate(g, (3, 5)))
    again = evaluate([state()], lambda g: topi.random.threefry_generate(g, (3, 5)))[1]
    np.testing.assert_array_equal(first, again)
    assert after[9] == 4 and (after[:9] == state()[:9]).all()
    following = evaluate([after], lambda g: topi.random.threefry_generate(g, (4,)))[1]
    whole = evaluate([state()], lambda g: topi.random.threefry_generate(g, (20,)))[1]
    np.testing.assert_array_equal(whole[:15], first.ravel())
    np.testing.assert_array_equal(whole[16:20], following)


def test_split_states_differ():
    left, right = evaluate([state()], topi.random.threefry_split)
    draws = [evaluate([s], lambda g: topi.random.threefry_generate(g, (64,)))[1] for s in (state(), left, right)]
    assert len(np.unique(np.concatenate(draws))) == 192


def test_uniform_and_normal():
    n = 20000
    for dtype in ("float32", "float64", "float16"):
        _, x = evaluate([state()], lambda g: topi.random.uniform(g, -1.0, 3.0, (n,), dtype))
        assert x.min() >= -1 and x.max() < 3
        x = x.astype("float64")
        assert abs(x.mean() - 1) < 0.05 and abs(x.var() - 16 / 12) < 0.05
    _, z = evaluate([state(3)], lambda g: topi.random.normal(g, 2.0, 0.5, (n,), "float32"))
    assert abs(z.mean() - 2) < 0.02 and abs(z.std() - 0.5) < 0.02 and np.isfinite(z).all()
    tail = np.mean(np.abs(z - 2) > 1.0)
    assert 0.035 < tail < 0.056  # two standard deviations: 4.55 %
    with pytest.raises(TypeError, match="the dtype of random numbers must be"):
        topi.random.uniform(te.placeholder((10,), "uint64"), 0, 1, (3,), "int32")
    with pytest.raises(TypeError, match="10 words of uint64"):
        topi.random.uniform(te.placeholder((9,), "uint64"), 0, 1, (3,), "float32")


def test_multinomial_draws_by_weight():
    weights = np.array([[1, 0, 3], [0, 5, 0]], "float32")
    _, places = evaluate([state(), weights], lambda g, p: topi.random.multinomial(g, p, 4000))
    share = np.bincount(places[0], minlength=3) / 4000
    assert share[1] == 0 and abs(share[2] - 0.75) < 0.03
    assert (places[1] == 1).all()
