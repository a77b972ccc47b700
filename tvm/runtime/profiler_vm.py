"""The profiling virtual machine, which measures the time of each kernel."""

from __future__ import annotations

from typing import Any

from . import profiling, vm_code
from .devices import Device
from .module import num_threads
from .vm import VirtualMachine


def enabled() -> bool:
    """Whether profiling of the virtual machine is available: always true.

    Returns
    -------
    bool
    """
    return True


class VirtualMachineProfiler(VirtualMachine):
    """A virtual machine that can measure the time of each kernel.

    Parameters
    ----------
    exe : Executable or Module
        The executable.
    device : Device or list of Device
        The devices on which it runs.
    memory_cfg : str or dict of Device to str, optional
        The allocator.
    """

    def __init__(self, exe: Any, device: Any, memory_cfg: Any = None):
        super().__init__(exe, device, memory_cfg)
        self.devices: list[Device] = list(device) if isinstance(device, (list, tuple)) else [device]

    def profile(self, *args, func_name: str = "main", collectors: Any = None, **kwargs) -> profiling.Report:
        """The time of every kernel in one run, in execution order.

        Parameters
        ----------
        args : optional
            Arguments by position.
        func_name : str, optional
            The function.
        collectors : list of MetricCollector, optional
            The collectors, which measure one further run; their metrics are reported with the device.
        kwargs : optional
            Arguments by name.

        Returns
        -------
        Report
        """
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        self._invoke(func_name)
        total = self.module.time_evaluator("invoke", self.devices[0], number=1)(func_name).mean * 1e6
        calls = [line.split("\t") for line in self.module["profile"](func_name).splitlines()]
        where = f"{self.devices[0]}".replace("(", "").replace(")", "")
        # Remote modules can also return their words.
        names = vm_code.from_words(self._executable["get_words"]()).kernels
        rows = [_row(names[int(kernel)], float(took), total, where, shapes) for kernel, took, shapes in calls]
        device_row: dict[str, Any] = {"Duration (us)": profiling.Duration(total), "Percent": profiling.Percent(100.0),
                                      "Count": profiling.Count(1)}  # fmt: skip
        device_row.update(self._collect(collectors or (), func_name))
        return profiling.Report(rows, {where: device_row}, {"Number of threads": num_threads(), "Executor": "VM"})

    def _collect(self, collectors: Any, func_name: str) -> dict[str, Any]:
        tokens = []
        for collector in collectors:
            collector.init([profiling.DeviceWrapper(d) for d in self.devices])
            tokens.append(collector.start(self.devices[0]))
        if tokens:
            self._invoke(func_name)
        found: dict[str, Any] = {}
        for collector, token in zip(collectors, tokens):
            found.update(collector.stop(token) or {})
        return found


def _row(name: str, took: float, total: float, where: str, shapes: str) -> dict[str, Any]:
    return {
        "Name": name,
        "Duration (us)": profiling.Duration(took),
        "Percent": profiling.Percent(100 * took / total if total else 0.0),
        "Device": where,
        "Count": profiling.Count(1),
        "Argument Shapes": shapes,
        "VM::Argument Shapes": shapes,
    }


__all__ = ["VirtualMachineProfiler", "enabled"]
