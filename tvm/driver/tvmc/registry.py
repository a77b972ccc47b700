"""Executors and runtimes, as given on the command line."""

from __future__ import annotations

from typing import Any

from ...error import did_you_mean
from ...relay.backend.options import Executor, Runtime
from .errors import TVMCException
from .parser import detail_group

_REGISTRIES = {"executor": (Executor, Executor.OPTIONS), "runtime": (Runtime, Runtime.OPTIONS)}


def generate_registry_args(parser, registry, default=None) -> None:
    """--executor or --runtime and the options of its kinds."""
    name = registry if isinstance(registry, str) else registry.__name__.lower()
    _, table = _REGISTRIES[name]
    parser.add_argument(
        f"--{name}", default=default, help=f"{name} to compile the model with: {', '.join(table)}"
    )
    for kind, options in table.items():
        group = detail_group(parser, f"{name} {kind}")
        for option, type_ in options.items():
            group.add_argument(f"--{name}-{kind}-{option}", type=int if type_ is bool else type_,
                               metavar=type_.__name__.upper(), help=f"{name} {kind} {option}")


def reconstruct_registry_entity(args, registry) -> Any:
    """The executor or runtime that the arguments ask for."""
    name = registry if isinstance(registry, str) else registry.__name__.lower()
    make, table = _REGISTRIES[name]
    chosen = getattr(args, name, None)
    if chosen is None:
        return None
    if chosen not in table:
        raise TVMCException(f'{name.capitalize()} "{chosen}" is not defined' + did_you_mean(chosen, table, "; "))
    options = {}
    for kind, known in table.items():
        for option in known:
            value = getattr(args, f"{name}_{kind}_{option}".replace("-", "_"), None)
            if value is None:
                continue
            if kind != chosen:
                raise TVMCException(f"Passed --{name}-{kind}-{option} but did not specify {kind} executor")
            options[option] = bool(value) if known[option] is bool else value
    return make(chosen, options)
