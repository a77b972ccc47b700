"""The parser of hybrid script: converts the source to an operation whose body is a statement over tensors."""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...dtype import info
from ...error import DiagnosticError
from ...ir import primop
from ...ir.prim import IntImm, IterVar, PrimExpr, ProducerLoad, Range, StringImm, Var, const, convert
from ...ir.visit import post_order
from ...target import Target
from ...tir import op as math
from ...tir.stmt import (
    AssertStmt,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    ProducerRealize,
    ProducerStore,
    Stmt,
    seq,
)
from ..operation import thread_axis
from ..tensor import HybridOp, PlaceholderOp, Tensor

FOR_KINDS = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "unroll": ForKind.UNROLLED,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "const_range": None,
    "bind": ForKind.THREAD_BINDING,
}
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,  # pyright: ignore[reportUnknownMemberType]
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,  # pyright: ignore[reportUnknownMemberType]
    ast.BitAnd: operator.and_,  # pyright: ignore[reportUnknownMemberType]
    ast.BitXor: operator.xor,  # pyright: ignore[reportUnknownMemberType]
    ast.LShift: operator.lshift,  # pyright: ignore[reportUnknownMemberType]
    ast.RShift: operator.rshift,  # pyright: ignore[reportUnknownMemberType]
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: lambda a, b: primop.equal(a, b),
    ast.NotEq: lambda a, b: primop.not_equal(a, b),
}
MATH = (
    "log",
    "exp",
    "sigmoid",
    "tanh",
    "power",
    "sqrt",
    "rsqrt",
    "erf",
    "popcount",
    "round",
    "floor",
    "ceil",
    "trunc",
    "abs",
    "sin",
    "cos",
    "likely",
)
CASTS = (
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "bool",
)


class _Scalar:
    """A scalar variable of the script, stored in a buffer of one element."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def load(self) -> PrimExpr:
        return ProducerLoad(self.tensor, (const(0),))


class Parser:
    def __init__(self, pyfunc: Any, args: Any):
        self.name = pyfunc.__name__
        self.source = textwrap.dedent(inspect.getsource(pyfunc))
        self.first_line = pyfunc.__code__.co_firstlineno
        closure = inspect.getclosurevars(pyfunc)
        self.outside = {**pyfunc.__globals__, **closure.nonlocals}
        self.symbols: list[dict[str, Any]] = [{}]
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.returned: list[Tensor] | None = None
        self.axes: list[IterVar] = []
        self.pending: list[list[tuple[Tensor, str]]] = [[]]
        self.writes: Counter[str] = Counter()
        self.args = args

    # -- errors and names ----------------------------------------------------------------------------------------

    def fail(self, node: Any, message: str):
        line = getattr(node, "lineno", 1) + self.first_line - 1
        text = self.source.splitlines()[getattr(node, "lineno", 1) - 1].strip()
        raise DiagnosticError(f"hybrid script {self.name}, line {line}: {message}\n    {text}")

    def lookup(self, node: Any, name: str):
        for scope in reversed(self.symbols):
            if name in scope:
                return scope[name]
        if name in self.outside:
            return self.outside[name]
        self.fail(node, f"'{name}' is not defined")

    # -- entry ---------------------------------------------------------------------------------------------------

    def run(self) -> HybridOp:
        tree = ast.parse(self.source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            self.fail(tree, "expected a function")
        self.writes = _writes(tree)
        names = [a.arg for a in tree.args.args]
        if len(names) != len(self.args):
            self.fail(tree, f"the function takes {len(names)} arguments, {len(self.args)} were given")
        for name, value in zip(names, self.args):
            self.symbols[0][name] = self._argument(value)
        body = self.block(tree.body)
        if not self.returned:
            self.fail(tree, "the function does not return a tensor made with output_tensor")
        for tensor in self.outputs:
            if tensor not in self.returned:
                self.fail(tree, f"output tensor '{tensor.op.name}' is not returned")
        return HybridOp(self.name, "", {}, self.inputs, self.returned, self.axes, body)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value not in self.inputs:
                self.inputs.append(value)
            return value
        if isinstance(value, (list, tuple)):
            return [self._argument(v) for v in value]
        return convert(value) if isinstance(value, (PrimExpr, bool, int, float)) else value

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, nodes: Any) -> Stmt:
        self.pending.append([])
        self.symbols.append({})
        out: list[Stmt] = []
        for node in nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                continue
            stmt = self.statement(node)
            if stmt is not None:
                out.append(stmt)
            if self.returned is not None:
                break
        self.symbols.pop()
        body = seq(*out)
        for tensor, scope in reversed(self.pending.pop()):
            region = tuple(Range(min=const(0, d.dtype), extent=d) for d in tensor.shape)
            body = ProducerRealize(tensor, region, const(True, "bool"), body, scope)
        return body

    def statement(self, node: Any) -> Stmt | None:
        method = getattr(self, "stmt_" + type(node).__name__.lower(), None)
        if method is None:
            self.fail(node, f"hybrid script does not support {type(node).__name__} statements")
        return method(node)

    def stmt_pass(self, node: Any):
        return None

    def stmt_expr(self, node: Any):
        value = self.value(node.value)
        return Evaluate(value) if isinstance(value, PrimExpr) else None

    def stmt_return(self, node: Any):
        if len(self.symbols) > 2:
            self.fail(node, "'return' is allowed only at the end of the function")
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        out = [self.value(v) for v in values]
        for v in out:
            if v not in self.outputs:
                self.fail(node, "only tensors made with output_tensor can be returned")
        self.returned = out
        return None

    def stmt_assert(self, node: Any):
        message = node.msg.value if isinstance(node.msg, ast.Constant) else "assertion failed"
        return AssertStmt(self.value(node.test), StringImm(message), Evaluate(const(0)))

    def stmt_if(self, node: Any):
        test = convert(self.value(node.test))
        if isinstance(test, IntImm):
            return self.block(node.body) if test.value else (self.block(node.orelse) if node.orelse else None)
        return IfThenElse(test, self.block(node.body), self.block(node.orelse) if node.orelse else None)

    def stmt_for(self, node: Any):
        if not isinstance(node.target, ast.Name):
            self.fail(node, "a for loop must have exactly one variable")
        if not isinstance(node.iter, ast.Call) or not isinstance(node.iter.func, ast.Name):
            self.fail(node, "a for loop must iterate over range, unroll, parallel, vectorize, const_range or bind")
        kind_name = node.iter.func.id
        if kind_name not in FOR_KINDS:
            self.fail(node, f"unknown loop '{kind_name}'; expected one of {', '.join(FOR_KINDS)}")
        args = [self.value(a) for a in node.iter.args]
        if kind_name == "bind":
            return self._bind_loop(node, args)
        low, extent = self._extent(node, args)
        if kind_name == "const_range":
            return self._const_loop(node, low, extent)
        return self._loop(node, low, extent, FOR_KINDS[kind_name])

    def _extent(self, node: Any, args: Any) -> tuple[PrimExpr, PrimExpr]:
        args = [convert(a) for a in args]
        if len(args) == 1:
            return const(0, args[0].dtype), args[0]
        if len(args) == 2:
            return args[0], args[1] - args[0]
        self.fail(node, "a loop takes one or two bounds")
        raise AssertionError

    def _const_loop(self, node: Any, low: Any, extent: Any) -> Stmt:
        if not isinstance(low, IntImm) or not isinstance(extent, IntImm):
            self.fail(node, "const_range needs constant bounds")
        out: list[Stmt] = []
        for i in range(low.value, low.value + extent.value):
            self.symbols.append({node.target.id: const(i)})
            out.append(self.block(node.body))
            self.symbols.pop()
        return seq(*out)

    def _loop(self, node: Any, low: Any, extent: Any, kind: Any) -> Stmt:
        variable = Var(node.target.id, extent.dtype)
        zero = const(0, extent.dtype)
        axis = IterVar(Range(min=zero, extent=extent), variable, IterVar.DataPar)
        self.axes.append(axis)
        shifted = variable if isinstance(low, IntImm) and low.value == 0 else variable + low
        self.symbols.append({node.target.id: shifted})
        body = self.block(node.body)
        self.symbols.pop()
        return For(variable, zero, extent, kind, body)

    def _bind_loop(self, node: Any, args: Any) -> Stmt:
        tag = args[0].value if isinstance(args[0], StringImm) else args[0]
        extent = convert(args[1])
        axis = thread_axis(Range(min=const(0, extent.dtype), extent=extent), str(tag))
        self.axes.append(axis)
        self.symbols.append({node.target.id: axis.var})
        body = self.block(node.body)
        self.symbols.pop()
        return AttrStmt(axis, "thread_extent", extent, body)

    def stmt_assign(self, node: Any):
        if len(node.targets) != 1:
            self.fail(node, "an assignment must have exactly one target")
        target = node.targets[0]
        inner = self._inner_script(node.value)
        if inner is not None:
            return self._call_script(target, node.value, inner)
        if isinstance(target, ast.Subscript):
            return self._store(target, self.value(node.value))
        if not isinstance(target, ast.Name):
            self.fail(node, "the target of an assignment must be a variable or an element of a tensor")
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            if node.value.func.id in ("allocate", "output_tensor"):
                return self._declare(node, target.id, node.value)
        value = self.value(node.value)
        if isinstance(value, (Tensor, list, tuple)) or not isinstance(value, (PrimExpr, bool, int, float)):
            self.symbols[-1][target.id] = value
            return None
        value = convert(value)
        if self.writes[target.id] == 1 and not any(isinstance(n, ProducerLoad) for n in post_order(value)):
            self.symbols[-1][target.id] = value
            return None
        return self._scalar(node, target.id, value)

    def _scalar(self, node: Any, name: str, value: PrimExpr) -> Stmt:
        old = None
        for scope in reversed(self.symbols):
            if name in scope:
                old = scope[name]
                break
        if isinstance(old, _Scalar):
            return ProducerStore(old.tensor, primop.cast(old.tensor.dtype, value), (const(0),))
        tensor = PlaceholderOp(name, (1,), value.dtype).output(0)
        self.symbols[-1][name] = _Scalar(tensor)
        self.pending[-1].append((tensor, "global"))
        return ProducerStore(tensor, value, (const(0),))

    def stmt_augassign(self, node: Any):
        kind = type(node.op)
        load = ast.copy_location(_as_load(node.target), node)
        old = convert(self.value(load))
        value = (
            primop.div(old, convert(self.value(node.value)))
            if kind is ast.Div
            else BINARY[kind](old, convert(self.value(node.value)))
        )
        if isinstance(node.target, ast.Subscript):
            return self._store(node.target, value)
        return self._scalar(node, node.target.id, value)

    def _declare(self, node: Any, name: str, call: Any) -> None:
        args = [self.value(a) for a in call.args]
        named = {k.arg: self.value(k.value) for k in call.keywords}
        shape = args[0] if args else named["shape"]
        dtype = args[1] if len(args) > 1 else named.get("dtype", "float32")
        scope = args[2] if len(args) > 2 else named.get("scope", "global")
        dtype, scope = (x.value if isinstance(x, StringImm) else x for x in (dtype, scope))
        shape = tuple(convert(s) for s in (shape if isinstance(shape, (tuple, list)) else (shape,)))
        tensor = PlaceholderOp(name, shape, dtype).output(0)
        self.symbols[-1][name] = tensor
        if call.func.id == "output_tensor":
            self.outputs.append(tensor)
        else:
            self.pending[-1].append((tensor, scope))
        return None

    def _store(self, target: Any, value: Any) -> Stmt:
        tensor = self.value(target.value)
        if not isinstance(tensor, Tensor):
            self.fail(target, "the target of an assignment must be an element of a tensor")
        indices = self._indices(target)
        if len(indices) != len(tensor.shape):
            self.fail(
                target, f"'{tensor.op.name}' has {len(tensor.shape)} dimensions, but {len(indices)} indices are given"
            )
        return ProducerStore(tensor, primop.cast(tensor.dtype, convert(value)), tuple(convert(i) for i in indices))

    def _indices(self, node: Any) -> list[Any]:
        inner = node.slice
        return [self.value(e) for e in inner.elts] if isinstance(inner, ast.Tuple) else [self.value(inner)]

    # -- expressions ---------------------------------------------------------------------------------------------

    def value(self, node: Any) -> Any:
        method = getattr(self, "expr_" + type(node).__name__.lower(), None)
        if method is None:
            self.fail(node, f"hybrid script does not support {type(node).__name__} expressions")
        return method(node)

    def expr_constant(self, node: Any):
        return node.value if isinstance(node.value, str) else convert(node.value)

    def expr_name(self, node: Any):
        got = self.lookup(node, node.id)
        if isinstance(got, _Scalar):
            return got.load()
        return convert(got) if isinstance(got, (bool, int, float)) else got

    def expr_tuple(self, node: Any):
        return tuple(self.value(e) for e in node.elts)

    expr_list = expr_tuple

    def expr_attribute(self, node: Any):
        base = self.value(node.value)
        if isinstance(base, Tensor) and node.attr in ("shape", "dtype"):
            return getattr(base, node.attr)
        return getattr(base, node.attr)

    def expr_subscript(self, node: Any):
        base = self.value(node.value)
        indices = self._indices(node)
        if isinstance(base, Tensor):
            if len(indices) != len(base.shape):
                self.fail(
                    node, f"'{base.op.name}' has {len(base.shape)} dimensions, but {len(indices)} indices are given"
                )
            return ProducerLoad(base, tuple(convert(i) for i in indices))
        for index in map(convert, indices):
            if not isinstance(index, IntImm):
                self.fail(node, "expected a constant index")
            base = base[index.value]
        return base

    def expr_binop(self, node: Any) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Div):
            a, b = convert(a), convert(b)
            if info(a.dtype).is_integer and info(b.dtype).is_integer:
                return primop.truncdiv(a, b)
            return primop.div(a, b)
        if type(node.op) not in BINARY:
            self.fail(node, f"hybrid script does not support the operator {type(node.op).__name__}")
        return BINARY[type(node.op)](a, b)

    def expr_unaryop(self, node: Any):
        value = convert(self.value(node.operand))
        if isinstance(node.op, ast.USub):
            return primop.negative(value)
        if isinstance(node.op, ast.Not):
            return primop.logical_not(value)
        if isinstance(node.op, ast.Invert):
            return primop.bitwise_not(value)
        return value

    def expr_compare(self, node: Any):
        left = convert(self.value(node.left))
        out = None
        for kind, right_node in zip(node.ops, node.comparators):
            if type(kind) not in COMPARE:
                self.fail(node, f"hybrid script does not support the comparison {type(kind).__name__}")
            right = convert(self.value(right_node))
            test = convert(COMPARE[type(kind)](left, right))
            out = test if out is None else primop.logical_and(out, test)
            left = right
        return out

    def expr_boolop(self, node: Any):
        join = primop.logical_and if isinstance(node.op, ast.And) else primop.logical_or
        out = convert(self.value(node.values[0]))
        for v in node.values[1:]:
            out = join(out, convert(self.value(v)))
        return out

    def expr_ifexp(self, node: Any):
        test = convert(self.value(node.test))
        if isinstance(test, IntImm):
            return self.value(node.body if test.value else node.orelse)
        return math.if_then_else(test, convert(self.value(node.body)), convert(self.value(node.orelse)))

    def expr_call(self, node: Any):
        if not isinstance(node.func, ast.Name):
            function = self.value(node.func)
            return function(*[self.value(a) for a in node.args])
        name = node.func.id
        args = [self.value(a) for a in node.args]
        if name in CASTS:
            return primop.cast(name, convert(args[0]))
        if name in ("min", "max"):
            join = primop.minimum if name == "min" else primop.maximum
            out = convert(args[0])
            for a in args[1:]:
                out = join(out, convert(a))
            return out
        if name == "len":
            return args[0].shape[0] if isinstance(args[0], Tensor) else convert(len(args[0]))
        if name == "ceil_div":
            return math.ceildiv(convert(args[0]), convert(args[1]))
        if name == "max_num_threads":
            return self._max_threads(node, args)
        if name in MATH:
            return getattr(math, name)(*[convert(a) for a in args])
        function = self.lookup(node, name)
        if hasattr(function, "__hybrid_script__"):
            self.fail(node, "assign the output of another hybrid script to a name: x = other(...)")
        return function(*args)

    def _max_threads(self, node: Any, args: Any) -> PrimExpr:
        allow_none = not args or bool(convert(args[0]).value)
        target = Target.current(allow_none=True)
        if target is None and not allow_none:
            self.fail(node, "max_num_threads needs a target: use it inside 'with tvm.target.Target(...)'")
        return const(int(target.max_num_threads) if target is not None else 1)

    def _inner_script(self, node: Any) -> Any:
        """Return the Python function of the hybrid script that this expression calls, or None."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id in MATH + CASTS:
            return None
        for scope in (*reversed(self.symbols), self.outside):
            if node.func.id in scope:
                return getattr(scope[node.func.id], "__hybrid_script__", None)
        return None

    def _call_script(self, target: Any, call: Any, pyfunc: Any) -> Stmt:
        """Return the body of a called script, with its outputs as local buffers of this script."""
        op = Parser(pyfunc, [self.value(a) for a in call.args]).run()
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if len(names) != len(op.outputs_):
            self.fail(
                call, f"{pyfunc.__name__} returns {len(op.outputs_)} tensors, but {len(names)} names are assigned"
            )
        self.axes += op.axis
        for name, tensor in zip(names, op.outputs_):
            self.symbols[-1][name.id] = tensor  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            self.pending[-1].append((tensor, "global"))
        return op.body


def _writes(tree: Any) -> Counter[str]:
    """Count the assignments of each name. A name that is assigned once, and not from memory, is replaced by its
    value."""
    return Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _as_load(target: Any):
    new = ast.parse(ast.unparse(target), mode="eval").body
    for n in ast.walk(new):
        ast.copy_location(n, target)
    return new


def parse(pyfunc: Any, args: Any) -> Any:
    """Return the tensor or tensors that the script creates from ``args``."""
    op = Parser(pyfunc, args).run()
    outputs = op.outputs
    return outputs[0] if len(outputs) == 1 else outputs


__all__ = ["parse", "Parser"]
