"""The program ``tvmc``."""

from __future__ import annotations

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
from .commands import COMMANDS
from .config_options import convert_config_json_to_cli, read_and_convert_json_into_dict
from .errors import ExitCode, TVMCException, TVMCImportError
from .parser import Parser

logger = logging.getLogger("TVMC")


_EPILOG = """\
examples:
  tvmc compile --target llvm --output model.tar model.onnx
  tvmc run --inputs photo.png --labels names.txt model.tar

tvmc COMMAND --help shows the options of a command.
Exit codes: 0 success, 1 internal error, 2 wrong command line, 4 error in the
input, 5 missing Python package, 130 interrupted by Ctrl-C.
"""


def _absent(name: str) -> str:
    """Import a command; return the error if it is not in the runtime-only package, else an empty string."""
    path = f"{__package__}.{COMMANDS[name].module}"
    try:
        importlib.import_module(path)
    except ImportError as problem:
        if problem.name != path:
            raise
        return str(problem)
    return ""


def _load(asked: str, defaults: list[dict]) -> bool:
    """Import the commands that are needed; return whether all commands were imported.

    Normally only the requested command is imported. All commands are imported for ``completion``, which lists them, and
    for a configuration file with defaults other than the target, each of which must be an option of some command.
    """
    if asked in COMMANDS and asked != "completion" and _absent(asked):
        raise TVMCException(f"tvmc {asked}: {_absent(asked)}")
    if asked == "completion" or any(name != "target" for entry in defaults for name in entry):
        absent = [name for name in COMMANDS if _absent(name)]
        return not absent
    return False


def _main(argv: list[str]) -> int | None:
    """Run the command line; return the exit code."""
    parser = Parser(
        prog="tvmc",
        add_help=False,
        usage="tvmc [options] COMMAND ...",
        epilog=_EPILOG,
        description="TVM compiler driver: compile a model, run it, measure it, tune it.",
    )
    parser.add_argument("--config", default="default", help="JSON file with defaults of options (default: default)")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print more; up to three times")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    known, rest = parser.parse_known_args(argv)
    asked = next((word for word in rest if not word.startswith("-")), "")
    if known.version and not asked:
        return _version()
    try:
        defaults = convert_config_json_to_cli(read_and_convert_json_into_dict(known))
        commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="tvmc")
        has_all = _load(asked, defaults)
        for make in REGISTERED_PARSER:
            make(commands, parser, defaults)
        # Options of commands that are not installed cannot be checked.
        if has_all:
            refuse_unknown(commands, defaults)
        _add_others(commands)
    except TVMCException as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return ExitCode.REFUSED
    parser.add_argument("-h", "--help", action="help", help="show this text and exit")
    args = parser.parse_args(argv)
    _logging(args)
    if args.version:
        return _version()
    if not hasattr(args, "func"):
        parser.print_help(sys.stderr)
        return ExitCode.DEFECT
    return _run(args)


def _add_others(commands) -> None:
    """Add the names of the commands that were not imported, and sort all commands as in the table."""
    for name, command in COMMANDS.items():
        if name not in commands.choices:
            commands.add_parser(name, help=command.help)
    order = list(COMMANDS)
    commands._choices_actions.sort(key=lambda action: order.index(action.dest) if action.dest in order else len(order))


def _version() -> int:
    sys.stdout.write(f"{__version__}\n")
    return ExitCode.DONE


def _run(args) -> int | None:
    """Run the subcommand. An error is printed in one line, and with its traceback with -vvv."""
    try:
        return args.func(args)
    except TVMCImportError as problem:
        sys.stderr.write(f'Package "{problem}" is not installed. Hint: "pip install {problem}".\n')
        return ExitCode.NOT_INSTALLED
    except TVMCException as problem:
        return _say(args, str(problem), ExitCode.REFUSED)
    except BrokenPipeError:
        # The reader of the output has closed the pipe. Without a new stdout the interpreter reports an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.REFUSED
    except KeyboardInterrupt:
        return _say(args, "interrupted", ExitCode.INTERRUPTED)
    except MemoryError:
        return _say(args, "out of memory", ExitCode.REFUSED)
    except OSError as problem:
        about = f"{problem.filename}: " if problem.filename else ""
        return _say(args, f"{about}{problem.strerror or problem}", ExitCode.REFUSED)
    except TVMError as problem:
        return _say(args, str(problem), ExitCode.REFUSED)
    except Exception as problem:
        if isinstance(problem, ImportError) and problem.name is None:
            # Raised by tvmc with a message; an ImportError of the interpreter has the name of the module.
            return _say(args, str(problem), ExitCode.NOT_INSTALLED)
        text = f"internal error of tvmc: {type(problem).__name__}: {problem} (-vvv prints the traceback)"
        return _say(args, text, ExitCode.DEFECT)


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
    """Exit through SystemExit, so that temporary folders are removed."""
    raise SystemExit(128 + number)


def main() -> None:
    try:
        signal.signal(signal.SIGTERM, _terminated)
        sys.exit(_main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    main()
