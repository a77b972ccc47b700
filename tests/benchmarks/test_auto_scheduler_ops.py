"""Ansor's single-operator test: every operator computes what NumPy does, and rows of any programs make a table."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

import tvm
from benchmarks import auto_scheduler_cases, auto_scheduler_ops, auto_scheduler_torch, harness
from benchmarks.auto_scheduler_cases import Case
from tvm import te
from tvm.topi import testing


def run(kind, *numbers):
    *inputs, out = auto_scheduler_cases.operator_of_ansor(kind, *numbers)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, [int(d) for d in t.shape]).astype("float32") for t in inputs]
    result = tvm.nd.empty([int(d) for d in out.shape])
    function = tvm.build(te.create_schedule(out.op), [*inputs, out], "llvm")
    function(*map(tvm.nd.array, arrays), result)
    return arrays, result.numpy()


def channels_first(kind, arrays):
    """An image and filters as PyTorch has them; of the shapes that it is told."""
    image, filters = arrays
    order = {"C1D": "WIO", "C3D": "DHWIO", "DEP": "HWOI", "T2D": "HWOI"}.get(kind, "HWIO")
    wanted = "OI" + "".join(letter for letter in order if letter not in "OI")
    found = [np.moveaxis(image, -1, 1), filters.transpose([order.index(letter) for letter in wanted])]
    assert [list(one.shape) for one in found] == auto_scheduler_torch.shapes_in_torch(
        kind, [one.shape for one in arrays]
    )
    return found


def direct(x, w, stride, pad, dilation=1, groups=1):
    """A convolution of any number of dimensions, written out."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * rank])
    reach = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    out = np.zeros((x.shape[0], w.shape[0], *((x.shape[2 + d] - reach[d]) // stride + 1 for d in range(rank))))
    own = w.shape[0] // groups
    for place in np.ndindex(*out.shape[2:]):
        cut = tuple(slice(p * stride, p * stride + r, dilation) for p, r in zip(place, reach))
        for group in range(groups):
            part = x[(slice(None), slice(group * w.shape[1], (group + 1) * w.shape[1]), *cut)]
            filters = w[group * own : (group + 1) * own]
            axes = list(range(1, 2 + rank))
            product = np.tensordot(part, filters, (axes, axes))
            out[(slice(None), slice(group * own, (group + 1) * own), *place)] = product
    return out


@pytest.mark.parametrize(
    "kind, numbers, options",
    [
        ("C1D", (2, 9, 3, 4, 3, 2, 1), {}),
        ("C2D", (2, 7, 3, 4, 3, 2, 1), {}),
        ("C3D", (1, 4, 5, 2, 3, 3, 2, 1), {}),
        ("GRP", (1, 5, 8, 4, 3, 1, 1), {"groups": 4}),
        ("DIL", (1, 7, 2, 3, 3, 1, 2), {"dilation": 2}),
        ("DEP", (1, 6, 4, 4, 3, 2, 1), {"groups": 4}),
    ],
)
def test_convolutions_are_those_of_their_class(kind, numbers, options):
    given, found = run(kind, *numbers)
    x, w = channels_first(kind, given)
    np.testing.assert_allclose(np.moveaxis(found, -1, 1), direct(x, w, *numbers[-2:], **options), rtol=1e-4, atol=1e-4)


def test_the_other_operators_are_those_of_their_class():
    for numbers in ((1, 4, 3, 2, 4, 2, 1), (2, 5, 2, 3, 3, 3, 0), (1, 3, 2, 2, 6, 2, 2)):
        given, found = run("T2D", *numbers)
        expected = testing.conv2d_transpose_nchw_python(*channels_first("T2D", given), *numbers[-2:], (0, 0))
        np.testing.assert_allclose(np.moveaxis(found, -1, 1), expected, rtol=1e-4, atol=1e-4)
    (a, b), found = run("GMM", 2, 3, 4, 5)
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)
    (x,), found = run("NRM", 3, 5, 6)
    np.testing.assert_allclose(found, np.linalg.norm(x, axis=(1, 2)), rtol=1e-5)
    (x, w), found = run("CAP", 1, 5, 2, 3, 3, 2, 1)
    x = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)])
    windows = np.array([[x[0, 2 * h : 2 * h + 3, 2 * v : 2 * v + 3] for v in range(3)] for h in range(3)])
    np.testing.assert_allclose(found[0], np.einsum("hvrscik,rscokj->hvoij", windows, w), rtol=1e-4, atol=1e-4)


def test_there_are_ten_classes_of_three_shapes_and_two_batches():
    found = auto_scheduler_cases.cases()
    assert len(found) == len({case.name for case in found}) == 60
    assert list(auto_scheduler_cases.COMPUTES) == list(auto_scheduler_cases.SHAPES)
    assert len(auto_scheduler_cases.SHAPES) == 10


def test_a_case_is_tuned_and_timed_and_what_is_missing_is_named(tmp_path, monkeypatch, capsys):
    pytest.importorskip("xgboost")
    monkeypatch.setitem(auto_scheduler_cases.SHAPES, "NRM", [(8, 8)])
    case = Case("NRM", 1, (8, 8))
    assert auto_scheduler_ops.tune(case, 2, str(tmp_path)) == auto_scheduler_ops.tune(case, 2, str(tmp_path)) == 2
    given = {"kind": "NRM", "batch": 1, "numbers": [8, 8], "inputs": [[1, 8, 8]], "records": str(tmp_path)}
    monkeypatch.setenv(auto_scheduler_torch.CASE, json.dumps(given))
    for function in (auto_scheduler_ops.searched, auto_scheduler_ops.default):
        assert function()() > 0
    assert "python -m tools peers" in auto_scheduler_ops.missing(str(tmp_path / "python"))
    with pytest.raises(SystemExit):
        auto_scheduler_ops.parsed(["--kinds", "C2D,C4D"])
    assert "unknown class C4D; known: C1D" in capsys.readouterr().err


def test_a_program_that_does_not_run_costs_its_own_time_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(auto_scheduler_ops, "tune", lambda *_: 3)

    def interleave(peers, rounds, seconds):
        if "torch" in peers:
            raise harness.PeerEnded("torch", "ready")
        return {name: harness.Result(name, [1e-3] * rounds) for name in peers}

    monkeypatch.setattr(harness, "interleave", interleave)
    options = auto_scheduler_ops.parsed(["--rounds", "2", "--records", str(tmp_path)])
    row = auto_scheduler_ops.measure(Case("NRM", 1, (8, 8)), options, ["torch"])
    assert sorted(row["seconds"]) == ["default schedule", "searched"] and row["records"] == 3
    assert row["problem"] == "benchmark 'torch' ended before it printed 'ready'"


def test_rows_with_and_without_peers_make_a_table():
    times = {"searched": 1e-3, "default schedule": 2e-3}
    rows = [
        {"case": "a", "kind": "C2D", "seconds": {**times, "torch": 4e-3, "torch.compile": 2e-3}},
        {"case": "b", "kind": "GMM", "seconds": {**times, "torch": 5e-4}},
        {"case": "c", "kind": "GMM", "seconds": {}, "problem": "it ended"},
    ]
    text = auto_scheduler_ops.table(rows)
    assert "| a | 1.000 | 2.000 | 4.000 | - | 2.000 | 0.50 | 0.50 |" in text
    assert "| b | 1.000 | 2.000 | 0.500 | - | - | 2.00 | 0.50 |" in text and "| c (it ended) | - |" in text
    assert "against PyTorch (its best): faster on 1 of 2, geometric mean of times 1.00" in text
    assert "against default schedules: faster on 2 of 2, geometric mean of times 0.50" in text
    assert "against PyTorch (its best): not measured" in auto_scheduler_ops.table(
        [{"case": "d", "kind": "NRM", "seconds": times}]
    )


@pytest.mark.slow("runs a benchmark from its start to its end")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2 or shutil.which("taskset") is None, reason="two cores and taskset")
def test_cases_side_by_side_are_measured_once(tmp_path, capsys):
    pytest.importorskip("xgboost")
    command = ["--jobs", "2", "--cores-each", "1", "--kinds", "NRM", "--batches", "1", "--shapes", "2", "--trials", "2",
               "--rounds", "2", "--records", str(tmp_path / "records"), "--output", str(tmp_path / "table.json"),
               "--peer-python", str(tmp_path / "no_python")]  # fmt: skip
    assert auto_scheduler_ops.main([*command, "--seconds", "-1"]) == []
    assert "time limit: 2 cases are left; repeat the command to continue" in capsys.readouterr().out
    rows = auto_scheduler_ops.main(command)
    assert [row["case"] for row in rows] == ["NRM b1 256x256", "NRM b1 512x512"]
    assert all(row["records"] == 2 and row["cores"] == 1 and row["seconds"]["searched"] > 0 for row in rows)
    capsys.readouterr()
    stamps = [file.stat().st_mtime_ns for file in sorted((tmp_path / "records").iterdir())]
    assert auto_scheduler_ops.main(command) == rows and "| NRM b1 512x512 |" in capsys.readouterr().out
    assert stamps == [file.stat().st_mtime_ns for file in sorted((tmp_path / "records").iterdir())]
    assert json.loads((tmp_path / "table.json").read_text())["rows"] == rows
    with pytest.raises(SystemExit, match="jobs with 2 cores each need"):
        auto_scheduler_ops.core_groups(1000, 2)
    with pytest.raises(SystemExit, match="unknown case 'C9D'"):
        auto_scheduler_ops.main(["--only", "C9D", *command])
