"""A builder and a runner that work on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..tuning.ray_cluster import MeasuringNodes, RayPool, connect
from .measure import BuildResult, LocalBuilder, LocalRunner, MeasureInput, MeasureResult
from .search_task import SearchTask


class RayBuilder(LocalBuilder):
    """Builds on the CPUs of a Ray cluster, as many at once as it has.

    Parameters
    ----------
    timeout : float
        The seconds that a state may take.
    address : str
        The cluster's address; "auto" for the one that runs here or that RAY_ADDRESS names.

    Raises
    ------
    TVMError
        Where the package ``ray`` is missing, or no cluster answers.
    """

    def __init__(self, timeout: float = 15, address: str = "auto"):
        self._pool = RayPool(connect(address))
        super().__init__(timeout, self._pool.size)

    def _workers(self) -> RayPool:
        return self._pool


class RayRunner(LocalRunner):
    """Runs on the nodes of a Ray cluster that own the device, one state on each at a time. A state whose node has gone
    is measured on another.

    Parameters
    ----------
    address : str
        The cluster's address; "auto" for the one that runs here or that RAY_ADDRESS names.
    resource : str, optional
        What the nodes own that measure; "GPU" for GPUs and "tvm" for CPUs where it is not given. A node is started with
        it by ``ray start --resources='{"tvm": 1}'``.
    **timing
        How a state is timed, as ``LocalRunner`` takes it.
    """

    def __init__(self, address: str = "auto", resource: str | None = None, **timing: Any):
        super().__init__(**timing)
        self._nodes = MeasuringNodes(address, resource)

    def parallel(self, task: SearchTask) -> int:
        """How many nodes own the device."""
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
