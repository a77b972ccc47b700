"""Runs relay expressions on arrays through the whole compiler."""

from __future__ import annotations

import numpy as np

import tvm
from tests import on_target
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.expr import TupleWrapper


def run(build, *arrays, names=None, target=None):
    """The outputs of ``build(*variables)``: one array, or a list where it makes a tuple."""
    arrays = [np.asarray(a) for a in arrays]
    variables = [relay.var(f"x{i}", shape=a.shape, dtype=str(a.dtype)) for i, a in enumerate(arrays)]
    made = build(*variables)
    several = isinstance(made, (TupleWrapper, list, relay.Tuple))
    if isinstance(made, TupleWrapper):
        made = made.astuple()
    elif isinstance(made, list):
        made = relay.Tuple(made)
    mod = tvm.IRModule.from_expr(relay.Function(variables, made))
    module = compiled(mod) if target is None else executor(mod, target, tvm.cpu(0))
    # An input that the graph does not use has no place in it.
    for i, a in enumerate(arrays):
        module.set_input(f"x{i}", tvm.nd.array(a))
    module.run()
    outs = [module.get_output(i).numpy() for i in range(module.get_num_outputs())]
    return outs if several or len(outs) > 1 else outs[0]


def executor(mod, target, device):
    return graph_executor.GraphModule(relay.build(mod, target)["default"](device))


def compiled(mod):
    """The model for the target under test; where it cannot run here it is compiled, and run on the CPU."""
    if on_target.only_compiles():
        relay.build(mod, on_target.target())
        return executor(mod, "llvm", tvm.cpu(0))
    return executor(mod, on_target.target(), on_target.device())


def check_all(cases, rtol=1e-5, atol=1e-6):
    """``cases``: (label, build, arrays, wanted). Cases are compiled as one model, so the test stays quick; on a failure
    the label is shown."""
    variables, fields, layout, feeds = [], [], [], {}
    for label, build, arrays, wanted in cases:
        own = []
        for a in arrays:
            a = np.asarray(a)
            v = relay.var(f"x{len(variables)}", shape=a.shape, dtype=str(a.dtype))
            feeds[v.name_hint] = a
            variables.append(v)
            own.append(v)
        made = build(*own)
        wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        parts = list(made) if isinstance(made, (TupleWrapper, list)) else [made]
        assert len(parts) == len(wanted), label
        fields += parts
        layout += [(label, w) for w in wanted]
    mod = tvm.IRModule.from_expr(relay.Function(variables, relay.Tuple(fields)))
    module = compiled(mod)
    for name, a in feeds.items():
        module.set_input(name, tvm.nd.array(a))
    module.run()
    for i, (label, want) in enumerate(layout):
        got = module.get_output(i).numpy()
        want = np.asarray(want)
        assert got.shape == want.shape, f"{label}: shape {got.shape}, expected {want.shape}"
        assert got.dtype == want.dtype, f"{label}: type {got.dtype}, expected {want.dtype}"
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want, err_msg=label)
        else:
            np.testing.assert_allclose(
                got.astype("float64"), want.astype("float64"), rtol=rtol, atol=atol, err_msg=label
            )


def refused(build, *types):
    """The message type inference refuses ``build`` with."""
    import pytest

    variables = [relay.var(f"x{i}", t) for i, t in enumerate(types)]
    with pytest.raises((tvm.error.DiagnosticError, TypeError, ValueError)) as caught:
        made = build(*variables)
        made = made.astuple() if isinstance(made, TupleWrapper) else made
        relay.InferType()(tvm.IRModule.from_expr(relay.Function(variables, made)))
    return str(caught.value)


def tensor(*shape, dtype="float32"):
    return relay.TensorType(shape, dtype)
