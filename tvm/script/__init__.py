"""TVMScript: the text form of tensor programs."""

from .printer import register_printer, script, show

__all__ = ["register_printer", "script", "show"]
