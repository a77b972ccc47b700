"""Write small graphs of one TensorFlow operator each, with inputs and the outputs of TensorFlow, to
tests/relay/frontend/tensorflow/cases.npz.

Run it with a Python that has TensorFlow: ``python tools/tensorflow_reference.py [NAME ...]``. The cases are in
tools/tensorflow_cases. Existing cases of the file are kept, except those that are named; ``all`` writes all of them.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow_cases import CASES

FILE = Path(__file__).resolve().parent.parent / "tests" / "relay" / "frontend" / "tensorflow" / "cases.npz"


def written(again: set[str]) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}
    if FILE.exists() and "all" not in again:
        with np.load(FILE) as kept:
            out = {k: kept[k] for k in kept if (n := k.rpartition("|")[0]) in CASES and n not in again}
    there = {k.rpartition("|")[0] for k in out}
    for name, (build, inputs) in CASES.items():
        if name in there:
            continue
        state = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
        with tf.Graph().as_default() as graph:
            values = [s.value(state) for s in inputs]
            holders = [
                tf.compat.v1.placeholder(s.dtype, s.shape if s.open_shape is None else s.open_shape, f"x{k}")
                for k, s in enumerate(inputs)
            ]
            results = build(*holders)
            results = list(results) if isinstance(results, (list, tuple)) else [results]
            results = [tf.identity(r, f"y{k}") for k, r in enumerate(results) if r is not None]
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.tables_initializer())
                got = session.run(results, dict(zip(holders, values)))
            data = graph.as_graph_def()
        data.ClearField("versions")
        for node in [*data.node, *(n for fn in data.library.function for n in fn.node_def)]:
            node.device = ""
            node.ClearField("experimental_debug_info")
            for attr in ("_output_shapes", "_XlaMustCompile", "_read_only_resource_inputs", "config_proto", "config"):
                if attr in node.attr:
                    del node.attr[attr]
        out[f"{name}|graph"] = np.frombuffer(data.SerializeToString(), "uint8")
        for k, value in enumerate(values):
            out[f"{name}|x{k}"] = value
        for k, value in enumerate(got):
            out[f"{name}|y{k}"] = np.asarray(value)
    return out


if __name__ == "__main__":
    arrays = written(set(sys.argv[1:]))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(FILE, **arrays)
    print(f"{len(CASES)} cases, {FILE.stat().st_size / 1024:.0f} KiB")
