"""Packages for the virtual machine: their manifest and their execution."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...dtype import info as dtype_info
from ...runtime import ndarray
from ...runtime.benchmark import BenchmarkResult
from ...runtime.container import ADT
from ...runtime.ndarray import NDArray
from ...runtime.profiler_vm import VirtualMachineProfiler
from ...runtime.vm import Executable, VirtualMachine
from ...runtime.vm_code import OPCODES, dtype_of_word
from .dynamic_dims import Dims
from .errors import TVMCException
from .model import TVMCPackage

# The name of the function that contains a model.
MAIN = "main"


class Value(NamedTuple):
    """An input or an output; its dimensions may be dynamic."""

    name: str
    sizes: Dims
    dtype: str


class VMFacts(NamedTuple):
    """The contents of a package: ``kernels`` counts the calls of each kernel in the code, ``outputs`` is empty if their
    types are only known at run time."""

    inputs: list[Value]
    outputs: list[Value]
    kernels: Counter[str]
    weights: int
    weight_bytes: int


def weights_of(executable: Executable) -> tuple[int, int]:
    """Return the number of constants of an executable and their size in bytes."""
    arrays = [a for a in executable._arrays() if a is not None]
    return len(arrays), sum(math.prod(a.shape) * ((dtype_info(a.dtype).bits + 7) // 8) for a in arrays)


def kernel_calls(executable: Executable) -> Counter[str]:
    """Return how often the code contains a call of each kernel; loops may execute a call more often."""
    code, call = executable.code, OPCODES["invoke_packed"]
    calls = Counter(one.operands[0] for f in code.functions for one in f.code if one.opcode == call)
    return Counter({code.kernels[number]: count for number, count in calls.items()})


# ---- contents of a package ----


def facts_of(package: TVMCPackage) -> VMFacts:
    """The facts of a package, from its manifest or else from its library.

    Raises
    ------
    TVMCException
        The package is damaged.
    """
    if not package.manifest:
        return _from_code(package.executable)
    try:
        said, weights = package.manifest, package.manifest["weights"]
        return VMFacts(
            [_value(v) for v in said["inputs"]],
            [_value(v) for v in said["outputs"]],
            Counter({str(k): int(n) for k, n in said["kernels"].items()}),
            int(weights["count"]),
            int(weights["bytes"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise TVMCException(
            f"the package {package.package_path} is damaged: its manifest has no {problem}"
            if isinstance(problem, KeyError)
            else f"the package {package.package_path} is damaged: {problem}"
        ) from problem


def _value(said: Mapping) -> Value:
    sizes = said["shape"]
    if sizes is not None and not all(d is None or isinstance(d, str) or type(d) is int and d >= 0 for d in sizes):
        raise ValueError(f"the shape {sizes} of '{said['name']}'")
    return Value(str(said["name"]), sizes, str(said["dtype"]))


def _from_code(executable: Executable) -> VMFacts:
    function = next((f for f in executable.code.functions if f.name == MAIN), None)
    if function is None:
        raise TVMCException(
            f"the package does not define the function {MAIN}; it defines {', '.join(executable.globals)}"
        )
    # Dimensions with the same number below -1 are equal.
    inputs = [
        Value(
            p.name,
            [d if d >= 0 else None if d == -1 else f"size_{-d - 2}" for d in p.type[1:]],
            dtype_of_word(p.type[0]),
        )
        if p.type
        else Value(p.name, None, "no tensor")
        for p in function.params
    ]
    return VMFacts(inputs, [], kernel_calls(executable), *weights_of(executable))


def inputs_of(package: TVMCPackage) -> tuple[dict[str, Dims], dict[str, str]]:
    """Return dimensions and types of the inputs; raise an error for an input that is not a tensor, because files
    contain only tensors."""
    values = facts_of(package).inputs
    for value in values:
        if value.sizes is None:
            raise TVMCException(
                f"input '{value.name}' has type {value.dtype}; tvmc only supports tensors, use "
                "tvm.runtime.vm.VirtualMachine"
            )
    return {v.name: v.sizes for v in values}, {v.name: v.dtype for v in values}


# ---- running ----


class Runner:
    """A package loaded on a machine; inputs are kept until others are set."""

    def __init__(self, library: Any, device: Any, profiled: bool = False):
        self.device = device
        self.machine = (VirtualMachineProfiler if profiled else VirtualMachine)(library, device)

    def set_inputs(self, data: Mapping[str, Any], dtypes: Mapping[str, str]) -> None:
        """Set inputs by name, converted to the types of the model."""
        self.data = [value.astype(dtypes[name], copy=False) for name, value in data.items()]
        self.copy_inputs()

    def copy_inputs(self) -> None:
        """Copy the inputs to the device, which may be remote."""
        self.machine.set_input(MAIN, *(ndarray.array(value, self.device) for value in self.data))

    def outputs(self) -> dict[str, Any]:
        """Run the model once and return its output tensors by name, in order."""
        self.machine.invoke_stateful(MAIN)
        found = []
        stack = list(reversed(self.machine.get_outputs()))
        while stack:
            one = stack.pop()
            if isinstance(one, ADT):
                stack.extend(reversed(list(one)))
            elif isinstance(one, NDArray):
                found.append(one.numpy())
            else:
                raise TVMCException(
                    f"the model returns {type(one).__name__}, but tvmc only supports tensors; use "
                    "tvm.runtime.vm.VirtualMachine"
                )
        return {f"output_{i}": array for i, array in enumerate(found)}

    def benchmark(self, repeat: int, number: int, end_to_end: bool) -> BenchmarkResult:
        """Measure whole runs; ``end_to_end`` includes copying inputs and outputs."""
        if not end_to_end:
            return self.machine.benchmark(self.device, repeat=repeat, number=number)
        results = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                self.copy_inputs()
                self.outputs()
            results.append((time.perf_counter() - start) / number)
        return BenchmarkResult(results)


__all__ = ["MAIN", "Runner", "VMFacts", "Value", "facts_of", "inputs_of", "kernel_calls", "weights_of"]
