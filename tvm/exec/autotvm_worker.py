"""The worker process that compiles and runs candidates of a tuner: ``python -m tvm.exec.autotvm_worker``.

The protocol and the measurement are implemented in ``tvm.runtime.measure.worker``.
"""

from __future__ import annotations

from typing import Any

from ..codegen.device_module import pack as pack_module
from ..codegen.gpu_like import Kernel
from ..codegen.llvm import jit as llvm_jit
from ..codegen.llvm.module import CONTEXT, TABLE
from ..runtime import load_module
from ..runtime.measure import worker
from ..runtime.module import Module, from_jit, load_device_module
from ..target.backend import load

# Number of candidates per JIT instance.
_PER_ENGINE = 32


def build(message: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Compile LLVM text to an object file."""
    machine = llvm_jit.target_machine(message["triple"], message["cpu"], message["features"], message["opt_level"])
    module = llvm_jit.parse(payload.decode(), message["imports"])
    llvm_jit.optimize(module, machine, message["opt_level"])
    made = machine.emit_object(module)
    return {"object": len(made)}, made + kernels_of(message.get("device"))


def kernels_of(device: dict[str, Any] | None) -> bytes:
    """Convert the text of kernels to the bytes of a device module. Source that a driver compiles stays text."""
    if device is None:
        return b""
    image = load(device["compile"])(device["text"], device["arch"])
    return pack_module(device["kind"], [image], {name: Kernel(**row) for name, row in device["kernels"].items()})


def _module(message: dict[str, Any], payload: bytes) -> Module:
    if message.get("filename"):
        return load_module(message["filename"])
    names, size = message["names"], message["object"]
    addresses, library = llvm_jit.load_objects([payload[:size]], (*names, TABLE, CONTEXT), ENGINES.get())
    table, context = addresses.pop(TABLE), addresses.pop(CONTEXT)
    module = from_jit(addresses, table, context, library, entry_name=message["entry"])
    if len(payload) > size:
        module.import_module(load_device_module(payload[size:]))
    return module


class Engines:
    """JIT instances for candidates, replaced from time to time, because each retains memory of all its code."""

    def __init__(self):
        self.engine: Any = None
        self.left = 0

    def get(self) -> Any:
        if self.left == 0:
            self.engine, self.left = llvm_jit.new_engine(), _PER_ENGINE
        self.left -= 1
        return self.engine


ENGINES = Engines()


def run(message: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Measure an object file, or a library file."""
    return worker.measure(_module(message, payload), message)


ACTIONS: worker.Actions = {"build": build, "run": run}


if __name__ == "__main__":
    worker.main(ACTIONS)
