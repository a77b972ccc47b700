"""Patterns that other compilers take."""

from .register import get_pattern_table, register_pattern_table
