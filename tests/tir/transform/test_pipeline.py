"""The lowering pipeline as a whole: random schedules keep their meaning; users' passes; options."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from interpreter import run
from lowered import of

import tvm
from tvm import te
from tvm.driver.build_module import schedule_to_module
from tvm.error import ScheduleError
from tvm.ir.prim import Call, Ramp
from tvm.tir import pipeline
from tvm.tir.stmt import AssertStmt, BufferStore, For, ForKind

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))
from generator import Program, RandomSchedule
from oracle import _expr, assert_near, evaluate


def dimensions(program, tensor):
    return [int(_expr(d, program.sizes, {}, program.sizes)) for d in tensor.shape]


def small_program(rng):
    """One the interpreter runs in about a second."""
    while True:
        program = Program(rng)
        if program.outputs and sum(np.prod(dimensions(program, t)) for t in program.tensors) < 2500:
            return program


@pytest.mark.parametrize("case", range(12))
def test_random_schedules_keep_their_meaning(case, seed):
    rng = random.Random(seed * 100 + case)
    program = small_program(rng)
    schedule = RandomSchedule(program, rng).schedule
    sizes = program.sizes

    def shape(t):
        return dimensions(program, t)

    data = np.random.default_rng(seed)
    inputs = {t: data.integers(-5, 6, shape(t)).astype(t.dtype) for t in program.inputs}
    want = evaluate(program.outputs, dict(inputs), sizes)
    try:
        mod = schedule_to_module(schedule, [*program.inputs, *program.outputs, *sizes], "main")
    except ScheduleError:
        return
    outputs = [np.zeros(shape(t), t.dtype) for t in program.outputs]
    arguments = [*[a.copy() for a in inputs.values()], *outputs, *[np.int32(v) for v in sizes.values()]]
    run(pipeline.lower(mod)["main"], *arguments)
    for w, g in zip(want, outputs):
        assert_near(g, w)


def vector_add(n=16):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 4)
    return s, [a, b], inner


def test_user_pass_runs_in_its_phase():
    s, args, _ = vector_add()
    seen = {}

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(func, mod, ctx):
        seen["indices"] = len(of(BufferStore, func)[0].indices)
        body = tvm.tir.stmt_functor.ir_transform(
            func.body,
            None,
            lambda node: node.replace(kind=ForKind.VECTORIZED) if node.extent.value == 4 else None,
            ["tir.For"],
        )
        return func.with_body(body)

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, look)]}):
        func = tvm.lower(s, args)["main"]
    assert seen == {"indices": 1}
    assert of(Ramp, func)


def test_options_of_the_context():
    s, args, inner = vector_add()
    s[args[1]].vectorize(inner)
    assert of(Ramp, tvm.lower(s, args)["main"])
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        assert not of(Ramp, tvm.lower(s, args)["main"])
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        assert of(AssertStmt, tvm.lower(s, args)["main"])
    with tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        assert of(For, tvm.lower(s, args)["main"])[0].kind is ForKind.UNROLLED


def test_simple_mode_leaves_loops_undivided():
    s, args, _ = vector_add(te.var("n"))
    likely = lambda f: [c for c in of(Call, f) if c.op.name == "tir.likely"]
    assert len(tvm.lower(s, args)["main"].body.seq) == 2
    simple = tvm.lower(s, args, simple_mode=True)["main"]
    assert isinstance(simple.body, For) and likely(simple)


def test_passes_can_be_called_by_hand():
    s, args, _ = vector_add()
    mod = schedule_to_module(s, args)
    for step in (
        tvm.tir.transform.StorageFlatten(64),
        tvm.tir.transform.Simplify(),
        tvm.tir.transform.UnrollLoop(),
        tvm.tir.transform.Apply(lambda f: f.with_attr("seen", True)),
    ):
        mod = step(mod)
    assert mod["main"].attrs["seen"]
    x, y = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    run(mod["main"], x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_long_chains_of_stages_lower():
    n = 300
    tensor = first = te.placeholder((4,), name="A")
    for i in range(n):
        tensor = te.compute((4,), lambda k, t=tensor: t[3 - k] + 1.0, name=f"T{i}")
    func = tvm.lower(te.create_schedule(tensor.op), [first, tensor])["main"]
    x, y = np.zeros(4, "float32"), np.zeros(4, "float32")
    run(func, x, y)
    np.testing.assert_array_equal(y, np.full(4, n))
