"""Whole models on an NVIDIA GPU beside PyTorch with a captured CUDA graph: outputs are compared, then timed in turn.

    python -m benchmarks.gpu.models [MODEL ...] [--dtype float16] [--rounds 100] [--json FILE] [--profile]

Needs torch, torchvision and onnx. Weights follow from a seed. Both programs have their input on the GPU and replay a
captured graph; a round is one inference of each, and the 20th percentile of the rounds counts. With float16 or
bfloat16, ours is the float32 model after ToMixedPrecision, PyTorch's is `.half()` or `.bfloat16()`.
"""

from __future__ import annotations

import argparse
import copy
import io
import time
from typing import Any

import numpy as np

from .. import zoo
from ..harness import save
from .turns import end_turn, wait_for_turn

MODELS = ("resnet18", "resnet50", "mobilenet_v2", "vgg16", "bert_base_s128", "vit_b16")
# The largest allowed errors relative to double precision, by type.
ERRORS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}


def build(name: str) -> tuple[Any, Any]:
    """Return a model, and the same model as PyTorch runs it fastest: with PyTorch's attention, and without a mask of
    ones, whose creation cannot be captured in a graph."""
    import torch

    if name == "vit_b16":
        import torchvision

        torch.manual_seed(0)
        model = torchvision.models.vit_b_16(weights=None).eval()
        # The parameter is initialized with zeros, which would make all outputs zero.
        torch.nn.init.normal_(model.heads[-1].weight, std=0.02)
        return model, model
    model = zoo.build(zoo.Case(name))
    if name not in zoo.TEXT:
        return model, model

    class WithoutMask(torch.nn.Module):
        def __init__(self, inner: Any):
            super().__init__()
            self.inner = inner

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids).last_hidden_state

    fast = copy.deepcopy(model.model)
    fast.set_attn_implementation("sdpa")
    return model, WithoutMask(fast)


def as_onnx(model: Any, case: zoo.Case) -> Any:
    """Return the model as an ONNX graph."""
    import onnx
    import torch

    feeds = {name: torch.from_numpy(value) for name, value in zoo.sample(case).items()}
    file = io.BytesIO()
    torch.onnx.export(model, tuple(feeds.values()), file, input_names=list(feeds), opset_version=17, dynamo=False)
    return onnx.load_from_string(file.getvalue())


class Ours:
    def __init__(self, graph: Any, feeds: dict[str, np.ndarray], target: str, dtype: str):
        import tvm
        from tvm import relay
        from tvm.contrib import graph_executor

        started = time.perf_counter()
        mod, params = relay.frontend.from_onnx(graph)
        if dtype != "float32":
            mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
            mod, params = relay.transform.InferType()(mod), {}
            mod = relay.transform.ToMixedPrecision(dtype)(mod)
        with tvm.transform.PassContext(opt_level=3):
            library = relay.build(mod, target, params=params)
        self.compile_seconds = time.perf_counter() - started
        self.library = library
        wait_for_turn()
        self.device = tvm.cuda(0)
        self.module = graph_executor.GraphModule(library["default"](self.device))
        for name, value in feeds.items():
            self.module.set_input(name, value)

    def output(self) -> np.ndarray:
        self.module.run()
        return self.module.get_output(0).numpy().astype("float32")

    def once(self) -> float:
        self.device.sync()
        started = time.perf_counter()
        self.module.run()
        self.device.sync()
        return time.perf_counter() - started


class Torch:
    def __init__(self, model: Any, feeds: dict[str, np.ndarray], channels_last: bool, dtype: str):
        import torch

        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        self.torch = torch
        layout = torch.channels_last if channels_last else torch.contiguous_format
        kind = getattr(torch, dtype)
        model = copy.deepcopy(model).to(kind).cuda().to(memory_format=layout)
        inputs = [torch.from_numpy(v).cuda() for v in feeds.values()]
        inputs = [v.to(kind) if v.is_floating_point() else v for v in inputs]
        inputs = [v.to(memory_format=layout) if v.dim() == 4 else v for v in inputs]
        self.graph = torch.cuda.CUDAGraph()
        # The graph reads their memory but does not keep them alive.
        self.kept = model, inputs
        with torch.inference_mode():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(5):
                    model(*inputs)
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph):
                self.result = model(*inputs)

    def output(self) -> np.ndarray:
        self.graph.replay()
        self.torch.cuda.synchronize()
        return self.result.float().cpu().numpy()

    def once(self) -> float:
        self.torch.cuda.synchronize()
        started = time.perf_counter()
        self.graph.replay()
        self.torch.cuda.synchronize()
        return time.perf_counter() - started


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Return the relative error by the Frobenius norm."""
    return float(np.linalg.norm(got.astype("float64") - wanted) / np.linalg.norm(wanted))


def measure(name: str, rounds: int, target: str, dtype: str, profile: bool) -> dict[str, Any]:
    import torch

    case = zoo.Case(name)
    (model, fast), feeds = build(name), zoo.sample(case)
    with torch.inference_mode():
        wide = [torch.from_numpy(v).double() if v.dtype == "float32" else torch.from_numpy(v) for v in feeds.values()]
        wanted = model.double()(*wide).numpy()
    model = model.float()
    ours = Ours(as_onnx(model, case), feeds, target, dtype)
    mistake = error(ours.output(), wanted)
    if not mistake <= ERRORS[dtype]:
        raise SystemExit(f"{name}: the outputs have a relative error of {mistake:.2g}")
    if profile:
        show_profile(ours, feeds)
    peers = {layout: Torch(fast, feeds, layout == "NHWC", dtype) for layout in ("NCHW", "NHWC")}
    theirs = max(error(peer.output(), wanted) for peer in peers.values())
    if not theirs <= ERRORS[dtype]:
        raise SystemExit(f"{name}: PyTorch's outputs have a relative error of {theirs:.2g}")
    programs = {"ours": ours, **peers}
    for program in programs.values():
        for _ in range(10):
            program.once()
    times: dict[str, list[float]] = {key: [] for key in programs}
    for _ in range(rounds):
        for key, program in programs.items():
            times[key].append(program.once())
    best = {key: float(np.percentile(row, 20)) * 1e3 for key, row in times.items()}
    fastest = min(best["NCHW"], best["NHWC"])
    row = {
        "model": name,
        "dtype": dtype,
        "ours_ms": best["ours"],
        "torch_ms": fastest,
        "ratio": best["ours"] / fastest,
        "error": mistake,
        "torch_error": theirs,
        "compile_s": ours.compile_seconds,
    }
    print(
        f"| {name} | {row['ours_ms']:.3f} | {fastest:.3f} | {row['ratio']:.2f} | {mistake:.1e} | "
        f"{row['compile_s']:.1f} |",
        flush=True,
    )
    end_turn()
    return row


def show_profile(ours: Ours, feeds: dict[str, np.ndarray]) -> None:
    """Print the slowest kernels."""
    from tvm.contrib.debugger import debug_executor

    library = ours.library
    module = debug_executor.create(library.get_graph_json(), library.get_lib(), ours.device)
    for key, value in library.get_params().items():
        module.set_input(key, value)
    for key, value in feeds.items():
        module.set_input(key, value)
    module.profile()
    calls: list[Any] = module.profile().calls
    rows = [(call["Duration (us)"].us, call["Name"], str(call.get("Argument Shapes", ""))) for call in calls]
    total = sum(row[0] for row in rows)
    for us, kernel, shapes in sorted(rows, reverse=True)[:25]:
        print(f"    {us:9.1f} us {us / total:6.1%}  {kernel[:70]}  {shapes[:120]}")
    print(f"    {total:9.1f} us in {len(rows)} kernels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--dtype", default="float32", choices=list(ERRORS))
    parser.add_argument("--json", help="JSON file for the rows")
    parser.add_argument("--profile", action="store_true", help="print the slowest kernels of each model")
    arguments = parser.parse_args()
    print("| model | ours, ms | PyTorch, ms | ratio | error | compile, s |\n| --- | --- | --- | --- | --- | --- |")
    settings = arguments.rounds, arguments.target, arguments.dtype, arguments.profile
    rows = [measure(name, *settings) for name in arguments.models]
    if arguments.json:
        save(arguments.json, rows)


if __name__ == "__main__":
    main()
