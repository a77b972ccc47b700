"""Plan the memory of a main function: each allocation becomes an address in a memory pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....ir.memory_pools import AllocatedPoolInfo, ConstantPoolInfo
from ....ir.module import IRModule
from ....ir.prim import Var
from ....tir import usmp
from ....tir.function import PrimFunc
from ..options import Executor


class Planned(NamedTuple):
    """A main function after memory planning, whose last parameters are its pools, and the pools in this order."""

    function: PrimFunc
    pools: list[AllocatedPoolInfo]

    @property
    def workspaces(self) -> list[AllocatedPoolInfo]:
        """The pools for intermediate values and for the workspaces of kernels."""
        return [info for info in self.pools if not isinstance(info.pool, ConstantPoolInfo)]

    @property
    def workspace_bytes(self) -> int:
        """The total size of all workspace pools in bytes."""
        return sum(info.allocated_size for info in self.workspaces)

    def alignment_of(self, info: AllocatedPoolInfo) -> int:
        """Return the required alignment of a pool's address in bytes."""
        return dict(zip(self.pools, self.function.attrs["pool_alignments"]))[info]

    def parameters(self) -> dict[Var, AllocatedPoolInfo]:
        """The pools by parameter of the main function."""
        return {self.function.params[info.pool_var_idx]: info for info in self.pools}


def plan_main(function: PrimFunc, executor: Executor, pools: Sequence[Any] | None = None) -> Planned:
    """Assign every allocation to an offset in one of the pools. Without pools, all allocations are in one workspace of
    unlimited size."""
    name = str(function.attrs["global_symbol"])
    module = IRModule({name: function}).with_attr("executor", executor)
    planned, infos = usmp.plan(module, name, pools)
    new = planned[name]
    assert isinstance(new, PrimFunc)
    return Planned(new, infos)


__all__ = ["Planned", "plan_main"]
