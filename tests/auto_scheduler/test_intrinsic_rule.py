"""The sketch rule of tensor intrinsics: what it fits, and that states with intrinsics compute what plain loops do."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.programs import arrays_of, run, run_schedule
from tvm import te, topi
from tvm.auto_scheduler import ComputeDAG, HardwareParams, LayoutRewriteOption, SearchTask, SketchPolicy, steps
from tvm.auto_scheduler.annotation_steps import TensorizeStep
from tvm.auto_scheduler.intrinsics import intrinsics_of, tensor_intrin
from tvm.auto_scheduler.layout_rewrite import layouts_of
from tvm.auto_scheduler.queries import is_tensorized
from tvm.auto_scheduler.state import StateObject
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor, estimated_speed

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
SMALL = {"evolutionary_search_population": 16, "evolutionary_search_num_iters": 1}
HOST_HAS_THEM = any("sdot" in one.name for one in intrinsics_of(tvm.target.Target("llvm")))
needs_dot_products = pytest.mark.skipif(not HOST_HAS_THEM, reason="this CPU has no signed dot products of bytes")


def dense(n=12, m=16, k=24, data="int8", weight="int8", out="int32"):
    a, b = te.placeholder((n, k), data, name="a"), te.placeholder((m, k), weight, name="b")
    return [a, b, topi.nn.dense(a, b, out_dtype=out)]


def long_rows():
    """Rows of whole fours of words."""
    return dense(k=48)


def convolution(layout="NHWC"):
    a = te.placeholder((1, 6, 6, 8) if layout == "NHWC" else (1, 8, 6, 6), "int8", name="a")
    b = te.placeholder((3, 3, 8, 8) if layout == "NHWC" else (8, 8, 3, 3), "int8", name="b")
    made = topi.nn.conv2d_nhwc if layout == "NHWC" else topi.nn.conv2d_nchw
    return [a, b, topi.nn.relu(made(a, b, 1, 1, 1, "int32"))]


def narrowed():
    """The data of a product is computed by an operation that would be computed where it is used."""
    a, b = te.placeholder((8, 16), "int32", name="a"), te.placeholder((8, 16), "int8", name="b")
    return [a, b, topi.nn.dense(topi.cast(a, "int8"), b, out_dtype="int32")]


def batches():
    a, b = te.placeholder((3, 8, 16), "int8", name="a"), te.placeholder((3, 12, 16), "int8", name="b")
    return [a, b, topi.nn.batch_matmul(a, b, out_dtype="int32")]


def policy_of(tensors, target, seed=0, params=SMALL):
    dag = ComputeDAG(tensors)
    task = SearchTask(compute_dag=dag, workload_key=dag.workload_key(), target=target)
    return SketchPolicy(task, params=params, seed=seed, verbose=0)


def names_in(policy):
    return {step.intrinsic for sketch in policy.breeder.sketches for step in sketch.transform_steps
            if isinstance(step, TensorizeStep)}  # fmt: skip


@pytest.mark.parametrize("tensors, target, expected", [
    (dense(), ARM, {"llvm.aarch64.neon.sdot.by_filter"}),
    (dense(data="uint8", weight="uint8"), ARM, {"llvm.aarch64.neon.udot.by_filter"}),
    (convolution(), ARM, {"llvm.aarch64.neon.sdot.by_channel"}),
    (batches(), ARM, {"llvm.aarch64.neon.sdot.by_rows"}), (long_rows(), ARM, {"llvm.aarch64.neon.sdot.by_rows"}),
    (dense(m=24, k=32, data="uint8"), X86, {f"llvm.x86.avx512.vpdpbusd.{bits}.by_rows" for bits in (128, 256)}),
    (dense(data="uint8"), X86, {f"llvm.x86.avx512.vpdpbusd.{bits}.by_filter" for bits in (128, 256, 512)}),
    (dense(m=24, data="uint8"), X86, {f"llvm.x86.avx512.vpdpbusd.{bits}.by_filter" for bits in (128, 256)}),
    # The types are others, there are no whole fours or blocks, or the terms do not lie beside each other.
    (dense(data="uint8"), ARM, set()), (dense(), X86, set()), (dense(data="float32", weight="float32", out="float32"),
                                                               ARM, set()),
    (dense(k=22), ARM, set()), (dense(m=18), ARM, set()), (convolution("NCHW"), ARM, set()),
    (dense(), "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53", set()), (dense(out="int16"), ARM, set()),
])  # fmt: skip
def test_sketches_have_the_intrinsics_that_fit(tensors, target, expected):
    policy = policy_of(tensors, target)
    assert names_in(policy) == expected
    assert any(not any(map(is_tensorized, sketch.stages)) for sketch in policy.breeder.sketches)


def test_axes_that_are_not_to_be_split_are_not():
    tensors = dense()
    tensors[2].op.attrs["auto_scheduler_no_split_at_inner"] = [tensors[2].op.reduce_axis[0].var.name]
    policy = policy_of(tensors, ARM)
    assert policy.breeder.sketches and not names_in(policy)


def test_what_an_intrinsic_reads_stays_an_array():
    for sketch in policy_of(narrowed(), ARM).breeder.sketches:
        tensorized = any(map(is_tensorized, sketch.stages))
        cast = next(stage for stage in sketch.stages if stage.op.name == "T_cast")
        assert (cast.compute_at == 1) is not tensorized


def states_of(policy, count):
    """States with an intrinsic."""
    found = {}
    for _ in range(40 * count):
        made = policy.breeder.random()
        if made is not None and any(map(is_tensorized, made.state.stages)):
            found[made.key] = made
        if len(found) == count:
            break
    assert found
    return list(found.values())


@needs_dot_products
@pytest.mark.parametrize("program", [dense, long_rows, convolution, narrowed, batches])
def test_states_compute_what_plain_loops_compute(program, seed):
    policy = policy_of(program(), "llvm", random.Random(seed).getrandbits(30))
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    assert expected.any()
    for candidate in states_of(policy, 3):
        line = steps.to_json(candidate.key)
        assert any(step[0] == "TZ" for step in line)
        read = StateObject((), tuple(map(steps.from_json, line)))
        np.testing.assert_array_equal(run(dag, read, arrays)[-1], expected, err_msg=str(candidate.state))
        recovered = policy.breeder.recovered(read)
        assert recovered is not None and recovered.key == candidate.key


@needs_dot_products
@pytest.mark.parametrize("program", [dense, long_rows, convolution])
def test_constants_in_the_order_of_the_loops_are_read_as_the_intrinsic_reads_them(program, seed):
    tensors = program()
    product = tensors[2].op if program is not convolution else tensors[2].op.input_tensors[0].op
    product.attrs["layout_free_placeholders"] = [tensors[1]]
    policy = policy_of(tensors, "llvm", seed)
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    for candidate in states_of(policy, 2):
        (layout,) = layouts_of(dag, candidate.key).values()
        for option in (LayoutRewriteOption.INSERT_TRANSFORM_STAGE, LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED):
            given = list(arrays)
            if option == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
                given[1] = layout.store(given[1])
            made = run_schedule(*dag.apply_steps_from_state(candidate.state, option), given)
            np.testing.assert_array_equal(made[-1], expected)


@pytest.mark.usual_code
@pytest.mark.parametrize("order", ["filter", "rows", "channel"])
def test_states_for_x86_have_its_instruction(order, seed):
    if order != "channel":
        tensors = dense(4, 32, 8 if order == "filter" else 32, data="uint8")
    else:
        a, b = te.placeholder((1, 4, 4, 8), "uint8", name="a"), te.placeholder((1, 1, 8, 32), "int8", name="b")
        tensors = [a, b, topi.nn.conv2d_nhwc(a, b, 1, 0, 1, "int32")]
    policy = policy_of(tensors, X86, random.Random(seed).getrandbits(30))
    for candidate in states_of(policy, 2):
        schedule, args = policy.search_task.compute_dag.apply_steps_from_state(candidate.state)
        assert "vpdpbusd" in tvm.build(schedule, args, X86).get_source("asm")


@needs_dot_products
def test_python_code_makes_the_schedule_again(seed):
    tensors = dense()
    policy = policy_of(tensors, "llvm", seed)
    dag = policy.search_task.compute_dag
    (candidate,) = states_of(policy, 1)
    code = dag.print_python_code_from_state(candidate.state)
    assert "tensorize" in code
    s = te.create_schedule(tensors[2].op)
    exec(code, {"s": s, "te": te, "a": tensors[0], "b": tensors[1], "T_dense": tensors[2]})
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    np.testing.assert_array_equal(run_schedule(s, tensors, arrays)[-1], expected)


def test_the_terms_of_an_instruction_are_one_step():
    policy = policy_of(dense(64, 64, 64), ARM)
    extractor = FeatureExtractor(policy.search_task.compute_dag, policy.search_task.hardware_params)
    dag = policy.search_task.compute_dag

    def tiled(name, terms):
        """The same tiles, with an intrinsic in them or with lanes."""
        state = dag.get_init_state()
        out = dag.tensors[2]
        i, j, k = state[out].iters
        j0, j1 = state.split(out, j, [4])
        k0, k1 = state.split(out, k, [terms])
        state.reorder(out, [i, j0, k0, k1, j1] if name is None else [i, j0, k0, j1, k1])
        if name is None:
            state.vectorize(out, j1)
        else:
            state.tensorize(out, j1, name)
        return extractor.rows(state.state_object)

    plain, made = tiled(None, 4), tiled("llvm.aarch64.neon.sdot.by_filter", 4)
    rows = tiled("llvm.aarch64.neon.sdot.by_rows", 16)
    lanes, vectors = NAMES.index("lanes"), NAMES.index("body vectors")
    assert made[0, lanes] == rows[0, lanes] == plain[0, lanes]
    assert estimated_speed(made[None]) > estimated_speed(plain[None]) + 1
    # Four words of a row are four instructions, whose operands are loaded together.
    assert (round(float(np.exp2(made[0, vectors]) - 1)), round(float(np.exp2(rows[0, vectors]) - 1))) == (1, 4)
    assert estimated_speed(rows[None]) > estimated_speed(made[None])


def plain_rows(has_dot_products, tensors, terms=1):
    """The features of a body of four rows and four columns, inside of a loop over terms of which it has some."""
    dag = ComputeDAG(tensors)
    state, out = dag.get_init_state(), dag.tensors[2]
    i, j, k = state[out].iters
    (i0, i1), (j0, j1) = state.split(out, i, [4]), state.split(out, j, [4])
    k0, k1 = state.split(out, k, [terms])
    state.reorder(out, [i0, j0, k0, i1, j1, k1])
    state.pragma(out, i0, "auto_unroll_max_step$64")
    hardware = HardwareParams(num_cores=1, target=ARM)
    return FeatureExtractor(dag, hardware, has_dot_products).rows(state.state_object)


def test_sums_of_bytes_are_vectors_of_bytes_where_there_are_dot_products():
    column = NAMES.index("vectorized trips")
    rows = {has: plain_rows(has, dense(64, 64, 64)) for has in (False, True)}
    assert [round(float(np.exp2(rows[has][0, column]) - 1)) for has in (False, True)] == [4, 16]
    assert estimated_speed(rows[True][None]) > estimated_speed(rows[False][None]) + 2
    floats = [plain_rows(has, dense(64, 64, 64, *["float32"] * 3)) for has in (False, True)]
    np.testing.assert_array_equal(*floats)


def test_bodies_of_several_terms_are_no_vectors():
    column = NAMES.index("vectorized trips")
    rows = [plain_rows(True, dense(64, 64, 64), terms) for terms in (1, 2)]
    assert [round(float(np.exp2(row[0, column]) - 1)) for row in rows] == [16, 1]


def test_the_first_states_have_intrinsics_and_have_none():
    policy = policy_of(dense(64, 64, 64), ARM)
    first = policy._by_estimate(8)
    assert sorted(any(map(is_tensorized, one.state.stages)) for one in first) == [False] * 4 + [True] * 4
    without = policy_of(dense(64, 64, 62), ARM)
    assert len(without._by_estimate(4)) == 4


def test_bad_steps_are_refused():
    dag = ComputeDAG(dense())
    state = dag.get_init_state()
    out = dag.tensors[2]
    with pytest.raises(tvm.TVMError, match="unknown tensor intrinsic 'no.such'"):
        tensor_intrin("no.such")
    with pytest.raises(tvm.TVMError, match="invalid value 3 for intrinsic"):
        steps.from_json(["TZ", 2, 1, 3])
    named = state.copy()
    named.tensorize(out, named[out].iters[1], "no.such")
    with pytest.raises(tvm.TVMError, match="no.such"):
        dag.apply_steps_from_state(named)
    state.vectorize(out, state[out].iters[1])
    with pytest.raises(tvm.TVMError, match="already has the annotation vectorize"):
        state.tensorize(out, state[out].iters[0], "llvm.aarch64.neon.sdot.by_filter")
