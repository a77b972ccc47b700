"""The graph executor with times and outputs of individual nodes."""

from __future__ import annotations

import array
import json
import tempfile
import time
from statistics import median

from ...error import TVMError
from ...runtime import ndarray, num_threads, profiling
from ...runtime.benchmark import BenchmarkResult
from .. import graph_executor
from .debug_result import DebugResult


def create(graph_json_str: str, libmod, device, dump_root: str | None = None) -> GraphModuleDebug:
    """An executor that can show its nodes. A run writes its trace and the outputs of all nodes to a folder.

    Parameters
    ----------
    graph_json_str : str
        The graph as JSON.
    libmod : Module
        The compiled kernels.
    device : Device or list of Device
        The device.
    dump_root : str, optional
        The folder for traces and outputs; by default a temporary folder, which ``exit`` removes.

    Returns
    -------
    GraphModuleDebug
    """
    made = graph_executor.create(graph_json_str, libmod, device)
    return GraphModuleDebug(made.module, device, graph_json_str, dump_root, keep=libmod)


def _seconds(blob) -> array.array:
    values = array.array("d")
    values.frombytes(bytes(blob))
    return values


def _name(device) -> str:
    return f"{device}".replace("(", "").replace(")", "")


def _is_kernel(node: dict) -> bool:
    return node["op"] != "null" and node["attrs"]["func_name"] != "__nop"


class GraphModuleDebug(graph_executor.GraphModule):
    """An executor whose nodes can be run and read individually.

    Parameters
    ----------
    module : Module
        The executor, as a runtime module.
    device : Device or list of Device
        The device.
    graph_json_str : str
        The graph as JSON.
    dump_root : str, optional
        The folder for traces and outputs; by default a temporary folder, which ``exit`` removes.
    keep : optional
        Objects that must live as long as the executor.
    """

    def __init__(self, module, device, graph_json_str: str, dump_root: str | None, keep=None):
        super().__init__(module, keep)
        self.devices = list(device) if isinstance(device, (list, tuple)) else [device]
        self.device = self.devices[0]
        self.graph_json = graph_json_str
        self.graph = json.loads(graph_json_str)
        self._names = [node["name"] for node in self.graph["nodes"]]
        self._dump_root = dump_root
        self._temporary: tempfile.TemporaryDirectory | None = None
        self._datum: DebugResult | None = None

    @property
    def debug_datum(self) -> DebugResult:
        """The nodes of the graph, and the results of runs: times, outputs, and the files in the folder."""
        if self._datum is None:
            if self._dump_root is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="tvmdbg_")
            root = self._dump_root or self._temporary.name
            self._datum = DebugResult(self.graph_json, self.device, root)
        return self._datum

    @property
    def _dump_path(self) -> str:
        """The folder of the device."""
        return self.debug_datum.folder

    # ---- whole runs ----

    def run(
        self, number: int | None = 10, repeat: int = 1, min_repeat_ms: int = 1, limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1, sort_by_time: bool = True, **input_dict,
    ) -> None:  # fmt: skip
        """Run the model node by node, and store outputs and time of each node in ``debug_datum``.

        Parameters
        ----------
        number : int, optional
            The number of runs for timing each node separately, after which a table is printed; the other numbers are
            those of :py:meth:`run_individual`. None: nodes are not timed.
        repeat : int
            The number of measurements.
        min_repeat_ms : int
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int
            How often a repeat with a measured time of zero is lengthened.
        cooldown_interval_ms : int
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int
            The number of repeats between pauses.
        sort_by_time : bool
            Whether to list the slowest nodes first.
        **input_dict
            Inputs by name.
        """
        if input_dict:
            self.set_input(**input_dict)
        alone: list[list[float]] = []
        if number is not None:
            how = (repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown)
            alone = self._times_alone(number, *how)
            middle = [median(times) for times in alone]
            print(self._report(middle, sum(middle)).table(sort=sort_by_time, aggregate=False))
        results, seconds = {}, []
        rows = self.graph["node_row_ptr"]
        for number, name in enumerate(self._names):
            # Timed only once, because a node may overwrite its own input.
            start = time.perf_counter()
            self.module["execute_node"](number)
            seconds.append(time.perf_counter() - start)
            for k in range(rows[number + 1] - rows[number]):
                # Nodes share memory, so each output is copied before the next node runs.
                value = self.module["get_node_output"](number, k).numpy().copy()
                results[f"{name}____topo-index:{number}____output-num:{k}"] = ndarray.array(value)
        self.debug_datum.set_times(alone or [[took] for took in seconds])
        self.debug_datum.dump_output_tensor(results)
        self.debug_datum.dump_chrome_trace(self._report(seconds, sum(seconds)))

    def profile(self, collectors=None, rounds: int = 15, **input_dict) -> profiling.Report:
        """The time of every operator: medians over whole runs. ``Total`` is the median of runs without per-operator
        timing.

        ``collectors`` measure one further run; their metrics are reported with the device. If outputs are dumped, a
        page about the profile is also written.

        Parameters
        ----------
        collectors : list of MetricCollector, optional
            The collectors for a further run.
        rounds : int
            The number of runs.
        **input_dict
            Inputs by name.

        Returns
        -------
        Report
            The profile.
        """
        if input_dict:
            self.set_input(**input_dict)
        whole = self.module.time_evaluator("run", self.device, number=1, repeat=1)
        self._run()
        runs, totals = [], []
        for _ in range(rounds):  # alternating, so that other load slows both equally
            runs.append(_seconds(self.module["profile_run"]()))
            totals.append(whole().mean)
        report = self._report([median(column) for column in zip(*runs)], median(totals))
        for name, value in self._collect(collectors or ()).items():
            for row in report.device_metrics.values():
                row[name] = value
        if self._dump_root is not None:
            self.debug_datum.dump_profile_page(report)
        return report

    def _collect(self, collectors) -> dict:
        tokens = []
        for collector in collectors:
            collector.init([profiling.DeviceWrapper(self.device)])
            tokens.append(collector.start(self.device))
        if tokens:
            self._run()
        found: dict = {}
        for collector, token in zip(collectors, tokens):
            found.update(collector.stop(token) or {})
        return found

    def _report(self, seconds, total: float) -> profiling.Report:
        where = _name(self.device)
        calls = []
        for number, (node, took) in enumerate(zip(self.graph["nodes"], seconds)):
            if not _is_kernel(node):
                continue
            facts = {k: v for k, v in node["attrs"].items() if k.endswith("layout")}
            if "hash" in node["attrs"]:
                facts["Hash"] = node["attrs"]["hash"]
            if "source" in node["attrs"]:
                facts["Source"] = node["attrs"]["source"]
            calls.append(
                {
                    "Name": node["attrs"]["func_name"],
                    "Duration (us)": profiling.Duration(took * 1e6),
                    "Percent": profiling.Percent(100 * took / total if total else 0.0),
                    "Device": _name(self._device_of(number)),
                    "Count": profiling.Count(1),
                    "Argument Shapes": self._shapes(number),
                    **facts,
                }
            )
        device_row = {
            "Duration (us)": profiling.Duration(total * 1e6),
            "Percent": profiling.Percent(100.0),
            "Count": profiling.Count(1),
        }
        return profiling.Report(calls, {where: device_row}, {"Number of threads": num_threads(), "Executor": "Graph"})

    def _device_of(self, number: int):
        """Return the device on which a node runs."""
        kind = self.graph["attrs"]["device_index"][1][self.graph["node_row_ptr"][number]]
        return next((d for d in self.devices if d.device_type == kind), self.device)

    def _shapes(self, number: int) -> str:
        attrs, rows = self.graph["attrs"], self.graph["node_row_ptr"]
        shapes, dtypes = attrs["shape"][1], attrs["dltype"][1]
        entries = [rows[n] + k for n, k, _ in self.graph["nodes"][number]["inputs"]]
        entries += range(rows[number], rows[number + 1])
        return ", ".join(f"{dtypes[e]}[{', '.join(str(d) for d in shapes[e])}]" for e in entries)

    # ---- individual nodes ----

    def execute_node(self, node: int | str) -> None:
        """Run one node on the current contents of its inputs.

        Parameters
        ----------
        node : int or str
            Its index or name.
        """
        self.module["execute_node"](self._node(node))

    def get_node_output(self, node: int | str, out_ind: int = 0):
        """The contents of a node's output buffer, valid until a node that shares the memory runs.

        Parameters
        ----------
        node : int or str
            Its index or name.
        out_ind : int
            The index of the output.

        Returns
        -------
        NDArray
            The array.
        """
        return self.module["get_node_output"](self._node(node), out_ind)

    def debug_get_output(self, node, out=None):
        """The output of a node, after running everything before it.

        Parameters
        ----------
        node : int or str
            Its index or name.
        out : NDArray, optional
            An array to copy it into.

        Returns
        -------
        NDArray
            The result.
        """
        number = self._node(node)
        for i in range(number + 1):
            self.module["execute_node"](i)
        got = self.module["get_node_output"](number, 0)
        if out is not None:
            got.copyto(out)
            return out
        return got

    def run_individual(
        self, number: int, repeat: int = 1, min_repeat_ms: int = 0, limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1,
    ) -> list[float]:  # fmt: skip
        """The seconds of every node, run separately.

        Parameters
        ----------
        number : int
            The number of runs that are averaged.
        repeat : int
            The number of measurements, of which the median is used.
        min_repeat_ms : int
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int
            How often a repeat with a measured time of zero is lengthened.
        cooldown_interval_ms : int
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int
            The number of repeats between pauses.

        Returns
        -------
        list of float
            A time for each node.
        """
        how = (repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown)
        return [median(times) for times in self._times_alone(number, *how)]

    def _times_alone(self, number: int, *how: int) -> list[list[float]]:
        """Return the times of every node, run separately after a whole run."""
        self._run()
        return [list(self.run_individual_node(i, number, *how).results) for i in range(len(self._names))]

    def run_individual_node(
        self, index: int, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100, cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:  # fmt: skip
        """The mean seconds of ``number`` runs of a node, ``repeat`` times; ``number`` grows until one repeat is long
        enough.

        Parameters
        ----------
        index : int
            The index of the node.
        number : int
            The number of runs that are averaged.
        repeat : int
            The number of measurements.
        min_repeat_ms : int
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int
            How often a repeat with a measured time of zero is lengthened.
        cooldown_interval_ms : int
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int
            The number of repeats between pauses.

        Returns
        -------
        BenchmarkResult
            The times; those of an input are 0.

        Raises
        ------
        TVMError
            The node index is out of range.
        """
        if not 0 <= index < len(self._names):
            raise TVMError(f"run_individual_node: node index {index} is out of range; the graph has {len(self._names)}")
        if self.graph["nodes"][index]["op"] == "null":
            return BenchmarkResult([0.0] * repeat)
        at_once = min(repeat, repeats_to_cooldown) if cooldown_interval_ms else repeat
        unseen = 0
        while True:
            times: list[float] = []
            while len(times) < repeat:
                if times:
                    time.sleep(cooldown_interval_ms / 1e3)
                times += _seconds(self.module["time_node"](index, number, min(at_once, repeat - len(times))))
            unseen += min(times) == 0
            if min(times) * number * 1e3 >= min_repeat_ms or number >= 1 << 20 or unseen > limit_zero_time_iterations:
                return BenchmarkResult(times)
            number *= 2

    def _node(self, node: int | str) -> int:
        if isinstance(node, int):
            return node
        if node not in self._names:
            raise ValueError(f"unknown node '{node}'; the nodes are {', '.join(self._names[:20])}")
        return self._names.index(node)

    def exit(self) -> None:
        """Remove the temporary folder; a folder that the user specified is kept."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = self._datum = None


def profile(executor, graph_json_str: str, device) -> profiling.Report:
    """A report of the time of every operator of an executor.

    Parameters
    ----------
    executor : GraphModule
        The executor.
    graph_json_str : str
        The graph as JSON.
    device : Device or list of Device
        The device.

    Returns
    -------
    profiling.Report
    """
    return GraphModuleDebug(executor.module, device, graph_json_str, None, keep=executor).profile()
