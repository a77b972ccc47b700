"""Command-line programs: ``python -m tvm.exec.<name>``."""
