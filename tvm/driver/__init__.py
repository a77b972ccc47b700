"""Drivers: compile programs and, on the command line, whole models."""

from .build_module import build, lower

__all__ = ["build", "lower"]
