"""Commands for maintainers: ``python -m tools COMMAND --help`` describes each."""

from __future__ import annotations

import argparse
import importlib
import sys

# Command: the module with its ``main(arguments)``, and what it does.
COMMANDS = {
    "everywhere": ("tools.everywhere", "run a sample of the tests as on other machines; writes docs/everywhere.md"),
    "performance": ("tools.performance", "write docs/performance.md and its charts from benchmarks/results"),
}


def main(arguments: list[str]) -> int:
    rows = "\n".join(f"  {name:<12} {what}" for name, (_, what) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tools", description=__doc__, epilog=f"commands:\n{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    chosen = parser.parse_args(arguments[:1]).command
    return importlib.import_module(COMMANDS[chosen][0]).main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
