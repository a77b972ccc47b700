"""Converters of branches, loops and tensor arrays.

Control flow with constant conditions is resolved or unrolled. Other control flow becomes an ``If`` or a recursive
function. A tensor array is a list, whose indices must be compile-time constants.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.control import branched, repeated
from ..common.importer import ClosedScope
from .elementwise import as_bool
from .program import Block
from .table import Context, check_steps, op

# The maximum length of a tensor array, which a write beyond its end extends.
_MAX_ELEMENTS = 65_536


def _condition(ctx: Context, e: RelayExpr) -> RelayExpr:
    e = relay.reshape(e, ()) if ctx.rank(e) else e
    return ctx.made(as_bool(ctx, ctx.made(e)))


def _block(ctx: Context) -> Block:
    return ctx.importer.program.block(ctx.attr("sub_block", -1))


@op("conditional_block", "conditional_block_infer")
def conditional_block(ctx):
    """Convert a block that runs if a condition is true.

    Otherwise the variables that it writes keep their values. A variable without a previous value may only be read if
    the condition is true, so it is computed unconditionally.
    """
    given = ctx.tensors("Cond")
    if not ctx.attr("is_scalar_condition", False):
        raise TVMError("a conditional_block with is_scalar_condition=False is not supported")
    test = _condition(ctx, given[0])
    known = ctx.value(test)
    if known is not None and not known.reshape(-1)[0]:
        return {}
    names = [n for n in ctx.operator.outputs.get("Out", ()) if n]
    with ctx.importer.inner_scope() as scope:
        ctx.importer.block(_block(ctx))
    before = [_before(ctx, n) for n in names]
    after = [scope.get(n, old) for n, old in zip(names, before)]
    if known is None:
        both = [i for i, (new, old) in enumerate(zip(after, before)) if old is not None and new is not old]
        if any(not isinstance(v, RelayExpr) for i in both for v in (after[i], before[i])):
            raise TVMError(
                "a conditional block with a condition known only at run time writes a tensor array, which "
                "is not supported"
            )
        for i, v in zip(both, branched(ctx.importer, test, [after[i] for i in both], [before[i] for i in both])):
            after[i] = v
    ctx.importer.scopes[-1].update((n, v) for n, v in zip(names, after) if v is not None)
    return {}


def _before(ctx: Context, name: str):
    try:
        return ctx.importer.value(name, ctx.where)
    except TVMError:
        return None


@op("select_input")
def select_input(ctx):
    """Select one of the inputs by index. An input that was never computed is not selected."""
    mask = ctx.get("Mask")
    names = ctx.operator.inputs.get("X", [])
    known = ctx.value(mask)
    if known is not None:
        at = int(known.reshape(-1)[0])
        if not 0 <= at < len(names):
            raise TVMError(f"the mask selects input {at}, but there are {len(names)} inputs")
        return {"Out": [ctx.importer.value(names[at], ctx.where)]}
    values = [_before(ctx, n) for n in names]
    if len(values) != 2 or not all(isinstance(v, RelayExpr) for v in values):
        raise TVMError("select_input with a mask known only at run time supports exactly two tensors")
    test = _condition(ctx, mask)
    return branched(ctx.importer, test, [values[1]], [values[0]])[0]


@op("while")
def while_(ctx):
    block, importer = _block(ctx), ctx.importer
    condition = ctx.operator.inputs.get("Condition", [""])[0]
    written = list(dict.fromkeys(n for o in block.operators for n in o.writes() if n))
    states = {n: v for n in written if (v := _before(ctx, n)) is not None}
    if condition not in states:
        raise TVMError(f"the loop never changes its condition '{condition}'")
    steps = 0
    while True:
        known = ctx.value(_condition(ctx, states[condition]))
        if known is None:
            return _existing(ctx, _dynamic_loop(ctx, block, condition, states))
        if not known.reshape(-1)[0]:
            return _existing(ctx, states)
        check_steps("a loop", steps)
        with importer.inner_scope(dict(states)) as scope:
            importer.block(block)
        states = {n: scope[n] for n in states}
        steps += 1


def _existing(ctx: Context, states: dict) -> dict:
    ctx.importer.scopes[-1].update(states)
    return {}


def _dynamic_loop(ctx: Context, block: Block, condition: str, states: dict) -> dict:
    """Convert a loop with a number of iterations known only at run time.

    Outer tensors that it reads become loop variables.
    """
    importer = ctx.importer
    moving = [n for n, v in states.items() if isinstance(v, RelayExpr)]
    fixed = {n: v for n, v in states.items() if not isinstance(v, RelayExpr)}
    outer = [n for n in dict.fromkeys(n for o in block.operators for n in o.reads())
             if n and n not in states and isinstance(_before(ctx, n), RelayExpr)]  # fmt: skip
    names = moving + outer

    def step(variables):
        scope = ClosedScope()
        scope.update(zip(names, variables))
        scope.update(fixed)
        with importer.inner_scope(scope):
            importer.block(block)
        if scope.captured:
            raise TVMError(
                "a loop with a number of iterations known only at run time reads a value that is not a loop variable"
            )
        if any(scope[n] is not v for n, v in fixed.items()):
            raise TVMError(
                "a loop with a number of iterations known only at run time writes a tensor array, which is "
                "not supported"
            )
        going = importer.typer.infer(_condition(ctx, variables[names.index(condition)]))
        return going, [importer.typer.infer(scope[n]) for n in names]

    first = [importer.typer.infer(states[n] if n in states else importer.value(n, ctx.where)) for n in names]
    last = repeated(importer, f"while_{ctx.operator.name}", first, step)
    return {**dict(zip(moving, last)), **fixed}


# -- tensor arrays ----------------------------------------------------------------------------------------------------


def _array(ctx: Context, name: str) -> list:
    found = ctx.all(name)
    if not found or not isinstance(found[0], list):
        raise TVMError(f"the input '{name}' is not a tensor array")
    return found[0]


@op("write_to_array")
def write_to_array(ctx):
    at, x = ctx.number("", "I"), ctx.get("X")
    if not 0 <= at < _MAX_ELEMENTS:
        raise TVMError(f"cannot write index {at} of a tensor array; the maximum length is {_MAX_ELEMENTS}")
    name = ctx.operator.outputs["Out"][0]
    old = _before(ctx, name)
    new = list(old) if isinstance(old, list) else []
    new += [None] * (at + 1 - len(new))
    new[at] = x
    return {"Out": [new]}


@op("read_from_array")
def read_from_array(ctx):
    array, at = _array(ctx, "X"), ctx.number("", "I")
    if not 0 <= at < len(array) or array[at] is None:
        raise TVMError(f"cannot read index {at} of a tensor array of length {len(array)}: no value was written")
    return array[at]


@op("lod_array_length")
def lod_array_length(ctx):
    return const([len(_array(ctx, "X"))], "int64")


@op("tensor_array_to_tensor")
def tensor_array_to_tensor(ctx):
    array, axis = _array(ctx, "X"), ctx.attr("axis", 0)
    if not array or any(v is None for v in array):
        raise TVMError("a tensor array has elements that were never written")
    if ctx.attr("use_stack", False):
        out, sizes = relay.stack(array, axis), [1] * len(array)
    else:
        out = relay.concatenate(array, axis) if len(array) > 1 else array[0]
        sizes = [ctx.shape(v)[axis] for v in array]
    if not all(isinstance(s, int) for s in sizes):
        return {"Out": out}
    return {"Out": out, "OutIndex": const(sizes, "int32")}


@op("assign")
def assign(ctx):
    """Copy a tensor or a tensor array."""
    found = ctx.all("X")
    if not found:
        raise TVMError("the input 'X' is missing")
    return {"Out": [list(found[0]) if isinstance(found[0], list) else found[0]]}
