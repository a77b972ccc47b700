"""External code generators and their pattern tables."""

from .codegen import Codegen, load_codegens, register_codegen
from .partition import partition_for
from .register import get_pattern_table, register_pattern_table
