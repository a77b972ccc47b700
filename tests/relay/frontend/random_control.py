"""Random ONNX programs of branches and loops inside each other."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from small_models import graph_model

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SIZE = 3


def info(name, kind=F, shape=(SIZE,)):
    return helper.make_tensor_value_info(name, kind, shape)


class Writer:
    """Writes nodes. ``vectors``, ``counts`` and ``tests`` are the names in sight: tensors of three numbers,
    small whole numbers, and conditions."""

    def __init__(self, rng, vectors, counts, tests, names=None):
        self.rng, self.nodes = rng, []
        self.vectors, self.counts, self.tests = list(vectors), list(counts), list(tests)
        self.names = names if names is not None else iter(f"v{i}" for i in range(1 << 20))

    def one(self, of: list) -> str:
        return of[self.rng.integers(len(of))]

    def node(self, op, inputs, outputs=1, **attributes):
        made = [next(self.names) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, **attributes))
        return made if outputs > 1 else made[0]

    def constant(self, value, dtype) -> str:
        return self.node("Constant", [], value=numpy_helper.from_array(np.array(value, dtype)))

    def inner(self, vectors=(), counts=(), tests=()) -> Writer:
        return Writer(self.rng, [*self.vectors, *vectors], [*self.counts, *counts], [*self.tests, *tests], self.names)

    def statements(self, count: int, depth: int) -> None:
        kinds = ["compute", "test", *(["branch", "loop"] if depth else [])]
        for _ in range(count):
            getattr(self, self.one(kinds))(depth)

    def compute(self, depth: int) -> None:
        op = self.one(["Add", "Sub", "Mul", "Max", "Min"])
        self.vectors.append(self.node("Tanh", [self.node(op, [self.one(self.vectors), self.one(self.vectors)])]))

    def test(self, depth: int) -> None:
        number = self.constant(int(self.rng.integers(4)), "int64")
        self.tests.append(self.node(self.one(["Less", "Equal", "Greater"]), [self.one(self.counts), number]))

    def branch(self, depth: int) -> None:
        """Two vectors, and one of a length that the branches do not share, whose largest element is taken."""
        sides = []
        for count in (1, 2):
            side = self.inner()
            side.statements(2, depth - 1)
            long = side.node("Concat", [side.one(side.vectors) for _ in range(count)], axis=0)
            results = [side.node("Identity", [side.vectors[-1]]), side.node("Neg", [side.one(side.vectors)]), long]
            outputs = [info(r, shape=None) for r in results]
            sides.append(helper.make_graph(side.nodes, next(self.names), [], outputs))
        a, b, long = self.node("If", [self.one(self.tests)], 3, then_branch=sides[0], else_branch=sides[1])
        self.vectors += [a, b, self.node("Add", [a, self.node("ReduceMax", [long], axes=[0], keepdims=1)])]
        self.compute(depth)

    def loop(self, depth: int) -> None:
        """Two vectors are carried, one that grows, and rows are collected, whose mean is taken."""
        number, going, x, y, long = (next(self.names) for _ in range(5))
        body = self.inner([x, y], [number], [])
        body.statements(2, depth - 1)
        new = [body.node("Identity", [body.vectors[-1]]), body.node("Identity", [body.one(body.vectors)])]
        longer = body.node("Concat", [long, body.one(body.vectors)], axis=0)
        row = body.node("Neg", [new[0]])
        limit = self.constant(int(self.rng.integers(3, 6)), "int64")
        on = body.node("Less", [number, limit])
        inputs = [info(number, I, []), info(going, B, []), info(x), info(y), info(long, shape=[None])]
        outputs = [info(on, B, []), info(new[0]), info(new[1]), info(longer, shape=[None]), info(row)]
        graph = helper.make_graph(body.nodes, next(self.names), inputs, outputs)
        start = [self.one(self.vectors) for _ in range(3)]
        test = self.one(["", self.one(self.tests)])
        a, b, long, rows = self.node("Loop", [self.one(self.counts), test, *start], 4, body=graph)
        top = self.node("ReduceMax", [long], axes=[0], keepdims=1)
        total = self.node("ReduceSum", [rows, self.constant([0], "int64")], keepdims=0)
        self.vectors += [a, b, self.node("Tanh", [self.node("Add", [top, total])])]


def random_model(rng):
    writer = Writer(rng, ["x", "y"], ["n"], ["c"])
    writer.statements(3, 2)
    writer.loop(2)
    writer.branch(2)
    inputs = [info("x"), info("y"), info("n", I, []), info("c", B, [])]
    results = [writer.node("Identity", [v]) for v in writer.vectors[-3:]]
    return graph_model(writer.nodes, inputs, [info(r) for r in results])
