"""Link weights into the library (``Executor("graph", {"link-params": True})``) instead of storing them with the graph.

Each kernel that reads a constant is replaced by a specialized kernel whose code contains the data. A constant with
another user (a view, a copy to another device, the caller) stays a parameter of the graph.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...tir.function import PrimFunc
from ...tir.stmt import AllocateConst
from .program import Kind, Node, Program, Ref
from .te_compiler import Kernel


class LinkedKernel:
    """A kernel in which some parameters are constants in its code; it has the interface of ``Kernel``."""

    def __init__(self, name: str, plain: Kernel, constants: dict[int, Any], digest: str):
        self.name, self.target, self.operators, self.function = name, plain.target, plain.operators, plain.function
        self.key = f"{plain.key} {digest}"
        self.plain, self.constants = plain, constants
        self._module: IRModule | None = None

    @property
    def module(self) -> IRModule:
        """The lowered function."""
        if self._module is None:
            functions = {var: f for var, f in self.plain.module.functions.items() if var.name_hint != self.plain.name}
            main = self.plain.module[self.plain.name]
            assert isinstance(main, PrimFunc)
            self._module = IRModule({**functions, self.name: with_constants(main, self.constants, self.name)})
        return self._module


def with_constants(function: PrimFunc, constants: dict[int, Any], name: str) -> PrimFunc:
    """Return the lowered function under another name, with arrays as constants in place of the parameters at some
    positions."""
    body, kept = function.body, dict(function.buffer_map)
    for position, data in constants.items():
        buffer = kept.pop(function.params[position])
        body = AllocateConst(buffer.data, buffer.dtype, buffer.shape, data, body)
    params = [p for i, p in enumerate(function.params) if i not in constants]
    attrs = {**dict(function.attrs or {}), "global_symbol": name}
    return PrimFunc(params, body, function.ret_type, kept, attrs)


def link_params(program: Program) -> None:
    """Move constants that only kernels read into the code of these kernels. The memory must not be planned yet."""
    nodes = program.nodes
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for number, _ in node.inputs:
            readers.setdefault(number, []).append(node)
    seen = {number for number, _ in program.outputs}
    linked = {
        number for number, node in enumerate(nodes)
        if node.kind is Kind.CONSTANT and number not in seen
        and all(reader.kind is Kind.KERNEL for reader in readers.get(number, ()))
    }  # fmt: skip
    _Linking(program, linked).run()


class _Linking:
    def __init__(self, program: Program, linked: set[int]):
        self.program, self.linked = program, linked
        self.made: dict[str, LinkedKernel] = {}
        self.names = {kernel.name for kernel in program.kernels}

    def run(self) -> None:
        program, nodes = self.program, self.program.nodes
        for node in nodes:
            if node.kind is Kind.KERNEL and any(number in self.linked for number, _ in node.inputs):
                self._link(node)
        numbers = {old: new for new, old in enumerate(i for i in range(len(nodes)) if i not in self.linked)}
        for number in self.linked:
            del program.constants[nodes[number].name]
        program.nodes = [node for i, node in enumerate(nodes) if i not in self.linked]
        for node in program.nodes:
            node.inputs = _renumbered(node.inputs, numbers)
            node.in_place = _renumbered(node.in_place, numbers)
        program.outputs = _renumbered(program.outputs, numbers)
        program.kernels = list({node.kernel.name: node.kernel for node in program.nodes if node.kernel}.values())

    def _link(self, node: Node) -> None:
        assert node.kernel is not None
        if not node.kernel.target.features.is_cpu:
            target = str(node.kernel.target).strip()
            raise TVMError(
                f"option link-params of graph: kernel {node.kernel.name} is compiled for target '{target}'; "
                "weights can be linked into CPU code only; build without link-params"
            )
        constants = {
            position: self.program.constants[self.program.nodes[number].name]
            for position, (number, _) in enumerate(node.inputs) if number in self.linked
        }  # fmt: skip
        node.kernel = self._kernel(node.kernel, constants)
        node.in_place = [ref for ref in node.in_place if ref[0] not in self.linked]
        node.inputs = [ref for ref in node.inputs if ref[0] not in self.linked]

    def _kernel(self, plain: Kernel, constants: dict[int, Any]) -> LinkedKernel:
        """Return the kernel with these constants; layers with equal weights share one."""
        digest = hashlib.blake2b(digest_size=16)
        for position, data in constants.items():
            digest.update(f"{position} {data.dtype} {data.shape}".encode() + data.numpy().tobytes())
        key = f"{plain.name} {digest.hexdigest()}"
        if key not in self.made:
            self.made[key] = LinkedKernel(self._name(plain.name), plain, constants, digest.hexdigest())
        return self.made[key]

    def _name(self, base: str) -> str:
        """Return a kernel name that is not used yet."""
        number = len(self.made)
        while (name := f"{base}_linked_{number}") in self.names:
            number += 1
        self.names.add(name)
        return name


def _renumbered(refs: list[Ref], numbers: dict[int, int]) -> list[Ref]:
    return [(numbers[number], index) for number, index in refs]


__all__ = ["LinkedKernel", "link_params", "with_constants"]
