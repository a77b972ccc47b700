"""A Ray cluster as the tuner's workers: candidates are compiled on any node and measured on those that own the device.

The tuner lowers; what travels are the messages of the worker processes (``tvm.runtime.measure.worker``), each as one
Ray task. Ray schedules the tasks, repeats those whose node has gone, and holds what they are made of. On its node a
task asks a worker process of ours, so that a candidate that crashes or takes too long costs that process alone.
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

# The resource that Ray counts on nodes with GPUs, and the one that nodes are started with on whose CPU candidates are
# measured.
GPU, CPU_DEVICE = "GPU", "tvm"
# Nodes may come and go; a cluster without any that owns the device for so long has none.
_SECONDS_WITHOUT_DEVICE = 60.0
# Tasks that wait for a node beside those that run: each node has its next one at hand.
_WAITING = 2


def _ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise TVMError("a farm of Ray needs the package ray: pip install 'tvm-classic[ray]'") from problem
    return ray


def connect(address: str = "auto") -> Any:
    """Ray's module, connected to a running cluster.

    Parameters
    ----------
    address : str
        The address of the cluster's head; "auto" for the one that runs on this machine or that RAY_ADDRESS names.

    Returns
    -------
    module

    Raises
    ------
    TVMError
        Where the package ``ray`` is missing, or no cluster answers.
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
class CodeFor:
    """What a machine must be to run code: its triple and the features the code may use."""

    triple: str
    features: tuple[str, ...]

    @staticmethod
    def of(target: Target) -> CodeFor | None:
        """The machine that the code of a CPU target is for; of others the driver on the node says it."""
        if not target.features.is_cpu:
            return None
        cpu = resolve_cpu(target)
        return CodeFor(cpu.triple, tuple(sorted(cpu.enabled)))

    def refusal(self) -> str:
        """Why this machine cannot run the code; empty where it can."""
        if not host_cpu.runs(self.triple):
            return f"the code is for {self.triple}, and the node that measures is {host_cpu.triple()}"
        missing = host_cpu.lacking(self.features)
        if missing:
            return (f"the CPU of the node that measures lacks {', '.join(missing)}, which the code uses; give the CPU "
                    "of the nodes, as in llvm -mcpu=...")
        return ""


def serve_here(message: dict[str, Any], payload: bytes, seconds: float, code: CodeFor | None) -> tuple:
    """One job on the node that Ray has given it to: ("done", message, bytes), or the kind and text of a failure."""
    refused = code.refusal() if code is not None else ""
    if refused:
        return "error", refused
    with tempfile.TemporaryDirectory(prefix="tvm_measure_") as folder:
        if message.get("filename"):
            # A library travels as its bytes: the nodes share no files.
            path = Path(folder, Path(message["filename"]).name)
            path.write_bytes(payload)
            message, payload = {**message, "filename": str(path)}, b""
        answer = ask(shared_pool(1), message, payload, seconds)
    if isinstance(answer, Failure):
        return answer.kind, str(answer)
    return "done", *answer


class RayPool:
    """The nodes of a cluster in the place of this machine's worker processes (``worker_pool.Pool``).

    ``resource`` is what a node must own to be given a job, one of it for each; without it a job takes a CPU of any
    node. ``code`` is checked on the node before a job that runs code.
    """

    def __init__(self, ray: Any, resource: str | None = None, code: CodeFor | None = None):
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
        """How many jobs the cluster can take at once."""
        name = self.resource or "CPU"
        return max(int(self.ray.cluster_resources().get(name, 0)), 1)

    @property
    def busy(self) -> bool:
        # An answer that is being given to its job still counts.
        with self._lock:
            return bool(self._pending)

    def submit(self, job: Job) -> None:
        """Give the job to the cluster; waits while it has more than it can take."""
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
        """Take in answers. Threads that wait do not keep each other from submitting."""
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
                # Another thread may have taken it.
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
        """End the run where no node owns the device any more."""
        now = time.monotonic()
        if self.resource is None or self.ray.cluster_resources().get(self.resource, 0) >= 1:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since > _SECONDS_WITHOUT_DEVICE:
            self.close()
            raise TVMError(without_device(self.resource))

    def close(self) -> None:
        """Give up the jobs that are not done."""
        with self._lock:
            for one in self._pending:
                self.ray.cancel(one)
            self._pending.clear()


def without_device(resource: str) -> str:
    """That a cluster cannot measure, and how it could."""
    how = "a node with a GPU" if resource == GPU else f"a node started with --resources='{{\"{resource}\": 1}}'"
    return f"no node of the Ray cluster owns '{resource}', which measuring needs: {how} is wanted"


class MeasuringNodes:
    """The nodes of a cluster that measure, for each target.

    Parameters
    ----------
    address : str
        The cluster's address.
    resource : str, optional
        What the nodes own that measure; "GPU" for GPUs and "tvm" for CPUs where it is not given.
    """

    def __init__(self, address: str = "auto", resource: str | None = None):
        self.address, self.resource = address, resource
        self._pools: dict[str, RayPool] = {}

    def of(self, target: Target) -> RayPool:
        """The nodes that measure code of a target; refused where there is no cluster, or no node owns the resource."""
        key = str(target)
        if key not in self._pools:
            ray = connect(self.address)
            resource = self.resource or (CPU_DEVICE if target.features.is_cpu else GPU)
            if ray.cluster_resources().get(resource, 0) < 1:
                raise TVMError(without_device(resource))
            self._pools[key] = RayPool(ray, resource, CodeFor.of(target))
        return self._pools[key]


__all__ = ["CPU_DEVICE", "GPU", "CodeFor", "MeasuringNodes", "RayPool", "connect", "serve_here", "without_device"]
