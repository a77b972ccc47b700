"""PyTorch beside compiled models. PyTorch itself is imported when a function is called."""

from ...not_built import name_of as _name_of
from .dynamo import pytvm

__all__ = ["pytvm"]


def __getattr__(name: str):
    return _name_of(__name__, name)
