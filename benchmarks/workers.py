"""One timed program per process, whatever Python it needs: the side that runs, and the side that asks.

The worker reads requests and writes answers as lines of JSON. Nothing of tvm is imported unless our own program is
asked for, so a worker may run in an environment that only has the peer.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS = "tvm"


# ---- the side that runs ----


@dataclasses.dataclass
class Program:
    """A loaded model: ``run`` is one inference on the sample, ``result`` its first output."""

    run: Callable[[], object]
    result: Callable[[], Any]
    version: str


def _onnxruntime(spec: dict, inputs: dict) -> Program:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = spec["threads"]
    session = onnxruntime.InferenceSession(spec["model"], options, providers=["CPUExecutionProvider"])
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

    core = openvino.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(spec["threads"]),
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(core.read_model(spec["model"]), "CPU", settings).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return Program(request.infer, lambda: request.get_output_tensor(0).data, openvino.__version__.partition("-")[0])


def _torch_program(spec: dict, compiled: bool) -> Program:
    import torch

    from . import zoo

    torch.set_num_threads(spec["threads"])
    case = zoo.Case(**spec["case"])
    model = zoo.build(case)
    arguments = zoo.tensors(case)
    if case.is_nhwc:
        model = model.to(memory_format=torch.channels_last)
    torch.set_grad_enabled(False)
    if compiled:
        import torch._inductor.config as config

        config.freezing = True
        model = torch.compile(model)
    return Program(lambda: model(*arguments), lambda: model(*arguments).numpy(), torch.__version__)


def _torch_eager(spec: dict, inputs: dict) -> Program:
    return _torch_program(spec, compiled=False)


def _torch_compile(spec: dict, inputs: dict) -> Program:
    return _torch_program(spec, compiled=True)


def _jax(spec: dict, inputs: dict) -> Program:
    import warnings

    # XLA takes as many threads as the process may use cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: spec["threads"]])
    warnings.filterwarnings("ignore", message=".*int64.*")
    import jax

    from . import onnx_jax

    function, weights = onnx_jax.load(spec["model"])
    weights, data = jax.device_put(weights), jax.device_put(inputs)
    compiled = jax.jit(function).lower(weights, data).compile()
    return Program(
        lambda: compiled(weights, data).block_until_ready(), lambda: compiled(weights, data), jax.__version__
    )


def _tvm(spec: dict, inputs: dict) -> Program:
    import tvm
    from tvm.contrib import graph_executor
    from tvm.driver.tvmc.model import TVMCPackage

    package = TVMCPackage(spec["package"])
    module = graph_executor.create(package.graph, tvm.runtime.load_module(package.lib_path), tvm.cpu(0))
    module.load_params(package.params)
    module.set_input(**inputs)
    return Program(module.run, lambda: module.get_output(0).numpy(), tvm.__version__)


PEERS: dict[str, Callable[[dict, dict], Program]] = {
    OURS: _tvm,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "torch": _torch_eager,
    "torch.compile": _torch_compile,
    "jax": _jax,
}
# What models are written in; the other peers only run them.
FRAMEWORKS = ("torch", "torch.compile", "jax")
# What an environment needs for a peer.
MODULES = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "torch": ("torch", "torchvision", "transformers"),
    "torch.compile": ("torch", "torchvision", "transformers"),
    "jax": ("jax", "onnx"),
}


def peak_bytes() -> int:
    """The largest resident size of this process so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _serve(spec: dict, answer: Callable[[dict], None]) -> None:
    import numpy as np

    from . import zoo

    inputs = zoo.sample(zoo.Case(**spec["case"]))
    start = time.perf_counter()
    program = PEERS[spec["peer"]](spec, inputs)
    program.run()
    answer({"load_s": time.perf_counter() - start, "version": program.version})
    for line in sys.stdin:
        request = json.loads(line)
        if "save" in request:
            program.run()
            np.save(request["save"], np.array(program.result(), copy=True))
            answer({"peak_bytes": peak_bytes()})
            continue
        # The first run refills the caches and wakes the threads after the others had the machine.
        program.run()
        number = request["number"]
        start = time.perf_counter()
        for _ in range(number):
            program.run()
        answer({"seconds": (time.perf_counter() - start) / number})


def main() -> None:
    """Serve what the argument (JSON) asks for; libraries that print do so on the error stream."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spec = json.loads(sys.argv[1])

    def answer(data: dict) -> None:
        channel.write(json.dumps(data) + "\n")
        channel.flush()

    if spec["peer"] == "compile":
        from . import ours

        answer(ours.compile_case(spec))
    elif spec["peer"] in ("operators", "pair"):
        from . import ours

        getattr(ours, "serve_" + spec["peer"])(spec, answer)
    else:
        _serve(spec, answer)


# ---- the side that asks ----


class WorkerFailed(RuntimeError):
    """A worker ended or could not start."""


class Worker:
    """A program in a process of its own, which is stopped whenever it is not asked for anything."""

    def __init__(self, spec: dict, python: str, environment: dict[str, str] | None = None):
        self.name = spec["peer"]
        self.log = open(os.path.join(spec["folder"], self.name + ".log"), "w+")
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.workers", json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
        self.facts: dict = {}

    def first(self) -> dict:
        """Wait until it is loaded."""
        self.facts = self._answer()
        self.stop()
        return self.facts

    def _answer(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.log.seek(0)
        lines = [text.strip() for text in self.log.read().splitlines() if text.strip()]
        raise WorkerFailed(f"{self.name}: " + (lines[-1] if lines else f"ended with {self.process.returncode}"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, **request) -> dict:
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        got = self._answer()
        self.stop()
        return got

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


def missing(peer: str, python: str) -> str:
    """The first module that ``peer`` needs and ``python`` does not have; nothing where all are there."""
    names = MODULES.get(peer, ())
    code = f"import importlib.util as u; print(*[n for n in {names!r} if u.find_spec(n) is None][:1])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return python
    return done.stdout.strip()


if __name__ == "__main__":
    main()
