"""The host program: its waits for the accelerator, and its accesses of the accelerator's memory."""

from __future__ import annotations

from ....error import TVMError
from ....ir.op import Op
from ....ir.prim import BufferLoad, Call, Var, const
from ....ir.transform import Pass, Sequential
from ....ir.visit import post_order, rewrite
from ....tir.function import PrimFunc
from ....tir.op import call_extern
from ....tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, LetStmt, Stmt, seq
from ....tir.transform import CoProcSync, prim_func_pass
from ....tir.transform.statement import StmtRewriter, is_call, op_name
from ..environment import get_env
from .pragmas import pragma_pass
from .uops import throw_unless_zero

_TOKENS = ("tir.vta.coproc_dep_push", "tir.vta.coproc_dep_pop")


def _sync(node: AttrStmt) -> Stmt:
    return seq(node.body, Evaluate(Call("int32", Op.get("tir.vta.coproc_sync"), ())))


def _trim(node: AttrStmt) -> Stmt:
    if not isinstance(node.body, For):
        raise TVMError(f"pragma trim_loop: the statement is not a loop: {node.body}")
    return node.body.replace(extent=const(2, node.body.extent.dtype))


class _Commands(StmtRewriter):
    """Assigns tokens outside the work of the accelerator to the queue that executes them, so that each virtual thread
    gets its own tokens; checks the status of each wait."""

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node if node.attr_key == "coproc_scope" else self.keep(node)

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        name = op_name(node.value)
        if name in _TOKENS:
            sender, receiver = node.value.args
            queue = sender if name == _TOKENS[0] else receiver
            return AttrStmt(get_env().dev.vta_axis, "coproc_scope", queue, node)
        return throw_unless_zero(node.value) if name == "tir.vta.coproc_sync" else node


def InjectCoProcSync() -> Pass:
    """A pass that inserts the waits for the accelerator and the tokens between its modules.

    The pragma ``coproc_sync`` inserts a wait after a statement; ``trim_loop`` limits a loop to two iterations.

    Returns
    -------
    Pass
    """

    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.replace(body=_Commands().stmt(func.body))

    steps = [
        pragma_pass("InjectPragmaSync", coproc_sync=_sync, trim_loop=_trim),
        CoProcSync(),
        prim_func_pass(run, opt_level=0, name="tir.vta.AssignTokens"),
    ]
    return Sequential(steps, opt_level=0, name="tir.vta.InjectCoProcSync")


class _HostAccesses(StmtRewriter):
    """Replaces the pointers of loads and stores of the host; the arguments of C functions stay."""

    def __init__(self) -> None:
        self.pointers: dict[Var, Var] = {}
        self.own: set[Var] = set()

    def pointer(self, data: Var) -> Var:
        if data not in self.pointers:
            self.pointers[data] = Var(f"{data.name}_ptr", data.type_annotation)
        return self.pointers[data]

    def expr(self, node):
        def post(n):
            if isinstance(n, BufferLoad) and n.buffer.data not in self.own:
                return BufferLoad(n.buffer.replace(data=self.pointer(n.buffer.data)), n.indices)
            return None

        return rewrite(node, post)

    def on_Allocate(self, node: Allocate) -> Stmt:
        self.own.add(node.buffer_var)
        return self.keep(node)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data in self.own:
            return new
        return BufferStore(node.buffer.replace(data=self.pointer(node.buffer.data)), new.value, new.indices)


def CPUAccessRewrite() -> Pass:
    """A pass that makes the host access buffers in DRAM through the pointers that ``VTABufferCPUPtr`` returns.

    Returns
    -------
    Pass
    """

    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        if not any(is_call(n, "tir.call_extern") for n in post_order(func.body)):
            return func
        accesses = _HostAccesses()
        body = accesses.stmt(func.body)
        for data, pointer in accesses.pointers.items():
            found = call_extern("handle", "VTABufferCPUPtr", get_env().dev.command_handle, data)
            body = LetStmt(pointer, found, body)
        return func.replace(body=body)

    return prim_func_pass(run, opt_level=0, name="tir.vta.CPUAccessRewrite")
