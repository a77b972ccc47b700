"""Elementwise operations on accumulators as ALU instructions.

An ALU instruction computes ``dst = op(dst, src)`` or ``dst = op(dst, immediate)``. If no operand is in the memory of
the output, the first operand is copied there before: ``dst = dst * 0``, ``dst = dst + src``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....error import TVMError
from ....ir.op import Op
from ....ir.prim import GT, LT, Add, BufferLoad, Call, Cast, IntImm, Max, Min, Mul, PrimExpr, Select, Sub, Var, const
from ....ir.structural import structural_equal
from ....ir.transform import Pass
from ....tir.buffer import type_annotation
from ....tir.op import call_extern
from ....tir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, Stmt, no_op, seq
from ....tir.transform.statement import is_call
from ..environment import Environment, get_env
from ..intrin import micro_op
from .nests import Level, levels, nest, without_lanes
from .pragmas import pragma_pass

_BINARY = {Add: "ADD", Mul: "MUL", Min: "MIN", Max: "MAX"}
_COMMUTES = ("ADD", "MUL", "MIN", "MAX")
# The immediate of an instruction has 16 bits.
_IMMEDIATES = range(-(1 << 15), 1 << 15)


class Operation(NamedTuple):
    """An ALU operation: its name and operands. ``rhs`` is None for a copy."""

    name: str
    lhs: PrimExpr
    rhs: PrimExpr | None = None


def operation(value: PrimExpr) -> Operation | None:
    """Return the ALU operation that computes a value."""
    while isinstance(value, Cast):
        value = value.value
    name = _BINARY.get(type(value))
    if name is not None:
        return Operation(name, value.a, value.b)
    if isinstance(value, Select) and isinstance(value.condition, (LT, GT)):
        x, bound = value.condition.a, value.condition.b
        if structural_equal(value.true_value, bound) and structural_equal(value.false_value, x):
            return Operation("MAX" if isinstance(value.condition, LT) else "MIN", x, bound)
    if isinstance(value, Sub) and isinstance(value.b, IntImm):
        return Operation("ADD", value.a, const(-value.b.value, value.b.dtype))
    if is_call(value, "tir.shift_right"):
        return Operation("SHR", *value.args)
    if is_call(value, "tir.shift_left") and isinstance(value.args[1], IntImm):
        return Operation("SHR", value.args[0], const(-value.args[1].value, "int32"))
    return Operation("COPY", value) if isinstance(value, (BufferLoad, IntImm)) else None


def _place(value: PrimExpr | None) -> BufferLoad | int | None:
    """Return an operand as a load or an immediate."""
    while isinstance(value, Cast):
        value = value.value
    return value.value if isinstance(value, IntImm) else value if isinstance(value, BufferLoad) else None


class Kernel:
    """The instructions of one store in a loop nest."""

    def __init__(self, env: Environment, stmt: Stmt):
        self.env = env
        self.loops, store = nest(stmt)
        if not isinstance(store, BufferStore) or store.buffer.scope() != env.acc_scope:
            raise self.error(f"the loops must contain one store to memory of scope {env.acc_scope}", stmt)
        self.store = store
        self.lanes = env.ACC_ELEM_BITS // env.ACC_WIDTH

    def error(self, reason: str, what: Any = None) -> TVMError:
        return TVMError(f"pragma alu: {reason}: {what if what is not None else self.store}")

    def emit(self) -> Stmt:
        found = operation(self.store.value)
        places = [_place(v) for v in (found.lhs, found.rhs)] if found else []
        if found is None or places[0] is None or (found.rhs is not None and places[1] is None):
            raise self.error(
                "the ALU computes add, multiply, minimum, maximum and shifts of accumulators and constants"
            )
        lhs, rhs = places
        if isinstance(lhs, int) and found.name in _COMMUTES:
            lhs, rhs = rhs, lhs
        if found.name in _COMMUTES and not self.is_output(lhs) and self.is_output(rhs):
            lhs, rhs = rhs, lhs
        first = [] if self.is_output(lhs) else self.copy(lhs)
        if found.name == "COPY":
            return seq(*first) if first else no_op()
        if first and isinstance(rhs, BufferLoad) and rhs.buffer.data is self.store.buffer.data:
            raise self.error("an operand overlaps the output at other elements")
        return seq(*first, self.instruction(found.name, rhs))

    def is_output(self, place: Any) -> bool:
        return (
            isinstance(place, BufferLoad)
            and place.buffer.data is self.store.buffer.data
            and structural_equal(place.indices[0], self.store.indices[0])
        )

    def copy(self, source: BufferLoad | int) -> list[Stmt]:
        return [self.instruction("MUL", 0), self.instruction("ADD", source)]

    def instruction(self, name: str, source: BufferLoad | int) -> Stmt:
        """Return the instruction of one operation with the output and a source."""
        is_immediate = isinstance(source, int)
        if is_immediate and source not in _IMMEDIATES:
            raise self.error(f"the constant {source} does not fit 16 bits")
        target = self.store
        if not is_immediate and source.buffer.scope() != self.env.acc_scope:
            raise self.error(f"the operand {source.buffer.name} is in {source.buffer.scope()}, not in accumulators")
        indices = [target.indices[0], target.indices[0] if is_immediate else source.indices[0]]
        shape = levels(self.loops, indices)
        loops = without_lanes(shape[0], self.lanes, (0, 1)) if shape else None
        if shape is None or loops is None:
            raise self.error(f"the innermost {self.lanes} values must be dense in all accumulators")
        body = self.push(name, [target.buffer, target.buffer if is_immediate else source.buffer], shape[1], loops,
                         source if is_immediate else None)  # fmt: skip
        return micro_op(self.env, self.env.dev.vta_push_alu, body)

    def push(self, name: str, buffers: list, start: list[PrimExpr], loops: list[Level], immediate: int | None) -> Stmt:
        variables = [Var(f"alu_{i}", "int32") for i in range(len(loops))]
        pointers = []
        for k, (buffer, index, mask) in enumerate(zip(buffers, start, (3, 1))):
            for var, level in zip(variables, loops):
                index = index + var.astype(index.dtype) * level.steps[k]
            args = (type_annotation(buffer.dtype), buffer.data, index, const(self.lanes, "int32"), const(mask, "int32"))
            pointers.append(Call("int32", Op.get("tir.tvm_access_ptr"), args))
        opcode = getattr(self.env.dev, f"ALU_OPCODE_{name}")
        uses, value = int(immediate is not None), immediate or 0
        body: Stmt = Evaluate(call_extern("int32", "VTAUopPush", 1, 0, *pointers, 0, opcode, uses, value))
        for var, level in reversed(list(zip(variables, loops))):
            body = For(var, const(0, "int32"), const(level.extent, "int32"), ForKind.SERIAL, body)
        return body


def AnnotateALUCoProcScope() -> Pass:
    """A pass that assigns operations with the pragma ``alu`` to the compute module, and removes those with ``skip_alu``
    (``Environment.mock``).

    Returns
    -------
    Pass
    """
    return pragma_pass("AnnotateALUCoProcScope", alu=_annotated, skip_alu=lambda node: no_op())


def _annotated(node: AttrStmt) -> Stmt:
    env = get_env()
    queue = const(env.dev.get_task_qid(env.dev.QID_COMPUTE), "int32")
    return AttrStmt(env.dev.vta_axis, "coproc_scope", queue, node)


def InjectALUIntrin() -> Pass:
    """A pass that replaces operations with the pragma ``alu`` by ALU instructions.

    Returns
    -------
    Pass
    """
    return pragma_pass("InjectALUIntrin", alu=lambda node: _kernel_only(Kernel(get_env(), node.body).emit()))


def _kernel_only(stmt: Stmt) -> Stmt:
    """Return the statement without the attribute of the module, which is already around the operation."""
    parts = stmt.seq if hasattr(stmt, "seq") else (stmt,)
    return seq(*(p.body if isinstance(p, AttrStmt) and p.attr_key == "coproc_scope" else p for p in parts))
