"""Converters of control flow and variables.

Branches and loops with constant conditions are inlined or unrolled; all others are decided at run time.
"""

from __future__ import annotations

from typing import NamedTuple

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.control import branched, repeated
from .table import Context, op, quantized

# Maximum number of operators of an unrolled loop.
MOST_WRITTEN = 4096


class Resource(NamedTuple):
    """The handle of a variable."""

    container: str
    name: str


def _either(*names: str):
    """Register a converter, like ``op``, that is also used for quantized tensors without dequantizing them."""

    def add(function):
        return quantized(*names)(op(*names)(function))

    return add


def _condition(ctx: Context, value: RelayExpr) -> RelayExpr:
    """Return a tensor of one element as a scalar."""
    value = relay.reshape(value, ()) if ctx.rank(value) else value
    return ctx.made(value if ctx.dtype(value) == "bool" else relay.cast(value, "bool"))


@_either("IF")
def if_(ctx, inputs, options):
    importer, rest = ctx.importer, inputs[1:]
    known = ctx.value(inputs[0])
    if known is not None:
        chosen = options.then_subgraph_index if known.reshape(-1)[0] else options.else_subgraph_index
        return importer.call(chosen, rest)
    before = dict(importer.variables)
    yes = importer.call(options.then_subgraph_index, rest)
    written = importer.variables
    importer.variables = dict(before)
    no = importer.call(options.else_subgraph_index, rest)
    if _handles(yes) != _handles(no):
        raise TVMError(f"the branches have {len(yes)} and {len(no)} outputs, or assign different variables")
    # Variables that only one of the branches initializes stay uninitialized after it.
    keys = [k for k in written if k in importer.variables]
    sides = ([*yes, *(written[k] for k in keys)], [*no, *(importer.variables[k] for k in keys)])
    results = _with_handles(sides[0], branched(importer, _condition(ctx, inputs[0]), *map(_tensors, sides)))
    importer.variables = dict(zip(keys, results[len(yes) :]))
    return results[: len(yes)]


def _tensors(values: list) -> list[RelayExpr]:
    return [v for v in values if not isinstance(v, Resource)]


def _handles(values: list) -> list[Resource | None]:
    return [v if isinstance(v, Resource) else None for v in values]


def _with_handles(like: list, tensors: list) -> list:
    """Return a list in which the handles of ``like`` are kept and ``tensors`` replace its other elements."""
    found = iter(tensors)
    return [v if isinstance(v, Resource) else next(found) for v in like]


@_either("WHILE")
def while_(ctx, inputs, options):
    importer = ctx.importer
    before = dict(importer.variables)
    written = _written_out(ctx, inputs, options)
    if written is not None:
        return written
    importer.variables = dict(before)
    keys = list(before)

    def step(variables: list) -> tuple[RelayExpr, list]:
        states = _with_handles(inputs, variables[: len(variables) - len(keys)])
        importer.variables = dict(zip(keys, variables[len(variables) - len(keys) :]))
        (going,) = importer.call(options.cond_subgraph_index, states)
        after = importer.call(options.body_subgraph_index, states)
        if _handles(after) != _handles(states):
            raise TVMError(
                f"the body has {len(after)} outputs for {len(states)} loop-carried values, or initializes a new "
                "variable"
            )
        return _condition(ctx, going), [*_tensors(after), *(importer.variables[k] for k in keys)]

    carried = [*_tensors(inputs), *before.values()]
    last = repeated(importer, f"loop_{importer.node_name(ctx.node)}", carried, step)
    importer.variables = dict(zip(keys, last[len(last) - len(keys) :]))
    return _with_handles(inputs, last[: len(last) - len(keys)])


def _written_out(ctx: Context, states: list, options) -> list | None:
    """Return the outputs of the unrolled loop; None if the trip count is not a constant, or is too large."""
    importer = ctx.importer
    budget = importer.budget - MOST_WRITTEN
    while importer.budget > budget:
        (going,) = importer.call(options.cond_subgraph_index, states)
        known = ctx.value(going)
        if known is None:
            return None
        if not known.reshape(-1)[0]:
            return states
        states = importer.call(options.body_subgraph_index, states)
    return None


# -- variables --------------------------------------------------------------------------------------------------------


@op("CALL_ONCE")
def call_once(ctx, inputs, options):
    """Convert the initialization of variables in the first run to their initial values."""
    importer = ctx.importer
    if len(importer.active) > 1:
        raise TVMError("it is supported only in the main graph of the model")
    before = importer.variables
    importer.variables = {}
    importer.call(options.init_subgraph_index, [])
    first, importer.variables = importer.variables, before
    for key, value in first.items():
        if isinstance(key, Resource) and key not in before:
            importer.add_state(key, key.name, ctx.array(value, f"the initial value of variable '{key.name}'"))
    return []


@op("VAR_HANDLE")
def var_handle(ctx, inputs, options):
    return Resource(options.container or "", options.shared_name or "")


def _variable(inputs: list) -> Resource:
    if not inputs or not isinstance(inputs[0], Resource):
        raise TVMError("input 0 is not a variable")
    return inputs[0]


@_either("READ_VARIABLE")
def read_variable(ctx, inputs, options):
    key = _variable(inputs)
    if key not in ctx.importer.variables:
        raise TVMError(f"variable '{key.name}' is read before it is initialized")
    return ctx.importer.variables[key]


@_either("ASSIGN_VARIABLE")
def assign_variable(ctx, inputs, options):
    ctx.importer.variables[_variable(inputs)] = inputs[1]
    return []


__all__ = ["Resource"]
