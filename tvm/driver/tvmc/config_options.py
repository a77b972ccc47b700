"""Defaults of options from JSON files."""

from __future__ import annotations

import json
import os
from typing import Any

from ...error import did_you_mean
from .errors import TVMCException

# The cached folder; scripts set it to None to repeat the search.
CONFIGS_JSON_DIR: str | None = None


def get_configs_json_dir() -> str:
    """Return the folder of configuration files."""
    global CONFIGS_JSON_DIR
    if CONFIGS_JSON_DIR is None:
        given = os.environ.get("TVM_CONFIGS_JSON_DIR", "")
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        CONFIGS_JSON_DIR = given if os.path.isdir(given) else os.path.join(package, "configs")
    return CONFIGS_JSON_DIR


def find_json_file(name: str, path: str) -> str | None:
    for root, _, files in sorted(os.walk(path)):
        if name in files:
            return os.path.join(root, name)
    return None


def read_and_convert_json_into_dict(config_args) -> dict[str, Any]:
    """Return the content of the file that --config names."""
    name = config_args.config if config_args.config.endswith(".json") else config_args.config + ".json"
    path = name if os.path.isfile(name) else find_json_file(os.path.basename(name), get_configs_json_dir())
    if path is None:
        there = [file for _, _, files in os.walk(get_configs_json_dir()) for file in files]
        hint = did_you_mean(os.path.basename(name), there, "; ")
        raise TVMCException(
            f"configuration file '{name}' was not found in the current folder or in {get_configs_json_dir()}{hint}"
        )
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
    except (OSError, ValueError, RecursionError) as problem:
        raise TVMCException(f"cannot read the configuration file {path}: {problem}") from problem
    if not isinstance(content, dict):
        raise TVMCException(f"configuration file {path} must be a JSON object of options")
    return content


def convert_config_json_to_cli(json_params: dict[str, Any]) -> list[dict[str, Any]]:
    """Return option values by their argparse names, one dictionary per option."""
    out: list[dict[str, Any]] = []
    for key, value in (json_params or {}).items():
        name = key.replace("-", "_")
        if key == "targets":
            out += _targets(value)
        elif key in ("executor", "runtime") and isinstance(value, dict):
            kind = _kind(key, value)
            out.append({key: kind})
            out += [{f"{key}_{kind}_{o}".replace("-", "_"): v} for o, v in value.items() if o != "kind"]
        elif isinstance(value, dict):
            out.append({name: [f"{k}={v}" for k, v in value.items()]})
        else:
            out.append({name: value})
    return out


def _targets(entries: Any) -> list[dict[str, Any]]:
    """Convert a list of targets: return the options of each, then the text with all kinds."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TVMCException('configuration: \'targets\' must be a list of objects such as {"kind": "llvm"}')
    kinds = [_kind("targets", entry) for entry in entries]
    options = [
        {f"target_{kind}_{name}": value}
        for kind, entry in zip(kinds, entries)
        for name, value in entry.items()
        if name != "kind"
    ]
    return [*options, {"target": ", ".join(kinds)}]


def _kind(where: str, entry: dict[str, Any]) -> str:
    kind = entry.get("kind")
    if not isinstance(kind, str):
        raise TVMCException(f"configuration: the \"kind\" of '{where}' must be a string, got {json.dumps(kind)}")
    return kind
