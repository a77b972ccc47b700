"""Control flow of TensorFlow 1 and 2, lists of tensors, and lookup tables."""

from __future__ import annotations

import tensorflow as tf

from .case import Drawn, case, f, i

raw = tf.raw_ops

# -- control flow of TensorFlow 1 and 2 -------------------------------------------------------------------------------

v1 = tf.compat.v1


def _flow(name: str, build, *inputs: Drawn) -> None:
    """Register a case for each of the two versions of control flow."""

    def of(switch):
        def built(*holders):
            switch()
            return build(*holders)

        return built

    case(f"{name[0]}/{name[2]}", of(v1.disable_control_flow_v2), *inputs)
    case(f"{name[1]}/{name[2]}", of(v1.enable_control_flow_v2), *inputs)


def _loop(x, n, body, invariants=None):
    return v1.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, body(i, a)), [tf.constant(0), x], shape_invariants=invariants
    )[1]


def _collected(x, n, size: int):
    rows = tf.TensorArray("float32", size=3, clear_after_read=False).unstack(x)
    return v1.while_loop(
        lambda i, s, t: i < n,
        lambda i, s, t: (i + 1, s + rows.read(i % 3), t.write(i, s + rows.read(i % 3))),
        [tf.constant(0), tf.zeros([4]), tf.TensorArray("float32", size=size)],
    )[2].stack()


_x, _n = f(3, 4), i(low=5, high=5)
for _k in range(2):
    _flow(
        ("Merge", "StatelessIf", f"known {_k}"),
        lambda x, k=_k: v1.cond(tf.constant(k > 0), lambda: x * 2, lambda: x + 1),
        _x,
    )
    _flow(
        ("Merge", "StatelessIf", f"late {_k}"),
        lambda x, p, k=_k: v1.cond(
            p > k, lambda: x * 2 + 1, lambda: tf.reduce_sum(x, 0, keepdims=True) + tf.zeros_like(x)
        ),
        _x,
        i(low=1, high=1),
    )
    _flow(
        ("Merge", "StatelessIf", f"nested {_k}"),
        lambda x, p, k=_k: v1.cond(
            p > k,
            lambda: (x * 2, tf.constant(1)),
            lambda: (v1.cond(tf.reduce_sum(x) > 0, lambda: x - 1, lambda: x + 5), tf.constant(2)),
        ),
        _x,
        i(low=1, high=1),
    )
_flow(("Exit", "StatelessWhile", "known"), lambda x: _loop(x, 4, lambda i, a: a * 2 + tf.cast(i, "float32")), _x)
_flow(("Exit", "StatelessWhile", "late"), lambda x, n: _loop(x, n, lambda i, a: a * 2 + tf.cast(i, "float32")), _x, _n)
_flow(("Exit", "StatelessWhile", "no step"), lambda x, n: _loop(x, n, lambda i, a: a * 2), _x, i(low=0, high=0))
_flow(
    ("Exit", "StatelessWhile", "nested"),
    lambda x, n: _loop(x, n, lambda i, a: _loop(a, i, lambda j, c: c + 1.0) * 0.5),
    _x,
    _n,
)
_flow(
    ("Exit", "StatelessWhile", "branch"),
    lambda x, n: _loop(x, n, lambda i, a: v1.cond(tf.equal(i % 2, 0), lambda: a + 1.0, lambda: a * 2.0)),
    _x,
    _n,
)
_flow(
    ("Exit", "StatelessWhile", "grows"),
    lambda x, n: _loop(x, n, lambda i, a: tf.concat([a, x[:1]], 0), [tf.TensorShape([]), tf.TensorShape([None, 4])]),
    _x,
    _n,
)
_flow(("TensorArrayWriteV3", "TensorListSetItem", "known"), lambda x: _collected(x, 3, 3), _x)
_flow(("TensorArrayWriteV3", "TensorListSetItem", "late"), lambda x, n: _collected(x, n, 6), _x, _n)
for _k in (-1, 1, 5):
    case(
        f"StatelessCase/{_k}",
        lambda x, n: tf.switch_case(n, [lambda: x + 1, lambda: x * 2, lambda: x - 3]),
        _x,
        i(low=_k, high=_k),
    )
v1.enable_control_flow_v2()

# -- lists and tables -------------------------------------------------------------------------------------------------


def _listed(x):
    return raw.TensorListFromTensor(tensor=x, element_shape=[4])


case(
    "TensorListStack",
    lambda x: raw.TensorListStack(input_handle=_listed(x), element_shape=[4], element_dtype="float32"),
    _x,
)
case(
    "TensorListGetItem",
    lambda x: raw.TensorListGetItem(input_handle=_listed(x), index=1, element_shape=[4], element_dtype="float32"),
    _x,
)
case(
    "TensorListGetItem/late",
    lambda x, n: raw.TensorListGetItem(input_handle=_listed(x), index=n, element_shape=[4], element_dtype="float32"),
    _x,
    i(low=2, high=2),
)
case(
    "TensorListGather",
    lambda x: raw.TensorListGather(input_handle=_listed(x), indices=[2, 0], element_shape=[4], element_dtype="float32"),
    _x,
)
case("TensorListLength", lambda x: raw.TensorListLength(input_handle=_listed(x)), _x)
case(
    "TensorListPushBack",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListPushBack(input_handle=_listed(x), tensor=x[0] * 2),
        element_shape=[4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "TensorListPopBack",
    lambda x: raw.TensorListPopBack(input_handle=_listed(x), element_shape=[4], element_dtype="float32")[1],
    _x,
)
case(
    "TensorListScatterV2",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListScatterV2(tensor=x, indices=[2, 0, 3], element_shape=[4], num_elements=4),
        element_shape=[4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "TensorListConcatV2",
    lambda x: raw.TensorListConcatV2(
        input_handle=_listed(x), element_shape=[4], leading_dims=tf.constant([], "int64"), element_dtype="float32"
    )[0],
    _x,
)
case(
    "TensorListSplit",
    lambda x: raw.TensorListGetItem(
        input_handle=raw.TensorListSplit(tensor=x, element_shape=[-1, 4], lengths=tf.constant([1, 2], "int64")),
        index=1,
        element_shape=[-1, 4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "EmptyTensorList",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListPushBack(
            input_handle=raw.EmptyTensorList(element_shape=[4], max_num_elements=-1, element_dtype="float32"),
            tensor=x[1],
        ),
        element_shape=[4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "TensorListResize",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListResize(input_handle=_listed(x), size=2), element_shape=[4], element_dtype="float32"
    ),
    _x,
)
case(
    "LookupTableFindV2",
    lambda k: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([7, -2, 3], "int64"), tf.constant([0.5, 1.5, 2.5])), -1.0
    ).lookup(k),
    i(9, dtype="int64"),
)
