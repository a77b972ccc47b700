"""The stages of a kernel: loads, one product on the GEMM core, elementwise operations on the ALU, and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .... import te
from ....error import TVMError
from ....ir.prim import Cast, ProducerLoad
from ....te.operation import ComputeOp, PlaceholderOp
from ..environment import Environment, get_env


@dataclass
class Stages:
    """The stages before the output of a kernel.

    ``loaded`` are the operands that an operation loads from DRAM: the operation and the operand. ``constants`` become
    immediates. ``widened`` are casts of operands in DRAM, which loads do. ``anchor`` is the product, or None.
    """

    output: Any
    anchor: Any = None
    elementwise: list[Any] = field(default_factory=list)
    loaded: list[tuple[Any, Any]] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    widened: list[Any] = field(default_factory=list)


def stages_of(output: Any, tag: str = "") -> Stages:
    """Return the stages of a kernel with a product of this tag; without a tag there is none."""
    found = Stages(output)
    seen = set()

    def visit(op: Any) -> None:
        if op in seen:
            return
        seen.add(op)
        if tag and op.tag == tag:
            if found.anchor is not None:
                raise TVMError(f"a kernel has two products: {found.anchor.name} and {op.name}")
            found.anchor = op
            return
        if not isinstance(op, ComputeOp) or op.reduce_axis:
            raise TVMError(f"the accelerator cannot compute {op.name} in a kernel; elementwise operations can be fused")
        if op is not output.op and _is_load(op):
            found.widened.append(op)
            return
        if op is not output.op:
            (found.elementwise if op.input_tensors else found.constants).append(op)
        for tensor in op.input_tensors:
            if isinstance(tensor.op, PlaceholderOp):
                found.loaded.append((op, tensor))
            else:
                visit(tensor.op)

    visit(output.op)
    if tag and found.anchor is None:
        raise TVMError(f"the kernel of {output.name} has no product with the tag {tag}")
    return found


def _is_load(op: Any) -> bool:
    """Return whether an operation only widens an operand in DRAM to the type of accumulators."""
    (body, *_), (operand, *more) = op.body, (*op.input_tensors, None)
    return (
        isinstance(body, Cast)
        and isinstance(body.value, ProducerLoad)
        and isinstance(getattr(operand, "op", None), PlaceholderOp)
        and all(index is axis.var for index, axis in zip(body.value.indices, op.axis))
        and (operand.dtype, op.output(0).dtype) == (get_env().inp_dtype, get_env().acc_dtype)
        and more == [None]
    )


@dataclass
class Placed:
    """A schedule whose stages are in their memories. ``loads`` are the loads of elementwise operands."""

    schedule: Any
    output: Any
    middle: list[Any]
    loads: list[Any]


def place(env: Environment, found: Stages) -> Placed:
    """Create the schedule of the stages: memories and pragmas of everything but the product."""
    output = found.output
    if output.dtype != env.out_dtype:
        raise TVMError(f"{output.name}: the accelerator stores values of type {env.out_dtype}, got {output.dtype}")
    s = te.create_schedule(output.op)
    for op in found.constants:
        s[op].compute_inline()
    loads = [s.cache_read(tensor, env.acc_scope, [op]) for op, tensor in found.loaded]
    for op in found.widened:
        s[op].set_scope(env.acc_scope)
        loads.append(op)
    middle = list(found.elementwise)
    for op in middle:
        s[op].set_scope(env.acc_scope)
        s[op].pragma(s[op].op.axis[0], env.alu)
    for load in loads:
        s[load].pragma(s[load].op.axis[0], env.dma_copy)
    return Placed(s, output, middle, loads)
