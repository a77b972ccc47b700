"""``torch.compile`` with our back end beside inductor: outputs are compared, then timed in turn.

    python -m benchmarks.torch_compile [MODEL ...] [--threads 2] [--dtype float32] [--rounds 50] [--json FILE]

Needs torch, and torchvision and transformers for their models. Weights follow from a seed. Both sides are called in
turn, ten times each; the result is the 20th percentile of all calls after the first turn. The first call, which
compiles, is timed without the caches of either side. On a GPU (``benchmarks.gpu.torch_compile``) both sides replay CUDA
graphs.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.relay.frontend.pytorch.vision import torchvision

from . import result_file
from .harness import save

# The largest allowed error relative to PyTorch in double precision, by type.
ERRORS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
# Calls of one side in a row, after one that does not count. PyTorch looks up compiled code by the function, which both
# sides have in common, and first tries the guards of the side that was called last: with one call each, either side
# would pay for guards of the other side in every call.
SERIES = 10
VISION = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121", "vgg16",
          "resnext50_32x4d", "regnet_y_400mf", "shufflenet_v2_x1_0", "convnext_tiny", "swin_t", "vit_b_16")  # fmt: skip
# Model name: configuration and model class of transformers, and settings.
TEXT: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "bert_base": ("BertConfig", "BertModel", {}),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {}),
    "roberta_base": ("RobertaConfig", "RobertaModel", {}),
    "gpt2": ("GPT2Config", "GPT2Model", {"use_cache": False}),
    "electra_small": ("ElectraConfig", "ElectraModel", {}),
    "albert_base": ("AlbertConfig", "AlbertModel", {"hidden_size": 768, "num_attention_heads": 12,
                                                    "intermediate_size": 3072}),
    "opt_small": ("OPTConfig", "OPTModel", {"num_hidden_layers": 6, "use_cache": False}),
}  # fmt: skip
MODELS = (*VISION, *TEXT)


def build(name: str, batch: int) -> tuple[Any, list]:
    """Return a model in eval mode with seeded weights, and its inputs."""
    import torch

    torch.manual_seed(0)
    # transformers also imports torchvision, whose compiled operators may have been built for another PyTorch.
    vision = torchvision()
    if name in TEXT:
        return _trained(_text(name)), [torch.randint(3, 1000, (batch, 128))]
    return _trained(vision.models.get_model(name, weights=None).eval()), [torch.randn(batch, 3, 224, 224)]


def _trained(model: Any) -> Any:
    """Return the model with random numbers in place of zeros: a compiler could remove biases and shifts that are
    zero, and a zero head would make all outputs zero."""
    import torch

    with torch.no_grad():
        for value in [*model.parameters(), *(b for n, b in model.named_buffers() if n.endswith("running_mean"))]:
            if not value.any():
                value.normal_(std=0.02)
    return model


def _text(name: str) -> Any:
    import torch
    import transformers

    config, model, settings = TEXT[name]

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = getattr(transformers, model)(getattr(transformers, config)(**settings))

        def forward(self, tokens: Any) -> Any:
            return self.inner(input_ids=tokens, return_dict=False)[0]

    return States().eval()


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Return the relative error by the Frobenius norm."""
    return float(np.linalg.norm(got.astype("float64") - wanted) / max(np.linalg.norm(wanted), 1e-30))


class Compiled:
    """A model compiled with one back end: times of its first call and of further calls."""

    def __init__(self, model: Any, inputs: list, **how: Any):
        import torch

        self.synchronize: Callable[[], Any] = torch.cuda.synchronize if inputs[0].is_cuda else lambda: None
        self.inputs = inputs
        self.call = torch.compile(copy.deepcopy(model), **how)
        started = time.perf_counter()
        self.first = self.once() and time.perf_counter() - started

    def output(self) -> np.ndarray:
        import torch

        with torch.inference_mode():
            return self.call(*self.inputs).detach().float().cpu().numpy()

    def once(self) -> float:
        import torch

        self.synchronize()
        started = time.perf_counter()
        with torch.inference_mode():
            self.call(*self.inputs)
        self.synchronize()
        return time.perf_counter() - started


def measure(name: str, settings: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch._dynamo.reset()
    model, inputs = build(name, settings.batch)
    with torch.inference_mode():
        wide = [v.double() if v.is_floating_point() else v for v in inputs]
        wanted = copy.deepcopy(model).double()(*wide).numpy()
    kind = getattr(torch, settings.dtype)
    model = model.to(settings.device, kind)
    inputs = [v.to(settings.device, kind if v.is_floating_point() else v.dtype) for v in inputs]
    from tvm.contrib.torch import tvm_classic

    with warnings.catch_warnings():
        # A graph that falls back to PyTorch would not measure our code.
        warnings.filterwarnings("error", message="tvm_classic: a graph could not be compiled and runs in PyTorch")
        programs = {"tvm_classic": Compiled(model, inputs, backend=tvm_classic)}
    for mode in settings.modes.split(","):
        programs[mode] = Compiled(model, inputs, backend="inductor", mode=mode)
    row: dict[str, Any] = {"model": name, "dtype": settings.dtype, "batch": settings.batch}
    for key, program in programs.items():
        row[f"{key}_first_s"], row[f"{key}_error"] = program.first, error(program.output(), wanted)
        if not row[f"{key}_error"] <= ERRORS[settings.dtype]:
            raise SystemExit(f"{name}: the outputs of {key} have a relative error of {row[f'{key}_error']:.2g}")
    times: dict[str, list[float]] = {key: [] for key in programs}
    for turn in range(-(-settings.rounds // SERIES) + 1):
        for key, program in programs.items():
            program.once()
            took = [program.once() for _ in range(SERIES)]
            if turn:
                times[key] += took
    row.update((f"{key}_ms", float(np.percentile(rows, 20)) * 1e3) for key, rows in times.items())
    best = min(row[f"{mode}_ms"] for mode in settings.modes.split(","))
    row["ratio"] = row["tvm_classic_ms"] / best
    return row


def result_row(row: dict[str, Any], modes: list[str]) -> dict[str, Any]:
    """Return the row of a result file: the fastest mode of inductor, and the first calls."""
    best = min(modes, key=lambda mode: row[f"{mode}_ms"])
    is_transformer = row["model"] in TEXT or row["model"].startswith(("vit", "swin"))
    values = {"ours": row["tvm_classic_ms"], "inductor": row[f"{best}_ms"],
              "ours, first call (s)": row["tvm_classic_first_s"],
              "inductor, first call (s)": row[f"{best}_first_s"]}  # fmt: skip
    group = "transformers" if is_transformer else "convolutional networks"
    return {"name": row["model"], "group": group, "values": values, "details": row}


def show(row: dict[str, Any], modes: list[str]) -> None:
    keys = ["tvm_classic", *modes]
    cells = [f"{row[f'{key}_ms']:.3f}" for key in keys] + [f"{row['ratio']:.2f}"]
    cells += [f"{row[f'{key}_first_s']:.1f}" for key in keys] + [f"{row['tvm_classic_error']:.1e}"]
    print(f"| {row['model']} | " + " | ".join(cells) + " |", flush=True)


def _warm_up(device: str) -> None:
    """Load the modules that both sides load once per process."""
    import torch

    from tvm.contrib.torch import tvm_classic

    for backend in (tvm_classic, "inductor"):
        torch._dynamo.reset()
        with torch.inference_mode():
            torch.compile(torch.nn.Linear(4, 4).to(device), backend=backend)(torch.ones(2, 4, device=device))


def main(device: str = "cpu", modes: str = "default") -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--device", default=device)
    parser.add_argument("--modes", default=modes, help="comma-separated modes of inductor; the fastest one counts")
    parser.add_argument("--dtype", default="float32", choices=list(ERRORS))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", help="JSON file for the rows")
    result_file.add_option(parser)
    settings = parser.parse_args()
    os.environ.update(TVM_NUM_THREADS=str(settings.threads), TVM_NO_CACHE="1", OMP_NUM_THREADS=str(settings.threads))
    import torch

    torch.set_num_threads(settings.threads)
    torch._inductor.config.force_disable_caches = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    _warm_up(settings.device)
    wanted = settings.modes.split(",")
    heads = ["tvm_classic, ms", *(f"{mode}, ms" for mode in wanted), "ratio", "tvm_classic first, s",
             *(f"{mode} first, s" for mode in wanted), "error"]  # fmt: skip
    print("| model | " + " | ".join(heads) + " |\n|" + " --- |" * (len(heads) + 1))
    rows = []
    for name in settings.models:
        try:
            rows.append(measure(name, settings))
        except Exception as problem:
            print(f"| {name} | {' '.join(f'{type(problem).__name__}: {problem}'.split())[:300]} |", flush=True)
            continue
        show(rows[-1], wanted)
        if settings.json:
            save(settings.json, rows)
    if rows:
        mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
        print(f"geometric mean of the ratios over {len(rows)} models: {mean:.3f}")
        where = "benchmarks.gpu.torch_compile" if settings.device == "cuda" else "benchmarks.torch_compile"
        result_file.record(
            settings.record, "torch-compile", [result_row(row, wanted) for row in rows], unit="ms",
            command=f"python -m {where}", versions={"PyTorch": torch.__version__.partition("+")[0]},
            method=f"{settings.dtype}, batch {settings.batch}, {settings.threads} threads; {settings.rounds} calls in "
            f"turns of {SERIES}; inductor in its modes {settings.modes}",
        )  # fmt: skip


if __name__ == "__main__":
    main()
