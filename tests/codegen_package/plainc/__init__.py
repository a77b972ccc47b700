"""A code generator as an outside package provides it: plain C kernels behind the JSON runtime.

Importing the module registers everything: the code generator with its operators, patterns and options, the library of
its kernels, and a device. ``build_library`` compiles the library, which a package would contain as a file.
"""

import os
import subprocess

from tvm import runtime
from tvm.relay.backend.external import json_module, options_of
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.op.contrib import Codegen, register_codegen
from tvm.target.kinds import Option

NAME = "plainc"
DEVICE_TYPE = 93


def build_library(folder: str) -> str:
    """Compile the kernels to a shared library in a folder, unless it is there; return its path."""
    path = os.path.join(folder, "plainc_kernels.so")
    if not os.path.exists(path):
        source = os.path.join(os.path.dirname(__file__), "kernels.c")
        made = f"{path}.{os.getpid()}"
        options = ["-std=c11", "-O2", "-shared", "-fPIC", f"-I{runtime.include_path()}", "-o", made, source]
        subprocess.run([os.environ.get("CC", "gcc"), *options], check=True)
        os.rename(made, path)
    return path


def is_float(call) -> bool:
    """Return whether all tensors of a call are float32 and have a dimension."""
    types = [arg.checked_type for arg in call.args]
    return all(getattr(t, "dtype", "") == "float32" and len(t.shape) > 0 for t in types)


def is_add(call) -> bool:
    """Return whether the second operand has the shape of the first one, or is a vector along its last dimension."""
    if not is_float(call):
        return False
    first, second = ([int(d) for d in arg.checked_type.shape] for arg in call.args)
    return first == second or (len(second) == 1 and first[-1] == second[0])


def is_split(call) -> bool:
    """Return whether a tensor is split in equal parts along its first dimension."""
    return is_float(call) and call.attrs.axis == 0 and isinstance(call.attrs.indices_or_sections, int)


def patterns():
    """Return the pattern table: a matmul with constant weights and its ReLU."""
    dense = is_op("nn.dense")(wildcard(), is_constant())
    return [("plainc.dense_relu", is_op("nn.relu")(dense), lambda call: is_float(call.args[0]))]


def compile_partition(function):
    """Return the module of a partition. The option ``threads`` becomes an attribute of every node."""
    return json_module(function, lambda call: {"threads": options_of(NAME)["threads"]})


CODEGEN = register_codegen(
    Codegen(
        NAME,
        compile_partition,
        operators={"nn.relu": is_float, "add": is_add, "clip": is_float, "split": is_split},
        patterns=patterns,
        options={"threads": Option(int, 0)},
    )
)
if "PLAINC_FOLDER" in os.environ:
    library = build_library(os.environ["PLAINC_FOLDER"])
    runtime.load_kernel_library(library)
    runtime.load_device_library(library)
