"""A builder and a runner that use a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..tuning.ray_cluster import MeasuringNodes, RayPool, connect
from .measure import BuildResult, LocalBuilder, LocalRunner, MeasureInput, MeasureResult
from .search_task import SearchTask


class RayBuilder(LocalBuilder):
    """A builder that uses the CPUs of a Ray cluster, all of them in parallel.

    Parameters
    ----------
    timeout : float
        The time limit of a state in seconds.
    address : str
        The address of the cluster; "auto" means the cluster on this machine or in RAY_ADDRESS.

    Raises
    ------
    TVMError
        The package ``ray`` is missing, or no cluster responds.
    """

    def __init__(self, timeout: float = 15, address: str = "auto"):
        self._pool = RayPool(connect(address))
        super().__init__(timeout, self._pool.size)

    def _workers(self) -> RayPool:
        return self._pool


class RayRunner(LocalRunner):
    """A runner that uses the nodes of a Ray cluster with the device, one state at a time on each. If a node is lost,
    its state is measured on another one.

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

    def parallel(self, task: SearchTask) -> int:
        """Return the number of nodes with the device."""
        return self._workers(task).size

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        parallel = max((self.parallel(inp.task) for inp in measure_inputs), default=1)
        with ThreadPoolExecutor(parallel) as threads:
            pairs = zip(measure_inputs, build_results)
            return list(threads.map(lambda pair: self.measure(pair[0].task, pair[1].made), pairs))

    def _workers(self, task: SearchTask) -> RayPool:
        return self._nodes.of(task.target)


__all__ = ["RayBuilder", "RayRunner"]
