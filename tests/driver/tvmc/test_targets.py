"""``tvmc targets``, ``tvmc devices`` and ``tvmc cache``."""

from __future__ import annotations

from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.target import kinds_with_code


def test_the_kinds_that_code_is_generated_for_are_listed(capsys):
    assert _main(["targets"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "target"
    assert [row.split()[0] for row in rows[: rows.index("")]] == kinds_with_code()


def test_a_kind_has_its_options_and_a_tag_its_target(capsys):
    assert _main(["targets", "llvm"]) == 0
    assert "-mcpu=STR" in capsys.readouterr().out
    assert _main(["targets", "raspberry-pi/4b-aarch64"]) == 0
    assert "cortex-a72" in capsys.readouterr().out
    assert _main(["targets", "--tags", "tesla-t4"]) == 0
    assert "sm_75" in capsys.readouterr().out


def test_an_unknown_kind_or_tag_names_the_closest(refused):
    refused(4, "did you mean 'llvm'?", "targets", "lvm")
    refused(4, "'nvidia/tesla-t4'", "targets", "nvidia/tesla-t44")
    refused(4, "no tag contains 'zzz'", "targets", "--tags", "zzz")


def test_the_cpu_is_a_device_and_what_is_not_here_has_a_reason(capsys):
    assert _main(["devices", "-v"]) == 0
    shown = capsys.readouterr().out
    assert "cpu" in shown and "cores" in shown
    assert "metal(0): this runtime has no driver for the device" in shown


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch, capsys, model_path):
    folder = tmp_path / "cache"
    monkeypatch.setenv("TVM_CACHE_DIR", str(folder))
    monkeypatch.delenv("TVM_NO_CACHE", raising=False)
    assert _main(["cache"]) == 0
    assert f"{folder}: 0 compiled libraries" in capsys.readouterr().out
    assert _main(["compile", "-o", str(tmp_path / "m.tar"), model_path]) == 0
    (folder / "mine.txt").write_text("not of the cache")
    capsys.readouterr()
    assert _main(["cache", "show"]) == 0
    assert "1 compiled libraries" in capsys.readouterr().out
    assert _main(["cache", "clear"]) == 0
    assert "1 files removed" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_cache_that_others_may_read_is_refused(tmp_path, monkeypatch, refused):
    tmp_path.chmod(0o755)
    monkeypatch.setenv("TVM_CACHE_DIR", str(tmp_path))
    refused(4, "the cache is not available", "cache")
