"""Commands for maintainers: ``python -m tools WHAT [OF_WHAT] [OPTIONS]``.

They run in ``.venv``, which is created or updated first, or with the interpreter that ``--python`` names.
docs/maintaining.md lists them; tools/commands.py defines them. ``--write`` writes the tables of that page.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tools.commands import COMMANDS, ROOT, Command, Group, Option, Step

PAGE = ROOT / "docs" / "maintaining.md"
BEGIN, END = "<!-- commands: written by python -m tools --write -->", "<!-- end of commands -->"
PYTHON = "interpreter to use instead of .venv; it must have the packages"
OTHER = "interpreter that has the framework (default: the one that runs this command)"


def add_options(parser: argparse.ArgumentParser, command: Command) -> None:
    for option in command.options:
        text = option.help + (f" (default: {option.default})" if option.default else "")
        if not option.name.startswith("-"):
            several = option.value.endswith("...")
            parser.add_argument(option.key, nargs="*" if several else "?", metavar=option.value.rstrip("."), help=text)
        elif option.value:
            parser.add_argument(option.name, metavar=option.value, help=text, default=option.default)
        else:
            parser.add_argument(option.name, action="store_true", help=text)
    if command.interpreter:
        parser.add_argument("--python", metavar="PATH", help=OTHER if command.interpreter == "other" else PYTHON)
    parser.add_argument("--dry-run", action="store_true", help="print the programs and run nothing")


def add_command(parsers: argparse._SubParsersAction, name: str, prog: str, command: Command) -> None:
    passes = f"\n\nAll other options go to {command.passes_on}; -- --help prints them." if command.passes_on else ""
    parser = parsers.add_parser(
        name, prog=f"{prog} {name}", help=command.help, description=command.help + passes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_options(parser, command)
    parser.set_defaults(command=command)


def make_parser() -> argparse.ArgumentParser:
    prog = "python -m tools"
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the tables of docs/maintaining.md")
    parsers = parser.add_subparsers(metavar="WHAT", title="commands")
    for name, entry in COMMANDS.items():
        if isinstance(entry, Command):
            add_command(parsers, name, prog, entry)
            continue
        inner = parsers.add_parser(name, prog=f"{prog} {name}", help=entry.help, description=entry.help)
        of = inner.add_subparsers(metavar="OF_WHAT", title="commands", required=True)
        for inner_name, command in entry.commands.items():
            add_command(of, inner_name, f"{prog} {name}", command)
    return parser


def given_options(command: Command, parsed: argparse.Namespace, rest: list[str]) -> dict[str, str]:
    """Return the values of a command's options by key; "" for missing options, one line per word for several."""
    found = {"rest": "\n".join(word for word in rest if word != "--")}
    for option in command.options:
        value = getattr(parsed, option.key) or option.default
        found[option.key] = "\n".join(value) if isinstance(value, list) else str(value)
    return found


def interpreter(command: Command, chosen: str | None) -> str:
    """Return the path of the interpreter, after installing its packages and building the C library."""
    if not command.interpreter:
        return sys.executable
    target = f"setup-{command.interpreter}"
    if chosen or command.interpreter == "other":
        target = "lib"
    done = subprocess.run(["make", "--silent", "--no-print-directory", target], cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"setting up failed: make {target}")
    return chosen or (sys.executable if target == "lib" else str(ROOT / ".venv" / "bin" / "python"))


def words_of(step: Step, python: str) -> list[str]:
    return [python, *step.program[1:]] if step.program[0] == "python" else list(step.program)


def run(command: Command, parsed: argparse.Namespace, rest: list[str]) -> int:
    steps = command.steps(given_options(command, parsed, rest))
    chosen = getattr(parsed, "python", None)
    if parsed.dry_run:
        for step in steps:
            named = [f"{key}={shlex.quote(value)}" for key, value in step.environment.items()]
            print(*named, shlex.join(words_of(step, chosen or "python")))
        return 0
    python, environment = interpreter(command, chosen), dict(os.environ)
    if chosen or command.interpreter == "other":  # .venv contains the path of this tree
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    for step in steps:
        status = subprocess.run(words_of(step, python), cwd=ROOT, env={**environment, **step.environment}).returncode
        if status:
            return status
    return 0


def option_text(option: Option) -> str:
    name = option.value if not option.name.startswith("-") else f"{option.name} {option.value}".rstrip()
    return f"`{name}`: {option.help}" + (f" ({option.default})" if option.default else "")


def rows(commands: dict[str, Command], prefix: str = "") -> list[str]:
    found = ["| command | what it does | options (default) |", "|---|---|---|"]
    for name, command in commands.items():
        options = "<br>".join(map(option_text, command.options))
        options = options or (f"those of `python -m {command.passes_on}`" if command.passes_on else "")
        name = f"`{prefix}{name}`" + (" *" if command.interpreter == "other" else "")
        found.append(f"| {name} | {command.help} | {options} |")
    return found


def tables() -> str:
    """Return the tables of docs/maintaining.md."""
    parts = []
    for name, entry in COMMANDS.items():
        if isinstance(entry, Group):
            parts += [f"### `python -m tools {name}`", "", f"{entry.help[0].upper()}{entry.help[1:]}.", ""]
            parts += [*rows(entry.commands, f"{name} "), ""]
    single = {name: entry for name, entry in COMMANDS.items() if isinstance(entry, Command)}
    return "\n".join([*parts, "### Other commands", "", *rows(single)])


def write_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = f"{BEGIN}\n\n{tables()}\n\n{END}"
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: part, text, flags=re.DOTALL), encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = make_parser()
    parsed, rest = parser.parse_known_args(arguments)
    if parsed.write and not hasattr(parsed, "command"):
        write_page()
        return 0
    if not hasattr(parsed, "command"):
        parser.print_help()
        return 0
    if rest and not parsed.command.passes_on:
        parser.error(f"unknown option: {' '.join(rest)}; --help lists them")
    return run(parsed.command, parsed, rest)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(main(sys.argv[1:]))
