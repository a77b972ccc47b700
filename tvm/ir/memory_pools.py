"""Memory pools in which a program may allocate its workspace and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .node import Node

if TYPE_CHECKING:
    from .span import Span


class PoolInfoProperties(Node, key="ir.PoolInfoProperties"):
    """Size and speed of a memory pool; -1 means unknown, and a size of -1 means unlimited.

    Parameters
    ----------
    size_hint_bytes : int, optional
        The size of the pool in bytes.
    clock_frequency_hz : int, optional
        The clock frequency.
    read_bandwidth_bytes_per_cycle : int, optional
        The number of bytes that can be read per cycle.
    write_bandwidth_bytes_per_cycle : int, optional
        The number of bytes that can be written per cycle.
    read_latency_cycles : int, optional
        The read latency in cycles.
    write_latency_cycles : int, optional
        The write latency in cycles.
    target_burst_bytes : dict of Target to int, optional
        The burst size in bytes for each target.
    """

    size_hint_bytes: int = -1
    clock_frequency_hz: int = -1
    read_bandwidth_bytes_per_cycle: int = -1
    write_bandwidth_bytes_per_cycle: int = -1
    read_latency_cycles: int = 0
    write_latency_cycles: int = 0
    target_burst_bytes: Any = None


class PoolInfo(Node):
    """A memory pool: its name, the targets that can access it, and its properties, which are also attributes of the
    pool.

    Parameters
    ----------
    pool_name : str
        The name of the pool.
    targets : list of Target
        The targets that can access it.
    pool_info_properties : PoolInfoProperties, optional
        Its size and speed.
    """

    pool_name: str
    targets: tuple[Any, ...]
    pool_info_properties: Any = None

    def __getattr__(self, name: str) -> Any:
        if name not in PoolInfoProperties._fields:
            raise AttributeError(f"a {type(self).__name__} has no attribute '{name}'")
        value = getattr(self.pool_info_properties or PoolInfoProperties(), name)
        return {} if name == "target_burst_bytes" and value is None else value


class WorkspacePoolInfo(PoolInfo, key="ir.WorkspacePoolInfo"):
    """A memory pool for intermediate values.

    Parameters
    ----------
    pool_name : str
        The name of the pool.
    targets : list of Target
        The targets that can access it.
    pool_info_properties : PoolInfoProperties, optional
        Its size and speed.
    """

    def __init__(self, pool_name: Any, targets: Any, pool_info_properties: Any = None, span: Span | None = None):
        PoolInfo.__init__(self, pool_name, targets, pool_info_properties or PoolInfoProperties(), span=span)


class ConstantInfo(Node, key="ir.ConstantInfo"):
    """A constant in a memory pool."""

    name_hint: str
    byte_offset: int
    data: Any


class ConstantPoolInfo(PoolInfo, key="ir.ConstantPoolInfo"):
    """A memory pool for constants, with its contents.

    Parameters
    ----------
    pool_name : str
        The name of the pool.
    targets : list of Target
        The targets that can access it.
    constant_info_arr : list of ConstantInfo, optional
        The constants in the pool.
    pool_info_properties : PoolInfoProperties, optional
        Its size and speed.
    constant_info_array : list of ConstantInfo, optional
        Another name of the parameter ``constant_info_arr``.
    """

    constant_info_array: tuple[Any, ...] = ()

    def __init__(
        self,
        pool_name: Any,
        targets: Any,
        constant_info_arr: Any = None,
        pool_info_properties: Any = None,
        span: Span | None = None,
        constant_info_array: Any = None,
    ):
        PoolInfo.__init__(self, pool_name, targets, pool_info_properties or PoolInfoProperties(), span=span)
        self.constant_info_array = tuple(constant_info_arr or constant_info_array or ())


class WorkspaceMemoryPools(Node, key="ir.WorkspaceMemoryPools"):
    """The memory pools in which a compiler may allocate intermediate values.

    Parameters
    ----------
    pools : list of PoolInfo
        The pools, in the order in which they are filled.
    """

    pools: tuple[Any, ...]


class AllocatedPoolInfo(Node, key="ir.AllocatedPoolInfo"):
    """A pool that a planned program uses.

    Parameters
    ----------
    pool : PoolInfo
        The pool; the attribute ``pool_info`` is another name for it. A ``ConstantPoolInfo`` lists its constants.
    allocated_size : int
        The number of bytes that the program uses in it.
    pool_var_idx : int, optional
        The index of the pointer to the pool among the parameters of the main function.
    """

    pool: Any
    allocated_size: int
    pool_var_idx: int = 0

    @property
    def pool_info(self) -> Any:
        return self.pool


class MemoryInfo(Node, key="MemoryInfo"):
    """Properties of a special memory, such as a scratchpad: its size and access units in bits.

    A global function ``tvm.info.mem.SCOPE`` that returns a MemoryInfo describes the memory of that scope to the
    compiler.
    """

    unit_bits: int
    max_simd_bits: int
    max_num_bits: int
    head_address: Any = None


class ConstantMemoryPools(Node, key="ir.ConstantMemoryPools"):
    """The memory pools in which a compiler may place constants.

    Parameters
    ----------
    pools : list of PoolInfo
        The pools, in the order in which they are filled.
    """

    pools: tuple[Any, ...]


__all__ = [
    "AllocatedPoolInfo",
    "ConstantInfo",
    "ConstantMemoryPools",
    "ConstantPoolInfo",
    "MemoryInfo",
    "PoolInfo",
    "PoolInfoProperties",
    "WorkspaceMemoryPools",
    "WorkspacePoolInfo",
]
