"""Options of passes, as given on the command line."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ...error import did_you_mean
from ...ir.transform import PassContext
from ...runtime.registry import get_global_func
from .errors import TVMCException, TVMCModuleNotFoundError


def get_pass_config_value(name: str, value: str, config_type: str) -> Any:
    """Convert the text of an option to its value."""
    if config_type in ("IntImm", "bool", "int"):
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value.lstrip("-").isdigit():
            return int(value)
        raise TVMCException(f"pass option '{name}' must be an integer, true or false, got '{value}'")
    if config_type in ("runtime.String", "str"):
        return value
    if name == "tir.add_lower_pass":
        return _lower_passes(value)
    raise TVMCException(f"pass option '{name}' of type {config_type} cannot be set on the command line")


def _lower_passes(value: str) -> list:
    parts = value.split(",")
    if len(parts) % 2:
        raise TVMCException("tir.add_lower_pass must be a list of pairs: phase,pass,phase,pass")
    out = []
    for phase, path in zip(parts[::2], parts[1::2]):
        try:
            out.append((int(phase), _find(path.strip())()))
        except (TypeError, ValueError) as problem:
            raise TVMCException(f"tir.add_lower_pass: '{phase},{path}' is not a phase and pass: {problem}") from problem
    return out


def _find(path: str) -> Callable[[], Any]:
    """Find the factory function of a pass by its import path, with or without ``tvm.``, or by a registered name."""
    registered = get_global_func(path, allow_missing=True)
    if registered is not None:
        return registered
    module, _, name = path.rpartition(".")
    error: type[TVMCException] = TVMCModuleNotFoundError
    for prefix in ("", "tvm."):
        try:
            return getattr(importlib.import_module(prefix + module), name)
        except AttributeError:
            error = TVMCException
        except (ImportError, ValueError):
            continue
    raise error(f"tir.add_lower_pass: the pass '{path}' or 'tvm.{path}' was not found")


def parse_configs(input_configs: list[str] | None) -> dict[str, Any]:
    """Convert ``["tir.disable_vectorize=1"]`` to a dictionary for PassContext."""
    known = PassContext.list_configs()
    out: dict[str, Any] = {}
    for text in input_configs or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise TVMCException(f"expected a pass option name=value, got '{text}'")
        if name not in known:
            hint = did_you_mean(name, known, cutoff=0.5) or f"the options are {', '.join(sorted(known))}"
            raise TVMCException(f"unknown pass option '{name}'; {hint}")
        got = get_pass_config_value(name, value, known[name]["type"])
        out[name] = out[name] + got if isinstance(got, list) and name in out else got
    return out
