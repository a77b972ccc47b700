"""``tvmc tune --build-only``: candidates as files, measured by ``tvm.runtime.measure_files``, used as records."""

from __future__ import annotations

import json

import pytest

from tests.cuda_emulator.marks import needs_compiler
from tests.packages import needs_xgboost
from tvm import autotvm
from tvm.auto_scheduler.choices import read_rows
from tvm.driver.tvmc.main import _main
from tvm.runtime.measure import files as measure_files
from tvm.testing import requires_opencl

SHAPES = ("--input-shapes", "data:[1,3,9,7]")


def known(folder) -> list[tuple[autotvm.MeasureInput, autotvm.MeasureResult]]:
    path = folder / "records.json"
    return list(autotvm.record.load_from_file(path)) if path.exists() else []


def indexes(folder) -> list[int]:
    return [row.record["config"]["index"] for row in measure_files.read_candidates(str(folder))]


@needs_xgboost
@pytest.mark.slow("tunes with worker processes")
@pytest.mark.parametrize("target", ["llvm", pytest.param("opencl", marks=requires_opencl.marks())])
def test_candidates_built_measured_and_used(target, model_path, tmp_path, capsys):
    folder, second = tmp_path / "candidates", tmp_path / "second"
    tune = ["tune", "--target", target, "--trials", "4", "--number", "2", "--min-repeat-ms", "0", *SHAPES]
    assert not _main([*tune, "--build-only", str(folder), model_path])
    assert "measure_files" in capsys.readouterr().out
    rows = measure_files.read_candidates(str(folder))
    refused = [result for _, result in known(folder)]
    assert rows and len(rows) + len(refused) == 4 and all(result.error_no == 1 for result in refused)
    assert rows[0].measure == {"number": 2, "repeat": 1, "min_repeat_ms": 0} and rows[0].outputs and rows[0].flop > 0
    assert measure_files.main([str(folder), "--timeout", "120"]) == 0
    records = known(folder)
    assert len(records) == 4 and all(result.error_no == 0 for _, result in records[len(refused) :])

    # What has a record is not built again; the tuner knows what came of it.
    assert not _main([*tune, "--tuning-records", str(folder / "records.json"), "--build-only", str(second), model_path])
    assert indexes(second) and not set(indexes(second)) & set(indexes(folder))
    package = str(tmp_path / "net.tar")
    assert _main(["compile", "--target", target, "--tuning-records", str(folder / "records.json"), *SHAPES, "-o",
                  package, model_path]) == 0  # fmt: skip


@needs_compiler
@needs_xgboost
def test_candidates_for_a_gpu_are_built_without_one(model_path, tmp_path):
    folder = tmp_path / "candidates"
    command = ["tune", "--target", "cuda -arch=sm_80", "--trials", "2", *SHAPES]
    assert not _main([*command, "--build-only", str(folder), model_path])
    rows = measure_files.read_candidates(str(folder))
    assert rows and rows[0].measure["min_repeat_ms"] == 1000
    assert b"TVMDEV01" in (folder / rows[0].file).read_bytes() and json.loads(rows[0].task)[0].startswith("cuda")


def test_where_results_go_is_said_once(model_path, tmp_path, refused):
    refused(4, "use -o FILE for records or --build-only FOLDER for candidates", "tune", model_path)
    refused(2, "not allowed with", "tune", "-o", "x.json", "--build-only", "folder", model_path)
    (tmp_path / "file").write_text("")
    refused(4, "cannot write candidates to", "tune", "--build-only", str(tmp_path / "file"), *SHAPES, model_path)
    refused(4, "which --build-only", "tune", "--enable-autoscheduler", "--log-estimated-latency", "--build-only",
            str(tmp_path / "folder"), *SHAPES, model_path)  # fmt: skip


@pytest.mark.slow("tunes with worker processes")
def test_schedules_found_by_search_travel_in_a_folder(model_path, tmp_path, capsys, refused):
    folder, second = tmp_path / "candidates", tmp_path / "second"
    tune = ["tune", "--enable-autoscheduler", "--target", "llvm", "--tuner", "random", "--trials", "6", "--number", "2",
            "--min-repeat-ms", "0", *SHAPES]  # fmt: skip
    assert not _main([*tune, "--build-only", str(folder), model_path])
    rows = measure_files.read_candidates(str(folder))
    assert rows and "measure_files" in capsys.readouterr().out
    untuned = [row for row in rows if row.record["i"][1] is None]
    states = [row for row in rows if row.record["i"][1] is not None]
    assert untuned and states and not untuned[0].outputs and states[0].outputs and states[0].flop > 0
    refused(4, "contains candidates found by search; use a separate folder for candidates of", "tune", "--target",
            "llvm", "--build-only", str(folder), *SHAPES, model_path)  # fmt: skip
    assert measure_files.main([str(folder), "--timeout", "120"]) == 0
    told = capsys.readouterr().out
    assert f"{len(rows)} candidates measured, 0 of them failed" in told and "conv2d" in told

    records = str(folder / "records.json")
    found = list(read_rows(records))
    assert len(found) == len(rows) and all(row.result.error_no == 0 for row in found)
    assert sum(row.state is None for row in found) == len(untuned)
    assert measure_files.main([str(folder)]) == 0 and "0 candidates measured" in capsys.readouterr().out
    # What has a record is not built again.
    assert not _main([*tune, "--tuning-records", records, "--build-only", str(second), model_path])
    again = {measure_files.key_of(row.record) for row in measure_files.read_candidates(str(second))}
    assert again and not again & {measure_files.key_of(row.record) for row in rows}
    package = str(tmp_path / "net.tar")
    assert not _main(["compile", "--target", "llvm", "--tuning-records", records, *SHAPES, "-o", package, model_path])
