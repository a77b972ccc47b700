"""Pictures of schedules: trees of stages, axes and loops, and dataflow. Graphviz is not needed.

Each function takes a schedule. It writes ``dot_file_path``: DOT text, or a picture if the name ends in ".svg".
``output_dot_string`` returns the text. ``show_svg`` shows the picture in a notebook.
"""

from __future__ import annotations

from ..docstring import described
from ..te.picture import Picture, axis_graph, dataflow_graph, schedule_tree
from ..te.schedule import Schedule

_PARAMETERS = {
    "sch": ("Schedule", "The schedule."),
    "show_svg": ("bool", "Show the picture in the notebook."),
    "dot_file_path": ("str", "A file to write: Graphviz's language, or a picture where the name ends in .svg."),
    "output_dot_string": ("bool", "Return the text in Graphviz's language."),
}


def _give(picture: Picture, show_svg: bool, dot_file_path: str, output_dot_string: bool) -> str | None:
    if dot_file_path:
        is_picture = str(dot_file_path).endswith(".svg")
        with open(dot_file_path, "w", encoding="utf-8") as file:
            file.write(picture.drawing.file() if is_picture else picture.dot.text())
    if show_svg:
        try:
            from IPython.display import SVG, display
        except ImportError:
            raise RuntimeError(
                "show_svg shows the picture in a notebook, but IPython is not installed; "
                'dot_file_path="name.svg" writes it to a file'
            ) from None
        display(SVG(picture.drawing.file()))
    return picture.dot.text() if output_dot_string else None


@described(_PARAMETERS, "str or None")
def viz_schedule_tree(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """A picture of the stages with their loops, each below the stage to which it is attached."""
    return _give(schedule_tree(sch), show_svg, dot_file_path, output_dot_string)


@described(_PARAMETERS, "str or None")
def viz_itervar_relationship_graph(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """A picture of the axes of each stage, and the loops that splits and fusions created from them."""
    return _give(axis_graph(sch), show_svg, dot_file_path, output_dot_string)


@described(_PARAMETERS, "str or None")
def viz_dataflow_graph(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """A picture of the stages and the tensors that they exchange."""
    return _give(dataflow_graph(sch), show_svg, dot_file_path, output_dot_string)


__all__ = ["viz_dataflow_graph", "viz_itervar_relationship_graph", "viz_schedule_tree"]
