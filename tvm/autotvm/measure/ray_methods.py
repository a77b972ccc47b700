"""A builder and a runner that use a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...target import Target
from ...tuning.ray_cluster import MeasuringNodes, RayPool, connect
from .measure import MeasureInput, MeasureResult
from .measure_methods import LocalBuilder, LocalRunner


class RayBuilder(LocalBuilder):
    """A builder that uses the CPUs of a Ray cluster, all of them in parallel.

    Parameters
    ----------
    timeout : float
        The time limit of a candidate in seconds.
    address : str
        The address of the cluster; "auto" means the cluster on this machine or in RAY_ADDRESS.

    Raises
    ------
    TVMError
        The package ``ray`` is missing, or no cluster responds.
    """

    def __init__(self, timeout: float = 10, address: str = "auto"):
        self._pool = RayPool(connect(address))
        super().__init__(timeout, self._pool.size)

    def _workers(self) -> RayPool:
        return self._pool


class RayRunner(LocalRunner):
    """A runner that uses the nodes of a Ray cluster with the device, one candidate at a time on each. If a node is
    lost, its candidate is measured on another one.

    Parameters
    ----------
    address : str
        The address of the cluster; "auto" means the cluster on this machine or in RAY_ADDRESS.
    resource : str, optional
        The Ray resource of the nodes that measure; "GPU" for GPUs and "tvm" for CPUs by default. Start a node with it
        by ``ray start --resources='{"tvm": 1}'``.
    **timing
        The timing options of ``LocalRunner``.
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
