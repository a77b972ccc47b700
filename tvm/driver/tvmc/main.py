"""The program ``tvmc``."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
import traceback
from typing import NoReturn

from ... import __version__
from ...error import TVMError
from .arguments import REGISTERED_PARSER, refuse_unknown
from .config_options import convert_config_json_to_cli, read_and_convert_json_into_dict
from .errors import TVMCException, TVMCImportError

logger = logging.getLogger("TVMC")


# Modules that register subcommands, and those of each.
SUBCOMMANDS = {
    "autotuner": ("tune", "report"),
    "compiler": ("compile",),
    "completion": ("completion",),
    "runner": ("run",),
}


def _load_subcommands() -> dict[str, str]:
    """Load the subcommands that are here; for each of the others, which the runtime alone has not, who has it."""
    absent = {}
    for module, names in SUBCOMMANDS.items():
        path = f"{__package__}.{module}"
        try:
            importlib.import_module(path)
        except ImportError as problem:
            if problem.name != path:
                raise
            absent.update(dict.fromkeys(names, str(problem)))
    return absent


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
        subparser = parser.add_subparsers(title="commands")
        absent = _load_subcommands()
        asked = next((word for word in argv if not word.startswith("-")), "")
        if asked in absent:
            raise TVMCException(f"tvmc {asked}: {absent[asked]}")
        for make in REGISTERED_PARSER:
            make(subparser, parser, defaults)
        # An option of a command that is not here is no mistake.
        if not absent:
            refuse_unknown(subparser, defaults)
    except TVMCException as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 4
    parser.add_argument("-h", "--help", action="help", help="show this text and exit")
    args = parser.parse_args(argv)
    _logging(args)
    if args.version:
        sys.stdout.write(f"{__version__}\n")
        return 0
    if not hasattr(args, "func"):
        parser.print_help(sys.stderr)
        return 1
    return _run(args)


def _run(args) -> int | None:
    """Run the subcommand; what goes wrong is said in one line, and in full with -vvv."""
    try:
        return args.func(args)
    except TVMCImportError as problem:
        sys.stderr.write(f'Package "{problem}" is not installed. Hint: "pip install {problem}".\n')
        return 5
    except TVMCException as problem:
        return _say(args, str(problem), 4)
    except BrokenPipeError:
        # Whoever read our output has gone; so must the buffer, or the interpreter complains when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 4
    except KeyboardInterrupt:
        return _say(args, "interrupted", 130)
    except MemoryError:
        return _say(args, "there is not enough memory for this", 4)
    except OSError as problem:
        about = f"{problem.filename}: " if problem.filename else ""
        return _say(args, f"{about}{problem.strerror or problem}", 4)
    except TVMError as problem:
        return _say(args, str(problem), 4)
    except Exception as problem:
        return _say(args, f"this is a defect of tvmc: {type(problem).__name__}: {problem} (-vvv shows where)", 1)


def _say(args, text: str, code: int) -> int:
    if args.verbose >= 3:
        traceback.print_exc()
    sys.stderr.write(f"Error: {text}\n")
    return code


def _logging(args) -> None:
    level = min(args.verbose, 3)
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    logging.getLogger("TVMC").setLevel(40 - level * 10)


def _terminated(number, frame) -> NoReturn:
    """Leave by the normal way, so that temporary folders are removed."""
    raise SystemExit(128 + number)


def main() -> None:
    try:
        signal.signal(signal.SIGTERM, _terminated)
        sys.exit(_main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
