"""Writes small TensorFlow files without TensorFlow: graphs, SavedModels and their checkpoints."""

from __future__ import annotations

import importlib.util
import struct
from functools import cache
from pathlib import Path

import numpy as np

from tvm.relay.frontend.tensorflow.crc32c import crc32c, masked
from tvm.relay.frontend.tensorflow.schema import DTYPES, FILES

NUMBERS = {name: number for number, name in DTYPES.items()}


@cache
def runner():
    """tools/tensorflow_conformance.py, which has the cases and compares."""
    path = Path(__file__).resolve().parents[4] / "tools" / "tensorflow_conformance.py"
    spec = importlib.util.spec_from_file_location("tensorflow_conformance", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _attr(pairs, key: str, value) -> None:
    made = pairs.add(key=key).value
    if isinstance(value, bool):
        made.b = value
    elif isinstance(value, int):
        made.i = value
    elif isinstance(value, float):
        made.f = value
    elif isinstance(value, str):
        made.s = value.encode()
    elif isinstance(value, np.dtype):
        made.type = NUMBERS[str(value)]
    elif isinstance(value, tuple):
        made.shape.SetInParent()
        for size in value:
            made.shape.dim.add(size=-1 if size is None else size)
    elif isinstance(value, np.ndarray):
        made.tensor.dtype = NUMBERS[str(value.dtype)]
        made.tensor.tensor_shape.SetInParent()
        for size in value.shape:
            made.tensor.tensor_shape.dim.add(size=size)
        made.tensor.tensor_content = value.tobytes()
    elif isinstance(value, dict):
        made.func.name = value["function"]
    elif value and isinstance(value[0], str):
        made.list.s.extend(v.encode() for v in value)
    else:
        made.list.i.extend(value)


def add_node(nodes, name: str, op: str, inputs=(), **attrs) -> None:
    node = nodes.add(name=name, op=op)
    node.input.extend(inputs)
    for key, value in attrs.items():
        _attr(node.attr, key, value)


def graph(*nodes) -> bytes:
    """The bytes of a graph of (name, operator, inputs, attributes)."""
    made = FILES.messages["Graph"]()
    for name, op, inputs, attrs in nodes:
        add_node(made.node, name, op, inputs, **attrs)
    return made.SerializeToString()


def placeholder(name: str, *shape, dtype="float32") -> tuple:
    return name, "Placeholder", [], {"dtype": np.dtype(dtype), "shape": shape}


def constant(name: str, value, dtype="float32") -> tuple:
    return name, "Const", [], {"value": np.asarray(value, dtype), "dtype": np.dtype(dtype)}


def table(entries: dict[bytes, bytes]) -> bytes:
    """A sorted table of one block."""

    def varint(n: int) -> bytes:
        out = bytearray()
        while n >= 128:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes([*out, n])

    def block(rows: dict[bytes, bytes]) -> bytes:
        body = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in rows.items())
        body += struct.pack("<II", 0, 1) + b"\0"
        return body + struct.pack("<I", masked(crc32c(body)))

    data = block(dict(sorted(entries.items())))
    meta = block({})
    index = block({b"\xff": varint(0) + varint(len(data) - 5)})
    footer = varint(len(data)) + varint(len(meta) - 5) + varint(len(data) + len(meta)) + varint(len(index) - 5)
    return data + meta + index + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def write_checkpoint(folder: Path, tensors: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries, data = {b"": FILES.messages["BundleHeader"](num_shards=1).SerializeToString()}, b""
    for key, array in tensors.items():
        entry = FILES.messages["BundleEntry"](dtype=NUMBERS[str(array.dtype)], offset=len(data), size=array.nbytes)
        entry.shape.SetInParent()
        for size in array.shape:
            entry.shape.dim.add(size=size)
        entry.crc32c = masked(crc32c(array.tobytes()))
        entries[key.encode()] = entry.SerializeToString()
        data += array.tobytes()
    (folder / "variables.index").write_bytes(table(entries))
    (folder / "variables.data-00000-of-00001").write_bytes(data)


def write_saved_model(folder: Path, nodes: list, tensors: dict, entries: dict, functions: list | None = None) -> None:
    """``entries`` are by name (inputs, outputs), each a dictionary of names and tensors; ``functions`` are (name,
    arguments, results by name, nodes)."""
    model = FILES.messages["SavedModel"](saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    for name, op, inputs, attrs in nodes:
        add_node(meta.graph_def.node, name, op, inputs, **attrs)
    for name, arguments, results, body in functions or []:
        function = meta.graph_def.library.function.add()
        function.signature.name = name
        for argument in arguments:
            function.signature.input_arg.add(name=argument)
        for key, value in results.items():
            function.signature.output_arg.add(name=key)
            function.ret.add(key=key, value=value)
        for node, op, inputs, attrs in body:
            add_node(function.node_def, node, op, inputs, **attrs)
    for name, (inputs, outputs) in entries.items():
        entry = meta.signature_def.add(key=name).value
        for pairs, given in ((entry.inputs, inputs), (entry.outputs, outputs)):
            for key, tensor in given.items():
                pairs.add(key=key).value.name = tensor
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    if tensors:
        write_checkpoint(folder / "variables", tensors)
