"""Command-line parsers with compact help, which suggest the closest name for an unknown one."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from ...error import did_you_mean
from .errors import ExitCode

# Width of the column of options and values; their help starts in the next column.
_OPTION_COLUMNS = 30
_WIDEST = 120


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats each option in one line if it fits."""

    def __init__(self, prog: str):
        width = min(shutil.get_terminal_size().columns, _WIDEST) - 2
        super().__init__(prog, max_help_position=_OPTION_COLUMNS, width=max(width, 40))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Format the names of an option, then its value once: ``-o, --output FILE``."""
        names = ", ".join(action.option_strings)
        if not names or action.nargs == 0:
            return names or super()._format_action_invocation(action)
        return f"{names} {self._format_args(action, self._get_default_metavar_for_optional(action))}"


class Parser(argparse.ArgumentParser):
    """The argument parser of ``tvmc``. Only --help-all shows the option groups in ``details``."""

    def __init__(self, *args: Any, **keywords: Any):
        keywords.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **keywords)
        self.details: list[argparse._ArgumentGroup] = []
        self.shows_details = False

    def format_help(self) -> str:
        """Return the help text, without detail groups unless they are requested."""
        groups = self._action_groups
        try:
            if not self.shows_details:
                self._action_groups = [group for group in groups if group not in self.details]
            return super().format_help()
        finally:
            self._action_groups = groups

    def format_usage(self) -> str:
        """Return the usage in one line."""
        return super().format_usage() if self.usage else f"usage: {self.prog} [options]\n"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise an error for an invalid choice that suggests the closest valid choice."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), names, "; ")
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint} (choose from {', '.join(names)})")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse arguments. The parser of the chosen command reports unknown options."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            owner = self._chosen(args or ())
            owner.error(unrecognized(rest, owner))
        return found

    def _chosen(self, args: Sequence[str]) -> argparse.ArgumentParser:
        """Return the parser of the command in the arguments, or this parser if there is none."""
        commands = subcommands(self)
        return next((commands[word] for word in args if word in commands), self)

    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        self.exit(ExitCode.USAGE, f"{self.prog}: error: {message}\n")


class _HelpAll(argparse.Action):
    """The action of --help-all."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser.shows_details = True
        parser.print_help()
        parser.exit()


def detail_group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """Add a group of rarely used options, which a ``Parser`` shows with --help-all only."""
    group = parser.add_argument_group(title)
    if isinstance(parser, Parser):
        if not parser.details:
            parser.add_argument("--help-all", action=_HelpAll, nargs=0, help="also show rarely used options")
        parser.details.append(group)
    return group


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the subcommands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def unrecognized(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Return the error message for unknown arguments."""
    known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    return f"unrecognized arguments: {' '.join(words)}" + did_you_mean(option, known, "; ")


__all__ = ["Parser", "detail_group", "subcommands", "unrecognized"]
