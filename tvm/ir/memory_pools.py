"""Memory regions a program may place its workspace and constants in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .node import Node

if TYPE_CHECKING:
    from .span import Span


class PoolInfoProperties(Node, key="ir.PoolInfoProperties"):
    """Size and speed of a region; -1 means unknown, and a size of -1 means unlimited.

    Parameters
    ----------
    size_hint_bytes : int, optional
        Its size.
    clock_frequency_hz : int, optional
        Its clock.
    read_bandwidth_bytes_per_cycle : int, optional
        Bytes that can be read in a cycle.
    write_bandwidth_bytes_per_cycle : int, optional
        Bytes that can be written in a cycle.
    read_latency_cycles : int, optional
        Cycles until a value that is read arrives.
    write_latency_cycles : int, optional
        Cycles until a value is written.
    target_burst_bytes : dict of Target to int, optional
        Bytes of a burst, for each target.
    """

    size_hint_bytes: int = -1
    clock_frequency_hz: int = -1
    read_bandwidth_bytes_per_cycle: int = -1
    write_bandwidth_bytes_per_cycle: int = -1
    read_latency_cycles: int = 0
    write_latency_cycles: int = 0
    target_burst_bytes: Any = None


class PoolInfo(Node):
    """A region: its name, the targets that reach it, and its properties, which are read from it, too.

    Parameters
    ----------
    pool_name : str
        The name of the region.
    targets : list of Target
        The targets that reach it.
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
    """A region for intermediate values.

    Parameters
    ----------
    pool_name : str
        The name of the region.
    targets : list of Target
        The targets that reach it.
    pool_info_properties : PoolInfoProperties, optional
        Its size and speed.
    """

    def __init__(self, pool_name: Any, targets: Any, pool_info_properties: Any = None, span: Span | None = None):
        PoolInfo.__init__(self, pool_name, targets, pool_info_properties or PoolInfoProperties(), span=span)


class ConstantInfo(Node, key="ir.ConstantInfo"):
    """One constant placed in a region."""

    name_hint: str
    byte_offset: int
    data: Any


class ConstantPoolInfo(PoolInfo, key="ir.ConstantPoolInfo"):
    """A region for constants, with those it holds.

    Parameters
    ----------
    pool_name : str
        The name of the region.
    targets : list of Target
        The targets that reach it.
    constant_info_arr : list of ConstantInfo, optional
        The constants it holds.
    pool_info_properties : PoolInfoProperties, optional
        Its size and speed.
    constant_info_array : list of ConstantInfo, optional
        The name of the field, an alias of ``constant_info_arr``.
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
    """The regions that a compiler may put intermediate values into.

    Parameters
    ----------
    pools : list of PoolInfo
        The regions, in the order in which they are filled.
    """

    pools: tuple[Any, ...]


class AllocatedPoolInfo(Node, key="ir.AllocatedPoolInfo"):
    """A pool that a planned program uses.

    Parameters
    ----------
    pool : PoolInfo
        The pool, ``pool_info`` as an attribute; a ``ConstantPoolInfo`` lists the constants in it.
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
    """Memory of a kind of its own, as a scratchpad: how much there is, and how it is read, in bits.

    A global function ``tvm.info.mem.SCOPE`` that gives one tells the compiler of the memory of that scope.
    """

    unit_bits: int
    max_simd_bits: int
    max_num_bits: int
    head_address: Any = None


class ConstantMemoryPools(Node, key="ir.ConstantMemoryPools"):
    """The regions that a compiler may put constants into.

    Parameters
    ----------
    pools : list of PoolInfo
        The regions, in the order in which they are filled.
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
