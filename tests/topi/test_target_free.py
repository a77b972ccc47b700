"""Operators are mathematics: they compute the same tensors whatever the current target is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tvm
from tvm import te, topi
from tvm.te.graph import post_order_ops

TARGETS = ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1",
           "cuda -arch=sm_90", "opencl", "opencl -device=mali")  # fmt: skip


def tensors(*shapes, dtype="float32"):
    return [te.placeholder(shape, dtype, name=f"p{i}") for i, shape in enumerate(shapes)]


# What operators must not import, of ``topi`` or of the package.
TEMPLATES = ("cpu", "gpu", "schedule", "target", "autotvm")
# Each gives inputs and results.
OPERATORS = {
    "dense": lambda: (p := tensors((100, 64), (50, 64)), topi.nn.dense(*p)),
    "dense with a bias": lambda: (p := tensors((100, 64), (50, 64), (50,)), topi.nn.dense(*p)),
    "dense in half precision": lambda: (
        p := tensors((64, 64), (64, 64), dtype="float16"), topi.nn.dense(*p, out_dtype="float32")),
    "matmul": lambda: (p := tensors((33, 64), (64, 50)), topi.nn.matmul(*p)),
    "batch_matmul": lambda: (p := tensors((6, 31, 64), (6, 47, 64)), topi.nn.batch_matmul(*p)),
    "conv2d": lambda: (p := tensors((1, 16, 20, 20), (32, 16, 3, 3)), topi.nn.conv2d(*p, 1, 1, 1)),
    "conv2d channels last": lambda: (
        p := tensors((1, 20, 20, 16), (3, 3, 16, 32)), topi.nn.conv2d_nhwc(*p, 2, 1, 1)),
    "group_conv2d": lambda: (p := tensors((1, 16, 9, 9), (32, 4, 3, 3)), topi.nn.group_conv2d_nchw(*p, 1, 1, 1, 4)),
    "depthwise_conv2d": lambda: (
        p := tensors((1, 16, 9, 9), (16, 1, 3, 3)), topi.nn.depthwise_conv2d_nchw(*p, 1, 1, 1)),
    "depthwise_conv2d channels last": lambda: (
        p := tensors((1, 9, 9, 16), (3, 3, 16, 2)), topi.nn.depthwise_conv2d_nhwc(*p, 1, 1, 1)),
    "conv1d": lambda: (p := tensors((1, 16, 40), (32, 16, 3)), topi.nn.conv1d_ncw(*p, 1, 1, 1)),
    "conv3d": lambda: (p := tensors((1, 8, 6, 7, 7), (16, 8, 3, 3, 3)), topi.nn.conv3d_ncdhw(*p, 1, 1, 1)),
    "conv2d_transpose": lambda: (
        p := tensors((1, 16, 7, 7), (16, 24, 4, 4)), topi.nn.conv2d_transpose_nchw(*p, 2, 1, "float32", 0)),
    "conv2d_NCHWc": lambda: (
        p := tensors((1, 2, 9, 9, 8), (4, 2, 3, 3, 8, 8)), topi.nn.conv2d_NCHWc(*p, 1, 1, 1)),
    "dense_pack": lambda: (p := tensors((7, 64), (5, 64, 16)), topi.nn.dense_pack(*p, units=70)),
    "conv2d_winograd": lambda: (
        p := tensors((1, 8, 12, 12), (4, 4, 8, 16)), topi.nn.conv2d_winograd_nchw(*p, 1)),
    "sort": lambda: (p := tensors((7, 133)), topi.sort(*p)),
    "topk": lambda: (p := tensors((7, 133)), topi.topk(*p, 5)),
    "cumsum": lambda: (p := tensors((7, 1330)), topi.cumsum(*p, 1)),
    "argwhere": lambda: (p := tensors((7, 13)), topi.argwhere((91, 2), *p)),
    "unique": lambda: (p := tensors((50,), dtype="int32"), topi.unique(*p)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_the_same_stages_and_loops_for_every_target(name):
    def seen():
        given, made = OPERATORS[name]()
        outs = list(made) if isinstance(made, (list, tuple)) or not isinstance(made, te.Tensor) else [made]
        stages = [
            (op.name, op.tag, [list(map(str, op.output(i).shape)) for i in range(op.num_outputs)], op.attrs)
            for op in post_order_ops([t.op for t in outs])
        ]
        return stages, te.create_prim_func([*given, *outs]).script()

    plain = seen()
    assert not any("workload" in (attrs or {}) for *_, attrs in plain[0])
    for target in TARGETS:
        with tvm.target.Target(target):
            assert seen() == plain, target


def test_the_example_of_a_dense_layer_is_one_stage_on_a_gpu():
    with tvm.target.Target("cuda"):
        given, out = OPERATORS["dense"]()
    assert [op.name for op in post_order_ops([out.op])] == ["p0", "p1", "T_dense"]


@pytest.mark.parametrize("kind, named", [("cuda", topi.cuda), ("opencl", topi.mali)])
def test_schedules_of_devices_work_on_plain_computations_and_on_their_own(kind, named):
    a, b = tensors((100, 64), (56, 64))
    for make in (topi.nn.dense, named.dense):
        with tvm.target.Target(kind):
            out = topi.nn.relu(make(a, b))
            lowered = tvm.lower(named.schedule_dense([out]), [a, b, out])
        assert "blockIdx.x" in str(lowered)


def test_the_mathematics_imports_no_template():
    folder = Path(topi.nn.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                first = (node.module or "").partition(".")[0]
                assert first not in TEMPLATES, f"{path.name} imports {node.module}"
