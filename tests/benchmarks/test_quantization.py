"""The benchmark of quantized models: its rows in result files."""

from __future__ import annotations

from benchmarks import quantization, result_file

ROW = {"model": "resnet50", "method": "max", "samples": 50, "agreement": 0.97, "crops": 500, "photos kept": 2,
       "photos": 2, "decibels": 27.0}  # fmt: skip


def test_rows_are_kept_in_result_files_and_new_ones_replace_old_ones(tmp_path):
    assert quantization.kept_rows(tmp_path) == []
    quantization.write([ROW, {**ROW, "method": "percentile"}], 1, tmp_path)
    rows = quantization._merged(quantization.kept_rows(tmp_path), [{**ROW, "agreement": 0.99}])
    path = quantization.write(rows, 1, tmp_path)
    assert path.stem.endswith("-2") and path == result_file.newest("quantization", "any", tmp_path)
    assert [(r["method"], r["agreement"]) for r in quantization.kept_rows(tmp_path)] == [
        ("max", 0.99), ("percentile", 0.97)]  # fmt: skip


def test_the_table_shows_the_result_file_of_the_checkout():
    text = quantization.table(quantization.kept_rows())
    assert "| resnet50 | onnxruntime | 50 | 95.8 % of 500 | 2 of 2 | 27.2 dB |" in text
