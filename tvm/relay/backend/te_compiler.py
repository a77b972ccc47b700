"""Compile fused functions to kernels: operators become tensor expressions, which are scheduled and lowered.

Kernels are named after their operators and identified by content, so that repeated layers are compiled once.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

from ...autotvm.task.dispatcher import DispatchContext, FallbackContext, using
from ...autotvm.task.topi_integration import get_workload
from ...error import TVMError
from ...ir.module import GlobalVar, IRModule
from ...ir.op import OPS, Op
from ...ir.prim import Any_, IntImm, PrimExpr, SizeVar, StringImm, const
from ...ir.prim import Var as PrimVar
from ...ir.primop import BUILD, cast, logical_and
from ...ir.structural import structural_key
from ...ir.subst import substitute, variables
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...ir.type import TupleType, Type
from ...ir.visit import post_order, rewrite
from ...not_built import name_of
from ...target import Target
from ...te.operation import compute, placeholder
from ...te.primfunc import create_prim_func
from ...te.tensor import Tensor
from ...tir.buffer import Buffer, decl_buffer
from ...tir.function import PrimFunc
from ...tir.stmt import AssertStmt, IfThenElse, Stmt
from ...topi import size_class
from ...topi.assumptions import of_operator
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..op.implementation import OpImplementation, by_pattern, computation, highest, valid_implementations
from ..op.record import pattern_of
from ..symbolic import flatten_type, is_symbolic
from .any_blocks import shared_form
from .external.call import attrs_of_partition
from .few_pixels import copying_pixels, images_of, with_few_pixels

# The maximum number of elements of a tensor that 32-bit indices can address.
MOST_ELEMENTS = (1 << 31) - 1
# The maximum length of a kernel name without its prefix, in characters.
MOST_LETTERS = 80


class Settings(NamedTuple):
    """The inputs of lowering besides function and target: pass context and tuning records."""

    context: PassContext
    dispatch: DispatchContext

    @staticmethod
    def current() -> Settings:
        return Settings(PassContext.current(), DispatchContext.current)

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Activate the pass context and the tuning records for templates and passes, which look them up globally."""
        # The current context is not entered again, since entering a context runs its instruments.
        entered = PassContext.current() is self.context
        with contextlib.nullcontext() if entered else self.context, using(self.dispatch):
            yield


class KernelSizes:
    """The size variables of a kernel, shared by all its size classes. GPU kernels compute indices in 32 bits, because
    64-bit arithmetic is several times slower."""

    def __init__(self, dtype: str = "int64"):
        self.dtype = dtype
        # Data-dependent dimensions, in order; the shape of the output memory passed to the kernel defines their values.
        self.decided: list[SizeVar] = []
        self.own: dict[PrimVar, PrimExpr] = {}

    def decided_size(self, number: int) -> SizeVar:
        if number > len(self.decided):
            self.decided.append(SizeVar(f"size{number}", self.dtype))
        return self.decided[number - 1]

    def of(self, d: PrimExpr) -> PrimExpr:
        """Return a dimension as an expression over variables of the kernel's index type."""
        if isinstance(d, IntImm):
            return const(d.value, self.dtype)
        unseen = [v for v in variables(d) if v.dtype != self.dtype and v not in self.own]
        self.own.update((v, SizeVar(v.name, self.dtype)) for v in unseen)
        return _in_type(d, self.own, self.dtype) if self.dtype != d.dtype else d


def _in_type(d: PrimExpr, own: dict[PrimVar, PrimExpr], dtype: str) -> PrimExpr:
    """Rewrite an expression over other variables; plain arithmetic is computed in their type."""
    if any(not isinstance(e, (PrimVar, IntImm)) and type(e) not in BUILD for e in post_order(d)):
        return cast(dtype, substitute(d, {v: cast(v.dtype, new) for v, new in own.items()}))

    def post(e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, PrimVar):
            return own.get(e)
        return const(e.value, dtype) if isinstance(e, IntImm) else BUILD[type(e)](e.a, e.b)

    return rewrite(d, post)


class Kernel:
    """A kernel of the library: a fused function and its name. It is lowered on first access, with the settings of its
    compiler."""

    __slots__ = ("_copying", "_module", "_settings", "function", "key", "name", "operators", "target")

    def __init__(
        self, name: str, function: Function, key: str, operators: tuple[str, ...], target: Target, settings: Settings,
        prefix: str,
    ):  # fmt: skip
        self.name, self.function, self.key, self.operators, self.target = name, function, key, operators, target
        self._settings = settings
        # The function that copies pixels is shared by the kernels of a library.
        self._copying = GlobalVar(f"{prefix}_copying_pixels")
        self._module: IRModule | None = None

    @property
    def module(self) -> IRModule:
        """The lowered function."""
        if self._module is None:
            with self._settings.in_force(), self.target:
                self._module = self._lower()
        return self._module

    def _lower(self) -> IRModule:
        from ...driver.build_module import lower
        from .auto_schedule import is_scheduled, scheduled

        if is_scheduled(self.function):
            return lower(*scheduled(self.function, self.target), self.name)
        if is_symbolic(self.function):
            made, shared = self._by_size_class()
            return IRModule({**lower(made, name=self.name).functions, **shared})
        graph = ToTensors(self.function, self.target)
        return lower(graph.schedule(graph.outputs), graph.inputs + graph.outputs, self.name)

    def _by_size_class(self) -> tuple[PrimFunc, dict[GlobalVar, PrimFunc]]:
        """Return the loops for all sizes, preceded by the loops of size classes if an operator requests them, and the
        functions shared with other kernels."""
        buffers: list[Buffer] = []
        shared: dict[GlobalVar, PrimFunc] = {}
        sizes = KernelSizes("int32" if self.target.features.is_gpu else "int64")
        images = images_of(self.function)
        general, choice = self._for_class(0, buffers, sizes, images is not None)
        body = general.body
        if images is not None and choice.least:
            results = len(flatten_type(self.function.body.checked_type_))
            body = with_few_pixels(self.name, body, buffers, images, results, choice.least, self._copying)
            shared[self._copying] = copying_pixels()
        for number in range(choice.classes, 0, -1):
            made, of_class = self._for_class(number, buffers, sizes)
            chosen = reduce(logical_and, {str(c): c for c in of_class.conditions}.values())
            body = IfThenElse(chosen, made.body, body)
        if sizes.dtype == "int64":
            return general.with_body(body).with_attr("tir.narrow_indices", False), shared
        body = self._refusing_long_tensors(buffers, body)
        return general.with_body(body).with_attr("tir.narrow_indices", True), shared

    def _refusing_long_tensors(self, buffers: list[Buffer], body: Stmt) -> Stmt:
        """Add assertions that 32-bit indices can address all elements of every tensor."""
        for buffer in buffers:
            if any(not isinstance(d, IntImm) for d in buffer.shape):
                count = math.prod((cast("int64", d) for d in buffer.shape), start=const(1, "int64"))
                said = (
                    f"{self.name}: {buffer.name} has more than {MOST_ELEMENTS} elements; GPU kernels with dynamic "
                    "shapes use 32-bit indices"
                )
                body = AssertStmt(count <= const(MOST_ELEMENTS, "int64"), StringImm(said), body)
        return body

    def _for_class(
        self, number: int, buffers: list[Buffer], sizes: KernelSizes, has_copies: bool = False
    ) -> tuple[PrimFunc, size_class.Choice]:
        from ...driver.build_module import schedule_to_module

        with size_class.compiling(number, has_copies) as choice:
            graph = ToTensors(self.function, self.target, sizes=sizes)
            schedule = graph.schedule(graph.outputs)
        tensors = graph.inputs + graph.outputs
        if not buffers:
            names = [f"{t.name}_{i}" if i >= len(graph.inputs) else t.name for i, t in enumerate(tensors)]
            buffers += [decl_buffer(t.shape, t.dtype, name) for t, name in zip(tensors, names)]
        made = schedule_to_module(schedule, tensors, self.name, dict(zip(tensors, buffers)))
        return made[self.name], choice


class LoweredKernel(Kernel):
    """A kernel whose loops are given: a partition that RelayToTIR lowered."""

    __slots__ = ()

    def _lower(self) -> IRModule:
        from ...driver.build_module import lower

        return lower(attrs_of_partition(self.function).loops, name=self.name)


class ExternalKernel(NamedTuple):
    """A function in a module of an external code generator, called like a kernel."""

    name: str
    compiler: str
    function: Function
    key: str
    operators: tuple[str, ...]
    target: Target


def _is_wide(function: Function) -> bool:
    """Return whether a tensor of the function may have so many elements that indices must be int64."""
    if is_symbolic(function):
        return True
    types = [p.checked_type_ or p.type_annotation for p in function.params]
    types += [node.checked_type_ for node in post_order(function.body) if isinstance(node, Call)]
    return any(
        math.prod(d.value for d in tensor.shape if isinstance(d, IntImm)) >= 1 << 31
        for t in types
        for tensor in flatten_type(t)
    )


def get_valid_implementations(
    op: Op, attrs: Any, inputs: list[Tensor], out_type: Type, target: Any
) -> list[OpImplementation]:
    """Return the implementations of an operator that support a target and these inputs."""
    return valid_implementations(op, attrs, inputs, out_type, Target(target))


def select_implementation(
    op: Op, attrs: Any, inputs: list[Tensor], out_type: Type, target: Any, use_autotvm: bool = True
) -> tuple[OpImplementation, list[Tensor]]:
    """Return the implementation of an operator on a target, and the tensors that it computes.

    The fastest implementation with a time in the active tuning records is selected, else the one with the highest
    priority.
    """
    target = target if isinstance(target, Target) else Target(target)
    offered = valid_implementations(op, attrs, inputs, out_type, target)
    with target:
        if use_autotvm and len(offered) > 1 and not isinstance(DispatchContext.current, FallbackContext):
            computed = [(chosen, _tensors(chosen.compute(attrs, inputs, out_type))) for chosen in offered]
            timed = [(cost, pair) for pair in computed if (cost := _recorded_cost(pair[1], target)) is not None]
            if timed:
                return min(timed, key=lambda found: found[0])[1]
            best = highest(offered)
            return next(pair for pair in computed if pair[0] is best)
        best = highest(offered)
        return best, _tensors(best.compute(attrs, inputs, out_type))


def _tensors(made: Any) -> list[Tensor]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _recorded_cost(outs: list[Tensor], target: Target) -> float | None:
    """Return the time in seconds of an implementation in the active tuning records; None if there is no record."""
    workload = get_workload(outs)
    found = None if workload is None else DispatchContext.current.find(target, workload)
    return getattr(found, "cost", None)


class ToTensors:
    """The operators of a fused function as tensor expressions: the implementations for a target, or with ``plain`` the
    target-independent computations."""

    def __init__(
        self, function: Function, target: Target, plain: bool = False, sizes: KernelSizes | None = None
    ):  # fmt: skip
        self.target = target
        self.sizes = KernelSizes() if sizes is None else sizes
        self.dynamic_count = 0
        self.plain = plain
        self.wide = _is_wide(function)
        self.values: dict[int, Any] = {}
        self.inputs: list[Tensor] = []
        # The schedule of the anchor, the operator with the highest fusion pattern.
        self.schedule: Callable[[list[Tensor]], Any] = lambda outs: by_pattern(None, outs, target)
        self.leads = -1
        for param in function.params:
            tensors = [self._input(t) for t in flatten_type(param.checked_type_ or param.type_annotation)]
            self.values[id(param)] = tensors if isinstance(param.type_annotation, TupleType) else tensors[0]
        for node in post_order(function.body):
            if isinstance(node, Op) or id(node) in self.values:
                continue
            self.values[id(node)] = self._node(node)
        result = self.values[id(function.body)]
        self.outputs: list[Tensor] = list(result) if isinstance(result, (list, tuple)) else [result]
        # A kernel must not return an input or the same tensor twice; such an output is copied.
        seen: set[Tensor] = set(self.inputs)
        for i, tensor in enumerate(self.outputs):
            if tensor in seen:
                self.outputs[i] = compute(tensor.shape, lambda *at, t=tensor: t(*at), name="copy", tag="injective")
            seen.add(self.outputs[i])

    def _input(self, t: TensorType) -> Tensor:
        tensor = placeholder(self._shape(t), t.dtype, name=f"p{len(self.inputs)}")
        self.inputs.append(tensor)
        return tensor

    def _shape(self, t: TensorType) -> list:
        return [self._size(d) for d in t.shape]

    def _size(self, d: PrimExpr) -> PrimExpr:
        if isinstance(d, Any_):
            self.dynamic_count += 1
            return self.sizes.decided_size(self.dynamic_count)
        return self.sizes.of(d) if self.wide else d

    def _result(self, t: Type) -> Type:
        """Return the type of an output with the dimensions of its tensors."""
        if isinstance(t, TupleType):
            return TupleType(tuple(self._result(f) for f in t.fields))
        return TensorType(self._shape(t), t.dtype)

    def _node(self, node: RelayExpr) -> Any:
        if isinstance(node, Constant):
            return self._constant(node)
        if isinstance(node, Tuple):
            return [self.values[id(f)] for f in node.fields]
        if isinstance(node, TupleGetItem):
            return self.values[id(node.tuple_value)][node.index]
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._call(node)
        if isinstance(node, Var):
            raise TVMError(f"a fused function uses the variable %{node.name_hint}, which is not one of its parameters")
        raise TVMError(f"a fused function contains a {type(node).__name__}, which is not supported in kernels")

    def _constant(self, node: Constant) -> Tensor:
        if node.data.shape != ():
            raise TVMError("a fused function contains a constant that is not a scalar; pass it as a parameter")
        value = node.data.numpy().item()
        return compute((), lambda: const(value, node.data.dtype), name="constant", tag="broadcast")

    def _call(self, node: Call) -> Any:
        inputs: list[Tensor] = []
        for arg in node.args:
            value = self.values[id(arg)]
            inputs.extend(value if isinstance(value, (list, tuple)) else [value])
        result = self._result(node.checked_type_) if self.wide else node.checked_type_
        got = self.computed(node, inputs, result)
        return got if isinstance(node.checked_type_, TupleType) else got[0]

    def computed(self, node: Call, inputs: list[Tensor], out_type: Type) -> list[Tensor]:
        """Return the tensors that the operator of a call computes."""
        with of_operator(node.op.name):
            return self._computed(node, inputs, out_type)

    def _computed(self, node: Call, inputs: list[Tensor], out_type: Type) -> list[Tensor]:
        mathematics = computation(node.op)
        if self.plain and mathematics is not None:
            return _tensors(mathematics(node.attrs, inputs, out_type))
        chosen, made = select_implementation(node.op, node.attrs, inputs, out_type, self.target)
        self._lead(node, chosen)
        return made

    def _lead(self, node: Call, chosen: OpImplementation) -> None:
        """Use the schedule of an operator if its fusion pattern is at least as high as those of the operators before
        it.

        An operator scheduled by pattern does not determine the schedule of the kernel.
        """
        if chosen.schedule is not by_pattern and pattern_of(node.op) >= self.leads:
            self.leads = pattern_of(node.op)
            self.schedule = lambda outs: chosen.schedule(node.attrs, outs, self.target)


def kernel_name(operators: tuple[str, ...]) -> str:
    """Return the kernel name, such as ``fused_nn_conv2d_add_nn_relu``. A long name omits layout-changing ops and is
    truncated."""
    text = "_".join(re.sub(r"\W", "_", name) for name in operators) or "copy"
    if len(text) > MOST_LETTERS:
        others = [name for name in operators if not (name in OPS and OPS[name].attrs.get("moves_only"))]
        text = "_".join(re.sub(r"\W", "_", name) for name in others) or text
    return "fused_" + text[:MOST_LETTERS]


def lower_to_primfunc(relay_func: Function, target: Any) -> Any:
    """Return the unscheduled loops of a fused function, with the target-independent computations of its operators."""
    graph = ToTensors(relay_func, Target(target), plain=True)
    return create_prim_func(graph.inputs + graph.outputs)


class CachedFunc(NamedTuple):
    """The result of ``TECompiler.lower``."""

    target: Target
    prim_fn_var: GlobalVar
    inputs: list[Tensor]
    outputs: list[Tensor]
    schedule: Any
    funcs: IRModule

    def same_as(self, other: Any) -> bool:
        return self is other


class TECompiler:
    """Lowers single fused functions, for scripts that inspect schedules. Models are compiled with
    ``KernelCompiler``."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], CachedFunc] = {}

    def lower(self, source_func: Function, target: Any = None, mod_name: str = "default") -> CachedFunc:
        """Schedule and lower a typed function for a target, by default the current one. Results are cached."""
        target = Target.current() if target is None else Target(target)
        if target is None:
            raise ValueError("TECompiler.lower: there is no target; pass one, or call it inside `with target:`")
        key = structural_key(source_func), f"{target} {mod_name}"
        if key not in self._made:
            kernel = KernelCompiler(target, f"tvmgen_{mod_name}").lower(source_func)
            with target:
                graph = ToTensors(kernel.function, target)
                schedule = graph.schedule(graph.outputs)
            var = kernel.module.get_global_var(kernel.name)
            self._made[key] = CachedFunc(target, var, graph.inputs, graph.outputs, schedule, kernel.module)
        return self._made[key]

    def jit(self, source_func: Function, target: Any = None) -> Any:
        """Return the compiled function, which takes the output as an argument."""
        from ...driver.build_module import build

        made = self.lower(source_func, target)
        return build(made.funcs, target=made.target)[made.prim_fn_var.name_hint]

    def clear(self) -> None:
        """Clear the cache of lowered functions."""
        self._made.clear()

    def items(self) -> list[tuple[tuple[str, str], CachedFunc]]:
        return list(self._made.items())


_COMPILER = TECompiler()


def get() -> TECompiler:
    """Return the TE compiler of this process."""
    return _COMPILER


class KernelCompiler:
    """Lowers fused functions for one target; equal functions share a kernel. The compilers of one library share
    ``names``, which counts the uses of each name."""

    def __init__(
        self, target: Target, prefix: str = "tvmgen_default", names: dict[str, int] | None = None,
        settings: Settings | None = None,
    ):  # fmt: skip
        self.target = target
        self.prefix = prefix
        self.settings = settings or Settings.current()
        self.kernels: dict[str, Kernel] = {}
        # Kernels by the function with the size variables of its program; several such functions can share a kernel.
        self.known: dict[str, Kernel] = {}
        self.names: dict[str, int] = {} if names is None else names

    def lower(self, function: Function) -> Kernel | ExternalKernel:
        partition = attrs_of_partition(function)
        if partition is not None:
            return self._partition(function, partition)
        # Equal layers have equal functions, for which the types are inferred only once.
        given = structural_key(function, map_free_vars=True)
        got = self.known.get(given)
        if got is None:
            function = shared_form(function) if is_symbolic(function) else function
            key = structural_key(function)
            if key not in self.kernels:
                self.kernels[key] = self._make(function, key)
            got = self.known[given] = self.kernels[key]
        return got

    def _partition(self, function: Function, attrs: Any) -> Kernel | ExternalKernel:
        """Return the kernel of a partition, which keeps its name."""
        name, key = attrs.symbol, structural_key(function)
        if attrs.loops is None:
            return ExternalKernel(name, attrs.compiler, function, key, attrs.operators, self.target)
        made = LoweredKernel(name, function, key, attrs.operators, self.target, self.settings, self.prefix)
        return self.kernels.setdefault(name, made)

    def _make(self, function: Function, key: str) -> Kernel:
        from .auto_schedule import as_given

        # Operators that only restore the layout of stored constants are not part of the name.
        body = as_given(function).body
        operators = tuple(n.op.name for n in post_order(body) if isinstance(n, Call) and isinstance(n.op, Op))
        base = kernel_name(operators)
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        name = f"{self.prefix}_{base}" if count == 0 else f"{self.prefix}_{base}_{count}"
        return Kernel(name, function, key, operators, self.target, self.settings, self.prefix)


def __getattr__(name: str) -> Any:
    return name_of(__name__, name)
