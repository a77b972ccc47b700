"""Random schedules for GPUs: kernels with blocks and threads, virtual threads, shared and local memory, reductions
across threads, caches and double buffers."""

from __future__ import annotations

import random

import numpy as np

import tvm
from tests import cuda_emulator
from tests.fuzz import oracle
from tests.fuzz.generator import Program
from tvm import te
from tvm.error import ScheduleError
from tvm.ir.prim import IterVar
from tvm.te.schedule import AttachType, Stage
from tvm.te.tensor import PlaceholderOp

EXTENTS = (1, 2, 3, 4, 8, 16)


class Kernel:
    """A stage that is a kernel: its thread axes, and the loops of it inside which others may be computed."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self.threads: list[IterVar] = []
        self.bound: list[IterVar] = []
        # How many loops carried by blocks come first.
        self.blocks = 0


class ThreadSchedule:
    """Makes every stage a kernel, or a part of one; a refusal is noted and leaves the schedule as it was."""

    def __init__(self, program: Program, rng: random.Random):
        self.rng = rng
        self.program = program
        self.schedule = te.create_schedule([t.op for t in program.outputs])
        self.kernels: dict[Stage, Kernel] = {}
        self.refused: list[str] = []
        for stage in reversed(list(self.schedule.stages)):
            if not isinstance(stage.op, PlaceholderOp):
                self.place(stage)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def place(self, stage: Stage) -> None:
        if not stage.is_output:
            if not stage.op.reduce_axis and self.chance(0.3):
                stage.compute_inline()
                return
            users = self.schedule.consumers(stage)
            kernel = self.kernels.get(users[0]) if len(users) == 1 else None
            # Memory inside kernels has sizes that are constants.
            if kernel is not None and not self.program.sizes and self.chance(0.5):
                self.attach(stage, kernel)
                return
        self.kernel(stage)

    # -- kernels -------------------------------------------------------------------------------------------------------

    def kernel(self, stage: Stage) -> None:
        if stage.op.reduce_axis and self.chance(0.4) and not self.program.sizes and len(stage.op.outputs) == 1:
            self.across_threads(stage)
            return
        cache = None
        if self.chance(0.4) and len(stage.op.outputs) == 1 and not self.program.sizes:
            cache = self.schedule[self.schedule.cache_write(stage.op.output(0), "local")]
        kernel = self.kernels[stage] = Kernel(stage)
        self.bind(kernel)
        if cache is not None:
            cache.compute_at(stage, kernel.bound[-1])
            if cache.op.reduce_axis:
                self.loosen(cache)
        reader = cache or stage
        if self.chance(0.5) and not self.program.sizes:
            self.cache_input(reader, kernel)

    def bind(self, kernel: Kernel) -> None:
        """Some of the data loops on blocks, some on threads, the others serial inside."""
        stage, rng = kernel.stage, self.rng
        axes = list(stage.op.axis) or [stage.fuse()]
        if len(axes) > 1 and self.chance(0.5):
            at = rng.randrange(len(axes) - 1)
            axes[at : at + 2] = [stage.fuse(axes[at], axes[at + 1])]
        blocks, threads, virtual, inside = [], [], [], []
        for axis in axes:
            if len(threads) < 2 and self.chance(0.8):
                outer, inner = stage.split(axis, factor=rng.choice(EXTENTS))
                if self.chance(0.3):
                    inner, tail = stage.split(inner, factor=rng.choice((1, 2, 4)))
                    inside.append(tail)
                if self.chance(0.2):
                    outer, middle = stage.split(outer, factor=2)
                    virtual.append(middle)
                blocks.append(outer)
                threads.append(inner)
            else:
                inside.append(axis)
        if not blocks:
            outer, inner = stage.split(inside.pop(), factor=rng.choice(EXTENTS))
            blocks.append(outer)
            threads.append(inner)
        rest = [a for a in stage.leaf_iter_vars if a.iter_type == IterVar.CommReduce] + inside
        rng.shuffle(rest)
        stage.reorder(*blocks, *virtual, *threads, *rest)
        for axis, tag in zip(blocks, ("blockIdx.x", "blockIdx.y", "blockIdx.z")):
            stage.bind(axis, te.thread_axis(tag))
        for axis in virtual:
            stage.bind(axis, te.thread_axis("vthread"))
        for axis, tag in zip(threads, ("threadIdx.x", "threadIdx.y")):
            kernel.threads.append(te.thread_axis(tag))
            stage.bind(axis, kernel.threads[-1])
        kernel.bound, kernel.blocks = [*blocks, *virtual, *threads], len(blocks)

    def across_threads(self, stage: Stage) -> None:
        """A reduction whose parts are summed by the threads of a block."""
        count = self.rng.choice((2, 4, 7, 8))
        threads = te.thread_axis((0, count), "threadIdx.x")
        reduced = stage.fuse(*stage.op.reduce_axis)
        _, inner = stage.split(reduced, factor=count)
        part = self.schedule[self.schedule.rfactor(stage.op.output(0), inner, self.rng.choice((0, -1)))]
        axes = list(stage.op.axis) or [stage.fuse()]
        row = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        if self.chance(0.5):
            row, lane = stage.split(row, factor=self.rng.choice((2, 3)))
            stage.bind(lane, te.thread_axis("threadIdx.y"))
        stage.bind(row, te.thread_axis("blockIdx.x"))
        (own,) = stage.op.reduce_axis
        stage.bind(own, threads)
        part.compute_at(stage, own)
        if self.chance(0.5):
            stage.set_store_predicate(threads.var.equal(0))

    def loosen(self, stage: Stage) -> None:
        """Loops of a reduction inside a thread: cut, reordered, unrolled."""
        axis = self.rng.choice(list(stage.op.reduce_axis))
        outer, inner = stage.split(axis, factor=self.rng.choice((2, 3, 4)))
        if self.chance(0.5):
            stage.unroll(inner)
        if self.chance(0.5):
            others = [a for a in stage.leaf_iter_vars if a not in (outer, inner)]
            stage.reorder(outer, *others, inner)

    # -- parts of kernels ----------------------------------------------------------------------------------------------

    def attach(self, stage: Stage, kernel: Kernel) -> None:
        """Compute a producer inside a loop of the kernel, for its block or for each thread."""
        places = kernel.bound[kernel.blocks - 1 :]
        self.in_memory(stage, kernel, kernel.stage, self.rng.choice(places))

    def in_memory(self, stage: Stage, kernel: Kernel, parent: Stage, place: IterVar) -> None:
        stage.compute_at(parent, place)
        shared = self.chance(0.6)
        stage.set_scope("shared" if shared else "local")
        if not shared:
            return
        if self.chance(0.7) and stage.op.axis:
            axes = list(stage.op.axis)
            axis = stage.fuse(*axes) if len(axes) > 1 else axes[0]
            for thread in kernel.threads:
                # As many threads as the kernel has, whatever the loop's own length.
                axis, inner = stage.split(axis, factor=self.rng.choice((1, 2, 4)))
                stage.bind(inner, thread)
        if self.chance(0.3):
            stage.double_buffer()

    def cache_input(self, reader: Stage, kernel: Kernel) -> None:
        """What a kernel reads, copied into the memory of its block or thread, for a part of a sum at a time."""
        inputs = [t for t in reader.op.input_tensors if self.schedule[t].attach_type == AttachType.GROUP_ROOT]
        if not inputs:
            return
        copy = self.schedule[self.schedule.cache_read(self.rng.choice(inputs), "shared", [reader.op])]
        steps = [a for a in reader.leaf_iter_vars if a.iter_type == IterVar.CommReduce]
        if steps and self.chance(0.7) and not (reader is kernel.stage and self.chance(0.5)):
            self.in_memory(copy, kernel, reader, self.rng.choice(steps))
        else:
            self.in_memory(copy, kernel, kernel.stage, self.rng.choice(kernel.bound[kernel.blocks - 1 :]))


class ThreadCase:
    """The outcome of one seed on a device ("cuda" is the emulator of one): "ok" or "refused"."""

    def __init__(self, seed: int, target: str = "opencl"):
        rng = random.Random(seed)
        self.seed = seed
        self.target = tvm.target.Target(target, host="llvm")
        self.program = Program(rng)
        self.refusal = ""
        self.made: ThreadSchedule | None = None
        try:
            self.made = ThreadSchedule(self.program, rng)
        except ScheduleError as refusal:
            self.refusal = str(refusal)

    def size(self, dim) -> int:
        return int(oracle._expr(dim, self.program.sizes, {}, self.program.sizes))

    def run(self) -> str:
        if self.made is None:
            return "refused"
        p = self.program
        numbers = np.random.RandomState(self.seed % (2**32))
        data = {t: numbers.randint(-5, 6, [self.size(d) for d in t.shape]).astype(t.dtype) for t in p.inputs}
        want = oracle.evaluate(p.outputs, data, p.sizes)
        # Old values no kernel should let through: a missed element shows.
        outs = [np.full(w.shape, -77).astype(w.dtype) for w in want]
        try:
            results = self.execute([*data.values(), *outs])
        except ScheduleError as refusal:
            self.refusal = str(refusal)
            return "refused"
        for got, expected, tensor in zip(results, want, p.outputs):
            oracle.assert_near(got, expected, f"seed {self.seed}, output {tensor.name}")
        return "ok"

    def execute(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The outputs after the program has run on inputs and old outputs."""
        p = self.program
        args = p.inputs + p.outputs + list(p.sizes)
        sizes = list(p.sizes.values())
        if self.target.kind.name == "cuda":
            results = cuda_emulator.run(self.made.schedule, args, [*arrays, *sizes], str(self.target.attrs["arch"]))
            return results[len(p.inputs) :]
        built = tvm.build(self.made.schedule, args, self.target, name="case")
        device = tvm.device(self.target.kind.name, 0)
        held = [tvm.nd.array(x, device) for x in arrays]
        built(*held, *sizes)
        return [x.numpy() for x in held[len(p.inputs) :]]


__all__ = ["ThreadCase", "ThreadSchedule"]
