"""The sketch rule of matrix registers: what it fits, and that states with products of tiles compute what plain loops
do. The registers are emulated."""

from __future__ import annotations

import platform
import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.programs import arrays_of, run, run_schedule
from tests.auto_scheduler.test_intrinsic_rule import SMALL, dense, names_in, policy_of
from tests.tile_emulator import registers
from tvm import auto_scheduler, relay, te, topi
from tvm.auto_scheduler import (
    ApplyHistoryBest,
    LayoutRewriteOption,
    MeasureInput,
    MeasureResult,
    SearchTask,
    SketchPolicy,
    steps,
)
from tvm.auto_scheduler.annotation_steps import TensorizeStep
from tvm.auto_scheduler.intrinsics import tensor_intrin
from tvm.auto_scheduler.layout_rewrite import layouts_of
from tvm.auto_scheduler.queries import is_tiled
from tvm.auto_scheduler.state import StateObject
from tvm.auto_scheduler.state_features import NAMES, FeatureExtractor, estimated_speed
from tvm.contrib import graph_executor

AMX = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2"
BYTES_ALONE = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -mattr=+amx-tile,+amx-int8"


def matmul(m=64, n=32, k=96, dtype="bfloat16", out="float32"):
    a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((k, n), dtype, name="b")
    return [a, b, topi.nn.relu(topi.nn.matmul(a, b, out_dtype=out))]


def batches(dtype="uint8", out="int32"):
    a, b = te.placeholder((3, 32, 64), dtype, name="a"), te.placeholder((3, 48, 64), dtype, name="b")
    return [a, b, topi.nn.batch_matmul(a, b, out_dtype=out)]


def convolution(size=8, channels=64, filters=32, taps=3, stride=1, dilation=1, dtype="int8", out="int32"):
    a = te.placeholder((1, size, size, channels), dtype, name="a")
    b = te.placeholder((taps, taps, channels, filters), dtype, name="b")
    return [a, b, topi.nn.relu(topi.nn.conv2d_nhwc(a, b, stride, taps // 2, dilation, out))]


def twice():
    """The rhs of a product is made of another one, in front of which its own operands are."""
    a, b = te.placeholder((32, 64), "int8", name="a"), te.placeholder((64, 64), "int8", name="b")
    c = te.placeholder((16, 64), "int8", name="c")
    return [a, b, c, topi.nn.dense(c, topi.cast(topi.nn.dense(a, b, out_dtype="int32"), "int8"), out_dtype="int32")]


def largest():
    """The largest product of each pair of rows, which is no sum."""
    a, b = te.placeholder((32, 64), "int8", name="a"), te.placeholder((32, 64), "int8", name="b")
    k = te.reduce_axis((0, 64), name="k")
    return [a, b, te.compute((32, 32), lambda i, j: te.max(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k))]


def squared():
    a = te.placeholder((32, 64), "int8", name="a")
    return [a, topi.nn.dense(a, a, out_dtype="int32")]


def tiles_in(policy):
    return {name.partition(".")[2] for name in names_in(policy) if name.startswith("tiles.")}


@pytest.mark.parametrize("tensors, expected", [
    # Two tiles by two, in registers for all of k or for sixteen tiles of it; the lhs where it lies, or in tiles.
    (dense(64, 64, 128), {"int8.int8/2x16x2x16x2x64x1x1x1", "int8.int8.packed/2x16x2x16x2x64x1x1x1"}),
    (dense(32, 48, 64, "uint8"), {"uint8.int8/2x16x1x16x1x64x1x1x1", "uint8.int8.packed/2x16x1x16x1x64x1x1x1"}),
    (matmul(k=1024), {f"bfloat16.bfloat16{packed}/2x16x2x16x{steps}x32x1x1x1"
                      for packed in ("", ".packed") for steps in (16, 32)}),
    (batches(), {"uint8.uint8/2x16x1x16x1x64x1x1x1", "uint8.uint8.packed/2x16x1x16x1x64x1x1x1"}),
    (convolution(), {"int8.int8/1x8x2x16x1x64x3x3x1"}),
    (convolution(28, stride=2), {"int8.int8/1x14x2x16x1x64x3x3x2"}),
    (convolution(28, channels=128), {"int8.int8/2x14x2x16x1x64x3x3x1", "int8.int8/2x14x2x16x2x64x3x3x1"}),
    # Taps apart from each other are loops around.
    (convolution(dilation=2), {"int8.int8/1x6x2x16x1x64x1x1x1"}),
    # What is padded is copied, so it is copied into tiles.
    (dense(50, 40, 100), {"int8.int8.packed/2x13x1x16x2x52x1x1x1"}),
    # Other types, no sum, two factors that are one.
    (matmul(out="bfloat16"), set()), (dense(64, 64, 64, "float32", "float32", "float32"), set()), (largest(), set()),
    (squared(), set()),
])  # fmt: skip
def test_sketches_have_the_blocks_that_fit(tensors, expected):
    policy = policy_of(tensors, AMX)
    assert tiles_in(policy) == expected
    plain = [sketch for sketch in policy.breeder.sketches
             if not any(isinstance(step, TensorizeStep) for step in sketch.transform_steps)]  # fmt: skip
    assert plain and ("vpdpbusd" in str(names_in(policy))) is (
        tensors[0].dtype == "uint8" and len(expected) > 1 and tensors[1].dtype == "int8"
    )


def test_sketches_have_what_the_target_has():
    assert tiles_in(policy_of(dense(64, 64, 64), BYTES_ALONE)) and not tiles_in(policy_of(matmul(), BYTES_ALONE))
    assert not tiles_in(policy_of(dense(64, 64, 64), "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"))


def test_operands_of_a_product_of_tiles_have_sketches_of_their_own():
    """Both products of a chain are by tiles in some sketch, and the first is left plain in none."""
    found = [[step.intrinsic for step in sketch.transform_steps if isinstance(step, TensorizeStep)]
             for sketch in policy_of(twice(), AMX).breeder.sketches]  # fmt: skip
    assert any(len(names) == 2 and all(name.startswith("tiles.") for name in names) for names in found)
    for sketch in policy_of(twice(), AMX).breeder.sketches:
        assert all(is_tiled(stage) for stage in sketch.stages if getattr(stage.op, "reduce_axis", ()))


def test_axes_that_are_not_to_be_split_are_not():
    tensors = dense(64, 64, 64)
    tensors[2].op.attrs["auto_scheduler_no_split_at_outer"] = [tensors[2].op.reduce_axis[0].var.name]
    assert not tiles_in(policy_of(tensors, AMX))


def states_of(policy, count):
    """States with products of tiles, one for each intrinsic at least where there are enough."""
    found = {}
    for _ in range(100 * count):
        made = policy.breeder.random()
        names = [step.intrinsic for step in made.key if isinstance(step, TensorizeStep)] if made is not None else []
        if names and names[0].startswith("tiles."):
            found.setdefault(names[0], {})[made.key] = made
        if sum(map(len, found.values())) >= 2 * count:
            break
    assert found
    chosen = [made for several in found.values() for made in list(several.values())[: -(-count // len(found))]]
    return chosen


@pytest.mark.parametrize("tensors", [
    *(dense(32, 64, 128, lhs, rhs) for lhs in ("int8", "uint8") for rhs in ("int8", "uint8")),
    dense(3, 7, 12), dense(50, 40, 100, "uint8"), dense(1, 64, 70), dense(64, 64, 1280),
    matmul(dtype="int8", out="int32"), matmul(17, 33, 70, "uint8", "int32"),
    batches(), batches("int8"), convolution(), convolution(stride=2), convolution(dilation=2), convolution(18, 30, 20),
    twice(), convolution(10, 8, 16, 1), convolution(14, 128, 48, 5), convolution(13, 64, 16, 1, 2),
], ids=lambda tensors: "-".join(str(tuple(map(int, t.shape))) + t.dtype for t in tensors[:2]))  # fmt: skip
def test_states_compute_what_plain_loops_compute(tensors, seed):
    policy = policy_of(tensors, AMX, random.Random(seed).getrandbits(30))
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    assert expected.any()
    for candidate in states_of(policy, 3):
        line = steps.to_json(candidate.key)
        read = StateObject((), tuple(map(steps.from_json, line)))
        with registers():
            np.testing.assert_array_equal(run(dag, read, arrays)[-1], expected, err_msg=str(candidate.state))
        assert steps.to_json(read.transform_steps) == line
        recovered = policy.breeder.recovered(read)
        assert recovered is not None and recovered.key == candidate.key


@pytest.mark.parametrize("tensors", [
    matmul(), matmul(17, 33, 70), matmul(32, 32, 2048), batches("bfloat16", "float32"),
    convolution(dtype="bfloat16", out="float32"),
], ids=lambda tensors: "-".join(str(tuple(map(int, t.shape))) for t in tensors[:2]))  # fmt: skip
def test_sums_of_bfloat16_differ_by_the_order_of_their_terms(tensors, seed):
    policy = policy_of(tensors, AMX, random.Random(seed).getrandbits(30))
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    terms = np.prod([axis.dom.extent.value for op in dag.ops for axis in getattr(op, "reduce_axis", ())])
    for candidate in states_of(policy, 3):
        with registers():
            made = run(dag, candidate.state, arrays)[-1]
        # Terms are at most one, and each of their partial sums is rounded.
        np.testing.assert_allclose(made, expected, rtol=0, atol=float(terms) ** 1.5 * 2**-24)


@pytest.mark.parametrize("tensors", [
    dense(64, 64, 128), dense(64, 64, 2048), dense(32, 32, 64), convolution(), convolution(taps=1),
    matmul(dtype="int8", out="int32"),
], ids=["dense", "long", "panel", "convolution", "one tap", "matmul"])  # fmt: skip
def test_constants_are_stored_as_tiles_are_loaded(tensors, seed):
    product = tensors[2].op if tensors[2].op.reduce_axis else tensors[2].op.input_tensors[0].op
    product.attrs["layout_free_placeholders"] = [tensors[1]]
    policy = policy_of(tensors, AMX, seed)
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    for candidate in states_of(policy, 2):
        assert not any(stage.op.name.startswith("b.") for stage in candidate.state.stages)
        (layout,) = layouts_of(dag, candidate.key).values()
        stored = [*arrays[:1], layout.store(arrays[1]), *arrays[2:]]
        # Where they are not stored so, the program puts them in order.
        for option, given in ((LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED, stored),
                              (LayoutRewriteOption.INSERT_TRANSFORM_STAGE, arrays),
                              (LayoutRewriteOption.NO_REWRITE, arrays)):  # fmt: skip
            with registers():
                made = run_schedule(*dag.apply_steps_from_state(candidate.state, option), given)
            np.testing.assert_array_equal(made[-1], expected)


@pytest.mark.parametrize("shape", [(32, 1, 64), (32, 32, 4)])
def test_constants_without_the_dimensions_of_a_panel_are_copied(shape, seed):
    tensors = dense(*shape)
    tensors[2].op.attrs["layout_free_placeholders"] = [tensors[1]]
    policy = policy_of(tensors, AMX, seed)
    dag = policy.search_task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)[-1]
    for candidate in states_of(policy, 2):
        assert any(stage.op.name.startswith("b.") for stage in candidate.state.stages)
        for option in (LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED, LayoutRewriteOption.NO_REWRITE):
            with registers():
                made = run_schedule(*dag.apply_steps_from_state(candidate.state, option), arrays)
            np.testing.assert_array_equal(made[-1], expected)


@pytest.mark.usual_code
@pytest.mark.parametrize("tensors, instruction", [
    (dense(32, 32, 64), "tdpbssd"), (dense(32, 32, 64, "uint8"), "tdpbusd"), (matmul(), "tdpbf16ps"),
    (convolution(), "tdpbssd"),
], ids=["int8", "uint8", "bfloat16", "convolution"])  # fmt: skip
def test_states_have_the_instruction_and_keep_sums_in_registers(tensors, instruction, seed):
    policy = policy_of(tensors, AMX, random.Random(seed).getrandbits(30))
    for candidate in states_of(policy, 2):
        schedule, args = policy.search_task.compute_dag.apply_steps_from_state(candidate.state)
        code = tvm.build(schedule, args, AMX).get_source("asm")
        products, stores = (code.count(f"\t{name}\t") for name in (instruction, "tilestored"))
        # All terms are in the intrinsic, so each sum is stored once however many products are added to it.
        assert products >= stores > 0


def test_a_product_of_tiles_is_estimated_by_the_rows_it_multiplies():
    policy = policy_of(dense(256, 256, 256), AMX)
    extractor = FeatureExtractor.of(policy.search_task)
    rows = {}
    for candidate in states_of(policy, 8):
        name = next(step.intrinsic for step in candidate.key if isinstance(step, TensorizeStep))
        rows[name] = extractor.rows(candidate.state)
    product = rows["tiles.int8.int8/2x16x2x16x4x64x1x1x1"][-1]
    found = {name: round(float(np.exp2(product[NAMES.index(name)]) - 1))
             for name in ("body vectors", "carried terms", "body loads", "spilled")}  # fmt: skip
    # Four products of sixteen rows, for which two tiles of either operand are loaded, four times.
    assert found == {"body vectors": 128, "carried terms": 4, "body loads": 64, "spilled": 0}
    assert extractor.can_be_built(product[None, None]).all()


def test_products_of_tiles_are_estimated_to_be_the_fastest_of_constants():
    for tensors in (dense(256, 256, 256), dense(256, 256, 256, "uint8"), matmul(256, 256, 256)):
        product = tensors[2].op if tensors[2].op.reduce_axis else tensors[2].op.input_tensors[0].op
        product.attrs["layout_free_placeholders"] = [tensors[1]]
        policy = policy_of(tensors, AMX)
        extractor = FeatureExtractor.of(policy.search_task)
        best = max(policy._by_estimate(8), key=lambda one: float(estimated_speed(extractor.rows(one.state)[None])[0]))
        assert any(isinstance(step, TensorizeStep) and step.intrinsic.startswith("tiles.") for step in best.key)


@pytest.mark.parametrize("name, message", [
    ("tiles.int8.int8", "no back end has declared"), ("tiles.int8.int8/2x16", "no back end has declared"),
    ("tiles.int8.int8/2x16x2x16x2x64x1x1x1x", "no back end has declared"),
    ("tiles.int8.int8/2x16x2x16x02x64x1x1x1", "no back end has declared"),
    ("llvm.x86.avx512.vpdpbusd.512.by_rows/1x1x1x1x1x1x1x1x1", "no back end has declared"),
    ("tiles.int8.int8/2x17x2x16x2x64x1x1x1", "cannot hold"), ("tiles.int8.int8/2x16x2x17x2x64x1x1x1", "cannot hold"),
    ("tiles.int8.int8/2x16x2x16x2x66x1x1x1", "cannot hold"), ("tiles.int8.int8/2x16x3x16x2x64x1x1x1", "cannot hold"),
    ("tiles.int8.int8/2x16x2x16x0x64x1x1x1", "cannot hold"), ("tiles.int8.int8.packed/2x16x2x16x2x64x3x3x1",
                                                              "cannot hold"),
    ("tiles.bfloat16.bfloat16/2x16x2x16x2x64x1x1x1", "cannot hold"),
])  # fmt: skip
def test_names_of_no_block_are_refused(name, message):
    with pytest.raises(tvm.TVMError, match=message):
        tensor_intrin(name)


@pytest.mark.parametrize("is_constant, opt_level", [(True, 3), (True, 2), (False, 3)])
def test_records_of_models_fit_weights_that_are_stored_and_others(is_constant, opt_level, seed):
    """A record is of a kernel whether its weights are constant or not; those that are not are put in order."""
    rng = np.random.default_rng(seed)
    x, w = rng.integers(-128, 128, (32, 64), dtype="int8"), rng.integers(-128, 128, (64, 64), dtype="int8")
    data, weight = relay.var("data", shape=x.shape, dtype="int8"), relay.var("weight", shape=w.shape, dtype="int8")
    given = [relay.const(w), weight]
    mods = [
        tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))
        for y in (relay.nn.dense(data, one, out_dtype="int32") for one in given)
    ]
    # Dot products of bytes would store constant weights with the sums that unsigned data need.
    target = "llvm -mattr=-avx512vnni,-avxvnni" if platform.machine() == "x86_64" else "llvm"
    ((task,), _) = auto_scheduler.extract_tasks(mods[0], {}, target)
    assert task.compute_dag.layout_free_placeholders
    searched = SearchTask(compute_dag=task.compute_dag, workload_key=task.workload_key, target=AMX,
                          layout_rewrite_option=task.layout_rewrite_option)  # fmt: skip
    candidate = states_of(SketchPolicy(searched, params=SMALL, seed=seed, verbose=0), 1)[0]
    pair = MeasureInput(task, candidate.state), MeasureResult([1e-3], 0, "", 0.1, 1)
    config = {"relay.backend.use_auto_scheduler": True}
    with registers(), ApplyHistoryBest([pair]), tvm.transform.PassContext(opt_level=opt_level, config=config):
        library = relay.build(mods[0 if is_constant else 1], target=target)
        module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("data", x)
    if not is_constant:
        module.set_input("weight", w)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), x.astype("int32") @ w.T.astype("int32"))
    assert "tilestored" in str(library.get_lib().get_source("ll"))
