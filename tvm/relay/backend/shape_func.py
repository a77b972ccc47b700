"""Shape functions, which compute the output shapes of a kernel on the host before the kernel runs.

The type relations of operators define the output dimensions as expressions over the input dimensions
(``relay.symbolic``). A shape function first checks the assumptions of the operators on the dimensions and then
evaluates these expressions. For data-dependent shapes (``dyn.reshape``, ``arange``), the entry ``dynamic_shape`` of the
operator record defines from which input values the shape is computed, and how. Users define it with
``relay.op.register_shape_func``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ... import te
from ...driver.build_module import lower, schedule_to_module
from ...error import TVMError
from ...ir import primop
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim import Any_, BufferLoad, IntImm, PrimExpr, StringImm, const
from ...ir.prim import Var as PrimVar
from ...ir.span import source_text
from ...ir.subst import variables
from ...ir.tensor_type import TensorType
from ...ir.visit import post_order
from ...target import Target
from ...te.tensor import Tensor
from ...tir.buffer import Buffer, decl_buffer
from ...tir.function import PrimFunc
from ...tir.stmt import AssertStmt, BufferStore, LetStmt, Stmt, no_op, seq
from ...topi.assumptions import Assumption, noted, of_operator
from ...topi.utils import simplify
from ..expr import Call, Constant, Function, RelayExpr, Tuple, Var
from ..op.record import DynamicShape, dynamic_shape
from ..symbolic import Symbolic, flatten_type, has_dynamic_dims, primitive_form
from .te_compiler import ToTensors

# The maximum length of a condition that is included in a message, in characters.
LONGEST = 60
# Integer literals in the text of conditions, all of which have type int64.
_INT64 = re.compile(r"T\.int64\((-?\d+)\)")
# The input of a shape function for a parameter: none, its shape (a vector of int64), or the tensor itself.
NOTHING, SHAPE, VALUE = "nothing", "shape", "value"


class ShapeFunction(NamedTuple):
    """A shape function for the host.

    ``inputs`` contains for each tensor of the kernel's parameters what is passed: its shape, its value or nothing. The
    outputs follow: one int64 vector for each output of the kernel, with ``ranks`` elements. ``checks`` is True if the
    function can reject shapes. ``assumes`` are the conditions that it checks beyond the parameter types; they refer to
    dimensions in ``types``, the types of the tensors.
    """

    name: str
    function: PrimFunc
    inputs: tuple[str, ...]
    ranks: tuple[int, ...]
    checks: bool = False
    assumes: tuple[PrimExpr, ...] = ()
    types: tuple[TensorType, ...] = ()

    @property
    def module(self) -> IRModule:
        """The lowered function, computed on access: most shape functions are never called."""
        return lower(self.function, name=self.name)


def needs_shape_function(function: Function) -> bool:
    """Return whether the output shapes of a kernel, or its assumptions on dimensions, are known only at run time."""
    found = [p.checked_type_ or p.type_annotation for p in function.params]
    return has_dynamic_dims(function.body.checked_type_) or any(has_dynamic_dims(t) for t in found)


def shape_function(function: Function, name: str) -> ShapeFunction:
    """Return the shape function of a fused function.

    Parameters
    ----------
    function : Function
        The fused function, typed.
    name : str
        The name of the shape function in its module.

    Returns
    -------
    ShapeFunction

    Raises
    ------
    TVMError
        An output dimension cannot be computed from the inputs of the function.
    """
    symbolic = _with_computations(primitive_form(function))
    call = _deciding_call(symbolic.function)
    if call is not None and "FShapeFunc" in call.op.attrs:
        return _by_users_function(symbolic.function, call, name)
    return _Writer(symbolic, call, name).made()


def entry_function(symbolic: Symbolic, shapes: list[list[PrimExpr]], name: str) -> ShapeFunction:
    """Return the shape function of a function of several kernels.

    It rejects parameters whose shapes contradict their types or the assumptions of type relations, and computes the
    given shapes.

    Parameters
    ----------
    symbolic : Symbolic
        The function, whose dynamic dimensions are variables.
    shapes : list of list of PrimExpr
        The shapes to compute, as expressions over the dimensions of the parameters.
    name : str
        The name of the shape function in its module.

    Returns
    -------
    ShapeFunction
    """
    return _Writer(symbolic, None, name, shapes).made()


def _with_computations(symbolic: Symbolic) -> Symbolic:
    """Add the assumptions of the computations, which may be stricter than those of the type relations."""
    with noted() as found:
        ToTensors(symbolic.function, Target("llvm"), plain=True)
    known = {v for p in symbolic.function.params for t in flatten_type(p.checked_type_) for d in t.shape
             for v in variables(d)}  # fmt: skip
    own = {str(a.condition) for a in symbolic.assumptions}
    more = [a for a in found if all(v in known for v in variables(a.condition)) and str(a.condition) not in own]
    return symbolic._replace(assumptions=(*symbolic.assumptions, *{str(a.condition): a for a in more}.values()))


def _deciding_call(function: Function) -> Call | None:
    """Return the operator with its own shape function, which must be the only operator of its function; None if there
    is none."""
    calls = [n for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, Op)]
    found = [n for n in calls if dynamic_shape(n) is not None or "FShapeFunc" in n.op.attrs]
    if found and len(calls) > 1:
        raise TVMError(f"operator {found[0].op.name} has its own shape function and must be a separate kernel, but "
                       f"this kernel has {len(calls)} operators")  # fmt: skip
    return found[0] if found else None


class _Parameter(NamedTuple):
    """A tensor among the parameters of a function."""

    var: Var
    type: TensorType
    mode: str
    buffer: Buffer


def _parameters(function: Function, is_value: Callable[[Var], bool], learned: set[int]) -> list[_Parameter]:
    """Return the tensors of the parameters.

    ``learned`` contains the indices of tensors whose type was refined by the operators that read them.
    """
    found: list[_Parameter] = []
    for var in function.params:
        for t in flatten_type(var.checked_type_ or var.type_annotation):
            looked_at = has_dynamic_dims(t) or len(found) in learned
            mode = VALUE if is_value(var) else SHAPE if looked_at else NOTHING
            shape = [_wide(d) for d in t.shape] if mode == VALUE else [const(len(t.shape), "int64")]
            buffer = decl_buffer(shape, t.dtype if mode == VALUE else "int64", f"{mode}_{len(found)}")
            found.append(_Parameter(var, t, mode, buffer))
    return found


def _wide(d: PrimExpr) -> PrimExpr:
    return const(d.value, "int64") if isinstance(d, IntImm) else primop.cast("int64", d)


class _Writer:
    """Writes a shape function as a sequence of statements: dimensions, checks, outputs."""

    def __init__(
        self, symbolic: Symbolic, call: Call | None, name: str, shapes: list[list[PrimExpr]] | None = None
    ):  # fmt: skip
        self.function, self.call, self.name = symbolic.function, call, name
        decided = dynamic_shape(call) if call is not None else None
        wanted = [] if decided is None else [call.args[i] for i in decided.values]
        learned = {number for number, _ in symbolic.reasons}
        self.parameters = _parameters(self.function, lambda var: any(var is w for w in wanted), learned)
        self.values: dict[PrimVar, PrimExpr] = {}
        self.bound = {d for p in self.parameters if p.mode == VALUE for d in p.buffer.shape if isinstance(d, PrimVar)}
        self.checks: list[Assumption] = list(symbolic.assumptions)
        self.of_types: list[Assumption] = []
        for number, p in enumerate(self.parameters):
            if p.mode == SHAPE:
                self.bind(p, number, symbolic.reasons)
        if shapes is None:
            shapes = self.result_shapes() if decided is None else self.decided_shapes(decided)
        self.shapes = shapes

    def bind(self, p: _Parameter, number: int, reasons: dict[tuple[int, int], str]) -> None:
        """Bind the dimensions of a parameter: the first occurrence of a variable defines its value, others are
        compared."""
        for place, d in enumerate(p.type.shape):
            given = BufferLoad(p.buffer, (const(place, "int64"),))
            if isinstance(d, PrimVar) and d not in self.bound:
                self.bound.add(d)
                self.values[d] = given
            else:
                what = reasons.get((number, place), f"argument {number} of {self.name}{self.origin()}, size {place}")
                self.of_types.append(Assumption(primop.equal(given, _wide(d)), what))

    def origin(self) -> str:
        """Return a message suffix with the operator and the model node that the function computes."""
        body = self.function.body
        named = isinstance(body, Call) and isinstance(body.op, Op) and body.span is not None
        return f" ({body.op.name} of '{source_text(body.span)}')" if named else ""

    def result_shapes(self) -> list[list[PrimExpr]]:
        shapes = [list(t.shape) for t in flatten_type(self.function.body.checked_type_)]
        for d in (d for shape in shapes for d in shape):
            if isinstance(d, Any_) or any(v not in self.bound for v in variables(d)):
                raise TVMError(f"{self.name}: output dimension {d} cannot be computed from the input shapes")
        return shapes

    def decided_shapes(self, decided: DynamicShape) -> list[list[PrimExpr]]:
        call = self.call
        types = [a.checked_type_ for a in call.args]
        values = {i: self.reader(call.args[i]) for i in decided.values}
        with noted() as found, of_operator(call.op.name):
            shapes = decided.rule(call.attrs, types, values)
        self.checks += found
        return [[primop.cast("int64", d) for d in shape] for shape in shapes]

    def reader(self, arg: RelayExpr) -> Callable[..., PrimExpr]:
        """Return a function ``(*indices) -> element`` that reads an input whose value determines the shape."""
        if isinstance(arg, Constant):
            data = arg.data.numpy()
            return lambda *at: const(data[at].item(), arg.data.dtype)
        buffer = next(p.buffer for p in self.parameters if p.var is arg)
        return lambda *at: BufferLoad(buffer, tuple(const(i, "int64") for i in at))

    def made(self) -> ShapeFunction:
        outputs = [decl_buffer([const(len(s), "int64")], "int64", f"result_{i}") for i, s in enumerate(self.shapes)]
        stores = [BufferStore(out, simplify(primop.cast("int64", d)), (const(i, "int64"),))
                  for out, shape in zip(outputs, self.shapes) for i, d in enumerate(shape)]  # fmt: skip
        body: Stmt = seq(*stores) if stores else no_op()
        for check in reversed([*self.of_types, *self.checks]):
            condition = _INT64.sub(r"\1", str(check.condition))
            shown = condition if len(condition) <= LONGEST else "the condition"
            text = check.what if check.is_message else f"{check.what}: {shown} does not hold for the sizes given"
            body = AssertStmt(check.condition, StringImm(text), body)
        for var, value in reversed(self.values.items()):
            body = LetStmt(var, value, body)
        buffers = [p.buffer for p in self.parameters if p.mode != NOTHING] + outputs
        made = _function(self.name, buffers, body, self.parameters, [len(s) for s in self.shapes])
        types = tuple(p.type for p in self.parameters)
        assumes = tuple(c.condition for c in self.checks)
        return made._replace(checks=bool(self.of_types or self.checks), assumes=assumes, types=types)


def _function(
    name: str, buffers: Sequence[Buffer], body: Stmt, parameters: Sequence[_Parameter], ranks: Sequence[int]
) -> ShapeFunction:
    handles = [PrimVar(f"{b.name}_handle", "handle") for b in buffers]
    func = PrimFunc(handles, body, None, dict(zip(handles, buffers)), {"global_symbol": name, "tir.noalias": True})
    return ShapeFunction(name, func, tuple(p.mode for p in parameters), tuple(ranks))


def _by_users_function(function: Function, call: Call, name: str) -> ShapeFunction:
    """Return a shape function from a user-defined TE function ``(attrs, inputs, out_ndims) -> shapes``."""
    said = call.op.attrs.get("TShapeDataDependent", False)
    dependent = list(said) if isinstance(said, (list, tuple)) else [bool(said)] * len(call.args)
    values = [a for a, by_value in zip(call.args, dependent) if by_value]
    placed: dict[Var, list[Tensor]] = {}
    inputs: list[Tensor] = []
    modes: list[str] = []
    for var in function.params:
        by_value = any(var is v for v in values)
        for t in flatten_type(var.checked_type_):
            shape, dtype = ([_wide(d) for d in t.shape], t.dtype) if by_value else ((len(t.shape),), "int64")
            placed.setdefault(var, []).append(te.placeholder(shape, dtype, f"input_{len(inputs)}"))
            inputs.append(placed[var][-1])
            modes.append(VALUE if by_value else SHAPE)
    results = flatten_type(call.checked_type_)
    ranks = [len(t.shape) for t in results]
    given = [x for a in call.args for x in _given(a, placed)]
    made = call.op.attrs["FShapeFunc"](call.attrs, given, [const(r, "int32") for r in ranks])
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    schedule = te.create_schedule([t.op for t in made])
    function = schedule_to_module(schedule, inputs + made, name)[name]
    return ShapeFunction(name, function, tuple(modes), tuple(ranks))


def _given(arg: RelayExpr, placed: dict[Var, list[Tensor]]) -> list[Tensor]:
    if isinstance(arg, Tuple):
        return [x for f in arg.fields for x in _given(f, placed)]
    if isinstance(arg, Constant):
        value = const(arg.data.numpy().item(), arg.data.dtype)
        return [te.compute((), lambda: value, name="constant")]
    return placed[arg]


__all__ = ["NOTHING", "SHAPE", "VALUE", "ShapeFunction", "entry_function", "needs_shape_function", "shape_function"]
