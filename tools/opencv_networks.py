"""Whole networks of DarkNet and Caffe, with drawn weights, in OpenCV's dnn beside this package.

    python tools/opencv_networks.py              # writes opencv.npz beside the tests of each format
    python tools/opencv_networks.py --part 1     # in the original widths; compares, writes nothing

It runs with a Python that has opencv-python below version 5 and this package's dependencies.
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
    """The outputs of OpenCV, without the sums it puts together."""
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


def main() -> int:
    parser = argparse.ArgumentParser(description="networks in OpenCV beside this package")
    parser.add_argument("--part", type=int, default=0, help="what divides the widths; without it the tests' own")
    args = parser.parse_args()
    import numpy as np

    sys.path[:0] = [str(ROOT), str(TESTS), *(str(TESTS / kind) for kind in ENDINGS)]
    comparison = importlib.import_module("opencv_comparison")
    wrong = 0
    for kind in ENDINGS:
        networks = importlib.import_module(f"{kind}_networks")
        stored = {}
        for name in networks.NETWORKS:
            drawn = networks.drawn(name, args.part or networks.PART)
            expected = opencv_outputs(kind, *drawn)
            problem = comparison.difference(own_outputs(kind, *drawn), expected)
            wrong += bool(problem)
            print(f"{kind} {name}: {problem or 'equal'}")
            stored.update({f"{name}|{i}": v for i, v in enumerate(expected)})
        if not args.part:
            np.savez_compressed(TESTS / kind / "opencv.npz", **stored)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
