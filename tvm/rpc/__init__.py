"""Sessions on other machines are to come; ``LocalSession`` has their face on this one."""

from ..not_built import name_of as _name_of
from .local import LocalSession

__all__ = ["LocalSession"]


def __getattr__(name: str):
    return _name_of(__name__, name)
