"""Write the outputs of MXNet for the symbols of tests/relay/frontend/mxnet to files beside them.

mxnet_cases.py and mxnet_networks.py become cases.npz and networks.npz; fused.npz has small networks whose operators
MXNet fuses for oneDNN, in float32 and quantized.

Run it with a Python that has MXNet: ``python tools/mxnet_reference.py``, or with the argument ``fused`` for fused.npz
only. On aarch64, the wheel of MXNet 1.9.1 needs the Arm Performance Libraries; a library of the same name that links to
OpenBLAS and LAPACKE works as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "relay" / "frontend" / "mxnet"
sys.path.insert(0, str(FOLDER))

import mxnet as mx  # noqa: E402
import mxnet_networks as networks  # noqa: E402
import numpy as np  # noqa: E402
from mxnet_cases import CASES, Case  # noqa: E402


def result(case: Case) -> list:
    """Return the outputs of MXNet for a case, in inference mode."""
    arrays = case.arrays()
    if case.want is not None:
        return case.want if isinstance(case.want, list) else [case.want]
    with mx.util.np_shape(case.op.startswith("_np")):
        symbol = mx.sym.load_json(case.symbol())
        inner = symbol.get_internals()
        names = [n for n in inner.list_outputs() if n == "y_output" or n.startswith("y_output") or n[:2] == "y_"]
        outputs = [inner[n] for n in names]
        symbol = mx.sym.load_json(case.symbol(case.outputs or max(len(outputs), 1)))
        known = set(symbol.list_arguments()) | set(symbol.list_auxiliary_states())
        given = {f"x{k}": mx.nd.array(a, dtype=a.dtype) for k, a in enumerate(arrays) if f"x{k}" in known}
        if any(a.shape == () for a in arrays):
            given = {f"x{k}": mx.np.array(a, dtype=a.dtype).as_nd_ndarray() for k, a in enumerate(arrays)}
        aux = {n: given.pop(n) for n in symbol.list_auxiliary_states()}
        bound = symbol.bind(mx.cpu(), given, aux_states=aux, grad_req="null")
        return [o.asnumpy() for o in bound.forward(is_train=False)]


def network(name: str) -> list:
    """Return the outputs of MXNet for a network."""
    text, params, feeds = networks.build(name)
    symbol = mx.sym.load_json(text)
    given = {n.partition(":")[2]: mx.nd.array(a) for n, a in params.items()}
    given.update({n: mx.nd.array(a) for n, a in feeds.items()})
    if "softmax_label" in symbol.list_arguments():
        given["softmax_label"] = mx.nd.zeros((1,))
    aux = {n: given.pop(n) for n in symbol.list_auxiliary_states()}
    bound = symbol.bind(mx.cpu(), given, aux_states=aux, grad_req="null")
    return [o.asnumpy() for o in bound.forward(is_train=False)]


def run(names: list) -> dict:
    """Return the outputs of some cases by their keys in the file, without the cases that MXNet rejects."""
    out: dict = {}
    for name in names:
        try:
            out.update({f"{name}|{k}": array for k, array in enumerate(result(CASES[name]))})
        except Exception as problem:
            print(name, "MXNet:", " ".join(str(problem).split())[:200])
    return out


def _convolutions(data):
    conv = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    norm = mx.sym.BatchNorm(conv, name="bn", fix_gamma=False)
    relu = mx.sym.Activation(norm, act_type="relu", name="relu")
    second = mx.sym.Convolution(relu, kernel=(3, 3), num_filter=4, pad=(1, 1), no_bias=True, name="conv2")
    both = mx.sym.Activation(second + relu, act_type="relu")
    third = mx.sym.Convolution(both, kernel=(2, 2), num_filter=6, stride=(2, 2), name="conv3")
    return mx.sym.Convolution(mx.sym.clip(third, 0, 6), kernel=(1, 1), num_filter=3, name="conv4")


def _separable(data):
    """Return a depthwise and a pointwise convolution, as in MobileNet, and a convolution with two channels per
    group."""
    first = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, num_group=4, pad=(1, 1), no_bias=True, name="conv")
    relu = mx.sym.Activation(mx.sym.BatchNorm(first, name="bn", fix_gamma=False), act_type="relu")
    second = mx.sym.Convolution(relu, kernel=(1, 1), num_filter=10, name="conv2")
    third = mx.sym.Convolution(
        mx.sym.clip(second, 0, 6), kernel=(3, 3), num_filter=5, num_group=5, stride=(2, 2), name="conv3"
    )
    return mx.sym.BatchNorm(third, name="bn2")


def _dense(data):
    first = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=9, name="fc"), act_type="relu")
    second = mx.sym.FullyConnected(first, num_hidden=7, no_bias=True, name="fc2")
    return mx.sym.FullyConnected(second, num_hidden=5, name="fc3")


def fused() -> dict:
    """Return symbols, parameters, data and outputs of networks whose operators MXNet fuses for oneDNN."""
    out: dict = {}
    for name, make, shape in (("_sg_mkldnn_conv", _convolutions, (2, 3, 6, 8)),
                              ("_sg_mkldnn_conv/groups", _separable, (2, 4, 7, 8)),
                              ("_sg_mkldnn_fully_connected", _dense, (4, 3, 5))):  # fmt: skip
        state = np.random.RandomState(len(name))
        plain = make(mx.sym.var("data"))
        shapes, _, states = plain.infer_shape(data=shape)
        arg = {n: mx.nd.array(state.uniform(-1, 1, s)) for n, s in zip(plain.list_arguments(), shapes) if n != "data"}
        aux = {n: mx.nd.array(state.uniform(0.5, 1.5, s)) for n, s in zip(plain.list_auxiliary_states(), states)}
        data = state.uniform(-1, 1, (4 * shape[0], *shape[1:])).astype("float32")
        symbol = plain.get_backend_symbol("MKLDNN_QUANTIZE")
        found = {name: (symbol, arg, aux)}
        for kind in ("auto", "int8"):
            from mxnet.contrib.quantization import quantize_model

            rows = mx.io.NDArrayIter(data={"data": data}, batch_size=shape[0])
            made, *given = quantize_model(sym=symbol, arg_params=arg, aux_params=aux, ctx=mx.cpu(), calib_mode="naive",
                                          calib_data=rows, num_calib_examples=len(data), quantized_dtype=kind,
                                          quantize_mode="smart", label_names=None)  # fmt: skip
            found[f"{name}/{kind}"] = (made.get_backend_symbol("MKLDNN_QUANTIZE"), *given)
        for case, (made, args, auxs) in found.items():
            bound = made.bind(
                mx.cpu(), {**args, "data": mx.nd.array(data[: shape[0]])}, aux_states=auxs, grad_req="null"
            )
            out[f"{case}|symbol"] = np.array(made.tojson())
            out[f"{case}|data"], out[f"{case}|out"] = data[: shape[0]], bound.forward(is_train=False)[0].asnumpy()
            out.update(
                {
                    f"{case}|{k}:{n}": a.asnumpy()
                    for k, group in (("arg", args), ("aux", auxs))
                    for n, a in group.items()
                }
            )
    return out


def main() -> int:
    if sys.argv[1:] == ["fused"]:
        np.savez_compressed(FOLDER / "fused.npz", **fused())
        return 0
    if len(sys.argv) > 2:
        np.savez(sys.argv[1], **run(sys.argv[2:]))
        return 0
    out = run(list(CASES))
    left = [n for n in CASES if f"{n}|0" not in out]
    if left:
        # MXNet's own kernels support cases that its oneDNN kernels do not.
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "left.npz")
            subprocess.run(
                [sys.executable, __file__, file, *left], env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"}, check=True
            )
            with np.load(file) as found:
                out.update(found)
    np.savez_compressed(FOLDER / "cases.npz", **out)
    np.savez_compressed(
        FOLDER / "networks.npz", **{f"{name}|{k}": a for name in networks.NETWORKS for k, a in enumerate(network(name))}
    )
    np.savez_compressed(FOLDER / "fused.npz", **fused())
    missing = [n for n in CASES if f"{n}|0" not in out]
    print(len(CASES), "cases; refused by MXNet:", ", ".join(missing) or "none")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
