"""Writes Core ML models for tests, with the messages of the importer: networks, ML programs and their packages."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tvm.relay.frontend.coreml.schema import BLOB_TYPES, FEATURE_TYPES, FILES, VALUE_TYPES

_VALUES = {name: number for number, name in VALUE_TYPES.items()}
_FEATURES = {name: number for number, name in FEATURE_TYPES.items()}
_BLOBS = {name: number for number, name in BLOB_TYPES.items()}


def message(kind: str, /, **fields: Any) -> Any:
    """A message with its fields: dictionaries are messages inside, arrays are weights."""
    made = FILES.messages[kind]()
    fill(made, fields)
    return made


def fill(target: Any, fields: dict[str, Any]) -> None:
    for key, value in fields.items():
        own = getattr(target, key)
        if isinstance(value, np.ndarray) and hasattr(own, "floatValue"):
            own.floatValue.extend(value.astype("float32").reshape(-1).tolist())
        elif isinstance(value, dict):
            own.SetInParent()
            fill(own, value)
        elif hasattr(own, "MergeFrom") and hasattr(value, "SerializeToString"):
            own.CopyFrom(value)
        elif isinstance(value, (list, tuple, np.ndarray)):
            for part in value:
                if isinstance(part, dict):
                    fill(own.add(), part)
                elif hasattr(part, "SerializeToString"):
                    own.add().CopyFrom(part)
                else:
                    own.append(part.item() if hasattr(part, "item") else part)
        else:
            setattr(target, key, value)


def feature(name: str, shape=None, dtype: str = "float32", image: tuple | None = None, **more: Any) -> Any:
    """An array, or an image: its height, width and order of colours."""
    if image is not None:
        return message(
            "FeatureDescription",
            name=name,
            type={"imageType": {"height": image[0], "width": image[1], "colorSpace": image[2]}},
        )
    kind = {"multiArrayType": {"shape": list(shape or []), "dataType": _FEATURES[dtype]}, **more}
    return message("FeatureDescription", name=name, type=kind)


class NetworkWriter:
    """A neural network, layer by layer. With ``exact`` shapes are taken as they stand (specification 4)."""

    def __init__(self, exact: bool = True, kind: str = "neuralNetwork"):
        self.model = message("Model", specificationVersion=5 if exact else 3)
        self.kind = kind
        self.network = getattr(self.model, kind)
        self.network.SetInParent()
        if exact:
            self.network.arrayInputShapeMapping = self.network.imageInputShapeMapping = 1
        self.count = 0

    def input(self, name: str, shape=None, **more: Any) -> str:
        self.model.description.input.append(feature(name, shape, **more))
        return name

    def layer(self, kind: str, inputs=(), outputs: int = 1, name: str = "", **params: Any) -> Any:
        self.count += 1
        name = name or f"{kind}_{self.count}"
        names = [f"{name}_{i}" if outputs > 1 else f"{name}_out" for i in range(outputs)]
        made = self.network.layers.add(name=name, input=[inputs] if isinstance(inputs, str) else list(inputs))
        made.output.extend(names)
        getattr(made, kind).SetInParent()
        fill(getattr(made, kind), params)
        return names if outputs > 1 else names[0]

    def output(self, name: str, shape=None, **more: Any) -> str:
        self.model.description.output.append(feature(name, shape, **more))
        return name

    def bytes(self) -> bytes:
        return self.model.SerializeToString()


class Ref(str):
    """The name of a value of a program; other texts are constants."""


class ProgramWriter:
    """An ML program, operation by operation."""

    def __init__(self, opset: str = "CoreML7", version: int = 8):
        self.model = message("Model", specificationVersion=version)
        self.function = self.model.mlProgram.functions.add(key="main").value
        self.model.mlProgram.version = 1
        self.function.opset = opset
        self.block = self.function.block_specializations.add(key=opset).value
        self.count = 0
        self.weights = bytearray()

    def input(self, name: str, shape, dtype: str = "float32", **more: Any) -> Ref:
        described = dtype if dtype in _FEATURES else "float32"
        self.model.description.input.append(feature(name, shape, described, **more))
        argument = self.function.inputs.add(name=name)
        self._type(argument.type, shape, dtype)
        return Ref(name)

    def _type(self, target: Any, shape, dtype: str) -> None:
        target.tensorType.dataType = _VALUES[dtype]
        target.tensorType.rank = len(shape)
        for size in shape:
            target.tensorType.dimensions.add().constant.size = size

    def value(self, target: Any, value: Any) -> None:
        """Fill a value: text, or an array."""
        if isinstance(value, (str, list)) and (isinstance(value, str) or value and isinstance(value[0], str)):
            texts = [value] if isinstance(value, str) else value
            self._type(target.type, () if isinstance(value, str) else (len(value),), "string")
            target.immediateValue.tensor.strings.values.extend(texts)
            return
        array = np.asarray(value)
        array = array.astype("float32") if array.dtype == "float64" else array
        array = array.astype("int32") if array.dtype == "int64" else array
        self._type(target.type, array.shape, str(array.dtype))
        tensor = target.immediateValue.tensor
        if array.dtype == "bool":
            tensor.bools.values.extend(array.reshape(-1).tolist())
        elif array.dtype == "float32":
            tensor.floats.values.extend(array.reshape(-1).tolist())
        elif array.dtype == "int32":
            tensor.ints.values.extend(array.reshape(-1).tolist())
        else:
            tensor.bytes.values = array.tobytes()

    def const(self, value: Any, block: Any = None) -> Ref:
        self.count += 1
        made = (block or self.block).operations.add(type="const")
        name = f"const_{self.count}"
        made.outputs.add(name=name)
        self.value(made.attributes.add(key="val").value, value)
        return Ref(name)

    def blob(self, data: bytes, dtype: str, shape) -> Ref:
        """A constant in the file of weights."""
        if not self.weights:
            self.weights += bytes(64)
        self.weights += bytes(-len(self.weights) % 64)
        offset = len(self.weights)
        head = struct.pack("<IIQQQ", 0xDEADBEEF, _BLOBS[dtype], len(data), offset + 64, 0)
        self.weights += head.ljust(64, b"\0") + data
        struct.pack_into("<II", self.weights, 0, struct.unpack_from("<I", self.weights)[0] + 1, 2)
        self.count += 1
        made = self.block.operations.add(type="const")
        name = f"weight_{self.count}"
        made.outputs.add(name=name)
        value = made.attributes.add(key="val").value
        self._type(value.type, shape, dtype)
        value.blobFileValue.fileName, value.blobFileValue.offset = "@model_path/weights/weight.bin", offset
        return Ref(name)

    def op(self, kind: str, outputs: int = 1, block: Any = None, **inputs: Any) -> Any:
        """An operation. A list of references or a tuple is an argument of several; other values are constants."""
        rows = []
        for key, value in inputs.items():
            if value is None:
                continue
            many = isinstance(value, tuple) or isinstance(value, list) and any(isinstance(v, Ref) for v in value)
            given = value if many else [value]
            rows.append((key, [v if isinstance(v, Ref) else self.const(v, block) for v in given]))
        self.count += 1
        made = (block or self.block).operations.add(type=kind)
        for key, refs in rows:
            argument = made.inputs.add(key=key).value
            for ref in refs:
                argument.arguments.add(name=str(ref))
        names = [Ref(f"{kind}_{self.count}_{i}") for i in range(outputs)]
        for name in names:
            made.outputs.add(name=name)
        self.last = made
        return names if outputs > 1 else names[0]

    def output(self, name: str, **more: Any) -> str:
        self.model.description.output.append(feature(name, **more))
        self.block.outputs.append(name)
        return name

    def bytes(self) -> bytes:
        return self.model.SerializeToString()

    def package(self, folder: Path) -> Path:
        """A package in a folder of its own."""
        write_package(folder, self.bytes(), bytes(self.weights))
        return folder


def write_package(folder: Path, model: bytes, weights: bytes) -> None:
    inner = folder / "Data" / "com.apple.CoreML"
    (inner / "weights").mkdir(parents=True)
    (inner / "model.mlmodel").write_bytes(model)
    (inner / "weights" / "weight.bin").write_bytes(weights)
    entries = {"A": {"path": "com.apple.CoreML/model.mlmodel"}, "B": {"path": "com.apple.CoreML/weights"}}
    (folder / "Manifest.json").write_text(json.dumps({"itemInfoEntries": entries, "rootModelIdentifier": "A"}))


def run(model: Any, feeds: dict[str, np.ndarray], shape: dict | None = None) -> list[np.ndarray]:
    """The results of a model, which the virtual machine runs."""
    import tvm
    from tvm import relay
    from tvm.runtime.vm import VirtualMachine

    module, params = relay.frontend.from_coreml(model, shape)
    machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    given = {**params, **feeds}
    machine.set_input("main", **{p.name_hint: given[p.name_hint] for p in module["main"].params})
    got = machine.invoke("main")
    return [got.numpy()] if hasattr(got, "numpy") else [g.numpy() for g in got]
