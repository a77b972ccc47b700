"""Access analysis: what kind of operation each one is, and which loops of two run alike."""

from __future__ import annotations

from tvm import te
from tvm.auto_scheduler import ComputeDAG
from tvm.testing import auto_scheduler as workloads


def names(dag: ComputeDAG, holds) -> list[str]:
    return [op.name for op in dag.ops if holds(op)]


def op(dag: ComputeDAG, name: str):
    return next(op for op in dag.ops if op.name == name)


def test_kinds_of_the_operations_of_a_convolution():
    dag = ComputeDAG(workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 9, 9, 3, 4, 3, 1, 1))
    analyzer = dag.access_analyzer
    assert names(dag, analyzer.needs_multi_level_tiling) == ["conv2d"]
    assert names(dag, analyzer.is_strictly_inlineable) == ["Bias_add", "Bn_mul", "Bn_add", "T_relu"]
    assert names(dag, analyzer.is_output) == ["T_relu"]
    assert not analyzer.is_simple_access(op(dag, "conv2d"))
    assert analyzer.is_simple_access(op(dag, "Bn_mul"))


def test_elementwise_consumers_match_through_each_other_and_padding_does_not():
    dag = ComputeDAG(workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 9, 9, 3, 4, 3, 1, 1))
    match = dag.access_analyzer.elementwise_match
    assert match(op(dag, "conv2d"), op(dag, "T_relu"))
    assert match(op(dag, "Bn_mul"), op(dag, "Bn_add"))
    assert not match(op(dag, "pad_temp"), op(dag, "conv2d"))


def test_a_consumer_that_broadcasts_or_transposes_does_not_match_one_that_reads_elements_twice_does():
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 4), lambda i, j: B[j, i] * 2.0, name="C")
    D = te.compute((4, 4), lambda i, j: C[i, 0] + C[i, j], name="D")
    dag = ComputeDAG([A, D])
    analyzer = dag.access_analyzer
    assert not analyzer.elementwise_match(B.op, C.op)
    assert not analyzer.elementwise_match(C.op, D.op)
    assert names(dag, analyzer.is_strictly_inlineable) == ["B", "D"]
    E = te.compute((4, 4), lambda i, j: D[i, j] * 2.0, name="E")
    F = te.compute((4, 4), lambda i, j: D[i, j] + E[i, j], name="F")
    assert ComputeDAG([A, F]).access_analyzer.elementwise_match(D.op, F.op)
    G = te.compute((4, 4), lambda i, j: D[i, j] + E[j, i], name="G")
    assert not ComputeDAG([A, G]).access_analyzer.elementwise_match(D.op, G.op)
    # Nor does one of two that read it, neither of which reads the other.
    H = te.compute((4, 4), lambda i, j: D[i, j] * 3.0, name="H")
    assert not ComputeDAG([A, E, H]).access_analyzer.elementwise_match(D.op, H.op)


def test_common_outer_loops_are_counted_along_all_paths():
    dag = ComputeDAG(workloads.softmax_abcd_auto_scheduler_test(2, 3, 4, 5))
    analyzer = dag.access_analyzer
    count = [
        analyzer.num_common_outer_iterators(op(dag, f"T_softmax_{name}"), dag.ops[-1])
        for name in ("maxelem", "exp", "expsum", "norm")
    ]
    assert count == [3, 3, 3, 4]


def test_choices_by_value_are_cheap_and_choices_by_position_and_transcendental_calls_are_not():
    A = te.placeholder((4,), name="A")
    by_value = te.compute((4,), lambda i: te.if_then_else(A[i] < 0.0, 0.0, A[i]), name="by_value")
    by_position = te.compute((4,), lambda i: te.if_then_else(i < 2, 0.0, by_value[i]), name="by_position")
    exponential = te.compute((4,), lambda i: te.exp(by_position[i]), name="exponential")
    dag = ComputeDAG([A, exponential])
    assert names(dag, dag.access_analyzer.is_strictly_inlineable) == ["by_value"]


def test_a_reduction_without_reuse_and_a_transform_by_constants_are_not_tiled():
    dag = ComputeDAG(workloads.min_nm_auto_scheduler_test(8, 8))
    assert names(dag, dag.access_analyzer.needs_multi_level_tiling) == []
    dag = ComputeDAG(workloads.conv2d_winograd_nhwc_auto_scheduler_test(1, 8, 8, 3, 5, 3, 1, 1))
    assert names(dag, dag.access_analyzer.needs_multi_level_tiling) == ["bgemm"]
