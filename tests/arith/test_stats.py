"""The simplifier's own counters."""

from __future__ import annotations

import tvm
from tvm import te, tir
from tvm.arith import Analyzer, stats

# Counted when this was last written.
VISITS, ATTEMPTS, FIRED = 274, 757, 28


def test_work_on_a_fixed_corpus_does_not_grow():
    """Visits, attempts and firings over index expressions of a tiled convolution: a regression shows as +10 %."""
    stats.reset()
    an = Analyzer()
    n, ic, kh, kw, ho, hi, wo, wi = (te.var(name) for name in ("n", "ic", "kh", "kw", "ho", "hi", "wo", "wi"))
    for var, extent in ((n, 4), (ic, 64), (kh, 3), (kw, 3), (ho, 7), (hi, 8), (wo, 4), (wi, 14)):
        an.bind(var, tvm.ir.Range(0, extent))
    h, w, fused = ho * 8 + hi, wo * 14 + wi, (n * 7 + ho) * 4 + wo
    flat = ((n * 64 + ic) * 58 + h + kh) * 58 + w + kw
    inside = tir.all(h + kh >= 1, h + kh < 57, w + kw >= 1, w + kw < 57)
    corpus = [
        flat,
        (((fused // 28) * 64 + ic) * 58 + fused // 4 % 7 * 8 + hi + kh) * 58 + fused % 4 * 14 + wi + kw,
        tir.Select(inside, ((n * 64 + ic) * 56 + h + kh - 1) * 56 + (w + kw - 1), 0),
        flat // 4 % 16 + flat % 4,
        h < 56,
        fused < 112,
        tir.min(h * 4 + 3, 223) - h * 4,
        tir.max(w - 1, 0) + tir.truncdiv(w * 8 + kw, 8),
        tir.if_then_else(tir.any(h < 3, w * 2 + 1 < 7), (h + 5) // 8 * 8 + (h + 5) % 8, w),
    ]
    for e in corpus:
        an.simplify(e)
        an.rewrite_simplify(e)
    limit = {"visits": VISITS, "attempts": ATTEMPTS, "fired": FIRED}
    for name, most in limit.items():
        got = getattr(stats, name)
        assert got <= most * 1.1, f"{name} was {most} when this was written and is {got} now"
        assert got >= most * 0.5, f"{name} fell from {most} to {got}: write the smaller number into this test"
