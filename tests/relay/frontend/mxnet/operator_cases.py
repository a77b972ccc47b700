"""The cases of the MXNet importer: each runs a symbol of one operator and compares its outputs with MXNet's."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
from mxnet_cases import CASES, Case

ORACLE = "MXNet 1.9.1 (floats within 1e-5, integers exactly)"
FILE = Path(__file__).with_name("cases.npz")


@cache
def expected() -> dict[str, list[np.ndarray]]:
    """The outputs of MXNet by case."""
    out: dict[str, list[np.ndarray]] = {}
    with np.load(FILE) as arrays:
        for key in arrays:
            out.setdefault(key.rpartition("|")[0], []).append(arrays[key])
    return out


def imported(case: Case):
    """The module of a case, and its inputs by name."""
    from tvm.relay.frontend import from_mxnet

    feeds = {f"x{k}": a for k, a in enumerate(case.arrays())}
    dtypes = {k: str(a.dtype) for k, a in feeds.items()}
    module, params = from_mxnet(case.symbol(len(expected()[case.name])), {k: a.shape for k, a in feeds.items()}, dtypes)
    assert not params
    return module, feeds


def run_module(module, feeds: dict) -> list[np.ndarray]:
    """The outputs of a module that is compiled for the virtual machine of this machine."""
    import tvm
    from tvm import relay
    from tvm.runtime.vm import VirtualMachine

    with tvm.transform.PassContext(opt_level=3):
        machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    machine.set_input("main", **{p.name_hint: feeds[p.name_hint] for p in module["main"].params})
    got = machine.invoke("main")
    return [g.numpy() for g in got] if not hasattr(got, "numpy") else [got.numpy()]


def compare(got: list[np.ndarray], wanted: list[np.ndarray], tolerance: float = 1e-5) -> None:
    """Raise where outputs differ."""
    assert len(got) == len(wanted), f"{len(wanted)} outputs are wanted, got {len(got)}"
    for a, b in zip(got, wanted):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{b.dtype}{b.shape} is wanted, got {a.dtype}{a.shape}"
        if b.dtype.kind == "f":
            loose = tolerance if b.dtype != "float16" else 2e-3
            np.testing.assert_allclose(a, b, rtol=loose, atol=loose * max(1.0, _size(b)))
        else:
            np.testing.assert_array_equal(a, b)


def _size(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(min(finite.max(initial=0.0), 100.0))


@cache
def fused() -> dict[str, dict[str, np.ndarray]]:
    """Networks whose operators MXNet put together for oneDNN (fused.npz): symbol, parameters, data and output."""
    out: dict[str, dict[str, np.ndarray]] = {}
    with np.load(FILE.with_name("fused.npz")) as arrays:
        for key in arrays:
            out.setdefault(key.partition("|")[0], {})[key.partition("|")[2]] = arrays[key]
    return out


def check_fused(name: str) -> None:
    """Integers are exactly those of oneDNN, but where a sum lies between two."""
    from tvm.relay.frontend import from_mxnet

    case = fused()[name]
    params = {k.partition(":")[2]: v for k, v in case.items() if ":" in k}
    module, weights = from_mxnet(str(case["symbol"]), {"data": case["data"].shape}, arg_params=params)
    (got,) = run_module(module, {"data": case["data"], **{k: v.numpy() for k, v in weights.items()}})
    compare([got], [case["out"]], 2e-3 if "/" in name else 1e-5)


def check(name: str) -> None:
    module, feeds = imported(CASES[name])
    got, wanted = run_module(module, feeds), expected()[name]
    if name.startswith("_contrib_MultiBoxDetection"):
        # MXNet leaves numbers in rows that are no detection; here these are -1 throughout.
        wanted = [np.where(w[..., :1] == -1, np.float32(-1), w) for w in wanted]
    compare(got, wanted)


def cases() -> dict:
    return {**{name: partial(check, name) for name in CASES}, **{name: partial(check_fused, name) for name in fused()}}
