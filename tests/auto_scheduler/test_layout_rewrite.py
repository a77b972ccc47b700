"""Constant inputs stored in the order in which a schedule reads them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.models import reference, small_model
from tests.auto_scheduler.test_relay_integration import DATA, built, outputs, pairs
from tvm import auto_scheduler, relay, te, topi
from tvm.auto_scheduler import ApplyHistoryBest, ComputeDAG, LayoutRewriteOption, SearchTask, SketchPolicy
from tvm.auto_scheduler.layout_rewrite import Part, StoredLayout, layouts_of
from tvm.relay.backend.auto_schedule import is_scheduled, stored_places
from tvm.relay.transform.auto_schedule import AutoScheduleKernels
from tvm.topi.testing import conv2d_nchw_python

SMALL = {"evolutionary_search_population": 6, "evolutionary_search_num_iters": 1}


def convolution():
    x, w = te.placeholder((1, 6, 7, 7), name="x"), te.placeholder((12, 6, 3, 3), name="w")
    y = topi.nn.conv2d_nchw(x, w, 1, 1, 1)
    y.op.attrs["layout_free_placeholders"] = [w]
    return [x, w, topi.nn.relu(y)], lambda a, b: np.maximum(conv2d_nchw_python(a, b, 1, 1), 0)


def product():
    a, b = te.placeholder((9, 20), name="a"), te.placeholder((20, 15), name="b")
    k = te.reduce_axis((0, 20), name="k")
    c = te.compute(
        (9, 15), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c", attrs={"layout_free_placeholders": [b]}
    )
    return [a, b, c], lambda x, y: x @ y


def states(dag, seed, count=4):
    task = SearchTask(compute_dag=dag, workload_key=dag.workload_key(), target="llvm")
    return SketchPolicy(task, params=SMALL, seed=seed, verbose=0).sample_initial_population()[:count]


@pytest.mark.slow("compiles each layout of the constants for several schedules")
@pytest.mark.parametrize("program", [convolution, product])
def test_every_option_computes_the_same(program, seed):
    tensors, expected = program()
    dag, rng = ComputeDAG(tensors), np.random.default_rng(seed)
    shapes = [[int(d) for d in t.shape] for t in tensors]
    x, w = (rng.uniform(-1, 1, shape).astype("float32") for shape in shapes[:2])
    for state in states(dag, random.Random(seed).randrange(1000), 3):
        layouts = layouts_of(dag, state.transform_steps)
        stored = {LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED: [layout.store(w) for layout in layouts.values()]}
        for option in range(3):
            schedule, args = dag.apply_steps_from_state(state, option)
            given = [x, *(stored.get(option) or [w])]
            assert [[int(d) for d in t.shape] for t in args[:2]] == [list(array.shape) for array in given]
            out = tvm.nd.empty(shapes[2])
            tvm.build(schedule, args, "llvm")(*map(tvm.nd.array, given), out)
            np.testing.assert_allclose(out.numpy(), expected(x, w), rtol=1e-4, atol=1e-4)


def test_loops_outermost_first_are_the_dimensions():
    tensors, _ = product()
    dag = ComputeDAG(tensors)
    state = dag.get_init_state()
    c = tensors[2]
    i, j, k = state[c].iters
    j0, j1 = state.split(c, j, [5])
    k0, k1 = state.split(c, k, [4])
    state.reorder(c, [i, j0, k0, k1, j1])
    (layout,) = layouts_of(dag, state.transform_steps).values()
    assert layout == StoredLayout((20, 15), (Part(1, 3, 5), Part(0, 20, 1), Part(1, 5, 1)))
    assert layout.stored_shape == (3, 20, 5)
    array = np.arange(300).reshape(20, 15)
    stored = layout.store(array)
    assert stored[2, 7, 3] == array[7, 13] and stored.flags.c_contiguous
    assert (stored.transpose(layout.restoring_axes).reshape(layout.shape) == array).all()
    made = dag.rewrite_layout_from_state(state)
    assert [int(d) for d in made.tensors[1].shape] == [3, 20, 5] and len(made.ops) == len(dag.ops)
    made.apply_steps_from_state(state)


def test_what_lies_so_already_or_is_not_simple_stays():
    tensors, _ = product()
    dag = ComputeDAG(tensors)
    # The loops of a product run over i, j, k: of b, stored as k, j, they read whole columns.
    assert layouts_of(dag, ()) and not layouts_of(ComputeDAG(convolution()[0]), ())
    state = dag.get_init_state()
    state.split(tensors[2], state[tensors[2]].iters[1], [4])
    assert not layouts_of(dag, state.transform_steps), "15 columns in fours leave a rest"
    plain = [te.placeholder((4, 4), name="a"), te.placeholder((4, 4), name="b")]
    k = te.reduce_axis((0, 2), name="k")
    half = te.compute(
        (4, 4),
        lambda i, j: te.sum(plain[0][i, k] * plain[1][k * 2, j], axis=k),
        name="c",
        attrs={"layout_free_placeholders": [plain[1]]},
    )
    assert not layouts_of(ComputeDAG([*plain, half]), ())


def test_defaults_follow_the_target():
    default = LayoutRewriteOption.get_target_default
    assert default("llvm") == LayoutRewriteOption.INSERT_TRANSFORM_STAGE
    assert default("llvm", in_relay_integration=True) == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    assert default("cuda", in_relay_integration=True) == LayoutRewriteOption.NO_REWRITE


def test_constants_of_models_are_stored_as_schedules_read_them():
    mod, params = small_model()
    tasks, _ = auto_scheduler.extract_tasks(mod, params, "llvm")
    assert {t.layout_rewrite_option for t in tasks if "conv2d" in t.desc} == {
        LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    }
    chosen = []
    for task in tasks:
        found = next(
            (
                (pair, task)
                for seed in range(9)
                for pair in pairs([task], seed)
                if layouts_of(task.compute_dag, pair[0].state.transform_steps)
            ),
            None,
        )
        chosen += [] if found is None else [found[0]]
    assert len(chosen) >= 3
    library = built(mod, params, ApplyHistoryBest(chosen))
    stored = [k.function for k in library.kernels if is_scheduled(k.function) and stored_places(k.function)]
    assert len(stored) == len(chosen)
    np.testing.assert_allclose(outputs(library), reference(params, DATA), rtol=2e-4, atol=1e-5)
    # What such a kernel says that it computes is what it computes, whatever its schedule.
    plain = tvm.transform.PassContext(
        opt_level=3, disabled_pass=["AutoSchedulerLayoutRewrite"], config={"relay.backend.use_auto_scheduler": True}
    )
    with ApplyHistoryBest(chosen), plain:
        other = relay.build(mod, target="llvm", params=params)
    assert not any(stored_places(k.function) for k in other.kernels)
    np.testing.assert_allclose(outputs(other), outputs(library), rtol=1e-4, atol=1e-6)


def test_weights_that_are_inputs_stay_as_they_are():
    mod, params = small_model()
    tasks, _ = auto_scheduler.extract_tasks(mod, {}, "llvm")
    assert not any(task.compute_dag.layout_free_placeholders for task in tasks)
    target = tvm.target.Target("llvm")
    config = {"relay.backend.use_auto_scheduler": True}
    with target, ApplyHistoryBest(pairs(tasks)), tvm.transform.PassContext(opt_level=3, config=config):
        marked = AutoScheduleKernels(target)(relay.transform.InferType()(mod))
        rewritten = relay.transform.AutoSchedulerLayoutRewrite()(marked)
    assert len(marked.functions) > 1
    assert not any(stored_places(f) for f in rewritten.functions.values() if is_scheduled(f))
