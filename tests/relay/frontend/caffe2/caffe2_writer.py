"""Writes Caffe2 nets without Caffe2, and runs what is imported from them."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np

from tvm.relay.frontend.caffe2.schema import FILES

FOLDER = Path(__file__).resolve().parent
_FILLS = {"float32": "GivenTensorFill", "float64": "GivenTensorDoubleFill", "int32": "GivenTensorIntFill",
          "int64": "GivenTensorInt64Fill", "bool": "GivenTensorBoolFill"}  # fmt: skip


@cache
def conformance():
    """tools/legacy_conformance.py, which loads the cases of every format."""
    path = FOLDER.parents[3] / "tools" / "legacy_conformance.py"
    spec = importlib.util.spec_from_file_location("legacy_conformance", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def add(net, op: str, inputs=(), outputs=(), **args) -> None:
    """An operator at the end of a net."""
    made = net.op.add(type=op)
    made.input.extend(inputs)
    made.output.extend(outputs)
    for name, value in args.items():
        arg = made.arg.add(name=name)
        if isinstance(value, (str, bytes)):
            arg.s = value.encode() if isinstance(value, str) else value
        elif isinstance(value, float):
            arg.f = value
        elif isinstance(value, int):
            arg.i = value
        elif value and isinstance(value[0], tuple):
            for step in value:
                add(arg.n, step.op, step.inputs, step.outputs, **step.args)
        elif value and isinstance(value[0], bytes):
            arg.strings.extend(value)
        elif value and isinstance(value[0], float):
            arg.floats.extend(value)
        else:
            arg.ints.extend(value)


def nets(case) -> tuple[bytes, bytes]:
    """The two nets of a case; one without weights has a weight that nothing reads."""
    init, predict = FILES.messages["Net"](name="init"), FILES.messages["Net"](name="predict")
    for name, value in (case.weights or {"unused": np.zeros(1, "float32")}).items():
        kind = float if value.dtype.kind == "f" else int
        add(
            init,
            _FILLS[str(value.dtype)],
            [],
            [name],
            shape=list(value.shape),
            values=[kind(v) for v in value.reshape(-1)],
        )
    for step in case.steps:
        add(predict, step.op, step.inputs, step.outputs, **step.args)
    predict.external_input.extend([*case.feeds, *case.weights])
    predict.external_output.extend(case.outputs)
    return init.SerializeToString(), predict.SerializeToString()


def imported(case):
    """The module and the parameters of a case."""
    from tvm.relay.frontend import from_caffe2

    return from_caffe2(
        *nets(case),
        shape={k: v.shape for k, v in case.feeds.items()},
        dtype={k: str(v.dtype) for k, v in case.feeds.items()},
    )


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
    assert len(got) == len(wanted)
    for value, expected in zip(got, wanted):
        assert value.shape == expected.shape
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
