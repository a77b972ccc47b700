"""The classic names of how work is given to others and waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...error import not_defined


class ExecutionError(ValueError):
    """Work that ended with an error."""


class TimeoutError(Exception):
    """Work that took too long."""


class Future:
    """A result that may come later."""

    def done(self) -> bool:
        raise not_defined(self, "done")

    def get(self, timeout: float | None = None) -> Any:
        raise not_defined(self, "get")


class Executor:
    """Runs functions, now or later."""

    DEFAULT_TIMEOUT = 120

    def submit(self, func: Callable, *args: Any, **kwargs: Any) -> Future:
        raise not_defined(self, "submit")
