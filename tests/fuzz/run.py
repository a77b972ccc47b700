"""One random case: a program, a schedule of it, compiled and compared with the oracle."""

from __future__ import annotations

import random

import numpy as np

import tvm
from tests.fuzz import oracle
from tests.fuzz.generator import Program, RandomSchedule
from tvm.error import ScheduleError


class Case:
    """The outcome of one seed: "ok" or "refused" (an illegal combination, told apart only when lowered)."""

    def __init__(self, seed: int, target: str = "llvm"):
        rng = random.Random(seed)
        self.seed = seed
        self.program = Program(rng)
        self.made = RandomSchedule(self.program, rng)
        self.target = target
        self.refusal = ""

    def size(self, dim) -> int:
        return int(oracle._expr(dim, self.program.sizes, {}, self.program.sizes))

    def run(self) -> str:
        p = self.program
        args = p.inputs + p.outputs + list(p.sizes)
        try:
            built = tvm.build(self.made.schedule, args, self.target, name="case")
        except ScheduleError as refusal:
            self.refusal = str(refusal)
            return "refused"
        numbers = np.random.RandomState(self.seed % (2**32))
        data = {t: numbers.randint(-5, 6, [self.size(d) for d in t.shape]).astype(t.dtype) for t in p.inputs}
        want = oracle.evaluate(p.outputs, data, p.sizes)
        # Old values no kernel should let through: a missed element shows.
        outs = [tvm.nd.array(np.full(w.shape, -77).astype(w.dtype)) for w in want]
        built(*[tvm.nd.array(data[t]) for t in p.inputs], *outs, *p.sizes.values())
        for got, expected, tensor in zip(outs, want, p.outputs):
            oracle.assert_near(got.numpy(), expected, f"seed {self.seed}, output {tensor.name}")
        return "ok"
