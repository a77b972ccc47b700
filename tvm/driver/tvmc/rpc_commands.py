"""``tvmc server`` and ``tvmc tracker``: the programs of ``tvm.exec`` as subcommands."""

from __future__ import annotations

import argparse
import logging
from types import ModuleType

from ...error import TVMError
from ...exec import rpc_server, rpc_tracker
from .arguments import add_command, add_verbose, register_parser
from .errors import TVMCException


def _add(subparsers, name: str, program: ModuleType) -> None:
    parser = add_command(subparsers, name, usage=f"tvmc {name} [options]")
    program.add_arguments(parser)
    add_verbose(parser)
    parser.set_defaults(func=lambda args: _drive(program, args))


def _drive(program: ModuleType, args: argparse.Namespace) -> int:
    if not args.silent:
        # Flush at once, because the user waits for the address.
        logging.getLogger("RPCServer").setLevel(logging.INFO)
        logging.getLogger("RPCTracker").setLevel(logging.INFO)
    try:
        program.run(args)
    except (TVMError, RuntimeError, ValueError) as problem:
        raise TVMCException(str(problem)) from problem
    return 0


@register_parser
def add_server_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``server``."""
    _add(subparsers, "server", rpc_server)


@register_parser
def add_tracker_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``tracker``."""
    _add(subparsers, "tracker", rpc_tracker)


__all__ = ["add_server_parser", "add_tracker_parser"]
