"""AutoTVM on boards: each candidate becomes an archive in Model Library Format, from which a project is generated,
built and flashed; a session with its program measures the candidate."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..driver.build_module import lower
from ..error import TVMError
from ..ir.transform import PassContext
from ..relay.backend.aot import plain_context, plain_target
from ..relay.backend.aot.compile import OF_MICROCONTROLLERS
from ..relay.backend.aot.kernel_library import arguments_of, kernel_file
from ..relay.backend.aot.kernels import raw_kernel
from ..target import Target
from ..target.backend import backend_of
from ..tir.transform.convert_for_loops_to_serial import convert_for_loops_to_serial
from .board import BoardLibrary
from .graph_storage import rounded
from .project_api.server import IoTimeoutError, TransportTimeouts
from .session import Session, compile_and_create_micro_session

_START_SECONDS = 10.0
Connected = tuple[Session, BoardLibrary]


def autotvm_build_func() -> None:
    """The ``build_func`` of ``LocalBuilder`` for boards. The builder writes candidates as archives in Model Library
    Format; this function itself is never called."""
    raise TVMError("autotvm_build_func is a value for LocalBuilder(build_func=...), not a function to call")


def write_candidate(path: str, schedule: Any, args: Sequence[Any], target: Target, name: str) -> None:
    """Write the function of a schedule as an archive in Model Library Format.

    Parameters
    ----------
    path : str
        The archive.
    schedule : Schedule
        The schedule.
    args : list of Tensor
        The arguments, of which the last are outputs.
    target : Target
        The target, which generates C.
    name : str
        The name of the function.

    Raises
    ------
    TVMError
        The target does not generate C, or an output precedes an input.
    """
    if backend_of(target).makes_cpu_code:
        raise TVMError(f"AutoTVM on boards requires target c, got {target}")
    are_outputs = [any(arg.op is output for output in schedule.first_outputs) for arg in args]
    if are_outputs != sorted(are_outputs):
        raise TVMError("AutoTVM on boards requires that the outputs of a template are its last arguments")
    target = plain_target(target)
    with target, plain_context(PassContext.current(), target):
        function: Any = lower(schedule, list(args), name=name)[name]
        raw = raw_kernel(convert_for_loops_to_serial(function), name, OF_MICROCONTROLLERS)
        text = kernel_file(name, {name: raw}, {name: sum(are_outputs)}, target, True)
    sizes = {f"arg{i}": a.nbytes for i, a in enumerate(arguments_of(raw.function, len(args), 0))}
    _write_archive(path, text, _metadata(name, sizes))


def _metadata(name: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the metadata of an archive with one function, whose arguments have these sizes in bytes."""
    inputs = {arg: {"size": rounded(size), "index": i, "c_name": arg} for i, (arg, size) in enumerate(sizes.items())}
    main = [{"inputs": inputs, "outputs": {}}]
    memory = {"functions": {"main": main, "operator_functions": []}}
    model = {"model_name": name, "executors": ["aot"], "style": "operator", "system_lib": True, "memory": memory}
    return {"version": 7, "modules": {name: model}}


def _write_archive(path: str, text: str, metadata: dict[str, Any]) -> None:
    files = {"metadata.json": json.dumps(metadata), "codegen/host/src/candidate.c": text}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode())
            archive.addfile(entry, io.BytesIO(content.encode()))


# LocalBuilder reads these attributes.
autotvm_build_func.output_format = "model-library-format.tar"  # type: ignore[attr-defined]
autotvm_build_func.write_candidate = write_candidate  # type: ignore[attr-defined]


class AutoTvmModuleLoader:
    """The ``module_loader`` of ``LocalRunner`` for boards: it generates, builds and flashes a project for a candidate
    and opens a session with its program.

    Parameters
    ----------
    template_project_dir : str or Path
        The folder of the template.
    project_options : dict of str to object, optional
        The options of the projects.
    project_dir : str or Path, optional
        The folder of the project; by default a temporary folder for each candidate.
    use_existing : bool, optional
        Use the built project in ``project_dir`` for all candidates.
    """

    def __init__(
        self, template_project_dir: str | Path, project_options: Mapping[str, Any] | None = None,
        project_dir: str | Path | None = None, use_existing: bool = False,
    ):  # fmt: skip
        self._template, self._options = template_project_dir, dict(project_options or {})
        self._folder, self._use_existing = project_dir, use_existing

    @contextmanager
    def __call__(self, remote_kw: Mapping[str, Any], build_result: Any) -> Generator[Connected, None, None]:
        data = Path(build_result.filename).read_bytes()
        session = compile_and_create_micro_session(
            data, self._template, self._options, self._folder, self._use_existing
        )
        seconds = float(remote_kw.get("timeout") or 0)
        session.timeout_override = TransportTimeouts(0, _START_SECONDS, seconds)
        try:
            with session:
                yield session, session.get_system_lib()
        except IoTimeoutError as error:
            raise TimeoutError(f"the candidate took more than {seconds:g} s") from error


__all__ = ["AutoTvmModuleLoader", "autotvm_build_func", "write_candidate"]
