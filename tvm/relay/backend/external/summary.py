"""Which part of a partitioned model each code generator compiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....ir.module import GlobalVar, IRModule
from ....ir.op import Op
from ....ir.visit import post_order
from ...expr import Call, Function, RelayExpr


class PartitionInfo(NamedTuple):
    """A partition: its symbol, its code generator, and its operators in order."""

    symbol: str
    compiler: str
    operators: tuple[str, ...]


class Summary(NamedTuple):
    """The partitions of a module, and the operators that its target compiles."""

    partitions: list[PartitionInfo]
    left: tuple[str, ...]

    def rows(self, target: str) -> list[tuple[str, str, int, str]]:
        """Return table rows: the partition, its code generator, the number of its operators, and their names with
        counts."""
        rows = [(p.symbol, p.compiler, len(p.operators), counted(p.operators)) for p in self.partitions]
        return [*rows, ("(rest of the model)", target, len(self.left), counted(self.left))]

    def as_json(self) -> dict[str, Any]:
        """Return the summary for the metadata of a package."""
        parts = [{"name": p.symbol, "compiler": p.compiler, "operators": list(p.operators)} for p in self.partitions]
        return {"partitions": parts, "operators_left": list(self.left)}


def summarize(mod: IRModule) -> Summary:
    """Return the summary of a partitioned module.

    Parameters
    ----------
    mod : IRModule
        The module after PartitionGraph.

    Returns
    -------
    Summary
    """
    partitions: list[PartitionInfo] = []
    left: list[str] = []
    for var, function in mod.functions.items():
        if not isinstance(function, Function):
            continue
        if "Compiler" in function.attrs:
            partitions.append(PartitionInfo(var.name_hint, str(function.attrs["Compiler"]), operators_in(function)))
        else:
            left.extend(operators_in(function))
    return Summary(partitions, tuple(left))


def operators_in(function: RelayExpr) -> tuple[str, ...]:
    """Return the operators of a function in execution order, including those of its inner functions."""
    return tuple(n.op.name for n in post_order(function) if isinstance(n, Call) and isinstance(n.op, Op))


def counted(operators: Sequence[str]) -> str:
    """Return operators with their counts: "add 2, nn.relu"."""
    return ", ".join(name if count == 1 else f"{name} {count}" for name, count in sorted(Counter(operators).items()))


def calls_of_main(mod: IRModule) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Return the calls of ``main`` as a graph: for each call its key, its operator or symbol, and the code generator of
    a partition; and the edges between calls."""
    nodes: list[tuple[str, str, str]] = []
    edges: dict[tuple[str, str], None] = {}
    # For each expression the keys of the calls that compute it.
    sources: dict[int, tuple[str, ...]] = {}
    for e in post_order(mod["main"].body, operands=_operands):
        above = tuple(dict.fromkeys(key for c in _operands(e) for key in sources.get(id(c), ())))
        if not isinstance(e, Call):
            sources[id(e)] = above
            continue
        key = str(len(nodes))
        if isinstance(e.op, GlobalVar):
            function = mod[e.op]
            compiler = str(function.attrs.get("Compiler", "")) if isinstance(function, Function) else ""
            nodes.append((key, e.op.name_hint, compiler))
        else:
            nodes.append((key, getattr(e.op, "name", type(e.op).__name__), ""))
        edges.update(dict.fromkeys((start, key) for start in above))
        sources[id(e)] = (key,)
    return nodes, list(edges)


def _operands(e: RelayExpr) -> Sequence[Any]:
    return e.args if isinstance(e, Call) else () if isinstance(e, (Function, Op)) else e.children()


__all__ = ["PartitionInfo", "Summary", "calls_of_main", "counted", "operators_in", "summarize"]
