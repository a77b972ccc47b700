"""Random programs: compiled code gives what the reference interpreter gives."""

from __future__ import annotations

import numpy
import pytest

import tvm.tir.op  # noqa: F401  (registers the intrinsics)
from tests.codegen.raw import buffer, compile_raw
from tests.cpus import BASELINE
from tests.tir.interpreter import Interpreter
from tvm.ir import prim
from tvm.ir.op import Op
from tvm.ir.prim import Broadcast, BufferLoad, Call, Cast, IntImm, Let, Ramp, Select, Var, const
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, LetStmt, seq

SIZE = 24
TYPES = ["int8", "uint8", "int16", "int32", "int64", "uint32", "float32", "float64"]
COMPARE = [prim.EQ, prim.NE, prim.LT, prim.LE, prim.GT, prim.GE]


class Program:
    """Draws statements and expressions over a few buffers; every access is in bounds."""

    def __init__(self, rng):
        self.rng = rng
        self.buffers = [buffer(f"b{k}", str(rng.choice(TYPES)), SIZE) for k in range(4)]
        self.loops: list[tuple[Var, int]] = []
        self.lets: list[Var] = []
        self.shared: list = []

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, part: float) -> bool:
        return bool(self.rng.random() < part)

    def index(self, reach: int = SIZE):
        """An affine index below ``reach`` built from loop variables."""
        total, room = const(0, "int32"), reach - 1
        for var, extent in self.loops:
            most = room // max(extent - 1, 1)
            if most and self.chance(0.7):
                scale = int(self.rng.integers(1, most + 1))
                total = total + var * const(scale, "int32")
                room -= scale * (extent - 1)
        if self.chance(0.3) and room:
            total = total + const(int(self.rng.integers(0, room + 1)), "int32")
        if self.chance(0.2):
            total = const(reach - 1, "int32") - total
        if self.chance(0.2):
            total = prim.FloorMod(total * const(7, "int32") + const(3, "int32"), const(reach, "int32"))
        return total

    def leaf(self, dtype: str, lanes: int):
        same = [b for b in self.buffers if b.dtype == dtype]
        if same and self.chance(0.6):
            b = self.pick(same)
            if lanes == 1:
                return BufferLoad(b, [self.index()])
            stride = self.pick([1, 1, 1, 2, -1]) if SIZE > 2 * lanes else 1
            start = self.index(SIZE - (lanes - 1) * abs(stride))
            if stride < 0:
                start = start + const((lanes - 1) * -stride, "int32")
            return BufferLoad(b, [Ramp(start, const(stride, "int32"), lanes)])
        if dtype == "int32" and lanes == 1 and self.loops and self.chance(0.5):
            return self.pick(self.loops)[0]
        kept = [v for v in self.lets if v.dtype == dtype]
        if kept and lanes == 1 and self.chance(0.5):
            return self.pick(kept)
        number = int(self.rng.integers(0, 100))
        value = const(float(number) / 4 if "float" in dtype else number, dtype)
        return value if lanes == 1 else Broadcast(value, lanes)

    def expression(self, dtype: str, lanes: int, depth: int):
        if depth == 0 or self.chance(0.15):
            return self.leaf(dtype, lanes)
        seen = [e for e in self.shared if e[0] == (dtype, lanes)]
        if seen and self.chance(0.2):
            return self.pick(seen)[1]
        got = self.compound(dtype, lanes, depth - 1)
        self.shared.append(((dtype, lanes), got))
        return got

    def compound(self, dtype: str, lanes: int, depth: int):
        choice = int(self.rng.integers(8))
        if choice <= 2:
            return self.pick([prim.Add, prim.Sub, prim.Mul])(
                self.expression(dtype, lanes, depth), self.expression(dtype, lanes, depth)
            )
        if choice == 3:
            return self.pick([prim.Min, prim.Max])(
                self.expression(dtype, lanes, depth), self.expression(dtype, lanes, depth)
            )
        if choice == 4:
            divisor = int(self.rng.integers(1, 9))
            if "float" in dtype:
                return self.expression(dtype, lanes, depth) * const(
                    float(divisor), dtype if lanes == 1 else f"{dtype}x{lanes}"
                )
            sign = -1 if dtype.startswith("int") and self.chance(0.3) else 1
            by = IntImm(dtype, sign * divisor if sign * divisor != -1 else 2)
            return self.pick([prim.FloorDiv, prim.FloorMod, prim.Div, prim.Mod])(
                self.expression(dtype, lanes, depth), by if lanes == 1 else Broadcast(by, lanes)
            )
        if choice == 5:
            condition = self.condition(lanes, depth)
            return Select(condition, self.expression(dtype, lanes, depth), self.expression(dtype, lanes, depth))
        if choice == 6:
            options = ["int8", "int32", "int64", "uint8"]
            source = self.pick([t for t in options if t != dtype])
            value = self.expression(source, lanes, depth)
            return Cast(dtype if lanes == 1 else f"{dtype}x{lanes}", value)
        condition = self.condition(1, depth)
        branches = (self.expression(dtype, lanes, depth), self.expression(dtype, lanes, depth))
        return Call(branches[0].dtype, Op.get("tir.if_then_else"), (condition, *branches))

    def condition(self, lanes: int, depth: int):
        dtype = self.pick(TYPES)
        got = self.pick(COMPARE)(
            self.expression(dtype, lanes, min(depth, 1)), self.expression(dtype, lanes, min(depth, 1))
        )
        if self.chance(0.3):
            got = self.pick([prim.And, prim.Or])(got, self.condition(lanes, 0))
        return prim.Not(got) if self.chance(0.2) else got

    def store(self):
        target = self.pick(self.buffers)
        lanes = 1 if self.chance(0.6) else int(self.pick([2, 4, 8]))
        value = self.expression(target.dtype, lanes, 3)
        if lanes == 1:
            at = self.index()
            if self.chance(0.3):
                value = BufferLoad(target, [at]) + value
        else:
            at = Ramp(self.index(SIZE - lanes + 1), const(1, "int32"), lanes)
        if self.chance(0.1) and lanes == 1:
            v = Var("kept", value.dtype)
            value = Let(v, value, v + v)
        self.shared.clear()
        return BufferStore(target, value, [at])

    def statement(self, depth: int):
        choice = int(self.rng.integers(6)) if depth else 0
        if choice <= 1:
            return self.store()
        if choice in (2, 3):
            var, extent = Var(f"i{len(self.loops)}", "int32"), int(self.rng.integers(1, 5))
            self.loops.append((var, extent))
            body = self.block(depth - 1)
            self.loops.pop()
            return For(var, 0, extent, self.pick([ForKind.SERIAL, ForKind.UNROLLED]), body)
        if choice == 4:
            condition = self.condition(1, 1)
            self.shared.clear()
            return IfThenElse(condition, self.block(depth - 1), self.block(depth - 1) if self.chance(0.5) else None)
        if self.chance(0.5):
            dtype = self.pick(TYPES)
            var = Var("let", dtype)
            value = self.expression(dtype, 1, 2)
            self.shared.clear()
            self.lets.append(var)
            body = self.block(depth - 1)
            self.lets.pop()
            return LetStmt(var, value, body)
        local = buffer("local", str(self.pick(TYPES)), SIZE)
        i = Var("fill", "int32")
        fill = For(
            i, 0, SIZE, ForKind.SERIAL, BufferStore(local, Cast(local.dtype, i) if local.dtype != "int32" else i, [i])
        )
        self.buffers.append(local)
        body = self.block(depth - 1)
        self.buffers.pop()
        return Allocate(local.data, local.dtype, [SIZE], True, seq(fill, body))

    def block(self, depth: int):
        return seq(*[self.statement(depth) for _ in range(int(self.rng.integers(1, 4)))])


def _data(rng, dtype: str):
    if "float" in dtype:
        return (rng.integers(-40, 40, SIZE) / 4).astype(dtype)
    low = 0 if dtype.startswith("u") else -60
    return rng.integers(low, 60, SIZE).astype(dtype)


def draw(rng):
    """A program with one right answer: its function, arguments, and these afterwards. Minima and maxima of NaN are
    whichever operand comes first, and sums may be contracted, so programs that overflow are drawn anew."""
    for _ in range(50):
        program = Program(rng)
        arguments = list(program.buffers)
        function = PrimFunc(arguments, program.block(3), attrs={"global_symbol": "f", "tir.noalias": True})
        given = [_data(rng, b.dtype) for b in arguments]
        want = [g.copy() for g in given]
        interpreter = Interpreter()
        with numpy.errstate(all="ignore"):
            interpreter.invoke(function, want)
        if not interpreter.undecided and all(numpy.isfinite(w.astype("float64")).all() for w in want):
            return function, given, want
    raise AssertionError("fifty programs without one right answer")


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize("case", range(30))
def test_random_program(case, target, rng):
    function, given, want = draw(rng)
    got = [g.copy() for g in given]
    compile_raw(function, target)(*got)
    for b, x, y in zip(function.buffer_map.values(), got, want):
        if "float" in b.dtype:
            # Sums into their own element may be contracted, and may cancel to far less than what was summed.
            scale = max(numpy.abs(a).max(initial=1) for a in (*given, *want) if a.dtype.kind == "f")
            numpy.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4 * min(scale, 1e3), err_msg=f"{b.name}\n{function}")
        else:
            numpy.testing.assert_array_equal(x, y, err_msg=f"{b.name}\n{function}")
