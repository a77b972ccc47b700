"""``tvmc cache``: the cache of compiled code."""

from __future__ import annotations

import time

from ...relay.backend import library_cache
from .arguments import add_command, add_verbose, register_parser
from .errors import TVMCException
from .terminal import size

ACTIONS = ("show", "clear")


@register_parser
def add_cache_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``cache``."""
    parser = add_command(
        subparsers,
        "cache",
        usage="tvmc cache [options] [show|clear]",
        epilog="TVM_CACHE_DIR sets its folder; TVM_NO_CACHE=1 disables it.",
    )
    parser.set_defaults(func=drive_cache)
    add_verbose(parser)
    parser.add_argument(
        "ACTION",
        nargs="?",
        default="show",
        choices=ACTIONS,
        help="show the contents of the cache (default), or clear it",
    )


def drive_cache(args) -> int:
    """Show the contents of the cache, or remove them."""
    folder = library_cache.cache_folder()
    if folder is None:
        raise TVMCException(
            "the cache is not available: its folder cannot be created, or other users may access it "
            "(chmod 700 makes it private; TVM_CACHE_DIR selects another folder)"
        )
    files = library_cache.entries(folder)
    total = sum(file.stat().st_size for file in files)
    if args.ACTION == "clear":
        for file in files:
            file.unlink(missing_ok=True)
        print(f"{folder}: {len(files)} files removed, {size(total)}")
        return 0
    libraries = [file for file in files if file.suffix == library_cache.SUFFIX]
    print(f"{folder}: {len(libraries)} compiled libraries (at most {library_cache.MAX_ENTRIES}), {size(total)}")
    if libraries:
        ages = [max(time.time() - file.stat().st_mtime, 0) / 3600 for file in libraries]
        print(f"last used between {min(ages):.1f} and {max(ages):.1f} hours ago")
    if library_cache.is_switched_off():
        print("TVM_NO_CACHE is set: the cache is disabled")
    return 0


__all__ = ["ACTIONS", "drive_cache"]
