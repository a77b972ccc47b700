"""Drawing of graphs: in the terminal, with Graphviz, or as a self-contained page.

``RelayVisualizer(mod).render()`` prints a module; a plotter and a parser (``interface.py``) select another output.
``write_page`` shows modules before and after passes, and the kernels of a compiled model, side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import relay
from ...drawing.graph import draw_graph
from ...drawing.page import escape, page
from ...ir.visit import post_order
from .dot import DotPlotter, DotVizParser
from .interface import Plotter, VizNode, VizParser
from .kernels import kernel_graph
from .terminal import TermPlotter, TermVizParser
from .web import PagePlotter, PageVizParser, scrolled, write


class RelayVisualizer:
    """Draws the functions of a module, ``main`` first.

    Parameters
    ----------
    relay_mod : tvm.IRModule
        The module.
    relay_param : dict of str to NDArray, optional
        The parameters of the model.
    plotter : Plotter, optional
        Writes the graphs; by default they are printed.
    parser : VizParser, optional
        Converts expressions to nodes and edges; by default the parser for the terminal.
    """

    def __init__(
        self,
        relay_mod: Any,
        relay_param: Mapping[str, Any] | None = None,
        plotter: Plotter | None = None,
        parser: VizParser | None = None,
    ):
        self._plotter = plotter if plotter is not None else TermPlotter()
        parser = parser if parser is not None else TermVizParser()
        functions = {var.name_hint: function for var, function in relay_mod.functions.items()}
        ids: dict[Any, str] = {}
        for name in sorted(functions, key=lambda name: name != "main"):
            self._add(name, functions[name], parser, relay_param or {}, ids)

    def _add(self, name: str, function: Any, parser: VizParser, params: Mapping[str, Any], ids: dict[Any, str]) -> None:
        graph = self._plotter.create_graph(name)
        if not isinstance(function, relay.Function):
            graph.node(VizNode(ids.setdefault(function, str(len(ids))), type(function).__name__, ""))
            return
        parts = list(post_order(function, operands=parser.operands))
        for part in parts:
            ids.setdefault(part, str(len(ids)))
        for part in parts:
            node, edges = parser.get_node_edges(part, params, ids)
            if node is not None:
                graph.node(node)
            for edge in edges:
                graph.edge(edge)

    def render(self, filename: str | None = None) -> None:
        """Print or write the graphs with the plotter.

        Parameters
        ----------
        filename : str, optional
            The file; by default the plotter decides, and the terminal plotter prints.
        """
        self._plotter.render(filename)  # type: ignore[arg-type]


# Larger graphs are shown as text in notebooks; they need a separate page.
_MOST_BOXES = 1_000


def graphs_of(module: Any) -> str:
    """An HTML fragment with the functions of a module, for notebooks; empty if no function is a graph.

    Parameters
    ----------
    module : tvm.IRModule
        The module.

    Returns
    -------
    str
        HTML.
    """
    if not any(isinstance(function, relay.Function) for function in module.functions.values()):
        return ""
    plotter = PagePlotter()
    RelayVisualizer(module, None, plotter, PageVizParser())
    if plotter.boxes > _MOST_BOXES:
        return f"<p>The graph has {plotter.boxes} nodes; tvm.contrib.relay_viz.write_page draws it as a page.</p>"
    return plotter.section()


def page_text(
    modules: Any,
    relay_param: Mapping[str, Any] | None = None,
    lib: Any = None,
    profile: Any = None,
    weights: bool = False,
    title: str = "Graph",
) -> str:
    """The page that ``write_page`` writes.

    Parameters
    ----------
    modules : tvm.IRModule or dict of str to tvm.IRModule
        A module, or several by the titles of their columns.
    relay_param : dict of str to NDArray, optional
        The parameters of the model.
    lib : GraphExecutorFactoryModule or str, optional
        The return value of ``relay.build``: its kernels are an additional column.
    profile : tvm.runtime.profiling.Report, optional
        A report of the debug executor; kernels show their times and are coloured by time.
    weights : bool
        Whether to draw parameters and constants.
    title : str
        The title of the page.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        A profile is given without a compiled model.

    Examples
    --------
    >>> mod = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2,))))
    >>> tvm.contrib.relay_viz.page_text(mod).startswith("<!DOCTYPE html>")
    True
    """
    columns = modules if isinstance(modules, Mapping) else {} if modules is None else {"module": modules}
    sections = []
    for name, module in columns.items():
        plotter = PagePlotter()
        RelayVisualizer(module, relay_param, plotter, PageVizParser(weights))
        sections.append((name, plotter.section()))
    if lib is not None:
        nodes, edges = kernel_graph(lib, profile, weights)
        sections.append(("kernels", scrolled(draw_graph("graph of the kernels of the compiled model", nodes, edges))))
    elif profile is not None:
        raise ValueError("a profile requires the compiled model: pass it as lib")
    parts = "".join(f"<section><h2>{escape(name)}</h2>{text}</section>" for name, text in sections)
    note = "" if weights else '<p class="soft">Parameters and constants are not drawn (weights=True draws them).</p>'
    return page(title, f'<h1>{escape(title)}</h1>{note}<div class="columns">{parts}</div>', full_width=True)


def write_page(
    path: str,
    modules: Any,
    relay_param: Mapping[str, Any] | None = None,
    lib: Any = None,
    profile: Any = None,
    weights: bool = False,
    title: str = "Graph",
) -> None:
    """Write a page that shows modules side by side, such as before and after passes, and the kernels of a compiled
    model.

    Parameters
    ----------
    path : str
        The file.
    modules : tvm.IRModule or dict of str to tvm.IRModule
        A module, or several by the titles of their columns.
    relay_param : dict of str to NDArray, optional
        The parameters of the model.
    lib : GraphExecutorFactoryModule or str, optional
        The return value of ``relay.build``: its kernels are an additional column.
    profile : tvm.runtime.profiling.Report, optional
        A report of the debug executor; kernels show their times and are coloured by time.
    weights : bool
        Whether to draw parameters and constants.
    title : str
        The title of the page.
    """
    write(path, page_text(modules, relay_param, lib, profile, weights, title))


__all__ = [
    "DotPlotter", "DotVizParser", "PagePlotter", "PageVizParser", "RelayVisualizer", "TermPlotter", "TermVizParser",
    "graphs_of", "kernel_graph", "page_text", "write_page",
]  # fmt: skip
