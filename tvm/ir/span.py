"""Source locations of nodes, and their display."""

from __future__ import annotations

from typing import Any

from .node import Node


class SourceName(Node, key="SourceName"):
    """The name of a source: a file, a model, or a layer. There is one object per name.

    Parameters
    ----------
    name : str
        The name.
    """

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceName) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"SourceName({self.name})"


class _Place(Node):
    """Base class of spans, which compare by content."""

    def _content(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f) for f in self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and type(self) is type(other) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._content()))


class Span(_Place, key="Span"):
    """A range of lines and columns in a source; both ends are inclusive, and counting starts at one.

    Parameters
    ----------
    source_name : SourceName
        The source.
    line : int, optional
        The first line.
    end_line : int, optional
        The last line.
    column : int, optional
        The first column.
    end_column : int, optional
        The last column.
    """

    source_name: SourceName | None
    line: int
    end_line: int
    column: int
    end_column: int

    def __init__(
        self,
        source_name: Any,
        line: Any = 0,
        end_line: Any = 0,
        column: Any = 0,
        end_column: Any = 0,
        span: Span | None = None,
    ):
        named = source_name is None or isinstance(source_name, SourceName)
        self.source_name = source_name if named else SourceName(str(source_name))
        self.line = int(line)
        self.end_line = int(end_line)
        self.column = int(column)
        self.end_column = int(end_column)
        self.span = span

    def merge(self, other: Span) -> Span:
        """The smallest span that contains both; both must be in the same source.

        Parameters
        ----------
        other : Span
            Another span.

        Returns
        -------
        Span
            A span from the smaller start to the larger end.

        Raises
        ------
        ValueError
            The spans are in different sources.
        """
        if self.source_name != other.source_name:
            raise ValueError(f"spans of '{self.source_name}' and '{other.source_name}' cannot be merged")
        start = min((self.line, self.column), (other.line, other.column))
        end = max((self.end_line, self.end_column), (other.end_line, other.end_column))
        return Span(self.source_name, start[0], end[0], start[1], end[1])

    def __str__(self) -> str:
        return f"{self.source_name}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"Span({self.source_name}, {self.line}, {self.end_line}, {self.column}, {self.end_column})"


class SequentialSpan(_Place, key="SequentialSpan"):
    """Several locations, for a node that was created from several nodes. Nested spans are flattened.

    Parameters
    ----------
    spans : list of Span
        The locations.
    """

    spans: tuple[Any, ...]

    def __init__(self, spans: Any, span: Span | None = None):
        flat: list[Any] = []
        for one in spans:
            if one is not None:
                flat.extend(one.spans if isinstance(one, SequentialSpan) else (one,))
        self.spans = tuple(flat)
        self.span = span

    def __str__(self) -> str:
        return ", ".join(str(s) for s in self.spans)

    __repr__ = __str__


def source_text(span: Span | SequentialSpan) -> str:
    """Return the source names of a span, each with its line if known."""
    several = span.spans if isinstance(span, SequentialSpan) else (span,)
    return ", ".join(str(s.source_name) if s.line == 0 else f"{s.source_name}:{s.line}" for s in several)


def render_place(source: str, span: Span, message: str = "", level: str = "error") -> str:
    """Format the lines of ``source`` at ``span`` with the location underlined, below a heading with the message."""
    out = [f"{level}: {message}", f" --> {span.source_name}:{span.line}:{span.column}"]
    lines = source.splitlines()
    last = max(span.line, span.end_line)
    width = len(str(last))
    for number in range(max(span.line, 1), min(last, len(lines)) + 1):
        text = lines[number - 1]
        start = span.column if number == span.line else 1
        end = span.end_column if number == last else len(text) + 1
        marks = "^" * max(1, end - start)
        out.append(f"{number:>{width}} |  {text}")
        out.append(f"{'':>{width}} |  {' ' * (max(start, 1) - 1)}{marks}")
    return "\n".join(out)
