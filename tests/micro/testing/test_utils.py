"""Boards and targets of template projects, and checks of tuning logs."""

from __future__ import annotations

import json

import pytest

import tvm
from tvm.micro import testing


def test_boards_and_targets():
    assert {"arduino", "host", "zephyr", "qemu_cortex_m"} <= set(testing.get_supported_platforms())
    for platform in testing.get_supported_platforms():
        for board in testing.get_supported_boards(platform):
            assert tvm.target.Target(testing.get_target(platform, board)).kind.name == "c"
    assert testing.get_target("crt") == str(tvm.target.target.micro("host"))
    assert "cortex-m4" in testing.get_target("zephyr", "nucleo_l4r5zi")
    with pytest.raises(tvm.TVMError, match="the platform zephyr requires a board: b_u585i_iot02a, "):
        testing.get_target("zephyr")
    with pytest.raises(tvm.TVMError, match="the platform arduino has no board 'nano33'; did you mean 'nano33ble'"):
        testing.get_target("arduino", "nano33")


def test_boards_of_the_table_are_those_of_the_project():
    from tvm import micro

    for platform in testing.get_supported_platforms():
        with micro.TemplateProject.from_directory(micro.get_microtvm_template_projects(platform)) as template:
            choices = [option.choices for option in template.info().project_options if option.name == "board"]
        assert not choices or set(choices[0]) == set(testing.get_supported_boards(platform))


def test_tuning_logs(tmp_path):
    log = tmp_path / "log"
    log.write_text(json.dumps({"result": [[1e-3], 0, 1.0, 2.0]}) + "\n\n")
    testing.check_tune_log(log)
    log.write_text(log.read_text() + json.dumps({"result": [[1e9], 4, 1.0, 2.0]}) + "\n")
    with pytest.raises(tvm.TVMError, match="log:3: the measurement failed"):
        testing.check_tune_log(log)
