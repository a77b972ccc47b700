"""HTML pages about compiled models, each in one file: a profile with its roofline, and the memory plan."""

from __future__ import annotations

from typing import Any

from ..drawing.graph import Edge, Node, draw_graph
from ..drawing.memory import memory_body, memory_of
from ..drawing.page import escape, page, table
from ..drawing.profile import profile_page as _profile_page


def profile_page(report: Any, lib: Any = None, machine: Any = None) -> str:
    """A page about a profile: a timeline of the calls, the distribution of time, the roofline, and a table of the
    calls.

    Parameters
    ----------
    report : tvm.runtime.profiling.Report
        The return value of ``profile`` of the debug executor.
    lib : GraphExecutorFactoryModule, optional
        The compiled model, which provides the operation counts of its kernels.
    machine : tvm.driver.tvmc.roofline.Machine, optional
        The peaks of the machine on which it ran. If the model is compiled for this machine, they are measured in about
        two seconds and stored.

    Returns
    -------
    str
        The page.
    """
    if lib is None:
        return _profile_page(report, None, machine)
    from ..relay.flop import of_function

    if machine is None:
        machine = _peaks(lib.target)
    return _profile_page(report, {kernel.name: of_function(kernel.function) for kernel in lib.kernels}, machine)


def _peaks(target: Any) -> Any:
    """Return the peaks of this machine, or None if the code is for another machine."""
    from ..driver.tvmc.roofline import machine
    from ..target import Target
    from ..target.backend import compiled_cpu

    found = compiled_cpu(target) if isinstance(target, Target) else None
    return machine(new=True) if found is not None and found.is_host else None


def memory_page(lib: Any) -> str:
    """A page about the memory plan of a compiled model: the offset and lifetime of each value.

    Parameters
    ----------
    lib : GraphExecutorFactoryModule or str
        The compiled model, or the JSON text of its graph.

    Returns
    -------
    str
        The page.
    """
    memory = memory_of(lib if isinstance(lib, str) else lib.get_graph_json())
    return page("Memory plan", f"<h1>Memory plan</h1>{memory_body(memory)}")


def partitions_page(mod: Any, target: str = "target") -> str:
    """A page about a partitioned model: a table of the partitions, and the graph of the calls between them.

    Parameters
    ----------
    mod : IRModule
        The module after PartitionGraph.
    target : str, optional
        The name of the target that compiles the rest.

    Returns
    -------
    str
        The page.
    """
    from ..relay.backend.external.summary import calls_of_main, counted, summarize

    summary = summarize(mod)
    operators = {p.symbol: counted(p.operators) for p in summary.partitions}
    calls, edges = calls_of_main(mod)
    nodes = [
        Node(key, f"{compiler}: {name}", operators[name].split(", "), "function") if compiler else Node(key, name)
        for key, name, compiler in calls
    ]
    picture = draw_graph("partitions", nodes, [Edge(*edge) for edge in edges]).svg(natural=True)
    rows = [[escape(cell) for cell in row] for row in summary.rows(target)]
    head = ("partition", "back end", "operators", "names")
    body = f'<h1>Partitions</h1>{table(head, rows)}<h2>Calls</h2><div class="scroll">{picture}</div>'
    return page("Partitions", body)


def write_page(path: str, text: str) -> None:
    """Write a page to a file.

    Parameters
    ----------
    path : str
        The file.
    text : str
        The page.
    """
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


__all__ = ["memory_page", "partitions_page", "profile_page", "write_page"]
