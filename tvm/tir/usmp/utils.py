"""Data types of the unified static memory planner: buffers, allocations in pools, and the result of the analysis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...ir.memory_pools import PoolInfo
from ...ir.node import Node
from ...ir.transform import PassContext
from ..stmt import Stmt

if TYPE_CHECKING:
    from ...ir.node import slot_field

# The annotation of an allocation that lists its candidate pools, the preferred pool first.
CANDIDATE_MEMORY_POOL_ATTR = "candidate_memory_pools"

# The annotations of an allocation for an input or output of the main function; the value is the name of the tensor.
INPUT_TENSOR_ATTR = "input_tensor"
OUTPUT_TENSOR_ATTR = "output_tensor"

# The attribute of a planned main function that maps the name of an input or output to its pool and offset.
IO_TENSOR_POOL_ALLOCATIONS_ATTR = "io_tensor_pool_allocations"

# The attribute of a planned main function that lists its pools as AllocatedPoolInfo.
POOL_ARGS_ATTR = "pool_args"

# The attribute of a planned main function that lists the required alignment of each of its pools.
POOL_ALIGNMENTS_ATTR = "pool_alignments"

# The name of the main function, unless the caller chooses another one.
MAIN_FUNCTION = "__tvm_main__"


def use_workspace_io_is_enabled() -> bool:
    """Return whether inputs and outputs are placed in workspace pools (option ``tir.usmp.use_workspace_io``).

    Returns
    -------
    bool
        The value of the option in the current pass context.
    """
    return bool(PassContext.current().get_config("tir.usmp.use_workspace_io"))


class BufferInfo(Node, key="tir.usmp.BufferInfo", derived={"conflicts": "()"}):
    """A buffer that a planning algorithm places.

    Parameters
    ----------
    name_hint : str
        The name of the buffer, unique in its program.
    size_bytes : int
        The size.
    pool_candidates : list of PoolInfo
        The candidate pools, the preferred pool first.
    alignment : int, optional
        The required alignment of the offset in bytes; 1 by default.

    Attributes
    ----------
    conflicts : tuple of BufferInfo
        The buffers that are live at the same time as this one.
    """

    _mutable = True

    name_hint: str
    size_bytes: int
    pool_candidates: tuple[Any, ...]
    alignment: int = 1

    if TYPE_CHECKING:
        conflicts: tuple[BufferInfo, ...] = slot_field()

    def __init__(
        self, name_hint: str, size_bytes: int, pool_candidates: Iterable[PoolInfo], alignment: int | None = None,
        span: Any = None,
    ):  # fmt: skip
        if int(size_bytes) < 0:
            raise ValueError(f"BufferInfo '{name_hint}': the size is negative: {size_bytes}")
        if alignment is not None and int(alignment) < 1:
            raise ValueError(f"BufferInfo '{name_hint}': the alignment must be at least 1, got {alignment}")
        self.name_hint = str(name_hint)
        self.size_bytes = int(size_bytes)
        self.pool_candidates = tuple(pool_candidates)
        self.alignment = 1 if alignment is None else int(alignment)
        self.conflicts = ()
        self.span = span

    def set_conflicts(self, conflicts: Iterable[BufferInfo]) -> None:
        """Replace the list of buffers that are live at the same time.

        Parameters
        ----------
        conflicts : list of BufferInfo
            The buffers.
        """
        self.conflicts = tuple(conflicts)

    def __repr__(self) -> str:
        return f"BufferInfo({self.name_hint}, {self.size_bytes} bytes, alignment {self.alignment})"

    __str__ = __repr__


class PoolAllocation(Node, key="tir.usmp.PoolAllocation"):
    """The location of a buffer: a pool and an offset in it.

    Parameters
    ----------
    pool_info : PoolInfo
        The pool.
    byte_offset : int
        The offset of the first byte.
    """

    pool_info: Any
    byte_offset: int

    def __repr__(self) -> str:
        return f"PoolAllocation({self.pool_info.pool_name}, {self.byte_offset})"

    __str__ = __repr__


class BufferInfoAnalysis(Node, key="tir.usmp.BufferInfoAnalysis"):
    """The buffers of a program.

    Parameters
    ----------
    buffer_info_stmts : dict of BufferInfo to Stmt
        The ``Allocate`` or ``AllocateConst`` statement of each buffer, in the order of execution.
    memory_pressure : int
        The maximum total size of workspace buffers that are live at the same time, a lower bound for plans in one pool.
    """

    buffer_info_stmts: Any
    memory_pressure: int

    def __repr__(self) -> str:
        return f"BufferInfoAnalysis({len(self.buffer_info_stmts)} buffers, pressure {self.memory_pressure} bytes)"

    __str__ = __repr__


def create_array_buffer_info(buffer_info_stmts: Mapping[BufferInfo, Stmt]) -> list[BufferInfo]:
    """Return the buffers of an analysis as a list, the input of planning algorithms.

    Parameters
    ----------
    buffer_info_stmts : dict of BufferInfo to Stmt
        The field of ``BufferInfoAnalysis``.

    Returns
    -------
    list of BufferInfo
        The buffers in the order of execution.
    """
    return list(buffer_info_stmts)


def assign_stmt_pool_allocations(
    buffer_info_stmts: Mapping[BufferInfo, Stmt], buffer_info_pool_allocations: Mapping[BufferInfo, PoolAllocation]
) -> dict[Stmt, PoolAllocation]:
    """Map allocation statements to the pools and offsets that an algorithm assigned to their buffers.

    Parameters
    ----------
    buffer_info_stmts : dict of BufferInfo to Stmt
        The field of ``BufferInfoAnalysis``.
    buffer_info_pool_allocations : dict of BufferInfo to PoolAllocation
        The return value of the algorithm.

    Returns
    -------
    dict of Stmt to PoolAllocation
        The pool and the offset of each statement.

    Raises
    ------
    ValueError
        The algorithm placed a buffer that is not in the analysis.
    """
    for buffer in buffer_info_pool_allocations:
        if buffer not in buffer_info_stmts:
            raise ValueError(f"the plan contains '{buffer.name_hint}', which is not a buffer of the program")
    return {buffer_info_stmts[buffer]: place for buffer, place in buffer_info_pool_allocations.items()}


__all__ = [
    "CANDIDATE_MEMORY_POOL_ATTR", "BufferInfo", "BufferInfoAnalysis", "PoolAllocation",
    "assign_stmt_pool_allocations", "create_array_buffer_info", "use_workspace_io_is_enabled",
]  # fmt: skip
