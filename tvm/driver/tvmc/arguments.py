"""Parsers of subcommands register here."""

from __future__ import annotations

import argparse

REGISTERED_PARSER: list = []


def register_parser(make_subparser):
    """Decorate ``f(subparsers, main_parser, json_params)`` that adds a subcommand."""
    REGISTERED_PARSER.append(make_subparser)
    return make_subparser


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """-v of a subcommand; where it is not given, the -v before the subcommand counts."""
    parser.add_argument(
        "-v", "--verbose", action="count", default=argparse.SUPPRESS, help="say more; up to three times"
    )


class TVMCSuppressedArgumentParser(argparse.ArgumentParser):
    """A parser that leaves errors to a later one."""

    def error(self, message):
        pass

    def exit(self, status=0, message=None):
        pass


__all__ = ["REGISTERED_PARSER", "TVMCSuppressedArgumentParser", "add_verbose", "register_parser"]
