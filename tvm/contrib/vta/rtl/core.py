"""The accelerator: fetch unit, three modules with their queues and tokens, scratchpads, bus."""

from __future__ import annotations

from amaranth.back import verilog as back
from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value, unsigned
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory

from .. import isa
from ..config import MEMORIES, Config
from .arithmetic import Arithmetic
from .transfers import Bus, LoadEngine, Port, StoreEngine

TOKEN_BITS = 17


class Stage:
    """The control of one module: it starts the first instruction of its queue when the tokens are there."""

    def __init__(self, config: Config, name: str) -> None:
        self.queue = SyncFIFO(width=128, depth=config.queue_depth)
        self.insn = self.queue.r_data
        self.start = Signal(name=f"{name}_start")
        self.finished = Signal(name=f"{name}_finished")
        self.ends = Signal(name=f"{name}_ends")
        self.runs = Signal(name=f"{name}_runs")
        self.has_tokens = Signal(name=f"{name}_has_tokens")
        self.pops = (self.insn[3], self.insn[4])  # from the previous, from the next module
        self.pushes = (self.insn[5], self.insn[6])

    def elaborate(self, m: Module) -> None:
        m.d.comb += [
            self.start.eq(~self.runs & self.queue.r_rdy & self.has_tokens),
            self.ends.eq(self.runs & self.finished),
            self.queue.r_en.eq(self.ends),
        ]
        with m.If(self.start):
            m.d.sync += self.runs.eq(1)
        with m.Elif(self.ends):
            m.d.sync += self.runs.eq(0)


class Core(Elaboratable):
    """The accelerator. Instructions and DRAM are outside: an instruction is taken in each cycle with ``insn_valid`` and
    ``insn_ready``; a beat is transferred in each cycle with ``req_valid``; replies to reads arrive in order.

    Parameters
    ----------
    config : Config
        The sizes.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        port = Port(config)
        self.insn_valid = Signal()
        self.insn_ready = Signal()
        self.insn_data = Signal(128)
        self.req_valid = Signal()
        self.req_write = Signal()
        self.req_address = Signal(len(port.address))
        self.req_bytes = Signal(len(port.bytes))
        self.req_data = Signal(len(port.data))
        self.rsp_valid = Signal()
        self.rsp_data = Signal(len(port.data))
        self.done = Signal()

    def ports(self) -> list[Signal]:
        """Return the inputs and outputs.

        Returns
        -------
        list[Signal]
            The signals.
        """
        return [self.insn_valid, self.insn_ready, self.insn_data, self.req_valid, self.req_write, self.req_address,
                self.req_bytes, self.req_data, self.rsp_valid, self.rsp_data, self.done]  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = [Stage(self.config, name) for name in isa.MODULES]
        for name, stage in zip(isa.MODULES, stages):
            m.submodules[f"{name}_queue"] = stage.queue
            stage.elaborate(m)
        self._fetch(m, stages)
        self._tokens(m, stages)
        self._units(m, stages)
        finish = Signal()
        is_finish = stages[1].insn[:3] == isa.OPCODES.index("FINISH")
        with m.If(stages[1].ends & is_finish):
            m.d.sync += finish.eq(1)
        idle = Cat(*(~stage.runs & ~stage.queue.r_rdy for stage in stages)).all()
        m.d.comb += self.done.eq(finish & idle)
        return m

    def _fetch(self, m: Module, stages: list[Stage]) -> None:
        opcode, memory = self.insn_data[:3], self.insn_data[7:10]
        is_load = opcode == isa.OPCODES.index("LOAD")
        loads = is_load & ((memory == MEMORIES.index("inp")) | (memory == MEMORIES.index("wgt")))
        stores = opcode == isa.OPCODES.index("STORE")
        for chosen, stage in zip((loads, ~loads & ~stores, stores), stages, strict=True):
            m.d.comb += [stage.queue.w_data.eq(self.insn_data), stage.queue.w_en.eq(chosen & self.insn_valid)]
            with m.If(chosen):
                m.d.comb += self.insn_ready.eq(stage.queue.w_rdy)

    def _tokens(self, m: Module, stages: list[Stage]) -> None:
        """Count the tokens between neighbours; ``side`` is 1 for those to the next module, 0 for those back."""
        enough: list[list[Value]] = [[], [], []]
        for giver, taker, side in ((0, 1, 1), (1, 0, 0), (1, 2, 1), (2, 1, 0)):
            count = Signal(TOKEN_BITS, name=f"tokens_{isa.MODULES[giver]}_{isa.MODULES[taker]}")
            pop = stages[taker].pops[1 - side]
            enough[taker].append(~pop | (count != 0))
            gives = stages[giver].ends & stages[giver].pushes[side]
            m.d.sync += count.eq(count + gives - (stages[taker].start & pop))
        for stage, conditions in zip(stages, enough):
            m.d.comb += stage.has_tokens.eq(Cat(*conditions).all())

    def _memory(self, m: Module, name: str) -> Memory:
        bits = 8 * self.config.element_bytes[name]
        memory = Memory(shape=unsigned(bits), depth=self.config.depth[name], init=[])
        m.submodules[f"{name}_memory"] = memory
        return memory

    def _units(self, m: Module, stages: list[Stage]) -> None:
        load_stage, compute_stage, store_stage = stages
        m.submodules.load = load = LoadEngine(self.config, ("inp", "wgt"))
        m.submodules.compute_load = fill = LoadEngine(self.config, ("uop", "acc", "acc_8bit"))
        m.submodules.arithmetic = arithmetic = Arithmetic(self.config)
        m.submodules.store = store = StoreEngine(self.config)
        units = ((load_stage, load), (compute_stage, fill), (compute_stage, arithmetic), (store_stage, store))
        for stage, unit in units:
            m.d.comb += [unit.start.eq(stage.start), unit.insn.eq(stage.insn)]
        m.d.comb += [
            load.enable.eq(1),
            fill.enable.eq(compute_stage.insn[:3] == isa.OPCODES.index("LOAD")),
            load_stage.finished.eq(load.finished),
            compute_stage.finished.eq(fill.finished & arithmetic.finished),
            store_stage.finished.eq(store.finished),
        ]
        self._scratchpads(m, load, fill, arithmetic, store)
        m.submodules.bus = bus = Bus(self.config, [load.port, fill.port, store.port])
        m.d.comb += [
            self.req_valid.eq(bus.out.valid),
            self.req_write.eq(bus.write),
            self.req_address.eq(bus.out.address),
            self.req_bytes.eq(bus.out.bytes),
            self.req_data.eq(bus.out.data),
            bus.out.reply_valid.eq(self.rsp_valid),
            bus.out.reply_data.eq(self.rsp_data),
        ]

    def _scratchpads(
        self, m: Module, load: LoadEngine, fill: LoadEngine, arithmetic: Arithmetic, store: StoreEngine
    ) -> None:
        reads = {"uop": (arithmetic.uop_address, arithmetic.uop), "inp": (arithmetic.inp_address, arithmetic.inp),
                 "wgt": (arithmetic.wgt_address, arithmetic.wgt)}  # fmt: skip
        for name, (address, data) in reads.items():
            memory, engine = self._memory(m, name), fill if name == "uop" else load
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(engine.write[name]),
                write.addr.eq(engine.index),
                write.data.eq(engine.values[name]),
            ]
            m.d.comb += [read.addr.eq(address), data.eq(read.data)]
        acc = self._memory(m, "acc")
        write = acc.write_port()
        narrow = fill.values["acc_8bit"]
        widened = Cat(*(_sign_extended(narrow[8 * k : 8 * k + 8]) for k in range(len(narrow) // 8)))
        with m.If(arithmetic.write):
            m.d.comb += [write.en.eq(1), write.addr.eq(arithmetic.write_address), write.data.eq(arithmetic.result)]
        with m.Else():
            m.d.comb += [write.en.eq(fill.write["acc"] | fill.write["acc_8bit"]), write.addr.eq(fill.index)]
            m.d.comb += write.data.eq(fill.values["acc"])
            with m.If(fill.write["acc_8bit"]):
                m.d.comb += write.data.eq(widened)
        for address, data in ((arithmetic.dst_address, arithmetic.dst), (arithmetic.src_address, arithmetic.src),
                              (store.address, store.element)):  # fmt: skip
            read = acc.read_port(transparent_for=(write,))
            m.d.comb += [read.addr.eq(address), data.eq(read.data)]


def _sign_extended(value: Value) -> Value:
    return Cat(value, value[7].replicate(24))


def verilog(config: Config) -> str:
    """Return the accelerator as Verilog, with the top module ``core``.

    Parameters
    ----------
    config : Config
        The sizes.

    Returns
    -------
    str
        The Verilog text.
    """
    core = Core(config)
    return back.convert(core, name="core", ports=core.ports(), strip_internal_attrs=True)
