"""Parallel loops in plain C: each becomes a function of a range of iterations, which a function of the user's program
calls on several threads."""

from __future__ import annotations

from typing import ClassVar

from ...ir.prim import Call, IntImm
from ...ir.visit import pre_order
from ...tir.function import PrimFunc
from ...tir.stmt import Allocate, For, ForKind, Stmt
from ...tir.transform.convert_for_loops_to_serial import Serializer
from ...tir.transform.lower_tvm_builtin import stays_on_stack
from . import stmt as c_stmt
from .like import CLike
from .plain import PlainC
from .runtime import captured_variables

# The parameters of the user's function in C.
PARALLEL_FOR_PARAMETERS = "int32_t (*body)(void* data, int32_t begin, int32_t end), void* data, int32_t count"
_CALL = "tvm_parallel_for"
_MOST_ITERATIONS = 2**31 - 1


def parallel_for_text(variable: str) -> str:
    """Return the C text that defines the variable with the user's function, and the function that kernels call."""
    return f"""\
int32_t (*{variable})({PARALLEL_FOR_PARAMETERS}) = 0;

static inline int32_t {_CALL}({PARALLEL_FOR_PARAMETERS}) {{
  return {variable} != 0 ? {variable}(body, data, count) : body(data, 0, count);
}}
"""


class _Tasks(Serializer):
    """Replaces the parallel loops that tasks cannot run without more memory than the stack, or without atomic
    operations, by serial loops."""

    def on_For(self, node: For) -> Stmt:
        return node if node.kind is ForKind.PARALLEL and _is_task(node) else super().on_For(node)


def _is_task(loop: For) -> bool:
    extent = loop.extent
    if not (isinstance(extent, IntImm) and 1 < extent.value <= _MOST_ITERATIONS):
        return False
    return not any(
        (isinstance(node, Allocate) and not stays_on_stack(node))
        or (isinstance(node, Call) and getattr(node.op, "name", "") == "tir.atomic_add")
        for node in pre_order(loop.body)
    )


def loops_of_tasks(function: PrimFunc) -> PrimFunc:
    """Return the function with the parallel loops whose iterations can run on threads; all other loops are serial."""
    return function.replace(body=_Tasks().stmt(function.body))


class ParallelPlainC(PlainC):
    """The printer of C99 whose parallel loops call the user's function."""

    reserved: ClassVar[frozenset[str]] = PlainC.reserved | {_CALL}

    def parallel_loop(self, stmt: For) -> None:
        if self.parallel is not None:
            c_stmt.serial_loop(self, stmt)
            return
        name = self.source.name(f"{self.name}_parallel", self.taken)
        inner, members = self._body_printer(name, stmt)
        closure = "0"
        if members:
            closure = self.fresh("closure")
            values = ", ".join(outer for _, _, outer in members)
            self.line(f"struct {name}_closure {closure} = {{{values}}};")
            closure = "&" + closure
        self.source.functions.append(_body_function(name, inner, members))
        self.line(f"if ({_CALL}({name}, {closure}, {stmt.extent.value}) != 0) {self.fail()}")

    def _body_printer(self, name: str, stmt: For) -> tuple[PlainC, list[tuple[str, str, str]]]:
        """Print the loop over a range of iterations. Return its printer and the captured variables as tuples (type,
        name in the body, value)."""
        inner = type(self)(self.source, name)
        inner.pointees, inner.private, inner.ranges = self.pointees, self.private, self.ranges.copy()
        inner.read_only, inner.parallel = self.read_only, stmt
        for word in ("data", "begin", "end", "closure"):
            inner.taken[word] = True
        members = []
        for item in captured_variables(self, stmt):
            promise = f" {self.restrict}" if item.var in self.private and item.type_text.endswith("*") else ""
            own = inner.bind(item.var)
            members.append((item.type_text + promise, own, item.outer))
        first, _ = c_stmt.loop_bounds(inner, stmt)
        start = "" if first == "0" else f"{first} + "
        c_stmt.counted_loop(inner, stmt, f"{start}begin", f"{start}end")
        inner.line("return 0;")
        return inner, members


def _body_function(name: str, inner: CLike, members: list[tuple[str, str, str]]) -> str:
    """Return the function of a range of iterations, after the struct of the variables that it uses."""
    lines: list[str] = []
    if members:
        fields = " ".join(f"{kind.removesuffix(f' {inner.restrict}')} {own};" for kind, own, _ in members)
        lines += [f"struct {name}_closure {{ {fields} }};", ""]
    lines.append(f"static int32_t {name}(void* data, int32_t begin, int32_t end) {{")
    if members:
        lines.append(f"  const struct {name}_closure* const closure = (const struct {name}_closure*)data;")
        lines += [
            f"  {kind}{'' if kind.endswith('*') else ' const'} {own} = closure->{own};" for kind, own, _ in members
        ]
    else:
        lines.append("  (void)data;")
    return "\n".join([*lines, *inner.finished(), "}", ""])


__all__ = ["PARALLEL_FOR_PARAMETERS", "ParallelPlainC", "loops_of_tasks", "parallel_for_text"]
