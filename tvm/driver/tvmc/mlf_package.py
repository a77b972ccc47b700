"""Read inputs, outputs, memory sizes and kernels from the metadata of packages in Model Library Format."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import TVMCException

if TYPE_CHECKING:
    from .model import TVMCPackage


class MlfFacts(NamedTuple):
    """The contents of a package: inputs and outputs as (name, shape, data type), and memory sizes in bytes."""

    inputs: list[tuple[str, tuple[int, ...], str]]
    outputs: list[tuple[str, tuple[int, ...], str]]
    workspace: int
    constants: int
    io: int


def facts_of(package: TVMCPackage) -> MlfFacts:
    """Return the inputs, outputs and memory sizes of a package. Damaged metadata raises TVMCException."""
    try:
        main = package.manifest["memory"]["functions"]["main"]

        def total(key: str) -> int:
            return sum(int(entry[f"{key}_size_bytes"]) for entry in main)

        tensors = [_tensors(main[0][kind]) for kind in ("inputs", "outputs")]
        return MlfFacts(tensors[0], tensors[1], *map(total, ("workspace", "constants", "io")))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
        raise TVMCException(f"the metadata of {package.package_path} are damaged: {problem}") from problem


def _tensors(entries: dict[str, Any]) -> list[tuple[str, tuple[int, ...], str]]:
    """Return the tensors in the metadata. Archives that other programs wrote have no shapes; their tensors are shown as
    arrays of bytes."""
    return [
        (name, tuple(entry["shape"]), entry["dtype"]) if "shape" in entry else (name, (int(entry["size"]),), "uint8")
        for name, entry in entries.items()
    ]


def kernels_of(package: TVMCPackage) -> Counter[str]:
    """Return the kernels of a package, each with the count 1: the metadata does not contain the number of calls."""
    try:
        functions = package.manifest["memory"]["functions"]
        return Counter(entry["function_name"] for entry in functions["operator_functions"])
    except (KeyError, TypeError) as problem:
        raise TVMCException(f"the metadata of {package.package_path} are damaged: {problem}") from problem
