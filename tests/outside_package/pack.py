"""Packs the package as a wheel, for pip: the build back end of its pyproject.toml."""

import base64
import hashlib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "acme_backend-1.0"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {
        f"acme/{path.name}": path.read_bytes() for path in sorted((HERE / "acme").glob("*.[pc]*")) if path.is_file()
    }
    info = f"{NAME}.dist-info"
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: acme-backend\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: acme\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = b"[tvm.backends]\nacme = acme\n"
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in files.items()}
    lines = [f"{name},sha256={digests[name].decode().rstrip('=')},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel
