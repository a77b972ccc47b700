"""The subcommands of ``tvmc``: which module has each, loaded when the command is asked for, and a line about it."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """``module`` registers the parser of the command; ``help`` is its line in ``tvmc --help``."""

    module: str
    help: str


COMMANDS = {
    "compile": Command("compiler", "compile a model into a package"),
    "run": Command("runner", "run a package"),
    "bench": Command("bench", "measure a model or package, beside other runtimes"),
    "tune": Command("autotuner", "search for the fastest code of a model on this machine"),
    "report": Command("autotuner", "make a page about a file of tuning records"),
    "info": Command("info", "say what is inside a package"),
    "targets": Command("targets", "list what code is generated for"),
    "devices": Command("devices", "list what a package can run on here"),
    "server": Command("rpc_commands", "offer the devices of this machine to others (RPC)"),
    "tracker": Command("rpc_commands", "lend the devices that servers offer"),
    "cache": Command("cache", "show or clear the compiled code that is kept"),
    "completion": Command("completion", "print a script that completes commands in bash or zsh"),
}
