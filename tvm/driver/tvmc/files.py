"""Files that appear whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable
from typing import BinaryIO

from .errors import TVMCException


def is_special(path: str) -> bool:
    """Whether the path is there and is no plain file: a pipe, a device, a folder."""
    return os.path.exists(path) and not os.path.isfile(path)


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill the file ``path``: it appears when all is written, and an older one stays until then.

    What is no plain file (a pipe, a device) is written to, never replaced.
    """
    real = os.path.realpath(path)
    try:
        if is_special(real):
            whole = io.BytesIO()
            write(whole)
            with open(real, "wb") as out:
                out.write(whole.getbuffer())
            return
        part = os.path.join(os.path.dirname(real), f".{os.path.basename(real)[:100]}.{secrets.token_hex(4)}.part")
        try:
            with open(part, "xb") as out:
                write(out)
            os.replace(part, real)
        finally:
            if os.path.lexists(part):
                os.remove(part)
    except (OSError, ValueError) as problem:
        raise TVMCException(f"cannot write {path}: {getattr(problem, 'strerror', None) or problem}") from problem


def check_writable(path: str) -> None:
    """Refuse a path that cannot become a file, before the work for it is done."""
    try:
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        if os.path.isdir(real):
            raise TVMCException(f"cannot write {path}: it is a directory")
        if not os.path.isdir(folder):
            raise TVMCException(f"cannot write {path}: there is no directory {folder}")
    except ValueError as problem:  # a null character
        raise TVMCException(f"cannot write {path!r}: {problem}") from problem
    if not os.access(real if is_special(real) else folder, os.W_OK):
        raise TVMCException(f"cannot write {path}: Permission denied")


def check_records(path: str | os.PathLike | None) -> None:
    """Refuse tuning records to read that are not there."""
    if path and not os.path.isfile(path):
        raise TVMCException(f"--tuning-records: there is no file '{os.fspath(path)}'")
