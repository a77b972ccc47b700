"""The cases of the CNTK importer: models that CNTK wrote, in both formats, and operators that only older versions of
CNTK write, against NumPy."""

from __future__ import annotations

from functools import partial

import cntk_cases
import numpy as np

ORACLE = "CNTK 2.7 in both formats, or with NumPy for operators that CNTK 2.7 does not write"


def _logs(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _misses(labels, x, count=1):
    best = np.argsort(-x, -1, kind="stable")[:, :count]
    return np.float32((best != labels.argmax(-1)[:, None]).all(-1).sum())


_RNG = np.random.RandomState(7)
_X, _Y = (_RNG.uniform(0.1, 0.9, (3, 5)).astype("float32") for _ in range(2))
_ROW = _RNG.uniform(0.5, 2, 5).astype("float32")
# Inputs (those with one dimension are weights), attributes, and the result; the batch comes first.
OLDER = {
    "ClassificationError": ([_X, _Y], {}, _misses),
    "ClassificationError/three": ([_X, _Y, np.float32([3])], {}, lambda x, y, n: _misses(x, y, 3)),
    "CrossEntropy": ([_X, _Y], {}, lambda x, y: -(x * np.log(y)).sum()),
    "CrossEntropyWithSoftmax": ([_X, _Y], {}, lambda x, y: -(x * _logs(y)).sum()),
    "LogSoftmax": ([_X], {}, _logs),
    "Logistic": ([_X, _Y], {}, lambda x, y: -(x * np.log(y) + (1 - x) * np.log(1 - y)).sum()),
    "NoOp": ([_X], {}, lambda x: x),
    "Pass": ([_X], {}, lambda x: x),
    "PerDimMeanVarNormalization": ([_X, _ROW, _ROW], {}, lambda x, m, s: (x - m) * s),
    "PerDimMeanVarDeNormalization": ([_X, _ROW, _ROW], {}, lambda x, m, s: x / s + m),
    "RowRepeat": ([_X], {"count": 3}, lambda x: np.tile(x, 3)),
    "Sigmoid": ([_X], {}, lambda x: 1 / (1 + np.exp(-x))),
    "SquaredError": ([_X, _Y], {}, lambda x, y: ((x - y) ** 2).sum()),
    "SumAll": ([_X], {}, lambda x: x.sum()),
    "SumColumnElements": ([_X], {}, lambda x: x.sum(-1, keepdims=True)),
    "ToBatch": ([_ROW], {}, lambda x: x),
    "ToSequenceLike": ([_X], {}, lambda x: x),
    "UnpackBatch": ([_X], {}, lambda x: x),
}


# Operators that are inside of models of another name.
INSIDE = {"ConstantOp": "Block/ones", "GatherPacked": "Slice/last", "PackedIndex": "Slice/first",
          "Where": "ReconcileDynamicAxis"}  # fmt: skip


def older(name: str) -> None:
    """Raises where an operator does not give what NumPy gives."""
    from tvm.relay.frontend.cntk.load import Model, Node, Variable
    from tvm.relay.frontend.cntk.reader import Importer

    arrays, attrs, expected = OLDER[name]
    variables = {}
    for i, array in enumerate(arrays):
        is_input = array.ndim > 1
        shape = array.shape[is_input:][::-1]
        variables[f"x{i}"] = Variable(f"x{i}", shape, "float32", int(is_input), None if is_input else array)
    node = Node("z", name.split("/")[0], "z", list(variables), attrs)
    model = Model(variables, {"z": node}, {"z": ("z", 0)}, ["z"], {})
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if a.ndim > 1}
    module, params = Importer(model, {k: v.shape for k, v in feeds.items()}, None).run(None)
    cntk_cases.compare(cntk_cases.run(module, params, feeds), [np.asarray(expected(*arrays))])


def cases() -> dict:
    found = {name: partial(older, name) for name in OLDER}
    found.update((name, partial(cntk_cases.check, model, "v2")) for name, model in INSIDE.items())
    for name, case in cntk_cases.cases().items():
        if "v2" in case.files:
            found[name + ("/two" if name in OLDER else "")] = partial(cntk_cases.check, name, "v2")
        if "v1" in case.files:
            found[f"{name}/one"] = partial(cntk_cases.check, name, "v1")
    return found


def covered() -> set[str]:
    """The operators that some case has."""
    from tvm.relay.frontend.cntk.load import load

    files = [data for case in cntk_cases.cases().values() for data in case.files.values()]
    return {n.op for data in files for n in load(data).nodes.values()} | {name.split("/")[0] for name in OLDER}
