"""External files of a model.

A model from an untrusted source contains the names of the files that store its weights, so the names are not trusted. A
path is opened component by component, without following links, and the checks apply to the opened file, which is then
mapped. No file outside the model's folder can be read, even if the folder is modified at the same time.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import Any

from ....error import TVMError


def components(what: str, location: str) -> tuple[str, ...]:
    """Return the components of a path in the model's folder; ``what`` describes its content in error messages."""
    parts = tuple(p for p in location.split("/") if p not in ("", "."))
    if location.startswith("/") or "\0" in location or ".." in parts or not parts:
        raise TVMError(f"{what} is stored outside the model's folder: {location!r}")
    return parts


def mapped(folder: str, what: str, location: str) -> Any:
    """Memory-map a regular file in a folder and return its bytes."""
    parts = components(what, location)
    try:
        descriptor = _open_below(folder, parts)
    except OSError as problem:
        raise TVMError(
            f"{what} cannot be read from '{location}', which must be a regular file in the model's folder and not a "
            f"link: {problem.strerror or problem}"
        ) from problem
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise TVMError(f"{what} cannot be read from '{location}', which is not a regular file")
        if facts.st_nlink > 1:
            raise TVMError(
                f"{what} cannot be read from '{location}', which is a hard link: the file has "
                f"{facts.st_nlink} names and may be outside the folder; replace it with a copy"
            )
        return mmap.mmap(descriptor, facts.st_size, access=mmap.ACCESS_READ) if facts.st_size else b""
    except (OSError, ValueError) as problem:
        raise TVMError(f"{what} cannot be read from '{location}': {problem}") from problem
    finally:
        os.close(descriptor)


def beside(path: str, ending: str) -> dict[str, bytes]:
    """Return the file in a model's folder with the name of the model and another extension, as a dictionary by its
    name.
    """
    name = f"{os.path.splitext(os.path.basename(path))[0]}.{ending}"
    if not os.path.lexists(os.path.join(os.path.dirname(path), name)):
        raise TVMError(f"{name} is missing in the folder of {os.path.basename(path)}")
    return {name: bytes(mapped(os.path.dirname(path) or ".", "the weight file of the model", name))}


def _open_below(folder: str, parts: tuple[str, ...]) -> int:
    """Return the descriptor of a file in a folder, opened without following links."""
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
            above = below
        # Without O_NONBLOCK, opening a pipe blocks until another process opens it for writing.
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
    finally:
        os.close(above)


__all__ = ["beside", "components", "mapped"]
