"""Analyses of programs: free variables, memory, arithmetic operations and side effects. Verifiers are in ``verify``."""

from __future__ import annotations

from typing import Any

from ..arith.compare import expr_deep_equal
from ..dtype import info
from ..error import ExprValueError
from ..ir.module import GlobalVar, IRModule
from ..ir.node import Node
from ..ir.prim import (
    BinaryOpExpr,
    BufferLoad,
    Call,
    CmpExpr,
    IntImm,
    LogicalExpr,
    Not,
    PrimExpr,
    ProducerLoad,
    Select,
    Var,
)
from ..ir.type import PointerType, PrimType
from ..ir.visit import post_order
from .access_region import detect_buffer_access_lca, get_block_access_region, get_block_read_write_region
from .buffer import Buffer
from .function import PrimFunc
from .intrinsics import CallEffectKind, effect_of
from .stmt import (
    Allocate,
    AllocateConst,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from .use_def import UseDef, undefined_vars
from .verify import verify_gpu_code, verify_memory, verify_ssa, verify_well_formed

# --- arithmetic operations -------------------------------------------------------------------------------------------


def _expression_flops(e: PrimExpr) -> float:
    """Return the number of arithmetic operations of an expression. A shared subexpression is counted once. Operations
    of indices and conditions are not counted; of two branches, the more expensive one is counted."""
    memo: dict[int, float] = {}
    for node in post_order(e, operands=_value_parts):
        costs = []
        for p in _value_parts(node):
            costs.append(memo[id(p)])
            memo[id(p)] = 0.0
        if _is_choice(node):
            memo[id(node)] = max(costs)
        else:
            own = isinstance(node, (BinaryOpExpr, Not)) and not isinstance(node, (CmpExpr, LogicalExpr))
            memo[id(node)] = sum(costs) + (info(node.dtype).lanes if own else 0)
    return memo[id(e)]


def _is_choice(node: PrimExpr) -> bool:
    return isinstance(node, Select) or (isinstance(node, Call) and getattr(node.op, "name", "") == "tir.if_then_else")


def _value_parts(node: PrimExpr) -> list[PrimExpr]:
    if isinstance(node, (BufferLoad, ProducerLoad)):
        return []
    if isinstance(node, Select):
        return [node.true_value, node.false_value]
    if _is_choice(node):
        return list(node.args[1:])
    return [c for c in node.children() if isinstance(c, PrimExpr)]


def _statement_flops(stmt: Stmt) -> float:
    if isinstance(stmt, For):
        if not isinstance(stmt.extent, IntImm):
            raise ExprValueError(
                f"estimate_tir_flops: the extent of loop '{stmt.loop_var.name}' is {stmt.extent}, not a constant; "
                "operations cannot be counted"
            )
        return stmt.extent.value * _statement_flops(stmt.body)
    if isinstance(stmt, While):
        raise ExprValueError("estimate_tir_flops: a while loop has no known iteration count")
    if isinstance(stmt, IfThenElse):
        branches = [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else [])
        return max(_statement_flops(b) for b in branches)
    if isinstance(stmt, Block):
        if "flop_ct" in stmt.annotations:
            return float(int(stmt.annotations["flop_ct"]))
        return _statement_flops(stmt.body)
    if isinstance(stmt, BlockRealize):
        return _statement_flops(stmt.block)
    total = 0.0
    if isinstance(stmt, (BufferStore, LetStmt, Evaluate)):
        total += _expression_flops(stmt.value)
    return total + sum(_statement_flops(c) for c in stmt.children() if isinstance(c, Stmt))


def estimate_tir_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """The number of arithmetic operations that a program executes, computed from its loop extents.

    Parameters
    ----------
    stmt_or_mod : Stmt | PrimFunc | IRModule
        The program.

    Returns
    -------
    float
    """
    if isinstance(stmt_or_mod, IRModule):
        return sum(estimate_tir_flops(f) for f in stmt_or_mod.functions.values() if isinstance(f, PrimFunc))
    if isinstance(stmt_or_mod, PrimFunc):
        known = stmt_or_mod.attrs.get("estimated_flops")
        return float(int(known)) if known is not None else _statement_flops(stmt_or_mod.body)
    return _statement_flops(stmt_or_mod)


# --- memory ----------------------------------------------------------------------------------------------------------


def _allocation_bytes(stmt: Allocate | AllocateConst) -> int:
    kind = info(stmt.dtype)
    size = kind.bytes * kind.lanes
    for extent in stmt.extents:
        if not isinstance(extent, IntImm):
            return 0
        size *= extent.value
    return size


def _round_up(size: int, alignment: int) -> int:
    return -(-size // max(alignment, 1)) * max(alignment, 1)


def _peak(stmt: Stmt, kind: type, alignment: int, scope: str | None = None) -> int:
    own = 0
    if isinstance(stmt, kind) and (scope is None or _scope(stmt.buffer_var) == scope):
        own = _round_up(_allocation_bytes(stmt), alignment)
    return own + max((_peak(c, kind, alignment, scope) for c in stmt.children() if isinstance(c, Stmt)), default=0)


def _scope(var: Var) -> str:
    return getattr(var.type_annotation, "storage_scope", "") or "global"


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int) -> int:
    """The peak of the memory that a function allocates, in bytes.

    Parameters
    ----------
    func : PrimFunc
        The function.
    workspace_byte_alignment : int
        The size of each allocation is rounded up to a multiple of this value.

    Returns
    -------
    int
    """
    return _peak(func.body, Allocate, workspace_byte_alignment)


def calculate_constant_bytes(func: PrimFunc, constant_byte_alignment: int) -> int:
    """The total size of the constants of a function, in bytes.

    Parameters
    ----------
    func : PrimFunc
        The function.
    constant_byte_alignment : int
        The size of each constant is rounded up to a multiple of this value.

    Returns
    -------
    int
    """
    sizes = (_allocation_bytes(n) for n in post_order(func.body) if isinstance(n, AllocateConst))
    return sum(_round_up(s, constant_byte_alignment) for s in sizes)


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, Any]:
    """The peak of the allocated memory in each storage scope; for a module, one such dict per function.

    Parameters
    ----------
    func_or_mod : PrimFunc | IRModule
        The function, or a module of functions.

    Returns
    -------
    dict[str, Any]
    """
    if isinstance(func_or_mod, IRModule):
        functions = func_or_mod.functions.items()
        return {v.name_hint: calculate_allocated_bytes(f) for v, f in functions if isinstance(f, PrimFunc)}
    scopes = {_scope(n.buffer_var): None for n in post_order(func_or_mod.body) if isinstance(n, Allocate)}
    return {scope: _peak(func_or_mod.body, Allocate, 1, scope) for scope in scopes}


# --- effects ---------------------------------------------------------------------------------------------------------


def side_effect(expr: PrimExpr) -> CallEffectKind:
    """The strongest side effect in an expression. A load counts as reading state.

    Parameters
    ----------
    expr : PrimExpr
        The expression.

    Returns
    -------
    CallEffectKind
    """
    effect = CallEffectKind.Pure
    for node in post_order(expr):
        if isinstance(node, (BufferLoad, ProducerLoad)):
            effect = max(effect, CallEffectKind.ReadState)
        elif isinstance(node, Call):
            kind = effect_of(node)
            # Annotation calls and special arguments have no effect themselves.
            if kind > CallEffectKind.UpdateState:
                kind = CallEffectKind.UpdateState if kind == CallEffectKind.ControlJump else CallEffectKind.Pure
            effect = max(effect, kind)
    return effect


def impurities(func: PrimFunc) -> list[str]:
    """The side effects of a function: stores to memory that it did not allocate and calls with effects.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    list[str]
    """
    own = {n.buffer_var for n in post_order(func.body) if isinstance(n, (Allocate, AllocateConst))}
    for node in post_order(func.body):
        if isinstance(node, Block):
            own.update(b.data for b in node.alloc_buffers)
    out: dict[str, None] = {}
    for node in post_order(func.body):
        if isinstance(node, BufferStore) and node.buffer.data not in own:
            out[f"writes buffer '{node.buffer.name}'"] = None
        elif isinstance(node, Call):
            effect = effect_of(node)
            if effect == CallEffectKind.UpdateState:
                out[f"calls {getattr(node.op, 'name', None) or node.op.name_hint}"] = None
    return list(out)


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function has no side effects.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    bool
    """
    return not impurities(func)


def assert_pure_function(func: PrimFunc) -> bool:
    """Whether a function has no side effects; if it has one, raise an error that names it.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    bool

    Raises
    ------
    AssertionError
        The function has a side effect.
    """
    found = impurities(func)
    if found:
        name = func.attrs.get("global_symbol", "main")
        raise AssertionError(f"function {name} is not pure: it {', '.join(found)}")
    return True


# --- modules ---------------------------------------------------------------------------------------------------------


def find_entry_func(mod: IRModule) -> tuple[GlobalVar, PrimFunc]:
    """The entry function of a module: the function with ``tir.is_entry_func``, the one named main, or the only one.

    Parameters
    ----------
    mod : IRModule
        The module.

    Returns
    -------
    tuple[GlobalVar, PrimFunc]

    Raises
    ------
    ExprValueError
        No function has the attribute ``tir.is_entry_func``, none is named main, and there are several functions.
    """
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    for var, func in functions.items():
        if func.attrs.get("tir.is_entry_func"):
            return var, func
    for var, func in functions.items():
        if var.name_hint == "main":
            return var, func
    if len(functions) == 1:
        return next(iter(functions.items()))
    names = ", ".join(sorted(v.name_hint for v in functions)) or "none"
    raise ExprValueError(
        f"the module has no entry function: mark one with tir.is_entry_func or name it main; its functions are {names}"
    )


def find_anchor_block(mod: IRModule) -> Block | None:
    """The reduction block with the most arithmetic operations of a module, or None if there is no reduction.

    Parameters
    ----------
    mod : IRModule
        The module.

    Returns
    -------
    Block
    """
    blocks = [found for f in mod.functions.values() if isinstance(f, PrimFunc) for found in _blocks(f.body, 1)]
    sums = [(block, rounds) for block, rounds in blocks if block.init is not None]
    return max(sums, key=lambda found: found[1] * max(_statement_flops(found[0].body), 1.0), default=(None, 0))[0]


def _blocks(stmt: Node, rounds: int) -> list[tuple[Block, int]]:
    out = []
    if isinstance(stmt, Block):
        out.append((stmt, rounds))
    if isinstance(stmt, For) and isinstance(stmt.extent, IntImm):
        rounds *= stmt.extent.value
    for child in stmt.children():
        if isinstance(child, Stmt):
            out += _blocks(child, rounds)
    return out


# --- memory scopes of parameters -------------------------------------------------------------------------------------


def get_prim_func_arg_and_result_memory_constraints(func: PrimFunc, relay_func_type: Any = None) -> list[str]:
    """The storage scope of each buffer parameter of a function; "" means the default scope.

    Parameters
    ----------
    func : PrimFunc
        The function.
    relay_func_type : FuncType, optional
        The Relay type of the function; it is ignored.

    Returns
    -------
    list[str]
    """
    scopes = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        scope = buffer.scope() if buffer is not None else ""
        scopes.append("" if scope == "global" else scope)
    return scopes


def apply_prim_func_arg_and_result_memory_constraints(
    func: PrimFunc, relay_func_type: Any, arg_and_result_memory_scopes: list[str]
) -> PrimFunc:
    """A copy of the function whose buffer parameters have the given scopes; "" keeps the scope of a parameter.

    Parameters
    ----------
    func : PrimFunc
        The function.
    relay_func_type : FuncType
        The Relay type of the function.
    arg_and_result_memory_scopes : list[str]
        A scope for each parameter, then for each output.

    Returns
    -------
    PrimFunc

    Raises
    ------
    ExprValueError
        The number of scopes differs from the number of parameters.
    """
    from .stmt_functor import Renaming

    if len(arg_and_result_memory_scopes) != len(func.params):
        raise ExprValueError(
            f"the function has {len(func.params)} parameters, but {len(arg_and_result_memory_scopes)} memory scopes "
            "were given"
        )
    table = {}
    for param, scope in zip(func.params, arg_and_result_memory_scopes):
        buffer = func.buffer_map.get(param)
        if buffer is not None and scope:
            table[buffer.data] = Var(buffer.data.name, PointerType(_element(buffer), scope))
    renaming = Renaming(table.get)
    buffers = {p: renaming.buffer(b) for p, b in func.buffer_map.items()}
    return func.replace(buffer_map=buffers, body=renaming(func.body))


def _element(buffer: Buffer) -> PrimType:
    kind = buffer.data.type_annotation
    return kind.element_type if isinstance(kind, PointerType) else PrimType(buffer.dtype)


__all__ = [
    "UseDef",
    "apply_prim_func_arg_and_result_memory_constraints",
    "assert_pure_function",
    "calculate_allocated_bytes",
    "calculate_constant_bytes",
    "calculate_workspace_bytes",
    "detect_buffer_access_lca",
    "estimate_tir_flops",
    "expr_deep_equal",
    "find_anchor_block",
    "find_entry_func",
    "get_block_access_region",
    "get_block_read_write_region",
    "get_prim_func_arg_and_result_memory_constraints",
    "impurities",
    "is_pure_function",
    "side_effect",
    "undefined_vars",
    "verify_gpu_code",
    "verify_memory",
    "verify_ssa",
    "verify_well_formed",
]
