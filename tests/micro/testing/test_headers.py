"""C headers with test data, and workspace sizes from archives in Model Library Format."""

from __future__ import annotations

import io
import subprocess
import tarfile

import numpy as np
import pytest

import tvm
from tvm.micro.testing import create_header_file, mlf_extract_workspace_size_bytes
from tvm.runtime import link


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
def test_a_header_contains_the_data(dtype, tmp_path, seed):
    rng = np.random.default_rng(seed)
    data = (rng.normal(size=(5, 7)) * 50).astype(dtype)
    if data.dtype.kind == "f":
        data[0, :3] = np.inf, -np.inf, np.nan
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        create_header_file("values", data, "include", archive)
    with tarfile.open(tmp_path / "a.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "include/values.h"\n'
        "int main(void) { return fwrite(values, sizeof(values[0]), values_len, stdout) != values_len; }\n"
    )
    binary = tmp_path / "main"
    subprocess.run([*link.find_compiler(), "-std=gnu99", tmp_path / "main.c", "-o", binary], check=True)
    found = subprocess.run([binary], check=True, capture_output=True).stdout
    np.testing.assert_array_equal(np.frombuffer(found, dtype).reshape(5, 7), data)


def test_headers_that_c_cannot_express():
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as archive:
        with pytest.raises(tvm.TVMError, match="'in:put' is not a C identifier"):
            create_header_file("in:put", np.zeros(2), ".", archive)
        with pytest.raises(tvm.TVMError, match="C has no type for complex64; use one of int8"):
            create_header_file("x", np.zeros(2, "complex64"), ".", archive)


def test_the_workspace_of_an_archive(archive, factory, tmp_path):
    size = factory.plain_model.interface.workspace_bytes
    assert mlf_extract_workspace_size_bytes(archive) == size > 0
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(tvm.TVMError, match="is not an archive of models in Model Library Format"):
        mlf_extract_workspace_size_bytes(tmp_path / "empty.tar")
