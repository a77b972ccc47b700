"""Check a built site: all links have a target and no page loads resources from other sites; in a browser, no page is
wider than a phone screen, in light and dark mode, and the search finds the pages of common terms.

    python tools/check_site.py build/site [--browser chromium] [--quick]

``--quick`` opens ten pages in the browser, spread over the site, and checks the links of all pages.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PHONE = 390
# Terms that users search for, and a page that the search must find for each.
SEARCHES = {
    "conv2d": "reference/tvm.relay.op.nn.html",
    "matmul": "decisions/025-fuse-layout-changes-into-gpu-matmul-operands.html",
    "transpose": "reference/tvm.relay.html",
    "dynamic shape": "vm.html",
    "dead code": "reference/tvm.relay.transform.html",
    "dot product": "decisions/047-use-cpu-dot-product-instructions.html",
    "AOT": "howto_aot.html",
}
# Resources of a page: tag and the attribute with the address.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """The anchors of a page, its links, and the resources that it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given.get("href", ""))


def broken_links(site: Path) -> list[str]:
    """Return one line for each wrong link or resource of the pages."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in [*page.links, *page.loaded]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    wrong.append(f"{name}: loads {target}")
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.exists():
                wrong.append(f"{name}: no such file: {target}")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                wrong.append(f"{name}: no such place: {target}")
    for path in site.rglob("*.css"):
        for target in re.findall(r"url\(['\"]?(https?:)?//[^)]*\)", path.read_text(encoding="utf-8")):
            wrong.append(f"{path.relative_to(site)}: loads {target}")
    return wrong


# Opens page after page in a frame as wide as a phone screen, first in light mode, then in dark mode, and searches.
SCRIPT = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %s, wide = [], settled = ms => new Promise(done => setTimeout(done, ms));
const frame = document.createElement("iframe");
frame.width = %d; frame.height = 800; document.body.append(frame);
const open = url => new Promise(done => { frame.onload = done; frame.src = url; });
(async () => {
  for (const theme of ["light", "dark"]) {
    localStorage.setItem("theme", theme);
    for (const page of pages) {
      await open(page);
      const root = frame.contentDocument.documentElement;
      if (root.scrollWidth > frame.clientWidth) wide.push(`${page} (${theme}): ${root.scrollWidth}`);
    }
  }
  const found = {};
  for (const term of %s) {
    await open(`search.html?q=${encodeURIComponent(term)}`);
    let links = [], before = -1;
    // The page adds results one after the other.
    for (let i = 0; i < 100 && (!links.length || links.length > before); ++i) {
      before = links.length;
      await settled(100);
      links = [...frame.contentDocument.querySelectorAll("#search-results a")];
    }
    found[term] = links.map(link => new URL(link.href).pathname.slice(1));
  }
  const out = document.createElement("pre");
  out.id = "outcome"; out.textContent = JSON.stringify({wide, found, pages: pages.length});
  document.body.replaceChildren(out);
})();
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, and in it the page that opens the other pages."""

    def __init__(self, *args, script: str, **kwargs):
        self.script = script
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        if self.path != "/check.html":
            return super().do_GET()
        body = self.script.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args) -> None:
        pass


def look(site: Path, browser: str, pages: list[str]) -> dict:
    """Return the browser's results: pages wider than the screen, and the pages that the search finds by term."""
    script = SCRIPT % (json.dumps(pages), PHONE, json.dumps(list(SEARCHES)))
    handler = functools.partial(Handler, directory=str(site), script=script)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with tempfile.TemporaryDirectory(prefix="tvm-browser-") as profile:
            command = [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
                "--virtual-time-budget=600000", "--dump-dom", f"http://127.0.0.1:{server.server_port}/check.html",
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    finally:
        server.shutdown()
    found = re.search(r'<pre id="outcome">(.*?)</pre>', done.stdout, re.DOTALL)
    if not found:
        sys.exit(f"the browser returned no result: {done.stderr[-2000:]}")
    return json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))


def spread(pages: list[str], count: int) -> list[str]:
    """Return ``count`` of the pages at equal distances, including the first and the last."""
    last = len(pages) - 1
    return [pages[number * last // (count - 1)] for number in range(count)] if last >= count else pages


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--browser", default=find_browser(), help="browser; without one, only links are checked")
    parser.add_argument("--quick", action="store_true", help="open only ten pages in the browser")
    given = parser.parse_args()
    site = given.site.resolve()
    wrong = broken_links(site)
    pages = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")) if path.name != "genindex.html"]
    if given.browser:
        seen = look(site, given.browser, spread(pages, 10) if given.quick else pages)
        wrong += [f"wider than a phone: {page}" for page in seen["wide"]]
        for term, page in SEARCHES.items():
            if page not in seen["found"][term]:
                wrong.append(f"the search for '{term}' does not find {page}")
        print(f"{seen['pages']} pages opened in {os.path.basename(given.browser)}, light and dark")
    print("\n".join(wrong) or "all links have a target")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
