"""Bytes of device modules written by hand, as code generation makes them."""

from __future__ import annotations

import json
import struct

SCALE = """
__kernel void scale(__global float* restrict out, __global const float* restrict a, float factor, int n) {
  int i = (int)(get_group_id(0) * get_local_size(0) + get_local_id(0));
  if (i < n) out[i] = a[i] * factor;
}
"""
SCALE_KERNELS = {
    "scale": {"args": ["handle", "handle", "float32", "int32"], "launch": ["blockIdx.x", "threadIdx.x"], "threads": 0}
}


def device_bytes(images: list[tuple[str, str, bytes]], kernels: dict, kind: str = "opencl") -> bytes:
    """``images``: (format, arch, bytes) each."""
    rows, body = [], b""
    for name, arch, data in images:
        rows.append({"format": name, "arch": arch, "offset": len(body), "size": len(data)})
        body += data
    text = json.dumps({"kind": kind, "images": rows, "kernels": kernels}).encode()
    return b"TVMDEV01" + struct.pack("<Q", len(text)) + text + body


def opencl_bytes(source: str = SCALE, kernels: dict | None = None) -> bytes:
    return device_bytes([("opencl", "", source.encode())], SCALE_KERNELS if kernels is None else kernels)
