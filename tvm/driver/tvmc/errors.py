"""Errors of the command line: shown in one line, with an exit code."""

from __future__ import annotations

from enum import IntEnum

from ...error import TVMError


class ExitCode(IntEnum):
    """What ``tvmc`` ends with; docs/tvmc.md explains each."""

    DONE = 0
    # A defect of tvmc, or no command was given.
    DEFECT = 1
    USAGE = 2
    REFUSED = 4
    NOT_INSTALLED = 5
    # 128 and the number of the signal, as shells have it.
    INTERRUPTED = 130
    TERMINATED = 143


class TVMCException(TVMError):
    """Something the user can mend; exit code 4."""


class TVMCFileNotFoundError(TVMCException, FileNotFoundError):
    """A model that is not there; exit code 4."""


class TVMCModuleNotFoundError(TVMCException, ModuleNotFoundError):
    """A module of Python that an option names and that is not there; exit code 4."""


class TVMCImportError(TVMCException):
    """A package that is not installed; exit code 5."""
