"""Programs: ``python -m tvm.exec.<name>``."""
