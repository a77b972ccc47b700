"""Errors of the command line: printed in one line, with an exit code."""

from __future__ import annotations

from enum import IntEnum

from ...error import TVMError


class ExitCode(IntEnum):
    """Exit codes of ``tvmc``; docs/tvmc.md explains each."""

    DONE = 0
    # An internal error of tvmc, or no command was given.
    DEFECT = 1
    USAGE = 2
    REFUSED = 4
    NOT_INSTALLED = 5
    # 128 plus the signal number, as in shells.
    INTERRUPTED = 130
    TERMINATED = 143


class TVMCException(TVMError):
    """An error in the input or in an option; exit code 4."""


class TVMCFileNotFoundError(TVMCException, FileNotFoundError):
    """A model file does not exist; exit code 4."""


class TVMCModuleNotFoundError(TVMCException, ModuleNotFoundError):
    """A Python module that an option names does not exist; exit code 4."""


class TVMCImportError(TVMCException):
    """A Python package is not installed; exit code 5."""
