"""Bundles: one file with a compiled model, its weights and its runtime, for programs without Python and the runtime
library."""

from __future__ import annotations

import os
from typing import Any

from ....error import TVMError
from ....runtime.vm import Executable
from ...infer import infer_module
from ..executor_factory import AOTExecutorFactoryModule
from .contents import Contents, of_executable, of_factory
from .write import BundleSizes, write


def export_bundle(
    model: Any,
    path: str | os.PathLike,
    kind: str = "shared",
    threads: bool = True,
    *,
    ir_mod: Any = None,
    mod_name: str = "default",
    cc: str | None = None,
) -> BundleSizes:
    """Write a compiled model as a bundle: one file with its code, its weights and the required part of the runtime, and
    its header.

    Parameters
    ----------
    model : AOTExecutorFactoryModule or Executable
        The model, compiled for one CPU by ``relay.build`` with executor ``aot``, or by ``relay.vm.compile``.
    path : str or os.PathLike
        The file. The header has the same name with the suffix ``.h``.
    kind : str, optional
        "shared" for a shared library (``.so``), "static" for a static library (``.a``), "c" for a C file (``.c``). A C
        file requires target ``c``.
    threads : bool, optional
        Whether kernels run on all CPUs that the process may use. Without threads, the bundle contains no thread pool.
    ir_mod : IRModule, optional
        The module that an executable was compiled from. An executable does not contain the types of its outputs.
    mod_name : str, optional
        The name of the model of an executable. The public names start with ``tvm_bundle``, followed by the name unless
        it is "default".
    cc : str, optional
        The compiler for another machine, such as "aarch64-linux-gnu-gcc".

    Returns
    -------
    BundleSizes
        The size of the file and of the weights.

    Raises
    ------
    TVMError
        The model was compiled for another executor, runtime or device; the kind or the name of the file is invalid; or
        the compiler failed.
    """
    return write(_contents_of(model, ir_mod, mod_name), os.fspath(path), kind, threads, cc)


def _contents_of(model: Any, ir_mod: Any, mod_name: str) -> Contents:
    if isinstance(model, AOTExecutorFactoryModule):
        return of_factory(model)
    if isinstance(model, Executable):
        if ir_mod is None:
            raise TVMError("the bundle of an executable needs ir_mod, the module that it was compiled from")
        return of_executable(model, mod_name, infer_module(ir_mod))
    raise TVMError(
        f"a bundle needs a model compiled with executor aot or for the virtual machine, got {type(model).__name__}"
    )


__all__ = ["BundleSizes", "export_bundle"]
