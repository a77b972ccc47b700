"""Tuning for CUDA where the device is emulated: what the tests on OpenCL show, on the other runtime."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tests.packages import needs_xgboost

pytestmark = needs_emulator

PROGRAM = """
import json, sys
import tvm
from tests import cuda_emulator
from tests.autotvm import test_measure_device as shared
from tvm import autotvm
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.autotvm.task import relay_integration

tuples = lambda x: tuple(map(tuples, x)) if isinstance(x, list) else x

def measured(name, args, indexes):
    task = autotvm.task.create(name, tuples(args), "cuda -arch=sm_80")
    runner = autotvm.LocalRunner(timeout=300, number=1, repeat=1, cooldown_interval=0, slow_factor=1e9,
                                 verify=name != "test/device_fault")
    measure = create_measure_batch(task, autotvm.measure_option(autotvm.LocalBuilder(timeout=300), runner))
    space = task.config_space
    indexes = indexes or [*space.start, *space.sample_ints(2)]
    inputs = [autotvm.MeasureInput(task.target, task, space.get(i)) for i in indexes]
    return [[str(i.config), (i.made_on or {}).get("device"), int(r.error_no), str(r.costs)]
            for i, r in zip(inputs, measure(inputs))]

with cuda_emulator.building():
    results = [measured(*task) for task in json.loads(sys.argv[1])]
print("RESULTS", json.dumps(results))
"""


COMMANDS = """
import json, sys
from tests import cuda_emulator
from tvm.driver.tvmc.main import _main

with cuda_emulator.building():
    for command in json.loads(sys.argv[1]):
        code = _main(command)
        if code:
            sys.exit(code)
"""


def run(program: str, argument: list) -> str:
    """What a program says whose GPU is emulated, and refuses everything after a fault."""
    environment = {**cuda_emulator.environment(), "TVM_EMULATED_STICKY": "1", "TVM_NO_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(argument)],
        env=environment,
        cwd=cuda_emulator.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


TEMPLATES = {
    "conv2d_nchw.cuda": [["TENSOR", [1, 5, 6, 7], "float32"], ["TENSOR", [6, 5, 3, 3], "float32"], [1, 1],
                         [1, 1, 1, 1], [1, 1], "float32"],
    "dense_small_batch.gpu": [["TENSOR", [3, 40], "float32"], ["TENSOR", [9, 40], "float32"], None, "float32"],
    "dense_large_batch.gpu": [["TENSOR", [33, 48], "float16"], ["TENSOR", [20, 48], "float16"], None, "float32"],
    "conv2d_nhwc.gpu": [["TENSOR", [1, 5, 6, 8], "float16"], ["TENSOR", [3, 3, 8, 16], "float16"], [1, 1],
                        [1, 1, 1, 1], [1, 1], "float32"],
}  # fmt: skip
FAULTS = [0, 1, 0, 1, 0]


@pytest.fixture(scope="module")
def measured() -> dict[str, list]:
    """What a tuner measures of each template, all in one program, and of one with a fault after them."""
    tasks = [*((name, args, None) for name, args in TEMPLATES.items()), ("test/device_fault", [64], FAULTS)]
    said = run(PROGRAM, tasks).splitlines()
    rows = json.loads(next(line for line in said if line.startswith("RESULTS"))[8:])
    return {name: rows for (name, _, _), rows in zip(tasks, rows)}


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_after_a_fault_cuda_refuses_everything_and_the_next_worker_goes_on(measured):
    order, rows = FAULTS, measured["test/device_fault"]
    assert [row[2] == 0 for row in rows] == [i == 0 for i in order], rows
    assert all("CUDA" in row[3] for row in rows if row[2]), rows
    assert all(row[1] == "Emulated GPU" for row in rows if not row[2])


@pytest.mark.slow("builds and measures candidates in worker processes")
@pytest.mark.parametrize("name", TEMPLATES)
def test_any_configuration_gives_what_the_cpu_gives(name, measured):
    rows = measured[name]
    assert len(rows) == 3 and all(row[2] == 0 for row in rows), rows


@pytest.mark.slow("builds and measures candidates in worker processes")
@needs_xgboost
def test_tune_compile_and_run(tmp_path):
    """The commands of the guides; the model is a convolution and a product."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    numbers = np.random.default_rng(1)
    weights = {"w": numbers.uniform(-1, 1, (8, 4, 3, 3)), "v": numbers.uniform(-1, 1, (128, 10))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, (1, 4, 4, 4))],
        [helper.make_tensor_value_info("y", 1, (1, 10))],
        [numpy_helper.from_array(v.astype("float32"), k) for k, v in weights.items()],
    )
    model, records, inputs = str(tmp_path / "m.onnx"), str(tmp_path / "r.json"), str(tmp_path / "in.npz")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    np.savez(inputs, x=numbers.uniform(-1, 1, (1, 4, 4, 4)).astype("float32"))
    target, results = "cuda -arch=sm_80", [str(tmp_path / name) for name in ("gpu.npz", "cpu.npz")]
    text = run(
        COMMANDS,
        [
            [
                "tune",
                "--target",
                target,
                "--trials",
                "4",
                "--number",
                "1",
                "--min-repeat-ms",
                "1",
                "--timeout",
                "300",
                "-o",
                records,
                model,
            ],
            ["compile", "--target", target, "--tuning-records", records, "-o", str(tmp_path / "gpu.tar"), model],
            ["run", "--device", "cuda", "-i", inputs, "-o", results[0], str(tmp_path / "gpu.tar")],
            ["compile", "--target", "llvm", "-o", str(tmp_path / "cpu.tar"), model],
            ["run", "-i", inputs, "-o", results[1], str(tmp_path / "cpu.tar")],
        ],
    )
    assert text.count("Done.") == 2 and "dense_small_batch 1x128 10x128" in text
    outputs = [np.load(path)["output_0"] for path in results]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-3)
