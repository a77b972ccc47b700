"""The subcommands of ``tvmc``: their modules, which are imported when the command runs, and their help texts."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """``module`` registers the parser of the command; ``help`` is its line in ``tvmc --help``."""

    module: str
    help: str


COMMANDS = {
    "compile": Command("compiler", "compile a model into a package"),
    "run": Command("runner", "run a package"),
    "bench": Command("bench", "measure a model or package, and compare it with other runtimes"),
    "tune": Command("autotuner", "search for the fastest kernels of a model on this machine"),
    "report": Command("autotuner", "write an HTML report about a file of tuning records"),
    "info": Command("info", "show the contents of a package"),
    "targets": Command("targets", "list the targets that code can be generated for"),
    "devices": Command("devices", "list the devices of this machine that can run a package"),
    "server": Command("rpc_commands", "start an RPC server that offers the devices of this machine"),
    "tracker": Command("rpc_commands", "start an RPC tracker that assigns the devices of servers to clients"),
    "cache": Command("cache", "show or clear the cache of compiled code"),
    "completion": Command("completion", "print a script that completes commands in bash or zsh"),
}
