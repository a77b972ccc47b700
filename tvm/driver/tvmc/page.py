"""Pages that are one file: light and dark, on a phone too, and nothing is loaded from elsewhere."""

from __future__ import annotations

import html

# The browser itself refuses whatever is not in the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1c2126;--soft:#5b6570;--rule:#d5dae0;--card:#f4f6f8;--accent:#0b62c4;
--good:#1a7f37;--bad:#c4302b;--warm:#b45309}
@media(prefers-color-scheme:dark){:root{--back:#14181d;--text:#e4e8ec;--soft:#9aa5b1;--rule:#343c46;--card:#1d232a;
--accent:#6cb2ff;--good:#4ac26b;--bad:#ff7b72;--warm:#f0a04b}}
body{font:16px/1.5 system-ui,sans-serif;max-width:82rem;margin:2rem auto;padding:0 1rem;color:var(--text);
background:var(--back)}
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.2rem;margin:2.4rem 0 .5rem}h3{font-size:1.05rem;margin:2rem 0 .4rem}
p{margin:.4rem 0}.soft{color:var(--soft)}.large{font-size:1.3rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.3rem 0}td,th{padding:.25rem .5rem;text-align:right;
border-bottom:1px solid var(--rule);white-space:nowrap}thead th{color:var(--soft);font-weight:600}
th.name,td.name{text-align:left}tbody th{font-weight:400;text-align:left}a{color:var(--accent)}
svg{background:var(--card);width:100%;height:auto;border-radius:6px}svg text{fill:var(--soft);font-size:11px}
svg .note{fill:var(--text)}.grid{stroke:var(--rule);stroke-width:.6}polyline{fill:none}
.best{stroke:var(--accent);stroke-width:2}.untuned{stroke:var(--warm);stroke-width:1.5;stroke-dasharray:6 4}
.roof{stroke:var(--text);stroke-width:1.5}.move{stroke:var(--soft);stroke-width:1}
.trial{fill:var(--accent);opacity:.55}.failed{fill:var(--bad)}.before{fill:var(--warm)}.after{fill:var(--accent)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;font-size:.9rem;margin:.5rem 0}
dt{color:var(--soft)}dd{margin:0}code{background:var(--card);padding:.1rem .3rem;border-radius:4px}
.one{stroke:var(--accent);fill:var(--accent)}.two{stroke:var(--warm);fill:var(--warm)}
.three{stroke:var(--good);fill:var(--good)}.four{stroke:var(--bad);fill:var(--bad)}
polyline.one,polyline.two,polyline.three,polyline.four{fill:none;stroke-width:1.6}polyline.two{stroke-dasharray:6 3}
polyline.three{stroke-dasharray:2 2}polyline.four{stroke-dasharray:9 3 2 3}.thin{stroke-width:1.5}.thick{stroke-width:9}
@media print{svg{background:none}}
"""


def document(title: str, body: str) -> str:
    """The page of a title, which is text, and a body, which is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


__all__ = ["POLICY", "STYLE", "document"]
