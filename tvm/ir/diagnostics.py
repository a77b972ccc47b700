"""Messages about a user's program, which are collected and printed together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from ..error import DiagnosticError
from .span import SourceName, Span, render_place


class DiagnosticLevel(IntEnum):
    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


class Diagnostic(NamedTuple):
    """A message and its source location."""

    level: DiagnosticLevel
    span: Span | None
    message: str


class DiagnosticRenderer:
    """Prints the messages of a context by calling a function with the context."""

    def __init__(self, render_func: Callable[[DiagnosticContext], None]):
        self.render_func = render_func

    def render(self, ctx: DiagnosticContext) -> None:
        self.render_func(ctx)


def render_text(ctx: DiagnosticContext) -> str:
    """Format all messages of the context, with their source lines if known."""
    parts: list[str] = []
    for one in ctx.diagnostics:
        level = one.level.name.lower()
        place = None if one.span is None else one.span.source_name
        source = None if place is None else ctx.sources.get(place.name)
        if source is not None and one.span is not None:
            parts.append(render_place(source, one.span, one.message, level))
        else:
            parts.append(f"{level}: {one.message}" + (f" (at {one.span})" if one.span is not None else ""))
    return "\n".join(parts)


def _to_standard_error(ctx: DiagnosticContext) -> None:
    text = render_text(ctx)
    if text:
        sys.stderr.write(text + "\n")


_RENDERER = [DiagnosticRenderer(_to_standard_error)]


def get_renderer() -> DiagnosticRenderer:
    return _RENDERER[0]


def override_renderer(render_func: Callable[[DiagnosticContext], None] | None) -> None:
    """Use this function to print messages; None restores printing to standard error."""
    _RENDERER[0] = DiagnosticRenderer(render_func or _to_standard_error)


class DiagnosticContext:
    """The messages about one module. ``sources`` maps source names to texts."""

    def __init__(self, mod: Any, renderer: DiagnosticRenderer | None = None, sources: dict[str, str] | None = None):
        self.module = mod
        self.renderer = renderer or get_renderer()
        self.sources = dict(sources or {})
        self.diagnostics: list[Diagnostic] = []

    def emit(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)

    def render(self) -> None:
        """Print the collected messages; raise DiagnosticError if one of them is an error."""
        self.renderer.render(self)
        errors = [d for d in self.diagnostics if d.level <= DiagnosticLevel.ERROR]
        if errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise DiagnosticError(f"{errors[0].message}{more}")


__all__ = [
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticLevel",
    "DiagnosticRenderer",
    "SourceName",
    "get_renderer",
    "override_renderer",
    "render_text",
]
