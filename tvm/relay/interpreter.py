"""Execution of Relay programs: the interpreter ("debug"), and the compiled graph executor with the same interface
("graph").

The interpreter uses an explicit stack, so that neither deep graphs nor deep recursion of the interpreted program
overflow Python's stack.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

from ..dtype import info
from ..error import TVMError
from ..ir.adt import Constructor
from ..ir.module import Definitions, GlobalVar, IRModule
from ..ir.op import Op
from ..ir.tensor_type import TensorType
from ..ir.type import TupleType
from ..runtime import cpu, ndarray
from ..runtime.container import tuple_object
from . import trampoline
from .adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from .evaluate import evaluate_call
from .expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    Var,
    const,
)
from .infer import infer_module, infer_type
from .op.implementation import is_computed
from .substitute import bind as bind_vars
from .substitute import free_vars


class RefValue:
    """A mutable reference cell."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class ConstructorValue:
    """A value of an algebraic data type: its constructor and its fields."""

    __slots__ = ("tag", "fields", "constructor")

    def __init__(self, tag: int, fields, constructor: Constructor):
        self.tag = tag
        self.fields = tuple(fields)
        self.constructor = constructor

    def __repr__(self) -> str:
        inner = f"({', '.join(map(repr, self.fields))})" if self.fields else ""
        return self.constructor.name_hint + inner


class Closure:
    """A function with its captured variables."""

    __slots__ = ("function", "variables")

    def __init__(self, function: Function, variables: dict):
        self.function = function
        self.variables = variables


class _Frame:
    """One activation of a function: its variables and the values computed so far."""

    __slots__ = ("variables", "memo", "choice", "made")

    def __init__(self, variables: dict[Var, Any]):
        self.variables = variables
        self.memo: dict[int, Any] = {}
        self.choice: dict[int, RelayExpr] = {}
        self.made: list[RelayExpr] = []


_NONE = object()


class Interpreter:
    """Evaluates typed expressions of a module on NumPy arrays."""

    def __init__(self, mod: IRModule | None = None):
        self.mod = mod

    def run(self, function: Function, args: list) -> Any:
        """Return the value of a function call."""
        return trampoline.run(self.apply(Closure(function, {}), args))

    def apply(self, callee: Any, args: list) -> Generator:
        if isinstance(callee, GlobalVar):
            callee = Closure(self.mod[callee], {})
        if not isinstance(callee, Closure):
            raise TVMError(f"cannot call a {type(callee).__name__}; expected a function")
        function = callee.function
        if len(function.params) != len(args):
            raise TVMError(f"a function with {len(function.params)} parameters is called with {len(args)} arguments")
        frame = _Frame({**callee.variables, **dict(zip(function.params, args))})
        result = yield from self.block(function.body, frame)
        return result

    def block(self, root: RelayExpr, frame: _Frame) -> Generator:
        memo, stack = frame.memo, [root]
        while stack:
            node = stack[-1]
            if id(node) in memo:
                stack.pop()
                continue
            waits = self.waits_for(node, frame)
            if waits:
                stack.extend(reversed(waits))
                continue
            value = self.value(node, frame)
            if isinstance(value, Generator):
                value = yield value
            memo[id(node)] = value
            stack.pop()
        return memo[id(root)]

    def waits_for(self, node: RelayExpr, frame: _Frame) -> list[RelayExpr]:
        """Return the operands that must be evaluated before ``node``; branches only once they are selected."""
        kind, memo = type(node), frame.memo
        if kind in (Var, Constant, GlobalVar, Op, Constructor, Function):
            return []
        if kind is If:
            first, rest = node.cond, lambda: node.true_branch if bool(memo[id(node.cond)]) else node.false_branch
        elif kind is Let:
            first, rest = node.value, lambda: self.enter_let(node, frame)
        elif kind is Match:
            first, rest = node.data, lambda: self.choose(node, frame)
        else:
            return [c for c in node.children() if id(c) not in memo and not isinstance(c, Op)]
        if id(first) not in memo:
            if kind is Let and isinstance(first, Function):
                # A local function can refer to itself.
                frame.variables[node.var] = closure = Closure(first, frame.variables)
                memo[id(first)] = closure
            else:
                return [first]
        chosen = frame.choice.get(id(node))
        if chosen is None:
            chosen = frame.choice[id(node)] = rest()
        return [] if id(chosen) in memo else [chosen]

    def enter_let(self, node: Let, frame: _Frame) -> RelayExpr:
        frame.variables[node.var] = frame.memo[id(node.value)]
        return node.body

    def choose(self, node: Match, frame: _Frame) -> RelayExpr:
        value = frame.memo[id(node.data)]
        for clause in node.clauses:
            found: dict[Var, Any] = {}
            if _matches(clause.lhs, value, found):
                frame.variables.update(found)
                return clause.rhs
        raise TVMError("no clause of the match fits the value")

    def value(self, node: RelayExpr, frame: _Frame) -> Any:
        memo = frame.memo
        kind = type(node)
        if kind is Var:
            got = frame.variables.get(node, _NONE)
            if got is _NONE:
                raise TVMError(f"variable %{node.name_hint} is not defined")
            return got
        if kind is Constant:
            return node.data.numpy()
        if kind is Function:
            return Closure(node, frame.variables)
        if kind in (If, Let, Match):
            return memo[id(frame.choice[id(node)])]
        if kind is Tuple:
            return tuple(memo[id(f)] for f in node.fields)
        if kind is TupleGetItem:
            return memo[id(node.tuple_value)][node.index]
        if kind is RefCreate:
            return RefValue(memo[id(node.value)])
        if kind is RefRead:
            return memo[id(node.ref)].value
        if kind is RefWrite:
            memo[id(node.ref)].value = memo[id(node.value)]
            return ()
        if kind is Call:
            return self.call(node, frame)
        return node

    def call(self, node: Call, frame: _Frame) -> Any:
        args = [frame.memo[id(a)] for a in node.args]
        if isinstance(node.op, Op):
            expand = node.op.attrs.get("expand")
            if expand is not None and not is_computed(node.op):
                made = expand(node.attrs, node.args, [a.checked_type_ for a in node.args])
                # Values are memoized by expression id, so the expressions must stay alive.
                frame.made.append(made)
                return self.block(infer_type(made), frame)
            flat: list = []
            for a in args:
                flat.extend(a) if isinstance(a, tuple) else flat.append(a)
            result = evaluate_call(node, flat)
            return tuple(result) if isinstance(result, list) else result
        if isinstance(node.op, Constructor):
            return ConstructorValue(node.op.tag, args, node.op)
        return self.apply(frame.memo[id(node.op)], args)


def _matches(pattern: Pattern, value: Any, found: dict[Var, Any]) -> bool:
    if isinstance(pattern, PatternVar):
        found[pattern.var] = value
        return True
    if isinstance(pattern, PatternConstructor):
        return (value.constructor is pattern.constructor or value.tag == pattern.constructor.tag) and all(
            _matches(p, v, found) for p, v in zip(pattern.patterns, value.fields)
        )
    if isinstance(pattern, PatternTuple):
        return all(_matches(p, v, found) for p, v in zip(pattern.patterns, value))
    return True


# -- the interface ---------------------------------------------------------------------------------------------------


def to_value(arg: Any) -> Any:
    """Convert an argument to an interpreter value: arrays become NumPy arrays, tuples become Python tuples. Arrays of
    types that NumPy does not support stay NDArrays."""
    return _each_part(arg, _to_leaf, tuple)


def _to_leaf(arg: Any) -> Any:
    if isinstance(arg, (RefValue, Closure)):
        return arg
    if isinstance(arg, Constant):
        return arg.data.numpy()
    if isinstance(arg, ndarray.NDArray) and info(arg.dtype).is_custom:
        return arg
    if hasattr(arg, "numpy"):
        return arg.numpy()
    if isinstance(arg, (bool, int, float)):
        return const(arg).data.numpy()
    return np.asarray(arg)


def from_value(value: Any) -> Any:
    """Convert an interpreter value for users: arrays become NDArrays, tuples become runtime objects."""
    return _each_part(value, lambda v: v if isinstance(v, (RefValue, Closure)) else ndarray.array(v), tuple_object)


def _each_part(value: Any, leaf: Callable[[Any], Any], sequence: Callable[[list], Any]) -> Any:
    """Apply ``leaf`` to all parts of a value without recursion, since lists may have thousands of elements."""
    done: dict[int, Any] = {}
    stack = [value]
    while stack:
        v = stack[-1]
        made = isinstance(v, ConstructorValue)
        if id(v) in done or not made and not isinstance(v, (tuple, list)):
            if id(v) not in done:
                done[id(v)] = leaf(v)
            stack.pop()
            continue
        parts = v.fields if made else v
        waiting = [x for x in parts if id(x) not in done]
        if waiting:
            stack.extend(waiting)
            continue
        new = [done[id(x)] for x in parts]
        done[id(v)] = ConstructorValue(v.tag, new, v.constructor) if made else sequence(new)
        stack.pop()
    return done[id(value)]


class Executor:
    """Base class of executors. ``evaluate(expr)`` returns a Python function, or the value of an expression."""

    def __init__(self, mod: IRModule | None, device: Any, target: Any, params: dict | None = None):
        self.mod = mod if mod is not None else IRModule()
        self.device = device if device is not None else cpu(0)
        self.target = target
        self.params = dict(params or {})

    def evaluate(self, expr: RelayExpr | None = None, binds: dict | None = None) -> Any:
        if expr is None:
            expr = self.mod["main"]
        if binds:
            expr = bind_vars(expr, binds)
        if isinstance(expr, GlobalVar):
            expr = self.mod[expr]
        if isinstance(expr, Function):
            loose = free_vars(expr)
            if loose:
                raise ValueError(f"evaluate: variable %{loose[0].name_hint} of the function is not bound")
            return self._function(expr)
        return self._function(Function([], expr))()

    def _function(self, function: Function):
        from .build_module import bind_params_by_name

        function = bind_params_by_name(function, self.params) if self.params else function
        mod = IRModule(None, self.mod.type_definitions)
        mod.functions = Definitions({v: f for v, f in self.mod.functions.items() if v.name_hint != "main"})
        mod["main"] = function
        mod = infer_module(mod)
        run = self._compile(mod)
        names = [p.name_hint for p in function.params]
        types = [p.checked_type_ for p in mod["main"].params]

        def call(*args, **kwargs):
            return run([_typed(a, t) for a, t in zip(_arguments(names, args, kwargs, self.params), types)])

        return call

    def _compile(self, mod: IRModule):
        raise NotImplementedError(f"{type(self).__name__} does not define _compile")


def _arguments(names: list[str], args: tuple, kwargs: dict, bound: dict) -> list:
    """Return the arguments in the order of the parameters: positional arguments first, then named ones.

    A parameter bound in the executor may be passed again with the same array.
    """
    if len(args) > len(names):
        raise ValueError(f"expected {len(names)} arguments ({', '.join(names)}), got {len(args)}")
    left = names[len(args) :]
    for name in kwargs:
        if left.count(name) > 1:
            raise ValueError(f"there are {left.count(name)} parameters named '{name}'; pass them by position")
        if name in left or (name in bound and kwargs[name] is bound[name]):
            continue
        if name in names:
            raise ValueError(f"argument '{name}' is passed by position and by name")
        if name in bound:
            raise ValueError(f"argument '{name}' is already bound by the params of the executor")
        raise ValueError(f"there is no parameter '{name}'; the parameters are {', '.join(names) or 'none'}")
    missing = [n for n in left if n not in kwargs]
    if missing:
        got = len(args) + len(kwargs)
        raise ValueError(
            f"argument '{missing[0]}' is missing: {len(names)} arguments are expected ({', '.join(names)}), got {got}"
        )
    return [*args, *(kwargs[n] for n in left)]


def _typed(arg: Any, wanted: Any) -> Any:
    """Convert a tensor argument to the element type of its parameter, like ``GraphModule.set_input``."""
    if isinstance(wanted, TupleType) and isinstance(arg, (tuple, list)) and len(arg) == len(wanted.fields):
        return tuple(_typed(a, t) for a, t in zip(arg, wanted.fields))
    if not isinstance(wanted, TensorType):
        return arg
    # A Python number gets the type of the parameter, not the default type of a constant.
    number = isinstance(arg, (bool, int, float, np.generic))
    given = arg if isinstance(arg, ndarray.NDArray) else np.asarray(arg) if number else to_value(arg)
    if str(given.dtype) == wanted.dtype:
        return given
    converted = ndarray.empty(given.shape, wanted.dtype)
    converted.copyfrom(given.numpy() if isinstance(given, ndarray.NDArray) else given)
    return converted


class DebugExecutor(Executor):
    """Evaluates operators one by one, independently of fusion, memory planning and the graph executor; slow."""

    def _compile(self, mod: IRModule):
        interpreter = Interpreter(mod)

        def run(args: list) -> Any:
            return from_value(interpreter.run(mod["main"], [to_value(a) for a in args]))

        return run


class GraphExecutor(Executor):
    """Compiles with ``relay.build`` and runs the graph executor."""

    executor = "graph"

    def _compile(self, mod: IRModule):
        from .build_module import build

        lib = build(mod, self.target, executor=self.executor)
        module = lib[lib.libmod_name](self.device)
        result_type = mod["main"].body.checked_type

        def run(args: list) -> Any:
            for number, arg in enumerate(_flat(args)):
                arg = arg if isinstance(arg, ndarray.NDArray) else ndarray.array(to_value(arg))
                module["set_input"](number, arg)
            module["run"]()
            outs = (ndarray.array(module["get_output"](i)) for i in range(module["get_num_outputs"]()))
            return _nested(outs, result_type)

        run.library = lib
        return run


class AotExecutor(GraphExecutor):
    """Compiles ahead of time with ``relay.build`` and runs the main function of the model."""

    executor = "aot"


def _flat(args: Iterable) -> Iterator:
    """Flatten tuples in the arguments, as the graph executor expects its inputs."""
    for arg in args:
        yield from _flat(arg) if isinstance(arg, tuple) else (arg,)


def _nested(outputs: Iterator, wanted: Any) -> Any:
    """Nest the flat outputs of a graph as its output type requires."""
    if isinstance(wanted, TupleType):
        return [_nested(outputs, t) for t in wanted.fields]
    return next(outputs)


_KINDS = {"debug": DebugExecutor, "graph": GraphExecutor, "aot": AotExecutor}


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Any = None,
    target: Any = "llvm",
    params: dict | None = None,
) -> Executor:
    """Create an executor: "debug" interprets, "graph" and "aot" compile models without control flow, "vm" compiles any
    program.

    Parameters
    ----------
    kind : str, optional
        "debug", "graph", "aot" or "vm".
    mod : IRModule, optional
        The module.
    device : Device, optional
        The device; None selects the first device of the target.
    target : optional
        The target; None selects the current target.
    params : dict of str to NDArray, optional
        The weights by name.

    Returns
    -------
    Executor
        The executor.

    Raises
    ------
    RuntimeError
        There is no executor of this kind.
    """
    if kind == "vm":
        # Imported here, since the VM compiler depends on this module.
        return importlib.import_module(".backend.vm", __package__).VMExecutor(mod, device, target, params)
    if kind not in _KINDS:
        raise RuntimeError(f"create_executor: unknown executor '{kind}'; available: debug, graph, aot and vm")
    return _KINDS[kind](mod, device, target, params)


__all__ = [
    "AotExecutor",
    "Closure",
    "ConstructorValue",
    "DebugExecutor",
    "Executor",
    "GraphExecutor",
    "Interpreter",
    "RefValue",
    "create_executor",
]
