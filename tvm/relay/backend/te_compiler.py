"""From a fused function to a kernel: its operators as tensor expressions, a schedule for them, loops.

Kernels are named after their operators and kept by content, so a repeated layer is compiled once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from ...autotvm.task.dispatcher import DispatchContext, using
from ...error import TVMError
from ...ir.module import IRModule
from ...ir.op import OPS, Op
from ...ir.prim import IntImm, const
from ...ir.structural import structural_key
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...ir.type import TupleType, Type
from ...ir.visit import post_order
from ...not_built import name_of
from ...target import Target
from ...te.operation import compute, placeholder
from ...te.primfunc import create_prim_func
from ...te.tensor import Tensor
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..op.implementation import implementation
from ..op.record import pattern_of

# Of the name of a kernel, after its beginning.
MOST_LETTERS = 80


class Kernel:
    """A piece of the library: a fused function, its name, and its loops, made when they are first asked for."""

    __slots__ = ("_context", "_dispatch", "_module", "function", "key", "name", "operators", "target")

    def __init__(self, name: str, function: Function, key: str, operators: tuple[str, ...], target: Target):
        self.name, self.function, self.key, self.operators, self.target = name, function, key, operators, target
        self._context = PassContext.current()
        self._dispatch = DispatchContext.current
        self._module: IRModule | None = None

    @property
    def module(self) -> IRModule:
        """The lowered function."""
        if self._module is None:
            if PassContext.current() is self._context:
                self._module = self._lower()
            else:
                with self._context:
                    self._module = self._lower()
        return self._module

    def _lower(self) -> IRModule:
        from ...driver.build_module import lower
        from ...topi.schedule import schedule_for

        graph = ToTensors(self.function, self.target)
        with self.target, using(self._dispatch):
            schedule = (graph.own_schedule or partial(schedule_for, target=self.target))(graph.outputs)
            return lower(schedule, graph.inputs + graph.outputs, self.name)


def flatten_type(t: Type) -> list[TensorType]:
    """The tensors of a type, tuples taken apart."""
    if isinstance(t, TensorType):
        return [t]
    if isinstance(t, TupleType):
        return [x for f in t.fields for x in flatten_type(f)]
    raise TVMError(f"a kernel takes and gives tensors, not {t}")


def _is_wide(function: Function) -> bool:
    """Whether a tensor of the function has so many elements that sizes and indices must be int64."""
    types = [p.checked_type_ or p.type_annotation for p in function.params]
    types += [node.checked_type_ for node in post_order(function.body) if isinstance(node, Call)]
    return any(math.prod(d.value for d in tensor.shape if isinstance(d, IntImm)) >= 1 << 31
               for t in types for tensor in flatten_type(t))


class ToTensors:
    """The operators of a fused function as tensor expressions."""

    def __init__(self, function: Function, target: Target):
        self.target = target
        self.wide = _is_wide(function)
        self.values: dict[int, Any] = {}
        self.inputs: list[Tensor] = []
        # The schedule a user has given for the operator that is hardest to fuse: it leads the kernel.
        self.own_schedule: Callable[[list[Tensor]], Any] | None = None
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
        # A kernel writes memory of its own: an output that is an input, or twice the same, is copied.
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
        return [const(d.value, "int64") if self.wide and isinstance(d, IntImm) else d for d in t.shape]

    def _result(self, t: Type) -> Type:
        """The type of a result, with sizes as the tensors have them."""
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
            raise TVMError(f"a fused function uses %{node.name_hint}, which is not one of its parameters")
        raise TVMError(f"a fused function holds {type(node).__name__}, which is no operator")

    def _constant(self, node: Constant) -> Tensor:
        if node.data.shape != ():
            raise TVMError("a constant with dimensions inside a fused function; it should be a parameter")
        value = node.data.numpy().item()
        return compute((), lambda: const(value, node.data.dtype), name="constant", tag="broadcast")

    def _call(self, node: Call) -> Any:
        inputs: list[Tensor] = []
        for arg in node.args:
            value = self.values[id(arg)]
            inputs.extend(value if isinstance(value, (list, tuple)) else [value])
        with self.target:
            result = self._result(node.checked_type_) if self.wide else node.checked_type_
            chosen = implementation(node.op, node.attrs, inputs, result, self.target)
            got = chosen.compute(node.attrs, inputs, result)
        if chosen.schedule is not None and pattern_of(node.op) >= self.leads:
            self.leads = pattern_of(node.op)
            self.own_schedule = lambda outs: chosen.schedule(node.attrs, outs, self.target)
        several = isinstance(node.checked_type_, TupleType)
        if several:
            return list(got) if isinstance(got, (list, tuple)) else [got]
        return got[0] if isinstance(got, (list, tuple)) else got


def kernel_name(operators: tuple[str, ...]) -> str:
    """``fused_nn_conv2d_add_nn_relu``: the operators in order. Long ones lack what only moves data, and are cut."""
    text = "_".join(re.sub(r"\W", "_", name) for name in operators) or "copy"
    if len(text) > MOST_LETTERS:
        others = [name for name in operators if not (name in OPS and OPS[name].attrs.get("moves_only"))]
        text = "_".join(re.sub(r"\W", "_", name) for name in others) or text
    return "fused_" + text[:MOST_LETTERS]


def lower_to_primfunc(relay_func: Function, target: Any) -> Any:
    """The loops of a fused function, before any schedule."""
    graph = ToTensors(relay_func, Target(target))
    return create_prim_func(graph.inputs + graph.outputs)


class TECompiler:
    """What ``get`` gives: kernels are kept by the models they belong to, so there is nothing to clear."""

    def clear(self) -> None:
        """Forget kernels that were compiled; none are kept here."""


def get() -> TECompiler:
    return TECompiler()


class KernelCompiler:
    """Lowers fused functions for one target; equal functions share a kernel."""

    def __init__(self, target: Target, prefix: str = "tvmgen_default"):
        self.target = target
        self.prefix = prefix
        self.kernels: dict[str, Kernel] = {}
        self.names: dict[str, int] = {}

    def lower(self, function: Function) -> Kernel:
        key = structural_key(function)
        got = self.kernels.get(key)
        if got is None:
            got = self.kernels[key] = self._make(function, key)
        return got

    def _make(self, function: Function, key: str) -> Kernel:
        operators = tuple(
            node.op.name for node in post_order(function.body) if isinstance(node, Call) and isinstance(node.op, Op)
        )
        base = kernel_name(operators)
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        name = f"{self.prefix}_{base}" if count == 0 else f"{self.prefix}_{base}_{count}"
        return Kernel(name, function, key, operators, self.target)


def __getattr__(name: str) -> Any:
    return name_of(__name__, name)
