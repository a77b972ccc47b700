"""A model in a separate process that is timed on request: with this package or another runtime.

    python -m tvm.utils.peers '{"peer": "onnxruntime", "model": "m.onnx", "inputs": "in.npz", "threads": 2}'

The process reads requests and writes replies as lines of JSON. It imports only the runtime of tvm and the requested
other runtime, so it can run in a Python environment without other packages. ``tvm.utils.rounds`` is the requesting
side.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

OURS = "tvm"


@dataclasses.dataclass
class Program:
    """A loaded model: ``run`` executes one inference and waits for it, ``result`` returns its first output.

    ``precision`` is the float type of the computation, if it differs from that of the model.
    """

    run: Callable[[], object]
    result: Callable[[], Any]
    version: str
    precision: str = "as is"


Maker = Callable[[dict, dict], Program]


def _device(spec: dict) -> str:
    return spec.get("device") or "cpu"


def _onnxruntime(spec: dict, inputs: dict) -> Program:
    import onnxruntime

    device = _device(spec)
    wanted = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device)
    if wanted not in onnxruntime.get_available_providers():
        raise RuntimeError(f"onnxruntime {onnxruntime.__version__} does not run on {device} here")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = spec["threads"]
    session = onnxruntime.InferenceSession(spec["model"], options, providers=[wanted])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return Program(
        lambda: session.run_with_iobinding(binding),
        lambda: binding.copy_outputs_to_cpu()[0],
        onnxruntime.__version__,
    )


def _openvino(spec: dict, inputs: dict) -> Program:
    import openvino

    if _device(spec) != "cpu":
        raise RuntimeError("the comparison with openvino supports CPUs only")
    precision = spec.get("precision") or "as is"
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(spec["threads"]),
        "INFERENCE_PRECISION_HINT": {"float16": "f16", "bfloat16": "bf16"}.get(precision, "f32"),
    }
    core = openvino.Core()
    model = core.read_model(spec["model"])
    # Dynamic dimensions have the sizes of the inputs.
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    version = openvino.__version__.partition("-")[0]
    return Program(request.infer, lambda: request.get_output_tensor(0).data, version, precision)


def _torch(spec: dict, inputs: dict) -> Program:
    import torch

    device = _device(spec)
    if not {"cpu": True, "cuda": torch.cuda.is_available()}.get(device):
        raise RuntimeError(f"torch {torch.__version__} does not run on {device} here")
    torch.set_num_threads(spec["threads"])
    torch.set_grad_enabled(False)
    model = torch.jit.load(spec["model"], map_location=device).eval()
    arguments = [torch.from_numpy(array).to(device) for array in inputs.values()]

    def run() -> Any:
        made = model(*arguments)
        if device != "cpu":
            torch.cuda.synchronize()
        return made

    def result() -> Any:
        made = run()
        return (made[0] if isinstance(made, (tuple, list)) else made).cpu().numpy()

    return Program(run, result, torch.__version__)


def _tvm(spec: dict, inputs: dict) -> Program:
    import tvm
    from tvm.contrib import graph_executor
    from tvm.driver.tvmc.model import TVMCPackage

    package = TVMCPackage(spec["package"])
    device = tvm.device(_device(spec), 0)
    if package.is_vm:
        return _on_machine(spec, package, device, inputs)
    module = graph_executor.create(package.graph, tvm.runtime.load_module(package.lib_path), device)
    module.load_params_from_file(package.params_path)
    module.set_input(**inputs)

    def run() -> None:
        module.run()
        if device.device_type != tvm.cpu(0).device_type:
            device.sync()

    return Program(
        module.run if _device(spec) == "cpu" else run,
        lambda: module.get_output(0).numpy(),
        tvm.__version__,
        spec.get("precision") or "as is",
    )


def _on_machine(spec: dict, package: Any, device: Any, inputs: dict) -> Program:
    """A package for the virtual machine."""
    import tvm

    machine = tvm.runtime.vm.VirtualMachine(package.executable, device)
    machine.set_input("main", **{name: tvm.nd.array(array, device) for name, array in inputs.items()})
    invoke = machine.module["invoke_stateful"]

    def run() -> None:
        invoke("main")
        if _device(spec) != "cpu":
            device.sync()

    return Program(run, lambda: machine.get_outputs()[0].numpy(), tvm.__version__, spec.get("precision") or "as is")


PROGRAMS: dict[str, Maker] = {OURS: _tvm, "onnxruntime": _onnxruntime, "openvino": _openvino, "torch": _torch}


def peak_bytes() -> int:
    """Return the peak resident size of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/status", encoding="utf-8") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def serve(make: Maker, spec: dict, inputs: dict, answer: Callable[[dict], None]) -> None:
    """Load a program, then serve requests: ``{"number": n}`` times n runs, ``{"save": path}`` writes its first
    output."""
    import numpy as np

    start = time.perf_counter()
    program = make(spec, inputs)
    program.run()
    answer({"load_s": time.perf_counter() - start, "version": program.version, "precision": program.precision})
    for line in sys.stdin:
        request = json.loads(line)
        if "save" in request:
            program.run()
            np.save(request["save"], np.array(program.result(), copy=True))
            answer({"peak_bytes": peak_bytes()})
            continue
        # The first run refills the caches and wakes the threads after the other programs have run.
        program.run()
        number = request["number"]
        start = time.perf_counter()
        for _ in range(number):
            program.run()
        answer({"seconds": (time.perf_counter() - start) / number, "peak_bytes": peak_bytes()})


def answers() -> Callable[[dict], None]:
    """Return the stream for replies, and redirect other output of the process to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(data: dict) -> None:
        channel.write(json.dumps(data) + "\n")
        channel.flush()

    return answer


def main() -> None:
    """Serve the program specified by the argument (JSON), with the arrays of its input file."""
    answer = answers()
    import numpy as np

    spec = json.loads(sys.argv[1])
    with np.load(spec["inputs"], allow_pickle=False) as archive:
        inputs = {name: np.ascontiguousarray(archive[name]) for name in archive.files}
    serve(PROGRAMS[spec["peer"]], spec, inputs, answer)


if __name__ == "__main__":
    main()
