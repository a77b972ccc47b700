"""The search among configurations of a large product: what it tries, in which order, and what it prints."""

from __future__ import annotations

import time

import pytest

from benchmarks.gpu import search

TARGET = "cuda -arch=sm_90"


@pytest.mark.parametrize("kind", list(search.KINDS))
def test_candidates_are_all_different_and_begin_with_the_pick_and_different_tiles(kind):
    import tvm
    from tvm.topi.gpu.gemm import Sizes
    from tvm.topi.gpu.machine import Machine

    made = search.candidates(512, kind, TARGET)
    bytes_of = 2 if kind.endswith("float16") else 4
    picked = search.template_of(kind).choose(Sizes(1, 512, 512, 512, bytes_of), Machine(tvm.target.Target(TARGET)))
    assert made[0].config == picked
    assert len({repr(sorted(c.config.items())) for c in made}) == len(made)
    shapes = [(c.config["tile"], c.config.get("threads") or c.config["warps"]) for c in made[1:]]
    different = len(set(shapes))
    assert different > 20 and len(set(shapes[:different])) >= different - 1


def test_values_of_knobs_may_be_asked_for():
    made = search.candidates(4096, "float16", "cuda -arch=sm_90a", ["warpgroup=True", "tile=64x256"])
    assert made and all(c.config["warpgroup"] and c.config["tile"] == (64, 256) for c in made)
    assert len(search.candidates(4096, "float16", "cuda -arch=sm_90a", ["warpgroup=True"])) > len(made)


def test_a_text_of_kernels_may_be_replaced():
    from tvm.runtime.registry import get_global_func, remove_global_func

    search.change_text("", "")
    assert get_global_func("tvm_callback_cuda_postproc", allow_missing=True) is None
    search.change_text("fence();", "pause();")
    try:
        assert str(get_global_func("tvm_callback_cuda_postproc")("a(); fence(); b();", None)) == "a(); pause(); b();"
    finally:
        remove_global_func("tvm_callback_cuda_postproc")


class Pretended:
    """In place of matrices on a device: what is built has a file."""

    def time(self, candidate, path):
        with open(path, "rb") as file:
            assert file.read(4) == b"\x7fELF"
        return search.Timed(candidate, candidate.cost / 1e6, "")


def test_what_is_built_is_timed_and_what_cannot_be_built_is_noted(tmp_path):
    good, *_ = search.candidates(64, "float32", TARGET)
    bad = good._replace(config={**good.config, "threads": (1024, 1024)})
    jobs = [(c, "float32", TARGET, str(tmp_path / f"{i}.so")) for i, c in enumerate((good, bad))]
    rows = search.measure(jobs, {64: Pretended()}, time.monotonic() + 600)
    by_config = {row.candidate.config["threads"]: row for row in rows}
    assert by_config[good.config["threads"]].milliseconds == good.cost / 1e6
    refused = by_config[(1024, 1024)]
    assert refused.milliseconds is None and refused.note.startswith("not built: ")


def test_nothing_is_built_when_the_time_is_over(tmp_path):
    (good, *_) = search.candidates(64, "float32", TARGET)
    assert search.measure([(good, "float32", TARGET, str(tmp_path / "0.so"))], {}, time.monotonic() - 1) == []


def test_the_table_has_the_fastest_first_and_the_ratio_to_the_library():
    def row(cost, milliseconds, note="", size=1000):
        return search.Timed(search.Candidate(size, cost, {"tile": (8, 4), "step": 8}), milliseconds, note)

    rows = [row(5e3, 4.0), row(3e3, 2.0), row(4e3, None, "wrong: 1.0e+00"), row(1e3, 0.1, size=10)]
    lines = search.table(rows, 1000, 1.0)
    assert "2000 GFLOP/s" in lines[0] and "2 of 3" in lines[0]
    assert lines[2].split() == ["1", "3", "2.000", "1000", "0.50", "tile=8x4", "step=8"]
    assert lines[3].split()[:5] == ["3", "5", "4.000", "500", "0.25"]
    assert lines[4] == "  1 x wrong: 1.0e+00" and len(lines) == 5
