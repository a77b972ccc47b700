"""The program ``tvmc``."""

from __future__ import annotations

import argparse
import logging
import sys

from ... import __version__
from .arguments import REGISTERED_PARSER
from .config_options import convert_config_json_to_cli, read_and_convert_json_into_dict
from .errors import TVMCException, TVMCImportError

logger = logging.getLogger("TVMC")


def _main(argv: list[str]) -> int | None:
    """Run the command line; the result is the exit code."""
    parser = argparse.ArgumentParser(
        prog="tvmc", formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False,
        description="TVM compiler driver: compile a model, run it, tune it.",
        epilog=__doc__ and "examples:\n  tvmc compile --target llvm --output model.tar model.onnx\n"
                           "  tvmc run --inputs photo.png --labels names.txt model.tar",
    )
    parser.add_argument("--config", default="default", help="JSON file with defaults of options (default: default)")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; up to three times")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    known, _ = parser.parse_known_args(argv)
    try:
        defaults = convert_config_json_to_cli(read_and_convert_json_into_dict(known))
    except TVMCException as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 4
    subparser = parser.add_subparsers(title="commands")
    from . import compiler, runner  # noqa: F401  (subcommands register themselves)

    for make in REGISTERED_PARSER:
        make(subparser, parser, defaults)
    parser.add_argument("-h", "--help", action="help", help="show this text and exit")
    args = parser.parse_args(argv)
    _logging(args)
    if args.version:
        sys.stdout.write(f"{__version__}\n")
        return 0
    if not hasattr(args, "func"):
        parser.print_help(sys.stderr)
        return 1
    try:
        return args.func(args)
    except TVMCImportError as problem:
        sys.stderr.write(f'Package "{problem}" is not installed. Hint: "pip install tlcpack[tvmc]".')
        return 5
    except TVMCException as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 4
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _logging(args) -> None:
    level = min(args.verbose, 3)
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    logging.getLogger("TVMC").setLevel(40 - level * 10)


def main() -> None:
    sys.exit(_main(sys.argv[1:]))


if __name__ == "__main__":
    main()
