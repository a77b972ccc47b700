"""States as files, to be measured on a machine with only the runtime (``python -m tvm.runtime.measure_files
FOLDER``)."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..error import TVMError
from ..tuning.folder import CandidateFolder, Kept, Kernel
from ..tuning.measure import Built, Failed
from ..tuning.reference import reference_outputs
from ..tuning.workers import shared_pool
from .choices import Row, encode_row
from .measure import LocalBuilder, MeasureInput, MeasureResult, failure_of, instantiation_of, on_arrays_of
from .search import UNTUNED, Instantiation, SketchSearch, describe
from .search_task import SearchTask
from .state import StateObject

logger = logging.getLogger("auto_scheduler")
_NOT_MEASURED = MeasureResult((0.0,), 0, "", 0.0, 0.0)


class _Candidate(NamedTuple):
    """A state of a task, or the untuned code if there is no state, with the functions that create the schedules of its
    kernels."""

    task: SearchTask
    state: StateObject | None
    kernels: Sequence[Instantiation]

    def line(self, result: MeasureResult) -> str:
        return encode_row(Row(self.task, self.state, result))

    @property
    def layouts(self) -> str:
        task, state = self.task, self.state
        return "" if state is None else task.compute_dag.layouts_key(state, task.layout_rewrite_option)

    @property
    def record(self) -> dict[str, Any]:
        return json.loads(self.line(_NOT_MEASURED).removeprefix("# "))


class FolderWriter:
    """A writer that builds states in worker processes and stores them in a folder with their measurement parameters.

    Parameters
    ----------
    folder : str or os.PathLike
        The folder, which is created if it does not exist.
    measure : dict, optional
        The number, repeat and min_repeat_ms of the measurements.
    verify : bool, optional
        Whether the folder contains the outputs of the plain schedule of each task, so that incorrect outputs are
        detected where the states are measured.
    builder : LocalBuilder, optional
        The builder.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        measure: dict[str, Any] | None = None,
        verify: bool = True,
        builder: LocalBuilder | None = None,
    ):
        self.verify, self.builder = verify, builder or LocalBuilder(timeout=60)
        if self.builder.links:
            raise TVMError(
                "FolderWriter: the builder must use the default build_func, because FolderWriter links the libraries"
            )
        self.folder = CandidateFolder(folder, "i", measure, logger.warning)

    def write(self, inputs: Iterable[MeasureInput]) -> tuple[int, int]:
        """Build the states that the folder does not contain.

        Parameters
        ----------
        inputs : Iterable[MeasureInput]
            The states with their tasks.

        Returns
        -------
        tuple of int
            The numbers of built and of failed states; failed states are added to the folder's records immediately.

        Raises
        ------
        TVMError
            A task has user-defined inputs.
        """
        return self._write(_Candidate(inp.task, inp.state, [instantiation_of(inp)]) for inp in inputs)

    def write_search(self, search: SketchSearch, keys: Iterable[Any]) -> tuple[int, int]:
        """Build the candidates of a search that the folder does not contain; the untuned code may be one of them.

        Parameters
        ----------
        search : SketchSearch
            The search of a task.
        keys : Iterable
            The keys of its candidates.

        Returns
        -------
        tuple of int
            The numbers of built and of failed candidates.
        """
        return self._write(
            _Candidate(search.task, None if key == UNTUNED else search.state_of(key), search.instantiations(key))
            for key in keys
        )

    def _write(self, candidates: Iterable[_Candidate]) -> tuple[int, int]:
        built = failed = 0
        waiting = (candidate for candidate in candidates if self._is_new(candidate))
        while batch := list(islice(waiting, 8 * self.builder.n_parallel)):
            made = iter(self.builder.make([(one, c.task.target) for c in batch for one in c.kernels]))
            for candidate in batch:
                is_built = self._keep(candidate, [next(made) for _ in candidate.kernels])
                built, failed = built + is_built, failed + (not is_built)
        return built, failed

    def _is_new(self, candidate: _Candidate) -> bool:
        if candidate.task.task_input_names:
            raise TVMError(
                f"{describe(candidate.task)} has user-defined inputs (task_inputs), which cannot be stored in a "
                "folder of candidates; measure it on this machine or over RPC"
            )
        return self.folder.is_new(candidate.record)

    def _keep(self, candidate: _Candidate, made: Sequence[Built | Failed]) -> bool:
        wrong = next((one for one in made if isinstance(one, Failed)), None)
        if wrong is not None:
            self.folder.refuse(candidate.line(failure_of(wrong)))
            return False
        task = candidate.task
        kernels = [self._kernel(candidate, one) for one in made if isinstance(one, Built)]
        self.folder.keep(
            Kept(
                kernels,
                task.target.get_target_device_type(),
                candidate.record,
                describe(task),
                max(task.compute_dag.flop_ct, 0.0),
                self._reference(candidate, kernels[0]),
                candidate.layouts,
            )
        )
        return True

    def _kernel(self, candidate: _Candidate, built: Built) -> Kernel:
        """Return the code of a kernel. States run on the arrays of their task; kernels of the untuned code have their
        own arrays."""
        if candidate.state is None:
            return Kernel(built.code, built.info)
        code, shapes = on_arrays_of(candidate.task, built)
        return Kernel(code.code, code.info, shapes)

    def _reference(self, candidate: _Candidate, kernel: Kernel) -> Callable[[], bytes] | None:
        """Return the function that computes the expected outputs with a plain schedule; None for the untuned code,
        which is not compared."""
        if candidate.state is None or not self.verify:
            return None
        pool = shared_pool(max(self.builder.n_parallel, 2))
        return lambda: reference_outputs(pool, *candidate.kernels[0](), kernel.info, kernel.shapes)


def write_candidates(
    inputs: Iterable[MeasureInput],
    folder: str | os.PathLike,
    measure: dict[str, Any] | None = None,
    verify: bool = True,
    builder: LocalBuilder | None = None,
) -> tuple[int, int]:
    """Build each state as a library in a folder.

    Parameters
    ----------
    inputs : Iterable[MeasureInput]
        The states with their tasks.
    folder : str or os.PathLike
        The folder.
    measure : dict, optional
        The number, repeat and min_repeat_ms of the measurements.
    verify : bool, optional
        Whether to compare outputs with those of plain schedules.
    builder : LocalBuilder, optional
        The builder.

    Returns
    -------
    tuple of int
        The numbers of built and of failed states.
    """
    return FolderWriter(folder, measure, verify, builder).write(inputs)


__all__ = ["FolderWriter", "write_candidates"]
