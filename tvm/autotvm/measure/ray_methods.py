"""A builder and a runner that work on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...target import Target
from ...tuning.ray_cluster import MeasuringNodes, RayPool, connect
from .measure import MeasureInput, MeasureResult
from .measure_methods import LocalBuilder, LocalRunner


class RayBuilder(LocalBuilder):
    """Builds on the CPUs of a Ray cluster, as many at once as it has.

    Parameters
    ----------
    timeout : float
        The most seconds for one candidate.
    address : str
        The cluster's address; "auto" for the one that runs here or that RAY_ADDRESS names.

    Raises
    ------
    TVMError
        Where the package ``ray`` is missing, or no cluster answers.
    """

    def __init__(self, timeout: float = 10, address: str = "auto"):
        self._pool = RayPool(connect(address))
        super().__init__(timeout, self._pool.size)

    def _workers(self) -> RayPool:
        return self._pool


class RayRunner(LocalRunner):
    """Runs on the nodes of a Ray cluster that own the device, one candidate on each at a time. A candidate whose node
    has gone is measured on another.

    Parameters
    ----------
    address : str
        The cluster's address; "auto" for the one that runs here or that RAY_ADDRESS names.
    resource : str, optional
        What the nodes own that measure; "GPU" for GPUs and "tvm" for CPUs where it is not given. A node is started with
        it by ``ray start --resources='{"tvm": 1}'``.
    **timing
        How a candidate is timed, as ``LocalRunner`` takes it.
    """

    def __init__(self, address: str = "auto", resource: str | None = None, **timing: Any):
        super().__init__(**timing)
        self._nodes = MeasuringNodes(address, resource)

    def set_task(self, task: Any) -> None:
        super().set_task(task)
        self.n_parallel = self._workers(task.target).size

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        with ThreadPoolExecutor(self.n_parallel) as threads:
            return list(threads.map(self._measure, measure_inputs, build_results))

    def _workers(self, target: Target) -> RayPool:
        return self._nodes.of(target)


__all__ = ["RayBuilder", "RayRunner"]
