"""Converters of the ai.onnx.ml domain and TfIdfVectorizer: n-gram counts, tree ensembles, label encoders, linear
models.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .load import check_count
from .small_types import STRING, small_type, to_carrier
from .table import check_steps, op


@op("TfIdfVectorizer")
def tf_idf_vectorizer(ctx, inputs, attrs):
    """Count the n-grams of a row that occur in the pool; up to max_skip_count elements between their members are
    skipped.
    """
    if attrs.get("pool_strings"):
        raise TVMError("n-grams of strings (pool_strings) are not supported")
    x = inputs[0]
    length = ctx.known_shape(x)[-1]
    shortest, longest = attrs["min_gram_length"], attrs["max_gram_length"]
    check_steps("an n-gram", longest)
    starts = [*attrs["ngram_counts"], len(attrs["pool_int64s"])]
    places, columns = attrs["ngram_indexes"], []
    for size in range(1, longest + 1):
        pool = np.array(attrs["pool_int64s"][starts[size - 1] : starts[size]], ctx.dtype(x)).reshape(-1, size)
        if not len(pool):
            continue
        total = relay.zeros((*ctx.known_shape(x)[:-1], len(pool)), "float32")
        # An n-gram of one element has no members to skip between.
        for gap in range(attrs["max_skip_count"] + 1 if size > 1 else 1) if size >= shortest else ():
            count = length - (size - 1) * (gap + 1)
            if count <= 0:
                break
            total = relay.add(total, _occurrences(ctx, x, pool, gap + 1, count))
        columns.append(total)
    found = relay.concatenate(columns, -1) if len(columns) > 1 else columns[0]
    return _weighted(ctx, found, attrs, places)


def _occurrences(ctx, x, pool, step: int, count: int):
    """Count, for each n-gram of the pool, the occurrences that begin at one of the first ``count`` positions."""
    match = None
    for k in range(pool.shape[1]):
        part = relay.expand_dims(relay.strided_slice(x, [k * step], [k * step + count], [1], [-1]), ctx.rank(x))
        equal = relay.equal(part, const(np.ascontiguousarray(pool[:, k])))
        match = equal if match is None else relay.logical_and(match, equal)
    assert match is not None
    return relay.sum(relay.cast(match, "float32"), axis=(-2,))


def _weighted(ctx, found, attrs, places):
    weights = attrs.get("weights")
    mode = attrs["mode"]
    if mode == "IDF":
        found = relay.cast(relay.greater(found, const(0.0)), "float32")
    if mode != "TF" and weights:
        # Index the weights by output position, as onnxruntime and the ONNX reference implementation do.
        found = relay.multiply(found, const(np.array([weights[p] for p in places], "float32")))
    if min(places) < 0:
        raise TVMError(f"ngram_indexes must not be negative, got {min(places)}")
    check_count("the matrix of n-gram indices", [len(places), max(places) + 1])
    spread = np.zeros((len(places), max(places) + 1), "float32")
    spread[np.arange(len(places)), places] = 1
    flat = relay.reshape(found, (-1, len(places)))
    return relay.reshape(relay.nn.dense(flat, const(spread.T.copy())), (*ctx.known_shape(found)[:-1], spread.shape[1]))


_SPLITS = (relay.less_equal, relay.less, relay.greater_equal, relay.greater, relay.equal, relay.not_equal)
_MEMBER = 6


@op("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(ctx, inputs, attrs):
    """Evaluate all nodes at once; one matmul counts the decisions that agree with the path to each leaf.

    A leaf is selected if all decisions on its path agree.
    """
    x = inputs[0]
    taken = _decisions(ctx, x, attrs)
    ways = _leaf_paths(attrs)
    path = np.zeros((len(ways), len(attrs["nodes_featureids"])), ctx.dtype(x))
    for row, (_, way) in enumerate(ways):
        for node, side in way:
            path[row, node] = 1 if side else -1
    agreeing = relay.nn.dense(taken, const(path))
    reached = relay.equal(agreeing, const((path == 1).sum(1).astype(ctx.dtype(x))))
    leaf_weights, targets = ctx.tensor(attrs["leaf_weights"]), attrs["n_targets"]
    values = np.array([leaf_weights[leaf] for leaf, _ in ways], ctx.dtype(x))
    owner = np.array([attrs["leaf_targetids"][leaf] for leaf, _ in ways])
    out = _gathered(ctx, x, reached, values, owner == np.arange(targets)[:, None], attrs)
    transform = attrs.get("post_transform", 0)
    if transform == 1:
        return relay.nn.softmax(out, -1)
    if transform == 2:
        return relay.sigmoid(out)
    if transform:
        raise TVMError(f"post_transform {transform} is not supported; use 0 (none), 1 (softmax) or 2 (logistic)")
    return out


def _gathered(ctx, x, reached, values, owned, attrs):
    """Aggregate the weights of the selected leaves for each target: their sum, mean, minimum or maximum."""
    how = attrs.get("aggregate_function", 1)
    if how in (0, 1):
        hits = relay.cast(reached, ctx.dtype(x))
        out = relay.nn.dense(hits, const(np.where(owned, values, 0).astype(ctx.dtype(x))))
        return relay.divide(out, ctx.like(len(attrs["tree_roots"]), x)) if how == 0 else out
    worst = np.inf if how == 2 else -np.inf
    choices = const(np.where(owned, values, worst).astype(ctx.dtype(x)))
    seen = relay.where(relay.expand_dims(reached, 1), choices, ctx.like(worst, x))
    best = (relay.min if how == 2 else relay.max)(seen, axis=(-1,))
    return relay.where(relay.isinf(best), ctx.like(0, x), best)


def _decisions(ctx, x, attrs):
    """Return the decision of each tree node for each row: 1 if the condition of the node is true, else 0."""
    modes = ctx.tensor(attrs["nodes_modes"])
    splits = ctx.tensor(attrs["nodes_splits"]).astype(ctx.dtype(x))
    features = relay.take(x, const(np.array(attrs["nodes_featureids"], "int64")), axis=1)
    holds = None
    for mode in sorted(set(modes.tolist())):
        if mode == _MEMBER:
            made = _members(ctx, features, modes, ctx.tensor(attrs["membership_values"]))
        else:
            made = _SPLITS[mode](features, const(splits))
        chosen = made if holds is None else relay.where(const(modes == mode), made, holds)
        holds = chosen
    tracks = attrs.get("nodes_missing_value_tracks_true")
    if tracks and any(tracks):
        holds = relay.logical_or(holds, relay.logical_and(relay.isnan(features), const(np.array(tracks, "bool"))))
    return relay.cast(holds, ctx.dtype(x))


def _members(ctx, features, modes, members):
    """Return whether features are members of the sets of their nodes. ``members`` contains all sets, each terminated by
    NaN.
    """
    ends = np.nonzero(np.isnan(members))[0]
    sets = np.split(members, ends + 1)[: len(ends)]
    nodes = np.nonzero(modes == _MEMBER)[0]
    table = np.full((len(modes), max(map(len, sets))), np.nan, ctx.dtype(features))
    for node, values in zip(nodes, sets):
        table[node, : len(values)] = values
    same = relay.equal(relay.expand_dims(features, 2), const(table))
    return relay.any(same, axis=(-1,))


def _leaf_paths(attrs) -> list[tuple[int, list[tuple[int, bool]]]]:
    """Return each leaf with the decisions on its path from the root."""
    found: list[tuple[int, list[tuple[int, bool]]]] = []
    stack: list[tuple[int, list[tuple[int, bool]]]] = [(root, []) for root in attrs["tree_roots"]]
    sides = (
        (True, attrs["nodes_truenodeids"], attrs["nodes_trueleafs"]),
        (False, attrs["nodes_falsenodeids"], attrs["nodes_falseleafs"]),
    )
    while stack:
        node, way = stack.pop()
        for side, following, leaves in sides:
            row = (following[node], [*way, (node, side)])
            (found if leaves[node] else stack).append(row)
    return found


_KEYS = ("keys_tensor", "keys_int64s", "keys_floats", "keys_strings")
_VALUES = ("values_tensor", "values_int64s", "values_floats", "values_strings")


@op("ai.onnx.ml.LabelEncoder")
def label_encoder(ctx, inputs, attrs):
    """Map integers and strings to other values by a table."""
    x = inputs[0]
    (keys, by_string), (values, to_string) = _labels(ctx, attrs, _KEYS), _labels(ctx, attrs, _VALUES)
    if by_string != (ctx.small(x) is STRING):
        raise TVMError(f"the keys are {'strings' if by_string else 'numbers'}, but the input has another type")
    ctx.made_small = STRING if to_string else None
    if "default_tensor" in attrs:
        default = ctx.tensor(attrs["default_tensor"]).reshape(-1)[0]
    elif to_string:
        default = to_carrier(np.array(attrs.get("default_string", "_Unused")))[()]
    else:
        default = attrs.get("default_int64", -1) if values.dtype.kind == "i" else attrs.get("default_float", -0.0)
    out = relay.full_like(relay.cast(x, str(values.dtype)), const(default, str(values.dtype)))
    for key, value in reversed(list(zip(keys.tolist(), values.tolist()))):
        same = relay.isnan(x) if key != key else relay.equal(x, ctx.like(key, x))
        out = relay.where(same, const(value, str(values.dtype)), out)
    return out


def _labels(ctx, attrs, names) -> tuple:
    """Return the labels of a table, and whether they are strings (which are encoded as integers)."""
    for name in names:
        if name not in attrs:
            continue
        if name.endswith("strings"):
            return to_carrier(np.array(attrs[name], object)), True
        if name.endswith("tensor"):
            return ctx.tensor(attrs[name]).reshape(-1), small_type(attrs[name].data_type) is STRING
        return np.array(attrs[name], "int64" if "int64s" in name else "float32"), False
    raise TVMError(f"one of the attributes {', '.join(names)} must be given")


# -- linear models ----------------------------------------------------------------------------------------------------


def _linear(ctx, x, attrs, rows: int):
    """Multiply the data by the coefficients of each target and add the intercepts."""
    weights = np.array(attrs["coefficients"], "float32")
    features = ctx.known_size(x, -1)
    if rows < 1 or weights.size != rows * features:
        raise TVMError(f"there are {weights.size} coefficients for {rows} targets with {features} features each")
    x = relay.cast(x, "float32") if ctx.dtype(x) != "float32" else x
    flat = relay.reshape(x, (-1, features)) if ctx.rank(x) != 2 else x
    out = relay.nn.dense(flat, const(weights.reshape(rows, features)))
    intercepts = attrs.get("intercepts")
    return relay.add(out, const(np.array(intercepts, "float32"))) if intercepts else out


def _transformed(scores, attrs):
    how = attrs.get("post_transform", "NONE")
    if how == "SOFTMAX":
        return relay.nn.softmax(scores, -1)
    if how == "LOGISTIC":
        return relay.sigmoid(scores)
    if how != "NONE":
        raise TVMError(f"post_transform {how} is not supported; use NONE, SOFTMAX or LOGISTIC")
    return scores


@op("ai.onnx.ml.LinearRegressor")
def linear_regressor(ctx, inputs, attrs):
    return _transformed(_linear(ctx, inputs[0], attrs, attrs.get("targets", 1)), attrs)


@op("ai.onnx.ml.LinearClassifier")
def linear_classifier(ctx, inputs, attrs):
    """Return the label of the highest score, and the scores."""
    labels = attrs.get("classlabels_ints")
    if labels is None and ctx.wants(0):
        raise TVMError("string labels are not supported")
    names = labels if labels is not None else attrs.get("classlabels_strings", [])
    rows = len(attrs.get("intercepts") or names)
    if rows < 2:
        raise TVMError("binary classifiers with coefficients for only one class are not supported")
    scores = _linear(ctx, inputs[0], attrs, rows)
    best = relay.cast(relay.argmax(scores, axis=1), "int64")
    chosen = best if labels is None else relay.take(const(np.array(labels, "int64")), best, 0)
    return [chosen, _transformed(scores, attrs)]


@op("ai.onnx.ml.ZipMap")
def zip_map(ctx, inputs, attrs):
    """Return the tensor of scores in place of the map from labels to scores: one column per label, in the order of the
    labels.
    """
    labels = attrs.get("classlabels_int64s") or attrs.get("classlabels_strings") or []
    if labels and ctx.known_size(inputs[0], -1) != len(labels):
        raise TVMError(f"there are {len(labels)} labels for {ctx.known_size(inputs[0], -1)} columns of scores")
    return inputs[0]
