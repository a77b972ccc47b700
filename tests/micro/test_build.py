"""The folders of the C runtime and of the templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm import micro
from tvm.micro import build


def test_folders():
    crt = Path(micro.get_standalone_crt_dir())
    assert (crt / "src" / "serve.c").is_file()
    for name in micro.MicroTVMTemplateProject.list():
        assert Path(micro.get_microtvm_template_projects(name), "microtvm_api_server.py").is_file()
    with pytest.raises(micro.MicroTVMTemplateProjectNotFoundError, match="unknown template project 'moon'"):
        micro.get_microtvm_template_projects("moon")


def test_the_runtime_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_CRT_FOLDERS", (tmp_path,))
    with pytest.raises(micro.CrtNotFoundError, match=str(tmp_path)):
        micro.get_standalone_crt_dir()


def test_the_configuration_header(tmp_path):
    micro.copy_crt_config_header("host", tmp_path)
    assert "TVM_CRT_ALIGNMENT" in (tmp_path / "tvm_crt_config.h").read_text()
    with pytest.raises(micro.MicroTVMTemplateProjectNotFoundError, match="unknown template project 'moon'"):
        micro.copy_crt_config_header("moon", tmp_path)


def test_names_that_are_not_built():
    with pytest.raises(NotImplementedError, match=r"tvm\.micro\.CompileError: microTVM is not available yet"):
        micro.CompileError()
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        build.Nothing
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        micro.Nothing
