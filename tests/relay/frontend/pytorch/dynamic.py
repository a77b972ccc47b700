"""Transformers with dynamic batch and length, in single precision and in bfloat16, beside PyTorch at several sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import tvm
from tests.relay.frontend.pytorch.support import leaves, machine_of
from tests.relay.frontend.pytorch.tiny_transformers import TINY, tiny
from tvm import relay

DYNAMIC = tuple("llama qwen2 mistral mixtral bert t5 whisper gpt2 vit mamba".split())
# A batch and a length each. The first one is that of the example that PyTorch captures.
SIZES = ((2, 9), (1, 1), (3, 17), (5, 4))
# PyTorch takes a batch or length of 1 for a special case and captures it again, which tests nothing of dynamic sizes.
COMPILED_SIZES = ((2, 9), (4, 12), (3, 17), (5, 4))


class Off(NamedTuple):
    """The largest differences over all sizes as shares of the largest value: from PyTorch, from PyTorch in single
    precision, and of PyTorch from PyTorch in single precision."""

    pytorch: float
    single: float
    pytorch_single: float

    def check(self, dtype: str) -> None:
        """Single precision agrees with PyTorch. A result in bfloat16, whose numbers have steps of 2^-8, is about as
        far from single precision as PyTorch's."""
        if dtype == "float32":
            assert self.pytorch <= 1e-4, f"off by {self.pytorch:.3g} of the largest value"
        else:
            limit = 1.5 * self.pytorch_single + 4e-3
            assert max(self.single, self.pytorch) <= limit, (
                f"off by {self.pytorch:.3g} of the largest value from PyTorch and by {self.single:.3g} from single "
                f"precision, from which PyTorch is off by {self.pytorch_single:.3g}"
            )


def exported_off(name: str, dtype: str) -> Off:
    """The differences of a model exported with dynamic sizes and compiled once."""
    import torch

    from tvm.contrib.torch.programs import array_of_tensor

    model = _model(name, dtype)
    inputs = _inputs(name, *SIZES[0], dtype)
    auto = torch.export.Dim.AUTO
    # Images and spectra have the size that the model has positions for, tokens any length.
    sizes = tuple({0: auto} if v.is_floating_point() else {0: auto, 1: auto} for v in inputs)
    with torch.no_grad():
        program = torch.export.export(model, tuple(inputs), dynamic_shapes=(sizes,), strict=False)
    machine = machine_of(*relay.frontend.from_exported_program(program))
    return _off(name, dtype, SIZES, lambda *given: _tensors(machine.run(*map(array_of_tensor, given))))


def compiled_off(name: str, dtype: str) -> tuple[Off, int, int]:
    """The differences of a model compiled by ``torch.compile`` with dynamic sizes, the number of graphs that were
    compiled, and the number of graphs left to PyTorch."""
    import torch

    from tvm.contrib.torch import tvm_classic

    torch._dynamo.reset()
    model = _model(name, dtype)
    with _graphs() as (made, failed):
        off = _off(name, dtype, COMPILED_SIZES, torch.compile(model, backend=tvm_classic, dynamic=True))
    return off, len(made), len(failed)


@contextlib.contextmanager
def _graphs():
    """Lists of the graphs that are compiled, and of the errors of those that cannot be."""
    from tvm.contrib.torch import dynamo

    made: list = []
    failed: list = []
    program = dynamo._program

    def noted(*args):
        try:
            found = program(*args)
        except Exception as problem:
            failed.append(problem)
            raise
        made.append(found)
        return found

    dynamo._program = noted
    try:
        yield made, failed
    finally:
        dynamo._program = program


def _off(name: str, dtype: str, sizes, call: Callable[..., Any]) -> Off:
    import torch

    models, worst = [_model(name, kind) for kind in (dtype, "float32")], [0.0, 0.0, 0.0]
    for batch, length in sizes:
        inputs = _inputs(name, batch, length, dtype)
        with torch.no_grad():
            got = leaves(call(*inputs))
            want = leaves(models[0](*inputs))
            single = leaves(models[1](*[v.float() if v.is_floating_point() else v for v in inputs]))
        assert len(got) == len(want)
        for g, w, s in zip(got, want, single):
            assert (g.shape, g.dtype) == (w.shape, w.dtype), f"{g.shape} {g.dtype}, {w.shape} {w.dtype} is wanted"
            found = [_share(g, w), _share(g, s), _share(w, s)]
            worst = [max(pair) for pair in zip(worst, found)]
    return Off(*worst)


def _share(a, b) -> float:
    share = float((a.float() - b.float()).abs().max() / b.float().abs().max())
    assert share == share, "a result is not a number"
    return share


def _tensors(value) -> list:
    from torch.utils.dlpack import from_dlpack

    parts = [value] if isinstance(value, tvm.nd.NDArray) else list(value)
    return [from_dlpack(p.to_dlpack()) for p in parts]


def _model(name: str, dtype: str):
    import torch

    torch.manual_seed(7)
    model = tiny(name, "eager" if name == "mamba" else "sdpa")[0].eval()
    # Random routers give experts nearly equal scores, so that rounding to bfloat16 would select other experts. Larger
    # weights separate the scores, as training does.
    for part, module in model.named_modules():
        if part.endswith(".gate"):
            module.weight.data *= 30
    return model.to(getattr(torch, dtype))


def _inputs(name: str, batch: int, length: int, dtype: str) -> list:
    """Inputs of a size. The steps of Mamba are a loop of Python, which PyTorch captures for one length."""
    import torch

    length = SIZES[0][1] if name == "mamba" else length
    words, real = torch.randint(3, 99, (batch, length)), getattr(torch, dtype)
    return {
        "words": lambda: [words],
        "two": lambda: [words, torch.randint(3, 99, (batch, length + 2))],
        "image": lambda: [torch.randn(batch, 3, 32, 32).to(real)],
        "speech": lambda: [torch.randn(batch, 8, 20).to(real), words],
    }[TINY[name].kind]()


__all__ = ["DYNAMIC", "Off", "compiled_off", "exported_off"]
