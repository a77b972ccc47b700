"""Sketches for GPUs: their number and their loops, compared with texts in ``golden/``. ``TVM_UPDATE_GOLDEN=1`` writes
them anew: read the change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.auto_scheduler.gpu_tasks import CUDA, depthwise, norms, policy_of, row_norm, task_of
from tvm import auto_scheduler
from tvm.auto_scheduler import HardwareParams, PreloadCustomSketchRule, _ffi_api
from tvm.auto_scheduler.gpu_rules import gpu_rules
from tvm.auto_scheduler.loop_state import State
from tvm.auto_scheduler.sketch_rules import generate
from tvm.testing import auto_scheduler as workloads

GOLDEN = Path(__file__).parent / "golden"
SHAPES = {
    "gpu_matmul": (workloads.matmul_auto_scheduler_test, (512, 512, 512)),
    "gpu_small_matmul": (workloads.matmul_auto_scheduler_test, (8, 8, 512)),
    "gpu_conv2d": (workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 56, 56, 512, 512, 3, 1, 1)),
    "gpu_depthwise": (depthwise, (96, 56)),
    "gpu_max_pool2d": (workloads.max_pool2d_auto_scheduler_test, (1, 56, 56, 512, 1)),
    "gpu_softmax": (workloads.softmax_abcd_auto_scheduler_test, (1, 12, 128, 128)),
    "gpu_norms": (norms, (16, 256, 256)),
    "gpu_row_norm": (row_norm, (128, 768)),
    "gpu_winograd": (workloads.conv2d_winograd_nhwc_auto_scheduler_test, (1, 28, 28, 128, 128, 3, 1, 1)),
}
COUNTS = {
    "gpu_matmul": 1,
    "gpu_small_matmul": 5,
    "gpu_conv2d": 1,
    "gpu_depthwise": 1,
    "gpu_max_pool2d": 1,
    "gpu_softmax": 4,
    "gpu_norms": 2,
    "gpu_row_norm": 4,
    "gpu_winograd": 1,
}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_sketches_are_those_of_the_text(name):
    found = policy_of(*SHAPES[name]).generate_sketches()
    text = "".join(f"sketch {number}\n{sketch}\n" for number, sketch in enumerate(found))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TVM_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert len(found) == COUNTS[name]
    assert text == path.read_text(encoding="utf-8")


def test_operands_that_two_products_share_have_a_copy_for_each():
    (found,) = policy_of(workloads.parallel_matmul_auto_scheduler_test, (64,)).generate_sketches()
    names = [stage.op.name for stage in found.stages]
    assert len([name for name in names if name.startswith("A.shared")]) == 2
    assert _ffi_api.SearchPolicyUtilsIsTiled(found.stages[names.index("D.local")])


def test_rows_that_threads_read_beside_each_other_are_kept_apart_in_shared_memory():
    """Of a product, the left operand is read along its rows by the reduction alone, the right one by elements."""
    (found,) = policy_of(workloads.matmul_auto_scheduler_test, (512, 512, 64)).generate_sketches()
    offsets = {stage.op.name: stage.storage_offset for stage in found.stages if stage.op.name.endswith(".shared")}
    assert offsets == {"A.shared": 4, "B.shared": 0}


@pytest.mark.parametrize("sizes, multiprocessors, expected", [
    # Few elements and many terms; parts have at least 64 terms each.
    ((128, 768, 3072), 132, [2, 4, 8, 16]), ((128, 768, 512), 132, [2, 4, 8]), ((128, 768, 192), 132, []),
    # Blocks of 1,024 elements fill a smaller machine; where they just do not, more parts would only wait.
    ((128, 768, 3072), 64, []), ((8, 1000, 3072), 8, [2, 4, 8, 16]), ((96, 96, 3072), 9, [2, 4, 8, 16]),
    ((1024, 1024, 3072), 132, []), ((128, 768, 3 * 5 * 67), 132, []),
])  # fmt: skip
def test_long_reductions_are_split_where_blocks_do_not_fill_the_machine(sizes, multiprocessors, expected):
    task = task_of(workloads.matmul_auto_scheduler_test, sizes)
    sketches = generate(task.compute_dag, task.hardware_params, "SSSRRSRS", gpu_rules(multiprocessors))
    partial = [stage.op for sketch in sketches for stage in sketch.stages if stage.op.name == "C.rf"]
    assert [op.axis[0].dom.extent.value for op in partial] == expected
    for sketch in sketches:
        # Only blocks go along the parts of a reduction.
        names = [it.name for stage in sketch.stages if stage.op.name == "C.rf" for it in stage.iters]
        assert not names or "k.outer" in names[0] and not any("k.outer" in name for name in names[1:])


def test_what_is_asked_of_sketches_by_scripts_holds_on_gpus():
    sketches = policy_of(workloads.matmul_auto_scheduler_test, (8, 8, 512)).generate_sketches()
    across, tiled, *parts = sketches
    assert _ffi_api.SearchPolicyUtilsHasCrossThreadReduction(across, 2)
    assert all(any(stage.op.name == "C.rf" for stage in sketch.stages) for sketch in parts) and len(parts) == 3
    assert _ffi_api.SearchPolicyUtilsHasCacheReadStage(tiled, 0)
    assert _ffi_api.SearchPolicyUtilsHasCacheWriteStage(tiled, 4)


def test_rules_ask_what_a_target_can_do_and_not_its_name():
    texts = []
    for target in (CUDA, "opencl"):
        hardware = HardwareParams(target=CUDA)
        policy = policy_of(workloads.softmax_nm_auto_scheduler_test, (64, 256), target, hardware=hardware)
        texts.append([str(sketch) for sketch in policy.generate_sketches()])
    assert texts[0] == texts[1]


def test_stages_that_a_users_rule_leaves_plain_get_blocks_and_threads():
    def apply(policy, state, stage_id):
        state = auto_scheduler.loop_state.State(state, policy.search_task.compute_dag)
        C = state.stage_ops[2]
        state.reorder(C, [state[C].iters[i] for i in (1, 0, 2)])
        return [[state.state_object, -1]]

    rule = PreloadCustomSketchRule(lambda *at: PreloadCustomSketchRule.APPLY_AND_SKIP_REST, apply)
    policy = policy_of(workloads.matmul_auto_scheduler_test, (16, 64, 8), init_search_callbacks=[rule])
    (sketch,) = policy.generate_sketches()
    assert [it.name for it in sketch.stages[2].iters] == ["j", "i", "k"]
    table = {number: name for name, number in State.ANNOTATION_TRANS_TABLE.items()}
    iters = policy.breeder.random().state.stages[2].iters
    assert [(it.name, table[it.annotation]) for it in iters] == [
        ("j@i@.0", "blockIdx.x"),
        ("j@i@.1", "threadIdx.x"),
        ("k", "none"),
    ]


def test_structures_that_do_not_begin_with_three_levels_of_elements_are_refused():
    for structure in ("SSRSRS", "SSSRS", "SSSS"):
        with pytest.raises(ValueError, match=f"gpu_multi_level_tiling_structure.*'{structure}'"):
            policy_of(
                workloads.matmul_auto_scheduler_test, (8, 8, 8), params={"gpu_multi_level_tiling_structure": structure}
            )
