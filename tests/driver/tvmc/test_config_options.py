"""Configuration files: what becomes of their entries."""

from __future__ import annotations

import argparse

from tvm.driver.tvmc import config_options
from tvm.driver.tvmc.config_options import convert_config_json_to_cli
from tvm.driver.tvmc.registry import generate_registry_args, reconstruct_registry_entity
from tvm.relay.backend.options import Executor


def test_each_entry_is_an_option_by_the_name_that_argparse_gives_it():
    found = convert_config_json_to_cli(
        {
            "targets": [
                {"kind": "cmsis-nn", "from_device": "1"},
                {"kind": "c", "mcpu": "cortex-m55", "march": "armv8"},
            ],
            "executor": {"kind": "aot", "interface-api": "c"},
            "tuning-records": "r.json",
            "pass-config": {"tir.disable_vectorize": "1"},
        }
    )
    assert found == [
        {"target_cmsis-nn_from_device": "1"},
        {"target_c_mcpu": "cortex-m55"},
        {"target_c_march": "armv8"},
        {"target": "cmsis-nn, c"},
        {"executor": "aot"},
        {"executor_aot_interface_api": "c"},
        {"tuning_records": "r.json"},
        {"pass_config": ["tir.disable_vectorize=1"]},
    ]


def test_the_folder_of_configurations_can_be_named(tmp_path, monkeypatch):
    monkeypatch.setattr(config_options, "CONFIGS_JSON_DIR", None)
    shipped = config_options.get_configs_json_dir()
    for given, wanted in (("not a folder", shipped), (str(tmp_path), str(tmp_path))):
        monkeypatch.setattr(config_options, "CONFIGS_JSON_DIR", None)
        monkeypatch.setenv("TVM_CONFIGS_JSON_DIR", given)
        assert config_options.get_configs_json_dir() == wanted


def test_an_executor_that_nobody_asks_for_is_none():
    parser = argparse.ArgumentParser()
    generate_registry_args(parser, Executor)
    assert reconstruct_registry_entity(parser.parse_args([]), Executor) is None
    chosen = parser.parse_args(["--executor=aot", "--executor-aot-interface-api=c"])
    assert reconstruct_registry_entity(chosen, Executor) == Executor("aot", {"interface-api": "c"})
