"""Remove unused definitions and unreachable functions."""

from __future__ import annotations

from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.visit import post_order
from ..expr import Call, Function, Let, RefCreate, RefRead, RefWrite, RelayExpr, Var
from ..substitute import free_vars, substitute_vars
from .function_pass import RelayFunctionPass, function_pass

_EFFECTS = (RefCreate, RefRead, RefWrite)


def is_pure(e: RelayExpr, functions: frozenset[Var] | set[Var] = frozenset()) -> bool:
    """Return whether an expression has no side effects, so that it can be removed if its value is unused.

    ``functions`` are local functions that may be called."""
    for node in post_order(e):
        if isinstance(node, _EFFECTS):
            return False
        if (
            type(node) is Call
            and not isinstance(node.op, (Op, Function))
            and node.op not in functions
            and type(node.op).__name__ != "Constructor"
        ):
            # A called function may write to references.
            return False
        if type(node) is Call and isinstance(node.op, Op) and node.op.attrs.get("TOpIsStateful"):
            return False
    return True


def _uses(root: RelayExpr) -> dict[Var, int]:
    counts: dict[Var, int] = {}
    for node in post_order(root):
        for child in node.children():
            if type(child) is Var:
                counts[child] = counts.get(child, 0) + 1
    if type(root) is Var:
        counts[root] = 1
    return counts


def _pure_functions(root: RelayExpr) -> set[Var]:
    """Return the local functions whose calls have no side effects. Recursive functions are excluded, since they may not
    terminate."""
    found: set[Var] = set()
    for node in post_order(root):
        if type(node) is Let and isinstance(node.value, Function) and is_pure(node.value.body, found):
            found.add(node.var)
    return found


def _captured(root: RelayExpr) -> set[Var]:
    """Return the variables that inner functions capture. A captured value is not inlined into a function, because each
    call would compute it again."""
    inner = [n for n in post_order(root) if type(n) is Function and n is not root]
    return {v for function in inner for v in free_vars(function)}


def eliminate(root: RelayExpr, inline_once: bool, ignore_impurity: bool) -> RelayExpr:
    """Remove unused let bindings, and with ``inline_once`` inline bindings that are used once, until nothing
    changes."""
    while True:
        counts, functions, captured = _uses(root), _pure_functions(root), _captured(root) if inline_once else set()
        gone: dict[Var, RelayExpr] = {}
        drop: set[Var] = set()
        for node in post_order(root):
            if type(node) is Let:
                uses = counts.get(node.var, 0)
                local = isinstance(node.value, Function)
                if local and uses:
                    uses -= _uses(node.value).get(node.var, 0)
                pure = ignore_impurity or local or is_pure(node.value, functions)
                if uses == 0 and pure:
                    drop.add(node.var)
                elif inline_once and uses == 1 and pure and not local and node.var not in captured:
                    gone[node.var] = node.value
        if not drop and not gone:
            return root
        root = _without(root, drop, gone)


def _without(root: RelayExpr, drop: set[Var], gone: dict[Var, RelayExpr]) -> RelayExpr:
    from ...ir.visit import rewrite

    def post(node):
        if type(node) is Let and (node.var in drop or node.var in gone):
            if node.var in gone:
                return substitute_vars(node.body, {node.var: node.value})
            return node.body
        return None

    return rewrite(root, post)


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> RelayFunctionPass:
    """Remove let bindings whose value is not used.

    Parameters
    ----------
    inline_once : bool, optional
        Whether values that are used once are inlined at their use.
    ignore_impurity : bool, optional
        Whether calls with side effects may be removed.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> x, unused = relay.var("x", shape=(2,)), relay.var("unused", shape=(2,))
    >>> mod = tvm.IRModule.from_expr(relay.Function([x], relay.Let(unused, relay.exp(x), relay.sqrt(x))))
    >>> relay.transform.DeadCodeElimination()(mod)["main"].body.op.name
    'sqrt'
    """

    @function_pass(opt_level=1, name="DeadCodeElimination", required=["InferType"])
    def remove(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return eliminate(func, inline_once, ignore_impurity)

    return remove


def reachable(mod: IRModule, entries: list[str]) -> set[str]:
    """Return the names of the functions that the entry functions use, including the entry functions."""
    by_name = {v.name_hint: f for v, f in mod.functions.items()}
    found: set[str] = set()
    stack = [n for n in entries if n in by_name]
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        if isinstance(by_name[name], Function):
            stack.extend(n.name_hint for n in post_order(by_name[name]) if type(n) is GlobalVar)
    return found


def RemoveUnusedFunctions(entry_functions: list[str] | None = None) -> ModulePass:
    """Remove functions that cannot be reached from the entry functions (``main`` by default).

    Parameters
    ----------
    entry_functions : list[str], optional
        The names of the entry functions.

    Returns
    -------
    ModulePass
    """
    entries = list(entry_functions or ["main"])

    def remove(mod: IRModule, ctx: PassContext) -> IRModule:
        kept = reachable(mod, entries)
        if len(kept) == len(mod.functions):
            return mod
        return mod.map_functions(lambda var, func: func if var.name_hint in kept else None)

    return ModulePass(remove, PassInfo(1, "RemoveUnusedFunctions", ["InferType"]))


__all__ = ["DeadCodeElimination", "RemoveUnusedFunctions", "is_pure"]
