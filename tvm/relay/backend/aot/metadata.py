"""Metadata of a compiled model for its executor: inputs, outputs, memory pools and the interface of the entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from ....ir.prim import Var
from ....ir.tensor_type import TensorType
from ....tir.function import PrimFunc
from ..graph_json import graph_json
from ..memory_plan import plan_program
from ..options import Executor
from ..program import Kind, Node, Program
from .main_function import MainFunction, main_symbol
from .options import alignment_of, interface_of
from .plan import Planned


@dataclass(frozen=True)
class ExecutorCodegenMetadata:
    """The interface of a model compiled ahead of time, with the field names of Apache TVM.

    Parameters
    ----------
    inputs : list of Var
        The inputs, with their names in C.
    input_tensor_types : list of TensorType
        The types of the inputs.
    outputs : list of str
        The names of the outputs in C.
    output_tensor_types : list of TensorType
        The types of the outputs.
    pools : list of Var
        The parameters of the main function that are memory pools.
    devices : list of str
        The names of the devices whose context objects are parameters of the entry function.
    executor : str
        The name of the executor.
    mod_name : str
        The name of the model.
    interface_api : str
        "packed" or "c".
    unpacked_api : bool
        Whether the main function takes data pointers.
    workspace_alignment : int
        The alignment of the workspace in bytes.
    constant_alignment : int
        The alignment of constants in bytes.
    pool_inputs : dict of Var to AllocatedPoolInfo
        The memory pools, by the parameters of the main function.
    io_pool_allocations : dict of str to PoolAllocation
        The pool and the offset of inputs and outputs that are stored in pools, by name.
    input_names : list of str
        The names of the inputs in the graph.
    """

    inputs: list[Var]
    input_tensor_types: list[TensorType]
    outputs: list[str]
    output_tensor_types: list[TensorType]
    pools: list[Var]
    devices: list[str]
    executor: str
    mod_name: str
    interface_api: str
    unpacked_api: bool
    workspace_alignment: int
    constant_alignment: int
    pool_inputs: Mapping[Var, Any] = field(default_factory=dict)
    io_pool_allocations: Mapping[str, Any] = field(default_factory=dict)
    input_names: Sequence[str] = ()


def executor_metadata(
    main: MainFunction, planned: Planned, mod_name: str, executor: Executor
) -> ExecutorCodegenMetadata:
    """Return the interface of a main function after memory planning."""
    alignments = (alignment_of(executor, f"{kind}-byte-alignment") for kind in ("workspace", "constant"))
    # Planning removes the parameters of inputs and outputs that are in pools.
    found = metadata_of_function(main.function, mod_name, executor, *alignments)
    return replace(found, **_pool_facts(planned.function), input_names=[t.name for t in main.inputs])


def metadata_of_function(
    main: PrimFunc, mod_name: str, executor: Executor, workspace_alignment: int, constant_alignment: int
) -> ExecutorCodegenMetadata:
    """Return the interface of a main function, derived from its parameters and attributes."""
    inputs, outputs = (_parameters(main, key) for key in ("input_vars", "output_vars"))
    interface, is_unpacked = interface_of(executor)
    return ExecutorCodegenMetadata(
        inputs=inputs,
        input_tensor_types=[_type_of(main, var) for var in inputs],
        outputs=[var.name for var in outputs],
        output_tensor_types=[_type_of(main, var) for var in outputs],
        devices=[str(name) for name in main.attrs.get("devices") or ()],
        executor=executor.name,
        mod_name=mod_name,
        interface_api=interface,
        unpacked_api=is_unpacked,
        workspace_alignment=workspace_alignment,
        constant_alignment=constant_alignment,
        input_names=[var.name for var in inputs],
        **_pool_facts(main),
    )


def _pool_facts(main: PrimFunc) -> dict[str, Any]:
    """Return the fields of the metadata that describe the memory pools of a main function."""
    pools = {main.params[int(pool.pool_var_idx)]: pool for pool in main.attrs.get("pool_args") or ()}
    io = dict(main.attrs.get("io_tensor_pool_allocations") or {})
    return {"pools": list(pools), "pool_inputs": pools, "io_pool_allocations": io}


def _parameters(main: PrimFunc, key: str) -> list[Var]:
    """Return the parameters in a list attribute, whose items are variables or the buffers of parameters."""
    of_buffers = {buffer: param for param, buffer in main.buffer_map.items()}
    return [of_buffers.get(found, found) for found in main.attrs.get(key) or ()]


def _type_of(main: PrimFunc, param: Var) -> TensorType:
    buffer = main.buffer_map[param]
    return TensorType(buffer.shape, buffer.dtype)


def main_graph(program: Program, main: MainFunction, mod_name: str, workspace_bytes: int) -> str:
    """Return the JSON text of a graph with one node, by which the graph executor calls the main function. The workspace
    is a hidden output of the node, so each executor allocates a separate one."""
    device = next((node.device for node in program.nodes), 1)
    graph = Program(constants=program.constants)
    for kind, tensors in ((Kind.INPUT, main.inputs), (Kind.CONSTANT, main.constants)):
        graph.nodes += [Node(kind, t.name, [t.type], device) for t in tensors]
    given = [(number, 0) for number in range(len(graph.nodes))]
    types = [t.type for t in main.outputs]
    if workspace_bytes:
        types.append(TensorType((workspace_bytes,), "uint8"))
    symbol = main_symbol(mod_name)
    entry: Any = SimpleNamespace(name=symbol)
    calls = {"kernels": " ".join(node.kernel.name for node in program.nodes if node.kernel is not None)}
    graph.nodes.append(Node(Kind.KERNEL, symbol, types, device, given, entry, calls))
    graph.outputs = [(len(given), i) for i in range(len(main.outputs))]
    graph.plan = plan_program(graph)
    return graph_json(graph, list_constants=False)


__all__ = ["ExecutorCodegenMetadata", "executor_metadata", "main_graph"]
