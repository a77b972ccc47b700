"""Files beside a model that the model names.

A model that came from elsewhere names the files its weights are read from, so the names are not trusted. The path that
is checked is the path that is opened, component by component and never through a link, and the file that was opened is
what is checked and mapped. Nothing outside the model's folder can be reached, also when the folder changes meanwhile.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import Any

from ....error import TVMError


def components(what: str, location: str) -> tuple[str, ...]:
    """The parts of a path below the model's folder; ``what`` is how errors call what lies there."""
    parts = tuple(p for p in location.split("/") if p not in ("", "."))
    if location.startswith("/") or "\0" in location or ".." in parts or not parts:
        raise TVMError(f"{what} is stored outside the model's folder: {location!r}")
    return parts


def mapped(folder: str, what: str, location: str) -> Any:
    """The bytes of a plain file below a folder, mapped."""
    parts = components(what, location)
    try:
        descriptor = _open_below(folder, parts)
    except OSError as problem:
        raise TVMError(
            f"{what} should be in '{location}' in the model's folder, as a plain file and not through a "
            f"link: {problem.strerror or problem}"
        ) from problem
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise TVMError(f"{what} should be in '{location}', which is no plain file")
        if facts.st_nlink > 1:
            raise TVMError(
                f"{what} should be in '{location}', which is a hard link: the file has "
                f"{facts.st_nlink} names and may belong elsewhere; put a copy in its place"
            )
        return mmap.mmap(descriptor, facts.st_size, access=mmap.ACCESS_READ) if facts.st_size else b""
    except (OSError, ValueError) as problem:
        raise TVMError(f"{what} cannot be read from '{location}': {problem}") from problem
    finally:
        os.close(descriptor)


def beside(path: str, ending: str) -> dict[str, bytes]:
    """The file in a model's folder that has the model's name and another ending, by its name."""
    name = f"{os.path.splitext(os.path.basename(path))[0]}.{ending}"
    if not os.path.lexists(os.path.join(os.path.dirname(path), name)):
        raise TVMError(f"there is no {name} beside {os.path.basename(path)}")
    return {name: bytes(mapped(os.path.dirname(path) or ".", "the second file of the model", name))}


def _open_below(folder: str, parts: tuple[str, ...]) -> int:
    """The descriptor of a file below a folder, reached without following links."""
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
            above = below
        # Without O_NONBLOCK a pipe would wait for somebody to write into it.
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
    finally:
        os.close(above)


__all__ = ["beside", "components", "mapped"]
