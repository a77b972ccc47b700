"""The search among configurations of a large product: what it tries, in which order, and what it prints."""

from __future__ import annotations

import contextlib
import time
import types

import pytest

from benchmarks.gpu import search

TARGET = "cuda -arch=sm_90"


@pytest.mark.parametrize("kind", list(search.KINDS))
def test_candidates_are_all_different_and_begin_with_the_pick_and_different_tiles(kind):
    import tvm
    from tvm.topi.gpu.gemm import Sizes
    from tvm.topi.gpu.machine import Machine

    made = search.candidates((512, 512, 512), kind, TARGET)
    bytes_of = 2 if kind.endswith("float16") else 4
    sizes = Sizes(1, 512, 512, 512, bytes_of, (1, 4 if kind == "float32" else 1))
    picked = search.template_of(kind).choose(sizes, Machine(tvm.target.Target(TARGET)))
    assert made[0].config == picked
    assert len({repr(sorted(c.config.items())) for c in made}) == len(made)
    shapes = [(c.config["tile"], c.config.get("threads") or c.config["warps"], c.config["split_k"]) for c in made[1:]]
    different = len(set(shapes))
    assert different > 20 and len(set(shapes[:different])) >= different - 1


def test_a_size_is_of_all_sides_or_of_rows_columns_and_terms():
    assert search.size_of("4096") == (4096, 4096, 4096) and search.size_of("197x768x3072") == (197, 768, 3072)
    assert search.size_text((197, 768, 3072)) == "197x768x3072" and search.size_text((64, 64, 64)) == "64"
    assert search.operations((2, 3, 5)) == 60
    for wrong in ("", "12x13", "0", "4x-1x4", "4xax4", "1x2x3x4"):
        with pytest.raises(ValueError, match="197x768x3072"):
            search.size_of(wrong)


def test_products_of_few_rows_are_also_tried_with_many_parts():
    wide, large = (search.candidates(size, "float16", TARGET) for size in ((128, 768, 3072), (1024, 1024, 3072)))
    assert max(c.config["split_k"] for c in wide) > 4 >= max(c.config["split_k"] for c in large)


def test_a_product_that_is_no_square_is_built(tmp_path):
    path = str(tmp_path / "0.so")
    (first, *_) = search.candidates((20, 64, 48), "float16", TARGET)
    assert search.built((first, "float16", TARGET, path)) == "" and open(path, "rb").read(4) == b"\x7fELF"


def test_values_of_knobs_may_be_asked_for():
    made = search.candidates((4096, 4096, 4096), "float16", "cuda -arch=sm_90a", ["warpgroup=True", "tile=64x256"])
    assert made and all(c.config["warpgroup"] and c.config["tile"] == (64, 256) for c in made)
    assert len(search.candidates((4096, 4096, 4096), "float16", "cuda -arch=sm_90a", ["warpgroup=True"])) > len(made)


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


@pytest.mark.slow("builds candidates in worker processes")
def test_what_is_built_is_timed_and_what_cannot_be_built_is_noted(tmp_path):
    good, *_ = search.candidates((64, 64, 64), "float32", TARGET)
    bad = good._replace(config={**good.config, "threads": (1024, 1024)})
    jobs = [(c, "float32", TARGET, str(tmp_path / f"{i}.so")) for i, c in enumerate((good, bad))]
    rows = search.measure(jobs, {(64, 64, 64): Pretended()}, time.monotonic() + 600)
    by_config = {row.candidate.config["threads"]: row for row in rows}
    assert by_config[good.config["threads"]].milliseconds == good.cost / 1e6
    refused = by_config[(1024, 1024)]
    assert refused.milliseconds is None and refused.note.startswith("not built: ")


def test_nothing_is_built_when_the_time_is_over(tmp_path):
    (good, *_) = search.candidates((64, 64, 64), "float32", TARGET)
    assert search.measure([(good, "float32", TARGET, str(tmp_path / "0.so"))], {}, time.monotonic() - 1) == []


def test_the_table_has_the_fastest_first_and_the_ratio_to_the_library():
    def row(cost, milliseconds, note="", size=1000):
        config = {"tile": (8, 4), "block_k": 8}
        return search.Timed(search.Candidate((size, size, size), cost, config), milliseconds, note)

    rows = [row(5e3, 4.0), row(3e3, 2.0), row(4e3, None, "wrong: 1.0e+00"), row(1e3, 0.1, size=10)]
    lines = search.table(rows, (1000, 1000, 1000), 1.0)
    assert "2000 GFLOP/s" in lines[0] and "2 of 3" in lines[0]
    assert lines[2].split() == ["1", "3", "2.0000", "1000", "0.50", "tile=8x4", "block_k=8"]
    assert lines[3].split()[:5] == ["3", "5", "4.0000", "500", "0.25"]
    assert lines[4] == "  1 x wrong: 1.0e+00" and len(lines) == 5


class PretendedTorch:
    """In place of torch: notes what is asked of it; each replay takes as many milliseconds as calls were captured."""

    def __init__(self):
        self.log: list[str] = []
        self.cuda = self

    def CUDAGraph(self):
        return self

    def capture_begin(self, capture_error_mode):
        self.log.append("begin")

    def capture_end(self):
        self.log.append("end")

    def replay(self):
        self.log.append("replay")

    def synchronize(self):
        pass

    def stream(self, stream):
        return contextlib.nullcontext()

    def Event(self, enable_timing):
        return self

    def record(self):
        pass

    def elapsed_time(self, end):
        return float(self.log.count("call") - 1)

    def set_raw_stream(self, stream):
        self.log.append(f"stream {stream}")


def pretended_bench() -> search.Bench:
    bench = search.Bench.__new__(search.Bench)
    bench.torch = bench.device = PretendedTorch()
    bench.stream = types.SimpleNamespace(cuda_stream=7)
    return bench


def test_calls_in_a_graph_are_warmed_up_captured_and_replayed_on_one_stream():
    bench = pretended_bench()
    log = bench.torch.log
    assert bench.in_graph([lambda: log.append("call")] * 3) == 1.0
    assert log[:8] == ["stream 7", "call", "begin", "call", "call", "call", "end", "stream None"]
    assert set(log[8:]) == {"replay"}


def test_a_call_that_fails_ends_the_capture_and_leaves_the_stream():
    bench = pretended_bench()
    log = bench.torch.log

    def fail():
        if log[-1] == "begin":
            raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        bench.in_graph([fail])
    assert log == ["stream 7", "begin", "end", "stream None"]
