"""Loop-invariant code motion for loops written as recursive functions.

A loop is a function that ends with a call of itself. Parameters that this call passes on unchanged are invariant, and
so are values computed only from them. A matmul of one row of an invariant sequence, ``take(x, i) . w``, is a row of ``x
. w``. The pass computes ``x . w`` before the loop, so that the weight is read once instead of in each step. It does so
only if the shapes prove that the sequence has at most as many rows as the loop has steps.

The function keeps its name and becomes the code before the steps. If there is at least one step, it computes the
hoisted values and calls the loop. A loop without steps therefore computes nothing and raises no errors."""

from __future__ import annotations

from typing import NamedTuple

from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.prim import IntImm
from ...ir.tensor_type import TensorType
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.visit import post_order, rewrite
from ..checked_type import typed_var
from ..expr import Call, Constant, Function, If, RelayExpr, Tuple, TupleGetItem, Var
from ..infer import infer_module
from ..op import transform
from ..op.record import COMM_REDUCE, ROWS, pattern_of
from ..scopes import Block, Placement, operands
from ..size_values import SizeValues, plain, same_size
from ..substitute import free_vars
from ..symbolic import named_sizes
from .eliminate_common_subexpr import has_effect
from .function_pass import is_call, type_of, typed_module
from .inline import fresh
from .plan_devices import is_placed
from .sink_reshape import is_shape_free


class Row(NamedTuple):
    """A value computed from one row of a sequence.

    ``taken`` is the call that takes the row, ``rows`` computes the same value for all rows as a matrix, and
    ``is_product`` is True if the computation contains a matmul."""

    taken: Call
    rows: RelayExpr
    is_product: bool


class Loop:
    """A function whose body is ``if (test) {...; itself(...)} else {...}``, with its loop-invariant values.

    ``fixed`` maps the ids of invariant expressions to whether hoisting them is worthwhile. ``rows`` contains the values
    that are computed from one row of an invariant sequence."""

    def __init__(self, function: Function, again: Call):
        self.function, self.again = function, again
        self.invariant = [p for p, a in zip(function.params, again.args) if p is a]
        self.fixed: dict[int, bool] = {id(p): False for p in self.invariant}
        self.rows: dict[int, Row] = {}
        top = Block(None)
        places = Placement(function.body, top)
        step = places.inner[id(function.body)][0]
        self.is_tail = places.home[id(again)] is step
        for e in places.order:
            # Only expressions outside branches are evaluated in each step.
            if places.home[id(e)] in (top, step):
                self._look_at(e)

    def _look_at(self, e: RelayExpr) -> None:
        parts = [p for p in operands(e) if not isinstance(p, Op)]
        if isinstance(e, Constant):
            self.fixed[id(e)] = False
        elif isinstance(e, Call) and (not isinstance(e.op, Op) or has_effect(e.op)):
            return
        elif isinstance(e, (Call, Tuple, TupleGetItem)) and all(id(p) in self.fixed for p in parts):
            self.fixed[id(e)] = any(self.fixed[id(p)] for p in parts) or _sums(e) and bool(free_vars(e))
        elif isinstance(e, Call):
            row = self._taken(e) if is_call(e, "take") else self._follows(e)
            if row is not None:
                self.rows[id(e)] = row

    def _follows(self, e: Call) -> Row | None:
        """Return the row value of a call on a row value and on invariant operands that are equal for all rows; else
        None."""
        given = [self.rows[id(a)] for a in e.args if id(a) in self.rows]
        others = [a for a in e.args if id(a) not in self.rows]
        if len(given) != 1 or any(id(o) not in self.fixed for o in others):
            return None
        is_product = is_call(e, "nn.dense") and id(e.args[0]) in self.rows
        if not is_product and (not is_shape_free(e) or any(o.checked_type_.shape[1:] for o in others)):
            return None
        args = tuple(given[0].rows if id(a) in self.rows else a for a in e.args)
        return Row(given[0].taken, Call(e.op, args, e.attrs, (), e.span), given[0].is_product or is_product)

    def _taken(self, e: Call) -> Row | None:
        """Return the row value of a ``take`` from an invariant parameter of rank 3 or more, not along the last axis;
        else None."""
        data, index = e.args
        shape, axis = data.checked_type_.shape, e.attrs.axis
        if data not in self.invariant or axis is None or e.attrs.batch_dims or index.checked_type_.shape:
            return None
        wide = shape[-1]
        if len(shape) < 3 or axis % len(shape) == len(shape) - 1 or not isinstance(wide, IntImm) or not wide.value:
            return None
        return Row(e, transform.reshape(data, (-1, wide.value)), False)

    def count(self) -> tuple[int, int] | None:
        """Return the indices of the parameters for the loop counter and its bound, if the counter alone ends the
        loop."""
        params, again = self.function.params, self.again
        test = self.function.body.cond
        later = isinstance(test, Var) and test in params
        test = again.args[params.index(test)] if later else test
        if not is_call(test, "less") or test.args[1] not in self.invariant:
            return None
        for i, (p, following) in enumerate(zip(params, again.args)):
            counts = is_call(following, "add") and following.args[0] is p and _is_number(following.args[1], 1)
            if counts and test.args[0] is (following if later else p):
                return i, params.index(test.args[1])
        return None


def _sums(e: RelayExpr) -> bool:
    """Return whether an expression is a reduction over floats, which costs more than one operation for each output
    element.

    Integers are usually shapes, whose values are more useful at their use."""
    if not isinstance(e, Call) or not COMM_REDUCE <= pattern_of(e.op) <= ROWS:
        return False
    return isinstance(e.checked_type_, TensorType) and e.checked_type_.dtype.startswith("float")


def _is_number(e: RelayExpr, value: int) -> bool:
    return isinstance(e, Constant) and e.data.shape == () and e.data.numpy() == value


class Hoisting:
    """Hoists values out of the loops of a module, one loop at a time."""

    def __init__(self, mod: IRModule):
        self.mod = mod

    def run(self) -> IRModule:
        for var, function in list(self.mod.functions.items()):
            loop = _loop(var.name_hint, function) if isinstance(function, Function) else None
            if loop is not None:
                self._hoist(var, loop)
        return self.mod

    def _hoist(self, var: GlobalVar, loop: Loop) -> None:
        """Hoist the invariant values of a loop. Each gets a variable in the steps; a row value becomes a row of its
        variable."""
        consumed = self._consumed(var.name_hint, loop)
        found: dict[int, tuple[RelayExpr, Row | None]] = {}

        def parts(e: RelayExpr) -> list:
            row = loop.rows.get(id(e))
            if row is not None and row.is_product and (row.taken.args[0], row.taken.attrs.axis) in consumed:
                found[id(e)] = (e, row)
            elif loop.fixed.get(id(e)) and isinstance(e.checked_type_, TensorType):
                found[id(e)] = (e, None)
            return [] if id(e) in found else operands(e)

        for _ in post_order(loop.again, operands=parts):
            pass
        before = [e if row is None else _all_rows(row) for e, row in found.values()]
        inside = [typed_var(f"hoisted{i}", type_of(e, self.mod)) for i, e in enumerate(before)]
        table = {
            key: v if row is None else Call(row.taken.op, (v, row.taken.args[1]), row.taken.attrs, (), e.span)
            for (key, (e, row)), v in zip(found.items(), inside)
        }
        if found:
            self._write(var, loop, before, inside, table)

    def _write(
        self, var: GlobalVar, loop: Loop, before: list[RelayExpr], inside: list[Var], table: dict[int, RelayExpr]
    ) -> None:
        """Split the loop into a function for the code before the steps, and a new function for the steps."""
        old = loop.function
        test, _, end = old.body.children()
        varying = [a for p, a in zip(old.params, loop.again.args) if p is not a]
        # One rewrite for all expressions, so that shared expressions stay shared.
        rewritten = rewrite(Tuple([test, end, *varying]), pre=lambda e: table.get(id(e)))
        inner_test, inner_end, *varying = rewritten.fields
        needed = free_vars(rewritten)
        kept = [p for p in old.params if p not in loop.invariant or p in needed]
        following = iter(varying)
        again = [p if p in loop.invariant else next(following) for p in kept]
        name = f"{var.name_hint}_steps"
        while name in self.mod:
            name += "_"
        steps = GlobalVar(name)

        def made(params: list, test: RelayExpr, arguments: list, end: RelayExpr) -> Function:
            body = If(test, Call(steps, tuple(arguments), None, (), loop.again.span), end, old.body.span)
            return fresh(Function(params, body, old.ret_type, old.type_params, old.attrs, old.span))

        new = self.mod.clone()
        new[steps] = made([*kept, *inside], inner_test, [*again, *inside], inner_end)
        new[var] = made(list(old.params), test, [*kept, *before], end)
        self.mod = infer_module(new)

    def _consumed(self, name: str, loop: Loop) -> set[tuple[Var, int]]:
        """Return the sequences and axes that have at most as many rows as the loop has steps, whenever it has a
        step."""
        counted = loop.count()
        wanted = {(row.taken.args[0], row.taken.attrs.axis) for row in loop.rows.values() if row.is_product}
        calls = _calls(name, self.mod) if counted is not None and wanted else None
        if counted is None or calls is None:
            return set()
        step, count = counted
        values = SizeValues()
        for call in calls:
            number = values.of(call.args[count])
            if number is None or not _is_number(call.args[step], 0):
                return set()
            for x, axis in list(wanted):
                t = call.args[loop.function.params.index(x)].checked_type_
                if not isinstance(t, TensorType) or not same_size(number.item(), plain(t.shape[axis])):
                    wanted.remove((x, axis))
        return wanted


def _all_rows(row: Row) -> RelayExpr:
    """Return a row value computed for all rows, in the shape of the sequence."""
    data = row.taken.args[0]
    return transform.reshape_like(row.rows, data, 0, 1, 0, len(data.checked_type_.shape) - 1)


def _loop(name: str, function: Function) -> Loop | None:
    """Return the loop that a function implements; None if it is not a loop."""
    body = function.body
    if type(body) is not If or type(body.true_branch) is not Call or function.type_params or is_placed(function):
        return None
    if _uses(name, body) != [body.true_branch.op]:
        return None
    loop = Loop(function, body.true_branch)
    return loop if loop.is_tail else None


def _uses(name: str, e: RelayExpr) -> list[GlobalVar]:
    """Return all references to a function in an expression, as a callee or as a value."""
    parts = (part for node in post_order(e) for part in node.children())
    return [part for part in parts if isinstance(part, GlobalVar) and part.name_hint == name]


def _calls(name: str, mod: IRModule) -> list[Call] | None:
    """Return the calls of a function in other functions, with symbolic dimensions; None if there may be further
    calls."""
    if name == "main" or "main" not in mod:
        return None
    callers = [f for v, f in mod.functions.items() if v.name_hint != name and isinstance(f, Function)]
    callers = [f for f in callers if _uses(name, f)]
    nodes = [n for f in callers for n in post_order(named_sizes(f, mod, typed=True)) if type(n) is Call]
    found = [n for n in nodes if type(n.op) is GlobalVar and n.op.name_hint == name]
    return found if len(found) == sum(len(_uses(name, f)) for f in callers) else None


def HoistLoops() -> ModulePass:
    """Hoist loop-invariant values out of loops, and matmuls of the rows of an invariant sequence."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return Hoisting(typed_module(mod)).run()

    return ModulePass(run, PassInfo(2, "HoistLoops", ["InferType"]))


__all__ = ["HoistLoops"]
