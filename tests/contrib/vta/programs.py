"""What the tests of the accelerator share."""

from __future__ import annotations

import numpy as np

from tvm.contrib.vta.config import Config
from tvm.contrib.vta.program import Program
from tvm.contrib.vta.testing.random_programs import SMALL

DEFAULT = Config.from_dict()
SMALL_CONFIG = Config.from_dict(SMALL)
CONFIGS = {
    "small": SMALL_CONFIG,
    "default": DEFAULT,
    "batch of 2": Config.from_dict({**SMALL, "LOG_BATCH": 1, "LOG_BUS_WIDTH": 4, "DRAM_LATENCY": 3}),
    "inputs deeper than accumulators": Config.from_dict({**SMALL, "LOG_INP_BUFF_SIZE": 10, "QUEUE_DEPTH": 5}),
}


def matmul(config: Config, rng: np.random.Generator, rows: int = 4) -> tuple[Program, int, np.ndarray]:
    """A program that multiplies, adds a bias, shifts and clips; the address of its results, and the results."""
    n = config.block
    inputs = rng.integers(-128, 128, (rows, config.batch, n), dtype=np.int8)
    weights = rng.integers(-128, 128, (n, n), dtype=np.int8)
    bias = rng.integers(-1000, 1000, (rows, config.batch, n), dtype=np.int32)
    p = Program(config)
    bases = {name: p.place(a, name) for name, a in (("inp", inputs), ("wgt", weights), ("acc", bias))}
    uops, out = p.place_uops([(0, 0, 0)]), p.place(np.zeros(inputs.shape, np.int8), "out")
    loop = {"uop_end": 1, "iter_out": 1, "iter_in": rows, "dst_factor_in": 1}
    p.add("LOAD", memory_type="inp", dram_base=bases["inp"], x_size=rows, y_size=1, x_stride=rows)
    p.add("LOAD", "push_next_dep", memory_type="wgt", dram_base=bases["wgt"], x_size=1, y_size=1, x_stride=1)
    p.add("LOAD", memory_type="uop", dram_base=uops, x_size=1, y_size=1, x_stride=1)
    p.add("LOAD", "pop_prev_dep", memory_type="acc", dram_base=bases["acc"], x_size=rows, y_size=1, x_stride=rows)
    p.add("GEMM", src_factor_in=1, **loop)
    p.add("ALU", alu_opcode="shr", use_imm=1, imm=5, **loop)
    p.add("ALU", alu_opcode="max", use_imm=1, imm=-100, **loop)
    p.add("ALU", "push_next_dep", alu_opcode="min", use_imm=1, imm=100, **loop)
    p.add("STORE", "pop_prev_dep", "push_prev_dep", memory_type="out", dram_base=out, x_size=rows, y_size=1,
          x_stride=rows)  # fmt: skip
    p.add("FINISH", "pop_next_dep")
    product = inputs.astype(np.int32) @ weights.astype(np.int32).T + bias
    return p, out, np.clip(product >> 5, -100, 100).astype(np.int8).reshape(rows, -1)
