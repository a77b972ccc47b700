"""Operators of PaddlePaddle against what PaddlePaddle made of the same programs (cases.npz)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from paddle_cases import Case
from paddle_writer import Longs, Scalars

from tests.relay.frontend.paddle.operator_cases import CASES, check, compare, expected, imported, run
from tvm.ir.type import TupleType
from tvm.relay.frontend.paddlepaddle.table import CONVERTERS
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, ``make conformance-format FORMAT=paddle`` has all.
IMPORTED, COMPILED = 60, 9
# Operators of older programs, which PaddlePaddle 3 has no more and which are compared with NumPy, and other names of
# converters that have cases.
ELSEWHERE = {
    "set_value", "minus", "isnan", "isinf", "isfinite", "rint", "grad_add", "hard_tanh", "reshape", "transpose",
    "flatten", "squeeze", "unsqueeze", "expand_as", "crop", "pad2d", "pad_constant_like", "fill_zeros_like",
    "fill_zeros_like2", "shape64", "one_hot", "bicubic_interp", "linear_interp", "trilinear_interp",
    "conv2d_transpose_bias", "range_v2", "sync_batch_norm", "skip_layernorm", "conditional_block_infer", "memcpy",
    "memcpy_d2h", "memcpy_h2d", "npu_identity", "print", "depend", "multiclass_nms", "multiclass_nms2",
}  # fmt: skip


def _types(case: Case) -> list:
    found = infer_module(imported(case))["main"].checked_type_.ret_type
    return list(found.fields) if isinstance(found, TupleType) else [found]


def test_cases_are_imported_with_the_types_that_paddle_gave(rng):
    count = len(CASES) if os.environ.get("TVM_CONFORMANCE_CASES") else IMPORTED
    for name in rng.choice(sorted(CASES), count, replace=False):
        wanted = expected()[name]
        got = _types(CASES[name])
        assert [(len(t.shape), t.dtype) for t in got] == [(v.ndim, str(v.dtype)) for v in wanted], name
        for t, value in zip(got, wanted):
            sizes = [getattr(d, "value", None) for d in t.shape]
            assert all(s in (None, d) for s, d in zip(sizes, value.shape)), name


def test_a_sample_of_cases_gives_what_paddle_gave(rng):
    count = len(CASES) if os.environ.get("TVM_CONFORMANCE_CASES") else COMPILED
    for name in rng.choice(sorted(CASES), count, replace=False):
        check(name)


def test_every_operator_has_a_case():
    have = {name.split("/")[0] for name in CASES}
    assert not set(CONVERTERS.names()) - have - ELSEWHERE
    assert ELSEWHERE <= set(CONVERTERS.names()), "an operator that is tested elsewhere has no converter"


# -- what PaddlePaddle 3 has no more, against NumPy -------------------------------------------------------------------


def _one(kind: str, inputs: dict, attrs: dict, out: str = "Out") -> list:
    case = Case([(kind, {p: [p] for p in inputs}, {out: ["y"]}, attrs)], dict(inputs), ["y"])
    return run(imported(case), case.feeds)


X = np.linspace(-2.5, 2.5, 24, dtype="float32").reshape(2, 3, 4)


def _normal(x: np.ndarray, eps: float) -> np.ndarray:
    return (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + np.float32(eps))


@pytest.mark.parametrize(("kind", "inputs", "attrs", "wanted"), [
    ("minus", {"X": X, "Y": X[0]}, {}, X - X[0]),
    ("grad_add", {"X": X, "Y": X[0]}, {}, X + X[0]),
    ("isnan", {"X": X}, {}, np.array([False])),
    ("isinf", {"X": np.where(X > 0, np.float32("inf"), X)}, {}, np.array([True])),
    ("isfinite", {"X": X}, {}, np.array([True])),
    ("rint", {"X": X}, {}, np.rint(X)),
    ("hard_tanh", {"X": X}, {"t_min": -1.0, "t_max": 2.0}, np.clip(X, -1, 2)),
    ("reshape", {"X": X}, {"shape": [0, -1]}, X.reshape(2, 12)),
    ("transpose", {"X": X}, {"axis": [1, 2, 0]}, X.transpose(1, 2, 0)),
    ("flatten", {"X": X}, {"axis": 2}, X.reshape(6, 4)),
    ("squeeze", {"X": X[:1]}, {"axes": [0]}, X[0]),
    ("unsqueeze", {"X": X}, {"axes": [1]}, X[:, None]),
    ("expand_as", {"X": X[:, :1], "target_tensor": X}, {}, np.tile(X[:, :1], (1, 3, 1))),
    ("crop", {"X": X}, {"shape": [1, 2, 3], "offsets": [1, 1, 0]}, X[1:, 1:3, :3]),
    ("pad2d", {"X": X[None]}, {"paddings": [1, 0, 2, 1], "mode": "edge"},
     np.pad(X[None], [(0, 0), (0, 0), (1, 0), (2, 1)], "edge")),
    ("pad_constant_like", {"X": X, "Y": X[:1, :2]}, {"pad_value": 1.5},
     np.pad(X[:1, :2], [(0, 1), (0, 1), (0, 0)], constant_values=1.5)),
    ("fill_zeros_like", {"X": X}, {}, np.zeros_like(X)),
    ("shape64", {"Input": X}, {}, np.array([2, 3, 4])),
    ("one_hot", {"X": np.array([[1], [3]])}, {"depth": 4, "dtype": 5}, np.eye(4, dtype="float32")[[1, 3]]),
    ("set_value", {"Input": X}, {"axes": Longs([1]), "starts": Longs([0]), "ends": Longs([3]), "steps": Longs([2]),
                                 "dtype": 5, "shape": Longs([1]), "values": Scalars([2.5])},
     np.where(np.array([True, False, True])[:, None], np.float32(2.5), X)),
    ("range_v2", {"Start": np.array([1]), "End": np.array([6]), "Step": np.array([2])}, {}, np.array([1, 3, 5])),
    ("memcpy", {"X": X}, {}, X),
    ("skip_layernorm", {"X": X, "Y": X[::-1].copy() ** 2, "Scale": X[0, 0], "Bias": X[0, 1]},
     {"epsilon": 1e-3, "begin_norm_axis": 2}, _normal(X + X[::-1] ** 2, 1e-3) * X[0, 0] + X[0, 1]),
    ("conv2d", {"Input": X[None], "Filter": np.full((1, 2, 1, 1), 0.5, "float32"), "Bias": np.array([3.0], "float32")},
     {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1]}, (X[None].sum(1, keepdims=True) * 0.5 + 3)),
    ("conv2d_transpose_bias", {"Input": X[None], "Filter": np.full((2, 1, 1, 1), 0.5, "float32"),
                               "Bias": np.array([3.0], "float32")},
     {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1]}, (X[None].sum(1, keepdims=True) * 0.5 + 3)),
])  # fmt: skip
def test_operators_of_older_programs(kind, inputs, attrs, wanted):
    compare(_one(kind, inputs, attrs), [wanted])


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    for wrong in (X + np.float32(1e-3), X.astype("float64"), X[0]):
        with pytest.raises(AssertionError):
            compare([wrong], [X])
