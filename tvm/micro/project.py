"""Template projects, the projects generated from them, and transports to their programs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..error import TVMError, did_you_mean
from .build import get_standalone_crt_dir
from .model_library_format import ExportableModule, export_model_library_format
from .project_api import client, server
from .transport import Transport


class TemplateProjectError(TVMError):
    """The folder is a template, but a generated project was expected."""


class NotATemplateProjectError(TVMError):
    """The folder is a generated project, but a template was expected."""


def add_unspecified_options(
    options: Mapping[str, Any] | None, server_project_options: Iterable[server.ProjectOption]
) -> dict[str, Any]:
    """Return the given options, completed with the default values of all others.

    Parameters
    ----------
    options : dict of str to object, optional
        The given options.
    server_project_options : sequence of ProjectOption
        The options of the project.

    Returns
    -------
    dict of str to object
        The completed options.
    """
    defaults = {option.name: option.default for option in server_project_options if option.default is not None}
    return {**defaults, **(options or {})}


def check_options(options: Mapping[str, Any], known: Iterable[server.ProjectOption]) -> None:
    """Check that a project has these options and that their values are allowed.

    Parameters
    ----------
    options : dict of str to object
        The options.
    known : sequence of ProjectOption
        The options of the project.

    Raises
    ------
    ValueError
        An option does not exist or has another type or value.
    """
    by_name = {option.name: option for option in known}
    types = {"str": str, "int": int, "bool": bool}
    for name, value in options.items():
        option = by_name.get(name)
        if option is None:
            raise ValueError(f"the project has no option '{name}'{did_you_mean(name, by_name, '; ')}; its options are "
                             f"{', '.join(sorted(by_name))}")  # fmt: skip
        if not isinstance(value, types[option.type]) or (option.type == "int" and isinstance(value, bool)):
            raise ValueError(f"option {name} of the project must be of type {option.type}, got {value!r}")
        if option.choices is not None and value not in option.choices:
            raise ValueError(f"option {name} of the project must be one of {', '.join(option.choices)}, got {value!r}")


def options_of(method: str, options: Mapping[str, Any], known: Iterable[server.ProjectOption]) -> dict[str, Any]:
    """Return the options that a method of a project accepts.

    Parameters
    ----------
    method : str
        The method, such as "build".
    options : dict of str to object
        The options of all methods.
    known : sequence of ProjectOption
        The options of the project.

    Returns
    -------
    dict of str to object
        The options of the method.

    Raises
    ------
    ValueError
        An option that the method requires is missing.
    """
    accepted = {}
    for option in known:
        if option.name in options and method in (*(option.required or ()), *(option.optional or ())):
            accepted[option.name] = options[option.name]
        elif method in (option.required or ()):
            choices = f" ({', '.join(option.choices)})" if option.choices else ""
            raise ValueError(f"the method {method} of the project requires the option {option.name}{choices}")
    return accepted


class ProjectTransport(Transport):
    """A transport to the program of a project, through the project's server.

    Parameters
    ----------
    api_client : ProjectAPIClient
        The client of the server.
    options : dict of str to object
        The options of ``open_transport``.
    """

    def __init__(self, api_client: client.ProjectAPIClient, options: Mapping[str, Any]):
        self._api_client, self._options = api_client, options
        self._timeouts: server.TransportTimeouts | None = None

    def timeouts(self) -> server.TransportTimeouts:
        if self._timeouts is None:
            raise TVMError("the transport is not open")
        return self._timeouts

    def open(self) -> None:
        self._timeouts = self._api_client.open_transport(self._options)

    def close(self) -> None:
        if not self._api_client.is_shutdown:
            self._api_client.close_transport()

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        return self._checked(self._api_client.read_transport, n, timeout_sec)

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self._checked(self._api_client.write_transport, data, timeout_sec)

    @staticmethod
    def _checked(call: Any, *args: Any) -> Any:
        """Return the result of a call to the server; raise transport errors of the server as the original error
        classes."""
        try:
            return call(*args)
        except client.RPCError as problem:
            if isinstance(problem.error, (server.IoTimeoutError, server.TransportClosedError)):
                raise problem.error from problem
            raise


class GeneratedProject:
    """A project that was generated from a template.

    Parameters
    ----------
    api_client : ProjectAPIClient
        The client of the project's server.
    options : dict of str to object
        The options of the project. Others get their default values.

    Raises
    ------
    TemplateProjectError
        The folder is a template.
    """

    @classmethod
    def from_directory(cls, project_dir: str | Path, options: Mapping[str, Any] | None) -> GeneratedProject:
        """Open a project.

        Parameters
        ----------
        project_dir : str or Path
            The folder.
        options : dict of str to object, optional
            The options.

        Returns
        -------
        GeneratedProject
            The project.
        """
        return _opened(cls, project_dir, options)

    def __init__(self, api_client: client.ProjectAPIClient, options: Mapping[str, Any] | None):
        self._api_client = api_client
        self._info = api_client.server_info_query(__version__)
        if self._info.is_template:
            raise TemplateProjectError("the folder is a template project; generate a project from it first")
        self.options = options

    def info(self) -> server.ServerInfo:
        """Return the description of the project.

        Returns
        -------
        ServerInfo
            The description.
        """
        return self._info

    @property
    def options(self) -> dict[str, Any]:
        """The options of the project, including default values."""
        return self._options

    @options.setter
    def options(self, options: Mapping[str, Any] | None) -> None:
        check_options(options or {}, self._info.project_options)
        self._options = add_unspecified_options(options, self._info.project_options)

    def _of(self, method: str) -> dict[str, Any]:
        return options_of(method, self._options, self._info.project_options)

    def build(self) -> None:
        """Build the project."""
        self._api_client.build(self._of("build"))

    def flash(self) -> None:
        """Write the program to the board."""
        self._api_client.flash(self._of("flash"))

    def transport(self) -> ProjectTransport:
        """Return the transport to the program.

        Returns
        -------
        ProjectTransport
            The transport, not opened.
        """
        return ProjectTransport(self._api_client, self._of("open_transport"))

    def close(self) -> None:
        """End the server of the project."""
        self._api_client.shutdown()

    def __enter__(self) -> GeneratedProject:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class TemplateProject:
    """A template from which projects are generated.

    Parameters
    ----------
    api_client : ProjectAPIClient
        The client of the template's server.

    Raises
    ------
    NotATemplateProjectError
        The folder is a generated project.
    """

    @classmethod
    def from_directory(cls, template_project_dir: str | Path) -> TemplateProject:
        """Open a template.

        Parameters
        ----------
        template_project_dir : str or Path
            The folder.

        Returns
        -------
        TemplateProject
            The template.
        """
        return _opened(cls, template_project_dir)

    def __init__(self, api_client: client.ProjectAPIClient):
        self._api_client = api_client
        self._info = api_client.server_info_query(__version__)
        if not self._info.is_template:
            raise NotATemplateProjectError("the folder is a generated project, not a template")

    def info(self) -> server.ServerInfo:
        """Return the description of the template.

        Returns
        -------
        ServerInfo
            The description.
        """
        return self._info

    def generate_project_from_mlf(
        self, model_library_format_path: str | Path, project_dir: str | Path, options: Mapping[str, Any] | None
    ) -> GeneratedProject:
        """Generate a project for a model in Model Library Format.

        Parameters
        ----------
        model_library_format_path : str or Path
            The archive.
        project_dir : str or Path
            The folder of the new project, which must not exist.
        options : dict of str to object, optional
            The options.

        Returns
        -------
        GeneratedProject
            The project.

        Raises
        ------
        ValueError
            An option is missing, does not exist or has a wrong value.
        """
        known = self._info.project_options
        check_options(options or {}, known)
        completed = add_unspecified_options(options, known)
        given = options_of("generate_project", completed, known)
        archive, folder = Path(model_library_format_path).resolve(), Path(project_dir).resolve()
        self._api_client.generate_project(str(archive), get_standalone_crt_dir(), str(folder), given)
        return GeneratedProject.from_directory(folder, options)

    def generate_project(
        self, graph_executor_factory: ExportableModule, project_dir: str | Path, options: Mapping[str, Any] | None
    ) -> GeneratedProject:
        """Generate a project for a compiled model.

        Parameters
        ----------
        graph_executor_factory : ExecutorFactoryModule
            The compiled model, as ``relay.build`` returns it.
        project_dir : str or Path
            The folder of the new project, which must not exist.
        options : dict of str to object, optional
            The options.

        Returns
        -------
        GeneratedProject
            The project.
        """
        with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
            path = export_model_library_format(graph_executor_factory, Path(folder, "model.tar"))
            return self.generate_project_from_mlf(path, project_dir, options)

    def close(self) -> None:
        """End the server of the template."""
        self._api_client.shutdown()

    def __enter__(self) -> TemplateProject:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _opened(kind: Any, folder: str | Path, *args: Any) -> Any:
    """Start the server of a folder and create an object of class ``kind`` for it. If this fails, end the server."""
    api_client = client.instantiate_from_dir(folder)
    try:
        return kind(api_client, *args)
    except BaseException:
        api_client.shutdown()
        raise


def generate_project(
    template_project_dir: str | Path, module: ExportableModule, generated_project_dir: str | Path,
    options: Mapping[str, Any] | None = None,
) -> GeneratedProject:  # fmt: skip
    """Generate a project for a compiled model.

    Parameters
    ----------
    template_project_dir : str or Path
        The folder of the template.
    module : ExecutorFactoryModule
        The compiled model, as ``relay.build`` returns it.
    generated_project_dir : str or Path
        The folder of the new project, which must not exist.
    options : dict of str to object, optional
        The options.

    Returns
    -------
    GeneratedProject
        The project.
    """
    with TemplateProject.from_directory(template_project_dir) as template:
        return template.generate_project(module, generated_project_dir, options)


def generate_project_from_mlf(
    template_project_dir: str | Path, project_dir: str | Path, mlf_path: str | Path,
    options: Mapping[str, Any] | None,
) -> GeneratedProject:  # fmt: skip
    """Generate a project for a model in Model Library Format.

    Parameters
    ----------
    template_project_dir : str or Path
        The folder of the template.
    project_dir : str or Path
        The folder of the new project, which must not exist.
    mlf_path : str or Path
        The archive.
    options : dict of str to object, optional
        The options.

    Returns
    -------
    GeneratedProject
        The project.
    """
    with TemplateProject.from_directory(template_project_dir) as template:
        return template.generate_project_from_mlf(mlf_path, project_dir, options)
