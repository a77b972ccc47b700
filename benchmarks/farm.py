"""Speedup of a second node of a Ray cluster: time to compile models and to measure candidates.

    python -m benchmarks.farm [--models 8] [--trials 128]

Runs in a Python that has ray (``python -m tools test ray`` makes build/ray). The nodes are processes of this machine
with one core each. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tvm import autotvm, te

from . import result_file


@autotvm.template("benchmarks.farm.matmul")
def matmul(n: int, m: int, k: int) -> tuple:
    """Define the template of a tiled matmul."""
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    config = autotvm.get_config()
    config.define_split("y", y, num_outputs=2)
    config.define_split("x", x, num_outputs=2)
    outer_y, inner_y = config["y"].apply(s, c, y)
    outer_x, inner_x = config["x"].apply(s, c, x)
    s[c].reorder(outer_y, outer_x, r, inner_y, inner_x)
    s[c].vectorize(inner_x)
    return s, [a, b, c]


def convolutions(path: Path, channels: int, layers: int = 12) -> None:
    """Write a model of 3x3 convolutions; models of different widths have no kernel in common."""
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(channels)
    weights = [rng.standard_normal((channels, channels, 3, 3)).astype("float32") for _ in range(layers)]
    nodes = [
        helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], pads=[1] * 4, strides=[1 + (i == 5)] * 2)
        for i in range(layers)
    ]
    ends = [
        helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, channels, 56, 56]),
        helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(
        nodes, "convolutions", ends[:1], ends[1:], [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def compile_all(address: str, models: list[str], folder: str) -> float:
    """Return the seconds until all models are compiled."""
    words = [sys.executable, "-m", "tvm.driver.tvmc", "compile", "--farm", "ray", "--farm-address", address]
    start = time.perf_counter()
    subprocess.run([*words, "-o", folder, *models], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def tune(address: str, trials: int) -> float:
    """Return the seconds of a number of trials."""
    task = autotvm.task.create("benchmarks.farm.matmul", args=(192, 192, 192), target="llvm")
    option = autotvm.measure_option(autotvm.RayBuilder(address=address), autotvm.RayRunner(address, number=4, repeat=3))
    start = time.perf_counter()
    autotvm.tuner.GridSearchTuner(task).tune(trials, option)
    return time.perf_counter() - start


def main() -> None:
    """Measure a cluster of one node and a cluster of two nodes."""
    import ray
    from ray.cluster_utils import Cluster

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--trials", type=int, default=128)
    result_file.add_option(parser)
    args = parser.parse_args()
    rows: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        # The first job of a node includes its start, so two more models are compiled before the measurement.
        models = [str(Path(folder, f"m{i}.onnx")) for i in range(args.models + 2)]
        for i, path in enumerate(models):
            convolutions(Path(path), 24 + 4 * i)
        for nodes in (1, 2):
            os.environ["TVM_CACHE_DIR"] = str(Path(folder, f"cache{nodes}"))
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
            for _ in range(nodes):
                cluster.add_node(num_cpus=1, resources={"tvm": 1})
            compile_all(cluster.address, models[:2], str(Path(folder, f"first{nodes}")))
            rows.append(
                (
                    compile_all(cluster.address, models[2:], str(Path(folder, f"made{nodes}"))),
                    tune(cluster.address, args.trials),
                )
            )
            ray.shutdown()
            cluster.shutdown()
    print("| | 1 node | 2 nodes | ratio |\n|---|---|---|---|")
    found = dict(zip((f"{args.models} models compiled", f"{args.trials} trials"), zip(*rows)))
    for what, (one, two) in found.items():
        print(f"| {what} (s) | {one:.1f} | {two:.1f} | {one / two:.2f} |")
    result_file.record(
        args.record, "rpc-farm",
        [{"name": what, "values": {"1 node": one, "2 nodes": two}} for what, (one, two) in found.items()],
        unit="s", command="python -m benchmarks.farm",
        method="a Ray cluster of one and of two nodes with one core each; the driver shares both cores",
    )  # fmt: skip


if __name__ == "__main__":
    main()
