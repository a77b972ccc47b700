"""Parses executors and runtimes on the command line."""

from __future__ import annotations

from typing import Any

from ...error import did_you_mean
from ...relay.backend.options import Executor, Runtime
from .errors import TVMCException
from .parser import detail_group

# The virtual machine is an executor of the command line; ``relay.vm.compile`` compiles for it.
VM = "vm"
_REGISTRIES = {"executor": (Executor, Executor.OPTIONS, "graph"), "runtime": (Runtime, Runtime.OPTIONS, "cpp")}


def generate_registry_args(parser, registry, default=None) -> None:
    """Add --executor or --runtime, and the options of each kind."""
    name = registry if isinstance(registry, str) else registry.__name__.lower()
    _, table, _ = _REGISTRIES[name]
    what = f"{name} to compile the model with: {', '.join(table)}"
    if name == "executor":
        what += f", {VM} (default: graph, or {VM} if the model needs it)"
    parser.add_argument(f"--{name}", default=default, help=what)
    for kind, options in table.items():
        group = detail_group(parser, f"{name} {kind}")
        for option, type_ in options.items():
            group.add_argument(
                f"--{name}-{kind}-{option}",
                type=int if type_ is bool else type_,
                metavar=type_.__name__.upper(),
                help=f"{name} {kind} {option}",
            )


def reconstruct_registry_entity(args, registry) -> Any:
    """Return the requested executor or runtime: for the virtual machine only its name, and None if nothing was
    requested.

    Options of the default kind select that kind."""
    name = registry if isinstance(registry, str) else registry.__name__.lower()
    make, table, usual = _REGISTRIES[name]
    asked = getattr(args, name, None)
    known = [*table, VM] if name == "executor" else list(table)
    if asked is not None and asked not in known:
        raise TVMCException(f'{name.capitalize()} "{asked}" is not defined' + did_you_mean(asked, known, "; "))
    chosen = asked or usual
    options = {}
    for kind, types in table.items():
        for option in types:
            value = getattr(args, f"{name}_{kind}_{option}".replace("-", "_"), None)
            if value is None:
                continue
            if kind != chosen:
                raise TVMCException(f"Passed --{name}-{kind}-{option} but did not specify {kind} executor")
            options[option] = bool(value) if types[option] is bool else value
    if chosen == VM or asked is None and not options:
        return asked
    return make(chosen, options)
