"""Operator fusion: partition a graph into groups of operators, each compiled to one kernel.

A node can be merged with its immediate post-dominator, the first node on all paths from it to the output, if the fusion
patterns of the nodes on these paths permit it. Convolutions and matmuls fuse the following element-wise operators as
their epilogue, chains of injective operators are fused, and a reduction ends a group.

Row-wise operators (softmax, layer normalization) fuse following element-wise operators. On targets whose kernels keep
rows in registers they also fuse a prologue of element-wise operators, and reshapes that keep the rows. Each group
becomes a function with the attribute ``Primitive``.

If the matmuls of a target read operands through layout-changing ops (``moves_only`` in the operator record), a chain of
these ops without other users is merged into the matmul. The producer of the chain is not merged, because each load
would recompute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...dtype import info
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim import Any_, IntImm
from ...ir.prim import Var as PrimVar
from ...ir.transform import PassContext
from ...ir.visit import post_order, rewrite
from ...target import Target
from ...topi.utils import same_dim
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import dims
from ..op.record import (
    BROADCAST,
    COMM_REDUCE,
    ELEMWISE,
    INJECTIVE,
    OPAQUE,
    OUT_ELEMWISE_FUSABLE,
    ROWS,
    TUPLE,
    call_pattern,
)
from ..symbolic import flatten_type
from .function_pass import RelayFunctionPass, function_pass, is_call, only_changes_layout, target_of_pass

STOP = "annotation.stop_fusion"
# The maximum number of nodes in a row-wise kernel, since each node computes on rows held in registers.
MAX_ROWWISE_NODES = 18
# (matmul, operand index, layout-changing ops in order) -> whether the kernel reads the operand through these ops.
OperandRule = Callable[[Call, int, Sequence[Call]], bool]


class _Group:
    """A group of nodes as a union-find tree; the root stores the properties of the group."""

    __slots__ = ("parent", "pattern", "root_node", "size", "anchor", "keeps_rows", "members", "inputs")

    def __init__(self, node, pattern: int):
        self.parent: _Group | None = None
        self.pattern = pattern
        self.root_node = node
        self.size = 1
        self.anchor = node if pattern in (OUT_ELEMWISE_FUSABLE, ROWS) else None
        self.keeps_rows = pattern <= BROADCAST or pattern == ROWS
        # Ids of the member expressions and of their inputs. Scalars are not inputs: they are inlined into kernels.
        self.members = {id(node.expr)}
        self.inputs = {id(c) for c in node.expr.children() if not isinstance(c, Op) and not _is_scalar(c)}

    def root(self) -> _Group:
        top = self
        while top.parent is not None:
            top = top.parent
        group = self
        while group.parent is not None:
            group.parent, group = top, group.parent
        return top


class _Node:
    __slots__ = ("expr", "index", "pattern", "users", "group", "dominator", "dominator_pattern", "depth", "span", "way")

    def __init__(self, expr: RelayExpr, index: int, pattern: int):
        self.expr = expr
        self.index = index
        self.pattern = pattern
        self.users: list[tuple[_Node, int]] = []
        self.group = _Group(self, pattern)
        self.dominator: _Node | None = None
        self.dominator_pattern = OPAQUE
        self.depth = 0
        # The minimum number of nodes from this node to its dominator (``span``) and to the last dominator (``way``).
        self.span = self.way = 1


def own_nodes(body: RelayExpr) -> list[RelayExpr]:
    """Return the expressions of a function body, operands first, without the bodies of inner functions."""
    return list(post_order(body, operands=_own_operands))


def _own_operands(e: RelayExpr) -> list[RelayExpr]:
    return [] if isinstance(e, Function) else [c for c in e.children() if not isinstance(c, Op)]


def _is_scalar(e: RelayExpr) -> bool:
    return isinstance(e, Constant) and e.data.shape == ()


def is_reshape(e: RelayExpr) -> bool:
    """Return whether an operator only changes the shape."""
    return isinstance(e, Call) and isinstance(e.op, Op) and bool(e.op.attrs.get("reshape_only"))


def _has_rows_of(e: RelayExpr, other: RelayExpr) -> bool:
    """Return whether the last dimensions of two values are equal for all values of their dynamic dimensions."""
    a, b = e.checked_type_.shape, other.checked_type_.shape
    return bool(a and b) and not isinstance(a[-1], Any_) and same_dim(a[-1], b[-1])


def _has_sizes_of(arg: RelayExpr, e: Call) -> bool:
    """Return whether an argument of a broadcast has the shape of the output.

    A dimension of type ``Any`` may be 1 at run time. All other arguments must then have size 1 in this dimension."""
    if arg.checked_type_ != e.checked_type_:
        return False
    shape = e.checked_type_.shape
    unknown = [i - len(shape) for i, d in enumerate(shape) if isinstance(d, Any_)]
    others = [a.checked_type_.shape for a in e.args if a is not arg] if unknown else []
    return all(-axis > len(other) or same_dim(other[axis], 1) for other in others for axis in unknown)


def _works_along_rows(e: Call) -> bool:
    """Return whether a row-wise operator works along the last axis and has no data-dependent dimension."""
    shape, axis = dims(e.checked_type_), e.attrs.axis
    axes = (axis,) if isinstance(axis, int) else tuple(axis or ())
    return [a % len(shape) for a in axes] == [len(shape) - 1] and not any(isinstance(d, Any_) for d in shape)


class Limits(NamedTuple):
    """Limits of a kernel: the number of operators, and the number of arguments (tensors and dynamic dimensions). 0
    means no limit."""

    nodes: int = 256
    arguments: int = 0


class FusionRules(NamedTuple):
    """The fusion rules of a back end."""

    # Returns True if matmul kernels read an operand through its layout-changing ops.
    reads_through: OperandRule | None = None
    # Whether row-wise kernels fuse a prologue and reshapes, in addition to following element-wise operators.
    rowwise: bool = False
    # Overrides the fusion pattern (relay.op.OpPattern) of a call; None keeps the pattern of the operator.
    pattern: Callable[[Call], int | None] | None = None


class FusionGraph:
    """The nodes of a function with their users and immediate post-dominators."""

    def __init__(self, function: Function, rules: FusionRules = FusionRules()):
        self.rules = rules
        self.nodes: list[_Node] = []
        self.by_expr: dict[int, _Node] = {}
        opaque_uses: set[int] = {id(function.body)}
        for e in own_nodes(function.body):
            node = _Node(e, len(self.nodes), self._pattern(e))
            if is_reshape(e):
                node.group.keeps_rows = _has_rows_of(e.args[0], e)
            self.nodes.append(node)
            self.by_expr[id(e)] = node
            self._link(node, opaque_uses)
        for key in opaque_uses:
            if key in self.by_expr:
                # The value leaves the graph, so it has no post-dominator.
                self.by_expr[key].users.append((_OUTSIDE, OPAQUE))
        self._dominators()

    def _pattern(self, e: RelayExpr) -> int:
        if isinstance(e, Call) and isinstance(e.op, Op):
            override = self.rules.pattern(e) if self.rules.pattern is not None else None
            pattern = call_pattern(e) if override is None else override
            if pattern != ROWS:
                return pattern
            if not _works_along_rows(e):
                return OPAQUE
            return ROWS if self.rules.rowwise else OUT_ELEMWISE_FUSABLE
        if isinstance(e, Tuple):
            return TUPLE
        if isinstance(e, TupleGetItem):
            return INJECTIVE
        return ELEMWISE if _is_scalar(e) else OPAQUE

    def _link(self, node: _Node, opaque_uses: set[int]) -> None:
        e = node.expr
        if isinstance(e, Call) and isinstance(e.op, Op):
            for arg in e.args:
                pattern = node.pattern
                if pattern == BROADCAST and _has_sizes_of(arg, e):
                    pattern = ELEMWISE
                elif pattern == ROWS and arg is not e.args[0]:
                    # The scale and shift operands are shared by all rows.
                    pattern = OPAQUE
                self._use(arg, node, pattern)
        elif isinstance(e, Tuple):
            for field in e.fields:
                self._use(field, node, INJECTIVE if field.checked_type_ is not None else OPAQUE)
        elif isinstance(e, TupleGetItem):
            self._use(e.tuple_value, node, INJECTIVE)
        else:
            for child in e.children():
                opaque_uses.add(id(child))
                self._use(child, node, OPAQUE)

    def _use(self, e: RelayExpr, user: _Node, pattern: int) -> None:
        node = self.by_expr.get(id(e))
        if node is not None:
            node.users.append((user, pattern))

    def _dominators(self) -> None:
        for node in reversed(self.nodes):
            found: _Node | None = None
            pattern = ELEMWISE
            for i, (user, edge) in enumerate(node.users):
                pattern = max(pattern, edge)
                if user is _OUTSIDE:
                    found, pattern = None, OPAQUE
                    break
                if i == 0:
                    found = user
                elif found is not None:
                    found, along = _common(found, user)
                    pattern = max(pattern, along)
                if found is None:
                    break
            node.dominator = found
            node.dominator_pattern = pattern
            node.depth = 0 if found is None else found.depth + 1
            if found is not None:
                node.span = 1 + max(user.way - found.way for user, _ in node.users)
                node.way = node.span + found.way


def _common(a: _Node, b: _Node) -> tuple[_Node | None, int]:
    """Return the nearest common post-dominator of two nodes, and the highest fusion pattern on the paths to it."""
    pattern = ELEMWISE
    while a is not b:
        if a.depth == b.depth == 0:
            return None, OPAQUE
        if a.depth >= b.depth:
            pattern = max(pattern, a.dominator_pattern)
            a = a.dominator
        else:
            pattern = max(pattern, b.dominator_pattern)
            b = b.dominator
        if a is None or b is None:
            return None, OPAQUE
    return a, pattern


_OUTSIDE = _Node(Tuple(()), -1, OPAQUE)


def widens_for_rows(node: _Node) -> bool:
    """Return whether a widening cast is fused into the prologue of a row-wise operator.

    The tensor stored in memory then keeps the narrow type."""
    e = node.expr
    if not is_call(e, "cast") or info(e.attrs.dtype).bits <= info(e.args[0].checked_type_.dtype).bits:
        return False
    while len(node.users) == 1:
        node = node.users[0][0]
        if node.pattern == ROWS or not (is_reshape(node.expr) and node.group.keeps_rows):
            return node.pattern == ROWS
    return False


def widens_for_another(node: _Node) -> bool:
    """Return whether a widening cast of an int8 or uint8 tensor is fused into the kernel of a later operator.

    This kernel is a reduction, a layout-changing op before a cast back to int8 or uint8, or the epilogue of another
    anchor. The tensor stored in memory stays 8 bits wide."""
    e = node.expr
    if not is_call(e, "cast") or info(e.attrs.dtype).bits <= 8:
        return False
    if e.args[0].checked_type_.dtype not in ("int8", "uint8"):
        return False
    is_moved = False
    while len(node.users) == 1:
        node = node.users[0][0]
        if node.pattern == COMM_REDUCE:
            return True
        if node.pattern > INJECTIVE:
            return False
        if is_call(node.expr, "cast") and info(node.expr.attrs.dtype).bits <= 8:
            return is_moved
        if node.group.root().anchor is not None:
            return not is_moved
        is_moved = is_moved or node.pattern == INJECTIVE
    return False


class Fusion:
    """Merges groups in three phases: anchors and element-wise operators, then injective operators, then tuples."""

    def __init__(self, graph: FusionGraph, limits: Limits, reads_through: OperandRule | None = None):
        self.graph = graph
        self.limits = limits
        self.reads_through = reads_through
        # Layout-changing ops on the operands of matmuls.
        self.moving: set[_Node] = set()

    def run(self) -> None:
        if self.reads_through is not None:
            for node in self.graph.nodes:
                if node.pattern == OUT_ELEMWISE_FUSABLE:
                    self.operands(node, self.reads_through)
        for phase in range(3):
            for node in self.graph.nodes:
                self.visit(node, phase)

    def operands(self, node: _Node, reads_through: OperandRule) -> None:
        """Merge the layout-changing ops on the operands of a matmul into its group, as far as it reads through them."""
        for index, arg in enumerate(node.expr.args):
            chain: list[_Node] = []
            while self.moves_for_one(arg):
                chain.insert(0, self.graph.by_expr[id(arg)])
                arg = arg.args[0]
            while chain and not reads_through(node.expr, index, [n.expr for n in chain]):
                del chain[0]
            for moving_op in chain:
                self.merge(moving_op.group, node.group)
            self.moving.update(chain)

    def moves_for_one(self, e: RelayExpr) -> bool:
        """Return whether an expression is a layout-changing op with one user."""
        return only_changes_layout(e) and len(self.graph.by_expr[id(e)].users) == 1

    def visit(self, node: _Node, phase: int) -> None:
        group = node.group.root()
        sink = node.dominator
        if node.group.pattern == OPAQUE or group.pattern == OPAQUE or sink is None or sink in self.moving:
            return
        target = sink.group.root()
        if phase == 2:
            if group.pattern <= INJECTIVE and target.pattern <= INJECTIVE and sink.group.pattern == TUPLE:
                self.try_merge(node, sink, lambda kind, last: kind <= INJECTIVE or kind == TUPLE)
            return
        if target is group or sink.group.pattern == TUPLE:
            return
        pattern = group.pattern
        if pattern == OUT_ELEMWISE_FUSABLE:
            if (
                phase == 0
                and node.dominator_pattern == ELEMWISE
                and not (widens_for_rows(sink) or widens_for_another(sink))
            ):
                self.try_merge(node, sink, lambda kind, last: kind <= BROADCAST)
        elif pattern == ROWS:
            if phase == 0 and target.keeps_rows and (node.dominator_pattern == ELEMWISE or is_reshape(sink.expr)):
                self.try_merge(node, sink, lambda kind, last: kind <= (INJECTIVE if last else BROADCAST))
        elif pattern <= BROADCAST:
            if node.dominator_pattern <= INJECTIVE or node.dominator_pattern in (COMM_REDUCE, ROWS):
                self.try_merge(node, sink, _broadcast_path)
        elif pattern in (INJECTIVE, TUPLE) and phase == 1:
            into_rows = group.keeps_rows and node.dominator_pattern != OPAQUE
            self.try_merge(node, sink, lambda kind, last: kind <= INJECTIVE or last and into_rows and kind == ROWS)

    def try_merge(self, node: _Node, sink: _Node, allowed) -> None:
        between = self.path(node, sink, allowed) if node.span < self.limits.nodes else None
        if between is None:
            return
        groups = {n.group.root() for n in between}
        target = sink.group.root()
        groups.add(target)
        most = self.limits.nodes
        if any(g.pattern == ROWS for g in groups):
            most = min(most, MAX_ROWWISE_NODES)
        if sum(g.size for g in groups) > most or sum(g.anchor is not None for g in groups) > 1:
            return
        if self.limits.arguments and self.arguments(groups, sink) > self.limits.arguments:
            return
        for g in groups:
            if g is not target:
                self.merge(g, target)

    def arguments(self, groups: set[_Group], sink: _Node) -> int:
        """Return the number of arguments of a merged kernel: its input and output tensors and their dynamic
        dimensions."""
        read = set().union(*[g.inputs for g in groups]) - set().union(*[g.members for g in groups])
        types = [self.graph.by_expr[key].expr.checked_type_ for key in read]
        types.append(sink.group.root().root_node.expr.checked_type_)
        tensors = [t for type_ in types for t in flatten_type(type_)]
        unknown = [d for t in tensors for d in t.shape if not isinstance(d, IntImm)]
        # An anonymous dynamic dimension is an argument of each tensor; a symbolic dimension is passed once.
        own = [d for d in unknown if not isinstance(d, PrimVar)]
        return len(tensors) + len(own) + len({d for d in unknown if isinstance(d, PrimVar)})

    def path(self, node: _Node, sink: _Node, allowed) -> list[_Node] | None:
        """Return the nodes on all paths from ``node`` to ``sink``, without ``sink``.

        None if a node is not allowed or if there are too many nodes."""
        seen = {node.index: node}
        stack = [node]
        while stack:
            if len(seen) >= self.limits.nodes:
                return None
            for user, _ in stack.pop().users:
                if user is _OUTSIDE:
                    return None
                if user is sink:
                    if not allowed(sink.group.root().pattern, True):
                        return None
                    continue
                if user.index in seen:
                    continue
                if not allowed(user.group.root().pattern, False):
                    return None
                seen[user.index] = user
                stack.append(user)
        return list(seen.values())

    def merge(self, child: _Group, parent: _Group) -> None:
        child.parent = parent
        parent.size += child.size
        parent.members |= child.members
        parent.inputs |= child.inputs
        parent.anchor = parent.anchor or child.anchor
        parent.keeps_rows = parent.keeps_rows and child.keeps_rows
        if child.pattern > parent.pattern and child.pattern != TUPLE:
            parent.pattern = child.pattern


def _broadcast_path(kind: int, last: bool) -> bool:
    if not last:
        return kind <= INJECTIVE
    return kind <= INJECTIVE or kind in (COMM_REDUCE, OUT_ELEMWISE_FUSABLE, ROWS)


class _Rebuild:
    """Converts groups to functions. Nodes are visited operands first, so that every operand is available."""

    def __init__(self, graph: FusionGraph, link_params: bool = False):
        self.graph = graph
        self.link_params = link_params
        self.outer: dict[int, RelayExpr] = {}
        self.inner: dict[int, RelayExpr] = {}
        self.params: dict[int, dict[int, tuple[Var, RelayExpr]]] = {}

    def run(self, function: Function) -> Function:
        for node in self.graph.nodes:
            self.node(node)
        return function.replace(body=self.outer[id(function.body)])

    def node(self, node: _Node) -> None:
        e = node.expr
        if isinstance(e, (Var, Constant, Function)):
            self.outer[id(e)] = e
            return
        if is_call(e, STOP):
            self.outer[id(e)] = self.outer[id(e.args[0])]
            return
        if not (isinstance(e, Call) and isinstance(e.op, Op) or self._is_inside(node)):
            self.outer[id(e)] = e.map_children(lambda c: self.outer.get(id(c), c))
            return
        group = node.group.root()
        new = e.map_children(lambda c: self.operand(c, group))
        self.inner[id(e)] = new
        if group.root_node is node:
            self.outer[id(e)] = self.close(group, new, e)

    def _is_inside(self, node: _Node) -> bool:
        """Return whether a tuple or tuple access is part of the function of its group.

        A field of a tuple that is computed outside the group becomes a parameter itself, so that the function does not
        take the whole tuple."""
        e, group = node.expr, node.group.root()
        if isinstance(e, TupleGetItem) and self.graph.by_expr[id(e.tuple_value)].group.root() is not group:
            return False
        return isinstance(e, (Tuple, TupleGetItem)) and group.size > 1 and group.pattern != TUPLE

    def operand(self, child: RelayExpr, group: _Group) -> RelayExpr:
        if isinstance(child, Op) or _is_scalar(child) or self.link_params and isinstance(child, Constant):
            return child
        node = self.graph.by_expr[id(child)]
        if id(child) in self.inner and node.group.root() is group:
            return self.inner[id(child)]
        params = self.params.setdefault(id(group), {})
        got = params.get(id(child))
        if got is None:
            got = params[id(child)] = (Var(f"p{len(params)}", child.checked_type_), self.outer[id(child)])
        return got[0]

    def close(self, group: _Group, body: RelayExpr, e: RelayExpr) -> RelayExpr:
        params = list(self.params.get(id(group), {}).values())
        made = Function([p for p, _ in params], body, e.checked_type_, (), {"Primitive": 1})
        main = e if group.anchor is None else group.anchor.expr
        return Call(made, tuple(a for _, a in params), None, (), main.span or e.span)


def fuse_function(
    function: Function,
    level: int,
    rules: FusionRules = FusionRules(),
    limits: Limits | None = None,
    link_params: bool = False,
) -> Function:
    graph = FusionGraph(function, rules)
    if level > 0:
        Fusion(graph, limits or Limits(), rules.reads_through).run()
    return _Rebuild(graph, link_params).run(function)


def FuseOps(
    fuse_opt_level: int = -1, rules: FusionRules = FusionRules(), target: Target | None = None
) -> RelayFunctionPass:
    """Fuse operators into kernels with the rules of a back end; level 0 fuses nothing.

    The target limits the number of kernel arguments.

    Parameters
    ----------
    fuse_opt_level : int, optional
        The fusion level; -1 derives it from the optimization level of the pass context.
    rules : FusionRules, optional
        The fusion rules of the back end.
    target : Target, optional
        The target; None selects the current target.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> mod = tvm.IRModule.from_expr(relay.exp(relay.sqrt(relay.var("x", shape=(2,)))))
    >>> fused = relay.transform.FuseOps(fuse_opt_level=2)(relay.transform.InferType()(mod))
    >>> fused["main"].body.op.attrs["Primitive"]
    1
    """

    @function_pass(opt_level=0, name="FuseOps", required=["InferType"])
    def fuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        level = fuse_opt_level if fuse_opt_level >= 0 else (1 if ctx.opt_level >= 1 else 0)
        if func.attrs.get("Primitive"):
            return func
        device = target_of_pass(target)
        limits = Limits(ctx.get_config("relay.FuseOps.max_depth"), device.max_function_args if device else 0)
        return fuse_function(func, level, rules, limits, ctx.get_config("relay.FuseOps.link_params"))

    return fuse


def constants_outside(function: Function) -> Function:
    """Move constants out of the kernels of a function (see ``link_params``) and pass them as arguments.

    Executors of kernels store constants themselves. Scalars stay in the kernels."""

    def post(node):
        if not (isinstance(node, Call) and isinstance(node.op, Function) and node.op.attrs.get("Primitive")):
            return None
        found = [n for n in post_order(node.op.body) if isinstance(n, Constant) and not _is_scalar(n)]
        if not found:
            return None
        table = {id(c): Var(f"p{len(node.op.params) + i}", c.checked_type_) for i, c in enumerate(found)}
        body = rewrite(node.op.body, lambda n: table.get(id(n)) if isinstance(n, Constant) else None)
        made = node.op.replace(params=(*node.op.params, *table.values()), body=body)
        return Call(made, (*node.args, *found), None, (), node.span)

    return rewrite(function, post)


def defuse_function(function: Function) -> Function:
    """Replace calls of fused functions by their bodies."""
    from ..substitute import substitute_vars

    def post(node):
        if isinstance(node, Call) and isinstance(node.op, Function) and node.op.attrs.get("Primitive"):
            return substitute_vars(node.op.body, dict(zip(node.op.params, node.args)))
        return None

    return rewrite(function, post)


def DefuseOps() -> RelayFunctionPass:
    """Undo the fusion of operators."""

    @function_pass(opt_level=0, name="DefuseOps", required=["InferType"])
    def defuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return defuse_function(func)

    return defuse


__all__ = ["DefuseOps", "FuseOps", "FusionRules", "Limits", "constants_outside", "defuse_function", "fuse_function"]
