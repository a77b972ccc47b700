"""Converters of control flow: branches and loops whose course is known when compiling, or can be computed both ways."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import MOST_STEPS, Sequence, axis_of, check_steps, op


@op("If")
def if_(ctx, inputs, attrs):
    """A known condition chooses a branch; otherwise both are computed and their results chosen from."""
    importer = ctx.importer
    known = ctx.value(inputs[0])
    if known is not None:
        return importer.subgraph(attrs["then_branch" if known.reshape(-1)[0] else "else_branch"], [])
    try:
        yes = importer.subgraph(attrs["then_branch"], [])
        no = importer.subgraph(attrs["else_branch"], [])
    except TVMError as problem:
        raise TVMError(
            f"the condition is computed when the model runs, so both branches are compiled; one cannot be: {problem}"
        ) from problem
    condition = relay.reshape(inputs[0], ()) if ctx.rank(inputs[0]) else inputs[0]
    return [_chosen(ctx, condition, a, b) for a, b in zip(yes, no)]


def _chosen(ctx, condition, a, b):
    """One of two values by a condition that is computed when the model runs."""
    if isinstance(a, Sequence) and isinstance(b, Sequence) and len(a.items) == len(b.items):
        return Sequence(tuple(_chosen(ctx, condition, x, y) for x, y in zip(a.items, b.items)))
    if a is b:
        return a
    if a is None or b is None or isinstance(a, Sequence) or isinstance(b, Sequence):
        raise TVMError("the condition is computed when the model runs, and the branches give different things")
    if ctx.shape(a) != ctx.shape(b) or ctx.dtype(a) != ctx.dtype(b):
        raise TVMError("the condition is computed when the model runs, and the branches give different shapes")
    return relay.where(condition, a, b)


@op("Loop")
def loop(ctx, inputs, attrs):
    body, importer = attrs["body"], ctx.importer
    count = ctx.value(inputs[0]) if inputs and inputs[0] is not None else None
    if inputs and inputs[0] is not None and count is None:
        raise ctx.late("the number of steps", [inputs[0]])
    limit = int(count.reshape(-1)[0]) if count is not None else None
    going = inputs[1] if len(inputs) > 1 else None
    states = list(inputs[2:])
    scans: list[list] = [[] for _ in range(len(body.output) - 1 - len(states))]
    step = 0
    while limit is None or step < limit:
        if going is not None:
            test = ctx.value(going)
            if test is None:
                raise ctx.late("the condition to go on", [going])
            if not test.reshape(-1)[0]:
                break
        if step >= MOST_STEPS:
            raise TVMError(f"the loop takes more than {MOST_STEPS} steps")
        results = importer.subgraph(
            body, [const(step, "int64"), going if going is not None else const(True, "bool"), *states]
        )
        going, states, rows = results[0], results[1 : 1 + len(states)], results[1 + len(states) :]
        for scan, row in zip(scans, rows):
            scan.append(row)
        step += 1
    for i, scan in enumerate(scans):
        if not scan and ctx.wants(len(states) + i):
            raise TVMError("the loop makes no steps, so the shape of what it collects is not known")
    return [*states, *(relay.stack(s, 0) if s else None for s in scans)]


@op("Scan")
def scan_8(ctx, inputs, attrs):
    """The first form: a batch in front, one scan for each of its places."""
    lengths, rest = inputs[0], inputs[1:]
    if lengths is not None:
        raise TVMError("lengths of sequences are not supported")
    batch = ctx.known_shape(rest[0])[0]
    m = attrs["num_scan_inputs"]
    check_steps("a batch", batch)
    if not 1 <= m <= len(rest):
        raise TVMError(f"num_scan_inputs is {m}, and the node has {len(rest)} inputs")
    rules = {"body": attrs["body"], "num_scan_inputs": m, "scan_input_directions": attrs.get("directions", [0] * m)}
    each = []
    for b in range(batch):
        each.append(scan(ctx, [relay.take(x, const(b, "int64"), 0) for x in rest], rules))
    return [relay.stack(list(parts), 0) for parts in zip(*each)]


@op("Scan", since=9)
def scan(ctx, inputs, attrs):
    body, m = attrs["body"], attrs["num_scan_inputs"]
    if not 1 <= m <= len(inputs):
        raise TVMError(f"num_scan_inputs is {m}, and the node has {len(inputs)} inputs")
    states, sequences = list(inputs[: len(inputs) - m]), list(inputs[len(inputs) - m :])
    axes = attrs.get("scan_input_axes", [0] * m)
    back = attrs.get("scan_input_directions", [0] * m)
    axes = [axis_of(a, ctx.rank(s)) for a, s in zip(axes, sequences)]
    steps = ctx.known_shape(sequences[0])[axes[0]]
    if steps > MOST_STEPS:
        raise TVMError(f"the scan takes more than {MOST_STEPS} steps")
    collected: list[list] = [[] for _ in range(len(body.output) - len(states))]
    for t in range(steps):
        rows = [relay.take(s, const(steps - 1 - t if r else t, "int64"), a) for s, a, r in zip(sequences, axes, back)]
        typed = [ctx.importer.typer.infer(r) for r in rows]
        results = ctx.importer.subgraph(body, [*states, *typed])
        states = results[: len(states)]
        for c, row in zip(collected, results[len(states) :]):
            c.append(row)
    k = len(collected)
    out_axes, out_back = attrs.get("scan_output_axes", [0] * k), attrs.get("scan_output_directions", [0] * k)
    return [*states, *(relay.stack(c[::-1] if r else c, a) for c, a, r in zip(collected, out_axes, out_back))]
