"""Tuning on a Ray cluster: candidates are compiled on any node and measured on the nodes with the device.

This process lowers the candidates. The messages of the worker processes (``tvm.runtime.measure.worker``) are sent as
Ray tasks. Ray schedules the tasks and repeats those of a lost node. On its node, a task uses a separate worker process,
so that a candidate that crashes or exceeds its time limit ends only that process.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..error import TVMError
from ..runtime import host_cpu
from ..target import Target
from ..target.cpu import resolve_cpu
from .candidate import ask
from .workers import Failure, Job, shared_pool

# The Ray resource of nodes with GPUs, and the resource of nodes whose CPU measures candidates.
GPU, CPU_DEVICE = "GPU", "tvm"
# Seconds without any node that has the device, after which the run ends.
_SECONDS_WITHOUT_DEVICE = 60.0
# Number of tasks that wait for a node in addition to those that run, so that each node can start its next task
# immediately.
_WAITING = 2


def _ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise TVMError("tuning on a Ray cluster needs the package ray: pip install 'tvm-classic[ray]'") from problem
    return ray


def connect(address: str = "auto") -> Any:
    """Connect to a running Ray cluster and return the Ray module.

    Parameters
    ----------
    address : str
        The address of the head node; "auto" means the cluster on this machine or in RAY_ADDRESS.

    Returns
    -------
    module

    Raises
    ------
    TVMError
        The package ``ray`` is missing, or no cluster responds.
    """
    ray = _ray()
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as problem:
            raise TVMError(
                f"no Ray cluster at '{address}' ({str(problem).splitlines()[0]}); start one with: ray start --head"
            ) from problem
    return ray


@dataclass(frozen=True)
class CodeRequirements:
    """The requirements of code on a machine: its target triple and the CPU features it may use."""

    triple: str
    features: tuple[str, ...]

    @staticmethod
    def of(target: Target) -> CodeRequirements | None:
        """Return the requirements of code for a CPU target; for other targets, the driver on the node checks them."""
        if not target.features.is_cpu:
            return None
        cpu = resolve_cpu(target)
        return CodeRequirements(cpu.triple, tuple(sorted(cpu.enabled)))

    def refusal(self) -> str:
        """Return the reason why this machine cannot run the code; empty if it can."""
        if not host_cpu.runs(self.triple):
            return f"the code is for {self.triple}, and the node that measures is {host_cpu.triple()}"
        missing = host_cpu.lacking(self.features)
        if missing:
            return (
                f"the CPU of the node that measures lacks {', '.join(missing)}, which the code uses; give the CPU "
                "of the nodes, as in llvm -mcpu=..."
            )
        return ""


def serve_here(message: dict[str, Any], payload: bytes, seconds: float, code: CodeRequirements | None) -> tuple:
    """Run a job on the node that Ray selected. Return ("done", message, bytes), or the kind and text of a failure."""
    refused = code.refusal() if code is not None else ""
    if refused:
        return "error", refused
    with tempfile.TemporaryDirectory(prefix="tvm_measure_") as folder:
        if message.get("filename"):
            # A library is sent as bytes, because the nodes share no files.
            path = Path(folder, Path(message["filename"]).name)
            path.write_bytes(payload)
            message, payload = {**message, "filename": str(path)}, b""
        answer = ask(shared_pool(1), message, payload, seconds)
    if isinstance(answer, Failure):
        return answer.kind, str(answer)
    return "done", *answer


class RayPool:
    """The nodes of a cluster, with the interface of a pool of local worker processes (``worker_pool.Pool``).

    ``resource`` is the Ray resource that a node needs for each job; without it a job uses a CPU of any node. ``code``
    is checked on the node before a job that runs code.
    """

    def __init__(self, ray: Any, resource: str | None = None, code: CodeRequirements | None = None):
        self.ray, self.resource, self.code = ray, resource, code
        if resource == GPU:
            needs: dict[str, Any] = {"num_cpus": 0, "num_gpus": 1}
        elif resource is not None:
            needs = {"num_cpus": 0, "resources": {resource: 1}}
        else:
            needs = {"num_cpus": 1}
        self._task = ray.remote(serve_here).options(**needs, max_retries=3)
        self._pending: dict[Any, Job] = {}
        self._lock = threading.RLock()
        self._missing_since: float | None = None

    @property
    def size(self) -> int:
        """Return the number of jobs that the cluster can run at once."""
        name = self.resource or "CPU"
        return max(int(self.ray.cluster_resources().get(name, 0)), 1)

    @property
    def busy(self) -> bool:
        # An answer that is being delivered to its job still counts.
        with self._lock:
            return bool(self._pending)

    def submit(self, job: Job) -> None:
        """Submit a job to the cluster; block while its queue is full."""
        while len(self._pending) >= self.size + _WAITING:
            self.poll(0.5)
        file = job.message.get("filename")
        payload = Path(file).read_bytes() if file else job.payload
        with self._lock:
            self._pending[self._task.remote(job.message, payload, job.seconds, self.code)] = job

    def finish(self) -> None:
        """Wait until no job is left."""
        while self.busy:
            self.poll(0.5)

    def poll(self, seconds: float = 0.0) -> None:
        """Process answers. Threads that wait here do not prevent each other from submitting."""
        with self._lock:
            waiting = list(self._pending)
        if not waiting:
            return
        if self.ray.wait(waiting, num_returns=1, timeout=seconds)[0]:
            done = self.ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]
        else:
            done = []
            self._check_device()
        with self._lock:
            for one in done:
                # Another thread may have processed it already.
                job = self._pending.get(one)
                if job is not None:
                    job.done(self._answer(one))
                    del self._pending[one]

    def _answer(self, one: Any) -> Any:
        try:
            kind, *rest = self.ray.get(one)
        except self.ray.exceptions.RayError as problem:
            return Failure("crash", f"was lost with its node: {str(problem).splitlines()[0]}")
        return tuple(rest) if kind == "done" else Failure(kind, rest[0])

    def _check_device(self) -> None:
        """End the run if no node has the device any more."""
        now = time.monotonic()
        if self.resource is None or self.ray.cluster_resources().get(self.resource, 0) >= 1:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since > _SECONDS_WITHOUT_DEVICE:
            self.close()
            raise TVMError(missing_device_message(self.resource))

    def close(self) -> None:
        """Cancel the jobs that are not done."""
        with self._lock:
            for one in self._pending:
                self.ray.cancel(one)
            self._pending.clear()


def missing_device_message(resource: str) -> str:
    """Return the message for a cluster without the device, with the remedy."""
    how = "a node with a GPU" if resource == GPU else f"a node started with --resources='{{\"{resource}\": 1}}'"
    return f"no node of the Ray cluster owns '{resource}', which measuring needs: {how} is wanted"


class MeasuringNodes:
    """The nodes of a cluster that measure, for each target.

    Parameters
    ----------
    address : str
        The address of the cluster.
    resource : str, optional
        The Ray resource of the nodes that measure; "GPU" for GPUs and "tvm" for CPUs by default.
    """

    def __init__(self, address: str = "auto", resource: str | None = None):
        self.address, self.resource = address, resource
        self._pools: dict[str, RayPool] = {}

    def of(self, target: Target) -> RayPool:
        """Return the nodes that measure code for a target. Report an error if there is no cluster or no node has the
        resource."""
        key = str(target)
        if key not in self._pools:
            ray = connect(self.address)
            resource = self.resource or (CPU_DEVICE if target.features.is_cpu else GPU)
            if ray.cluster_resources().get(resource, 0) < 1:
                raise TVMError(missing_device_message(resource))
            self._pools[key] = RayPool(ray, resource, CodeRequirements.of(target))
        return self._pools[key]


__all__ = [
    "CPU_DEVICE", "GPU", "CodeRequirements", "MeasuringNodes", "RayPool", "connect", "missing_device_message",
    "serve_here",
]  # fmt: skip
