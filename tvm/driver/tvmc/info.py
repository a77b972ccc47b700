"""``tvmc info``: prints the contents of a package."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from typing import Any, NamedTuple

from ...dtype import info as dtype_info
from ...error import TVMError
from ...runtime.params import param_names
from . import vm_package
from .arguments import add_command, add_verbose, register_parser
from .errors import TVMCException
from .model import TVMCPackage
from .terminal import BOLD, painted, print_table, size

# Operators without a kernel: their output shares the memory of their input.
_NO_CALL = "__nop"


class Tensor(NamedTuple):
    """An input or output of a package; a dimension that is not a number is dynamic."""

    name: str
    shape: tuple
    dtype: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ((dtype_info(self.dtype).bits + 7) // 8)

    def __str__(self) -> str:
        sizes = ["?" if d is None else str(d) for d in self.shape]
        return f"{self.name}: {'x'.join(sizes) or 'scalar'} {self.dtype}"


class PackageFacts(NamedTuple):
    """Facts from the graph of a package; ``kernels`` counts the calls of each kernel, ``workspace`` is in bytes."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    params: list[Tensor]
    kernels: Counter[str]
    workspace: int


def facts_of(package: TVMCPackage) -> PackageFacts:
    """Return the facts of a package; raise TVMCException if its graph is damaged."""
    try:
        known = set(param_names(package.params_path))
        graph = json.loads(package.graph)
        nodes, rows = graph["nodes"], graph["node_row_ptr"]
        shapes, dtypes = graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1]

        def tensor(name: str, entry: int) -> Tensor:
            return Tensor(name, tuple(int(dim) for dim in shapes[entry]), str(dtypes[entry]))

        # Every node without a function is an input or a parameter; arg_nodes need not list all parameters.
        values = [n for n, node in enumerate(nodes) if node["op"] == "null"]
        arguments = [tensor(nodes[n]["name"], rows[n]) for n in values]
        outputs = [tensor(f"output_{i}", rows[head[0]] + head[1]) for i, head in enumerate(graph["heads"])]
        # The node of an ahead-of-time main function has the attribute "kernels", the names of the called kernels.
        attrs = [node["attrs"] for node in nodes if node["op"] != "null"]
        calls = [name for a in attrs for name in a.get("kernels", a["func_name"]).split()]
        given = {rows[n] for n in values}
        storage, offsets = graph["attrs"]["storage_id"][1], graph["attrs"].get("storage_offset", (0, {}))[1]
        taken: dict[int, int] = {}
        borrowed = {storage[entry] for entry in given}
        for entry in set(range(len(shapes))) - given:
            end = (offsets[entry] if offsets else 0) + tensor("", entry).nbytes
            if storage[entry] not in borrowed:
                taken[storage[entry]] = max(taken.get(storage[entry], 0), end)
        return PackageFacts(
            [t for t in arguments if t.name not in known],
            outputs,
            [t for t in arguments if t.name in known],
            Counter(name for name in calls if name != _NO_CALL),
            sum(taken.values()),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, TVMError) as problem:
        raise TVMCException(f"the package {package.package_path} is damaged: {problem}") from problem


def kernels_of(package: TVMCPackage) -> Counter[str]:
    """Return the kernels of a package, with the number of their calls."""
    if package.type == "mlf":
        from . import mlf_package

        return mlf_package.kernels_of(package)
    return (vm_package.facts_of(package) if package.is_vm else facts_of(package)).kernels


def compiled_for(manifest: dict) -> str:
    """Describe the machine for which a package was compiled."""
    machine = manifest.get("machine")
    if isinstance(machine, dict) and machine.get("cpu"):
        return f"{machine['cpu']} ({machine.get('triple', 'unknown machine')})"
    return str(manifest.get("target") or "an unknown machine")


@register_parser
def add_info_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``info``."""
    parser = add_command(subparsers, "info", usage="tvmc info [options] PACKAGE")
    parser.set_defaults(func=drive_info)
    parser.add_argument("--kernels", action="store_true", help="list all kernels with the number of their calls")
    add_verbose(parser)
    parser.add_argument("PACKAGE", help="the package made by tvmc compile")


def _rows_of_graph(package: TVMCPackage) -> list[tuple[str, Any]]:
    facts = facts_of(package)
    return [
        *(("input", tensor) for tensor in facts.inputs),
        *(("output", tensor) for tensor in facts.outputs),
        ("weights", f"{len(facts.params)} arrays, {size(sum(t.nbytes for t in facts.params))}"),
        ("memory", f"{size(facts.workspace)} for intermediate results, without the weights"),
    ]


def _rows_of_machine(package: TVMCPackage) -> list[tuple[str, Any]]:
    facts = vm_package.facts_of(package)
    values = [("input", v) for v in facts.inputs] + [("output", v) for v in facts.outputs]
    reason = package.manifest.get("reason")
    return [
        *([("because", reason)] if reason else []),
        *(
            (what, f"{v.name}: {v.dtype}" if v.sizes is None else Tensor(v.name, tuple(v.sizes), v.dtype))
            for what, v in values
        ),
        ("weights", f"{facts.weights} arrays, {size(facts.weight_bytes)}"),
        ("memory", "for intermediate results: allocated at run time, depends on the shapes"),
    ]


def _rows_of_mlf(package: TVMCPackage) -> list[tuple[str, Any]]:
    from . import mlf_package

    facts = mlf_package.facts_of(package)
    return [
        *(("input", Tensor(*tensor)) for tensor in facts.inputs),
        *(("output", Tensor(*tensor)) for tensor in facts.outputs),
        ("weights", size(facts.constants)),
        ("memory", f"{facts.workspace} bytes for intermediate results, {facts.io} for inputs and outputs"),
    ]


def _rows_of_code(package: TVMCPackage, kernels: Counter[str]) -> list[tuple[str, Any]]:
    if package.lib_path is None:
        return [("code", "C files and object files in Model Library Format"), ("kernels", len(kernels))]
    return [
        ("code", f"{package.lib_name}, {size(os.path.getsize(package.lib_path))}"),
        ("kernels", f"{len(kernels)}, called {kernels.total()} times"),
    ]


def drive_info(args) -> int:
    """Print the contents of a package."""
    package = TVMCPackage(args.PACKAGE)
    rows_of = {"vm": _rows_of_machine, "mlf": _rows_of_mlf}.get(package.type, _rows_of_graph)
    inside = rows_of(package)
    manifest, kernels = package.manifest, kernels_of(package)
    machine = manifest.get("machine") if isinstance(manifest.get("machine"), dict) else {}
    features = machine.get("features")
    rows = [
        ("package", f"{args.PACKAGE}, {size(os.path.getsize(args.PACKAGE))}"),
        ("made by", f"tvm {manifest.get('tvm_version', 'unknown')}, executor {package.executor_type}"),
        ("target", manifest.get("target") or "unknown: the package has no manifest"),
        (
            "runs on",
            compiled_for(manifest)
            + (f" with {', '.join(map(str, features))}" if isinstance(features, list) and features else ""),
        ),
        *inside,
        *_rows_of_code(package, kernels),
    ]
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{painted(name.ljust(width), BOLD, sys.stdout)}  {text}")
    if args.kernels:
        counts = [(count, name) for name, count in kernels.most_common()]
        print_table(counts, ("calls", "kernel"), sys.stdout, right=(0,))
    return 0


__all__ = ["PackageFacts", "Tensor", "compiled_for", "drive_info", "facts_of", "kernels_of"]
