"""Products of fragments on tensor cores: what the rules fit, that states compute the products, what their blocks hold,
and that they are written and read."""

from __future__ import annotations

import math
import random
from itertools import islice

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.auto_scheduler.gpu_tasks import CUDA
from tests.auto_scheduler.programs import arrays_of, run
from tests.auto_scheduler.test_gpu_limits import facts
from tests.codegen.gpu_programs import kernels_of as lowered_kernels
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tvm import te, topi
from tvm.auto_scheduler import ComputeDAG, HardwareParams, SearchTask, SketchPolicy, steps
from tvm.auto_scheduler.annotation_steps import TensorizeStep
from tvm.auto_scheduler.gpu_features import GPUFeatureExtractor
from tvm.auto_scheduler.gpu_limits import kernels_of
from tvm.auto_scheduler.queries import has_fragments
from tvm.auto_scheduler.state import StateObject
from tvm.codegen.cuda import nvrtc
from tvm.codegen.cuda.build import emit

HALF = "float16"


def matmul(n=64, m=48, k=64, transposed=(False, True), dtypes=(HALF, HALF, "float32")):
    a = te.placeholder((k, n) if transposed[0] else (n, k), dtypes[0], name="a")
    b = te.placeholder((m, k) if transposed[1] else (k, m), dtypes[1], name="b")
    return [a, b, topi.nn.matmul(a, b, None, dtypes[2], *transposed)]


def epilogue(n=64, m=48, k=64):
    """What follows a product element by element, with another operand, rounded at the end."""
    a, b, c = matmul(n, m, k)
    bias = te.placeholder((m,), "float32", name="bias")
    return [a, b, bias, topi.cast(topi.nn.relu(topi.add(c, bias)), HALF)]


def prologue(*sizes):
    """An operand that is computed element by element."""
    a, b, _ = matmul(*sizes)
    return [a, b, topi.nn.matmul(topi.nn.relu(a), b, None, "float32", False, True)]


def batches(n=32, m=64, k=48):
    a, b = te.placeholder((3, n, k), HALF, name="a"), te.placeholder((3, m, k), HALF, name="b")
    return [a, b, topi.nn.batch_matmul(a, b, out_dtype="float32")]


def convolution(window=3, width=16, filters=32, channels=32):
    a = te.placeholder((2, 4, width, channels), HALF, name="a")
    b = te.placeholder((window, window, channels, filters), HALF, name="b")
    return [a, b, topi.nn.relu(topi.nn.conv2d_nhwc(a, b, 1, window // 2, 1, "float32"))]


def two_products(n=32):
    """One operand of two products; the result of the first is rounded and multiplied again."""
    a, b, first = matmul(n, n, n)
    return [a, b, topi.nn.matmul(topi.cast(first, HALF), a, None, "float32", False, True)]


PROGRAMS = {
    "nt": matmul,
    "nn": lambda: matmul(transposed=(False, False)),
    "tn": lambda: matmul(transposed=(True, False)),
    "tt": lambda: matmul(transposed=(True, True)),
    "half sums": lambda: matmul(dtypes=(HALF, HALF, HALF)),
    "bfloat16": lambda: matmul(dtypes=("bfloat16", "bfloat16", "float32")),
    "epilogue": epilogue,
    "prologue": prologue,
    "batches": batches,
    "1x1": lambda: convolution(1),
    "3x3": convolution,
    "split-k": lambda: matmul(32, 32, 512),
    "two products": two_products,
}
# Lengths that are no whole fragments, some less than one.
PADDED = {
    "padded nt": lambda: matmul(33, 17, 50),
    "padded nn": lambda: matmul(40, 52, 36, (False, False)),
    "padded tn": lambda: matmul(23, 44, 90, (True, False)),
    "padded tt": lambda: matmul(50, 35, 31, (True, True)),
    "padded epilogue": lambda: epilogue(37, 24, 40),
    "padded prologue": lambda: prologue(20, 70, 33),
    "padded batches": lambda: batches(17, 34, 20),
    "padded 3x3": lambda: convolution(3, 14, 24, 20),
    "padded 1x1": lambda: convolution(1, 7, 9, 40),
    "one row": lambda: matmul(1, 40, 100),
    "few elements": lambda: matmul(7, 9, 11),
    "many rows": lambda: matmul(1000, 10, 16),
    "padded half sums": lambda: matmul(20, 30, 40, dtypes=(HALF, HALF, HALF)),
    "padded split-k": lambda: matmul(20, 30, 512),
    "padded two products": lambda: two_products(24),
}
PROGRAMS.update(PADDED)  # fmt: skip


def policy_of(tensors, target=CUDA, seed=0, hardware=None):
    dag = ComputeDAG(tensors)
    task = SearchTask(compute_dag=dag, workload_key=dag.workload_key(), target=target, hardware_params=hardware)
    return SketchPolicy(task, seed=seed, verbose=0)


def sketches_of(policy):
    """The numbers of the sketches that multiply fragments."""
    return [number for number, sketch in enumerate(policy.breeder.sketches) if any(map(has_fragments, sketch.stages))]


def states_of(policy, count, seed):
    """Candidates by chance that multiply fragments, and children of them."""
    breeder, generator = policy.breeder, random.Random(seed)
    numbers, found = sketches_of(policy), []
    assert numbers
    for _ in range(50 * count):
        made = breeder.annotated(generator.choice(numbers), {})
        if made is not None and generator.random() < 0.5:
            made = breeder.child(made, [made])
        if made is not None:
            found.append(made)
        if len(found) == count:
            return found
    raise AssertionError("hardly a state fits the target")


def names_in(policy):
    """The intrinsics that multiply."""
    return {
        step.intrinsic
        for sketch in policy.breeder.sketches
        for step in sketch.transform_steps
        if isinstance(step, TensorizeStep) and "load" not in step.intrinsic and "store" not in step.intrinsic
    }


@pytest.mark.parametrize("tensors, target, expected", [
    (matmul(), CUDA, {"mma.float16.float32.mk.nk"}),
    (matmul(transposed=(True, False)), CUDA, {"mma.float16.float32.km.kn"}),
    (matmul(dtypes=(HALF, HALF, HALF)), CUDA, {"mma.float16.float16.mk.nk"}),
    (matmul(dtypes=("bfloat16", "bfloat16", "float32")), CUDA, {"mma.bfloat16.float32.mk.nk"}),
    (convolution(), CUDA, {"mma.float16.float32.mk.kn"}), (batches(), CUDA, {"mma.float16.float32.mk.nk"}),
    (matmul(n=40), CUDA, {"mma.float16.float32.mk.nk"}), (matmul(k=24), CUDA, {"mma.float16.float32.mk.nk"}),
    (convolution(width=14), CUDA, {"mma.float16.float32.mk.kn"}),
    # Other types, targets without tensor cores, and stages that keep loops whole.
    (matmul(dtypes=("float32",) * 3), CUDA, set()), (matmul(dtypes=("int8", "int8", "int32")), CUDA, set()),
    (matmul(), "cuda -arch=sm_60", set()), (matmul(), "opencl", set()), (matmul(), "nvptx -mcpu=sm_80", set()),
    (matmul(dtypes=("bfloat16", "bfloat16", "float32")), "cuda -arch=sm_75", set()),
])  # fmt: skip
def test_sketches_have_the_intrinsics_that_fit(tensors, target, expected):
    policy = policy_of(tensors, target)
    assert names_in(policy) == expected
    assert any(not any(map(has_fragments, sketch.stages)) for sketch in policy.breeder.sketches)


def test_a_product_of_a_matrix_with_itself_has_no_fragments():
    a = te.placeholder((32, 32), HALF, name="a")
    assert not names_in(policy_of([a, topi.nn.matmul(a, a, None, "float32", False, True)]))


def test_axes_that_are_not_to_be_split_are_not():
    tensors = matmul()
    tensors[2].op.attrs["auto_scheduler_no_split_at_outer"] = [tensors[2].op.axis[0].var.name]
    assert not names_in(policy_of(tensors))


def test_parts_of_a_reduction_have_fragments(seed):
    policy = policy_of(matmul(32, 32, 512), seed=seed)
    made = [policy.breeder.sketches[number] for number in sketches_of(policy)]
    kinds = [sum(step.code == "RF" for step in sketch.transform_steps) for sketch in made]
    assert sorted(kinds) == [0, 1, 1, 1]


@needs_emulator
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_states_compute_what_plain_loops_compute(name, seed):
    policy = policy_of(PROGRAMS[name](), seed=seed)
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1].astype("float32")
    # Plain loops round sums of half precision at every term.
    errors = {"half sums": 2e-2, "padded half sums": 2e-2}
    errors |= dict.fromkeys(("epilogue", "padded epilogue", "two products", "padded two products"), 2e-3)
    error = errors.get(name, 1e-5) * np.abs(expected).max()
    for candidate in states_of(policy, 1, seed):
        read = StateObject((), tuple(map(steps.from_json, steps.to_json(candidate.key))))
        got = cuda_emulator.run(*dag.apply_steps_from_state(read), arrays)[-1].astype("float32")
        np.testing.assert_allclose(got, expected, rtol=0, atol=error, err_msg=f"{candidate.state}")


def test_parts_that_are_no_whole_fragments_are_not_padded():
    """Past the end of a part of the reduction is the next one."""
    policy = policy_of(matmul(32, 32, 520))
    made = [policy.breeder.sketches[number].transform_steps for number in sketches_of(policy)]
    assert [[step.code for step in one if step.code in ("RF", "PD")] for one in made] == [["PD"]]
    assert sum(any(step.code == "RF" for step in one.transform_steps) for one in policy.breeder.sketches) == 3


@needs_emulator
def test_what_is_not_finite_stays_in_its_rows(seed):
    policy = policy_of(matmul(7, 9, 11), seed=seed)
    dag = policy.search_task.compute_dag
    a, b, c = arrays_of(dag, seed)
    a[2, 10], a[6, 0] = np.inf, np.nan
    (candidate,) = states_of(policy, 1, seed)
    got = cuda_emulator.run(*dag.apply_steps_from_state(candidate.state), [a, b, c])[-1]
    expected = a.astype("float32") @ b.astype("float32").T
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
    assert np.isnan(got[6]).all() and np.isfinite(got[[0, 1, 3, 4, 5]]).all()


@needs_emulator
@pytest.mark.parametrize("sizes, places, part", [
    ((64, 48, 64), (1, 3), "double_buffer(3)"), ((33, 20, 50), (3, 6), "s.pad(")])  # fmt: skip
def test_python_code_makes_the_schedule_again(sizes, places, part, seed):
    policy = policy_of(matmul(*sizes), seed=seed)
    dag = policy.search_task.compute_dag
    tensors = dag.tensors
    (number,) = sketches_of(policy)
    given = {("buffers", places[0]): 3, ("tile", places[1]): (1, 16)}
    candidate = next(filter(None, (policy.breeder.annotated(number, given) for _ in range(50))))
    code = dag.print_python_code_from_state(candidate.state)
    assert all(text in code for text in (part, "double_buffer(3)", "mma.float16.float32.mk.nk"))
    s = te.create_schedule(tensors[2].op)
    exec(code, {"s": s, "te": te, "a": tensors[0], "b": tensors[1], tensors[2].op.name: tensors[2]})
    arrays = arrays_of(dag, seed)
    expected = arrays[0].astype("float32") @ arrays[1].astype("float32").T
    np.testing.assert_allclose(cuda_emulator.run(s, tensors, arrays)[-1], expected, rtol=0, atol=1e-4)


@needs_compiler
def test_the_text_of_states_compiles(seed):
    policy = policy_of(epilogue(), seed=seed)
    (candidate,) = states_of(policy, 1, seed)
    schedule, args = policy.search_task.compute_dag.apply_steps_from_state(candidate.state)
    text, _ = emit(lowered_kernels(schedule, args, CUDA), tvm.target.Target(CUDA))
    assert "mma.sync" in text and nvrtc.compile_cuda(text, "sm_80")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_state_that_is_written_and_read_is_the_same_candidate(name, seed):
    policy = policy_of(PROGRAMS[name](), seed=seed)
    for candidate in states_of(policy, 2, seed):
        lines = steps.to_json(candidate.key)
        recovered = policy.breeder.recovered(StateObject((), tuple(map(steps.from_json, lines))))
        assert recovered is not None and recovered.key == candidate.key
        assert str(recovered.state) == str(candidate.state)


@pytest.mark.parametrize("name", sorted(name for name in PROGRAMS if not name.endswith(("split-k", "two products"))))
def test_a_block_has_what_its_lowered_kernel_has(name, seed):
    policy = policy_of(PROGRAMS[name](), seed=seed)
    dag = policy.search_task.compute_dag
    for candidate in states_of(policy, 2, seed):
        schedule, args = dag.apply_steps_from_state(candidate.state)
        lowered = sorted(map(facts, lowered_kernels(schedule, args, CUDA).functions.values()))
        found = sorted(
            (b.blocks, b.threads, b.dynamic_bytes, b.local_bytes) for b in kernels_of(dag, candidate.state).values()
        )
        assert found == lowered, str(candidate.state)


@pytest.mark.parametrize(
    "limit, what",
    [
        ({"max_threads_per_block": 64}, lambda b: b.threads <= 64),
        ({"max_shared_memory_per_block": 6144}, lambda b: b.dynamic_bytes <= 6144),
        ({"max_local_memory_per_block": 8192}, lambda b: b.local_bytes * b.threads <= 8192),
    ],
)
def test_states_keep_to_what_is_said_of_the_machine(limit, what, seed):
    tensors = matmul(128, 128, 64)
    limited = policy_of(tensors, seed=seed, hardware=HardwareParams(target=CUDA, **limit))
    dag = limited.search_task.compute_dag
    assert all(what(b) for c in states_of(limited, 8, seed) for b in kernels_of(dag, c.state).values())
    free = policy_of(tensors, seed=seed)
    assert not all(what(b) for c in states_of(free, 64, seed) for b in kernels_of(dag, c.state).values())


def test_operations_are_counted_and_tensor_cores_are_fast(seed):
    policy = policy_of(matmul(256, 256, 256), seed=seed)
    extractor = GPUFeatureExtractor(policy.search_task.compute_dag, policy.search_task.target.features)
    kernels = [extractor.kernels(c.state) for c in states_of(policy, 16, seed)]
    assert {sum(k.operations for k in made) >= 2 * 256**3 for made in kernels} == {True}
    assert all(k.cycles > 0 and math.isfinite(k.cycles) for made in kernels for k in made)
    fastest = min(sum(k.cycles for k in made) for made in kernels)
    breeder = policy.breeder
    plain = [n for n in range(len(breeder.sketches)) if n not in sketches_of(policy)]
    others = filter(None, (breeder.annotated(random.Random(seed + n).choice(plain), {}) for n in range(16)))
    assert all(sum(k.cycles for k in extractor.kernels(c.state)) > fastest for c in others)


def test_fetching_ahead_costs_less(seed):
    policy = policy_of(matmul(256, 256, 512), seed=seed)
    extractor = GPUFeatureExtractor(policy.search_task.compute_dag, policy.search_task.target.features)
    number = sketches_of(policy)[0]
    # Three times the memory of the first state must fit, so the most buffers are drawn first.
    drawn = filter(None, (policy.breeder.annotated(number, {("buffers", 1): 3}) for _ in range(400)))
    gains = []
    for most in islice(drawn, 8):
        made = [policy.breeder.annotated(number, {**most.decisions, ("buffers", 1): n}) for n in (1, 2, 3)]
        one, two, three = (extractor.kernels(c.state)[0].cycles for c in made)
        assert one >= two >= three
        gains.append(one > two)
    # A kernel that other units bound does not wait for what it fetches.
    assert any(gains)


def test_bad_steps_are_refused():
    dag = ComputeDAG(matmul())
    state = dag.get_init_state()
    with pytest.raises(tvm.TVMError, match="double buffering needs at least two buffers, got 1"):
        state.double_buffer(2, 1)
    with pytest.raises(tvm.TVMError, match="stage number 7 is out of range"):
        steps.replayed(state.state_object, [steps.from_json(["DB", 7, 2])], dag)
    with pytest.raises(tvm.TVMError, match=r"pad of T_dense: pass one factor for each of its 3 axes, got \[16, 16\]"):
        state.pad(2, [16, 16])
    with pytest.raises(tvm.TVMError, match="pad of a: it is not a sum of products of two tensors"):
        state.pad(0, [16, 16])
    assert steps.to_json([steps.from_json(["PD", 2, [16, 16, 8]])]) == [["PD", 2, [16, 16, 8]]]
    with pytest.raises(tvm.TVMError, match="invalid value 'x' for buffers"):
        steps.from_json(["DB", 2, "x"])
    assert steps.to_json([steps.from_json(["DB", 2, 3])]) == [["DB", 2, 3]]
