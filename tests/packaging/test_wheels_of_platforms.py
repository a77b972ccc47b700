"""Wheels of other platforms are made from the wheel of this one."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from tools import wheels
from tools.wheels import PLATFORMS, for_platform

INFO = "tvm_classic-0.14.0.dist-info"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "tvm_classic-0.14.0-py3-none-linux_x86_64.whl"
    files = {
        "tvm/__init__.py": "x = 1\n", "tvm/lib/libtvm_runtime.so": "elf", "tvm/lib/tvm_rpc_server": "elf",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
        f"{INFO}/RECORD": "old",
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("item", [item for item in PLATFORMS if not item.is_host], ids=lambda item: item.tag)
def test_a_wheel_has_the_libraries_of_its_platform(item, wheel, tmp_path):
    libraries = [tmp_path / name for name in item.files]
    for path in libraries:
        path.write_bytes(item.tag.encode())
    folder = tmp_path / "made"
    folder.mkdir()
    made = for_platform(wheel, item, libraries, folder)
    tag = item.tag
    assert made.name == f"tvm_classic-0.14.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(made) as archive:
        names = set(archive.namelist())
        assert {name for name in names if "/lib/" in name} == {f"tvm/lib/{name}" for name in item.files}
        assert "tvm/__init__.py" in names
        assert archive.read(f"{INFO}/WHEEL").decode().splitlines()[-1] == f"Tag: py3-none-{tag}"
        record = dict(line.split(",", 1) for line in archive.read(f"{INFO}/RECORD").decode().splitlines())
        assert set(record) == names
        for name in names - {f"{INFO}/RECORD"}:
            data = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert record[name] == f"sha256={digest},{len(data)}"


def test_the_tags_are_those_of_the_oldest_systems():
    assert wheels.GLIBC == "2.17"
    assert {item.tag for item in PLATFORMS} == {
        "manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "win_amd64", "win_arm64", "macosx_10_13_x86_64",
        "macosx_11_0_arm64",
    }  # fmt: skip
