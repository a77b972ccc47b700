"""The executor interface of Apache TVM: run functions asynchronously and wait for their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...error import not_defined


class ExecutionError(ValueError):
    """A function ended with an error."""


class TimeoutError(Exception):
    """A function exceeded its time limit."""


class Future:
    """The result of a function that may still be running."""

    def done(self) -> bool:
        raise not_defined(self, "done")

    def get(self, timeout: float | None = None) -> Any:
        raise not_defined(self, "get")


class Executor:
    """An executor that runs functions immediately or asynchronously."""

    DEFAULT_TIMEOUT = 120

    def submit(self, func: Callable, *args: Any, **kwargs: Any) -> Future:
        raise not_defined(self, "submit")
