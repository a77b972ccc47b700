"""Convert Relay graphs to Python programs, whose results serve as a reference for other executors.

Tensors are NDArrays, tuples are ADTs, references and ADT values are those of the interpreter, and functions are Python
functions. Operators and constants are stored in the program as JSON.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable
from typing import Any

from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.serialize import load_json, save_json
from ...ir.visit import post_order
from ...runtime.container import ADT, tuple_object
from ..adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from ..expr import (
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
)
from ..infer import infer_module
from ..interpreter import ConstructorValue, RefValue, create_executor

_RESULT = "__relay_result__"


def operator(function: str, target: str = "llvm") -> Callable[..., Any]:
    """Return a Python function for an operator call, for use by programs of ``to_python``.

    Parameters
    ----------
    function : str
        The call as a Relay function of its operands, as JSON.
    target : str, optional
        The target to compile for.

    Returns
    -------
    callable
    """
    run = create_executor("debug", target=target).evaluate(load_json(function))

    def plain(value: Any) -> Any:
        return [plain(v) for v in value] if isinstance(value, ADT) else value

    def made(value: Any) -> Any:
        return tuple_object([made(v) for v in value]) if isinstance(value, list) else value

    return lambda *args: made(run(*[plain(a) for a in args]))


def constant(value: str) -> Any:
    """Return a constant, for use by programs of ``to_python``.

    Parameters
    ----------
    value : str
        The constant as JSON.

    Returns
    -------
    NDArray
    """
    return load_json(value).data


class _Writer:
    """Writes the lines of a program."""

    def __init__(self, mod: IRModule, target: str):
        self.mod, self.target = mod, target
        self.head: list[str] = []
        self.names: dict[Any, str] = {}
        self.count = 0

    def name(self, hint: str) -> str:
        self.count += 1
        plain = re.sub(r"\W", "_", hint) or "v"
        return f"{'_' if keyword.iskeyword(plain) else ''}{plain}_{self.count}"

    def of_variable(self, var: RelayExpr) -> str:
        if var not in self.names:
            self.names[var] = self.name(getattr(var, "name_hint", "v"))
        return self.names[var]

    def stored(self, hint: str, value: str) -> str:
        name = self.name(hint)
        self.head.append(f"{name} = {value}")
        return name

    def program(self, main: GlobalVar) -> str:
        lines: list[str] = []
        waiting, seen = [main], {main}
        while waiting:
            var = waiting.pop()
            function = self.mod[var]
            for node in post_order(function):
                if isinstance(node, GlobalVar) and node not in seen:
                    seen.add(node)
                    waiting.append(node)
            lines += self.function(self.of_variable(var), function)
        return "\n".join([
            f"from {__name__} import ConstructorValue, RefValue, constant, operator, tuple_object", *self.head, *lines
        ])  # fmt: skip

    def function(self, name: str, function: Function) -> list[str]:
        params = ", ".join(self.of_variable(p) for p in function.params)
        block = _Block(self)
        result = block.value(function.body)
        return [f"def {name}({params}):", *_indented([*block.lines, f"return {result}"])]


class _Block:
    """The statements of a function or of a branch. Each expression is assigned to a variable, in order."""

    def __init__(self, writer: _Writer, outer: _Block | None = None):
        self.writer = writer
        self.lines: list[str] = []
        self.done: dict[int, str] = dict(outer.done) if outer is not None else {}

    def value(self, root: RelayExpr) -> str:
        """Return the name of an expression's value.

        Operands are written first with an explicit stack, so that only nested blocks recurse.
        """
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in self.done:
                stack.pop()
                continue
            waits = [n for n in self.operands(node) if id(n) not in self.done]
            if waits:
                stack.extend(reversed(waits))
                continue
            if type(node) is Let and not isinstance(node.value, Function):
                self.lines.append(f"{self.writer.of_variable(node.var)} = {self.done[id(node.value)]}")
            if type(node) is Let:
                # The body of a let is written after its value.
                if id(node.body) not in self.done:
                    stack.append(node.body)
                    if isinstance(node.value, Function):
                        self.lines += self.writer.function(self.writer.of_variable(node.var), node.value)
                    continue
                self.done[id(node)] = self.done[id(node.body)]
            else:
                self.done[id(node)] = self.written(node)
            stack.pop()
        return self.done[id(root)]

    def operands(self, node: RelayExpr) -> list[RelayExpr]:
        if isinstance(node, Let):
            return [] if isinstance(node.value, Function) else [node.value]
        if isinstance(node, If):
            return [node.cond]
        if isinstance(node, Match):
            return [node.data]
        if isinstance(node, Call) and isinstance(node.op, (Op, Constructor)):
            return list(node.args)
        if isinstance(node, (Call, Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)):
            return list(node.children())
        return []

    def written(self, node: RelayExpr) -> str:
        """Return the name or expression of a node whose operands have been written."""
        of = lambda e: self.done[id(e)]
        if isinstance(node, (Var, GlobalVar)):
            return self.writer.of_variable(node)
        if isinstance(node, Constant):
            return self.writer.stored("c", f"constant({save_json(node)!r})")
        if isinstance(node, Function):
            name = self.writer.name("f")
            self.lines += self.writer.function(name, node)
            return name
        if isinstance(node, Tuple):
            return self.assign(f"tuple_object([{', '.join(of(f) for f in node.fields)}])")
        if isinstance(node, TupleGetItem):
            return self.assign(f"{of(node.tuple_value)}[{node.index}]")
        if isinstance(node, RefCreate):
            return self.assign(f"RefValue({of(node.value)})")
        if isinstance(node, RefRead):
            return self.assign(f"{of(node.ref)}.value")
        if isinstance(node, RefWrite):
            self.lines.append(f"{of(node.ref)}.value = {of(node.value)}")
            return self.assign("tuple_object([])")
        if isinstance(node, If):
            return self.branches([(f"bool({of(node.cond)}.numpy())", [], node.true_branch),
                                  ("True", [], node.false_branch)])  # fmt: skip
        if isinstance(node, Match):
            return self.match(node)
        assert isinstance(node, Call)
        return self.call(node, [of(a) for a in node.args])

    def call(self, node: Call, args: list[str]) -> str:
        listed = ", ".join(args)
        if isinstance(node.op, Constructor):
            return self.assign(f"ConstructorValue({node.op.tag}, [{listed}], None)")
        if not isinstance(node.op, Op):
            return self.assign(f"{self.done[id(node.op)]}({listed})")
        params = [Var(f"p{i}", a.checked_type) for i, a in enumerate(node.args)]
        kernel = save_json(Function(params, Call(node.op, params, node.attrs)))
        name = self.writer.stored(node.op.name, f"operator({kernel!r}, {self.writer.target!r})")
        return self.assign(f"{name}({listed})")

    def assign(self, value: str) -> str:
        name = self.writer.name("t")
        self.lines.append(f"{name} = {value}")
        return name

    def match(self, node: Match) -> str:
        data = self.assign(self.done[id(node.data)])
        cases = []
        for clause in node.clauses:
            conditions: list[str] = []
            bound: list[str] = []
            self.pattern(clause.lhs, data, conditions, bound)
            cases.append((" and ".join(conditions) or "True", bound, clause.rhs))
        return self.branches(cases)

    def pattern(self, pattern: Pattern, data: str, conditions: list[str], bound: list[str]) -> None:
        if isinstance(pattern, PatternVar):
            bound.append(f"{self.writer.of_variable(pattern.var)} = {data}")
        elif isinstance(pattern, PatternConstructor):
            conditions.append(f"{data}.tag == {pattern.constructor.tag}")
            for i, inner in enumerate(pattern.patterns):
                self.pattern(inner, f"{data}.fields[{i}]", conditions, bound)
        elif isinstance(pattern, PatternTuple):
            for i, inner in enumerate(pattern.patterns):
                self.pattern(inner, f"{data}[{i}]", conditions, bound)

    def branches(self, cases: list[tuple[str, list[str], RelayExpr]]) -> str:
        result = self.writer.name("t")
        word = "if"
        for condition, before, body in cases:
            block = _Block(self.writer, self)
            value = block.value(body)
            self.lines += [f"{word} {condition}:", *_indented([*before, *block.lines, f"{result} = {value}"])]
            word = "elif"
        self.lines += ["else:", "    raise RuntimeError('no clause of the match fits the value')"]
        return result


def _indented(lines: list[str]) -> list[str]:
    return [" " + line for line in lines]


def to_python(expr: RelayExpr, mod: IRModule | None = None, target: str = "llvm") -> ast.Module:
    """Convert a graph to a Python program.

    Parameters
    ----------
    expr : Expr
        An expression without free variables.
    mod : IRModule, optional
        The functions and data types that the expression uses.
    target : str, optional
        The target to compile the operators for.

    Returns
    -------
    ast.Module
        A program that assigns its result to ``__relay_result__``.
    """
    whole = mod.clone() if mod is not None else IRModule()
    main = GlobalVar("__main__")
    whole[main] = Function([], expr)
    writer = _Writer(infer_module(whole), str(target))
    text = writer.program(main)
    return ast.parse(f"{text}\n{_RESULT} = {writer.of_variable(main)}()")


def run_as_python(expr: RelayExpr, mod: IRModule | None = None, target: str = "llvm") -> Any:
    """Convert a graph to Python and run it.

    Parameters
    ----------
    expr : Expr
        An expression without free variables.
    mod : IRModule, optional
        The functions and data types that the expression uses.
    target : str, optional
        The target to compile the operators for.

    Returns
    -------
    NDArray, ADT, RefValue, ConstructorValue or callable
    """
    names: dict[str, Any] = {}
    exec(compile(to_python(expr, mod, target), "<relay>", "exec"), names)
    return names[_RESULT]


__all__ = ["ConstructorValue", "RefValue", "constant", "operator", "run_as_python", "to_python", "tuple_object"]
