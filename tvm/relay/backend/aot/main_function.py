"""Build the main function of a model in TIR: it calls the kernels of a planned program in order on data pointers.

Inputs and outputs are parameters. Each intermediate value is an ``Allocate`` around the calls. Views, parts of a
concatenation and outputs that overwrite an input in place are addresses inside such memory. Afterwards, the memory
planner assigns an offset in a memory pool to every ``Allocate``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....dtype import info
from ....error import TVMError
from ....ir import primop
from ....ir.module import GlobalVar, IRModule
from ....ir.op import Op
from ....ir.prim import Call, PrimExpr, StringImm, Var, const
from ....ir.tensor_type import TensorType
from ....ir.type import PointerType, PrimType
from ....runtime.name_transforms import sanitize_name
from ....tir.buffer import Buffer, decl_buffer
from ....tir.function import PrimFunc
from ....tir.stmt import Allocate, AllocateConst, Evaluate, IfThenElse, Stmt, no_op, seq
from ..program import Kind, Program, Ref
from ..te_compiler import ExternalKernel
from .kernels import RawKernel


class Tensor(NamedTuple):
    """A parameter of a model: its name in the graph, its name in C, and its type."""

    name: str
    c_name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.type.shape)

    @property
    def nbytes(self) -> int:
        """The size of the data in bytes; zero for a tensor without elements."""
        return math.prod(self.shape) * info(self.type.dtype).bytes

    @property
    def description(self) -> str:
        """The data type and the shape in words."""
        return f"{self.type.dtype}, shape {self.shape}"


class MainFunction(NamedTuple):
    """The main function before memory planning. Its parameters are the inputs, the constants that the code does not
    contain, and the outputs."""

    function: PrimFunc
    inputs: list[Tensor]
    outputs: list[Tensor]
    constants: list[Tensor]


def main_symbol(mod_name: str) -> str:
    """Return the symbol of the main function of a model."""
    return f"tvmgen_{sanitize_name(mod_name)}___tvm_main__"


def local_main_symbol(mod_name: str) -> str:
    """Return the symbol of a static main function, which takes data pointers."""
    return f"tvmgen_{sanitize_name(mod_name)}_main"


def main_function(
    program: Program, mod_name: str, kernels: Mapping[str, RawKernel], link_constants: bool,
    output_names: Sequence[str] = (),
) -> MainFunction:  # fmt: skip
    """Build the main function of a planned program. ``kernels`` maps the names of kernels to raw kernels.

    With ``link_constants`` the function contains the constants; otherwise they are parameters. Outputs without names in
    ``output_names`` are called ``output``, or ``output0``, ``output1`` and so on.
    """
    return _Builder(program, kernels, output_names).build(main_symbol(mod_name), link_constants)


def output_names_of(mod: IRModule) -> list[str]:
    """Return the names of the outputs in the attribute ``output_tensor_names`` of the Relay function ``main``; empty
    without the attribute."""
    main: Any = mod["main"]
    return [str(name) for name in (main.attrs or {}).get("output_tensor_names") or ()]


def kernels_in_place(program: Program) -> set[str]:
    """Return the names of the kernels that write to the memory of an input in at least one call."""
    assert program.plan is not None
    entries, first = program.plan.entries, program.first_entries()
    found: set[str] = set()
    for number, node in enumerate(program.nodes):
        if node.kernel is not None:
            written = {entries[e].root for e in range(first[number], first[number + 1])}
            if any(entries[first[n] + i].root in written for n, i in node.inputs):
                found.add(node.kernel.name)
    return found


class _Builder:
    def __init__(self, program: Program, kernels: Mapping[str, RawKernel], output_names: Sequence[str]):
        assert program.plan is not None
        count = len(program.outputs)
        self.output_names = output_names or (["output"] if count == 1 else [f"output{i}" for i in range(count)])
        if len(self.output_names) != count:
            raise TVMError(
                f"the model has {count} outputs, but its attribute output_tensor_names has {len(self.output_names)}"
            )
        self.program, self.entries, self.kernels = program, program.plan.entries, kernels
        self.first = program.first_entries()
        self.taken: set[str] = set()
        self.parameters: dict[Var, Buffer] = {}
        # The pointer to the memory of each root entry.
        self.memory: dict[int, Var] = {}
        # The root entries whose memory a kernel or a copy uses.
        self.used: set[int] = set()

    def build(self, symbol: str, link_constants: bool) -> MainFunction:
        nodes = self.program.nodes
        inputs = [self._given(number) for number, node in enumerate(nodes) if node.kind is Kind.INPUT]
        linked = [number for number, node in enumerate(nodes) if node.kind is Kind.CONSTANT]
        constants = [] if link_constants else [self._given(number) for number in linked]
        outputs, copies = self._outputs()
        allocated = self._allocate()
        statements = [*self._calls(), *(self._copy(*copy) for copy in copies)]
        body = seq(*statements) if statements else no_op()
        for e, var, t in reversed(allocated):
            if e not in self.used:
                continue
            body = _allocate(var, t.dtype, _elements(t), body)
        for number in reversed(linked if link_constants else ()):
            if self.first[number] not in self.used:
                continue
            var, t = self.memory[self.first[number]], nodes[number].types[0]
            body = AllocateConst(var, t.dtype, t.shape, self.program.constants[nodes[number].name], body)
        params = list(self.parameters)
        attrs = {
            "global_symbol": symbol, "tir.is_entry_func": True, "runner_function": True, "devices": (),
            "input_vars": tuple(params[: len(inputs)]), "output_vars": tuple(params[len(inputs) + len(constants) :]),
        }  # fmt: skip
        function = PrimFunc(params, body, PrimType("int32"), self.parameters, attrs)
        return MainFunction(function, inputs, outputs, constants)

    # Parameters -----------------------------------------------------------------------------------------------

    def _new_name(self, hint: str) -> str:
        name, number = sanitize_name(hint), 0
        while name in self.taken:
            number += 1
            name = f"{sanitize_name(hint)}_{number}"
        self.taken.add(name)
        return name

    def _given(self, number: int) -> Tensor:
        """Add a parameter for an input or a constant."""
        node = self.program.nodes[number]
        tensor = Tensor(node.name, self._new_name(node.name), node.types[0])
        self.memory[self.first[number]] = self._parameter(tensor)
        return tensor

    def _parameter(self, tensor: Tensor) -> Var:
        buffer = decl_buffer(tensor.shape, tensor.type.dtype, tensor.c_name)
        self.parameters[Var(tensor.c_name, "handle")] = buffer
        return buffer.data

    def _outputs(self) -> tuple[list[Tensor], list[tuple[Var, int, int]]]:
        """Add a parameter for each output. Also return the copies for outputs that no kernel writes directly, as tuples
        (destination, entry, bytes)."""
        refs = self.program.outputs
        tensors, copies = [], []
        for name, ref in zip(self.output_names, refs):
            e = self._entry(ref)
            tensor = Tensor(name, self._new_name(name), self.program.nodes[ref[0]].types[ref[1]])
            tensors.append(tensor)
            data = self._parameter(tensor)
            root = self.entries[e].root
            is_whole = self.entries[e].offset == 0 and self.entries[e].nbytes == self.entries[root].nbytes
            if is_whole and root not in self.memory and not self._is_given(root):
                self.memory[root] = data
            elif tensor.nbytes:
                copies.append((data, e, tensor.nbytes))
        return tensors, copies

    # Memory ---------------------------------------------------------------------------------------------------

    def _entry(self, ref: Ref) -> int:
        return self.first[ref[0]] + ref[1]

    def _is_given(self, e: int) -> bool:
        return any(self.first[number] == e for number, node in enumerate(self.program.nodes) if node.is_given)

    def _allocate(self) -> list[tuple[int, Var, TensorType]]:
        """Create a pointer for every root entry that is not a parameter; return the intermediate values among them."""
        made = []
        for e, (node, t) in enumerate(self.program.entries()):
            if self.entries[e].root != e or e in self.memory:
                continue
            name = self._new_name(f"constant_{e}" if node.is_given else f"sid_{e}")
            var = self.memory[e] = _pointer(name, t.dtype)
            if not node.is_given:
                made.append((e, var, t))
        return made

    def _address(self, e: int) -> PrimExpr:
        """Return a pointer to the data of an entry."""
        self.used.add(self.entries[e].root)
        data, offset = self.memory[self.entries[e].root], self.entries[e].offset
        if offset == 0:
            return data
        return Call("handle", Op.get("tir.handle_add_byte_offset"), (data, const(offset, "int64")))

    # Statements -----------------------------------------------------------------------------------------------

    def _calls(self) -> list[Stmt]:
        calls = []
        for number, node in enumerate(self.program.nodes):
            if node.kind is not Kind.KERNEL:
                continue
            assert node.kernel is not None
            given = [self._entry(ref) for ref in node.inputs] + list(range(self.first[number], self.first[number + 1]))
            args = [self._address(e) for e in given]
            if isinstance(node.kernel, ExternalKernel):
                types = [self.program.nodes[n].types[i] for n, i in node.inputs] + node.types
                calls.append(_packed_call(node.kernel.name, args, types))
            else:
                calls.append(self._call(self.kernels[node.kernel.name], args))
        return calls

    def _call(self, kernel: RawKernel, args: list[PrimExpr]) -> Stmt:
        """Return the call of a kernel inside the allocations of its workspaces. If the kernel fails, the main function
        returns its status."""
        spaces = [(_pointer(self._new_name(w.name), w.dtype), w) for w in kernel.workspaces]
        call = Call("int32" if kernel.can_fail else "void", GlobalVar(kernel.symbol), (*args, *(v for v, _ in spaces)))
        stmt: Stmt = Evaluate(call)
        if kernel.can_fail:
            fail = Evaluate(Call("int32", Op.get("tir.tvm_throw_last_error"), ()))
            stmt = IfThenElse(primop.not_equal(call, 0), fail)
        for var, workspace in reversed(spaces):
            stmt = _allocate(var, workspace.dtype, workspace.elements, stmt)
        return stmt

    def _copy(self, to: Var, e: int, nbytes: int) -> Stmt:
        args = (StringImm("memcpy"), to, self._address(e), const(nbytes, "uint64"))
        return Evaluate(Call("handle", Op.get("tir.call_extern"), args))


def _packed_call(symbol: str, args: list[PrimExpr], types: list[TensorType]) -> Stmt:
    """Return the call of a packed function, which the runtime finds by name, with arrays over the data."""

    def array(data: PrimExpr, t: TensorType) -> PrimExpr:
        shape = Call("handle", Op.get("tir.tvm_stack_make_shape"), tuple(const(int(d), "int64") for d in t.shape))
        strides, rank, start = const(0, "uint64"), const(len(t.shape), "uint32"), const(0, "int64")
        parts = (data, shape, strides, rank, const(0, t.dtype), start)
        return Call("handle", Op.get("tir.tvm_stack_make_array"), parts)

    arrays = [array(data, t) for data, t in zip(args, types)]
    return Evaluate(Call("int32", Op.get("tir.tvm_call_packed"), (StringImm(symbol), *arrays)))


def _pointer(name: str, dtype: str) -> Var:
    return Var(name, PointerType(PrimType(dtype)))


def _allocate(var: Var, dtype: str, elements: int, body: Stmt) -> Stmt:
    return Allocate(var, dtype, (const(max(elements, 1), "int64"),), const(True, "bool"), body)


def _elements(t: TensorType) -> int:
    return math.prod(int(d) for d in t.shape)


__all__ = [
    "MainFunction", "Tensor", "kernels_in_place", "local_main_symbol", "main_function", "main_symbol",
    "output_names_of",
]  # fmt: skip
