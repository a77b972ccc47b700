"""Device modules as bytes: the contract between code generation and the runtime.

The magic ``TVMDEV01``, the length of a JSON text (u64, little-endian), the text, and the images back to back. The text
says what kind of device it is for, where each image lies, and how each kernel is launched. Images stand in order of
preference.
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
    """Code in one format: source text ("opencl", "cuda"), "ptx" or "cubin"; ``arch`` where it is for one only."""

    format: str
    arch: str
    data: bytes


def pack(kind: str, images: Iterable[Image], kernels: Mapping[str, Kernel]) -> bytes:
    """The bytes of a device module."""
    rows, offset = [], 0
    images = list(images)
    for image in images:
        rows.append({"format": image.format, "arch": image.arch, "offset": offset, "size": len(image.data)})
        offset += len(image.data)
    table = {name: row._asdict() for name, row in kernels.items()}
    text = json.dumps({"kind": kind, "images": rows, "kernels": table}).encode()
    return b"".join((MAGIC, len(text).to_bytes(8, "little"), text, *(image.data for image in images)))


def unpack(data: bytes) -> tuple[dict, list[Image]]:
    """The JSON of a device module and its images."""
    if data[:8] != MAGIC:
        raise TVMError(f"a device module begins with {MAGIC.decode()}, these bytes with {data[:8]!r}")
    size = int.from_bytes(data[8:16], "little")
    if len(data) < 16 + size:
        raise TVMError(f"a device module of {len(data)} bytes is cut off: its text alone takes {size}")
    table = json.loads(data[16 : 16 + size])
    begin = 16 + size
    images = []
    for row in table["images"]:
        first = begin + row["offset"]
        if first + row["size"] > len(data):
            raise TVMError(f"a device module of {len(data)} bytes is cut off: an image ends at {first + row['size']}")
        images.append(Image(row["format"], row["arch"], bytes(data[first : first + row["size"]])))
    return table, images


def build(kind: str, images: Iterable[Image], kernels: Mapping[str, Kernel]) -> Module:
    """A runtime module over the bytes."""
    return load_device_module(pack(kind, images, kernels))
