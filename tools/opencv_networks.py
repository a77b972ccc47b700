"""Compare whole networks of DarkNet and Caffe, with random weights, with OpenCV's dnn module.

    python tools/opencv_networks.py              # writes opencv.npz beside the tests of each format
    python tools/opencv_networks.py --full       # original widths and sizes; rows of docs/legacy_models.md
    python tools/opencv_networks.py --full yolo  # only networks whose name contains this text

Run it with a Python that has opencv-python below version 5 and this package's dependencies.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "relay" / "frontend"
ENDINGS = {"darknet": ("cfg", "weights"), "caffe": ("prototxt", "caffemodel")}


def opencv_outputs(kind: str, text: str, weights: bytes, data) -> list:
    """Return the outputs of OpenCV, without its fused sums."""
    import cv2

    first, second = ENDINGS[kind]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "net"
        base.with_suffix(f".{first}").write_text(text)
        base.with_suffix(f".{second}").write_bytes(weights)
        read = cv2.dnn.readNetFromDarknet if kind == "darknet" else cv2.dnn.readNetFromCaffe
        net = read(str(base.with_suffix(f".{first}")), str(base.with_suffix(f".{second}")))
    net.enableFusion(False)
    net.enableWinograd(False)
    net.setInput(data)
    return list(net.forward(net.getUnconnectedOutLayersNames()))


def own_outputs(kind: str, text: str, weights: bytes, data) -> list:
    from tvm import relay

    module = importlib.import_module("opencv_comparison").imported(kind, text, weights)
    got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(data)
    return [got.numpy()] if hasattr(got, "numpy") else [v.numpy() for v in got]


def write_rows(rows: list[str]) -> None:
    """Write rows into the page of networks, in place of older rows of the same networks."""
    from legacy_models import HEAD, page_of, rows_of

    page = rows_of()
    page.update({" | ".join(row.strip("| ").split(" | ")[:2]): row for row in rows})
    (ROOT / "docs" / "legacy_models.md").write_text(HEAD + page_of(page))


def main() -> int:
    parser = argparse.ArgumentParser(description="compare networks with OpenCV")
    parser.add_argument("--full", nargs="?", const="", help="original widths and sizes; text in their names")
    args = parser.parse_args()
    import numpy as np

    sys.path[:0] = [str(ROOT), str(TESTS), *(str(TESTS / kind) for kind in ENDINGS)]
    comparison = importlib.import_module("opencv_comparison")
    wrong, rows = 0, []
    for kind, title in (("darknet", "DarkNet"), ("caffe", "Caffe")):
        networks = importlib.import_module(f"{kind}_networks")
        stored = {}
        for name in networks.NETWORKS:
            if args.full is not None and args.full not in name:
                continue
            size = networks.SIZES[name]
            drawn = networks.drawn(name) if args.full is None else networks.drawn(name, 1, size)
            expected = opencv_outputs(kind, *drawn)
            got = own_outputs(kind, *drawn)
            problem = comparison.difference(got, expected)
            wrong += bool(problem)
            off = comparison.off_by(got, expected)
            print(f"{kind} {name}: {problem or 'equal'}, {off:.0e}", flush=True)
            key = f"{title} | {name} at {size}x{size}, beside OpenCV"
            rows.append(f"| {key} | {problem or 'none asked for'} | {off:.0e} |")
            stored.update({f"{name}|{i}": v for i, v in enumerate(expected)})
        if args.full is None:
            np.savez_compressed(TESTS / kind / "opencv.npz", **stored)
    if args.full is not None:
        write_rows(rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
