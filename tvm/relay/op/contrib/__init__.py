"""Pattern tables of external compilers."""

from .register import get_pattern_table, register_pattern_table
