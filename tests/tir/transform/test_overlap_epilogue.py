"""Rows of an epilogue in the product of the next iteration: the same numbers, where they are, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

import tvm
from tvm import tir
from tvm.ir.prim import BufferLoad, Ramp, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, seq
from tvm.tir.transform.overlap_epilogue import PRAGMA, overlap_epilogue

N, LANES = 5, 4


def memory(name: str, rows: int):
    return decl_buffer((rows * LANES,), "float32", name)


def at(buffer, row):
    return BufferLoad(buffer, (Ramp(row * LANES, const(1, "int32"), LANES),))


def store(buffer, row, value):
    return BufferStore(buffer, value, (Ramp(row * LANES, const(1, "int32"), LANES),))


def mark(number, count):
    return Evaluate(tir.call_intrin("void", "tir.overlap_point", number, count))


class Program:
    """A product that sets and then adds to ``rows`` vectors, passing some points, and an epilogue that scales them."""

    def __init__(self, rows=6, points=12, iterations=N, kind=ForKind.SERIAL):
        self.rows, self.points, self.iterations, self.kind = rows, points, iterations, kind
        self.a, self.out = memory("a", N * rows), memory("out", N * rows)
        self.c = memory("c", rows)
        j, p, r, row = (var(name) for name in ("j", "p", "r", "row"))
        self.j, self.p, self.row = j, p, row
        self.start = For(r, 0, rows, ForKind.SERIAL, store(self.c, r, at(self.a, j * rows + r)))
        self.add = store(self.c, p % rows, at(self.c, p % rows) + at(self.a, j * rows + p % rows))
        self.write = store(self.out, j * rows + row, at(self.c, row) * const(2, "float32").astype("float32x4"))

    def function(self, *more, is_alone=True) -> PrimFunc:
        """``more`` are statements behind a row that is written."""
        product = seq(self.start, For(self.p, 0, self.points, ForKind.SERIAL, seq(self.add, mark(self.p, self.points))))
        rows = For(self.row, 0, self.rows, ForKind.SERIAL, seq(self.write, *more))
        rows = AttrStmt(self.row, "pragma_stream_stores", const(1, "int32"), rows)
        body = Allocate(self.c.data, "float32", self.c.shape, const(True, "bool"), seq(product, rows))
        loop = AttrStmt(self.j, PRAGMA, const(1, "int32"), For(self.j, 0, self.iterations, self.kind, body))
        buffers = {b.data: b for b in (self.a, self.out)}
        made = PrimFunc(list(buffers), loop, buffer_map=buffers)
        return made.with_attr("tir.noalias", True) if is_alone else made

    def arrays(self):
        size = N * self.rows * LANES
        return np.random.default_rng(0).standard_normal(size).astype("float32"), np.zeros(size, "float32")


def is_overlapped(made: PrimFunc) -> bool:
    assert not of(Evaluate, made) or all("overlap" not in str(e.value) for e in of(Evaluate, made))
    assert all(a.attr_key != PRAGMA for a in of(AttrStmt, made))
    (loop,) = (loop for loop in of(For, made) if loop.loop_var.name == "j")
    return not any(isinstance(n, Allocate) for n in of(Allocate, loop))


@pytest.mark.parametrize("rows, points", [(6, 12), (6, 6), (6, 3), (6, 4), (6, 13), (7, 20), (5, 2), (3, 1), (1, 4)])
def test_rows_are_written_in_the_next_product(rows, points):
    program = Program(rows, points)
    made = same_result(overlap_epilogue, program.function(), *program.arrays())
    assert is_overlapped(made)
    # The rows of an iteration and those of the next are in two pieces, and the last epilogue stands behind the loop.
    (allocation,) = of(Allocate, made)
    assert int(tvm.arith.Analyzer().simplify(allocation.extents[0])) == 2 * rows * LANES
    loop, last = allocation.body.seq
    assert [a.attr_key for a in of(AttrStmt, loop)] == ["pragma_stream_stores"]
    assert isinstance(last, AttrStmt) and int(last.body.extent) == rows


def test_every_second_point_has_a_row_if_there_are_twice_as_many():
    made = overlap_epilogue(Program(6, 12).function())
    (condition,) = (tvm.arith.Analyzer().simplify(n.condition) for n in of(IfThenElse, made))
    assert str(condition) == "p % 2 == 0 and 0 < j"


def test_a_loop_that_was_divided_overlaps_in_each_part():
    program = Program()
    whole = program.function()
    loop = whole.body.body
    tail = For(loop.loop_var, 3, 2, ForKind.SERIAL, loop.body)
    divided = whole.replace(body=whole.body.replace(body=seq(loop.replace(extent=const(3, "int32")), tail)))
    made = same_result(overlap_epilogue, divided, *program.arrays())
    assert [int(tvm.arith.Analyzer().simplify(a.extents[0])) for a in of(Allocate, made)] == [2 * 6 * LANES] * 2


def in_place(program):
    program.out = program.a
    program.write = store(program.a, program.j * 6 + program.row, at(program.c, program.row))
    return program.function()


def reads_result(program):
    program.add = store(program.c, program.p % 6, at(program.c, program.p % 6) + at(program.out, program.p % 6))
    return program.function()


def writes_what_rows_read(program):
    program.add = seq(program.add, store(program.a, program.p % 6, at(program.a, program.p % 6)))
    program.write = store(program.out, program.j * 6 + program.row, at(program.c, program.row) + at(program.a, 0))
    return program.function()


def has_unknown_pointer(program):
    call = tir.call_intrin("int32", "tir.call_extern", "f", program.out.data)
    program.add = seq(program.add, Evaluate(call))
    return program.function()


def hands_out_the_sums(program):
    call = tir.call_intrin("int32", "tir.call_extern", "f", tir.address_of(program.c[0]))
    program.add = seq(program.add, Evaluate(call))
    return program.function()


def calls_in_the_epilogue(program):
    return program.function(Evaluate(tir.call_intrin("int32", "tir.call_extern", "f", program.row)))


def passes_points_in_the_epilogue(program):
    return program.function(mark(program.row, 6))


@pytest.mark.parametrize("change", [
    in_place, reads_result, writes_what_rows_read, has_unknown_pointer, hands_out_the_sums, calls_in_the_epilogue,
    passes_points_in_the_epilogue, lambda program: program.function(is_alone=False),
])  # fmt: skip
def test_an_epilogue_that_the_product_could_meet_stays_behind_it(change):
    assert is_overlapped(overlap_epilogue(Program().function()))
    assert not is_overlapped(overlap_epilogue(change(Program())))


@pytest.mark.parametrize("change", [{"iterations": 1}, {"iterations": var("n")}, {"kind": ForKind.PARALLEL}], ids=str)
def test_loops_that_are_not_serial_or_of_unknown_length_stay(change):
    assert not is_overlapped(overlap_epilogue(Program(**change).function()))


def test_points_vanish_without_the_pragma():
    whole = Program().function()
    made = overlap_epilogue(whole.replace(body=whole.body.body))
    assert not is_overlapped(made)
    assert len(of(BufferStore, made)) == 3
