"""Access to the simulators for tests and measurements."""

from . import simulator
from .utils import run

__all__ = ["run", "simulator"]
