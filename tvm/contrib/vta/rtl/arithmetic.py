"""The GEMM core and the ALU: one micro-op in each cycle, in three stages.

1. Read the micro-op.
2. Compute the indices, and read the operands.
3. Compute, and write the accumulators. The read ports of the accumulator memory forward this write to stage 2 of the
   next micro-op.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, signed

from .. import isa
from ..config import Config
from .transfers import sliced


class Offsets:
    """The offset of one index in the two loops of an instruction."""

    def __init__(self, name: str, bits: int) -> None:
        self.row = Signal(bits, name=f"{name}_row")
        self.now = Signal(bits, name=f"{name}_offset")
        self.later = Signal(bits, name=f"{name}_offset_2")

    def reset(self) -> list[Value]:
        return [self.row.eq(0), self.now.eq(0)]

    def advance(self, m: Module, wraps: Value, factor_out: Value, factor_in: Value) -> None:
        with m.If(wraps):
            m.d.sync += [self.row.eq(self.row + factor_out), self.now.eq(self.row + factor_out)]
        with m.Else():
            m.d.sync += self.now.eq(self.now + factor_in)


class Arithmetic(Elaboratable):
    """Executes GEMM and ALU instructions; the memories are outside."""

    def __init__(self, config: Config) -> None:
        bits, size = config.index_bits, config.element_bytes
        self.config = config
        self.start = Signal()
        self.insn = Signal(128)
        self.finished = Signal()
        self.uop_address, self.uop = Signal(bits["uop"]), Signal(32)
        # Reads of stage 2, whose data arrive in stage 3.
        self.dst_address, self.src_address = Signal(bits["acc"]), Signal(bits["acc"])
        self.inp_address, self.wgt_address = Signal(bits["inp"]), Signal(bits["wgt"])
        self.dst, self.src = Signal(8 * size["acc"]), Signal(8 * size["acc"])
        self.inp, self.wgt = Signal(8 * size["inp"]), Signal(8 * size["wgt"])
        self.write, self.write_address = Signal(), Signal(bits["acc"])
        self.result = Signal(8 * size["acc"])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        gemm, alu = sliced(self.config, "GEMM", self.insn), sliced(self.config, "ALU", self.insn)
        is_gemm, is_alu = gemm["opcode"] == isa.OPCODES.index("GEMM"), gemm["opcode"] == isa.OPCODES.index("ALU")
        active, reads = Signal(), Signal()
        bits = self.config.index_bits
        dst, src, wgt = (
            Offsets("dst", bits["acc"]),
            Offsets("src", max(bits["acc"], bits["inp"])),
            Offsets("wgt", bits["wgt"]),
        )
        ends = self._loops(m, gemm, active)
        with m.If(self.start):
            some = (gemm["iter_out"] != 0) & (gemm["iter_in"] != 0) & (gemm["uop_end"] > gemm["uop_bgn"])
            m.d.sync += [active.eq((is_gemm | is_alu) & some), *dst.reset(), *src.reset(), *wgt.reset()]
        with m.Elif(active & ends["uops"]):
            m.d.sync += active.eq(~ends["all"])
            dst.advance(m, ends["inner"], gemm["dst_factor_out"], gemm["dst_factor_in"])
            wgt.advance(m, ends["inner"], gemm["wgt_factor_out"], gemm["wgt_factor_in"])
            src.advance(
                m,
                ends["inner"],
                Mux(is_gemm, gemm["src_factor_out"], alu["src_factor_out"]),
                Mux(is_gemm, gemm["src_factor_in"], alu["src_factor_in"]),
            )
        # Stage 2.
        fields = {name: self.uop[first : first + width] for name, first, width in isa.uop_fields(self.config)}
        m.d.sync += [offset.later.eq(offset.now) for offset in (dst, src, wgt)]
        m.d.comb += [
            self.dst_address.eq(fields["dst_idx"] + dst.later),
            self.src_address.eq(fields["src_idx"] + src.later),
            self.inp_address.eq(fields["src_idx"] + src.later),
            self.wgt_address.eq(fields["wgt_idx"] + wgt.later),
        ]
        # Stage 3.
        m.d.sync += [reads.eq(active), self.write.eq(reads), self.write_address.eq(self.dst_address)]
        m.d.comb += self.finished.eq(~active & ~reads & ~self.write)
        with m.If(gemm["reset_reg"]):
            m.d.comb += self.result.eq(0)
        with m.Elif(is_gemm):
            m.d.comb += self.result.eq(self._product())
        with m.Else():
            m.d.comb += self.result.eq(self._alu(m, alu))
        return m

    def _loops(self, m: Module, f: dict[str, Value], active: Signal) -> dict[str, Value]:
        """Count micro-ops and iterations; returns whether the micro-ops, the inner loop and all loops end now."""
        k, inner, outer = Signal(len(f["uop_end"])), Signal(14), Signal(14)
        ends_uops = k == f["uop_end"] - 1
        ends_inner = inner == f["iter_in"] - 1
        ends_outer = outer == f["iter_out"] - 1
        m.d.comb += self.uop_address.eq(k)
        with m.If(self.start):
            m.d.sync += [k.eq(f["uop_bgn"]), inner.eq(0), outer.eq(0)]
        with m.Elif(active):
            m.d.sync += k.eq(Mux(ends_uops, f["uop_bgn"], k + 1))
            with m.If(ends_uops):
                m.d.sync += inner.eq(Mux(ends_inner, 0, inner + 1))
                with m.If(ends_inner):
                    m.d.sync += outer.eq(outer + 1)
        return {"uops": ends_uops, "inner": ends_inner, "all": ends_inner & ends_outer}

    def _product(self) -> Value:
        rows, n = self.config.batch, self.config.block
        lanes = []
        for row in range(rows):
            for column in range(n):
                lane = row * n + column
                products = [
                    self.inp.word_select(row * n + k, 8).as_signed()
                    * self.wgt.word_select(column * n + k, 8).as_signed()
                    for k in range(n)
                ]
                lanes.append((self.dst.word_select(lane, 32).as_signed() + _sum(products))[:32])
        return Cat(*lanes)

    def _alu(self, m: Module, f: dict[str, Value]) -> Value:
        lanes = []
        for lane in range(self.config.batch * self.config.block):
            x, y, out = (Signal(signed(32), name=f"{name}_{lane}") for name in ("x", "y", "out"))
            source = self.src.word_select(lane, 32).as_signed()
            m.d.comb += [
                x.eq(self.dst.word_select(lane, 32).as_signed()),
                y.eq(Mux(f["use_imm"], f["imm"].as_signed(), source)),
            ]
            amount = Signal(33, name=f"amount_{lane}")
            m.d.comb += amount.eq(Mux(y < 0, -y, y))
            right = x >> Mux(amount > 31, 31, amount[:5])
            left = Mux(amount > 31, 0, x << amount[:5])
            operations = {
                "min": Mux(x < y, x, y),
                "max": Mux(x > y, x, y),
                "add": x + y,
                "shr": Mux(y < 0, left, right),
                "mul": x * y,
            }
            with m.Switch(f["alu_opcode"]):
                for name, value in operations.items():
                    with m.Case(isa.ALU_OPCODES.index(name)):
                        m.d.comb += out.eq(value)
            lanes.append(out)
        return Cat(*lanes)


def _sum(values: list[Value]) -> Value:
    """Add in a balanced tree."""
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2])] + values[len(values) // 2 * 2 :]
    return values[0]
