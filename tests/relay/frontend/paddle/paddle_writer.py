"""Writes programs and parameters of PaddlePaddle without PaddlePaddle."""

from __future__ import annotations

import struct

import numpy as np

from tvm.relay.frontend.paddlepaddle.schema import DTYPES, LOD_TENSOR, NUMBERS, SCHEMA, TENSOR_ARRAY


class Block(int):
    """The number of a block, as an attribute."""


class Longs(list):
    """Integers of 64 bits, as an attribute."""


class Scalars(list):
    """Numbers of any kind, as an attribute."""


class From(str):
    """An attribute that a variable of this name gives."""


def _attr(made, value) -> None:
    if isinstance(value, Block):
        made.type, made.block_idx = 8, value
    elif isinstance(value, bool):
        made.type, made.b = 6, value
    elif isinstance(value, int):
        made.type, made.i = 0, value
    elif isinstance(value, float):
        made.type, made.f = 1, value
    elif isinstance(value, From):
        made.type, made.var_name = 13, value.encode()
    elif isinstance(value, str):
        made.type, made.s = 2, value.encode()
    elif isinstance(value, Longs):
        made.type = 11
        made.longs.extend(value)
    elif isinstance(value, Scalars):
        made.type = 17
        for v in value:
            kind = 1 if isinstance(v, bool) else 2 if isinstance(v, int) else 3
            made.scalars.add(type=kind, **{{1: "b", 2: "i", 3: "r"}[kind]: v})
    elif value and isinstance(value[0], bool):
        made.type = 7
        made.bools.extend(value)
    elif value and isinstance(value[0], float):
        made.type = 4
        made.floats.extend(value)
    elif value and isinstance(value[0], str):
        made.type = 5
        made.strings.extend(v.encode() for v in value)
    else:
        made.type = 3
        made.ints.extend(value)


def _slots(slots, given: dict) -> None:
    for parameter, names in given.items():
        made = slots.add(parameter=parameter.encode())
        made.arguments.extend(n.encode() for n in ([names] if isinstance(names, str) else names))


def _dtype(kind: str, attrs: dict) -> str:
    """The element type that an operator makes, as far as it says so."""
    number = attrs.get("out_dtype", attrs.get("dtype"))
    if kind.startswith(("less", "greater", "equal", "not_equal", "logical")):
        return "bool"
    return DTYPES.get(number, "float32")


def _variable(block, name: str, shape=(), dtype: str = "float32", persistable: bool = False, kind=LOD_TENSOR) -> None:
    made = block.vars.add(name=name.encode(), persistable=persistable)
    made.type.type = kind
    tensor = made.type.tensor_array.tensor if kind == TENSOR_ARRAY else made.type.lod_tensor.tensor
    tensor.data_type = NUMBERS[dtype]
    tensor.dims.extend(shape)


def program(operators, feeds: dict, fetches, weights=None, blocks=(), kinds=None, declared=None, framed=True) -> bytes:
    """A program. An operator is (type, inputs, outputs, attributes), an input (shape, element type) by name; ``blocks``
    are the operators of further blocks, ``kinds`` the numbers of variables that are no tensors, ``declared`` shapes of
    others. Without a frame there are no operators feed and fetch."""
    made = SCHEMA.messages["Program"]()
    many = [list(operators), *map(list, blocks)]
    known = {*feeds, *(weights or {})}
    for index, rows in enumerate(many):
        block = made.blocks.add(idx=index, parent_idx=0 if index else -1)
        if index == 0:
            if framed:
                rows = [
                    *[("feed", {"X": "feed"}, {"Out": n}, {"col": i}) for i, n in enumerate(feeds)],
                    *rows,
                    *[("fetch", {"X": n}, {"Out": "fetch"}, {"col": i}) for i, n in enumerate(fetches)],
                ]
            for name, (shape, dtype) in feeds.items():
                _variable(block, name, shape, dtype)
            for name, array in (weights or {}).items():
                _variable(block, name, array.shape, str(array.dtype), True)
        for kind, inputs, outputs, attrs in rows:
            node = block.ops.add(type=kind.encode())
            _slots(node.inputs, inputs)
            _slots(node.outputs, outputs)
            for name, value in attrs.items():
                _attr(node.attrs.add(name=name.encode()), value)
            for names in outputs.values():
                for name in [names] if isinstance(names, str) else names:
                    if name not in known and name != "fetch":
                        known.add(name)
                        own = (kinds or {}).get(name, LOD_TENSOR)
                        _variable(block, name, (declared or {}).get(name, ()), _dtype(kind, attrs), kind=own)
    return made.SerializeToString()


def tensor(array: np.ndarray) -> bytes:
    """A parameter as files hold it."""
    desc = SCHEMA.messages["TensorDesc"](data_type=NUMBERS[str(array.dtype)], dims=list(array.shape))
    head = desc.SerializeToString()
    return struct.pack("<IQIi", 0, 0, 0, len(head)) + head + np.ascontiguousarray(array).tobytes()


def parameters(weights: dict) -> bytes:
    return b"".join(tensor(weights[name]) for name in sorted(weights))


def write(folder, name: str, data: bytes, weights: dict | None = None):
    """A program and its parameters beside it; the path of the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.pdmodel").write_bytes(data)
    if weights:
        (folder / f"{name}.pdiparams").write_bytes(parameters(weights))
    return folder / f"{name}.pdmodel"


__all__ = ["Block", "From", "Longs", "Scalars", "parameters", "program", "tensor", "write"]
