"""Every operation of ML programs and every layer against NumPy; branches and loops, known and decided by the run.

Every seed has another case of an operator that has several; TVM_CONFORMANCE_CASES=all has all of them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from cases import GROUPS, check, check_each_operator
from coreml_writer import NetworkWriter, ProgramWriter, Ref, run

from tests.relay.frontend.coreml.operator_cases import ELSEWHERE, OPERATORS
from tvm.relay.frontend.coreml.table import LAYERS


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_operations_give_what_numpy_gives(group, rng):
    if not os.environ.get("TVM_CONFORMANCE_CASES"):
        return check_each_operator(group, rng)
    for number in range(len(GROUPS[group])):
        check(group, number)


def test_every_converter_has_a_case():
    shown = {
        case.name.split("/")[0] if group.startswith("program") else f"layer {case.name.split('/')[0]}"
        for group, rows in GROUPS.items()
        for case in rows
    }
    assert not [n for n in OPERATORS if n not in shown]
    assert {f"layer {n}" for n in LAYERS.names()} - set(OPERATORS) <= {f"layer {n}" for n in ELSEWHERE}


def _chosen(condition):
    """A program with a branch; each side makes its result from the input."""
    writer = ProgramWriter()
    x = writer.input("x", (2, 3))
    pred = writer.input("p", (1,), "bool") if condition is None else writer.const(np.array(condition))
    made = writer.op("cond", pred=pred)
    operation = writer.last
    for kind in ("exp", "sin"):
        block = operation.blocks.add()
        block.outputs.append(writer.op(kind, block=block, x=x))
    writer.output(made)
    return writer.bytes()


@pytest.mark.parametrize("condition", [True, False, None])
def test_a_branch_of_a_program_is_taken(condition):
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for truth in (True, False) if condition is None else (condition,):
        feeds = {"x": x} | ({"p": np.array([truth])} if condition is None else {})
        np.testing.assert_allclose(run(_chosen(condition), feeds)[0], np.exp(x) if truth else np.sin(x), 1e-5, 1e-6)


@pytest.mark.parametrize("late", [False, True])
def test_a_loop_of_a_program_is_run(late):
    writer = ProgramWriter()
    x, step = writer.input("x", (3,)), writer.input("s", (3,))
    limit = writer.input("n", (1,), "int32") if late else writer.const(np.array([4], "int32"))
    count = writer.const(np.array([0], "int32"))
    made = writer.op("while_loop", outputs=2, loop_vars=[count, x])
    operation = writer.last
    test, body = operation.blocks.add(), operation.blocks.add()
    for block in (test, body):
        block.inputs.add(name="i")
        block.inputs.add(name="v")
    test.outputs.append(writer.op("less", block=test, x=Ref("i"), y=limit))
    body.outputs.append(writer.op("add", block=body, x=Ref("i"), y=np.array([1], "int32")))
    # What comes from around the loop is read in every step.
    body.outputs.append(writer.op("add", block=body, x=writer.op("mul", block=body, x=Ref("v"), y=0.5), y=step))
    for name in made:
        writer.output(name)
    first, by = np.array([1.0, -2, 3], "float32"), np.array([0.5, 1, 0], "float32")
    wanted = first
    for _ in range(4):
        wanted = wanted * 0.5 + by
    feeds = {"x": first, "s": by} | ({"n": np.array([4], "int32")} if late else {})
    steps, got = run(writer.bytes(), feeds)
    assert steps.tolist() == [4]
    np.testing.assert_allclose(got, wanted, 1e-6)


def _inner(writer, target, rows) -> None:
    """Layers of a network inside another: (kind, inputs, output, parameters)."""
    for kind, inputs, output, params in rows:
        made = target.layers.add(name=f"{kind}_{output}", input=inputs, output=[output])
        getattr(made, kind).SetInParent()
        for key, value in params.items():
            setattr(getattr(made, kind), key, value)


@pytest.mark.parametrize("late", [False, True])
def test_a_branch_of_a_network_overwrites_what_it_copies_to(late):
    writer = NetworkWriter()
    writer.input("x", (4,))
    test = writer.input("t", (1,)) if late else writer.layer("loadConstantND", shape=[1], data=np.ones(1))
    out = writer.layer("fillLike", "x", value=7.0)
    made = writer.network.layers.add(name="b", input=[test])
    _inner(writer, made.branch.ifBranch, [("sin", ["x"], "yes", {}), ("copy", ["yes"], out, {})])
    _inner(writer, made.branch.elseBranch, [])
    writer.output(out)
    x = np.array([0.5, -1, 2, 3], "float32")
    for truth in (1.0, 0.0) if late else (1.0,):
        feeds = {"x": x} | ({"t": np.array([truth], "float32")} if late else {})
        np.testing.assert_allclose(run(writer.bytes(), feeds)[0], np.sin(x) if truth else np.full(4, 7), 1e-5)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("asks", [False, True])
def test_a_loop_of_a_network_is_run(late, asks):
    """Doubled as often as asked for, or until the sum is above 40."""
    writer = NetworkWriter()
    writer.input("x", (3,))
    state = writer.layer("copy", "x")
    made = writer.network.layers.add(name="l")
    if late and not asks:
        made.input.append(writer.input("n", (1,)))
    _inner(
        writer,
        made.loop.bodyNetwork,
        [("addBroadcastable", [state, state], "twice", {}), ("copy", ["twice"], state, {})],
    )
    if asks:
        _inner(
            writer,
            made.loop.conditionNetwork,
            [("reduceSum", [state], "total", {"reduceAll": True}), ("lessThan", ["total"], "going", {"alpha": 40.0})],
        )
        made.loop.conditionVar = "going"
    made.loop.maxLoopIterations = 0 if late else 3
    writer.output(state)
    x = np.array([1.0, 2, 3], "float32")
    feeds = {"x": x} | ({"n": np.array([3], "float32")} if late and not asks else {})
    np.testing.assert_allclose(run(writer.bytes(), feeds)[0], x * 8, 1e-6)
