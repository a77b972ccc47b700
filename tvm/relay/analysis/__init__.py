"""Analyses of Relay expressions, types and modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...error import DiagnosticError
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.structural import structural_key
from ...ir.tensor_type import TensorType
from ...ir.type import FuncType, GlobalTypeVar, RelayRefType, TupleType, Type, TypeCall, TypeKind, TypeVar
from ...ir.visit import post_order
from ...not_built import name_of as _name_of
from ..adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternWildcard, pattern_variables
from ..call_graph import CallGraph
from ..expr import Call, Constant, Function, Let, RelayExpr, Tuple, TupleGetItem, Var
from ..feature import Feature, detect_feature
from ..flop import macs
from ..infer import infer_type
from ..substitute import free_vars
from . import sparse_dense


def post_order_visit(expr: RelayExpr, fvisit: Callable[[RelayExpr], Any]) -> None:
    """Call ``fvisit`` once on each expression, operands before users.

    Parameters
    ----------
    expr : RelayExpr
        The expression.
    fvisit : callable
        The function to call.
    """
    for node in post_order(expr):
        if isinstance(node, (RelayExpr, Op)):
            fvisit(node)


def _variables(root: RelayExpr) -> Iterator[tuple[Var, bool]]:
    """Yield the variables of an expression in order of appearance, and whether each appearance is a definition."""
    seen: set[int] = set()
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if type(node) is Var:
            yield node, False
        if id(node) in seen:
            continue
        seen.add(id(node))
        defines = node.params if type(node) is Function else (node.var,) if type(node) is Let else ()
        if type(node) is Clause:
            defines = pattern_variables(node.lhs)
        for var in defines:
            yield var, True
        stack.extend(reversed(node.children()))


def bound_vars(expr: RelayExpr) -> list[Var]:
    """Return the variables that the expression defines, in order.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    list[Var]
        The defined variables.
    """
    return list(dict.fromkeys(var for var, defined in _variables(expr) if defined))


def all_vars(expr: RelayExpr) -> list[Var]:
    """Return the variables that the expression uses or defines, in order of appearance.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    list[Var]
        The variables.
    """
    return list(dict.fromkeys(var for var, _ in _variables(expr)))


def _type_parts(t: Any) -> list:
    if isinstance(t, TupleType):
        return list(t.fields)
    if isinstance(t, FuncType):
        return [*t.arg_types, t.ret_type]
    if isinstance(t, RelayRefType):
        return [t.value]
    if isinstance(t, TypeCall):
        return [t.func, *t.args]
    return []


def _types_of(obj: Any) -> list[Type]:
    if isinstance(obj, Type):
        return [obj]
    found = [var.type_annotation for var, _ in _variables(obj)]
    found += [node.ret_type for node in post_order(obj) if type(node) is Function]
    return [t for t in found if t is not None]


def all_type_vars(expr, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables in an expression or type.

    Parameters
    ----------
    expr : RelayExpr or Type
        The expression or type to search.
    mod : IRModule, optional
        Ignored; accepted for compatibility.

    Returns
    -------
    list[TypeVar]
        The type variables.
    """
    found: dict[TypeVar, None] = {}
    if not isinstance(expr, Type):
        for node in post_order(expr):
            if type(node) is Function:
                found.update(dict.fromkeys(node.type_params))
    stack = _types_of(expr)[::-1]
    while stack:
        t = stack.pop()
        if isinstance(t, TypeVar):
            found[t] = None
        elif isinstance(t, FuncType):
            found.update(dict.fromkeys(t.type_params))
        stack.extend(reversed(_type_parts(t)))
    return list(found)


def bound_type_vars(expr, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that functions or function types define.

    Parameters
    ----------
    expr : RelayExpr or Type
        The expression or type to search.
    mod : IRModule, optional
        Ignored; accepted for compatibility.

    Returns
    -------
    list[TypeVar]
        The defined type variables.
    """
    found: dict[TypeVar, None] = {}
    stack = _types_of(expr)[::-1]
    if not isinstance(expr, Type):
        for node in post_order(expr):
            if type(node) is Function:
                found.update(dict.fromkeys(node.type_params))
    while stack:
        t = stack.pop()
        if isinstance(t, FuncType):
            found.update(dict.fromkeys(t.type_params))
        stack.extend(reversed(_type_parts(t)))
    return list(found)


def free_type_vars(expr, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that are used but not defined.

    Parameters
    ----------
    expr : RelayExpr or Type
        The expression or type to search.
    mod : IRModule, optional
        Ignored; accepted for compatibility.

    Returns
    -------
    list[TypeVar]
        The free type variables.
    """
    bound = set(bound_type_vars(expr, mod))
    return [v for v in all_type_vars(expr, mod) if v not in bound]


def all_dtypes(expr: RelayExpr) -> set[str]:
    """Return the element types of all tensors in the expression.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    set[str]
        The element types.
    """
    found: set[str] = set()
    for node in post_order(expr):
        t = getattr(node, "checked_type_", None) or getattr(node, "type_annotation", None)
        stack = [t] if t is not None else []
        while stack:
            t = stack.pop()
            if isinstance(t, TensorType):
                found.add(t.dtype)
            stack.extend(_type_parts(t))
    return found


def well_formed(expr: RelayExpr | IRModule) -> bool:
    """Return whether each variable is defined once and only used in the scope of its definition.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    bool
        True if the expression is well formed.
    """
    for root in expr.functions.values() if isinstance(expr, IRModule) else [expr]:
        defined: set[Var] = set()
        for node in post_order(root):
            here: list[Var] = []
            if type(node) is Function:
                here = list(node.params)
            elif type(node) is Let:
                here = [node.var]
            elif type(node) is Match:
                here = [v for c in node.clauses for v in pattern_variables(c.lhs)]
            for var in here:
                if var in defined:
                    return False
                defined.add(var)
        if not _scoped(root, defined):
            return False
    return True


def _scoped(root: RelayExpr, defined: set[Var]) -> bool:
    """Return whether no variable that is defined inside ``root`` is used outside the scope of its definition."""
    return not any(v in defined for v in _free_by_scope(root))


def _free_by_scope(root: RelayExpr) -> set[Var]:
    """Return the free variables with scopes respected: a use of a let variable outside the body of its let is free."""
    free: dict[int, frozenset] = {}
    for node in post_order(root):
        own: set[Var] = {node} if type(node) is Var else set()
        for child in node.children():
            own |= free[id(child)]
        if type(node) is Function:
            own -= set(node.params)
        elif type(node) is Let:
            value = free[id(node.value)] - ({node.var} if isinstance(node.value, Function) else set())
            own = (free[id(node.body)] - {node.var}) | value
        elif type(node) is Match:
            own = set(free[id(node.data)])
            for clause in node.clauses:
                own |= free[id(clause.rhs)] - set(pattern_variables(clause.lhs))
        free[id(node)] = frozenset(own)
    return set(free[id(root)])


def check_kind(t: Type, mod: IRModule | None = None) -> TypeKind:
    """Return the kind of a type, and check that its parts have the required kinds.

    Parameters
    ----------
    t : Type
        The type.
    mod : IRModule, optional
        The module with the data types.

    Returns
    -------
    TypeKind
        The kind.

    Raises
    ------
    DiagnosticError
        A part of the type has the wrong kind.
    """
    if isinstance(t, (TypeVar, GlobalTypeVar)):
        return t.kind
    if isinstance(t, TypeCall):
        if not isinstance(t.func, (GlobalTypeVar, TypeVar)):
            raise DiagnosticError(f"{t.func} does not accept type arguments")
    for part in _type_parts(t)[1:] if isinstance(t, TypeCall) else _type_parts(t):
        if check_kind(part, mod) != TypeKind.Type:
            raise DiagnosticError(f"expected a type, but {part} is a {check_kind(part, mod).name}")
    return TypeKind.Type


def check_constant(expr: RelayExpr) -> bool:
    """Return whether an expression consists only of constants.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    bool
        True if the expression consists only of constants.
    """
    return all(isinstance(n, (Constant, Tuple, Op)) for n in post_order(expr))


def check_basic_block_normal_form(expr: RelayExpr) -> bool:
    """Return whether an expression is in basic block normal form.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    bool
        True if no expression inside a branch or function is used outside of it without a let.
    """
    from ..transform.normal_form import to_basic_block_normal_form

    return to_basic_block_normal_form(expr) is expr


# -- counting --------------------------------------------------------------------------------------------------------


def get_total_mac_number(expr: RelayExpr) -> int:
    """Return the number of multiply-accumulate operations in convolutions and matmuls.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    int
        The number of multiply-accumulate operations.
    """
    if getattr(expr, "checked_type_", None) is None:
        expr = infer_type(expr)
    return macs(expr)


def count_layers(expr: RelayExpr | IRModule, valid_ops: list[str]) -> int:
    """Return the largest number of the given operators on any path through the graph.

    Parameters
    ----------
    expr : RelayExpr or IRModule
        The expression, or a module, of which the function ``main`` is counted.
    valid_ops : list[str]
        The names of the operators to count.

    Returns
    -------
    int
        The number of operators on that path.
    """
    if isinstance(expr, IRModule):
        expr = expr["main"]
    depth: dict[int, int] = {}
    for node in post_order(expr):
        below = max([depth[id(c)] for c in node.children()], default=0)
        counted = type(node) is Call and isinstance(node.op, Op) and node.op.name in valid_ops
        depth[id(node)] = below + counted
    return depth[id(expr)]


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return the number of calls of each operator in the module.

    Parameters
    ----------
    mod : IRModule
        The module.

    Returns
    -------
    dict[str, int]
        The number of calls by operator name.
    """
    counts: dict[str, int] = {}
    for function in mod.functions.values():
        if isinstance(function, Function):
            for node in post_order(function):
                if type(node) is Call and isinstance(node.op, Op):
                    counts[node.op.name] = counts.get(node.op.name, 0) + 1
    return counts


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return the number of calls of each operator between a dequantize and a quantize.

    Parameters
    ----------
    mod : IRModule
        The module.

    Returns
    -------
    dict[str, int]
        The number of calls by operator name.
    """
    counts: dict[str, int] = {}
    for function in mod.functions.values():
        if not isinstance(function, Function):
            continue
        inside: set[int] = set()
        for node in reversed(list(post_order(function))):
            if type(node) is not Call or not isinstance(node.op, Op):
                continue
            start = node.op.name == "qnn.quantize"
            if (start or id(node) in inside) and node.op.name != "qnn.dequantize":
                if not start:
                    counts[node.op.name] = counts.get(node.op.name, 0) + 1
                inside.update(id(a) for a in node.args)
    return counts


def extract_fused_functions(mod: IRModule) -> dict[str, Function]:
    """Return the fused functions of @main by structural hash.

    Parameters
    ----------
    mod : IRModule
        The module.

    Returns
    -------
    dict[str, Function]
        The fused functions by structural hash.
    """
    from ...ir.transform import Sequential
    from ..transform import FuseOps, InferType, SimplifyInference

    fused = Sequential([InferType(), SimplifyInference(), FuseOps(1)])(mod)
    found = {}
    for node in post_order(fused["main"]):
        if type(node) is Function and node.attrs.get("Primitive"):
            found[structural_key(node)] = node
    return found


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """Return a module whose @main computes one expression of this module's @main.

    Calls, tuples and tuple fields are numbered from 0 in execution order.

    Parameters
    ----------
    mod : IRModule
        The module.
    expr_id : int
        The number of the expression to compute.

    Returns
    -------
    IRModule
        The module that computes the expression.

    Raises
    ------
    ValueError
        The module has no expression of that number.
    """
    numbered = [n for n in post_order(mod["main"]) if isinstance(n, (Call, Tuple, TupleGetItem))]
    if not 0 <= expr_id < len(numbered):
        raise ValueError(
            f"extract_intermdeiate_expr: expression {expr_id} is out of range; @main has {len(numbered)} expressions"
        )
    chosen = numbered[expr_id]
    return IRModule.from_expr(Function(free_vars(chosen), chosen))


extract_intermediate_expr = extract_intermdeiate_expr


def search_fc_transpose(expr: RelayExpr) -> list[str]:
    """Return the names of the weights that are transposed directly before a dense layer.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    list[str]
        The names of the weights.
    """
    out = []
    for node in post_order(expr):
        if type(node) is Call and isinstance(node.op, Op) and node.op.name == "nn.dense":
            weight = node.args[1]
            if (
                type(weight) is Call
                and isinstance(weight.op, Op)
                and weight.op.name == "transpose"
                and isinstance(weight.args[0], Var)
            ):
                out.append(weight.args[0].name_hint)
    return out


def get_calibration_data(mod: IRModule, data: dict) -> dict[GlobalVar, dict[str, list]]:
    """Run a module and return the inputs and outputs of the functions that @main calls.

    Parameters
    ----------
    mod : IRModule
        The module.
    data : dict of str to array
        The inputs by name.

    Returns
    -------
    dict[GlobalVar, dict[str, list]]
        The lists ``inputs`` and ``outputs`` of each function, by its variable in ``mod``.
    """
    from ..interpreter import Interpreter, from_value, to_value

    class _Watching(Interpreter):
        found: dict[GlobalVar, dict[str, list]] = {}

        def apply(self, callee, args):
            result = yield from super().apply(callee, args)
            if isinstance(callee, GlobalVar):
                values = result if isinstance(result, tuple) else (result,)
                key = variables.get(callee.name_hint, callee)
                self.found[key] = {"inputs": [from_value(a) for a in args], "outputs": [from_value(v) for v in values]}
            return result

    from ..infer import infer_module

    variables = {v.name_hint: v for v in mod.get_global_vars()}
    mod = infer_module(mod)
    work = _Watching(mod)
    work.found = {}
    work.run(mod["main"], [to_value(data[p.name_hint]) for p in mod["main"].params])
    return work.found


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Return patterns of the values that no clause of a match covers.

    Parameters
    ----------
    match : Match
        The match.
    mod : IRModule, optional
        The module with the data types.

    Returns
    -------
    list[Pattern]
        The patterns, which are empty if the match is complete.

    Examples
    --------
    >>> v = relay.var("v")
    >>> [type(case).__name__ for case in relay.analysis.unmatched_cases(relay.Match(v, []))]
    ['PatternWildcard']
    """
    found: list[Pattern] = []
    cases: list[Pattern] = [PatternWildcard()]
    while cases:
        case = cases.pop()
        for clause in match.clauses:
            takes = _takes(clause.lhs, case)
            if takes is None:
                # Split the case if the clause covers only some of its values.
                cases.extend(reversed(_split(clause.lhs, case, mod)))
            if takes is not False:
                break
        else:
            found.append(case)
    return found


def _parts(p: Pattern) -> tuple[Pattern, ...] | None:
    return p.patterns if isinstance(p, (PatternConstructor, PatternTuple)) else None


def _takes(pattern: Pattern, case: Pattern) -> bool | None:
    """Return whether a pattern covers all values of a case (True), none (False) or some (None)."""
    parts, inner = _parts(pattern), _parts(case)
    if parts is None:
        return True
    if inner is None:
        return None
    if isinstance(pattern, PatternConstructor) and pattern.constructor is not case.constructor:
        return False
    got = [_takes(p, c) for p, c in zip(parts, inner)]
    return False if False in got else None if None in got else True


def _split(pattern: Pattern, case: Pattern, mod: IRModule | None) -> list[Pattern]:
    """Split a case into cases with a constructor where the pattern has one and the case has a wildcard."""
    parts, inner = _parts(pattern), _parts(case)
    if inner is None and isinstance(pattern, PatternTuple):
        return [PatternTuple((PatternWildcard(),) * len(pattern.patterns))]
    if inner is None:
        known = mod.type_definitions.get(pattern.constructor.belong_to) if mod is not None else None
        if known is None:
            raise DiagnosticError(f"unmatched_cases: the data type of {pattern.constructor.name_hint} is unknown; pass "
                                  "the module that defines it")  # fmt: skip
        return [PatternConstructor(c, (PatternWildcard(),) * len(c.inputs)) for c in known.constructors]
    at = next(i for i, (p, c) in enumerate(zip(parts, inner)) if _takes(p, c) is None)
    return [case.replace(patterns=(*inner[:at], c, *inner[at + 1 :])) for c in _split(parts[at], inner[at], mod)]


__all__ = [
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "extract_intermediate_expr",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "unmatched_cases",
    "well_formed",
]


def __getattr__(name: str):
    return _name_of(__name__, name)
