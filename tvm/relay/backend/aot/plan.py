"""Places for the memory of a main function: each ``Allocate`` becomes an address in one workspace."""

from __future__ import annotations

from typing import NamedTuple

from ....dtype import info
from ....ir.op import Op
from ....ir.prim import Call, Var, const
from ....ir.visit import pre_order
from ....tir.buffer import decl_buffer
from ....tir.function import PrimFunc
from ....tir.stmt import Allocate, LetStmt, Stmt
from ....tir.transform.statement import StmtRewriter
from .kernels import constant_elements

_ALIGNMENT = 64


class Planned(NamedTuple):
    """A main function whose last parameter is its workspace, and the bytes of the workspace. Without workspace there is
    no such parameter."""

    function: PrimFunc
    nbytes: int


def plan_main(function: PrimFunc, alignment: int = 64) -> Planned:
    """Give every allocation a place: the largest first, each at the first offset that no live memory uses."""
    uses = _Uses()
    uses.stmt(function.body)
    places: dict[Var, tuple[int, int]] = {}
    for var, size in sorted(uses.sizes.items(), key=lambda item: -item[1]):
        first, last = uses.lives.get(var, (0, 0))
        taken = sorted(
            at for other, at in places.items() if uses.lives[other][0] <= last and first <= uses.lives[other][1]
        )
        offset = 0
        for begin, end in taken:
            if offset + size <= begin:
                break
            offset = max(offset, end)
        places[var] = (offset, offset + size)
    nbytes = max((end for _, end in places.values()), default=0)
    if not nbytes:
        return Planned(function, 0)
    handle, workspace = Var("workspace", "handle"), decl_buffer((nbytes,), "uint8", "workspace")
    body = _Placing(workspace.data, {var: at[0] for var, at in places.items()}).stmt(function.body)
    buffers = {**function.buffer_map, handle: workspace}
    planned = PrimFunc((*function.params, handle), body, function.ret_type, buffers, function.attrs)
    return Planned(planned, nbytes)


class _Uses(StmtRewriter):
    """The bytes of each allocation, and the numbers of the first and the last statement that uses it."""

    def __init__(self) -> None:
        self.sizes: dict[Var, int] = {}
        self.lives: dict[Var, tuple[int, int]] = {}
        self.now = 0

    def on_Allocate(self, node: Allocate) -> Stmt:
        elements = constant_elements(node)
        assert elements is not None
        nbytes = elements * info(node.dtype).bytes
        self.sizes[node.buffer_var] = (nbytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        self.lives[node.buffer_var] = (0, 0)
        return self.keep(node)

    def _use(self, node: Stmt) -> Stmt:
        self.now += 1
        for part in pre_order(node):
            if isinstance(part, Var) and part in self.sizes:
                first = self.lives[part][0] or self.now
                self.lives[part] = (first, self.now)
        return node

    on_IfThenElse = _use
    on_Evaluate = _use


class _Placing(StmtRewriter):
    def __init__(self, workspace: Var, offsets: dict[Var, int]):
        self.workspace, self.offsets = workspace, offsets

    def on_Allocate(self, node: Allocate) -> Stmt:
        offset = const(self.offsets[node.buffer_var], "int64")
        address = Call("handle", Op.get("tir.handle_add_byte_offset"), (self.workspace, offset))
        return LetStmt(node.buffer_var, address, self.stmt(node.body))


__all__ = ["Planned", "plan_main"]
