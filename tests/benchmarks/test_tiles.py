"""The benchmark of tiles: turns of several knobs beside the peak around each of them."""

from types import SimpleNamespace

import pytest

from benchmarks import tiles
from tvm.target import Target
from tvm.te.graph import post_order_ops
from tvm.topi.cpu.machine import Machine

AMX = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1"


def test_a_rate_stands_beside_the_peak_around_its_turn(monkeypatch, capsys):
    peaks = iter([2000.0, 1000.0, 3000.0, 1000.0, 1000.0])
    monkeypatch.setattr(tiles, "peak_of", lambda kind: next(peaks))
    # The calls before the first turn are not counted; 1e12 operations in a second are 1000 GFLOPS.
    times = {"": iter([9.0, 1.0, 1.0]), "near=0": iter([9.0, 2.0, 0.5])}
    monkeypatch.setattr(tiles, "with_knobs", lambda name, kind, text, target: (lambda: [next(times[text])], 1e12))
    options = SimpleNamespace(target="llvm", turns=2, no_peak=False)
    tiles.report("row", "bf16", ["", "near=0"], options)
    first, second = capsys.readouterr().out.splitlines()
    # Turns of 1000 beside 1500 and 2000, and of 500 beside 2000 and 2000 beside 1000.
    assert "1000.0 GFLOPS (best turn 1000.0) 0.583 of 1750 (80 %: 0.500)" in first
    assert "1250.0 GFLOPS (best turn 2000.0) 1.125 of 1500 (80 %: 0.250)" in second


def test_knobs_are_those_of_the_row_and_others_are_refused(monkeypatch):
    chosen = []
    monkeypatch.setattr(tiles, "timed", lambda inputs, out, target: chosen.append(configuration(out, target)))
    monkeypatch.setitem(tiles.ROWS, "matmul 2048", lambda *a: tiles.dense(256, 64, 2048, *a))
    tiles.with_knobs("matmul 2048", "bf16", "", AMX)
    tiles.with_knobs("matmul 2048", "bf16", "near=3,packs=0@matmul 2048", AMX)
    (packed, before), (in_place, after) = chosen
    assert packed and not in_place and before["near"] != 3 and after["near"] == 3
    tiles.with_knobs("conv 3x3 128x28", "int8", "block=1x2x1", AMX)
    assert chosen[-1][1]["block"] == (1, 2, 1)
    with pytest.raises(SystemExit, match="unknown knob among nix; known: steps"):
        tiles.with_knobs("matmul 2048", "bf16", "nix=1", AMX)


def configuration(out, target):
    """Whether the lhs of a row is packed, and its knobs."""
    templates = {template.TAG: template for template in (tiles.conv2d_tiles, tiles.matmul_tiles)}
    (op,) = (op for op in post_order_ops([out.op]) if op.tag in templates)
    template = templates[op.tag]
    return op.attrs.get("is_packed"), template.TEMPLATE.choose(op, Machine(Target(target)))
