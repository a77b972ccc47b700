"""The models of cases.npz.xz, which CNTK wrote in both formats, with their inputs and outputs."""

from __future__ import annotations

import importlib.util
import io
import lzma
from functools import cache
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent


class Case:
    """A model in both formats (empty where CNTK does not write one), its inputs, and what CNTK made of them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.feeds: dict[str, np.ndarray] = {}
        self.wanted: list[np.ndarray] = []


@cache
def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    with lzma.open(FOLDER / "cases.npz.xz") as packed, np.load(io.BytesIO(packed.read())) as arrays:
        for key in sorted(arrays):
            name, _, part = key.rpartition(":")
            case = found.setdefault(name, Case())
            if part in ("v1", "v2"):
                case.files[part] = arrays[key].tobytes()
            elif part.startswith("in_"):
                case.feeds[part[3:]] = arrays[key]
            else:
                case.wanted.append(arrays[key])
    return found


@cache
def conformance():
    """tools/legacy_conformance.py, which loads the cases of every format."""
    path = FOLDER.parents[3] / "tools" / "legacy_conformance.py"
    spec = importlib.util.spec_from_file_location("legacy_conformance", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module, params, feeds) -> list[np.ndarray]:
    """The outputs of a module on this machine."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(module, "llvm", params=params)
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    used = {p.name_hint for p in module["main"].params}
    executor.run(**{k: v for k, v in feeds.items() if k in used})
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def compare(got: list, wanted: list, tolerance: float = 2e-5) -> None:
    """Outputs without axes have one in CNTK's arrays, or none: their elements are compared."""
    assert len(got) == len(wanted)
    for value, expected in zip(got, wanted):
        if value.shape != expected.shape:
            assert value.size == expected.size and 1 in (*value.shape, *expected.shape, value.size)
        np.testing.assert_allclose(value.reshape(-1), expected.reshape(-1), rtol=tolerance, atol=tolerance)


def check(name: str, kind: str) -> None:
    """Raises where the outputs are not those of CNTK."""
    from tvm.relay.frontend import from_cntk

    case = cases()[name]
    module, params = from_cntk(case.files[kind], {k: v.shape for k, v in case.feeds.items()})
    compare(run(module, params, case.feeds), case.wanted)
