"""Operators of older programs, which PaddlePaddle 3 has no more, against NumPy, and other names of operators, against
what PaddlePaddle made of the same programs under the first name."""

from __future__ import annotations

import numpy as np
from paddle_cases import CASES, Case
from paddle_writer import Longs, Scalars

X = np.linspace(-2.5, 2.5, 24, dtype="float32").reshape(2, 3, 4)


def _normal(x: np.ndarray, eps: float) -> np.ndarray:
    return (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + np.float32(eps))


# The operator, with what is special behind a slash, inputs, attributes and the result.
_ROWS = [
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
    ("set_value/list of scalars", {"Input": X},
     {"axes": Longs([1]), "starts": Longs([0]), "ends": Longs([3]), "steps": Longs([2]), "dtype": 5,
      "shape": Longs([1]), "values": Scalars([2.5])},
     np.where(np.array([True, False, True])[:, None], np.float32(2.5), X)),
    ("range_v2", {"Start": np.array([1]), "End": np.array([6]), "Step": np.array([2])}, {}, np.array([1, 3, 5])),
    *((kind, {"X": X}, {}, X) for kind in ("memcpy", "memcpy_d2h", "memcpy_h2d", "npu_identity")),
    ("print", {"In": X}, {"message": "x"}, X),
    ("depend", {"X": X, "Dep": X[0]}, {}, X),
    ("fill_zeros_like2", {"X": X}, {"dtype": 5}, np.zeros_like(X)),
    ("skip_layernorm", {"X": X, "Y": X[::-1].copy() ** 2, "Scale": X[0, 0], "Bias": X[0, 1]},
     {"epsilon": 1e-3, "begin_norm_axis": 2}, _normal(X + X[::-1] ** 2, 1e-3) * X[0, 0] + X[0, 1]),
    ("conv2d/bias", {"Input": X[None], "Filter": np.full((1, 2, 1, 1), 0.5, "float32"),
                     "Bias": np.array([3.0], "float32")},
     {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1]}, (X[None].sum(1, keepdims=True) * 0.5 + 3)),
    ("conv2d_transpose_bias", {"Input": X[None], "Filter": np.full((2, 1, 1, 1), 0.5, "float32"),
                               "Bias": np.array([3.0], "float32")},
     {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1]}, (X[None].sum(1, keepdims=True) * 0.5 + 3)),
]  # fmt: skip


def _case(kind: str, inputs: dict, attrs: dict) -> Case:
    return Case([(kind.split("/")[0], {p: [p] for p in inputs}, {"Out": ["y"]}, attrs)], dict(inputs), ["y"])


OLDER: dict[str, tuple[Case, list]] = {
    kind: (_case(kind, inputs, attrs), [wanted]) for kind, inputs, attrs, wanted in _ROWS
}
# Names of operators with the outputs they have, and the cases of the first name that they share.
_NAMES = {
    "multiclass_nms2": ("multiclass_nms3", ("Out", "Index")),
    "multiclass_nms": ("multiclass_nms3", ("Out",)),
    "sync_batch_norm": ("batch_norm", None),
    "conditional_block_infer": ("conditional_block", None),
    **{f"{kind}_interp": (f"{kind}_interp_v2/corners", None) for kind in ("bicubic", "linear", "trilinear")},
}  # fmt: skip


def _renamed(old: str, new: str, outputs: tuple | None, case: Case) -> Case:
    rows = []
    for kind, inputs, made, attrs in case.operators:
        if kind == old:
            kind, made = new, {k: v for k, v in made.items() if outputs is None or k in outputs}
        rows.append((kind, inputs, made, attrs))
    there = {n for _, _, made, _ in rows for v in made.values() for n in ([v] if isinstance(v, str) else v)}
    fetches = [name for name in case.fetches if name in there]
    return Case(rows, case.feeds, fetches, case.weights, case.blocks, case.kinds, case.opened)


def other_names() -> dict[str, tuple[Case, str]]:
    """Programs with other names of operators, and the case whose first results they have."""
    out = {}
    for new, (start, outputs) in _NAMES.items():
        old = start.split("/")[0]
        for name, case in CASES.items():
            if name == start or name.startswith(f"{old}/") and name.startswith(start):
                out[new + name[len(old) :]] = (_renamed(old, new, outputs, case), name)
    return out
