"""Compute the section ``memory`` of Model Library Format metadata: memory use of the model, its kernels and its
graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..codegen.c.names import clean
from ..error import TVMError
from ..ir.tensor_type import TensorType
from ..relay.backend.aot.c_interface import Interface
from ..relay.backend.executor_factory import AOTExecutorFactoryModule
from ..relay.backend.function_info import FunctionInfo
from ..relay.backend.program import byte_size
from ..relay.symbolic import flatten_type, has_dynamic_dims
from .graph_storage import block_sizes, entries_of


class NonStaticShapeError(TVMError):
    """A model has dynamic shapes."""


def memory_of(model: Any, main_name: str) -> dict[str, Any]:
    """Return the section ``memory`` of the metadata of a model.

    Parameters
    ----------
    model : ExecutorFactoryModule
        The model.
    main_name : str
        The name of the whole model in its function metadata.

    Returns
    -------
    dict
        The sizes in bytes of workspace, inputs, outputs and constants, of the model and of each kernel. For the graph
        executor, also the storage of intermediate values.
    """
    inputs, outputs = _interface(model)
    functions = model.function_metadata
    main = _main_entries(functions[main_name], _planned_workspace(model))
    main[0].update(inputs=inputs, outputs=outputs)
    kernels = [
        {"function_name": name, **_kernel_entries(info)} for name, info in functions.items() if name != main_name
    ]
    memory: dict[str, Any] = {"functions": {"main": main, "operator_functions": kernels}}
    if model.executor.name == "graph":
        memory["sids"] = _storage(json.loads(model.get_graph_json()), set(model.get_params()))
    return memory


def memory_of_functions(programs: Mapping[Any, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the section ``memory`` of the metadata of a module that ``tvm.build`` returned.

    Parameters
    ----------
    programs : dict of Target to IRModule
        The lowered functions.

    Returns
    -------
    dict of str to list of dict
        The tensors of each function, in the order of its parameters.
    """
    memory: dict[str, list[dict[str, Any]]] = {}
    for functions in programs.values():
        for var, function in functions.functions.items():
            for param, buffer in function.buffer_map.items():
                of_type = TensorType(buffer.shape, buffer.dtype)
                if has_dynamic_dims(of_type):
                    raise NonStaticShapeError(f"function '{var.name_hint}': '{buffer.name}' has a dynamic shape")
                memory.setdefault(var.name_hint, []).append({
                    "size_bytes": byte_size(of_type), "shape": [int(d) for d in buffer.shape], "dtype": buffer.dtype,
                    "input_binding": param.name,
                })  # fmt: skip
    return memory


def workspace_pools_of(interface: Interface) -> list[dict[str, Any]]:
    """Return the memory pools that a caller of the C interface must pass to the model.

    Parameters
    ----------
    interface : Interface
        The interface of the model.

    Returns
    -------
    list of dict
        The name, the name in C, the size and the alignment of each pool.
    """
    return [
        {"name": pool.name, "c_name": name, "size_bytes": pool.nbytes, "alignment": pool.alignment}
        for pool, name in zip(interface.pools, interface.members().get("workspace_pools", []))
    ]


def _planned_workspace(model: Any) -> int | None:
    """Return the planned workspace size in bytes of a model for the executor aot; None for other models."""
    if not isinstance(model, AOTExecutorFactoryModule):
        return None
    pools = model.executor_codegen_metadata.pool_inputs.values()
    return sum(pool.allocated_size for pool in pools if not hasattr(pool.pool, "constant_info_array"))


def _device(target: Any) -> int:
    return int(target.get_target_device_type())


def _main_entries(info: FunctionInfo, workspace: int | None) -> list[dict[str, Any]]:
    return [
        {
            "device": _device(target),
            "workspace_size_bytes": int(info.workspace_sizes[target] if workspace is None else workspace),
            "constants_size_bytes": int(info.constant_sizes[target]),
            "io_size_bytes": int(info.io_sizes[target]),
        }
        for target in info.workspace_sizes
    ]


def _kernel_entries(info: FunctionInfo) -> dict[str, Any]:
    def entries(sizes: Mapping[Any, int], key: str) -> list[dict[str, int]]:
        return [{"device": _device(target), key: int(size)} for target, size in sizes.items()]

    return {
        "workspace": entries(info.workspace_sizes, "workspace_size_bytes"),
        "constants": entries(info.constant_sizes, "constants_size_bytes"),
        "io": entries(info.io_sizes, "io_size_bytes"),
    }


def _interface(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the descriptions of the inputs and of the outputs of a model, by name and in order."""
    main = model.ir_mod["main"]
    if any(has_dynamic_dims(t) for t in flatten_type(main.checked_type_.ret_type)):
        raise NonStaticShapeError(f"model '{model.libmod_name}': an output has a dynamic shape")
    if isinstance(model, AOTExecutorFactoryModule):
        facts = model.executor_codegen_metadata
        names = [var.name_hint if hasattr(var, "name_hint") else var.name for var in facts.inputs]
        inputs = _tensors(model, facts.input_names, facts.input_tensor_types, names)
        outputs = _tensors(model, facts.outputs, facts.output_tensor_types, facts.outputs)
        for entry in (*inputs.values(), *outputs.values()):
            place = facts.io_pool_allocations.get(entry["c_name"])
            if place is not None:
                entry.update(pool=clean(place.pool_info.pool_name), byte_offset=place.byte_offset)
        return inputs, outputs
    parameters = [p for p in main.params if p.name_hint not in model.get_params()]
    inputs = _tensors(model, [p.name_hint for p in parameters], [p.checked_type_ for p in parameters])
    results = flatten_type(main.checked_type_.ret_type)
    names = ["output"] if len(results) == 1 else [f"output{i}" for i in range(len(results))]
    return inputs, _tensors(model, names, results)


def _tensors(
    model: Any, names: Sequence[str], types: Sequence[TensorType], c_names: Sequence[str] = ()
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, (name, of_type) in enumerate(zip(names, types)):
        if has_dynamic_dims(of_type):
            raise NonStaticShapeError(f"model '{model.libmod_name}': '{name}' has the dynamic shape {of_type.shape}")
        entry: dict[str, Any] = {
            "size": byte_size(of_type), "dtype": of_type.dtype, "shape": _static_shape(of_type), "index": number,
        }  # fmt: skip
        found[name] = {**entry, "c_name": c_names[number]} if c_names else entry
    return found


def _static_shape(of_type: Any) -> list[int]:
    return [int(d) for d in of_type.shape]


def _storage(graph: Mapping[str, Any], params: set[str]) -> list[dict[str, Any]]:
    """Return the storage blocks of a graph, each with its size and the inputs and outputs in it."""
    rows, entries = graph["node_row_ptr"], entries_of(graph)
    identifiers, sizes = [entry.block for entry in entries], block_sizes(entries)
    blocks: dict[int, dict[str, Any]] = {n: {"storage_id": n, "size_bytes": sizes[n]} for n in sorted(sizes)}
    for number in graph["arg_nodes"]:
        name = graph["nodes"][number]["name"]
        blocks[identifiers[rows[number]]]["input_binding" if name not in params else "parameter_binding"] = name
    for number, (node, index, *_) in enumerate(graph["heads"]):
        blocks[identifiers[rows[node] + index]]["output_binding"] = f"output_{number}"
    return list(blocks.values())
