"""Compiles, runs and tunes a model with a package that this one knows nothing of."""

import json
import sys

import numpy as np

import tvm
from tvm import autotvm, relay, topi
from tvm.contrib import graph_executor


def model(rng):
    kernel, weight = (rng.standard_normal(shape).astype("float32") * 0.2 for shape in ((8, 3, 3, 3), (10, 8)))
    x = relay.var("x", shape=(1, 3, 9, 9))
    features = relay.nn.conv2d(x, relay.const(kernel), padding=(1, 1), kernel_size=(3, 3), channels=8)
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(features))
    body = relay.exp(relay.tanh(relay.abs(relay.nn.dense(pooled, relay.const(weight)))))

    def wanted(data):
        pooled = topi.testing.conv2d_nchw_python(data, kernel, 1, 1).mean((2, 3))
        return np.exp(np.tanh(np.abs(pooled @ weight.T)))

    return tvm.IRModule.from_expr(relay.Function([x], body)), wanted


def check(lib, data, wanted):
    device = tvm.device("acme")
    runner = graph_executor.GraphModule(lib["default"](device))
    runner.run(x=data)
    result = runner.get_output(0)
    assert result.device.device_type == sys.modules["acme"].DEVICE_TYPE
    np.testing.assert_allclose(result.numpy(), wanted(data), rtol=1e-4, atol=1e-5)


def main(records: str) -> None:
    # The package is found by the name of its target: nothing imports it here.
    assert "acme" not in sys.modules
    target = tvm.target.Target("acme")
    acme = sys.modules["acme"]
    rng = np.random.default_rng(5)
    mod, wanted = model(rng)
    data = rng.standard_normal((1, 3, 9, 9)).astype("float32")
    assert target.features.has_acme_unit and tvm.runtime.enabled("acme") and not tvm.runtime.enabled("nothing")
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        lib = relay.build(mod, target)
        tasks = autotvm.task.extract_from_program(mod, {}, target)
    assert acme.SEEN[:2] == ["pass", "build"]
    kernels = [n["name"] for n in json.loads(lib.get_graph_json())["nodes"] if n["op"] == "tvm_op"]
    assert [name for name in kernels if "tanh" in name and "fused_tanh" not in name] == [], kernels
    check(lib, data, wanted)
    assert sorted(task.name for task in tasks) == ["conv2d_nchw.acme", "dense.acme"]
    option = autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=1, timeout=60))
    for task in tasks:
        autotvm.tuner.GridSearchTuner(task).tune(3, option, callbacks=[autotvm.callback.log_to_file(records)])
    found = [result for _, result in autotvm.record.load_from_file(records)]
    assert len(found) == 6 and all(result.error_no == 0 for result in found), found
    with autotvm.apply_history_best(records), tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        check(relay.build(mod, target), data, wanted)
    print("compiled, run and tuned")


if __name__ == "__main__":
    main(sys.argv[1])
