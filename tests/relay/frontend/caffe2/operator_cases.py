"""The cases of the Caffe2 importer: what Caffe2 made of them is in cases.npz."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
from caffe2_cases import CASES, NETWORKS
from caffe2_numpy import KNOWN, outputs
from caffe2_writer import compare, imported, run

import tvm.relay.frontend.caffe2  # noqa: F401 (fills the table of converters)
from tvm.relay.frontend.caffe2.table import CONVERTERS

ORACLE = (
    "Caffe2 of PyTorch 1.8.1, or with NumPy (int8 operators, region operators, recurrent networks, operators "
    "that Caffe2 has only on GPUs)"
)


@cache
def expected() -> dict[str, list[np.ndarray]]:
    """The outputs of Caffe2 by the name of the case."""
    with np.load(Path(__file__).resolve().parent / "cases.npz") as found:
        names = dict.fromkeys(key.rpartition(":")[0] for key in found)
        return {n: [found[f"{n}:{i}"] for i in range(sum(k.rpartition(":")[0] == n for k in found))] for n in names}


# Operators that Caffe2 has on GPUs only, or that its Python cannot make.
OTHERWISE = {
    **dict.fromkeys(("AliasWithName", "CopyGPUToCPU", "CopyCPUToGPU", "CopyFromCPUInput"), lambda x: x),
    "Round": lambda x: np.trunc(x + np.copysign(np.float32(0.5), x)),
    "UpsampleNearest": lambda x: x.repeat(3, 2).repeat(3, 3),
}


# Operators that are refused in words: the random weights of nets that were not trained.
REFUSED = {"XavierFill", "MSRAFill", "GaussianFill", "UniformFill", "UniformIntFill"}
OPERATORS = [name for name in CONVERTERS.names() if name not in REFUSED]


# Operators that give as many rows as there may be; Caffe2 gives those that it finds.
MORE_ROWS = ("BoxWithNMSLimit", "CollectRpnProposals", "DistributeFpnProposals", "CollectAndDistributeFpnRpnProposals")


def _found(got: list[np.ndarray], wanted: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs without the rows behind those that Caffe2 found, which must be zeros."""
    assert all(len(g) >= len(w) and not g[len(w) :].any() for g, w in zip(got, wanted)), "there are more rows"
    return [g[: len(w)] for g, w in zip(got, wanted)]


def case_of(name: str):
    return CASES[name] if name in CASES else NETWORKS[name]()


def check(name: str) -> None:
    """Raises where the outputs are not those of Caffe2."""
    case = case_of(name)
    wanted = expected().get(name)
    if wanted is None and name.startswith(KNOWN):
        wanted = outputs(case)
    if wanted is None:
        wanted = [OTHERWISE[name](*case.feeds.values())]
    got = run(*imported(case), case.feeds)
    if name.startswith(MORE_ROWS):
        got = _found(got, wanted)
    compare(got, wanted, 1e-3 if name.split("/")[0] in ("Tan", "Cbrt") else 2e-5)


def inside(name: str) -> list[str]:
    """The operators that fill blobs for the one a case is named after."""
    fills = [step.op for step in CASES[name].steps] if name in CASES else []
    return [op for op in fills if op.endswith("Fill")]


def cases() -> dict:
    known = [n for n in CASES if n in expected() or n in OTHERWISE or n.startswith(KNOWN)]
    return {name: partial(check, name) for name in known}
