"""Parses targets on the command line: text, inline JSON, or a JSON file."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from ...error import TVMError, did_you_mean
from ...target import Target
from .composite_target import get_codegen_names
from .errors import TVMCException
from .parser import detail_group

_TOKEN = re.compile(
    r"""--?[\w-]+=(?:[\w+\-.]+(?:,[\w+\-.][\w+\-.]*)*|'[\w+\-., ]*'|"[\w+\-., ]*")|--?[\w-]+|,|[\w\-.+/]+"""
)


def tokenize_target(target: str) -> list[str]:
    """Split a target text into words; quoted values are one word."""
    return _TOKEN.findall(target)


def parse_target(target: str) -> list[dict[str, Any]]:
    """Parse comma-separated targets; return name, options and text of each."""
    out: list[dict[str, Any]] = []
    current: list[str] = []
    groups: list[list[str]] = []
    for token in [*tokenize_target(target), ","]:
        if token == ",":
            if current:
                groups.append(current)
            current = []
        else:
            current.append(token)
    if not groups:
        raise TVMCException("the target is empty")
    codegens = get_codegen_names()
    for group in groups:
        name, opts = group[0], {}
        for word in group[1:]:
            if not word.startswith("-"):
                raise TVMCException(f"target '{name}': '{word}' is not an option; options have the form -name=value")
            key, equals, value = word.lstrip("-").partition("=")
            opts[key] = value.strip("'\"") if equals else True
        known = name in Target.list_kinds() and name not in codegens or "/" in name
        out.append({"name": name, "opts": opts, "raw": " ".join(group), "is_tvm_target": known})
    return out


# The target that is suggested if a device name is given instead of a target.
_HINTS = {
    "cpu": "a CPU's is llvm",
    "gpu": "a GPU's is cuda or opencl",
    "x86": "it is llvm",
    "arm": "it is llvm",
    "cl": "it is opencl",
    "nvidia": "it is cuda",
}


def kinds_with_code() -> list[str]:
    """Return the target kinds that have a back end."""
    from ...target.backend import BACKENDS

    return [kind for kind in Target.list_kinds() if kind in BACKENDS]


def validate_targets(parse_targets: list[dict[str, Any]], additional_target_options=None) -> None:
    """Check a list of targets: unique names, code generators first, then a target and optionally its host."""
    names = [t["name"] for t in parse_targets]
    if len(names) != len(set(names)):
        raise TVMCException(f"the same target is given twice in '{', '.join(names)}'")
    kinds = ", ".join(kinds_with_code())
    others = [t["name"] for t in parse_targets if not t["is_tvm_target"] and t["name"] not in get_codegen_names()]
    if others:
        hint = _HINTS.get(others[0].lower()) or did_you_mean(others[0], [*kinds_with_code(), *get_codegen_names()])
        raise TVMCException(
            f"'{others[0]}' is not a target{hint and ': ' + hint}; targets with a code generator are {kinds}"
        )
    if not parse_targets[-1]["is_tvm_target"]:
        raise TVMCException(f"'{names[-1]}' only compiles parts of a model; the last target must be one of {kinds}")
    if sum(t["is_tvm_target"] for t in parse_targets) > 2:
        raise TVMCException("at most two targets are allowed: that of the device and that of the host")
    for kind in additional_target_options or {}:
        if kind not in names:
            option = next(iter(additional_target_options[kind]))
            raise TVMCException(f"Passed --target-{kind}-{option} but did not specify {kind} target")


def target_from_cli(target: str, additional_target_options: dict | None = None) -> tuple[Target, list]:
    """Return the target (with its host), and the code generators before it, which compile parts of the model."""
    try:
        kinds, extra = _parts(target, additional_target_options)
        arch = _default_architecture(kinds[0])
        if arch:
            kinds[0] = {**kinds[0], "opts": {**kinds[0]["opts"], "arch": arch}}
        return Target(_config(kinds[0]), *(Target(_config(host)) for host in kinds[1:])), extra
    except TVMCException:
        raise
    except (ValueError, TypeError, OSError, RecursionError, TVMError) as problem:
        raise TVMCException(f"target '{target}': {problem}") from problem


def default_architecture(target: str, additional_target_options: dict | None = None) -> str:
    """Return the default architecture of a CUDA target without one if there is no GPU; empty for every other target."""
    return _default_architecture(_parts(target, additional_target_options)[0][0])


def _parts(target: str, additional_target_options: dict | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the target and its host as names with options, and the code generators before them."""
    text = target.strip()
    # Without a CPU name, llvm means the machine on which this process runs.
    text = re.sub(r"^native\b", "llvm", text)
    if text.startswith("{") or os.path.isfile(text):
        config = json.loads(text if text.startswith("{") else Path(text).read_text(encoding="utf-8"))
        return [{"name": config.get("kind") if isinstance(config, dict) else "", "opts": config, "is_json": True}], []
    parsed = parse_target(text)
    validate_targets(parsed, additional_target_options)
    given = additional_target_options or {}
    parsed = [{**t, "opts": {**t["opts"], **given.get(t["name"], {})}} for t in parsed]
    return [t for t in parsed if t["is_tvm_target"]], [t for t in parsed if not t["is_tvm_target"]]


def _default_architecture(parsed: dict[str, Any]) -> str:
    """Return the oldest architecture that the CUDA compiler supports; its code runs on every later GPU."""
    from ...codegen.cuda import nvrtc
    from ...target import nvidia
    from ...target.detect import local_arch
    from ...target.kinds import KINDS

    kind = KINDS.get(parsed["name"])
    # Among the kinds for NVIDIA GPUs, NVRTC compiles the one that has this option.
    if kind is None or kind.facts.get("nvidia_architecture") != "arch":
        return ""
    if {"arch", "from_device"} & set(parsed["opts"]) or local_arch() is not None:
        return ""
    return nvrtc.usable(nvidia.DEFAULT)


def _config(parsed: dict[str, Any]) -> str | dict[str, Any]:
    """Return the argument of the constructor of ``Target``."""
    if parsed.get("is_json"):
        return parsed["opts"]
    words = [parsed["name"]]
    for key, value in parsed["opts"].items():
        words.append(
            f"-{key}" if value is True else f"-{key}={value}" if " " not in str(value) else f"-{key}='{value}'"
        )
    return " ".join(words)


def check_code(target: Target) -> None:
    """Raise an error for a target or host without a code generator, before the model is read."""
    from ...target.backend import backend_of

    try:
        for one in filter(None, (target, target.host)):
            backend_of(one)
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem


_TYPES = {"str": str, "int": int, "bool": int, "list": str}


def generate_target_args(parser) -> None:
    """Add --target and one option for each option of each target kind."""
    parser.add_argument("--target", help="compilation target: such as 'llvm -mcpu=skylake', or JSON, or a JSON file")
    with_code = [*kinds_with_code(), *get_codegen_names()]
    for kind, options in target_options().items():
        group = detail_group(parser, f"target {kind}")
        for name, type_name in options.items():
            # Options of a kind without a code generator are parsed so that an error can be reported; they are hidden
            # from the help.
            shown = f"target {kind} {name}" if kind in with_code else argparse.SUPPRESS
            group.add_argument(
                f"--target-{kind}-{name}", type=_TYPES.get(type_name, str), metavar=type_name.upper(), help=shown
            )


def target_options() -> dict[str, dict[str, str]]:
    """Return the options of every kind that can be written as text, with the names of their types."""
    from ...target.kinds import KINDS

    out: dict[str, dict[str, str]] = {}
    for name in Target.list_kinds():
        schema = KINDS[name].schema
        out[name] = {o: row.type.__name__ for o, row in schema.items() if row.type in (str, int, bool, list)}
    return out


def reconstruct_target_args(args) -> dict[str, dict[str, Any]]:
    """Return the target options that were given, by kind."""
    out: dict[str, dict[str, Any]] = {}
    for kind, options in target_options().items():
        for name in options:
            value = getattr(args, f"target_{kind}_{name}".replace("-", "_"), None)
            if value is not None:
                out.setdefault(kind, {})[name] = value
    return out
