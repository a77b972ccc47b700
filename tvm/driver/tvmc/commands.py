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
    "tune": Command("autotuner", "search for the fastest code of a model on this machine"),
    "report": Command("autotuner", "make a page about a file of tuning records"),
    "completion": Command("completion", "print a script that completes commands in bash or zsh"),
}
