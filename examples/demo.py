"""Compile a trained model with tvmc and run it on a photo (``make demo``)."""

from __future__ import annotations

import os
import sys
import tempfile
import time

from tvm.driver.tvmc import main, runner
from tvm.driver.tvmc.image import load_image
from tvm.driver.tvmc.model import TVMCPackage
from tvm.driver.tvmc.result_utils import get_top_results

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "demo")
MODEL, PHOTO, LABELS = (os.path.join(HERE, n) for n in ("mobilenet_v2.onnx", "chelsea.png", "labels.txt"))


def peer_milliseconds(data) -> float | None:
    """Return the time of onnxruntime on the same input, or None if it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    times = []
    for _ in range(40):
        start = time.perf_counter()
        session.run(None, {"data": data})
        times.append(time.perf_counter() - start)
    return sorted(times)[8] * 1e3


def run() -> int:
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "mobilenet_v2.tar")
        shapes = "data:[1,3,224,224]"
        print(
            f'tvmc compile --target llvm --input-shapes "{shapes}" --output mobilenet_v2.tar mobilenet_v2.onnx',
            flush=True,
        )
        start = time.perf_counter()
        if main._main(["compile", "--target", "llvm", "--input-shapes", shapes, "--output", package, MODEL]):
            return 1
        print(f"compiled in {time.perf_counter() - start:.1f} s, package of {os.path.getsize(package) / 2**20:.1f} MiB")
        data = load_image(PHOTO, [1, 3, 224, 224], "float32")
        result = runner.run_module(
            TVMCPackage(package), "cpu", inputs={"data": data}, benchmark=True, repeat=40, number=1
        )
        names = runner.read_labels(LABELS)
        print(f"tvmc run --inputs {os.path.basename(PHOTO)} --labels labels.txt mobilenet_v2.tar")
        places, values = get_top_results(result, 5)
        for place, value in zip(places, values):
            print(f"{value:9.4f}  {names[int(place)]}")
        ours = sorted(result.times.results)[8] * 1e3
        line = f"{os.path.basename(PHOTO)}: {names[int(places[0])]}, {ours:.2f} ms"
        peer = peer_milliseconds(data)
        print(line + (f" ({ours / peer:.2f} of onnxruntime's {peer:.2f} ms)" if peer else ""))
    return 0


if __name__ == "__main__":
    sys.exit(run())
