"""Sessions with boards: upload inputs, run models or single functions, and read outputs.

The project must be generated from a model that is compiled with ``Runtime("crt", {"system-lib": True})``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contrib import graph_executor
from ..contrib.debugger import debug_executor
from ..error import TVMError
from ..runtime.devices import Device, cpu
from .board import Board, BoardArray, BoardLibrary, SessionTerminatedError
from .board_executors import BoardGraph, BoardModel
from .project import GeneratedProject, TemplateProject
from .project_api.server import TransportTimeouts
from .transport import TransportContextManager


class Session:
    """A connection to the program of a board. As a context manager, it opens and closes the transport.

    Parameters
    ----------
    transport_context_manager : Transport
        The transport, such as ``project.transport()``.
    session_name : str, optional
        A name for error messages.
    timeout_override : TransportTimeouts, optional
        Time limits in place of those of the transport.

    Examples
    --------
    >>> with tvm.micro.Session(project.transport()) as session:
    ...     runner = tvm.micro.create_local_graph_executor(graph, session.get_system_lib(), session.device)
    """

    def __init__(
        self, transport_context_manager: TransportContextManager | None = None, session_name: str = "micro-rpc",
        timeout_override: TransportTimeouts | None = None,
    ):  # fmt: skip
        if transport_context_manager is None:
            raise ValueError("Session: the transport is missing; pass project.transport()")
        self.transport_context_manager, self.session_name = transport_context_manager, session_name
        self.timeout_override = timeout_override
        self.device: Device = cpu(0)
        self._board: Board | None = None

    def __enter__(self) -> Session:
        transport = self.transport_context_manager.__enter__()
        try:
            limits = self.timeout_override or transport.timeouts()
            self._board = Board(transport, limits.session_start_timeout_sec, limits.session_established_timeout_sec)
        except BaseException:
            self.transport_context_manager.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._board is not None:
            self._board.is_closed = True
        self.transport_context_manager.__exit__(*exc)

    @property
    def board(self) -> Board:
        """The board of the open session."""
        if self._board is None or self._board.is_closed:
            raise SessionTerminatedError(f"the session {self.session_name} is not open; use it in a with statement")
        return self._board

    def get_system_lib(self) -> BoardLibrary:
        """Return the functions of the program.

        Returns
        -------
        BoardLibrary
            The functions. It has the interface of a module.
        """
        return BoardLibrary(self.board)

    def create_aot_executor(self) -> BoardModel:
        """Return the executor of a model that was compiled ahead of time, for ``AotModule``.

        Returns
        -------
        BoardModel
            The executor.
        """
        return BoardModel(self.board)


def _graph(graph_json_str: str, mod: Any) -> BoardGraph:
    if not isinstance(mod, BoardLibrary):
        raise TVMError(f"the library must be that of a session (session.get_system_lib()), got {type(mod).__name__}")
    return BoardGraph(mod.board, graph_json_str)


def create_local_graph_executor(graph_json_str: str, mod: BoardLibrary, device: Any) -> graph_executor.GraphModule:
    """Return an executor of a graph whose kernels run on a board.

    Parameters
    ----------
    graph_json_str : str
        The graph as JSON.
    mod : BoardLibrary
        The functions of the board, from ``Session.get_system_lib``.
    device : Device
        The device of the session.

    Returns
    -------
    GraphModule
        The executor.
    """
    return graph_executor.GraphModule(_graph(graph_json_str, mod), keep=mod)


def create_local_debug_executor(
    graph_json_str: str, mod: BoardLibrary, device: Any, dump_root: str | None = None
) -> debug_executor.GraphModuleDebug:
    """Return a debug executor of a graph whose kernels run on a board. Times of nodes are measured by the board.

    Parameters
    ----------
    graph_json_str : str
        The graph as JSON.
    mod : BoardLibrary
        The functions of the board, from ``Session.get_system_lib``.
    device : Device
        The device of the session.
    dump_root : str, optional
        The folder for traces and outputs; by default a temporary folder.

    Returns
    -------
    GraphModuleDebug
        The executor.
    """
    made = _graph(graph_json_str, mod)
    return debug_executor.GraphModuleDebug(made, device, graph_json_str, dump_root, keep=mod)


def create_local_aot_executor(session: Session) -> Any:
    """Return the executor of the model of a session that was compiled ahead of time.

    Parameters
    ----------
    session : Session
        The session.

    Returns
    -------
    AotModule
        The executor.
    """
    from ..runtime.executor.aot_executor import AotModule

    return AotModule(session.create_aot_executor())


def lookup_remote_linked_param(
    mod: BoardLibrary, storage_id: int, template_tensor: Any, device: Any
) -> BoardArray | None:
    """Return the parameter of a graph that is linked into the program; None, because graphs for boards have their
    parameters as inputs.

    Parameters
    ----------
    mod : BoardLibrary
        The functions of the board.
    storage_id : int
        The storage block of the parameter.
    template_tensor : NDArray
        An array of the parameter's shape and type.
    device : Device
        The device of the session.

    Returns
    -------
    BoardArray or None
        None.
    """
    return None


class _ProjectSession(Session):
    """A session that owns its project, and the temporary folder of the project."""

    def __init__(self, project: GeneratedProject, folder: tempfile.TemporaryDirectory[str] | None):
        super().__init__(project.transport())
        self._project, self._folder = project, folder

    def __enter__(self) -> Session:
        try:
            return super().__enter__()
        except BaseException:
            self._close()
            raise

    def __exit__(self, *exc: Any) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self._close()

    def _close(self) -> None:
        self._project.close()
        if self._folder is not None:
            self._folder.cleanup()


def compile_and_create_micro_session(
    mod_src_bytes: bytes, template_project_dir: str | Path, project_options: Mapping[str, Any] | None = None,
    project_dir: str | Path | None = None, use_existing: bool = False,
) -> Session:  # fmt: skip
    """Generate, build and flash a project for an archive, and return a session with its program.

    Parameters
    ----------
    mod_src_bytes : bytes
        The contents of an archive in Model Library Format.
    template_project_dir : str or Path
        The folder of the template.
    project_options : dict of str to object, optional
        The options of the project.
    project_dir : str or Path, optional
        The folder of the project; by default a temporary folder that the session removes.
    use_existing : bool, optional
        Use the project in ``project_dir``, which is already built, and flash it.

    Returns
    -------
    Session
        The session, not opened.
    """
    if use_existing and project_dir is None:
        raise ValueError("compile_and_create_micro_session: use_existing requires project_dir")
    folder = None if project_dir is not None else tempfile.TemporaryDirectory(prefix="tvm-")
    target = Path(project_dir) if project_dir is not None else Path(folder.name if folder else "", "project")
    try:
        project = (
            GeneratedProject.from_directory(target, project_options) if use_existing
            else _generated(mod_src_bytes, template_project_dir, target, project_options)
        )  # fmt: skip
    except BaseException:
        if folder is not None:
            folder.cleanup()
        raise
    try:
        project.flash()
        return _ProjectSession(project, folder)
    except BaseException:
        project.close()
        raise


def _generated(data: bytes, template: str | Path, folder: Path, options: Mapping[str, Any] | None) -> GeneratedProject:
    """Return a built project for the archive in ``data``."""
    with tempfile.TemporaryDirectory(prefix="tvm-") as place, TemplateProject.from_directory(template) as opened:
        archive = Path(place, "model.tar")
        archive.write_bytes(data)
        project = opened.generate_project_from_mlf(archive, folder, options)
    try:
        project.build()
        return project
    except BaseException:
        project.close()
        raise
