"""Random tensor programs and random schedules of them."""

from __future__ import annotations

import random

from tvm import te, tir
from tvm.arith import Analyzer
from tvm.error import ScheduleError
from tvm.ir.prim import IterVar
from tvm.te.attributes import AttachType
from tvm.te.tensor import ComputeOp, PlaceholderOp

SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17]


class Program:
    """A random program: its inputs, outputs and size variables with their values."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.sizes: dict = {}
        self.inputs: list = []
        self.tensors: list = []
        self.count = 0
        self.dtype = rng.choice(["int32", "int32", "float32", "int64"])
        for _ in range(rng.randint(1, 2)):
            self.new_input(rng.randint(1, 3))
        for _ in range(rng.randint(1, 5)):
            self.new_compute()
        used = {t.op for x in self.tensors for t in x.op.input_tensors}
        self.outputs = [t for t in self.tensors if t.op not in used and not isinstance(t.op, PlaceholderOp)]
        self.inputs = [t for t in self.inputs if self._reaches(t)]

    def _reaches(self, t) -> bool:
        return any(t in x.op.input_tensors for x in self.tensors)

    def size(self):
        n = self.rng.choice(SIZES)
        if self.rng.random() < 0.12:
            variable = te.size_var(f"n{len(self.sizes)}")
            self.sizes[variable] = n if self.rng.random() < 0.9 else 0
            return variable
        return n

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def new_input(self, ndim: int):
        t = te.placeholder([self.size() for _ in range(ndim)], self.dtype, self.name("A"))
        self.inputs.append(t)
        self.tensors.append(t)
        return t

    def pick(self):
        # Later tensors more often: chains grow deep.
        return self.rng.choice(self.tensors[-3:] if self.rng.random() < 0.7 else self.tensors)

    def new_compute(self) -> None:
        kind = self.rng.choice(
            [
                "elementwise",
                "elementwise",
                "two",
                "stencil",
                "reduce",
                "matmul",
                "transpose",
                "pad",
                "tuple",
                "argmax",
                "broadcast",
                "flatten",
            ]
        )
        made = getattr(self, "make_" + kind)()
        self.tensors.extend(made if isinstance(made, (list, tuple)) else [made])

    def make_elementwise(self):
        x = self.pick()
        c = self.rng.randint(1, 5)
        form = self.rng.choice(
            [lambda v: v * c + 1, lambda v: v - c, lambda v: te.max(v, c) + v, lambda v: tir.Select(v > c, v, v * 2)]
        )
        return te.compute(x.shape, lambda *i: form(x(*i)), name=self.name("E"))

    def make_two(self):
        x = self.pick()
        same = [
            t
            for t in self.tensors
            if len(t.shape) == len(x.shape)
            and all(a is b or getattr(a, "value", -1) == getattr(b, "value", -2) for a, b in zip(t.shape, x.shape))
        ]
        y = self.rng.choice(same)
        return te.compute(x.shape, lambda *i: x(*i) + y(*i) * 2, name=self.name("T"))

    def make_broadcast(self):
        x = self.pick()
        n = self.size()
        return te.compute([n] + list(x.shape), lambda k, *i: x(*i) + k.astype(self.dtype), name=self.name("B"))

    def make_transpose(self):
        x = self.pick()
        order = list(range(len(x.shape)))
        self.rng.shuffle(order)
        return te.compute(
            [x.shape[d] for d in order],
            lambda *i: x(*[i[order.index(d)] for d in range(len(order))]),
            name=self.name("P"),
        )

    def make_stencil(self):
        x = self.pick()
        d = self.rng.randrange(len(x.shape))
        reach = self.rng.randint(1, 2)
        last = x.shape[d] - 1

        def body(*i):
            def at(offset):
                j = list(i)
                j[d] = te.min(te.max(i[d] + offset, 0), last)
                return x(*j)

            return at(-reach) + at(0) * 3 + at(reach)

        return te.compute(x.shape, body, name=self.name("S"))

    def make_pad(self):
        x = self.pick()
        p = self.rng.randint(1, 2)
        d = self.rng.randrange(len(x.shape))
        shape = list(x.shape)
        shape[d] = shape[d] + 2 * p

        def body(*i):
            j = list(i)
            j[d] = i[d] - p
            inside = tir.all(i[d] >= p, i[d] < x.shape[d] + p)
            return tir.if_then_else(inside, x(*j), tir.const(0, self.dtype))

        return te.compute(shape, body, name=self.name("Q"))

    def make_flatten(self):
        x = self.pick()
        if len(x.shape) < 2:
            return self.make_elementwise()
        a, b = x.shape[0], x.shape[1]
        return te.compute([a * b] + list(x.shape[2:]), lambda f, *i: x(f // b, f % b, *i), name=self.name("F"))

    def make_reduce(self):
        x = self.pick()
        n = self.rng.randint(1, len(x.shape))
        over = self.rng.sample(range(len(x.shape)), n)
        axes = {d: te.reduce_axis((0, x.shape[d]), f"k{d}") for d in over}
        kept = [d for d in range(len(x.shape)) if d not in axes]
        if not kept:
            kept_shape: list = [1]
        else:
            kept_shape = [x.shape[d] for d in kept]
        reducer = self.rng.choice([te.sum, te.max, te.min])

        def body(*i):
            at = [axes[d].var if d in axes else i[kept.index(d)] for d in range(len(x.shape))]
            where = None
            if self.rng.random() < 0.2:
                first = axes[over[0]].var
                where = first < self.rng.randint(1, 6)
            return reducer(x(*at), axis=[axes[d] for d in over], where=where)

        return te.compute(kept_shape, body, name=self.name("R"))

    def make_matmul(self):
        x = self.pick()
        if len(x.shape) != 2:
            return self.make_reduce()
        n = self.size()
        w = te.placeholder([x.shape[1], n], self.dtype, self.name("W"))
        self.inputs.append(w)
        self.tensors.insert(0, w)
        k = te.reduce_axis((0, x.shape[1]), "k")
        return te.compute([x.shape[0], n], lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name=self.name("M"))

    def make_tuple(self):
        x = self.pick()
        return list(te.compute(x.shape, lambda *i: (x(*i) + 1, x(*i) * 2), name=self.name("U")))

    def make_argmax(self):
        x = self.pick()
        k = te.reduce_axis((0, x.shape[-1]), "k")

        def fcombine(a, b):
            better = tir.any(a[1] > b[1], tir.all(a[1].equal(b[1]), a[0] <= b[0]))
            return tir.Select(better, a[0], b[0]), tir.Select(better, a[1], b[1])

        def fidentity(t0, t1):
            return tir.const(2**30, t0), te.min_value(t1)

        argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
        shape = list(x.shape[:-1]) or [1]
        return list(
            te.compute(
                shape,
                lambda *i: argmax((k.var, x(*(list(i)[: len(x.shape) - 1] + [k.var]))), axis=k),
                name=self.name("X"),
            )
        )


class RandomSchedule:
    """Applies random primitives; a refusal is counted and leaves the schedule as it was."""

    def __init__(self, program: Program, rng: random.Random, moves: int | None = None):
        self.rng = rng
        self.sizes = {v: tir.const(n, v.dtype) for v, n in program.sizes.items()}
        self.schedule = te.create_schedule([t.op for t in program.outputs])
        self.refused: list[str] = []
        self.applied: list[str] = []
        for _ in range(moves if moves is not None else rng.randint(2, 18)):
            self.move()

    def stage(self):
        return self.rng.choice([s for s in self.schedule.stages if not isinstance(s.op, PlaceholderOp)])

    def move(self) -> None:
        kind = self.rng.choice(
            [
                "split",
                "split",
                "split",
                "nparts",
                "fuse",
                "reorder",
                "tile",
                "compute_at",
                "compute_at",
                "compute_at",
                "inline",
                "root",
                "vectorize",
                "unroll",
                "parallel",
                "cache_read",
                "cache_write",
                "rfactor",
                "align",
                "pragma",
                "double_buffer",
                "prefetch",
                "overlap",
            ]
        )
        try:
            getattr(self, "do_" + kind)()
            self.applied.append(kind)
        except ScheduleError as refusal:
            self.refused.append(str(refusal))

    def leaf(self, stage):
        if not stage.leaf_iter_vars:
            raise ScheduleError("no loops")
        return self.rng.choice(stage.leaf_iter_vars)

    def do_split(self):
        s = self.stage()
        s.split(self.leaf(s), factor=self.rng.choice([1, 2, 3, 4, 5, 8, 16]))

    def do_overlap(self):
        """Only of a stage that is computed as a whole: of a part of it there may be fewer elements than a tile has."""
        s = self.stage()
        axis = self.leaf(s)
        factor = self.rng.choice([2, 3, 4, 5, 8])
        if not s.is_output or s.attach_type != AttachType.GROUP_ROOT or axis not in s.op.axis:
            return
        if int(Analyzer().simplify(tir.stmt_functor.substitute(axis.dom.extent, self.sizes))) < factor:
            return
        outer, inner = s.split(axis, factor=factor)
        s.overlap(outer)
        if self.rng.random() < 0.5:
            self.rng.choice([s.vectorize, s.unroll])(inner)

    def do_nparts(self):
        s = self.stage()
        s.split(self.leaf(s), nparts=self.rng.choice([1, 2, 3, 4, 7]))

    def do_fuse(self):
        s = self.stage()
        if len(s.leaf_iter_vars) < 2:
            return
        at = self.rng.randrange(len(s.leaf_iter_vars) - 1)
        s.fuse(*s.leaf_iter_vars[at : at + self.rng.randint(2, 3)])

    def do_reorder(self):
        s = self.stage()
        axes = list(s.leaf_iter_vars)
        self.rng.shuffle(axes)
        s.reorder(*axes[: self.rng.randint(1, len(axes))] if axes else [])

    def do_tile(self):
        s = self.stage()
        if len(s.leaf_iter_vars) >= 2:
            x, y = self.rng.sample(s.leaf_iter_vars, 2)
            s.tile(x, y, self.rng.choice([2, 3, 4]), self.rng.choice([2, 4, 5]))

    def do_compute_at(self):
        s = self.stage()
        users = [u for u in self.schedule.stages if self.schedule.reaches(s, u)]
        if not users:
            return
        parent = self.rng.choice(users)
        s.compute_at(parent, self.leaf(parent))

    def do_inline(self):
        self.stage().compute_inline()

    def do_root(self):
        self.stage().compute_root()

    def do_vectorize(self):
        s = self.stage()
        axis = s.leaf_iter_vars[-1] if s.leaf_iter_vars and self.rng.random() < 0.7 else self.leaf(s)
        outer, inner = s.split(axis, factor=self.rng.choice([2, 4, 8]))
        s.vectorize(inner)

    def do_unroll(self):
        s = self.stage()
        outer, inner = s.split(self.leaf(s), factor=self.rng.choice([2, 3, 4]))
        s.unroll(inner)

    def do_parallel(self):
        s = self.stage()
        if s.leaf_iter_vars:
            s.parallel(s.leaf_iter_vars[0])

    def do_cache_read(self):
        made = [s for s in self.schedule.stages if self.schedule.consumers(s)]
        s = self.rng.choice(made)
        t = self.rng.choice(s.op.outputs)
        readers = [u.op for u in self.schedule.consumers(s) if t in u.op.input_tensors]
        if readers:
            self.schedule.cache_read(t, "global", self.rng.sample(readers, self.rng.randint(1, len(readers))))

    def do_cache_write(self):
        s = self.stage()
        if isinstance(s.op, ComputeOp):
            outs = s.op.outputs
            self.schedule.cache_write(outs if len(outs) > 1 else outs[0], self.rng.choice(["global", "local"]))

    def do_rfactor(self):
        s = self.stage()
        axes = [a for a in s.leaf_iter_vars if a.iter_type == IterVar.CommReduce]
        if axes:
            self.schedule.rfactor(s.op.output(0), self.rng.choice(axes), self.rng.choice([0, -1]))

    def do_align(self):
        s = self.stage()
        if s.op.axis:
            s.storage_align(self.rng.choice(s.op.axis), self.rng.choice([2, 4, 8]), self.rng.choice([0, 1]))

    def do_pragma(self):
        s = self.stage()
        s.pragma(self.leaf(s), "auto_unroll_max_step", self.rng.choice([0, 4, 16]))

    def do_double_buffer(self):
        self.stage().double_buffer()

    def do_prefetch(self):
        s = self.stage()
        if s.op.input_tensors:
            s.prefetch(self.rng.choice(s.op.input_tensors), self.leaf(s), 1)
