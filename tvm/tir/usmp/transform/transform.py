"""Replace allocations by offsets in pools.

    sid = allocate(int8[720000])      ->   let sid = address_of(pool[offset])
    call_extern("f", a, sid)          ->   call_extern("f", a, sid, pool)

A function gets a pointer parameter for each pool that it or a function called by it uses. The pool parameters come
after all others except a last parameter named ``resource_handle``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ....error import TVMError
from ....ir.memory_pools import AllocatedPoolInfo, ConstantInfo, ConstantPoolInfo, PoolInfo
from ....ir.module import GlobalVar, IRModule
from ....ir.op import Op
from ....ir.prim import BufferLoad, Call, Var, const
from ....ir.transform import ModulePass, Pass, PassInfo
from ....ir.type import PointerType, PrimType
from ....ir.visit import rewrite
from ...buffer import Buffer
from ...function import PrimFunc
from ...op.calls import packed
from ...stmt import Allocate, AllocateConst, LetStmt, Stmt
from ...transform.function_pass import allow_deep_statements
from ...transform.statement import StmtRewriter, is_call
from ..calls import Alignments, Callees, allocated_bytes, has_resource_handle
from ..utils import (
    CANDIDATE_MEMORY_POOL_ATTR,
    INPUT_TENSOR_ATTR,
    IO_TENSOR_POOL_ALLOCATIONS_ATTR,
    MAIN_FUNCTION,
    OUTPUT_TENSOR_ATTR,
    POOL_ALIGNMENTS_ATTR,
    POOL_ARGS_ATTR,
    PoolAllocation,
)
from .overlaps import Places, functions_with_overlaps, planned_in


@dataclass
class PoolUse:
    """A pool, the number of bytes that the program uses in it, and the required alignment of its address."""

    pool: PoolInfo
    size: int
    alignment: int


def pools_in_use(mod: IRModule, places: Places) -> list[PoolUse]:
    """Return the pools of a plan with their sizes, in the order of preference."""
    found: dict[PoolInfo, PoolUse] = {}
    for stmt in places:
        for pool in stmt.annotations[CANDIDATE_MEMORY_POOL_ATTR]:
            found.setdefault(pool, PoolUse(pool, 0, 1))
    used: set[PoolInfo] = set()
    alignments = Alignments(mod)
    for stmt, place in places.items():
        use = found[place.pool_info]
        used.add(place.pool_info)
        use.size = max(use.size, place.byte_offset + (allocated_bytes(stmt) or 0))
        use.alignment = max(use.alignment, alignments.of(stmt))
    return [use for pool, use in found.items() if pool in used]


def pools_of_functions(callees: Callees, places: Places) -> dict[str, set[PoolInfo]]:
    """Return the pools that each function needs, including those of the functions that it calls."""
    return {name: {places[stmt].pool_info for stmt in stmts} for name, stmts in planned_in(callees, places).items()}


class _Pools:
    """The pool parameters of one function, in the order of the pools."""

    def __init__(self, uses: Iterable[PoolUse], number: int):
        self.uses = list(uses)
        byte = PointerType(PrimType("uint8"))
        # The parameter of each pool, and the buffer to which it points.
        self.params: dict[PoolInfo, Var] = {}
        self.buffers: dict[PoolInfo, Buffer] = {}
        for use in self.uses:
            name = f"{use.pool.pool_name}_{number}"
            data = Var(f"{name}_buffer_var", byte)
            self.buffers[use.pool] = Buffer(
                data, "uint8", (const(use.size, "int32" if use.size < 2**31 else "int64"),), (const(1, "int32"),),
                const(0, "int32"), f"{name}_buffer_var", use.alignment,
            )  # fmt: skip
            self.params[use.pool] = Var(f"{name}_var", byte)

    def address(self, place: PoolAllocation) -> Call:
        offset = const(place.byte_offset, "int32" if place.byte_offset < 2**31 else "int64")
        load = BufferLoad(self.buffers[place.pool_info], (offset,))
        return Call("handle", Op.get("tir.address_of"), (load,))


class _Rewriter(StmtRewriter):
    """Rewrites one function: each allocation becomes a let of an address in a pool, and calls get the pools of the
    called functions as arguments."""

    def __init__(self, pools: _Pools, places: Places, callees: Callees, needed: Mapping[str, list[PoolInfo]]):
        self.pools, self.places, self.callees, self.needed = pools, places, callees, needed

    def allocation(self, node: Any) -> Stmt:
        place = self.places.get(node)
        if place is None:
            return self.keep(node)
        return LetStmt(node.buffer_var, self.pools.address(place), self.stmt(node.body))

    def on_Allocate(self, node: Allocate) -> Stmt:
        return self.allocation(node)

    def on_AllocateConst(self, node: AllocateConst) -> Stmt:
        return self.allocation(node)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.call)

    def call(self, node: Any) -> Any:
        found = self.callees.called(node)
        if found is None or not self.needed[found[0].name_hint]:
            return None
        buffers = [self.pools.buffers[pool] for pool in self.needed[found[0].name_hint]]
        # Packed functions take tensors, others take pointers.
        is_packed = is_call(node, "tir.tvm_call_packed", "tir.tvm_call_cpacked")
        given = packed(buffers) if is_packed else [buffer.data for buffer in buffers]
        function = found[1]
        # The last argument is the resource handle if the last parameter is one, or if a packed call has an additional
        # argument.
        named = 0 if isinstance(node.op, GlobalVar) else 1
        last = has_resource_handle(function) or len(node.args) - named > len(function.params)
        split = len(node.args) - last
        return node.replace(args=(*node.args[:split], *given, *node.args[split:]))


def place_in_pools(
    mod: IRModule, places: Places, main: str = MAIN_FUNCTION, printable: bool = False
) -> tuple[IRModule, list[AllocatedPoolInfo]]:
    """Replace the allocations of a module by offsets; return the module and the pools of its main function.

    Parameters
    ----------
    mod : IRModule
        The module of the planned allocation statements.
    places : dict of Stmt to PoolAllocation
        The pool and the offset of each allocation.
    main : str, optional
        The name of the main function.
    printable : bool, optional
        Whether to remove the attributes of functions.

    Returns
    -------
    tuple of IRModule and list of AllocatedPoolInfo
        The module, and for each pool its size and the index of its parameter.

    Raises
    ------
    TVMError
        The module has no function with this name.
    """
    callees = Callees(mod)
    if main not in callees.functions:
        raise TVMError(f"cannot plan memory: the module has no PrimFunc '{main}'")
    allow_deep_statements()
    uses = pools_in_use(mod, places)
    sets = pools_of_functions(callees, places)
    needed = {name: [use.pool for use in uses if use.pool in pools] for name, pools in sets.items()}
    overlapping = functions_with_overlaps(callees, places, main)
    numbers = iter(range(len(mod.functions)))

    def one(var: GlobalVar, function: Any) -> Any:
        if not isinstance(function, PrimFunc):
            return function
        pools = _Pools((use for use in uses if use.pool in needed[var.name_hint]), next(numbers))
        body = _Rewriter(pools, places, callees, needed).stmt(function.body)
        if var.name_hint in overlapping and function.attrs.get("tir.noalias"):
            function = function.with_attr("tir.noalias", False)
        return _with_pools(function, body, pools, printable)

    name = callees.functions[main][0].name_hint
    new = mod.map_functions(one)
    infos = _allocated(uses, places, needed[name], new[name])
    if not printable:
        alignments = tuple(use.alignment for use in uses if use.pool in needed[name])
        attrs = {POOL_ARGS_ATTR: tuple(infos), POOL_ALIGNMENTS_ATTR: alignments}
        io = _io_places(places)
        if io:
            attrs[IO_TENSOR_POOL_ALLOCATIONS_ATTR] = io
        new = new.map_functions(lambda var, f: f.with_attr(attrs) if var.name_hint == name else f)
    return new, infos


def _with_pools(function: PrimFunc, body: Stmt, pools: _Pools, printable: bool) -> PrimFunc:
    buffers = {**function.buffer_map, **{param: pools.buffers[pool] for pool, param in pools.params.items()}}
    added = tuple(pools.params.values())
    split = len(function.params) - has_resource_handle(function)
    params = (*function.params[:split], *added, *function.params[split:])
    attrs = None if printable else function.attrs
    return PrimFunc(params, body, function.ret_type, buffers, attrs, function.span)


def _allocated(uses: list[PoolUse], places: Places, pools: list[PoolInfo], main: PrimFunc) -> list[AllocatedPoolInfo]:
    first = len(main.params) - has_resource_handle(main) - len(pools)
    infos: list[AllocatedPoolInfo] = []
    for number, use in enumerate(use for use in uses if use.pool in pools):
        pool = use.pool
        if isinstance(pool, ConstantPoolInfo):
            held = [
                ConstantInfo(stmt.buffer_var.name, place.byte_offset, stmt.data_or_idx)
                for stmt, place in places.items() if place.pool_info is use.pool
            ]  # fmt: skip
            held.sort(key=lambda constant: constant.byte_offset)
            pool = pool.replace(constant_info_array=tuple(held))
        infos.append(AllocatedPoolInfo(pool, use.size, first + number))
    return infos


def _io_places(places: Places) -> dict[str, PoolAllocation]:
    found: dict[str, PoolAllocation] = {}
    for stmt, place in places.items():
        for key in (INPUT_TENSOR_ATTR, OUTPUT_TENSOR_ATTR):
            if key in stmt.annotations:
                found[str(stmt.annotations[key])] = place
    return found


def convert_pool_allocations_to_offsets(
    pool_allocations: Mapping[Stmt, PoolAllocation], emit_tvmscript_printable: bool = False
) -> Pass:
    """Create the pass that replaces the planned allocations of a module by offsets in pools.

    Parameters
    ----------
    pool_allocations : dict of Stmt to PoolAllocation
        The pool and the offset of each ``Allocate`` and ``AllocateConst`` statement of the module.
    emit_tvmscript_printable : bool, optional
        Whether to remove the attributes of functions, which TVMScript cannot print.

    Returns
    -------
    Pass
        The pass.
    """
    places = dict(pool_allocations)
    return ModulePass(
        lambda mod, ctx: place_in_pools(mod, places, printable=emit_tvmscript_printable)[0],
        PassInfo(0, "tir.usmp.ConvertPoolAllocationsToOffsets"),
    )
