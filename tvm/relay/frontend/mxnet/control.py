"""Converters of loops and branches, whose bodies are subgraphs of the node.

The number of loop iterations is constant, so loops are unrolled. Data-dependent control flow becomes a select, so that
no virtual machine is needed.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.control import branched
from .elementwise import converted
from .graph import Graph
from .table import Context, check_steps, op


def called(ctx: Context, graph: Graph, arguments: list[RelayExpr]) -> list[RelayExpr]:
    """Convert a subgraph with the given arguments. Return its outputs."""
    if len(arguments) != len(graph.arguments):
        raise TVMError(f"a subgraph has {len(graph.arguments)} inputs, but {len(arguments)} arguments are given")
    values: list = [None] * len(graph.nodes)
    for place, value in zip(graph.arguments, arguments):
        values[place] = [value]
    heads = ctx.importer.evaluate(graph, values)
    return [ctx.importer.result(h, "a subgraph") for h in heads]


def _graphs(ctx: Context, count: int) -> list[Graph]:
    if len(ctx.node.graphs) != count:
        raise TVMError(f"expected {count} subgraphs, got {len(ctx.node.graphs)}")
    return ctx.node.graphs


def _at(inputs: list, places, what: str) -> list:
    if any(p is None or not 0 <= p < len(inputs) for p in places):
        raise TVMError(f"the attribute {what}={tuple(places)} is out of range for {len(inputs)} inputs")
    return [inputs[p] for p in places]


def _scalar(ctx: Context, e: RelayExpr) -> RelayExpr:
    """Convert a condition to a boolean scalar."""
    e = ctx.made(converted(ctx, e, "bool"))
    return ctx.made(relay.reshape(e, ())) if ctx.rank(e) else e


@op("_foreach", "num_outputs:int num_out_data:int in_state_locs:dims in_data_locs:dims remain_locs:dims")
def foreach(ctx, inputs, attrs):
    """Run the body for each row of the data. The outputs of all steps are stacked; the states are passed on."""
    (graph,) = _graphs(ctx, 1)
    data, states, rest = attrs.in_data_locs, attrs.in_state_locs, attrs.remain_locs
    places = [*data, *states, *rest]
    if sorted(places) != list(range(len(inputs))) or not data:
        raise TVMError(
            f"in_data_locs={data}, in_state_locs={states} and remain_locs={rest} are not a permutation of the inputs"
        )
    # The inputs are in this order; the attributes give their positions in the subgraph.
    steps = ctx.known_size(inputs[0], 0)
    if steps < 1:
        raise TVMError("a loop over an axis of size 0 is not supported")
    check_steps("a loop", steps)
    rows = [list(relay.split(x, steps, 0)) if steps > 1 else [x] for x in inputs[: len(data)]]
    carried = list(inputs[len(data) : len(data) + len(states)])
    outs: list[list] = [[] for _ in range(attrs.num_out_data)]
    for t in range(steps):
        given = [ctx.made(relay.squeeze(r[t], [0])) for r in rows]
        arguments: list = [None] * len(inputs)
        for place, value in zip(places, [*given, *carried, *inputs[len(data) + len(states) :]]):
            arguments[place] = value
        heads = called(ctx, graph, arguments)
        if len(heads) != attrs.num_outputs or len(heads) - len(outs) != len(states):
            raise TVMError(f"the loop body returns {len(heads)} values, but num_outputs is {attrs.num_outputs}")
        for kept, value in zip(outs, heads):
            kept.append(value)
        carried = heads[len(outs) :]
    return [*(_stacked(v) for v in outs), *carried]


def _stacked(rows: list) -> RelayExpr:
    return relay.stack(rows, 0) if len(rows) > 1 else relay.expand_dims(rows[0], 0)


@op(
    "_while_loop",
    "num_outputs:int num_out_data:int max_iterations:int cond_input_locs:dims func_input_locs:dims func_var_locs:dims",
)
def while_loop(ctx, inputs, attrs):
    """Run at most ``max_iterations`` steps.

    When the condition becomes false, the values are kept and further output rows are zero.
    """
    test, body = _graphs(ctx, 2)
    if attrs.max_iterations < 1:
        raise TVMError(f"the attribute max_iterations={attrs.max_iterations} must be positive")
    check_steps("a loop", attrs.max_iterations)
    carried = _at(list(attrs.func_input_locs), attrs.func_var_locs, "func_var_locs")
    values = list(inputs)
    outs: list[list] = [[] for _ in range(attrs.num_out_data)]
    alive = None
    for _ in range(attrs.max_iterations):
        (condition, *_more) = called(ctx, test, _at(values, attrs.cond_input_locs, "cond_input_locs"))
        condition = _scalar(ctx, condition)
        alive = condition if alive is None else ctx.made(relay.logical_and(alive, condition))
        heads = called(ctx, body, _at(values, attrs.func_input_locs, "func_input_locs"))
        if len(heads) != attrs.num_outputs or len(heads) != len(outs) + len(carried):
            raise TVMError(f"the loop body returns {len(heads)} values, but num_outputs is {attrs.num_outputs}")
        for kept, value in zip(outs, heads):
            kept.append(ctx.made(relay.where(alive, value, relay.zeros_like(value))))
        for place, value in zip(carried, heads[len(outs) :]):
            values[place] = ctx.made(relay.where(alive, value, values[place]))
    return [*(_stacked(v) for v in outs), *(values[p] for p in carried)]


@op("_cond", "num_outputs:int cond_input_locs:dims then_input_locs:dims else_input_locs:dims")
def cond(ctx, inputs, attrs):
    test, then, other = _graphs(ctx, 3)
    condition = _scalar(ctx, called(ctx, test, _at(inputs, attrs.cond_input_locs, "cond_input_locs"))[0])
    known = ctx.value(condition)
    yes, no = (
        lambda g=g, places=places, what=what: called(ctx, g, _at(inputs, places, what))
        for g, places, what in (
            (then, attrs.then_input_locs, "then_input_locs"),
            (other, attrs.else_input_locs, "else_input_locs"),
        )
    )
    if known is not None:
        return yes() if known.reshape(-1)[0] else no()
    sides = yes(), no()
    if len(sides[0]) != len(sides[1]):
        raise TVMError(f"the branches return {len(sides[0])} and {len(sides[1])} values; the numbers must be equal")
    if all(ctx.type(a) == ctx.type(b) for a, b in zip(*sides)):
        return [relay.where(condition, a, b) for a, b in zip(*sides)]
    return branched(ctx.importer, condition, *sides)
