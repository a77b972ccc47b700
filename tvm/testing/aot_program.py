"""C programs around models in plain C: they read the inputs from a file, run the model, and write the outputs.

The models are compiled as for a microcontroller (``-std=c99 -Wall -Wextra -Werror -ffreestanding``).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..codegen.c.runtime import ARRAY_RECORDS
from ..dtype import dlpack_parts
from ..error import TVMError
from ..ir.tensor_type import TensorType
from ..relay.backend.aot.plain_module import PlainModel
from ..runtime import link, ndarray

MODEL_FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-O2")
_MAIN_FLAGS = ("-std=c99", "-O0")


class Extras(NamedTuple):
    """Additions to a program: lines at the beginning and at the end of main, headers, macros, and the attribute of the
    buffers of inputs and outputs."""

    prologue: str = ""
    epilogue: str = ""
    includes: Sequence[str] = ()
    macros: Mapping[str, str] = {}
    attribute: str = ""


class Program:
    """A C program that runs models one after the other.

    Parameters
    ----------
    models : sequence of PlainModel
        The models; their names differ.
    folder : Path
        The folder of its files.
    extras : Extras, optional
        Additions to the program.
    """

    def __init__(self, models: Sequence[PlainModel], folder: Path, extras: Extras | None = None):
        self.models, self.folder, self.extras = list(models), folder, extras or Extras()
        self.binary = folder / "program"

    def build(self, flags: Sequence[str] = MODEL_FLAGS) -> None:
        """Compile the models and the program, and link both."""
        objects = []
        for model in self.models:
            stem = self.folder / model.interface.prefix
            stem.with_suffix(".c").write_text(model.text)
            if model.header:
                stem.with_suffix(".h").write_text(model.header)
            objects.append(self._compile(stem.with_suffix(".c"), flags))
            objects += self._machine_code(model)
        main = self.folder / "main.c"
        main.write_text(program_text(self.models, self.extras))
        macros = [f"-D{name}={value}" for name, value in self.extras.macros.items()]
        objects.append(self._compile(main, [*_MAIN_FLAGS, *macros, f"-I{self.folder}"]))
        self._gcc("linking the models", ["-o", str(self.binary), *map(str, objects), "-lm", "-pthread"])

    def _machine_code(self, model: PlainModel) -> list[Path]:
        """The object files of kernels that are not in the C file."""
        found = [] if model.kernels is None else list(model.kernels._info.objects())
        paths = [self.folder / f"{model.interface.prefix}_kernels{number}.o" for number in range(len(found))]
        for path, data in zip(paths, found):
            path.write_bytes(data)
        return paths

    def _compile(self, source: Path, flags: Sequence[str]) -> Path:
        target = source.with_suffix(".o")
        self._gcc(f"compiling {source.name}", [*flags, "-c", str(source), "-o", str(target)])
        return target

    def _gcc(self, what: str, options: list[str]) -> None:
        done = subprocess.run([*link.find_compiler(), *options], capture_output=True, text=True)
        if done.returncode:
            raise TVMError(f"{what} failed:\n{done.stderr[-4000:]}")

    def run(self, name: str, inputs: Mapping[str, Any], seconds: float = 600) -> list[np.ndarray]:
        """The outputs of one model.

        Raises
        ------
        TVMError
            The model returned an error, or the program crashed.
        """
        model = next(m for m in self.models if m.interface.mod_name == name)
        given, found = self.folder / "inputs", self.folder / "outputs"
        tensors = model.interface.inputs
        missing = [t.name for t in tensors if t.name not in inputs]
        if missing:
            raise TVMError(f"model '{name}': the inputs {', '.join(missing)} are missing")
        given.write_bytes(b"".join(_bytes_of(inputs[t.name], t.type) for t in tensors))
        command = [str(self.binary), model.interface.prefix, str(given), str(found)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if done.returncode:
            raise TVMError(f"model '{name}': the program ended with status {done.returncode}; {done.stderr.strip()}")
        return _arrays_of(found.read_bytes(), [t.type for t in model.interface.outputs])


def _numpy_dtype(dtype: str) -> np.dtype:
    """The type that arrays of NumPy have for a data type."""
    return ndarray.empty((0,), dtype).numpy().dtype


def _bytes_of(value: Any, t: TensorType) -> bytes:
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    shape = tuple(int(d) for d in t.shape)
    if array.shape != shape:
        raise TVMError(f"an input of shape {shape} is expected, got {array.shape}")
    dtype = _numpy_dtype(t.dtype)
    # bfloat16 may be given as its bits.
    is_bits = t.dtype == "bfloat16" and array.dtype == np.uint16
    return np.ascontiguousarray(array, array.dtype if is_bits else dtype).tobytes()


def _arrays_of(data: bytes, types: Sequence[TensorType]) -> list[np.ndarray]:
    arrays, at = [], 0
    for t in types:
        shape, dtype = tuple(int(d) for d in t.shape), _numpy_dtype(t.dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        arrays.append(np.frombuffer(data[at : at + size], dtype).reshape(shape))
        at += size
    return arrays


# The text of the program ----------------------------------------------------------------------------------------------


def program_text(models: Sequence[PlainModel], extras: Extras) -> str:
    """The C text of a program: ``program MODEL INPUTS OUTPUTS``."""
    lines = ["#include <stdint.h>", "#include <stdio.h>", "#include <string.h>"]
    lines += [f'#include "{name}"' for name in extras.includes]
    lines += [f'#include "{m.interface.prefix}.h"' for m in models if m.header]
    if any(not m.header for m in models):
        lines.append(ARRAY_RECORDS)
    for model in models:
        lines += _model_lines(model, extras.attribute)
    lines += ["int main(int argc, char** argv) {", "  int status = 2;"]
    lines += ["  if (argc != 4) return 2;", '  FILE* in = fopen(argv[2], "rb");', '  FILE* out = fopen(argv[3], "wb");']
    lines += ["  if (!in || !out) return 2;", extras.prologue]
    for model in models:
        prefix = model.interface.prefix
        lines.append(f'  if (!strcmp(argv[1], "{prefix}")) status = run_{prefix}(in, out);')
    lines += [extras.epilogue, '  if (status) fprintf(stderr, "run returned %d\\n", status);']
    lines += ["  return fclose(in) | fclose(out) | (status != 0);", "}", ""]
    return "\n".join(lines)


def _model_lines(model: PlainModel, attribute: str) -> list[str]:
    """The buffers of a model, and the function that reads its inputs, runs it, and writes its outputs."""
    interface = model.interface
    prefix, lines = interface.prefix, []
    tensors = {} if interface.places else {"in": interface.inputs, "out": interface.outputs}
    for kind, found in tensors.items():
        for number, tensor in enumerate(found):
            place = attribute or "__attribute__((aligned(16)))"
            lines.append(f"static char {prefix}_{kind}{number}[{max(tensor.nbytes, 1)}] {place};")
    for number, pool in enumerate(interface.pools):
        lines.append(f"static char {prefix}_pool{number}[{max(pool.nbytes, 1)}] __attribute__((aligned(64)));")
    call = _structs_call if model.header else _packed_call
    lines += [*_declarations(model), f"static int run_{prefix}(FILE* in, FILE* out) {{", "  (void)in;", "  (void)out;"]
    lines += _mapped(model, "workspace_pools", "inputs") if interface.places else []
    for name, size in _addresses(model, "inputs"):
        lines.append(f"  if (fread({name}, 1, {size}, in) != {size}) return 3;")
    lines += call(model)
    lines.append("  if (status) return status;")
    lines += _mapped(model, "outputs") if interface.places else []
    for name, size in _addresses(model, "outputs"):
        lines.append(f"  if (fwrite({name}, 1, {size}, out) != {size}) return 4;")
    return [*lines, "  return 0;", "}", ""]


def _addresses(model: PlainModel, kind: str) -> list[tuple[str, int]]:
    """The address and the size of each input or output: a buffer of the program, or memory in a pool."""
    interface = model.interface
    tensors = interface.inputs if kind == "inputs" else interface.outputs
    if interface.places:
        found = [f"{kind}.{member}" for member in interface.members()[kind]]
    else:
        found = [f"{interface.prefix}_{kind.removesuffix('puts')}{number}" for number in range(len(tensors))]
    return [(name, tensor.nbytes) for name, tensor in zip(found, tensors)]


def _mapped(model: PlainModel, *kinds: str) -> list[str]:
    """The structs of a model whose inputs and outputs are stored in memory pools."""
    prefix, lines = model.interface.prefix, []
    for kind in kinds:
        value = f"{prefix}_map_{kind}(&workspace_pools)"
        lines.append(
            f"  struct {prefix}_{kind} {kind} = {value};" if kind != "workspace_pools" else _pool_struct(model)
        )
    return [*lines, *(f"  (void){kind};" for kind in kinds)]


def _pool_struct(model: PlainModel) -> str:
    interface = model.interface
    places = [f".{name} = {interface.prefix}_pool{i}" for i, name in enumerate(interface.members()["workspace_pools"])]
    return f"  struct {interface.prefix}_workspace_pools workspace_pools = {{{', '.join(places)}}};"


def _declarations(model: PlainModel) -> list[str]:
    if model.header:
        return []
    arguments = "TVMValue*, int32_t*, int32_t, void*, int32_t*, void*"
    return [f"int32_t {model.interface.prefix}_run({arguments});"]


def _structs_call(model: PlainModel) -> list[str]:
    interface = model.interface
    prefix, lines = interface.prefix, []
    for kind in () if interface.places else ("inputs", "outputs"):
        names = (name for name, _ in _addresses(model, kind))
        values = ", ".join(f".{member} = {name}" for member, name in zip(interface.members()[kind], names)) or "0"
        lines.append(f"  struct {prefix}_{kind} {kind} = {{{values}}};")
    if interface.pools and not interface.places:
        lines.append(_pool_struct(model))
    given = ", ".join(f"&{kind}" for kind in interface.run_structs())
    return [*lines, f"  int status = {prefix}_run({given});"]


def _packed_call(model: PlainModel) -> list[str]:
    interface = model.interface
    prefix, lines, values = interface.prefix, [], []
    kinds = [("in", i, t) for i, t in enumerate(interface.inputs)]
    kinds += [("out", i, t) for i, t in enumerate(interface.outputs)]
    for kind, number, tensor in kinds:
        name, shape = f"{kind}{number}", ", ".join(map(str, tensor.shape)) or "0"
        dtype = ", ".join(map(str, dlpack_parts(tensor.type.dtype)))
        lines.append(f"  int64_t {name}_shape[] = {{{shape}}};")
        fields = f"{prefix}_{name}, {{1, 0}}, {len(tensor.shape)}, {{{dtype}}}, {name}_shape, 0, 0"
        lines.append(f"  DLTensor {name} = {{{fields}}};")
        values.append(f"{{.v_handle = &{name}}}")
    values += [f"{{.v_handle = {prefix}_pool{i}}}" for i in range(len(interface.pools))]
    codes = ["7"] * len(kinds) + ["3"] * len(interface.pools)
    lines.append(f"  TVMValue values[] = {{{', '.join(values) or '{0}'}}};")
    lines.append(f"  int32_t codes[] = {{{', '.join(codes) or '0'}}};")
    return [*lines, f"  int status = {prefix}_run(values, codes, {len(codes)}, 0, 0, 0);"]


__all__ = ["MODEL_FLAGS", "Extras", "Program", "program_text"]
