"""Features: of knobs, row by row as one by one; of loops, by counting."""

from __future__ import annotations

import numpy as np

from tvm import te
from tvm.autotvm import feature
from tvm.autotvm.feature import SpaceFeatures
from tvm.autotvm.task.space import ConfigSpace


def test_rows_of_a_space_equal_those_of_its_configurations():
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(96), num_outputs=3)
    cfg.define_knob("unroll", [1, 4, 16])
    cfg.define_knob("pair", [(1, 2), (3, 4)])
    cfg.define_annotate("ann", [cfg.axis(2), cfg.axis(4)], policy="try_unroll_vec")
    indexes = np.random.default_rng(0).integers(0, len(cfg), 50)
    for kind in ("itervar", "knob", "curve"):
        features = SpaceFeatures(cfg, kind)
        rows = features.of_indexes(indexes)
        assert rows.shape[0] == 50
        np.testing.assert_array_equal(rows, features.of_configs([cfg.get(int(i)) for i in indexes]))
        assert len({tuple(r) for r in features.of_indexes(np.arange(len(cfg)))}) == len(cfg)


def gemm():
    a, b = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((16, 16), lambda y, x: te.sum(a[y, k] * b[k, x], axis=k), name="C")
    return te.create_schedule(c.op), [a, b, c]


def test_loops_of_a_product():
    s, args = gemm()
    y, x, k = feature.get_itervar_feature(s, args)
    table = {row[0]: row[1:] for row in y}
    assert table["_attr_"][:4] == [16, 1, 16, 16**3] and table["_attr_"][4 + 9] == 1.0
    assert table["A_0"][:4] == [16, -1, 256, 16] and table["B_0"][:4] == [0, -1, 256, 16]
    table = {row[0]: row[1:] for row in k}
    assert table["_attr_"][:4] == [16, 3, 16**3, 16] and table["_arith_"] == [1, 1, 0]
    assert table["A_0"][:4] == [1, -1, 16, 1] and table["B_0"][:4] == [16, -1, 16, 1]
    assert {row[1] for row in (y[0], x[0], k[0])} and str(k[0][1]) == "k"


def test_annotations_and_flat_features():
    s, args = gemm()
    c = args[2]
    y, x = s[c].op.axis
    s[c].parallel(y)
    s[c].vectorize(x)
    features = feature.get_itervar_feature(s, args, take_log=True)
    words = [row[1][5:] for row in features]
    assert words[0].index(1.0) == 8 and words[1].index(1.0) == 7
    flat = feature.flatten_itervar_feature(features)
    assert len(flat) == len(feature.get_flatten_name(features)) and np.isfinite(flat).all()
    curve = feature.get_buffer_curve_sample_flatten(s, args, sample_n=20)
    assert len(curve) == 3 * 4 * 2 * 20 and np.isfinite(curve).all() and curve.max() > 0


def test_schedules_of_one_program_have_rows_of_one_length(rng):
    lengths = set()
    for _ in range(12):
        s, args = gemm()
        c = args[2]
        axes = [*s[c].tile(*s[c].op.axis, 4, 4), s[c].op.reduce_axis[0]]
        s[c].reorder(*[axes[i] for i in rng.permutation(5)])
        lengths.add(len(feature.get_itervar_feature_flatten(s, args)))
    assert len(lengths) == 1
