"""A VTA-like accelerator: instruction set, simulators and checker (``docs/vta_isa.md``)."""
