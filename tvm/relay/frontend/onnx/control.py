"""Converters of control flow: decided at compile time where the condition or trip count is constant, else at
run time.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ...op.dynamic import checked
from ...size_values import plain, same_size
from ..common import run_time
from .check import MOST_NODES, all_nodes
from .loops import Step, chosen, repeated, scalar
from .table import MOST_STEPS, argument, axis_of, check_steps, op


@op("If")
def if_(ctx, inputs, attrs):
    """Convert only the chosen branch if the condition is constant; otherwise compile both branches."""
    importer = ctx.importer
    known = ctx.value(inputs[0])
    if known is not None:
        return importer.subgraph(attrs["then_branch" if known.reshape(-1)[0] else "else_branch"], [])
    try:
        yes = importer.subgraph(attrs["then_branch"], [])
        no = importer.subgraph(attrs["else_branch"], [])
    except TVMError as problem:
        raise TVMError(
            f"the condition is computed at run time, so both branches are compiled; one of them cannot be: {problem}"
        ) from problem
    return chosen(ctx, scalar(ctx, inputs[0], "bool"), yes, no)


# -- Loop -----------------------------------------------------------------------------------------------------------


@op("Loop")
def loop(ctx, inputs, attrs):
    count, going = argument(inputs, 0), argument(inputs, 1)
    states = list(inputs[2:])
    collects = len(attrs["body"].output) - 1 - len(states)
    if collects < 0:
        raise TVMError(f"the body has {len(attrs['body'].output)} outputs for {len(states)} loop-carried values")
    known = ctx.value(count)
    if count is None or known is not None:
        limit = None if known is None else int(known.reshape(-1)[0])
        written = _unrolled(ctx, attrs["body"], limit, going, states, collects)
        if written is not None:
            return written
    last, rows = repeated(
        ctx,
        None if count is None else scalar(ctx, count, "int64"),
        None if going is None else scalar(ctx, going, "bool"),
        states,
        lambda number, values: _body_step(ctx, attrs["body"], number, values),
    )
    return [*last, *rows]


def _body_step(ctx, body, number, states: list) -> Step:
    """Convert the body of the loop for one iteration."""
    results = ctx.importer.subgraph(body, [number, const(True, "bool"), *states])
    going = scalar(ctx, results[0], "bool")
    return Step(going, results[1 : 1 + len(states)], results[1 + len(states) :])


def _unrolled(ctx, body, limit: int | None, going, states: list, collects: int):
    """Return the outputs of the unrolled loop; None if the trip count is not a constant, or is too large."""
    if limit is not None and limit * len(all_nodes(body)) > MOST_NODES:
        return None
    scans: list[list] = [[] for _ in range(collects)]
    step = 0
    while limit is None or step < limit:
        if going is not None:
            test = ctx.value(going)
            if test is None:
                return None
            if not test.reshape(-1)[0]:
                break
        if step >= MOST_STEPS:
            return None
        results = ctx.importer.subgraph(body, [const(step, "int64"), const(True, "bool"), *states])
        going, states, rows = results[0], results[1 : 1 + len(states)], results[1 + len(states) :]
        for scan, row in zip(scans, rows):
            scan.append(row)
        step += 1
    # For a loop without iterations, only the body determines the shapes of the collected outputs.
    return [*states, *(relay.stack(s, 0) for s in scans)] if step or not collects else None


# -- Scan -----------------------------------------------------------------------------------------------------------


@op("Scan")
def scan_8(ctx, inputs, attrs):
    """Convert version 8 of Scan, where axis 0 is a batch dimension: each batch element is scanned separately."""
    lengths, rest = inputs[0], inputs[1:]
    if lengths is not None:
        raise TVMError("the input sequence_lens is not supported")
    batch = ctx.known_size(rest[0], 0)
    m = attrs["num_scan_inputs"]
    check_steps("a batch", batch)
    if not 1 <= m <= len(rest):
        raise TVMError(f"num_scan_inputs is {m}, but the node has {len(rest)} inputs")
    rules = {"body": attrs["body"], "num_scan_inputs": m, "scan_input_directions": attrs.get("directions", [0] * m)}
    each = []
    for b in range(batch):
        each.append(scan(ctx, [ctx.importer.typer.infer(relay.take(x, const(b, "int64"), 0)) for x in rest], rules))
    return [relay.stack(list(parts), 0) for parts in zip(*each)]


@op("Scan", since=9)
def scan(ctx, inputs, attrs):
    body, m = attrs["body"], attrs["num_scan_inputs"]
    if not 1 <= m <= len(inputs):
        raise TVMError(f"num_scan_inputs is {m}, but the node has {len(inputs)} inputs")
    states, sequences = list(inputs[: len(inputs) - m]), list(inputs[len(inputs) - m :])
    axes = [axis_of(a, ctx.rank(s)) for a, s in zip(attrs.get("scan_input_axes", [0] * m), sequences)]
    back = attrs.get("scan_input_directions", [0] * m)
    k = len(body.output) - len(states)
    out_axes, out_back = attrs.get("scan_output_axes", [0] * k), attrs.get("scan_output_directions", [0] * k)
    given = {"scan_input_axes": (axes, m), "scan_input_directions": (back, m), "scan_output_axes": (out_axes, k),
             "scan_output_directions": (out_back, k)}  # fmt: skip
    for what, (numbers, wanted) in given.items():
        if len(numbers) != wanted:
            raise TVMError(f"{what} must have {wanted} elements, got {len(numbers)}")
    sequences, steps = _same_lengths(ctx, sequences, axes)
    rows, results = list(zip(sequences, axes, back)), list(zip(out_axes, out_back))
    if isinstance(steps, int) and 0 < steps <= MOST_STEPS and steps * len(all_nodes(body)) <= MOST_NODES:
        return _scan_unrolled(ctx, body, steps, states, rows, results)
    return _scan_repeated(ctx, body, states, rows, results)


def _same_lengths(ctx, sequences: list, axes: list[int]):
    """Return the sequences with a common length, and that length: the first constant one, or else that of the first
    sequence.

    The run ends with an error if the length of a sequence differs at run time.
    """
    lengths = [plain(ctx.type(s).shape[a]) for s, a in zip(sequences, axes)]
    known = [i for i, length in enumerate(lengths) if isinstance(length, int)]
    if len({lengths[i] for i in known}) > 1:
        raise TVMError(f"the scan inputs have different lengths: {', '.join(map(str, lengths))}")
    lead = known[0] if known else 0
    steps, wanted = lengths[lead], run_time.size_of(ctx, sequences[lead], axes[lead])
    out = []
    for i, (data, axis) in enumerate(zip(sequences, axes)):
        if i != lead and not same_size(lengths[i], steps):
            same = ctx.made(relay.equal(run_time.size_of(ctx, data, axis), wanted))
            sizes = [plain(d) for d in ctx.type(data).shape]
            sizes[axis] = steps
            words = f"{ctx.where}: the length of scan input {i} differs from the length of scan input {lead}"
            data = run_time.sharpened(ctx, checked(data, same, words), sizes)
        out.append(data)
    return out, steps


def _scan_unrolled(ctx, body, steps: int, states: list, sequences: list, results: list) -> list:
    collected: list[list] = [[] for _ in results]
    for t in range(steps):
        rows = [relay.take(s, const(steps - 1 - t if r else t, "int64"), a) for s, a, r in sequences]
        got = ctx.importer.subgraph(body, [*states, *map(ctx.importer.typer.infer, rows)])
        states = got[: len(states)]
        for c, row in zip(collected, got[len(states) :]):
            c.append(row)
    return [*states, *(relay.stack(c[::-1] if r else c, a) for c, (a, r) in zip(collected, results))]


def _scan_repeated(ctx, body, states: list, sequences: list, results: list) -> list:
    """Convert a scan whose number of iterations is known at run time."""
    importer = ctx.importer
    infer = importer.typer.infer
    first, axis, _ = sequences[0]
    count = infer(relay.take(relay.shape_of(first, "int64"), const(axis, "int64"), 0))

    def step(number, values: list) -> Step:
        scope = importer.scopes[-1]
        steps = importer.captured(scope, count)
        last = infer(relay.subtract(relay.subtract(steps, const(1, "int64")), number))
        rows = [infer(relay.take(importer.captured(scope, s), last if r else number, a)) for s, a, r in sequences]
        got = importer.subgraph(body, [*values, *rows])
        return Step(None, got[: len(values)], got[len(values) :])

    states, rows = repeated(ctx, count, None, states, step)
    return [*states, *(_moved_axis(ctx, row, axis, back) for row, (axis, back) in zip(rows, results))]


def _moved_axis(ctx, row, axis: int, back: int):
    """Move the scan output from the leading axis to ``axis``; reverse it if ``back`` is not 0."""
    row = relay.reverse(row, 0) if back else row
    rank = ctx.rank(row)
    axis = axis_of(axis, rank)
    others = list(range(1, rank))
    return relay.transpose(row, [*others[:axis], 0, *others[axis:]]) if axis else row
