"""The table of docs/micro.md."""

from __future__ import annotations

from pathlib import Path

from tools.micro_boards import BOARDS, MARK, MODELS, PAGE, PEER_MARK, TFLITE_FILES, Row, table


def test_rows():
    rows = [Row("a", "m3", True, 1.25, 1000, 2, 3, 4), Row("b", "m4", error="x|y"), Row("c", "m4")]
    first, second, third = table(rows).splitlines()[2:]
    assert first == "| a | m3 | yes | 1.2 | 1,000 | 2 | 3 | 4 |"
    assert second == "| b | m4 | error: x/y | | | | | |" and third.startswith("| c | m4 | no |")


def test_the_page_has_a_row_for_each_model_and_board():
    rows = Path(PAGE).read_text().partition(MARK)[2].partition("<!-- end of table -->")[0].strip().splitlines()[2:]
    found = [tuple(cell.strip() for cell in row.split("|")[1:-1]) for row in rows]
    assert [row[:2] for row in found] == [(model, board) for model in MODELS for _, board, _ in BOARDS]
    assert all(row[2] == "yes" and int(row[4].replace(",", "")) <= 10_000 and row[6] == row[7] for row in found)


def test_models_take_no_more_memory_than_tflite_micro():
    rows = Path(PAGE).read_text().partition(PEER_MARK)[2].partition("<!-- end of table -->")[0].strip().splitlines()[2:]
    found = [[cell.strip().replace(",", "") for cell in row.split("|")[1:-1]] for row in rows]
    assert [row[0] for row in found] == list(TFLITE_FILES)
    for _, ram, peer_ram, rom, file in found:
        assert int(ram) <= int(peer_ram) and int(rom) <= int(file)
