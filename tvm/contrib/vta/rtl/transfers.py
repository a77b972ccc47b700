"""Transfers between DRAM and scratchpads: the bus, and the load and store engines."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib.fifo import SyncFIFO

from ..config import MEMORIES, Config
from ..isa import fields_of

ADDRESS_BITS = 48


def bus_bits(config: Config) -> int:
    """Return the bits of one beat."""
    return 1 << config.log_bus_width


def beats_of(config: Config, memory: str) -> int:
    """Return the beats of one element."""
    return max(1, 8 * config.element_bytes[memory] // bus_bits(config))


def sliced(config: Config, opcode: str, insn: Value) -> dict[str, Value]:
    """Return the fields of an instruction as slices of its bits."""
    return {name: insn[first : first + width] for name, first, width in fields_of(config, opcode)}


class Port:
    """What one module sends to the bus: one beat in each cycle with ``valid`` and ``grant``."""

    def __init__(self, config: Config) -> None:
        self.valid = Signal()
        self.grant = Signal()
        self.last = Signal()  # of the element
        self.address = Signal(ADDRESS_BITS)
        self.bytes = Signal(range(bus_bits(config) // 8 + 1))
        self.data = Signal(bus_bits(config))
        self.reply_valid = Signal()
        self.reply_data = Signal(bus_bits(config))


class Bus(Elaboratable):
    """Gives the bus to the modules in turn, for one element each; the last port writes, the others read."""

    def __init__(self, config: Config, ports: list[Port]) -> None:
        self.config = config
        self.ports = ports
        self.out = Port(config)
        self.write = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = len(self.ports)
        owner = Signal(range(count), init=count - 1)
        locked = Signal()
        chosen = Signal(range(count))
        valid = Signal()
        # The port after the last owner comes first: later assignments have priority.
        with m.Switch(owner):
            for last in range(count):
                with m.Case(last):
                    m.d.comb += [chosen.eq(last), valid.eq(self.ports[last].valid)]
                    for distance in reversed(range(1, count)):
                        port = (last + distance) % count
                        with m.If(self.ports[port].valid & ~locked):
                            m.d.comb += [chosen.eq(port), valid.eq(1)]
        taken = Array(self.ports)[chosen]
        m.d.comb += [
            self.out.valid.eq(valid),
            self.out.address.eq(taken.address),
            self.out.bytes.eq(taken.bytes),
            self.out.data.eq(taken.data),
            self.write.eq(chosen == count - 1),
        ]
        with m.If(valid):
            m.d.comb += taken.grant.eq(1)
            m.d.sync += [owner.eq(chosen), locked.eq(~taken.last)]
        # Replies arrive in the order of the reads.
        m.submodules.readers = readers = SyncFIFO(width=owner.shape().width, depth=self.config.dram_latency + 4)
        m.d.comb += [
            readers.w_en.eq(valid & ~self.write),
            readers.w_data.eq(chosen),
            readers.r_en.eq(self.out.reply_valid),
        ]
        for number, port in enumerate(self.ports):
            m.d.comb += [
                port.reply_valid.eq(self.out.reply_valid & (readers.r_data == number)),
                port.reply_data.eq(self.out.reply_data),
            ]
        return m


class LoadEngine(Elaboratable):
    """Executes LOAD of the given memories. Issuing and writing are decoupled by a queue of pending beats."""

    def __init__(self, config: Config, memories: tuple[str, ...]) -> None:
        self.config = config
        self.memories = memories
        self.port = Port(config)
        self.start = Signal()
        self.enable = Signal()  # the instruction is a LOAD
        self.insn = Signal(128)
        self.finished = Signal()
        # Writes of elements: one enable for each memory, and the element in its format in the memory.
        self.write = {name: Signal(name=f"write_{name}") for name in memories}
        self.index = Signal(16)
        self.values = {name: Signal(8 * config.element_bytes[name], name=f"value_{name}") for name in memories}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        active = Signal()
        m.submodules.pending = pending = SyncFIFO(width=18, depth=self.config.dram_latency + 4)
        m.d.comb += self.finished.eq(~active & ~pending.r_rdy)
        self._issue(m, active, pending)
        self._write(m, pending)
        return m

    def _kinds(self) -> list[tuple[int, int, int, str]]:
        """The number, bytes, beats and name of each memory."""
        sizes = self.config.element_bytes
        return [(MEMORIES.index(name), sizes[name], beats_of(self.config, name), name) for name in self.memories]

    def _issue(self, m: Module, active: Signal, pending: SyncFIFO) -> None:
        f = sliced(self.config, "LOAD", self.insn)
        x, y, beat, index = Signal(17), Signal(17), Signal(16), Signal(16)
        row = Signal(33)  # the first element of the row in DRAM
        width = Signal(17)
        height = Signal(17)
        m.d.comb += [
            width.eq(f["x_pad_0"] + f["x_size"] + f["x_pad_1"]),
            height.eq(f["y_pad_0"] + f["y_size"] + f["y_pad_1"]),
        ]
        data_row, data = Signal(), Signal()
        m.d.comb += [
            data_row.eq((y >= f["y_pad_0"]) & (y < f["y_pad_0"] + f["y_size"])),
            data.eq(data_row & (x >= f["x_pad_0"]) & (x < f["x_pad_0"] + f["x_size"])),
        ]
        element = Signal(33)
        m.d.comb += element.eq(row + x - f["x_pad_0"])
        with m.Switch(f["memory_type"]):
            for number, size, beats, _ in self._kinds():
                with m.Case(number):
                    m.d.comb += [
                        self.port.address.eq(element * size + beat * (bus_bits(self.config) // 8)),
                        self.port.bytes.eq(min(size, bus_bits(self.config) // 8)),
                        self.port.last.eq(beat == beats - 1),
                    ]
        last = Signal()
        issued = Signal()
        m.d.comb += [
            self.port.valid.eq(active & data),
            last.eq(~data | self.port.last),
            issued.eq(active & (~data | self.port.grant)),
            pending.w_en.eq(issued),
            pending.w_data.eq(Cat(index, last, ~data)),
        ]
        with m.If(self.start):
            m.d.sync += [x.eq(0), y.eq(0), beat.eq(0), index.eq(f["sram_base"]), row.eq(f["dram_base"])]
            m.d.sync += active.eq(self.enable & (f["x_size"] != 0) & (height != 0))
        with m.Elif(issued):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
            with m.If(last):
                m.d.sync += [x.eq(x + 1), index.eq(index + 1)]
                with m.If(x == width - 1):
                    m.d.sync += [x.eq(0), y.eq(y + 1), active.eq(y != height - 1)]
                    with m.If(data_row):
                        m.d.sync += row.eq(row + f["x_stride"])

    def _write(self, m: Module, pending: SyncFIFO) -> None:
        bits = bus_bits(self.config)
        most = max(beats for _, _, beats, _ in self._kinds())
        earlier = Signal(bits * most)  # the last beats
        window = Signal(bits * most)
        padding, last = pending.r_data[17], pending.r_data[16]
        arrives = Signal()
        m.d.comb += [
            self.index.eq(pending.r_data[:16]),
            window.eq(Cat(earlier[bits:], self.port.reply_data) if most > 1 else self.port.reply_data),
            arrives.eq(pending.r_rdy & (padding | self.port.reply_valid)),
            pending.r_en.eq(arrives),
        ]
        with m.If(self.port.reply_valid):
            m.d.sync += earlier.eq(window)
        for number, size, beats, name in self._kinds():
            loaded = window[bits * (most - beats) :][: 8 * size]
            chosen = self.insn[7:10] == number
            m.d.comb += [
                self.write[name].eq(arrives & last & chosen),
                self.values[name].eq(Mux(padding, 0, loaded)),
            ]


class StoreEngine(Elaboratable):
    """Executes STORE. ``address`` is that of the accumulator memory's read port, whose data arrive a cycle later."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.port = Port(config)
        self.start = Signal()
        self.insn = Signal(128)
        self.finished = Signal()
        self.address = Signal(config.index_bits["acc"])
        self.element = Signal(32 * config.batch * config.block)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        f = sliced(self.config, "STORE", self.insn)
        size, beats = self.config.element_bytes["out"], beats_of(self.config, "out")
        bits = bus_bits(self.config)
        active, ready, leaves = Signal(), Signal(), Signal()
        x, y, beat, row = Signal(17), Signal(17), Signal(range(beats + 1)), Signal(33)
        index = Signal(self.config.index_bits["acc"])
        lanes = [self.element[32 * k : 32 * k + 8] for k in range(size)]
        m.d.comb += [
            self.finished.eq(~active),
            self.port.valid.eq(active & ready),
            self.port.last.eq(beat == beats - 1),
            self.port.address.eq((row + x) * size + beat * (bits // 8)),
            self.port.bytes.eq(min(size, bits // 8)),
            self.port.data.eq(Cat(*lanes).word_select(beat, bits) if beats > 1 else Cat(*lanes)),
            leaves.eq(self.port.valid & self.port.grant & self.port.last),
            self.address.eq(index + leaves),
        ]
        m.d.sync += ready.eq(active)
        with m.If(self.start):
            m.d.sync += [x.eq(0), y.eq(0), beat.eq(0), row.eq(f["dram_base"]), index.eq(f["sram_base"]), ready.eq(0)]
            m.d.sync += active.eq((f["x_size"] != 0) & (f["y_size"] != 0))
        with m.Elif(self.port.valid & self.port.grant):
            m.d.sync += beat.eq(Mux(self.port.last, 0, beat + 1))
            with m.If(self.port.last):
                m.d.sync += [x.eq(x + 1), index.eq(index + 1)]
                with m.If(x == f["x_size"] - 1):
                    m.d.sync += [x.eq(0), y.eq(y + 1), row.eq(row + f["x_stride"]), active.eq(y != f["y_size"] - 1)]
        return m
