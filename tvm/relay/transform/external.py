"""Partition a graph for external compilers: merge composite patterns, merge regions and partition.

An annotated region is enclosed by ``annotation.compiler_begin`` at its inputs and ``annotation.compiler_end`` at its
outputs. PartitionGraph moves regions into functions of the module with the attribute ``Compiler``."""

from __future__ import annotations

import re
from typing import Any

from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.type import TupleType
from ...ir.visit import post_order, rewrite
from ...runtime.registry import get_global_func
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import infer_function, infer_module
from .annotate_target import BEGIN, DEFAULT, END
from .function_pass import RelayFunctionPass, function_pass, is_call, typed_module


def MergeComposite(pattern_table) -> RelayFunctionPass:
    """Move subgraphs that match a pattern into functions with the attribute ``Composite``.

    Patterns are tried in the given order.

    Parameters
    ----------
    pattern_table : list of tuples
        The patterns as tuples ``(name, pattern[, check])``.

    Returns
    -------
    RelayFunctionPass
    """
    rows = [(row[0], row[1], row[2] if len(row) > 2 else lambda e: True) for row in pattern_table]

    @function_pass(opt_level=0, name="MergeComposite", required=["InferType"])
    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        for name, pattern, check in rows:
            body = pattern.partition(func.body, {"Composite": name}, check)
            if body is not func.body:
                func = infer_function(Function(func.params, body, None, func.type_params, func.attrs, func.span), mod)
        return func

    return merge


class Regions:
    """The annotated regions of a function. Two nodes are in one region if an edge without annotation, or a merged edge,
    connects them."""

    def __init__(self, func: Function):
        self.parent: dict[int, int] = {}
        self.compiler: dict[int, str] = {}
        self.nodes = _own(func.body)
        for node in self.nodes:
            if is_call(node, END):
                self.join(id(node), id(node.args[0]), node.attrs.compiler)
            elif is_call(node, BEGIN):
                self.parent.setdefault(id(node), id(node))
                self.compiler[id(node)] = node.attrs.compiler
        # Users are visited before operands: regions grow from their ends to their begins.
        for node in reversed(self.nodes):
            if id(node) in self.parent and not is_call(node, BEGIN):
                for child in node.children():
                    outside = is_call(child, END) and not is_call(node, END)
                    if not isinstance(child, (Op, Function)) and not outside:
                        self.join(id(node), id(child), self.compiler.get(self.root(id(node)), ""))

    def root(self, key: int) -> int:
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def join(self, a: int, b: int, compiler: str) -> None:
        self.parent.setdefault(a, a)
        self.parent.setdefault(b, b)
        x, y = self.root(a), self.root(b)
        self.parent[y] = x
        self.compiler[x] = compiler

    def of(self, node: RelayExpr) -> int | None:
        return self.root(id(node)) if id(node) in self.parent else None


def _own(body: RelayExpr) -> list[RelayExpr]:
    """Return the expressions outside inner functions, operands first."""
    return list(post_order(body, operands=lambda e: [c for c in e.children() if not isinstance(c, (Op, Function))]))


class _Units:
    """The regions of a function, and its expressions outside regions, as the nodes of a graph of dependences in which
    regions are merged."""

    def __init__(self, regions: Regions):
        self.group: dict[int, int] = {}
        self.needs: dict[int, set[int]] = {}
        # The positions of the first and the last expression of a unit.
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for position, node in enumerate(regions.nodes):
            unit = self.unit(regions, node)
            self.first.setdefault(unit, position)
            self.last[unit] = position
            needs = self.needs.setdefault(unit, set())
            needs.update(self.unit(regions, c) for c in node.children() if not isinstance(c, (Op, Function)))
            needs.discard(unit)

    @staticmethod
    def unit(regions: Regions, node: RelayExpr) -> int:
        region = regions.of(node)
        return id(node) if region is None else region

    def top(self, unit: int) -> int:
        while self.group.get(unit, unit) != unit:
            unit = self.group[unit]
        return unit

    def depends_indirectly(self, b: int, a: int) -> bool:
        """Return whether a path through other units leads from ``a`` to ``b``; merging both would close a circle."""
        seen: set[int] = {a, b}
        stack = [self.top(u) for u in self.needs[b]]
        while stack:
            unit = stack.pop()
            if unit in seen or self.last[unit] < self.first[a]:
                continue
            seen.add(unit)
            above = {self.top(u) for u in self.needs[unit]}
            if a in above:
                return True
            stack.extend(above)
        return False

    def merge(self, a: int, b: int) -> None:
        self.group[a] = b
        self.needs[b] = {u for u in self.needs[a] | self.needs[b] if self.top(u) != b}
        self.first[b] = min(self.first[a], self.first[b])
        self.last[b] = max(self.last[a], self.last[b])


def merge_regions(func: Function) -> Function:
    """Merge neighbouring regions of one compiler unless a path leaves the merged region and returns to it."""
    regions = Regions(func)
    units = _Units(regions)
    borders = [
        n
        for n in regions.nodes
        if is_call(n, BEGIN) and is_call(n.args[0], END) and n.attrs.compiler == n.args[0].attrs.compiler
    ]

    def ends(node: Call) -> tuple[int, int]:
        return units.top(units.unit(regions, node.args[0])), units.top(units.unit(regions, node))

    # Default regions are merged last, so that they do not separate parts of an external region. Merging two regions may
    # remove the path that separated two others.
    for wanted in (False, True):
        left, changed = [n for n in borders if (n.attrs.compiler == DEFAULT) is wanted], True
        while changed:
            changed = False
            for node in left:
                a, b = ends(node)
                if a != b and not units.depends_indirectly(b, a):
                    units.merge(a, b)
                    changed = True
    merged = {id(node) for node in borders if len(set(ends(node))) == 1}
    if not merged:
        return func
    memo: dict[int, Any] = {}

    def lookup(c):
        return memo.get(id(c), c)

    for node in regions.nodes:
        memo[id(node)] = lookup(node.args[0].args[0]) if id(node) in merged else node.map_children(lookup)
    return Function(func.params, memo[id(func.body)], func.ret_type, func.type_params, func.attrs, func.span)


def MergeCompilerRegions() -> RelayFunctionPass:
    """Merge neighbouring regions of the same compiler."""

    @function_pass(opt_level=0, name="MergeCompilerRegions", required=["InferType"])
    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return infer_function(merge_regions(func), mod)

    return merge


class _Partition:
    """Moves the regions of one function into functions of the module."""

    def __init__(self, func: Function, symbol: str, prefix: str, bind_constants: bool, taken: set[str]):
        self.func, self.symbol, self.prefix, self.bind, self.taken = func, symbol, prefix, bind_constants, taken
        self.regions = Regions(func)
        self.outer: dict[int, RelayExpr] = {}
        self.inner: dict[int, RelayExpr] = {}
        self.params: dict[int, dict[int, tuple[Var, RelayExpr]]] = {}
        self.ends: dict[int, list[Call]] = {}
        # The number of a region is the index of its first input among the inputs of all regions.
        self.numbers: dict[int, int] = {}
        begins = [n for n in self.regions.nodes if is_call(n, BEGIN)]
        for number, node in enumerate(begins):
            self.numbers.setdefault(self.regions.of(node), number)
        self.made: dict[int, tuple[GlobalVar, Function]] = {}
        self.calls: dict[int, Call] = {}

    def run(self) -> tuple[Function, dict[GlobalVar, Function]]:
        for node in self.regions.nodes:
            if is_call(node, END):
                ends = self.ends.setdefault(self.regions.of(node), [])
                # A value that leaves the region at several uses is one output.
                if all(e.args[0] is not node.args[0] for e in ends):
                    ends.append(node)
        for node in self.regions.nodes:
            self.node(node)
        body = self.outside(self.func.body)
        new = Function(self.func.params, body, self.func.ret_type, self.func.type_params, self.func.attrs)
        return new, dict(self.made.values())

    def node(self, node: RelayExpr) -> None:
        region = self.regions.of(node)
        if region is None:
            return
        if is_call(node, BEGIN):
            source = node.args[0]
            if self.bind and _is_constant(source):
                self.inner[id(node)] = source
                return
            known = self.params.setdefault(region, {})
            if id(source) not in known:
                name = f"{self.regions.compiler[region]}_{self.numbers[region]}_i{len(known)}"
                known[id(source)] = (Var(name, source.checked_type_), source)
            self.inner[id(node)] = known[id(source)][0]
        elif not is_call(node, END):
            self.inner[id(node)] = node.map_children(lambda c: self.inner.get(id(c), c))

    def outside(self, root: RelayExpr) -> RelayExpr:
        """Rebuild the expressions outside regions. A ``compiler_end`` becomes the call of its region, or one field of
        it."""

        def needs(e: RelayExpr) -> Any:
            if isinstance(e, (Op, Function)):
                return ()
            region = self.regions.of(e) if is_call(e, END) else None
            return e.children() if region is None else [s for _, s in self.params.get(region, {}).values()]

        for e in post_order(root, self.outer, needs):
            region = self.regions.of(e) if is_call(e, END) else None
            if isinstance(e, (Op, Function)):
                self.outer[id(e)] = e
            elif region is not None:
                self.outer[id(e)] = self.end(e, region)
            else:
                self.outer[id(e)] = e.map_children(lambda c: self.outer[id(c)])
        return self.outer[id(root)]

    def end(self, node: Call, region: int) -> RelayExpr:
        ends = self.ends[region]
        if region not in self.calls:
            self.close(region, ends)
        call = self.calls[region]
        if len(ends) == 1:
            return call
        first = 0
        for e in ends:
            count = _width(e)
            if e.args[0] is node.args[0]:
                parts = [TupleGetItem(call, first + i) for i in range(count)]
                return Tuple(parts) if isinstance(e.checked_type_, TupleType) else parts[0]
            first += count
        raise AssertionError("a compiler_end does not belong to its region")

    def close(self, region: int, ends: list[Call]) -> None:
        """Create the function of a region and its call. The function returns one value or a flat tuple."""
        params = list(self.params.get(region, {}).values())
        parts = [self.inner[id(e.args[0])] for e in ends]
        if len(parts) == 1:
            body = parts[0]
        else:
            flat = [[TupleGetItem(p, i) for i in range(_width(e))] if isinstance(e.checked_type_, TupleType) else [p]
                    for p, e in zip(parts, ends)]  # fmt: skip
            body = Tuple([p for fields in flat for p in fields])
        compiler = self.regions.compiler[region]
        name = self.name(compiler, region)
        attrs = {"Inline": 1, "Compiler": compiler, "global_symbol": name, "Primitive": 1}
        made = _optimized(Function([v for v, _ in params], body), compiler)
        self.made[region] = (GlobalVar(name), made.replace(attrs=attrs))
        self.calls[region] = Call(self.made[region][0], tuple(self.outer[id(s)] for _, s in params))

    def name(self, compiler: str, region: int) -> str:
        number = self.numbers.setdefault(region, len(self.numbers))
        start = re.sub("[^A-Za-z0-9_]", "_", f"{self.prefix}_{compiler}_{self.symbol}_")
        while f"{start}{number}" in self.taken:
            number += 1
        self.taken.add(f"{start}{number}")
        return f"{start}{number}"


def _is_constant(e: RelayExpr) -> bool:
    return isinstance(e, Constant) or isinstance(e, Tuple) and all(_is_constant(f) for f in e.fields)


def _width(e: RelayExpr) -> int:
    """Return the number of values of an expression: the fields of a tuple, else 1."""
    return len(e.checked_type_.fields) if isinstance(e.checked_type_, TupleType) else 1


def _optimized(function: Function, compiler: str) -> Function:
    """Apply the optimization that a compiler registered for its regions: ``relay.ext.<compiler>.optimize(mod) ->
    mod``."""
    own = get_global_func(f"relay.ext.{compiler}.optimize", allow_missing=True)
    return function if own is None else own(infer_module(IRModule.from_expr(function)))["main"]


def _unmarked(func: Function) -> Function:
    """Remove the annotations of the compiler ``default``."""

    def post(node: RelayExpr) -> RelayExpr | None:
        return node.args[0] if is_call(node, BEGIN, END) and node.attrs.compiler == DEFAULT else None

    return rewrite(func, post)


def PartitionGraph(mod_name: str = "default", bind_constants: bool = True) -> ModulePass:
    """Move annotated regions into functions of the module.

    Parameters
    ----------
    mod_name : str, optional
        The prefix of the function names.
    bind_constants : bool, optional
        Whether constants are moved into the functions instead of being passed as arguments.

    Returns
    -------
    ModulePass
    """

    def partition(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = typed_module(mod.map_functions(lambda _, f: _unmarked(f) if isinstance(f, Function) else f))
        new = mod.clone()
        taken: set[str] = set()
        for var, func in mod.functions.items():
            if isinstance(func, Function) and "Compiler" not in func.attrs:
                changed, made = _Partition(func, var.name_hint, f"tvmgen_{mod_name}", bind_constants, taken).run()
                if made:
                    new[var] = changed
                    for name, region in made.items():
                        new[name] = region
        return infer_module(new) if taken else mod

    return ModulePass(partition, PassInfo(0, "PartitionGraph", ["InferType"]))


__all__ = ["MergeCompilerRegions", "MergeComposite", "PartitionGraph"]
