"""TVMScript: the text format of tensor programs."""

from ..not_built import name_of as _name_of
from .printer import register_printer, script, show

__all__ = ["register_printer", "script", "show"]


def __getattr__(name: str):
    return _name_of(__name__, name)
