"""Errors of the command line: shown in one line, with an exit code."""

from __future__ import annotations

from ...error import TVMError


class TVMCException(TVMError):
    """Something the user can mend; exit code 4."""


class TVMCFileNotFoundError(TVMCException, FileNotFoundError):
    """A model that is not there; exit code 4."""


class TVMCImportError(TVMCException):
    """A package that is not installed; exit code 5."""
