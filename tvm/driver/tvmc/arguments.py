"""Parsers of subcommands register here."""

from __future__ import annotations

import argparse

REGISTERED_PARSER: list = []


def register_parser(make_subparser):
    """Decorate ``f(subparsers, main_parser, json_params)`` that adds a subcommand."""
    REGISTERED_PARSER.append(make_subparser)
    return make_subparser


class TVMCSuppressedArgumentParser(argparse.ArgumentParser):
    """A parser that leaves errors to a later one."""

    def error(self, message):
        pass

    def exit(self, status=0, message=None):
        pass


__all__ = ["REGISTERED_PARSER", "TVMCSuppressedArgumentParser", "register_parser"]
