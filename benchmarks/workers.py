"""Programs of the benchmark of models: those of ``tvm.utils.peers``, and frameworks that build the models of the zoo.

A worker reads requests and writes answers as lines of JSON. It loads only the runtime of tvm unless our own program is
requested, so a worker may run in an environment that has only the peer.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from tvm.utils import rounds
from tvm.utils.peers import OURS, PROGRAMS, Maker, Program, answers, peak_bytes, serve
from tvm.utils.rounds import ROOT, WorkerFailed


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


def _torch_script(spec: dict, inputs: dict) -> Program:
    """Return the program that ``tvmc bench`` runs for torch: a saved traced model."""
    import torch

    from . import zoo

    case = zoo.Case(**spec["case"])
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        torch.jit.trace(zoo.build(case), zoo.tensors(case)).save(path)
        return PROGRAMS["torch"]({**spec, "model": path}, inputs)


def _jax(spec: dict, inputs: dict) -> Program:
    import warnings

    # XLA starts as many threads as the process has cores.
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


PEERS: dict[str, Maker] = {
    OURS: PROGRAMS[OURS],
    "onnxruntime": PROGRAMS["onnxruntime"],
    "openvino": PROGRAMS["openvino"],
    "torch": _torch_eager,
    "torch.compile": _torch_compile,
    "torchscript": _torch_script,
    "jax": _jax,
}
# Our code in another checkout.
BEFORE = "before"
# The frameworks that define the models; the other peers only run them.
FRAMEWORKS = ("torch", "torch.compile", "torchscript", "jax")
# The modules that a peer needs.
MODULES = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "torch": ("torch", "torchvision", "transformers"),
    "torch.compile": ("torch", "torchvision", "transformers"),
    "torchscript": ("torch", "torchvision", "transformers"),
    "jax": ("jax", "onnx"),
}


def main() -> None:
    """Serve the request of the argument (JSON)."""
    answer = answers()
    spec = json.loads(sys.argv[1])
    if spec["peer"] == "compile":
        from . import ours

        answer(ours.compile_case(spec))
    elif spec["peer"] in ("operators", "pair"):
        from . import ours

        getattr(ours, "serve_" + spec["peer"])(spec, answer)
    else:
        from . import zoo

        serve(PEERS[spec["peer"]], spec, zoo.sample(zoo.Case(**spec["case"])), answer)


class Worker(rounds.Worker):
    """A program of this file in its own process."""

    def __init__(self, spec: dict, python: str, environment: dict[str, str] | None = None):
        super().__init__(spec, python, environment, "benchmarks.workers", spec.get("tree") or ROOT)


def missing(peer: str, python: str) -> str:
    """Return the first module that ``peer`` needs and ``python`` does not have, or ""."""
    return rounds.missing(MODULES.get(peer, ()), python)


__all__ = [
    "BEFORE",
    "FRAMEWORKS",
    "MODULES",
    "OURS",
    "PEERS",
    "ROOT",
    "Worker",
    "WorkerFailed",
    "missing",
    "peak_bytes",
]

if __name__ == "__main__":
    main()
