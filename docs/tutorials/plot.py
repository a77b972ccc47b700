"""Bars and pictures for the tutorials: text on a terminal, drawings on the site."""

from __future__ import annotations

import html
import os


def bars(title: str, values: dict[str, float], unit: str) -> None:
    """Show one bar for each value."""
    if os.environ.get("TVM_TUTORIAL_FIGURES"):
        print(picture(title, values, unit))
        return
    most, width = max(values.values()), max(map(len, values))
    print(title)
    for name, value in values.items():
        print(f"  {name:<{width}}  {'#' * round(40 * value / most):<40} {value:.4g} {unit}")


def figure(title: str, part: str) -> None:
    """Show a part of a page on the site; on a terminal print its title and size."""
    if os.environ.get("TVM_TUTORIAL_FIGURES"):
        print(f'<figure class="picture">{part}<figcaption>{html.escape(title)}</figcaption></figure>')
    else:
        print(f"{title}: a picture of {len(part)} bytes")


def picture(title: str, values: dict[str, float], unit: str) -> str:
    """The bars as SVG that takes its colours from the page."""
    most, row, left = max(values.values()), 26, 14 + 7.2 * max(map(len, values))
    parts = []
    for number, (name, value) in enumerate(values.items()):
        y, length = number * row, 260 * value / most
        parts.append(
            f'<text x="{left - 8:.1f}" y="{y + 17}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect class="bar" x="{left:.1f}" y="{y + 4}" width="{length:.1f}" height="{row - 8}" rx="2"/>'
            f'<text x="{left + length + 6:.1f}" y="{y + 17}">{value:.3g} {html.escape(unit)}</text>'
        )
    height = row * len(values)
    view = f'viewBox="0 0 {left + 380:.0f} {height}" role="img" aria-label="{html.escape(title)}"'
    return (
        f'<figure class="plot"><svg {view}>{"".join(parts)}</svg><figcaption>{html.escape(title)}</figcaption></figure>'
    )
