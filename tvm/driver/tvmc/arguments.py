"""Registration of the parsers of subcommands, and defaults from configuration files."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ...error import did_you_mean
from .commands import COMMANDS
from .errors import TVMCException

REGISTERED_PARSER: list = []


def register_parser(make_subparser):
    """Register ``f(subparsers, main_parser, json_params)``, which adds a subcommand; a decorator."""
    REGISTERED_PARSER.append(make_subparser)
    return make_subparser


def add_command(subparsers, name: str, **keywords: Any):
    """Add a subcommand and return its parser."""
    line = COMMANDS[name].help
    return subparsers.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.", **keywords)


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add -v to a subcommand. Without it, -v before the name of the subcommand applies."""
    parser.add_argument(
        "-v", "--verbose", action="count", default=argparse.SUPPRESS, help="print more; up to three times"
    )


def apply_defaults(parser: argparse.ArgumentParser, json_params: list[dict[str, Any]]) -> None:
    """Set defaults from a configuration file, with the same checks as values on the command line.

    argparse converts only string defaults and checks none of them, so each value is converted here from a string.
    """
    actions = {action.dest: action for action in parser._actions}
    for entry in json_params:
        for name, value in entry.items():
            # Options are written with dashes; argparse names them with underscores.
            action = actions.get(name.replace("-", "_"))
            if action is not None:
                parser.set_defaults(**{action.dest: _default(parser, action, value)})


def _default(parser: argparse.ArgumentParser, action: argparse.Action, value: Any) -> Any:
    """Convert the default value of one option."""
    option = max(action.option_strings, key=len, default=action.dest)
    if isinstance(value, bool) and action.nargs == 0:
        return value
    several = isinstance(value, list)
    takes_several = action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction)
    texts = value if several else [value]
    if action.nargs == 0 or several and not takes_several or not all(isinstance(v, (str, int, float)) for v in texts):
        raise TVMCException(f"configuration: {option} cannot be {json.dumps(value)}")
    try:
        converted = [parser._get_value(action, str(v)) for v in texts]
        for one in converted:
            parser._check_value(action, one)
    except argparse.ArgumentError as problem:
        raise TVMCException(f"configuration: {problem}") from problem
    return converted if takes_several else converted[0]


def refuse_unknown(subcommands: argparse._SubParsersAction, json_params: list[dict[str, Any]]) -> None:
    """Raise an error for an entry of a configuration file that is not an option of any subcommand."""
    known = {action.dest for parser in subcommands.choices.values() for action in parser._actions}
    for entry in json_params:
        for name in entry:
            if name.replace("-", "_") not in known:
                option = name.replace("_", "-")
                hint = did_you_mean(option, [dest.replace("_", "-") for dest in known], "; ")
                raise TVMCException(f"configuration: unknown option --{option}{hint}")


class TVMCSuppressedArgumentParser(argparse.ArgumentParser):
    """A parser that reports no errors; a later parser reports them."""

    def error(self, message):
        pass

    def exit(self, status=0, message=None):
        pass


__all__ = [
    "REGISTERED_PARSER",
    "TVMCSuppressedArgumentParser",
    "add_command",
    "add_verbose",
    "apply_defaults",
    "refuse_unknown",
    "register_parser",
]
