"""Models on a device: memory, inputs and outputs across devices, packages, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import TVMError, relay
from tvm.contrib import graph_executor, graph_runtime
from tvm.contrib.debugger import debug_executor
from tvm.driver import tvmc
from tvm.driver.tvmc.model import TVMCModel
from tvm.testing import requires_opencl

pytestmark = requires_opencl.marks()


def model() -> tuple[tvm.IRModule, dict]:
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(4, 4, 3, 3))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), channels=4))
    y = relay.nn.batch_flatten(relay.concatenate([y, x], 1))
    weight = np.random.default_rng(3).standard_normal((4, 4, 3, 3)).astype("float32")
    return tvm.IRModule.from_expr(relay.Function([x, w], y)), {"w": weight}


def value(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 4, 6, 6)).astype("float32")


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype("float64")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    y = np.maximum(np.einsum("nchwij,ocij->nohw", windows, w.astype("float64")), 0)
    return np.concatenate([y, x], 1).reshape(1, -1)


@pytest.fixture(scope="module")
def built():
    mod, params = model()
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, "opencl", params=params), params["w"]


def close(got: np.ndarray, x: np.ndarray, w: np.ndarray) -> None:
    np.testing.assert_allclose(got, reference(x, w), rtol=1e-4, atol=1e-4)


def test_inputs_and_outputs_of_every_device(built):
    lib, w = built
    executor = graph_executor.GraphModule(lib["default"](tvm.cl(0)))
    for seed, where in enumerate((None, tvm.cpu(), tvm.cl(0))):
        x = value(seed)
        executor.set_input("x", x if where is None else tvm.nd.array(x, where))
        executor.run()
        out = executor.get_output(0)
        assert out.device == tvm.cl(0)
        close(out.numpy(), x, w)
        for device in (tvm.cpu(), tvm.cl(0)):
            close(executor.get_output(0, tvm.nd.empty(out.shape, out.dtype, device)).numpy(), x, w)


def test_arrays_used_where_they_lie(built):
    lib, w = built
    executor = graph_executor.GraphModule(lib["default"](tvm.cl(0)))
    x = tvm.nd.array(value(5), tvm.cl(0))
    out = tvm.nd.empty(executor.get_output(0).shape, "float32", tvm.cl(0))
    executor.set_input_zero_copy("x", x)
    executor.set_output_zero_copy(0, out)
    executor.run()
    close(out.numpy(), value(5), w)
    x[:] = value(6)
    executor.run()
    close(out.numpy(), value(6), w)


def test_exported_library_runs_and_is_exported_again(built, tmp_path):
    lib, w = built
    path = str(tmp_path / "model.so")
    lib.export_library(path)
    loaded = tvm.runtime.load_module(path)
    executor = graph_executor.GraphModule(loaded["default"](tvm.cl(0)))
    executor.run(x=value(7))
    close(executor.get_output(0).numpy(), value(7), w)
    kernels = loaded.imported_modules[0].imported_modules[0]
    assert kernels.type_key == "opencl" and "__kernel" in kernels.get_source()
    assert executor.benchmark(tvm.cl(0), repeat=2, number=1).min > 0


def test_wrong_device_is_refused_before_running(built):
    lib, _ = built
    with pytest.raises(TVMError, match=r"was built for opencl and cannot run on cpu\(0\)"):
        lib["default"](tvm.cpu())
    mod, params = model()
    with pytest.raises(TVMError, match=r"was built for cpu and cannot run on opencl\(0\)"):
        relay.build(mod, "llvm", params=params)["default"](tvm.cl(0))
    with pytest.raises(TVMError, match=r"opencl\(63\): the device does not exist"):
        lib["default"](tvm.cl(63))


def test_report_of_the_debug_executor(built):
    lib, _ = built
    executor = debug_executor.GraphModuleDebug(
        lib["debug_create"]("default", tvm.cl(0)), [tvm.cl(0)], lib.get_graph_json(), None
    )
    executor.set_input("x", value(1))
    assert "opencl" in str(executor.profile())


def test_quick_start_of_the_guides(tmp_path):
    mod, params = relay.testing.mlp.get_workload(batch_size=1, num_classes=10, image_shape=(1, 4, 4))
    with tvm.transform.PassContext(opt_level=3):
        graph, lib, params = relay.build_module.build(mod, "opencl", params=params)
    ctx = tvm.cl()
    data = np.random.uniform(-1, 1, size=(1, 1, 4, 4)).astype("float32")
    with pytest.warns(DeprecationWarning):
        module = graph_runtime.create(graph, lib, ctx)
    module.set_input("data", data)
    module.set_input(**params)
    module.run()
    out = module.get_output(0, tvm.nd.empty((1, 10))).asnumpy()
    assert abs(out.sum() - 1) < 1e-5 and (out > 0).all()
    lib.export_library(str(tmp_path / "deploy_lib.so"))
    (tmp_path / "deploy_param.params").write_bytes(relay.save_param_dict(params))
    loaded = tvm.runtime.load_module(str(tmp_path / "deploy_lib.so"))
    with pytest.warns(DeprecationWarning):
        module = graph_runtime.create(graph, loaded, ctx)
    module.load_params(bytearray((tmp_path / "deploy_param.params").read_bytes()))
    module.run(data=tvm.nd.array(data))
    np.testing.assert_allclose(module.get_output(0).asnumpy(), out, rtol=1e-5, atol=1e-6)


def test_tvmc_package(tmp_path):
    mod, params = model()
    package = tvmc.compile(
        TVMCModel(mod, {k: tvm.nd.array(v) for k, v in params.items()}), "opencl", package_path=str(tmp_path / "p.tar")
    )
    result = tvmc.run(package, device="cl", inputs={"x": value(9)})
    close(result.outputs["output_0"], value(9), params["w"])
    with pytest.raises(tvmc.TVMCException, match=r"was built for opencl and cannot run on cpu\(0\)"):
        tvmc.run(package, device="cpu", inputs={"x": value(9)})
