"""Tuning and compiling on a Ray cluster of a head and two nodes that own a device (``python -m tools test ray``)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tvm
from tvm import auto_scheduler, autotvm, te
from tvm.tuning import ray_cluster

ray = pytest.importorskip("ray", reason="ray is not installed: python -m tools test ray")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.devices = [made.add_node(num_cpus=1, resources={"tvm": 1}) for _ in range(2)]
    yield made
    ray.shutdown()
    made.shutdown()


@autotvm.template("matmul_on_ray")
def matmul(n, m, k):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k))
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r))
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    config = autotvm.get_config()
    config.define_split("y", y, num_outputs=2)
    config.define_split("x", x, num_outputs=2)
    outer_y, inner_y = config["y"].apply(s, c, y)
    outer_x, inner_x = config["x"].apply(s, c, x)
    s[c].reorder(outer_y, outer_x, r, inner_y, inner_x)
    return s, [a, b, c]


def tune(option, path, trials):
    task = autotvm.task.create("matmul_on_ray", args=(48, 96, 64), target="llvm")
    autotvm.tuner.GridSearchTuner(task).tune(trials, option, callbacks=[autotvm.callback.log_to_file(str(path))])
    return [json.loads(line) for line in path.read_text().splitlines()]


def farm_option(cluster):
    return autotvm.measure_option(
        autotvm.RayBuilder(address=cluster.address), autotvm.RayRunner(cluster.address, number=2, repeat=1)
    )


def test_a_farm_writes_the_records_that_this_machine_writes(cluster, tmp_path):
    there = tune(farm_option(cluster), tmp_path / "farm.json", 16)
    here = tune(autotvm.measure_option("local", autotvm.LocalRunner(number=2, repeat=1)), tmp_path / "here.json", 16)
    assert [row["input"] for row in there] == [row["input"] for row in here]
    assert [row["config"] for row in there] == [row["config"] for row in here]
    assert [row.keys() for row in there] == [row.keys() for row in here]
    assert all(row["result"][1] == 0 and row["result"][0][0] > 0 for row in there)


def test_a_search_without_templates_measures_on_the_farm(cluster, tmp_path):
    @auto_scheduler.register_workload
    def farm_add_reduce(n):
        a = te.placeholder((n, n), name="A")
        k = te.reduce_axis((0, n))
        return [a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k))]

    task = auto_scheduler.SearchTask(func=farm_add_reduce, args=(64,), target="llvm")
    path = str(tmp_path / "farm.json")
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=8,
            builder=auto_scheduler.RayBuilder(address=cluster.address),
            runner=auto_scheduler.RayRunner(cluster.address, min_repeat_ms=1),
            measure_callbacks=[auto_scheduler.RecordToFile(path)],
            verbose=0,
        )
    )
    rows = list(auto_scheduler.load_records(path))
    assert len(rows) == 8 and all(result.error_no == 0 for _, result in rows)


def test_many_models_are_compiled_by_the_nodes(cluster, tmp_path):
    from onnx import TensorProto, helper, save

    for number in range(16):
        size = number + 3
        node = helper.make_node("Mul" if number % 2 else "Add", ["x", "x"], ["y"])
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n in "xy"]
        save(
            helper.make_model(
                helper.make_graph([node], "g", value[:1], value[1:]),
                opset_imports=[helper.make_opsetid("", 17)],
                ir_version=9,
            ),
            tmp_path / f"m{number}.onnx",
        )
    models = [str(tmp_path / f"m{n}.onnx") for n in range(16)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tvm.driver.tvmc",
            "compile",
            "--farm",
            "ray",
            "--farm-address",
            cluster.address,
            "-o",
            str(tmp_path / "made"),
            *models,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 16
    for number in (0, 7, 15):
        package = tvm.driver.tvmc.TVMCPackage(str(tmp_path / "made" / f"m{number}.tar"))
        x = np.arange(number + 3, dtype="float32")
        result = tvm.driver.tvmc.run(package, "cpu", inputs={"x": x})
        np.testing.assert_allclose(result.get_output("output_0"), x * x if number % 2 else x + x)


def test_a_model_that_does_not_compile_costs_itself_alone(cluster, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    (tmp_path / "good.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) { add(%x, %x) }')
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tvm.driver.tvmc",
            "compile",
            "--farm",
            "ray",
            "--farm-address",
            cluster.address,
            "-o",
            str(tmp_path / "made"),
            str(tmp_path / "good.relay"),
            str(tmp_path / "bad.onnx"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "bad.onnx" in done.stderr


# The last test: a node is gone after it.
def test_a_node_that_is_killed_takes_no_record_with_it(cluster, tmp_path):
    path = tmp_path / "farm.json"

    def kill():
        while not path.exists() or len(path.read_text().splitlines()) < 4:
            time.sleep(0.05)
        cluster.remove_node(cluster.devices.pop(), allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = tune(farm_option(cluster), path, 40)
    killer.join()
    assert len(rows) == 40
    assert sum(row["result"][1] == 0 for row in rows) >= 36
    assert len({row["config"]["index"] for row in rows}) == 40
    # The cluster itself notices a while after the tasks of the node have failed.
    end = time.monotonic() + 120
    while ray_cluster.connect().cluster_resources()["tvm"] > 1 and time.monotonic() < end:
        time.sleep(0.2)
    assert ray_cluster.connect().cluster_resources()["tvm"] == 1
