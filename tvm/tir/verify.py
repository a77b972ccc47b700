"""Verifiers of programs: whether they are well formed and satisfy the limits of their device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtype import info
from ..error import ExprValueError
from ..ir.module import IRModule
from ..ir.node import Node
from ..ir.prim import BufferLoad, Cast, IntImm, IterVar, PrimExpr, Ramp, Var
from ..ir.visit import post_order
from .function import PrimFunc
from .stmt import Allocate, AttrStmt, BlockRealize, BufferStore, For, ForKind, Stmt
from .use_def import UseDef

# --- well-formedness -------------------------------------------------------------------------------------------------


def verify_ssa(func: PrimFunc | Stmt) -> bool:
    """Whether every variable has exactly one definition; in a function, every use must have a definition.

    Parameters
    ----------
    func : PrimFunc | Stmt
        A function or a statement.

    Returns
    -------
    bool
    """
    found = UseDef().run(func)
    return not found.repeated and not (isinstance(func, PrimFunc) and found.undefined)


def form_errors(func: PrimFunc) -> list[str]:
    """Return messages that describe why a function is not well formed."""
    name = func.attrs.get("global_symbol", "main")
    found = UseDef().run(func)
    errors = []
    for var, where in found.undefined.items():
        errors.append(
            f"function {name}: variable '{var.name}' ({var.dtype}) is used but never defined{_location(where)}; "
            f"make it a parameter or define it"
        )
    for var, where in found.nested.items():
        errors.append(f"function {name}: variable '{var.name}' is defined again inside its own scope{_location(where)}")
    return errors + _block_errors(func, str(name))


def _location(where: Node) -> str:
    if isinstance(where, PrimFunc):
        return ""
    line = next((t for t in str(where).split("\n") if " = T." not in t or "[" in t), "").strip()
    return f", in '{line[:100]}'" if line else ""


def _block_errors(func: PrimFunc, name: str) -> list[str]:
    """Report blocks that use the variables of enclosing loops other than through their own axes."""
    errors = []

    def visit(stmt: Node, loops: tuple[Var, ...]) -> None:
        if isinstance(stmt, For):
            loops = (*loops, stmt.loop_var)
        if isinstance(stmt, BlockRealize):
            block = stmt.block
            own = set(loops)
            for var in (n for n in post_order(block) if isinstance(n, Var)):
                if var in own:
                    own.discard(var)
                    errors.append(
                        f"function {name}: block '{block.name_hint}' uses the loop variable '{var.name}' from outside; "
                        f"bind it to an axis of the block"
                    )
            visit(block, ())
            return
        for child in stmt.children():
            if isinstance(child, Stmt):
                visit(child, loops)

    visit(func.body, ())
    return errors


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function (or every function of a module) is well formed; with ``assert_mode`` an ill-formed function is
    an error.

    Parameters
    ----------
    obj : PrimFunc | IRModule
        The function or module.
    assert_mode : bool, optional
        Whether to raise an error for an ill-formed function.

    Returns
    -------
    bool

    Raises
    ------
    ExprValueError
        A function is not well formed, and ``assert_mode`` is true.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else (obj,)
    errors = [e for f in functions if isinstance(f, PrimFunc) for e in form_errors(f)]
    if errors and assert_mode:
        raise ExprValueError("\n".join(errors))
    return not errors


# --- memory ----------------------------------------------------------------------------------------------------------


def _is_gpu(target: Any) -> bool:
    return target is not None and "gpu" in getattr(target, "keys", ())


def memory_errors(func: PrimFunc) -> list[str]:
    """Return messages for host code that accesses device memory, for a function compiled for a device with threads."""
    if not _is_gpu(func.attrs.get("target")) or func.attrs.get("calling_conv") in (2, "2"):
        return []
    outside = {b.data: b.name for b in func.buffer_map.values()}
    outside.update({p: p.name for p in func.params if p.dtype == "handle"})
    errors: dict[str, None] = {}

    def touch(node: Node) -> None:
        for n in post_order(node):
            if isinstance(n, BufferLoad) and n.buffer.data in outside:
                complain(outside[n.buffer.data])

    def complain(name: str) -> None:
        errors[
            f"variable '{name}' is directly accessed by host memory (it is not contained in a thread environment "
            f"or in the function arguments); did you forget to bind a loop to a thread axis?"
        ] = None

    def visit(stmt: Stmt) -> None:
        if isinstance(stmt, AttrStmt) and stmt.attr_key in ("thread_extent", "pipeline_exec_scope"):
            return
        if isinstance(stmt, For) and stmt.kind == ForKind.THREAD_BINDING:
            return
        if isinstance(stmt, BufferStore) and stmt.buffer.data in outside:
            complain(outside[stmt.buffer.data])
        for child in stmt.children():
            if isinstance(child, Stmt):
                visit(child)
            else:
                touch(child)

    visit(func.body)
    return list(errors)


def verify_memory(func: PrimFunc) -> bool:
    """Whether host code does not access device memory.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    bool
    """
    return not memory_errors(func)


# --- limits of a device ----------------------------------------------------------------------------------------------

_LIMITS = (
    "max_local_memory_per_block", "max_shared_memory_per_block", "max_threads_per_block", "max_thread_x",
    "max_thread_y", "max_thread_z", "max_vthread", "max_vector_bytes", "max_kernels",
)  # fmt: skip


class _Kernels:
    """A verifier that checks each kernel of a function (an outermost thread_extent) against the limits."""

    def __init__(self, limits: Mapping[str, int]):
        self.limits = {k: int(v) for k, v in limits.items()}
        self.errors: list[str] = []
        self.kernels = 0
        self.level = 0
        self._reset()

    def _reset(self) -> None:
        self.local = self.shared = 0
        self.threads: dict[str, int] = {}
        self.vthreads: dict[Var, int] = {}

    def check(self, what: str, limit: str, value: int) -> None:
        allowed = self.limits.get(limit)
        if allowed is not None and value > allowed:
            self.errors.append(f"{what} is {value}, but {limit} is {allowed}")

    def statement(self, stmt: Stmt) -> None:
        axis, extent = _thread_axis(stmt)
        if isinstance(stmt, Allocate):
            self._allocate(stmt)
        self._vectors(stmt)
        if isinstance(stmt, For) and stmt.loop_var.name.startswith("vthread") and isinstance(stmt.extent, IntImm):
            # A virtual thread that was lowered to a loop.
            self.vthreads[stmt.loop_var] = stmt.extent.value
        if axis is None:
            for child in stmt.children():
                if isinstance(child, Stmt):
                    self.statement(child)
            return
        if self.level == 0:
            self._reset()
            self.kernels += 1
        self._thread(axis, extent)
        self.level += 1
        self.statement(stmt.body)
        self.level -= 1
        if self.level == 0:
            self._finish()

    def _thread(self, axis: IterVar, extent: Any) -> None:
        tag = axis.thread_tag or axis.var.name
        if not isinstance(extent, IntImm):
            return
        if tag.startswith("vthread"):
            self.vthreads[axis.var] = extent.value
        elif tag.startswith("threadIdx."):
            known = self.threads.setdefault(tag, extent.value)
            if known != extent.value:
                self.errors.append(f"the extent of {tag} is both {known} and {extent.value}")
            self.check(f"the extent of {tag}", f"max_thread_{tag[-1]}", extent.value)

    def _finish(self) -> None:
        product = 1
        for extent in self.threads.values():
            product *= extent
        self.check("threads per block", "max_threads_per_block", product)
        self.check("local memory per block", "max_local_memory_per_block", self.local)
        self.check("shared memory per block", "max_shared_memory_per_block", self.shared)
        virtual = 1
        for extent in self.vthreads.values():
            virtual *= extent
        self.check("virtual threads", "max_vthread", virtual)

    def _allocate(self, stmt: Allocate) -> None:
        scope = getattr(stmt.buffer_var.type_annotation, "storage_scope", "")
        size = info(stmt.dtype).bytes * info(stmt.dtype).lanes
        for extent in stmt.extents:
            if not isinstance(extent, IntImm):
                return
            size *= extent.value
        if scope.startswith("local"):
            self.local += size
        elif scope.startswith("shared"):
            self.shared += size

    def _vectors(self, stmt: Stmt) -> None:
        if "max_vector_bytes" not in self.limits:
            return
        nodes: list[PrimExpr] = [stmt.value] if isinstance(stmt, BufferStore) else []
        for child in stmt.children():
            if not isinstance(child, Stmt):
                nodes += [n for n in post_order(child) if isinstance(n, (BufferLoad, Ramp, Cast))]
        for node in nodes:
            kind = info(node.dtype)
            if kind.lanes > 1:
                self.check(f"a vector of type {node.dtype}", "max_vector_bytes", kind.bytes * kind.lanes)


def _thread_axis(stmt: Stmt) -> tuple[IterVar | None, Any]:
    if isinstance(stmt, AttrStmt) and stmt.attr_key in ("thread_extent", "virtual_thread"):
        return stmt.node, stmt.value
    if isinstance(stmt, For) and stmt.kind == ForKind.THREAD_BINDING and stmt.thread_binding is not None:
        return stmt.thread_binding, stmt.extent
    return None, None


def gpu_code_errors(func: PrimFunc, constraints: Mapping[str, int]) -> list[str]:
    """Return a message for each limit that the kernels of a function exceed."""
    unknown = [k for k in constraints if k not in _LIMITS]
    if unknown:
        raise ExprValueError(
            f"verify_gpu_code: unknown limits {', '.join(unknown)}; valid limits are {', '.join(_LIMITS)}"
        )
    kernels = _Kernels(constraints)
    kernels.statement(func.body)
    kernels.check("the number of kernels", "max_kernels", kernels.kernels)
    return kernels.errors


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether the kernels of a function satisfy the limits of a device.

    Parameters
    ----------
    func : PrimFunc
        The function.
    constraints : Mapping[str, int]
        The limits by name, such as ``max_threads_per_block``.

    Returns
    -------
    bool
    """
    return not gpu_code_errors(func, constraints)


__all__ = [
    "form_errors",
    "gpu_code_errors",
    "memory_errors",
    "verify_gpu_code",
    "verify_memory",
    "verify_ssa",
    "verify_well_formed",
]
