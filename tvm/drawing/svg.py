"""SVG pictures, drawn in order. Sizes are in the picture's own units; colours are set by class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .page import escape, picture_style


def at(value: float) -> str:
    """Format a coordinate with one decimal place, without trailing zeros."""
    return f"{value:.1f}".removesuffix(".0")


def shorten(text: str, most: int = 40) -> str:
    """Return the text, or its beginning and end if it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most * 2 // 3]}\u2026{text[len(text) - most + most * 2 // 3 + 1 :]}"


class Drawing:
    """A picture with a given size. ``label`` is its text alternative."""

    def __init__(self, label: str, width: float, height: float):
        self.label, self.width, self.height = label, width, height
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: object, anchor: str = "start", kind: str = "") -> None:
        named = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{named} x="{at(x)}" y="{at(y)}" text-anchor="{anchor}">{escape(words)}</text>')

    @contextmanager
    def group(self, tip: object) -> Iterator[None]:
        """Show ``tip`` as a tooltip of the elements that are drawn inside."""
        self.parts.append(f"<g><title>{escape(tip)}</title>")
        yield
        self.parts.append("</g>")

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        tip: object = "",
        opacity: float | None = None,
        rounded: float = 0,
    ) -> None:
        """Draw a rectangle with the tooltip ``tip``."""
        more = (f' rx="{at(rounded)}"' if rounded else "") + ("" if opacity is None else f' opacity="{opacity:.2f}"')
        sizes = f'x="{at(x)}" y="{at(y)}" width="{at(width)}" height="{at(height)}"'
        self.parts.append(_element("rect", f'class="{kind}" {sizes}{more}', tip))

    def circle(self, x: float, y: float, radius: float, kind: str, tip: object = "") -> None:
        self.parts.append(_element("circle", f'class="{kind}" cx="{at(x)}" cy="{at(y)}" r="{radius:g}"', tip))

    def segment(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line class="{kind}" x1="{at(x1)}" x2="{at(x2)}" y1="{at(y1)}" y2="{at(y2)}"/>')

    def path(self, commands: str, kind: str, tip: object = "") -> None:
        self.parts.append(_element("path", f'class="{kind}" d="{commands}"', tip))

    def polyline(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        places = " ".join(f"{at(x)},{at(y)}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{places}"/>')

    def add(self, other: Drawing, x: float, y: float) -> None:
        """Insert another picture into this one."""
        self.parts += [f'<g transform="translate({at(x)} {at(y)})">', *other.parts, "</g>"]

    def svg(self, natural: bool = False) -> str:
        """Return the picture as a fragment of a page; ``natural``: in its own size, regardless of the page width."""
        sizes = f' class="natural" width="{at(self.width)}" height="{at(self.height)}"' if natural else ""
        return f"<svg{sizes} {self._attributes()}>{''.join(self.parts)}</svg>"

    def file(self) -> str:
        """Return the picture as a standalone file."""
        size = f'width="{at(self.width)}" height="{at(self.height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="natural" {size} {self._attributes()}>'
            f"<style>{picture_style()}</style>{''.join(self.parts)}</svg>\n"
        )

    def _attributes(self) -> str:
        return f'viewBox="0 0 {at(self.width)} {at(self.height)}" role="img" aria-label="{escape(self.label)}"'


def _element(tag: str, attributes: str, tip: object) -> str:
    return f"<{tag} {attributes}><title>{escape(tip)}</title></{tag}>" if tip else f"<{tag} {attributes}/>"


__all__ = ["Drawing", "at", "shorten"]
