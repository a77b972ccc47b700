"""Models compiled for the graph executor or the virtual machine, and their manifests."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import relay
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType
from ...runtime.vm import Executable
from .module_sizes import sizes_of
from .vm_package import MAIN, kernel_calls, weights_of


class Built(NamedTuple):
    """A compiled model: its manifest entries, its kernels, their library, and its memory plan as text."""

    model: Any
    facts: dict[str, Any]
    kernels: list[Any]
    library: Any
    plan: str | None = None


def build_graph(
    mod, target, params, mod_name: str, progress, _, *, executor=None, runtime=None, workspace_pools=None
) -> Built:
    """Compile a model for the graph executor or the ahead-of-time executor."""
    factory = relay.build(
        mod, target=target, params=params, mod_name=mod_name, executor=executor, runtime=runtime,
        workspace_memory_pools=workspace_pools, progress=progress,
    )  # fmt: skip
    main = factory.ir_mod["main"]
    result = main.checked_type_.ret_type
    results = result.fields if hasattr(result, "fields") else [result]
    plan = factory.memory_plan.summary() if factory.memory_plan is not None else None
    facts = {
        "executor": factory.executor.name,
        "inputs": [
            {"name": p.name_hint, "shape": [int(d) for d in p.checked_type_.shape], "dtype": p.checked_type_.dtype}
            for p in main.params
        ],
        "outputs": [
            {"name": f"output_{i}", "shape": [int(d) for d in t.shape], "dtype": t.dtype} for i, t in enumerate(results)
        ],
    }
    return Built(factory, facts, list(factory.kernels), factory.get_lib(), plan)


def build_for_machine(mod, target, params, mod_name: str, progress, reason: str | None) -> Built:
    """Compile a model for the virtual machine; ``reason`` explains why the graph executor cannot run it."""
    compiler = relay.vm.VMCompiler()
    compiler.set_params(params)
    compiler.lower(mod, target, mod_name=mod_name, progress=progress)
    compiler.codegen(progress)
    executable = compiler.get_exec()
    typed = relay.transform.InferType()(mod)
    return Built(executable, _manifest_part(typed, executable, reason), compiler.kernels, executable.lib)


def _manifest_part(mod: Any, executable: Executable, reason: str | None) -> dict[str, Any]:
    """Return the manifest entries of an executable and its module."""
    main = mod[MAIN]
    code = executable.code
    names = {p.name for f in code.functions if f.name == MAIN for p in f.params}
    inputs = [_tensor(p.name_hint, p.checked_type_) for p in main.params if p.name_hint in names]
    outputs = [_tensor(f"output_{i}", t) for i, t in enumerate(_leaves(main.checked_type_.ret_type))]
    count, nbytes = weights_of(executable)
    return {
        "executor": "vm",
        "reason": reason,
        "inputs": inputs,
        "outputs": outputs,
        "kernels": dict(kernel_calls(executable)),
        "weights": {"count": count, "bytes": nbytes},
    }


def _leaves(t: Any) -> list[Any]:
    """Return the tensor types in nested tuples, in order."""
    found, stack = [], [t]
    while stack:
        one = stack.pop()
        if isinstance(one, TupleType):
            stack.extend(reversed(list(one.fields)))
        else:
            found.append(one)
    return found


def _tensor(name: str, t: Any) -> dict[str, Any]:
    if not isinstance(t, TensorType):
        return {"name": name, "shape": None, "dtype": str(t)}
    return {"name": name, "shape": sizes_of(t), "dtype": t.dtype}


__all__ = ["Built", "build_for_machine", "build_graph"]
