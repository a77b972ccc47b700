"""Atomic writing of files, and checks of paths before long work."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable
from typing import BinaryIO

from .errors import TVMCException


def is_special(path: str) -> bool:
    """Whether the path exists and is not a regular file: a pipe, a device, a directory."""
    return os.path.exists(path) and not os.path.isfile(path)


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write the file ``path`` with the function ``write``; an existing file is replaced only after writing succeeded.

    A pipe or a device is written to directly and never replaced.
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
    """Raise an error for a path that is not writable, before the work for it starts."""
    try:
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        if os.path.isdir(real):
            raise TVMCException(f"cannot write {path}: it is a directory")
        if not os.path.isdir(folder):
            raise TVMCException(f"cannot write {path}: the directory {folder} does not exist")
    except ValueError as problem:  # a null character
        raise TVMCException(f"cannot write {path!r}: {problem}") from problem
    if not os.access(real if is_special(real) else folder, os.W_OK):
        raise TVMCException(f"cannot write {path}: Permission denied")


def check_records(path: str | os.PathLike | None) -> None:
    """Raise an error if the file of tuning records to read does not exist."""
    if path and not os.path.isfile(path):
        raise TVMCException(f"--tuning-records: the file '{os.fspath(path)}' does not exist")
