"""Access to the simulators for tests and measurements."""

from . import simulator

__all__ = ["simulator"]
