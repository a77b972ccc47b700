"""The environment of compilations for the accelerator: its sizes, its memories, its pragmas and its intrinsic."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from ... import te
from ...ir.memory_pools import MemoryInfo
from ...ir.op import Op, register_intrin_lowering, register_op
from ...ir.prim import Call, PrimExpr, StringImm, const
from ...runtime.registry import register_func
from ...target import Target
from ...target.target import vta as vta_target
from ...tir.intrinsics import CallEffectKind
from ...tir.op import call_extern
from . import intrin
from .config import Config


def get_vta_hw_path() -> str:
    """Return the folder that contains the default configuration.

    Returns
    -------
    str
        The folder.
    """
    return str(Path(__file__).parent)


class PkgConfig:
    """A configuration with the names of ``vta_config.json``.

    Parameters
    ----------
    cfg : dict
        Values by name; the default for missing names.
    """

    def __init__(self, cfg: Mapping[str, Any]):
        self.config = Config.from_dict(cfg)
        sizes = {name.upper(): value for name, value in asdict(self.config).items()}
        self.cfg_dict: dict[str, Any] = {
            **cfg,
            **sizes,
            "LOG_BLOCK_IN": self.config.log_block,
            "LOG_BLOCK_OUT": self.config.log_block,
            "LOG_OUT_WIDTH": self.config.log_inp_width,
            "LOG_OUT_BUFF_SIZE": self.config.log_acc_buff_size + self.config.log_inp_width - self.config.log_acc_width,
        }

    @property
    def bitstream(self) -> str:
        """The name of a hardware design with these sizes.

        Returns
        -------
        str
            Such as ``1x16_i8w8a32_15_15_18_17``.
        """
        c = self.config
        widths = f"i{1 << c.log_inp_width}w{1 << c.log_wgt_width}a{1 << c.log_acc_width}"
        sizes = f"{c.log_uop_buff_size}_{c.log_inp_buff_size}_{c.log_wgt_buff_size}_{c.log_acc_buff_size}"
        return f"{c.batch}x{c.block}_{widths}_{sizes}"


def pkg_config(cfg: Mapping[str, Any]) -> PkgConfig:
    """Return a configuration with all derived names.

    Parameters
    ----------
    cfg : dict
        Values by name.

    Returns
    -------
    PkgConfig
        The configuration.
    """
    return PkgConfig(cfg)


# The axis whose name is that of the coprocessor in the intrinsics; all environments share it.
_AXIS = te.thread_axis("vta")


class DevContext:
    """Constants of the instruction set, and expressions that passes and schedules share.

    Parameters
    ----------
    env : Environment
        The environment.
    """

    MEM_ID_UOP, MEM_ID_WGT, MEM_ID_INP, MEM_ID_ACC, MEM_ID_OUT, MEM_ID_ACC_8BIT = range(6)
    ALU_OPCODE_MIN, ALU_OPCODE_MAX, ALU_OPCODE_ADD, ALU_OPCODE_SHR, ALU_OPCODE_MUL = range(5)
    # The queue of the module that executes an instruction. The compute module loads accumulators.
    QID_LOAD_INP = QID_LOAD_WGT = 1
    QID_LOAD_OUT = QID_COMPUTE = 2
    QID_STORE_OUT = 3

    def __init__(self, env: Environment):
        self.vta_axis = _AXIS
        self.vta_push_uop = StringImm("VTAPushGEMMOp")
        self.vta_push_alu = StringImm("VTAPushALUOp")
        self.command_handle = Call(
            "handle", Op.get("tir.tvm_thread_context"), (call_extern("handle", "VTATLSCommandHandle"),)
        )
        self.DEBUG_NO_SYNC = False
        env._dev_ctx = self
        self.gemm = intrin.gemm(env, env.mock_mode)

    def get_task_qid(self, qid: int) -> int:
        """Return the queue of an instruction.

        Parameters
        ----------
        qid : int
            Its queue with synchronization.

        Returns
        -------
        int
            The same queue; 1 for all instructions if ``DEBUG_NO_SYNC`` is set.
        """
        return 1 if self.DEBUG_NO_SYNC else qid


class Environment:
    """All properties of an accelerator that a compilation uses. ``with env:`` makes an environment the current one.

    Parameters
    ----------
    cfg : dict
        Values by their names in ``vta_config.json``; the default for missing names.

    Examples
    --------
    >>> with Environment({"LOG_BLOCK": 5}):
    ...     get_env().BLOCK_IN
    32
    """

    MAX_XFER: ClassVar[int] = 1 << 22
    DEBUG_DUMP_INSN: ClassVar[int] = 1 << 1
    DEBUG_DUMP_UOP: ClassVar[int] = 1 << 2
    DEBUG_SKIP_READ_BARRIER: ClassVar[int] = 1 << 3
    DEBUG_SKIP_WRITE_BARRIER: ClassVar[int] = 1 << 4
    DEBUG_FORCE_SERIAL: ClassVar[int] = 1 << 5
    inp_scope: ClassVar[str] = "local.inp_buffer"
    wgt_scope: ClassVar[str] = "local.wgt_buffer"
    acc_scope: ClassVar[str] = "local.acc_buffer"

    current: ClassVar[Environment | None] = None

    def __init__(self, cfg: Mapping[str, Any]):
        self.pkg = pkg_config(cfg)
        self.config = self.pkg.config
        self.TARGET: str = self.config.target
        for name in ("INP", "WGT", "ACC", "OUT"):
            width = 1 << self.cfg_dict[f"LOG_{name}_WIDTH"]
            setattr(self, f"{name}_WIDTH", width)
            setattr(self, f"{name.lower()}_dtype", f"int{width}")
            setattr(self, f"{name}_BUFF_SIZE", 1 << self.cfg_dict[f"LOG_{name}_BUFF_SIZE"])
        self.UOP_BUFF_SIZE = 1 << self.config.log_uop_buff_size
        self.BATCH = self.config.batch
        self.BLOCK_IN = self.BLOCK_OUT = self.config.block
        rows = {"INP": self.BATCH, "WGT": self.BLOCK_OUT, "ACC": self.BATCH, "OUT": self.BATCH}
        for name, count in rows.items():
            bits = count * self.config.block * getattr(self, f"{name}_WIDTH")
            setattr(self, f"{name}_ELEM_BITS", bits)
            setattr(self, f"{name}_ELEM_BYTES", bits // 8)
        self.BITSTREAM = self.pkg.bitstream
        self.MODEL = f"{self.TARGET}_{self.BITSTREAM}"
        self.mock_mode = False
        self._mock_env: Environment | None = None
        self._dev_ctx: DevContext | None = None
        self._outer: list[Environment | None] = []

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("pkg")
        if values is None or name not in values.cfg_dict:
            raise AttributeError(f"the accelerator's environment has no attribute '{name}'")
        return values.cfg_dict[name]

    def __enter__(self) -> Environment:
        self._outer.append(Environment.current)
        Environment.current = self
        return self

    def __exit__(self, *error: object) -> None:
        Environment.current = self._outer.pop()

    @property
    def cfg_dict(self) -> dict[str, Any]:
        """The configuration by name, with the derived names."""
        return self.pkg.cfg_dict

    @property
    def dev(self) -> DevContext:
        """Constants and expressions for passes and schedules."""
        return self._dev_ctx or DevContext(self)

    @property
    def mock(self) -> Environment:
        """This environment without instructions: DMA copies, ALU operations and the intrinsic have no effect."""
        if self.mock_mode:
            return self
        if self._mock_env is None:
            self._mock_env = copy.copy(self)
            self._mock_env._dev_ctx = None
            self._mock_env._outer = []
            self._mock_env.mock_mode = True
        return self._mock_env

    @property
    def dma_copy(self) -> str:
        """The pragma of a copy between DRAM and a scratchpad."""
        return "skip_dma_copy" if self.mock_mode else "dma_copy"

    @property
    def alu(self) -> str:
        """The pragma of an elementwise operation on accumulators."""
        return "skip_alu" if self.mock_mode else "alu"

    @property
    def gemm(self) -> Any:
        """The tensor intrinsic of the GEMM core."""
        return self.dev.gemm

    @property
    def target(self) -> Target:
        """The target of the accelerator, with its host."""
        return Target(vta_target(model=self.MODEL), self.target_host)

    @property
    def target_host(self) -> str:
        """The target of the code that writes the instructions: the simulators run in the process of that code."""
        return "llvm"

    @property
    def target_vta_cpu(self) -> Target:
        """The target of the operators that run on the CPU."""
        return Target(self.target_host)


def get_env() -> Environment:
    """Return the current environment.

    Returns
    -------
    Environment
        The innermost environment in a ``with`` statement, or the one of ``vta_config.json``.
    """
    if Environment.current is None:
        Environment.current = _default()
    return Environment.current


@functools.cache
def _default() -> Environment:
    return Environment(asdict_upper(Config.from_file()))


def asdict_upper(config: Config) -> dict[str, Any]:
    """Return the values of a configuration by their names in ``vta_config.json``.

    Parameters
    ----------
    config : Config
        The configuration.

    Returns
    -------
    dict
        The values.
    """
    return {name.upper(): value for name, value in asdict(config).items()}


# The memories, for passes over tagged memory --------------------------------------------------------------------------


def _memory_info(name: str) -> MemoryInfo:
    env = get_env()
    bits = getattr(env, f"{name}_ELEM_BITS")
    return MemoryInfo(bits, bits, getattr(env, f"{name}_BUFF_SIZE") * 8, None)


@register_func(f"tvm.info.mem.{Environment.inp_scope}", override=True)
def mem_info_inp_buffer() -> MemoryInfo:
    """Describe the scratchpad of inputs.

    Returns
    -------
    MemoryInfo
        The size of an element and of the memory.
    """
    return _memory_info("INP")


@register_func(f"tvm.info.mem.{Environment.wgt_scope}", override=True)
def mem_info_wgt_buffer() -> MemoryInfo:
    """Describe the scratchpad of weights.

    Returns
    -------
    MemoryInfo
        The size of an element and of the memory.
    """
    return _memory_info("WGT")


@register_func(f"tvm.info.mem.{Environment.acc_scope}", override=True)
def mem_info_acc_buffer() -> MemoryInfo:
    """Describe the scratchpad of accumulators.

    Returns
    -------
    MemoryInfo
        The size of an element and of the memory.
    """
    return _memory_info("ACC")


# Intrinsics that CoProcSync inserts -----------------------------------------------------------------------------------


def _command(name: str, *args: PrimExpr) -> PrimExpr:
    return call_extern("int32", name, get_env().dev.command_handle, *args)


def coproc_sync(op: Call) -> PrimExpr:
    """Lower the wait for the accelerator, which runs the instructions written so far.

    Parameters
    ----------
    op : Call
        The call of the intrinsic.

    Returns
    -------
    PrimExpr
        A call of the C interface.
    """
    return _command("VTASynchronize", const((1 << 32) - 1, "uint32"))


def coproc_dep_push(op: Call) -> PrimExpr:
    """Lower the sending of a token.

    Parameters
    ----------
    op : Call
        The call of the intrinsic, with the queues of the sender and of the receiver.

    Returns
    -------
    PrimExpr
        A call of the C interface.
    """
    return _command("VTADepPush", *op.args)


def coproc_dep_pop(op: Call) -> PrimExpr:
    """Lower the receiving of a token.

    Parameters
    ----------
    op : Call
        The call of the intrinsic, with the queues of the sender and of the receiver.

    Returns
    -------
    PrimExpr
        A call of the C interface.
    """
    return _command("VTADepPop", *op.args)


def _barrier(function: str, op: Call) -> PrimExpr:
    data, bits, first, count = op.args
    return _command(function, data, *(a.astype("uint32") for a in (bits, first, count)))


_LOWERED = {
    "coproc_sync": coproc_sync,
    "coproc_dep_push": coproc_dep_push,
    "coproc_dep_pop": coproc_dep_pop,
    "coproc_read_barrier": functools.partial(_barrier, "VTAReadBarrier"),
    "coproc_write_barrier": functools.partial(_barrier, "VTAWriteBarrier"),
}
for _name, _rule in _LOWERED.items():
    register_op(f"tir.vta.{_name}", TCallEffectKind=CallEffectKind.Opaque)
    register_intrin_lowering(f"tir.vta.{_name}", "default", f=_rule)
