"""The accelerator as RTL, written with Amaranth: ``pip install tvm-classic[vta-rtl]``.

``core.Core`` is the accelerator, ``simulate`` runs programs on it with Verilator. ``docs/vta_isa.md`` describes the
timing, which the cycle-level simulator shares.
"""
