"""HTML pages in one file, without scripts or external resources, in the light or dark mode of the reader's system.

Colours are variables of the style sheet, and pictures refer to them by class, so that one picture works in both modes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

# The content security policy makes the browser reject external resources.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_LIGHT = (
    "--back:#fff;--text:#1c2126;--soft:#5b6570;--rule:#d5dae0;--card:#f4f6f8;--accent:#0b62c4;--good:#1a7f37;"
    "--bad:#c4302b;--warm:#b45309;--box:#fff"
)
_DARK = (
    "--back:#14181d;--text:#e4e8ec;--soft:#9aa5b1;--rule:#343c46;--card:#1d232a;--accent:#6cb2ff;--good:#4ac26b;"
    "--bad:#ff7b72;--warm:#f0a04b;--box:#262e37"
)
_PAGE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:82rem;margin:2rem auto;padding:0 1rem;color:var(--text);
background:var(--back)}
body.full{max-width:none}
"""
_TEXT = """
h1{font-size:1.6rem;margin:0 0 .2rem}
h2{font-size:1.2rem;margin:2.4rem 0 .5rem}
h3{font-size:1.05rem;margin:2rem 0 .4rem}
p{margin:.4rem 0}
.soft{color:var(--soft)}
.large{font-size:1.3rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.3rem 0}
td,th{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
thead th{color:var(--soft);font-weight:600}
th.name,td.name{text-align:left}
tbody th{font-weight:400;text-align:left}
a{color:var(--accent)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;font-size:.9rem;margin:.5rem 0}
dt{color:var(--soft)}
dd{margin:0}
code{background:var(--card);padding:.1rem .3rem;border-radius:4px}
pre{background:var(--card);padding:.6rem;border-radius:6px;overflow:auto;max-height:40rem;font-size:.8rem;line-height:1.35}
summary{cursor:pointer;color:var(--accent)}
.columns{display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start}
.columns>section{flex:1 1 22rem;min-width:0}
.scroll{overflow:auto;max-height:85vh;border-radius:6px;background:var(--card)}
"""
# Styles of pictures. Charts scale with the page; graphs (.natural) keep the size of their text.
_PICTURE = """
svg{background:var(--card);width:100%;height:auto;border-radius:6px}
svg.natural{width:auto;max-width:none;display:block}
svg text{fill:var(--soft);font-size:11px;font-family:system-ui,sans-serif}
svg .note{fill:var(--text)}
.grid{stroke:var(--rule);stroke-width:.6}
polyline{fill:none}
.best{stroke:var(--accent);stroke-width:2}
.untuned{stroke:var(--warm);stroke-width:1.5;stroke-dasharray:6 4}
.roof{stroke:var(--text);stroke-width:1.5}
.move{stroke:var(--soft);stroke-width:1}
.trial{fill:var(--accent);opacity:.55}
.failed{fill:var(--bad)}
.before{fill:var(--warm)}
.after{fill:var(--accent)}
.one{stroke:var(--accent);fill:var(--accent)}
.two{stroke:var(--warm);fill:var(--warm)}
.three{stroke:var(--good);fill:var(--good)}
.four{stroke:var(--bad);fill:var(--bad)}
polyline.one,polyline.two,polyline.three,polyline.four{fill:none;stroke-width:1.6}
polyline.two{stroke-dasharray:6 3}
polyline.three{stroke-dasharray:2 2}
polyline.four{stroke-dasharray:9 3 2 3}
.thin{stroke-width:1.5}
.thick{stroke-width:9}
svg .mono{font-family:ui-monospace,monospace}
svg .title{fill:var(--text);font-weight:600}
.box{fill:var(--box);stroke:var(--soft);stroke-width:1}
.box.input{stroke:var(--accent)}
.box.constant{stroke:var(--rule);fill:var(--card)}
.box.function{stroke:var(--warm)}
.box.output{stroke:var(--good);stroke-width:2}
.heat{fill:var(--bad)}
.edge{fill:none;stroke:var(--soft);stroke-width:1}
.edge.weak{stroke-dasharray:3 3}
.bar{stroke:var(--card);stroke-width:.6}
.bar0{fill:var(--accent)}
.bar1{fill:var(--warm)}
.bar2{fill:var(--good)}
.bar3{fill:var(--bad)}
.bar4{fill:var(--soft)}
.bar.faint{opacity:.45}
svg .onbar{fill:var(--back)}
"""
_PRINT = "@media print{svg{background:none}}"
_RULE = re.compile(r"([^{}]+)\{([^}]*)\}")
_FULL, _NAME = ' class="full"', ' class="name"'
# The class of the element that contains a picture inside another page.
FRAGMENT = "tvm-picture"


def _scoped(rules: str, scope: str) -> str:
    """Return the rules, with each selector nested below ``scope``."""

    def place(match: re.Match) -> str:
        selectors = ",".join(f"{scope}{' ' if scope else ''}{one.strip()}" for one in match[1].split(","))
        return f"{selectors}{{{match[2]}}}"

    return _RULE.sub(place, rules.replace("\n", ""))


def _variables(root: str) -> str:
    return f"{root}{{color-scheme:light dark;{_LIGHT}}}@media(prefers-color-scheme:dark){{{root}{{{_DARK}}}}}"


def picture_style() -> str:
    """Return the style sheet of a standalone picture."""
    return _variables(":root") + _scoped(_PICTURE, "")


def escape(text: object) -> str:
    """Escape text for elements and attributes. Characters that XML cannot represent become U+FFFD."""
    return html.escape(_UNWRITABLE.sub("\ufffd", str(text)))


_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def page(title: str, body: str, full_width: bool = False) -> str:
    """Return a complete page, which is also well-formed XML."""
    style = _variables(":root") + _scoped(_PAGE + _TEXT + _PICTURE, "") + _PRINT
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"/><link rel="icon" href="data:,"/>'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body{_FULL if full_width else ''}><main>{body}</main></body></html>\n"
    )


def fragment(body: str) -> str:
    """Return a fragment for another page, such as a notebook; its styles do not affect other parts of the page."""
    scope = f".{FRAGMENT}"
    own = f"{scope}{{font:14px/1.45 system-ui,sans-serif;color:var(--text);background:var(--back);padding:.5rem}}"
    style = _variables(scope) + own + _scoped(_TEXT + _PICTURE, scope)
    return f'<div class="{FRAGMENT}"><style>{style}</style>{body}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", name: int = 0, key: str = "") -> str:
    """Return a table. Cells are HTML; column ``name`` contains the row headers."""
    cells = "".join(f'<th scope="col"{_NAME if i == name else ""}>{h}</th>' for i, h in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(f'<th scope="row">{c}</th>' if i == name else f"<td>{c}</td>" for i, c in enumerate(row))
        + "</tr>"
        for row in rows
    )
    identity = f' id="{key}"' if key else ""
    return (
        f'<div class="wide"><table{identity}>{f"<caption>{caption}</caption>" if caption else ""}'
        f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"
    )


__all__ = ["FRAGMENT", "POLICY", "escape", "fragment", "page", "picture_style", "table"]
