"""Estimates of the run time of modules: by measurement, by a registered function, or by a formula for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType
from ...ir.visit import post_order
from ...runtime.devices import Device, device
from ...runtime.ndarray import array
from ...runtime.registry import get_global_func
from ...runtime.vm import VirtualMachine
from ...target.backend import find_backend
from ...target.target import Target
from ..expr import Call, Function

# The number of runs that are averaged for one result, the number of results, and the duration of the runs before them.
MEASURE_NUMBER = 20
MEASURE_REPEAT = 5
WARMUP_MIN_REPEAT_MS = 250


def arg_for(arg_type: Any, device: Device) -> Any:
    """Return a random value of a type.

    Parameters
    ----------
    arg_type : TensorType or TupleType
        The type, with a static shape.
    device : Device
        The device of the value.

    Returns
    -------
    NDArray or list
    """
    if isinstance(arg_type, TupleType):
        return [arg_for(field, device) for field in arg_type.fields]
    if not isinstance(arg_type, TensorType):
        raise TVMError(f"arg_for: a value of type {arg_type} cannot be created")
    shape, dtype = tuple(int(d) for d in arg_type.shape), str(arg_type.dtype)
    rng = np.random.default_rng(0)
    if dtype.startswith(("int", "uint")):
        return array(rng.integers(0, 100, shape).astype(dtype), device)
    if dtype == "bool":
        return array(rng.integers(0, 2, shape).astype(bool), device)
    return array(rng.uniform(-1, 1, shape).astype(dtype), device)


def vm_estimate_seconds(device: Device, the_vm: VirtualMachine, func_name: str, args: Mapping[str, Any]) -> float:
    """Measure a function of a virtual machine.

    Parameters
    ----------
    device : Device
        The device whose clock is used.
    the_vm : VirtualMachine
        The virtual machine.
    func_name : str
        The function.
    args : dict of str to NDArray
        The arguments by name.

    Returns
    -------
    float
        The median run time in seconds.
    """
    the_vm.benchmark(device, repeat=1, number=1, min_repeat_ms=WARMUP_MIN_REPEAT_MS, func_name=func_name, **args)
    found = the_vm.benchmark(device, repeat=MEASURE_REPEAT, number=MEASURE_NUMBER, func_name=func_name, **args)
    return float(found.median)


def estimate_seconds(mod: IRModule, target: Target) -> float:
    """Compile a module and measure its function ``main`` with random inputs.

    Parameters
    ----------
    mod : IRModule
        The module.
    target : Target
        The target, or the target of a code generator with the target of the other operators as its host.

    Returns
    -------
    float
        The median run time in seconds.
    """
    from .. import vm

    if find_backend(target) is None:
        if target.host is None:
            raise TVMError(f"estimate_seconds: target '{target}' of a code generator needs a host target")
        target = target.host
    where = device(target.get_target_device_type(), 0)
    machine = VirtualMachine(vm.compile(mod, target), where)
    args = {p.name_hint: arg_for(p.checked_type, where) for p in mod["main"].params}
    return vm_estimate_seconds(where, machine, "main", args)


class CostEstimator:
    """Estimates run times by measurement (``estimate_seconds``)."""

    def estimate(self, mod: IRModule, target: Target) -> float:
        """Return the run time of the function ``main`` in seconds.

        Parameters
        ----------
        mod : IRModule
            The module.
        target : Target
            As for ``estimate_seconds``.

        Returns
        -------
        float
        """
        return estimate_seconds(mod, target)


class MockCostEstimator(CostEstimator):
    """Estimates run times for tests: a constant for each operator.

    Parameters
    ----------
    target_costs : dict of str to int
        The seconds of one operator by target kind.
    max_estimates : int, optional
        The maximum number of estimates; 0: no limit.
    """

    def __init__(self, target_costs: Mapping[str, int], max_estimates: int = 0):
        self.target_costs, self.max_estimates, self.estimates = dict(target_costs), max_estimates, 0

    def estimate(self, mod: IRModule, target: Target) -> float:
        """Return the number of operators times the cost of the target."""
        self.estimates += 1
        if 0 < self.max_estimates < self.estimates:
            raise TVMError(f"MockCostEstimator: more than {self.max_estimates} estimates")
        functions = [f for f in mod.functions.values() if isinstance(f, Function)]
        calls = [e for f in functions for e in post_order(f) if isinstance(e, Call) and isinstance(e.op, Op)]
        return float(self.target_costs[target.kind.name] * len(calls))


class CustomCostEstimator(CostEstimator):
    """Estimates run times with a global function ``(mod, target) -> float``.

    Parameters
    ----------
    py_fn_estimator : str, optional
        The name of the function.
    """

    def __init__(self, py_fn_estimator: str = "tvm.relay.collage.estimate_seconds_custom"):
        self.function = get_global_func(py_fn_estimator)

    def estimate(self, mod: IRModule, target: Target) -> float:
        """Return the result of the function."""
        return float(self.function(mod, target))


__all__ = [
    "MEASURE_NUMBER",
    "MEASURE_REPEAT",
    "WARMUP_MIN_REPEAT_MS",
    "CostEstimator",
    "CustomCostEstimator",
    "MockCostEstimator",
    "arg_for",
    "estimate_seconds",
    "vm_estimate_seconds",
]
