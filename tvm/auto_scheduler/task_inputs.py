"""User-defined arrays as inputs of measurements: the indices of sparse data must not be random.

Each array has a name. An input of a computation uses the array with its own name, with the name that an operation
specifies for it (the attribute ``TASK_INPUTS``), or with the name that a user-defined function returns for it.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from ..error import TVMError
from ..runtime import ndarray
from ..te.tensor import PlaceholderOp, Tensor
from .utils import get_const_tuple, register_named

logger = logging.getLogger("auto_scheduler")

# The attribute of an operation that names inputs: pairs of a tensor and the name of its array.
TASK_INPUTS = "auto_scheduler_task_inputs"
# The arrays of each workload by name.
TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, ndarray.NDArray]] = {}
TASK_INPUT_CHECK_FUNC_REGISTRY: dict[str, Callable[[Sequence[Tensor]], dict[Tensor, str]]] = {}


def register_task_input_check_func(func_name: Any, f: Callable | None = None, override: bool = False) -> Any:
    """Register a function that returns the names of the arrays of a computation's inputs.

    Parameters
    ----------
    func_name : str | Callable
        The name, or the function itself if used as a decorator.
    f : Callable, optional
        The function: it receives the inputs and outputs of a computation, and returns names by tensor.
    override : bool
        Whether to replace another function of the same name.

    Returns
    -------
    Callable
        The function, or a decorator.

    Raises
    ------
    ValueError
        The name is not a string.
    RuntimeError
        Another function has this name, and ``override`` is false.
    """
    return register_named(TASK_INPUT_CHECK_FUNC_REGISTRY, "register_task_input_check_func", func_name, f, override)


def register_task_input_buffer(
    workload_key: str, input_name: str, input_data: Any, overwrite: bool = False, save_to_file: bool = False
) -> ndarray.NDArray:
    """Register an array for the measurements of a workload.

    Parameters
    ----------
    workload_key : str
        The key of the workload.
    input_name : str
        The name of the array.
    input_data : NDArray
        The array.
    overwrite : bool
        Whether to replace another array of the same name; otherwise the first one is kept and a warning is logged.
    save_to_file : bool
        Whether to save the array in the current folder too, where later runs find it by its name.

    Returns
    -------
    NDArray
        The registered array.
    """
    array = input_data if isinstance(input_data, ndarray.NDArray) else ndarray.array(input_data)
    table = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name in table and not overwrite:
        logger.warning(
            "the input '%s' of %s already exists and is kept; pass task_inputs_overwrite=True to replace it",
            input_name,
            workload_key,
        )
    else:
        table[input_name] = array
        if save_to_file:
            shape = "_".join(map(str, array.shape))
            _numpy().save(f"{input_name}.{shape}_{array.dtype}.npy", array.numpy())
    return table[input_name]


def get_task_input_buffer(workload_key: str, input_name: str) -> ndarray.NDArray:
    """The array that is registered for a workload, or else the array of a file in the current folder.

    Parameters
    ----------
    workload_key : str
        The key of the workload.
    input_name : str
        The name of the array.

    Returns
    -------
    NDArray
        The array.

    Raises
    ------
    ValueError
        There is neither an array nor a file with this name.
    """
    table = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name not in table:
        pattern = re.compile(re.escape(input_name) + r"\.(\d+_)*\w+\.npy")
        found = sorted(name for name in os.listdir(".") if pattern.fullmatch(name))
        if not found:
            raise ValueError(
                f"input '{input_name}' of {workload_key} does not exist: pass it as task_inputs of the "
                f"SearchTask, or put the file {input_name}.SHAPE_DTYPE.npy in the current folder"
            )
        table[input_name] = ndarray.array(_numpy().load(found[0]))
    return table[input_name]


def names_of_inputs(tensors: Sequence[Tensor]) -> dict[Tensor, str]:
    """Return the names of arrays for the inputs among the arguments of a computation."""
    names = {t: t.op.name for t in tensors if isinstance(t.op, PlaceholderOp)}
    todo, seen = [t.op for t in tensors], set()
    while todo:
        op = todo.pop()
        if op in seen:
            continue
        seen.add(op)
        names.update({tensor: str(name) for tensor, name in (op.attrs or {}).get(TASK_INPUTS, ())})
        todo += [tensor.op for tensor in op.input_tensors]
    for function in TASK_INPUT_CHECK_FUNC_REGISTRY.values():
        names.update(function(list(tensors)))
    return names


class InputFiles:
    """Files with the arrays of tasks, which measuring workers read; they are deleted at the end of this process."""

    def __init__(self) -> None:
        self._folder = ""
        self._paths: dict[int, tuple[Any, str]] = {}

    def path(self, array: ndarray.NDArray) -> str:
        known = self._paths.get(id(array))
        if known is None:
            if not self._folder:
                self._folder = tempfile.mkdtemp(prefix="tvm_task_inputs_")
                atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
            path = os.path.join(self._folder, f"{len(self._paths)}.npy")
            _numpy().save(path, array.numpy())
            # The array is kept alive, so that its identity is not reused.
            known = self._paths[id(array)] = array, path
        return known[1]


_FILES = InputFiles()


def with_inputs(
    info: Sequence[Any], tensors: Sequence[Tensor], workload_key: str, input_names: Sequence[str]
) -> list[Any]:
    """Return the shapes and types of the arguments of a computation; those of user-defined arrays include the file."""
    names, missing, found = names_of_inputs(tensors), set(input_names), []
    for (shape, dtype), tensor in zip(info, tensors):
        name = names.get(tensor)
        if name not in input_names:
            found.append((shape, dtype))
            continue
        array = get_task_input_buffer(workload_key, name)
        wanted = get_const_tuple(shape)
        if tuple(array.shape) != wanted or array.dtype != dtype:
            raise TVMError(
                f"task_inputs: input '{name}' must be {dtype} of shape {wanted}, got {array.dtype} of shape "
                f"{tuple(array.shape)}"
            )
        missing.discard(name)
        found.append((shape, dtype, _FILES.path(array)))
    if missing:
        raise TVMError(
            f"task_inputs: the computation has no input '{min(missing)}'; its inputs are "
            f"{', '.join(sorted(set(names.values())))}"
        )
    return found


def _numpy() -> Any:
    # Reading a log needs no arrays.
    import numpy

    return numpy


__all__ = [
    "TASK_INPUTS",
    "TASK_INPUT_BUFFER_TABLE",
    "TASK_INPUT_CHECK_FUNC_REGISTRY",
    "get_task_input_buffer",
    "names_of_inputs",
    "register_task_input_buffer",
    "register_task_input_check_func",
    "with_inputs",
]
