"""``tvmc compile --output-format bundle``: one file with a model, its weights and its runtime."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ...relay.backend.bundle import BundleSizes, export_bundle
from ...relay.backend.bundle.write import SUFFIXES
from ...relay.backend.options import Executor
from ...runtime.vm import Executable
from ...target.backend import backend_of
from .built import Built
from .errors import TVMCException
from .info import compiled_for
from .terminal import size

FORMAT = "bundle"


class TVMCBundle(NamedTuple):
    """A bundle that was written.

    Parameters
    ----------
    package_path : str
        The file.
    manifest : dict
        The version, the target, the inputs and the outputs.
    is_vm : bool
        Whether the bundle contains the virtual machine.
    sizes : BundleSizes
        The size of the file and of the weights.
    kernels : int
        The number of kernels.
    """

    package_path: str
    manifest: dict[str, Any]
    is_vm: bool
    sizes: BundleSizes
    kernels: int

    def outcome(self, seconds: float) -> str:
        """Return a one-line description for the terminal.

        Parameters
        ----------
        seconds : float
            The time of the compilation.

        Returns
        -------
        str
            The description.
        """
        total, weights = self.sizes
        what = "source" if kind_of(self.package_path) == "c" else "code"
        parts = f"weights {size(weights)}, {what} {size(max(total - weights, 0))}"
        return (
            f"{self.package_path}, {size(total)} ({parts}), {self.kernels} kernels, {seconds:.1f} s, for "
            f"{compiled_for(self.manifest)}"
        )


def kind_of(path: str) -> str:
    """Return the kind of a bundle, which the suffix of its file determines.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    str
        "shared", "static" or "c".

    Raises
    ------
    TVMCException
        The suffix is none of a bundle.
    """
    suffix = os.path.splitext(path)[1]
    for kind, own in SUFFIXES.items():
        if suffix == own:
            return kind
    raise TVMCException(
        f"--output {path}: the file of a bundle ends with .so (shared library), .a (static library) or .c (C file)"
    )


def check(path: str | None, executor: Any, runtime: Any, target: Any) -> None:
    """Raise an error for options that bundles do not support, before the model is compiled.

    Parameters
    ----------
    path : str or None
        The output.
    executor : Executor or str or None
        The executor.
    runtime : Runtime or None
        The runtime.
    target : Target
        The target.

    Raises
    ------
    TVMCException
        An option is not supported.
    """
    if path is None:
        raise TVMCException("a bundle needs a path that ends with .so, .a or .c")
    kind = kind_of(path)
    if str(executor) == "graph":
        raise TVMCException("a bundle contains no graph executor; use --executor aot or vm, or leave --executor out")
    if runtime is not None and str(runtime) != "cpp":
        raise TVMCException(f"a bundle contains its own runtime; leave --runtime {runtime} out")
    if not target.features.is_cpu:
        raise TVMCException(f"a bundle runs on the CPU; target {str(target).strip()} is not supported")
    if kind == "c" and backend_of(target).makes_cpu_code:
        raise TVMCException("a bundle in C needs --target c; other targets generate machine code (.so, .a)")


def default_executor(output_format: str) -> Executor | None:
    """Return the executor of models with static shapes if the user selects none.

    Parameters
    ----------
    output_format : str
        The output format.

    Returns
    -------
    Executor or None
        The ahead-of-time executor for bundles; None for the default of other formats.
    """
    return Executor("aot") if output_format == FORMAT else None


def write_bundle(
    built: Built, mod: Any, path: str, mod_name: str, threads: bool, compiler: str | None, manifest: dict[str, Any]
) -> TVMCBundle:
    """Write a compiled model as a bundle.

    Parameters
    ----------
    built : Built
        The compiled model.
    mod : IRModule
        The module that it was compiled from.
    path : str
        The file.
    mod_name : str
        The name of the model.
    threads : bool
        Whether the bundle contains a thread pool.
    compiler : str or None
        The compiler command for another machine.
    manifest : dict
        The facts of the compilation.

    Returns
    -------
    TVMCBundle
        The bundle.
    """
    sizes = export_bundle(built.model, path, kind_of(path), threads, ir_mod=mod, mod_name=mod_name, cc=compiler)
    return TVMCBundle(path, manifest, isinstance(built.model, Executable), sizes, len(built.kernels))


__all__ = ["FORMAT", "TVMCBundle", "check", "default_executor", "kind_of", "write_bundle"]
