"""Places for the memory of a main function: each allocation becomes an address in a memory pool."""

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
    """A main function whose last parameters are its pools, and the pools in that order."""

    function: PrimFunc
    pools: list[AllocatedPoolInfo]

    @property
    def workspaces(self) -> list[AllocatedPoolInfo]:
        """The pools of intermediate results and of the workspaces of kernels."""
        return [info for info in self.pools if not isinstance(info.pool, ConstantPoolInfo)]

    @property
    def workspace_bytes(self) -> int:
        """The bytes of all workspace pools."""
        return sum(info.allocated_size for info in self.workspaces)

    def alignment_of(self, info: AllocatedPoolInfo) -> int:
        """The bytes that the address of a pool must be a multiple of."""
        return dict(zip(self.pools, self.function.attrs["pool_alignments"]))[info]

    def parameters(self) -> dict[Var, AllocatedPoolInfo]:
        """The pools by their parameters."""
        return {self.function.params[info.pool_var_idx]: info for info in self.pools}


def plan_main(function: PrimFunc, executor: Executor, pools: Sequence[Any] | None = None) -> Planned:
    """Give every allocation a place in one of the pools; without pools, in one workspace without a limit."""
    name = str(function.attrs["global_symbol"])
    module = IRModule({name: function}).with_attr("executor", executor)
    planned, infos = usmp.plan(module, name, pools)
    new = planned[name]
    assert isinstance(new, PrimFunc)
    return Planned(new, infos)


__all__ = ["Planned", "plan_main"]
