"""Defaults of options from JSON files."""

from __future__ import annotations

import json
import os
from typing import Any

from .errors import TVMCException


def get_configs_json_dir() -> str:
    """The folder of configuration files."""
    given = os.environ.get("TVM_CONFIGS_JSON_DIR", "")
    if os.path.isdir(given):
        return given
    return os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "configs")


def find_json_file(name: str, path: str) -> str | None:
    for root, _, files in sorted(os.walk(path)):
        if name in files:
            return os.path.join(root, name)
    return None


def read_and_convert_json_into_dict(config_args) -> dict[str, Any]:
    """The content of the file that --config names."""
    name = config_args.config if config_args.config.endswith(".json") else config_args.config + ".json"
    path = name if os.path.isfile(name) else find_json_file(os.path.basename(name), get_configs_json_dir())
    if path is None:
        raise TVMCException(f"there is no configuration file '{name}', here or in {get_configs_json_dir()}")
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
    except (OSError, ValueError, RecursionError) as problem:
        raise TVMCException(f"configuration file {path} cannot be read: {problem}") from problem
    if not isinstance(content, dict):
        raise TVMCException(f"configuration file {path} must hold an object of options")
    return content


def convert_config_json_to_cli(json_params: dict[str, Any]) -> dict[str, Any]:
    """Option values by the names argparse gives them."""
    out: dict[str, Any] = {}
    for key, value in (json_params or {}).items():
        if key == "targets":
            kinds = []
            if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
                raise TVMCException("configuration: 'targets' must be a list of objects such as {\"kind\": \"llvm\"}")
            for entry in value:
                kind = entry.get("kind", "")
                kinds.append(kind)
                for option, setting in list(entry.items())[1:2]:
                    out[f"target_{kind}_{option}".replace("-", "_")] = setting
            out["target"] = ", ".join(kinds)
        elif key in ("executor", "runtime") and isinstance(value, dict):
            kind = value.get("kind", "")
            out[key] = kind
            for option, setting in value.items():
                if option != "kind":
                    out[f"{key}_{kind}_{option}".replace("-", "_")] = setting
        elif isinstance(value, dict):
            out[key.replace("-", "_")] = [f"{k}={v}" for k, v in value.items()]
        else:
            out[key.replace("-", "_")] = value
    return out
