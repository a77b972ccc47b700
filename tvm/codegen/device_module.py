"""Binary format of device modules, which code generation writes and the runtime reads.

A module consists of the magic ``TVMDEV01``, the length of a JSON text (u64, little-endian), the text, and the images
without gaps. The JSON contains the device type, the position of each image, and the launch parameters of each kernel.
Images are in order of preference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..error import TVMError
from ..runtime.module import Module, load_device_module
from .gpu_like import Kernel

MAGIC = b"TVMDEV01"


class Image(NamedTuple):
    """Code in one format: source text ("opencl", "cuda"), "ptx" or "cubin". ``arch`` is set if it runs on one
    architecture only."""

    format: str
    arch: str
    data: bytes


def pack(kind: str, images: Iterable[Image], kernels: Mapping[str, Kernel]) -> bytes:
    """Return the bytes of a device module."""
    rows, offset = [], 0
    images = list(images)
    for image in images:
        rows.append({"format": image.format, "arch": image.arch, "offset": offset, "size": len(image.data)})
        offset += len(image.data)
    table = {name: row._asdict() for name, row in kernels.items()}
    text = json.dumps({"kind": kind, "images": rows, "kernels": table}).encode()
    return b"".join((MAGIC, len(text).to_bytes(8, "little"), text, *(image.data for image in images)))


def unpack(data: bytes) -> tuple[dict, list[Image]]:
    """Return the JSON of a device module and its images."""
    if data[:8] != MAGIC:
        raise TVMError(f"not a device module: the data begins with {data[:8]!r} instead of {MAGIC.decode()}")
    size = int.from_bytes(data[8:16], "little")
    if len(data) < 16 + size:
        raise TVMError(f"a device module of {len(data)} bytes is truncated: its JSON text has {size} bytes")
    table = json.loads(data[16 : 16 + size])
    begin = 16 + size
    images = []
    for row in table["images"]:
        first = begin + row["offset"]
        if first + row["size"] > len(data):
            raise TVMError(
                f"a device module of {len(data)} bytes is truncated: an image ends at byte {first + row['size']}"
            )
        images.append(Image(row["format"], row["arch"], bytes(data[first : first + row["size"]])))
    return table, images


def build(kind: str, images: Iterable[Image], kernels: Mapping[str, Kernel]) -> Module:
    """Return a runtime module for the bytes of a device module."""
    return load_device_module(pack(kind, images, kernels))
