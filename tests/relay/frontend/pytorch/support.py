"""What the tests of the PyTorch importer share: running imported models beside PyTorch."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import relay
from tvm.contrib import graph_executor


def leaves(value) -> list:
    """The tensors of a result, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(value)]
    if hasattr(value, "items"):
        value = list(value.values())
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    return [leaf for v in value if v is not None for leaf in leaves(v)] if isinstance(value, (list, tuple)) else []


def array(tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def run(mod, params, inputs: dict, executor: str = "graph", level: int = 3) -> list[np.ndarray]:
    """The results of an imported module."""
    if executor == "graph":
        with tvm.transform.PassContext(opt_level=level):
            lib = relay.build(mod, "llvm", params=params)
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        for name, value in inputs.items():
            module.set_input(name, tvm.nd.array(value))
        module.run()
        return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]
    machine = machine_of(mod, params, level)
    names = [p.name_hint for p in mod["main"].params if p.name_hint in inputs]
    return flat(machine.run(*[tvm.nd.array(inputs[n]) for n in names]))


def machine_of(mod, params, level: int = 3):
    """The virtual machine of an imported module on the CPU."""
    with tvm.transform.PassContext(opt_level=level):
        exe = relay.vm.compile(mod, target="llvm", params=params)
    return tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())


def flat(value) -> list[np.ndarray]:
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [leaf for part in value for leaf in flat(part)]


def traced(model, inputs, **options):
    """The module of a traced model; inputs are x0, x1, ..."""
    import torch

    with torch.no_grad():
        script = torch.jit.trace(model, tuple(inputs), strict=False, check_trace=False)
    infos = [(f"x{i}", (tuple(v.shape), str(v.dtype).removeprefix("torch."))) for i, v in enumerate(inputs)]
    return relay.frontend.from_pytorch(script, infos, **options)


def exported(model, inputs, custom_convert_map=None, **options):
    import torch

    with torch.no_grad():
        program = torch.export.export(model, tuple(inputs), **options)
    return relay.frontend.from_exported_program(program, custom_convert_map=custom_convert_map)


def same(got: list[np.ndarray], want: list, rtol: float = 1e-4) -> float:
    """Results within a share of the largest value; gives the largest such share."""
    assert len(got) == len(want), f"{len(got)} results, {len(want)} are wanted"
    worst = 0.0
    for g, w in zip(got, (array(t) for t in want)):
        assert g.shape == w.shape, f"shape {g.shape}, {w.shape} is wanted"
        assert g.dtype == w.dtype, f"type {g.dtype}, {w.dtype} is wanted"
        if g.dtype == bool:
            np.testing.assert_array_equal(g, w)
            continue
        g, w = g.astype("float64"), w.astype("float64")
        np.testing.assert_array_equal(np.isfinite(g), np.isfinite(w))
        at = np.isfinite(w)
        np.testing.assert_array_equal(g[~at], w[~at])
        if at.any():
            scale = max(np.abs(w[at]).max(), 1e-30)
            worst = max(worst, float(np.abs(g[at] - w[at]).max() / scale))
    assert worst <= rtol, f"off by {worst:.3g} of the largest value"
    return worst


def names_of(mod, params) -> list[str]:
    return [p.name_hint for p in mod["main"].params if p.name_hint not in params]


def check(model, inputs, way: str = "trace", rtol: float = 1e-4, executor: str = "graph", level: int = 3) -> float:
    """A model imported one way gives PyTorch's results, on the virtual machine where it must run there."""
    import torch

    model.eval()
    with torch.no_grad():
        want = leaves(model(*[v.clone() for v in inputs]))
    mod, params = (traced if way == "trace" else exported)(model, inputs)
    given = {n: array(v) for n, v in zip(names_of(mod, params), inputs)}
    executor = "vm" if relay.vm.needs_vm(mod, params) else executor
    return same(run(mod, params, given, executor, level), want, rtol)


def settle(model, run_once) -> None:
    """Running statistics of norms as one run has them."""
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    model.eval()
    for m in norms:
        m.train()
        m.momentum = None
        m.reset_running_stats()
    if norms:
        with torch.no_grad():
            run_once()
    model.eval()
