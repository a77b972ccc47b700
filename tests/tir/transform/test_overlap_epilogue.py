"""Rows of an epilogue in the product that computes them: the same numbers, where they are, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

from tvm import tir
from tvm.ir.prim import BufferLoad, Ramp, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, seq
from tvm.tir.transform.overlap_epilogue import FIRST, KEYS, LAST, NEXT, PRAGMA, PREVIOUS, ROW, overlap_epilogue

N, LANES = 5, 4


def memory(name: str, rows: int):
    return decl_buffer((rows * LANES,), "float32", name)


def at(buffer, row):
    return BufferLoad(buffer, (Ramp(row * LANES, const(1, "int32"), LANES),))


def store(buffer, row, value):
    return BufferStore(buffer, value, (Ramp(row * LANES, const(1, "int32"), LANES),))


def attribute(key, body, value=1, node=0):
    return AttrStmt(const(node, "int32"), key, value if not isinstance(value, int) else const(value, "int32"), body)


def allocate(buffer, body):
    return Allocate(buffer.data, "float32", buffer.shape, const(True, "bool"), body)


class Program:
    """A product that copies rows, each loaded while the one before is stored, and an epilogue that scales them. The
    last row of a product is stored by the next one, if they overlap."""

    def __init__(self, rows=6, written=None, iterations=N, kind=ForKind.SERIAL):
        self.rows, self.iterations, self.kind = rows, iterations, kind
        self.written = rows if written is None else written
        self.a, self.out = memory("a", N * rows), memory("out", N * rows)
        self.c, self.operand, self.sums = memory("c", rows), memory("operand", 1), memory("sums", 1)
        self.j, self.r, self.row = (var(name) for name in ("j", "r", "row"))
        self.step = seq(self.final(self.r, at(self.operand, 0)), self.load(self.r + 1, 0))
        scaled = at(self.c, self.row) * const(2, "float32").astype("float32x4")
        self.write = store(self.out, self.j * rows + self.row, scaled)
        self.first = attribute(FIRST, store(self.operand, 0, at(self.a, self.j * rows)))

    def final(self, row, value):
        return attribute(ROW, store(self.c, row, value), row, self.rows)

    def load(self, row, ahead):
        return attribute(NEXT, store(self.operand, 0, at(self.a, self.j * self.rows + row)), ahead)

    def function(self, *more, is_alone=True) -> PrimFunc:
        """``more`` are statements behind a row that is written."""
        product = seq(
            self.first,
            attribute(PREVIOUS, self.final(const(self.rows - 1, "int32"), at(self.sums, 0))),
            For(self.r, 0, self.rows - 1, ForKind.SERIAL, self.step),
            store(self.sums, 0, at(self.operand, 0)),
            self.load(const(0, "int32"), 1),
            attribute(LAST, self.final(const(self.rows - 1, "int32"), at(self.sums, 0))),
        )  # fmt: skip
        rows = For(self.row, 0, self.written, ForKind.SERIAL, seq(self.write, *more))
        rows = attribute("pragma_stream_stores", rows)
        body = allocate(self.c, seq(allocate(self.operand, allocate(self.sums, product)), rows))
        loop = AttrStmt(self.j, PRAGMA, const(1, "int32"), For(self.j, 0, self.iterations, self.kind, body))
        buffers = {b.data: b for b in (self.a, self.out)}
        made = PrimFunc(list(buffers), loop, buffer_map=buffers)
        return made.with_attr("tir.noalias", True) if is_alone else made

    def arrays(self):
        size = N * self.rows * LANES
        return np.random.default_rng(0).standard_normal(size).astype("float32"), np.zeros(size, "float32")


def is_overlapped(made: PrimFunc) -> bool:
    assert all(a.attr_key != PRAGMA and a.attr_key not in KEYS for a in of(AttrStmt, made))
    loops = [loop for loop in of(For, made) if loop.loop_var.name == "j"]
    return not any(isinstance(n, Allocate) for loop in loops for n in of(Allocate, loop))


@pytest.mark.parametrize("rows, written", [(6, 6), (6, 4), (6, 1), (2, 2), (1, 1)])
def test_rows_are_written_by_the_products_that_compute_them(rows, written):
    program = Program(rows, written)
    made = same_result(overlap_epilogue, program.function(), *program.arrays())
    assert is_overlapped(made)
    # No sums are stored, and nothing but the rows of the result has the attributes of the epilogue.
    assert not [s for s in of(BufferStore, made) if s.buffer.name == "c"]
    assert {s.buffer.name for a in of(AttrStmt, made) for s in of(BufferStore, a)} == {"out"}


def test_only_the_first_product_begins_and_only_the_last_one_ends_alone():
    first, loop, last = of(Allocate, overlap_epilogue(Program().function()))[0].body.seq
    assert isinstance(first, BufferStore) and first.buffer.name == "operand" and isinstance(loop, For)
    assert [s.buffer.name for s in of(BufferStore, last)] == ["out"]
    # The row of the product before has a condition, the operand of the next one is at most that of the last.
    (condition,) = of(IfThenElse, loop)
    assert str(condition.condition) in ("j > 0", "0 < j")
    assert any("T.min(" in str(s.value) for s in of(BufferStore, loop) if s.buffer.name == "operand")


def test_a_loop_that_was_divided_overlaps_in_each_part():
    program = Program()
    whole = program.function()
    loop = whole.body.body
    tail = For(loop.loop_var, 3, 2, ForKind.SERIAL, loop.body)
    divided = whole.replace(body=whole.body.replace(body=seq(loop.replace(extent=const(3, "int32")), tail)))
    assert is_overlapped(same_result(overlap_epilogue, divided, *program.arrays()))


def in_place(program):
    program.out = program.a
    program.write = store(program.a, program.j * 6 + program.row, at(program.c, program.row))
    return program.function()


def reads_result(program):
    program.step = seq(program.step, store(program.operand, 0, at(program.operand, 0) + at(program.out, program.r)))
    return program.function()


def writes_what_rows_read(program):
    program.step = seq(program.step, store(program.a, program.r, at(program.a, program.r)))
    program.write = store(program.out, program.j * 6 + program.row, at(program.c, program.row) + at(program.a, 0))
    return program.function()


def has_unknown_pointer(program):
    call = tir.call_intrin("int32", "tir.call_extern", "f", program.out.data)
    program.step = seq(program.step, Evaluate(call))
    return program.function()


def hands_out_the_sums(program):
    call = tir.call_intrin("int32", "tir.call_extern", "f", tir.address_of(program.c[0]))
    program.step = seq(program.step, Evaluate(call))
    return program.function()


def reads_another_row(program):
    program.write = store(program.out, program.j * 6 + program.row, at(program.c, 5 - program.row))
    return program.function()


def has_more_rows_than_the_product(program):
    program.written = 7
    return program.function()


def begins_in_a_loop(program):
    program.step = seq(attribute(FIRST, program.first.body), program.step)
    return program.function()


def calls_in_the_epilogue(program):
    return program.function(Evaluate(tir.call_intrin("int32", "tir.call_extern", "f", program.row)))


@pytest.mark.parametrize("change", [
    in_place, reads_result, writes_what_rows_read, has_unknown_pointer, hands_out_the_sums, calls_in_the_epilogue,
    reads_another_row, has_more_rows_than_the_product, begins_in_a_loop,
    lambda program: program.function(is_alone=False),
])  # fmt: skip
def test_an_epilogue_that_the_product_could_meet_stays_behind_it(change):
    assert is_overlapped(overlap_epilogue(Program().function()))
    made = overlap_epilogue(change(Program()))
    assert not is_overlapped(made)
    # What the product before would have left to do is not there.
    assert sum(s.buffer.name == "c" for s in of(BufferStore, made)) == 2


def test_products_that_stay_apart_compute_the_same():
    program = Program()
    made = same_result(overlap_epilogue, program.function(is_alone=False), *program.arrays())
    assert not is_overlapped(made)


@pytest.mark.parametrize("change", [{"iterations": 1}, {"iterations": var("n")}, {"kind": ForKind.PARALLEL}], ids=str)
def test_loops_that_are_not_serial_or_of_unknown_length_stay(change):
    assert not is_overlapped(overlap_epilogue(Program(**change).function()))
