"""C headers with test data, and workspace sizes from archives in Model Library Format."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np

from ...codegen.c import plain
from ...codegen.c.names import clean
from ...codegen.c.source import Source
from ...error import TVMError
from ..model_library_format import METADATA_FILE

_DTYPES = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")


def create_header_file(
    tensor_name: str, npy_data: np.ndarray, output_path: str | Path, tar_file: tarfile.TarFile
) -> None:
    """Add a C header with the elements of an array to an archive.

    The header defines ``const size_t NAME_len``, the number of elements, and the array ``NAME``.

    Parameters
    ----------
    tensor_name : str
        The name of the array in C and of the header.
    npy_data : numpy.ndarray
        The data.
    output_path : str or Path
        The folder of the header in the archive.
    tar_file : TarFile
        The archive, open for writing.

    Raises
    ------
    TVMError
        The name is not a C identifier, or C has no type for the elements.
    """
    if clean(tensor_name) != tensor_name:
        raise TVMError(f"create_header_file: '{tensor_name}' is not a C identifier")
    dtype = str(npy_data.dtype)
    if dtype not in _DTYPES:
        raise TVMError(f"create_header_file: C has no type for {dtype}; use one of {', '.join(_DTYPES)}")
    printer = plain.PlainC(Source(plain.PlainC), tensor_name)
    rows = plain.constant_rows(printer, dtype, npy_data)
    lines = [f"#include <{name}.h>" for name in ("math", "stddef", "stdint")]
    lines += ["", f"const size_t {tensor_name}_len = {npy_data.size};"]
    array = f"{printer.memory_type(dtype)} {tensor_name}[{max(npy_data.size, 1)}]"
    lines += [f"__attribute__((aligned(16))) {array} = {{", *(f"  {row}," for row in rows), "};", ""]
    data = "\n".join(lines).encode()
    entry = tarfile.TarInfo((Path(output_path) / f"{tensor_name}.h").as_posix())
    entry.size = len(data)
    tar_file.addfile(entry, io.BytesIO(data))


def mlf_extract_workspace_size_bytes(mlf_tar_path: str | Path) -> int:
    """Return the workspace size of the models in an archive in Model Library Format.

    Parameters
    ----------
    mlf_tar_path : str or Path
        The archive.

    Returns
    -------
    int
        The total size in bytes.

    Raises
    ------
    TVMError
        The archive is not in Model Library Format.
    """
    try:
        with tarfile.open(mlf_tar_path) as archive:
            file = archive.extractfile(METADATA_FILE)
            modules = json.loads(file.read())["modules"] if file is not None else {}
        mains = [module["memory"]["functions"]["main"][0] for module in modules.values()]
        return sum(int(main["workspace_size_bytes"]) for main in mains)
    except (tarfile.TarError, ValueError, KeyError, TypeError, IndexError, AttributeError) as problem:
        raise TVMError(f"{mlf_tar_path} is not an archive of models in Model Library Format: {problem!r}") from problem


__all__ = ["create_header_file", "mlf_extract_workspace_size_bytes"]
