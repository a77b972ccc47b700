"""Conversion of schedules to hybrid script: Python text that runs as Python and compiles to the same loops again."""

from __future__ import annotations

import ast
import itertools
import linecache
import re
from typing import Any

from ...error import TVMError
from ...ir import prim
from ...ir.prim import Call, PrimExpr, ProducerLoad, Var
from ...tir.stmt import (
    AssertStmt,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
)
from ..schedule import Schedule
from ..tensor import Tensor

_BINARY = {
    prim.Add: "+",
    prim.Sub: "-",
    prim.Mul: "*",
    prim.FloorDiv: "//",
    prim.FloorMod: "%",
    prim.Div: "/",
    prim.Mod: "%",
    prim.EQ: "==",
    prim.NE: "!=",
    prim.LT: "<",
    prim.LE: "<=",
    prim.GT: ">",
    prim.GE: ">=",
    prim.And: "and",
    prim.Or: "or",
}
_CALLS = {prim.Min: "min", prim.Max: "max"}
_LOOPS = {
    ForKind.SERIAL: "range",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorize",
    ForKind.UNROLLED: "unroll",
}
_INTRINSICS = ("log", "exp", "sigmoid", "tanh", "power", "sqrt", "rsqrt", "erf", "popcount", "round", "likely")


class _Writer:
    """A printer of statements over tensors as lines of hybrid script."""

    def __init__(self):
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()
        self.starts: dict[Tensor, tuple[PrimExpr, ...]] = {}

    def name(self, thing: Var | Tensor, hint: str) -> str:
        got = self.names.get(thing)
        if got is None:
            base = re.sub(r"\W", "_", hint) or "x"
            got = next(
                n for n in itertools.chain((base,), (f"{base}_{i}" for i in itertools.count(1))) if n not in self.taken
            )
            self.names[thing] = got
            self.taken.add(got)
        return got

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def element(self, tensor: Tensor, indices: Any) -> str:
        starts = self.starts.get(tensor)
        if starts:
            indices = [i if getattr(s, "value", None) == 0 else i - s for i, s in zip(indices, starts)]
        return f"{self.name(tensor, tensor.name)}[{', '.join(map(self.expr, indices)) or '()'}]"

    def expr(self, e: PrimExpr) -> str:
        kind = type(e)
        if isinstance(e, Var):
            return self.name(e, e.name)
        if kind in (prim.IntImm, prim.FloatImm):
            if e.dtype in ("bool", "int32"):
                return repr(bool(e.value) if e.dtype == "bool" else e.value)
            # Python evaluates the literal 1e999 to infinity. NaN has no such literal.
            return f"{e.dtype}({repr(e.value).replace('inf', '1e999')})"
        if kind in _BINARY:
            return f"({self.expr(e.a)} {_BINARY[kind]} {self.expr(e.b)})"
        if kind in _CALLS:
            return f"{_CALLS[kind]}({self.expr(e.a)}, {self.expr(e.b)})"
        if kind is prim.Not:
            return f"(not {self.expr(e.a)})"
        if kind is prim.Cast:
            return f"{e.dtype}({self.expr(e.value)})"
        if kind is ProducerLoad:
            return self.element(e.producer, e.indices)
        if kind is prim.Select:
            return f"({self.expr(e.true_value)} if {self.expr(e.condition)} else {self.expr(e.false_value)})"
        if isinstance(e, Call):
            return self.call(e)
        raise TVMError(f"hybrid script cannot express {type(e).__name__}: {e}")

    def call(self, e: Call) -> str:
        name = getattr(e.op, "name", "").removeprefix("tir.")
        args = [self.expr(a) for a in e.args]
        if name == "if_then_else":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if name == "likely":
            return args[0]
        if name in _INTRINSICS or name == "pow":
            return f"{'power' if name == 'pow' else name}({', '.join(args)})"
        raise TVMError(f"hybrid script has no function {name or e.op}")

    def stmt(self, s: Stmt, depth: int) -> None:
        writer = getattr(self, "on_" + type(s).__name__, None)
        if writer is None:
            raise TVMError(f"hybrid script cannot express a {type(s).__name__} statement")
        writer(s, depth)

    def on_SeqStmt(self, s: SeqStmt, depth: int) -> None:
        for part in s.seq:
            self.stmt(part, depth)

    def on_For(self, s: For, depth: int) -> None:
        self.add(depth, f"for {self.name(s.loop_var, s.loop_var.name)} in {_LOOPS[s.kind]}({self.expr(s.extent)}):")
        self.stmt(s.body, depth + 1)

    def on_IfThenElse(self, s: IfThenElse, depth: int) -> None:
        self.add(depth, f"if {self.expr(s.condition)}:")
        self.stmt(s.then_case, depth + 1)
        if s.else_case is not None:
            self.add(depth, "else:")
            self.stmt(s.else_case, depth + 1)

    def on_ProducerStore(self, s: ProducerStore, depth: int) -> None:
        self.add(depth, f"{self.element(s.producer, s.indices)} = {self.expr(s.value)}")

    def on_ProducerRealize(self, s: ProducerRealize, depth: int) -> None:
        tensor = s.producer
        if tensor not in self.names:
            self.starts[tensor] = tuple(r.min for r in s.bounds)
            shape = ", ".join(self.expr(r.extent) for r in s.bounds)
            scope = s.storage_scope or "global"
            self.add(depth, f"{self.name(tensor, tensor.name)} = allocate(({shape},), '{tensor.dtype}', '{scope}')")
        self.stmt(s.body, depth)

    def on_AttrStmt(self, s: AttrStmt, depth: int) -> None:
        if s.attr_key == "thread_extent":
            variable = self.name(s.node.var, s.node.var.name)
            self.add(depth, f"for {variable} in bind('{s.node.thread_tag}', {self.expr(s.value)}):")
            depth += 1
        self.stmt(s.body, depth)

    def on_LetStmt(self, s: LetStmt, depth: int) -> None:
        self.add(depth, f"{self.name(s.var, s.var.name)} = {self.expr(s.value)}")
        self.stmt(s.body, depth)

    def on_AssertStmt(self, s: AssertStmt, depth: int) -> None:
        self.add(depth, f"assert {self.expr(s.condition)}, {s.message.value!r}")
        self.stmt(s.body, depth)

    def on_Evaluate(self, s: Evaluate, depth: int) -> None:
        if not isinstance(s.value, prim.IntImm):
            self.add(depth, self.expr(s.value))


def source_of(schedule: Schedule, inputs: Any, outputs: Any, name: str) -> str:
    """Return the schedule as the text of a hybrid script that takes ``inputs`` and returns ``outputs``."""
    from ..infer import Bounds
    from ..lower import Lowering

    ready = schedule.normalize()
    bounds = Bounds(ready)
    bounds.run()
    body = Lowering(ready, bounds).run()
    writer = _Writer()
    args = [writer.name(a, a.name) for a in inputs]
    writer.add(0, f"def {name}({', '.join(args)}):")
    for i, variable in ((i, d) for t in inputs if isinstance(t, Tensor) for i, d in enumerate(t.shape)):
        if isinstance(variable, Var) and variable not in writer.names:
            owner = next(t for t in inputs if isinstance(t, Tensor) and any(d is variable for d in t.shape))
            writer.add(1, f"{writer.name(variable, variable.name)} = {writer.names[owner]}.shape[{i}]")
    made: list[str] = []
    for tensor in outputs:
        current = ready[tensor].op.output(tensor.value_index)
        shape = ", ".join(writer.expr(d) for d in tensor.shape)
        made.append(writer.name(current, tensor.name))
        writer.add(1, f"{made[-1]} = output_tensor(({shape},), '{tensor.dtype}')")
    writer.stmt(body, 1)
    writer.add(1, f"return {', '.join(made)}")
    return "\n".join(writer.lines) + "\n"


_numbers = itertools.count()


class HybridModule:
    """A hybrid script stored as text. Called with tensors, it creates tensors; called with NumPy arrays, it runs as
    Python.

    Parameters
    ----------
    src : str, optional
        The source text; if it is missing, ``load`` reads one from a file.
    name : str, optional
        The name of the function.
    """

    def __init__(self, src: str | None = None, name: str | None = None):
        self.src, self.name = None, name
        self.func_: Any = None
        if src is not None:
            self._set(src)

    def _set(self, src: str) -> None:
        from . import script

        functions = [n for n in ast.parse(src).body if isinstance(n, ast.FunctionDef)]
        if len(functions) != 1:
            raise TVMError(f"a hybrid module must contain exactly one function; the text has {len(functions)}")
        self.src, self.name = src, self.name or functions[0].name
        # The parser reads the source of functions through ``linecache``.
        path = f"<hybrid {next(_numbers)}>"
        linecache.cache[path] = (len(src), None, src.splitlines(True), path)
        space: dict[str, Any] = {}
        exec(compile(src, path, "exec"), space)
        self.func_ = script(space[functions[0].name])

    def get_source(self) -> str:
        """The source text of the script.

        Returns
        -------
        str
            Empty if no script was given or loaded.
        """
        return self.src or ""

    def save(self, path: str) -> None:
        """Write the script to a file.

        Parameters
        ----------
        path : str
            The file; ".py" is appended if the name does not end with it.

        Raises
        ------
        TVMError
            The module contains no script.
        """
        if self.src is None:
            raise TVMError("this hybrid module is empty: there is nothing to save")
        with open(path if path.endswith(".py") else path + ".py", "w", encoding="utf-8") as f:
            f.write(self.src)

    def load(self, path: str) -> None:
        """Read the script from a file and compile it.

        Parameters
        ----------
        path : str
            The file.

        Raises
        ------
        TVMError
            The file does not contain exactly one function.
        """
        with open(path, encoding="utf-8") as f:
            self._set(f.read())

    def __call__(self, *args: Any):
        if self.func_ is None:
            raise TVMError("this hybrid module is empty: load a script first")
        return self.func_(*args)


def build(sch: Schedule, inputs: Any, outputs: Any, name: str = "hybrid_func") -> HybridModule:
    """The schedule as a hybrid script, for reading, saving or reuse.

    Parameters
    ----------
    sch : Schedule
        The schedule.
    inputs : list of Tensor
        The inputs of the script.
    outputs : list of Tensor
        The outputs of the script.
    name : str, optional
        The name of the function.

    Returns
    -------
    HybridModule
    """
    return HybridModule(source_of(sch, list(inputs), list(outputs), name), name)


__all__ = ["HybridModule", "build"]
