"""Models, packages and results."""

from __future__ import annotations

import functools
import json
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...contrib import utils
from ...error import TVMError
from ...runtime import module as runtime_module
from ...runtime.params import load_param_dict_from_file, save_param_dict, save_param_dict_to_file
from ...runtime.vm import Executable
from .errors import TVMCException
from .files import is_special, write_whole

MANIFEST = "manifest.json"
# By file name of the library in a package: library type, executor, and other files.
_CLASSIC, _VM = ("classic", "graph", ("mod.json", "mod.params")), ("vm", "vm", ())
_KINDS = {"mod.so": _CLASSIC, "mod.tar": _CLASSIC, "lib.so": _VM, "lib.tar": _VM}


class TVMCModel:
    """A model as a graph, with its parameters.

    Parameters
    ----------
    mod : IRModule, optional
        The graph.
    params : dict of str to NDArray, optional
        The weights by name.
    model_path : str, optional
        A file that ``save`` wrote, instead of ``mod`` and ``params``.
    """

    def __init__(self, mod=None, params=None, model_path: str | None = None):
        if (mod is None or params is None) and model_path is None:
            raise TVMCException("Either mod and params must be provided or a path to a saved TVMCModel")
        self.lib_path: str | None = None
        if model_path is not None:
            self.load(model_path)
        else:
            self.mod = mod
            self.params = params or {}

    @functools.cached_property
    def _tmp_dir(self) -> utils.TempDirectory:
        # Created at first use, so that a tuner that is killed leaves no folder.
        return utils.tempdir()

    def save(self, model_path: str) -> None:
        """Write the graph and its parameters into an archive, with tuning records and a package if they exist at their
        default paths.

        Parameters
        ----------
        model_path : str
            The path of the archive, which is written atomically.
        """
        from ...ir.serialize import save_json

        with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
            files = {"model.json": save_json(self.mod).encode(), "model.params": bytes(save_param_dict(self.params))}
            for name, data in files.items():
                with open(os.path.join(folder, name), "wb") as f:
                    f.write(data)
            extra = [p for p in (self.default_tuning_records_path(), self.default_package_path()) if os.path.exists(p)]
            _write_tar(model_path, [os.path.join(folder, n) for n in files] + extra)

    def load(self, model_path: str) -> None:
        """Read a file that ``save`` wrote.

        Parameters
        ----------
        model_path : str
            The archive.

        Raises
        ------
        TVMCException
            The file does not exist, cannot be read, or is not a saved model.
        """
        from ...ir.serialize import load_json
        from ...relay.transform import InferType

        # This restores tuning records and a package at their default paths.
        folder = self._tmp_dir.temp_dir
        _extract(model_path, folder)
        try:
            with open(os.path.join(folder, "model.json"), encoding="utf-8") as f:
                # The file contains no types. Models that are imported from other formats have types.
                self.mod = InferType()(load_json(f.read()))
            self.params = load_param_dict_from_file(os.path.join(folder, "model.params"))
        except (OSError, ValueError, TVMError) as problem:
            raise TVMCException(f"{model_path} is not a saved model: {problem}") from problem

    def default_tuning_records_path(self) -> str:
        """The default path for tuning records: a file in a temporary folder of this model.

        Returns
        -------
        str
        """
        return self._tmp_dir.relpath("tuning_records")

    def default_package_path(self) -> str:
        """The default path for a package: a file in a temporary folder of this model.

        Returns
        -------
        str
        """
        return self._tmp_dir.relpath("model_package.tar")

    def export_classic_format(
        self,
        executor_factory,
        package_path=None,
        cross=None,
        cross_options=None,
        lib_format="so",
        manifest: dict | None = None,
    ) -> str:
        """Write ``mod.so``, ``mod.json`` and ``mod.params`` into an archive.

        Parameters
        ----------
        executor_factory : GraphExecutorFactoryModule
            The compiled model, as returned by ``relay.build``.
        package_path : str, optional
            The path of the archive, which is written atomically; by default ``default_package_path``.
        cross : str, optional
            The compiler that links the library for another machine.
        cross_options : str, optional
            The options of that compiler, as on a command line.
        lib_format : str, optional
            "so" for a shared library, "tar" for an archive of objects.
        manifest : dict, optional
            The contents of ``manifest.json``; without it, the file is omitted.

        Returns
        -------
        str
            The path of the archive.
        """
        lib_name = f"mod.{lib_format}"
        graph_name, params_name = "mod.json", "mod.params"
        if package_path is None:
            package_path = self.default_package_path()
        with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
            # lib_path refers to the library, so it is kept as long as the model.
            lib_path = self._tmp_dir.relpath(lib_name)
            options = {"options": cross_options.split()} if cross_options else {}
            executor_factory.get_lib().export_library(lib_path, _cross(cross) if cross else None, **options)
            self.lib_path = lib_path
            with open(os.path.join(folder, graph_name), "w", encoding="utf-8") as f:
                f.write(executor_factory.get_graph_json())
            save_param_dict_to_file(executor_factory.get_params(), os.path.join(folder, params_name))
            files = [lib_path, *(os.path.join(folder, name) for name in (graph_name, params_name))]
            if manifest is not None:
                files.append(_write_manifest(manifest, folder))
            _write_tar(package_path, files)
        return package_path

    def export_vm_format(
        self, vm_exec, package_path=None, lib_format="so", cross=None, cross_options=None, manifest: dict | None = None
    ) -> str:
        """Write ``lib.so`` into an archive: the library with the code and the constants of an executable.

        Parameters
        ----------
        vm_exec : Executable
            The compiled model.
        package_path : str, optional
            The path of the archive; by default in a temporary folder.
        lib_format : str, optional
            "so" for a shared library, "tar" for an archive of objects.
        cross : str, optional
            The compiler that links for another machine.
        cross_options : str, optional
            The options of that compiler.
        manifest : dict, optional
            The metadata for ``manifest.json``.

        Returns
        -------
        str
            The path of the archive.
        """
        if package_path is None:
            package_path = self.default_package_path()
        # lib_path refers to the library, so it is kept as long as the model.
        lib_path = self._tmp_dir.relpath(f"lib.{lib_format}")
        options = {"options": cross_options.split()} if cross_options else {}
        vm_exec.mod.export_library(lib_path, _cross(cross) if cross else None, **options)
        self.lib_path = lib_path
        with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
            files = [lib_path]
            if manifest is not None:
                files.append(_write_manifest(manifest, folder))
            _write_tar(package_path, files)
        return package_path

    def export_package(
        self,
        executor_factory,
        package_path=None,
        cross=None,
        cross_options=None,
        output_format="so",
        manifest: dict | None = None,
    ) -> str:
        """Write a compiled model into an archive.

        Parameters
        ----------
        executor_factory : GraphExecutorFactoryModule or Executable
            The compiled model, as returned by ``relay.build`` or ``relay.vm.compile``.
        package_path : str, optional
            The path of the archive, which is written atomically; by default ``default_package_path``.
        cross : str, optional
            The compiler that links the library for another machine.
        cross_options : str, optional
            The options of that compiler, as on a command line.
        output_format : str, optional
            "so" for a shared library, "tar" for an archive of objects, "mlf" for Model Library Format.
        manifest : dict, optional
            The contents of ``manifest.json``; without it, the file is omitted.

        Returns
        -------
        str
            The path of the archive.

        Raises
        ------
        TVMCException
            The format is unknown, or is "mlf" and the Model Library Format does not support the model.
        """
        if output_format not in ("so", "tar", "mlf"):
            raise TVMCException("Only 'so', 'tar', and 'mlf' output formats are supported.")
        if output_format == "mlf":
            return self.export_mlf(executor_factory, package_path, cross)
        if isinstance(executor_factory, Executable):
            return self.export_vm_format(executor_factory, package_path, output_format, cross, cross_options, manifest)
        return self.export_classic_format(executor_factory, package_path, cross, cross_options, output_format, manifest)

    def export_mlf(self, executor_factory, package_path=None, cross=None) -> str:
        """Write a compiled model as an archive in Model Library Format.

        Parameters
        ----------
        executor_factory : ExecutorFactoryModule
            The compiled model, as ``relay.build`` returns it.
        package_path : str, optional
            The path of the archive; ``default_package_path`` by default.
        cross : str, optional
            The cross compiler, which the format does not support.

        Returns
        -------
        str
            The path of the archive.

        Raises
        ------
        TVMCException
            A cross compiler was given, or the format cannot contain the model.
        """
        from ...micro.model_library_format import export_model_library_format

        check_mlf(cross)
        path = package_path or self.default_package_path()
        try:
            export_model_library_format(executor_factory, path)
        except TVMError as problem:
            raise TVMCException(str(problem)) from problem
        return path

    def summary(self, file=None) -> None:
        """Print the graph in Relay's syntax.

        Parameters
        ----------
        file : file, optional
            The file to print to; by default the standard output.
        """
        print(self.mod, file=file)


def check_mlf(cross) -> None:
    """Raise an error if a cross compiler is given: Model Library Format contains unlinked code, so it needs none."""
    if cross:
        raise TVMCException("Specifying the MLF output and a cross compiler is not supported.")


def _cross(compiler: str):
    from ...contrib.cc import cross_compiler

    return cross_compiler(compiler)


def _write_manifest(manifest: dict, folder: str) -> str:
    """Write the manifest to a folder and return its path."""
    path = os.path.join(folder, MANIFEST)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(manifest, f, indent=1, sort_keys=True)
    return path


def _write_tar(path: str, files: list[str]) -> None:
    """Write an archive atomically."""

    def write(out) -> None:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in files:
                info = archive.gettarinfo(name, arcname=os.path.basename(name))
                # Without times and owners, two compilations of one model write identical archives.
                info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, "", "", 0o644
                with open(name, "rb") as f:
                    archive.addfile(info, f)

    write_whole(path, write)


def _extract(path: str, folder: str) -> None:
    from ...contrib.tar import untar

    if os.path.isdir(path):
        raise TVMCException(f"File {path} must be an archive, not a directory.")
    if not os.path.exists(path):
        raise TVMCException(f"File {path} does not exist.")
    try:
        if not tarfile.is_tarfile(path):
            raise TVMCException(
                f"Could not read model from archive {path}! It is not a package that tvmc compile writes; if it is a "
                f"model, compile it first: tvmc compile --target llvm --output module.tar {path}"
            )
        untar(path, folder)
    except OSError as problem:
        raise TVMCException(f"cannot read {path}: {problem.strerror or problem}") from problem
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem


class TVMCPackage:
    """A compiled model, ready to run.

    Parameters
    ----------
    package_path : str | os.PathLike
        The file.
    project_dir : str, optional
        The folder of a microcontroller project that was created from this package. The package must be in Model Library
        Format.
    """

    def __init__(self, package_path: str | os.PathLike, project_dir=None):
        self._tmp_dir = utils.tempdir()
        self.package_path = os.fspath(package_path)
        self.project_dir = project_dir
        self.import_package(self.package_path)
        if project_dir is not None and self.type != "mlf":
            raise TVMCException("Setting 'project_dir' is only allowed when importing a MLF.!")

    def import_package(self, package_path: str) -> None:
        """Unpack a package and locate its parts.

        Parameters
        ----------
        package_path : str
            The archive.

        Raises
        ------
        TVMCException
            The file does not exist or cannot be read, lacks a part, is damaged, or has an unsupported format.
        """
        folder = self._tmp_dir.relpath("package")
        os.makedirs(folder, exist_ok=True)
        _extract(package_path, folder)
        if os.path.exists(os.path.join(folder, "metadata.json")):
            self._import_mlf(folder)
            return
        for name in _KINDS:
            if os.path.exists(os.path.join(folder, name)):
                self.lib_name = name
                break
        else:
            raise TVMCException("Couldn't find exported library in the package.")
        self.type, self.executor_type, others = _KINDS[self.lib_name]
        self.lib_path = os.path.join(folder, self.lib_name)
        self.params_path = os.path.join(folder, "mod.params")
        for name in (self.lib_name, *others):
            if not os.path.exists(os.path.join(folder, name)):
                raise TVMCException(f"the package {package_path} has no {name}")
            if not os.path.isfile(os.path.join(folder, name)):
                raise TVMCException(f"the package {package_path} is damaged: its {name} is a folder")
        try:
            self.graph = Path(folder, "mod.json").read_text(encoding="utf-8") if others else None
            self.manifest = _read_manifest(Path(folder, MANIFEST))
        except (OSError, ValueError, RecursionError) as problem:
            raise TVMCException(f"the package {package_path} is damaged: {problem}") from problem
        if self.type == "classic" and self.manifest.get("executor") == "aot":
            self.executor_type = "aot"

    def _import_mlf(self, folder: str) -> None:
        """Read the parts of an archive in Model Library Format. It has no library, because its code is not linked."""
        from ...micro.mlf_reader import read_models

        try:
            models = read_models(folder, self.package_path)
            if len(models) != 1:
                raise TVMCException(
                    f"{self.package_path} has the models {', '.join(m.name for m in models)}; tvmc "
                    "supports only archives with one model"
                )
            (model,) = models
            self.graph = None if model.graph is None else model.graph.read_text(encoding="utf-8")
        except (TVMError, OSError, ValueError) as problem:
            raise TVMCException(str(problem)) from problem
        self.type, self.executor_type = "mlf", model.executor
        self.manifest = {**model.description, "target": ", ".join(map(str, _targets_of(model.description)))}
        self.lib_name = self.lib_path = None
        self.params_path = None if model.params is None else str(model.params)

    @property
    def is_vm(self) -> bool:
        """Whether the virtual machine runs the package."""
        return self.type == "vm"

    @functools.cached_property
    def executable(self) -> Executable:
        """The executable of a package for the virtual machine; its constants are memory-mapped from the file."""
        try:
            return Executable(runtime_module.load_module(self.lib_path))
        except TypeError as problem:
            raise TVMCException(f"the package {self.package_path} is damaged: {problem}") from problem
        except TVMError as problem:
            raise TVMCException(str(problem)) from problem

    @property
    def params(self) -> bytearray | None:
        """The parameters as bytes, read at each access, because ``tvmc run`` reads the file array by array. None for
        packages for the virtual machine, whose library contains them."""
        return None if self.params_path is None or self.is_vm else bytearray(Path(self.params_path).read_bytes())


def _targets_of(description: dict[str, Any]) -> list[Any]:
    """Return the targets of a model. Before version 5 of the format, they are a dictionary by device type."""
    targets = description.get("target", [])
    return list(targets.values()) if isinstance(targets, dict) else list(targets)


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest; empty for packages without one, which other programs wrote."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{MANIFEST} is not a JSON object")
    return content


class TVMCResult:
    """The result of a run: outputs by name and, if requested, times.

    Parameters
    ----------
    outputs : Mapping[str, Any]
        The outputs by name.
    times : BenchmarkResult
        The times, if they were measured.
    """

    def __init__(self, outputs: Mapping[str, Any] | None, times):
        self.outputs = dict(outputs or {})
        self.times = times

    def format_times(self) -> str:
        """The times as a table.

        Returns
        -------
        str
            "None" if they were not measured.
        """
        return str(self.times)

    def get_output(self, name: str):
        """Return an output by its name.

        Parameters
        ----------
        name : str
            The name, such as "output_0".

        Returns
        -------
        ndarray
            The output.

        Raises
        ------
        KeyError
            There is no output with this name.
        """
        return self.outputs[name]

    def save(self, output_path: str) -> None:
        """Write the outputs into an .npz file.

        Parameters
        ----------
        output_path : str
            The path of the file; ".npz" is appended if it is missing, unless the path is a pipe or a device.
        """
        import numpy as np

        output_path = os.fspath(output_path)
        path = output_path if output_path.endswith(".npz") or is_special(output_path) else output_path + ".npz"
        write_whole(path, lambda out: np.savez(out, **self.outputs))

    def __array__(self, dtype=None, copy=None):
        if len(self.outputs) != 1:
            raise TypeError(f"the result has {len(self.outputs)} outputs; choose one with get_output")
        (array,) = self.outputs.values()
        return array if dtype is None else array.astype(dtype)

    def __str__(self) -> str:
        return self.format_times() + "\n" + f"Output Names:\n {list(self.outputs.keys())}"
