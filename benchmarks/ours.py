"""Our side of the benchmarks: compile a case, time its operators, and run two executors at once."""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable

from tvm.utils.peers import peak_bytes

from . import zoo


def compile_case(spec: dict) -> dict:
    """Compile a case into the package that the spec names, and return the cost and properties of the result."""
    from tvm import relay
    from tvm.driver.tvmc import compiler, frontends
    from tvm.relay import flop

    case = zoo.Case(**spec["case"])
    start = time.perf_counter()
    model = frontends.load_model(spec["model"])
    layout = "NHWC" if case.is_nhwc else None
    compiler.compile_model(model, spec["target"], package_path=spec["package"], desired_layout=layout)
    took = time.perf_counter() - start
    typed = relay.transform.InferType()(model.mod)
    return {
        "compile_s": took,
        "compile_peak_bytes": peak_bytes(),
        "package_bytes": os.path.getsize(spec["package"]),
        "gflop": flop.of_function(typed["main"]) / 1e9,
    }


def _factory(spec: dict):
    import tvm
    from tvm import relay
    from tvm.driver.tvmc import frontends
    from tvm.driver.tvmc.transform import apply_graph_transforms

    case = zoo.Case(**spec["case"])
    model = frontends.load_model(spec["model"])
    with tvm.transform.PassContext(opt_level=3):
        mod = model.mod
        if case.is_nhwc:
            mod = apply_graph_transforms(mod, {"desired_layout": "NHWC"})
        return relay.build(mod, target=spec["target"], params=model.params)


def _debug_executor(factory):
    import tvm
    from tvm.contrib.debugger import debug_executor

    module = debug_executor.create(factory.get_graph_json(), factory.get_lib(), tvm.cpu(0))
    module.set_input(**factory.get_params())
    return module


def describe(factory) -> list[dict]:
    """Return the kernel calls of a compiled model in order: node number, kernel, operators, operations, bytes,
    shapes."""
    from tvm.relay import flop

    graph = json.loads(factory.get_graph_json())
    kernels = {kernel.name: kernel for kernel in factory.kernels}
    shapes, dtypes = graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1]
    rows = graph["node_row_ptr"]
    found = []
    for number, node in enumerate(graph["nodes"]):
        kernel = kernels.get(node["attrs"]["func_name"]) if node["op"] != "null" else None
        if kernel is None:
            continue
        entries = [rows[n] + k for n, k, _ in node["inputs"]]
        outs = list(range(rows[number], rows[number + 1]))
        written = sum(_bytes(shapes[e], dtypes[e]) for e in outs)
        # A lookup reads as many bytes of its table as it writes.
        read = [_bytes(shapes[e], dtypes[e]) for e in dict.fromkeys(entries)]
        read = [min(size, written) for size in read] if {"take", "gather"} & set(kernel.operators) else read
        found.append(
            {
                "node": number,
                "name": kernel.name.removeprefix("tvmgen_default_fused_"),
                "operators": list(kernel.operators),
                "source": node["attrs"].get("source", ""),
                "flop": flop.of_function(kernel.function),
                "bytes": sum(read) + written,
                "shapes": " ".join("x".join(str(d) for d in shapes[e]) for e in entries)
                + " -> "
                + " ".join("x".join(str(d) for d in shapes[e]) for e in outs),
                "what": _main_operator(kernel.function),
            }
        )
    return found


def _bytes(shape: list[int], dtype: str) -> int:
    from tvm.dtype import info

    size = (info(dtype).bits + 7) // 8
    for dim in shape:
        size *= dim
    return size


def _main_operator(function) -> str:
    """Return the heaviest operator of a kernel and its attributes as text; without multiply-adds, the least fusable
    operator."""
    from tvm.ir.op import Op
    from tvm.ir.visit import post_order
    from tvm.relay import flop
    from tvm.relay.expr import Call
    from tvm.relay.op.record import pattern_of

    calls = [n for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, Op)]
    if not calls:
        return "copy"
    call = max(calls, key=lambda call: (flop.macs_of_call(call), pattern_of(call.op)))
    name = call.op.name.removeprefix("nn.").removeprefix("contrib_").removesuffix("_NCHWc")
    kernel = getattr(call.attrs, "kernel_size", None)
    if "conv" not in name or kernel is None:
        return name
    groups = int(call.attrs.groups)
    return f"{name} {'x'.join(str(int(k)) for k in kernel)} /{int(call.attrs.strides[0])}" + (
        f" g{groups}" if groups > 1 else ""
    )


def serve_operators(spec: dict, answer: Callable[[dict], None]) -> None:
    """Serve times of single operators: within a whole run, or of one node run alone."""
    factory = _factory(spec)
    module = _debug_executor(factory)
    module.set_input(**zoo.sample(zoo.Case(**spec["case"])))
    module.run()
    answer({"rows": describe(factory)})
    profile, alone = module.module["profile_run"], module.module["time_node"]
    import array

    for line in sys.stdin:
        request = json.loads(line)
        seconds = array.array("d")
        if "node" in request:
            seconds.frombytes(bytes(alone(request["node"], request["number"], 1)))
            answer({"seconds": seconds[0]})
            continue
        module.run()
        seconds.frombytes(bytes(profile()))
        start = time.perf_counter()
        module.run()
        answer({"nodes": list(seconds), "whole": time.perf_counter() - start})


def serve_pair(spec: dict, answer: Callable[[dict], None]) -> None:
    """Serve rounds of one executor alone and of two at once, each in its own thread of this process."""
    import tvm
    from tvm.contrib import graph_executor

    factory = _factory(spec)
    inputs = zoo.sample(zoo.Case(**spec["case"]))
    modules = [graph_executor.GraphModule(factory["default"](tvm.cpu(0))) for _ in range(2)]
    for module in modules:
        module.set_input(**inputs)
        module.run()
    answer({})
    for line in sys.stdin:
        request = json.loads(line)
        number, took = request["number"], [0.0, 0.0]
        together = threading.Barrier(request["executors"])

        def work(i: int, number=number, took=took, together=together) -> None:
            modules[i].run()
            together.wait()
            start = time.perf_counter()
            for _ in range(number):
                modules[i].run()
            took[i] = (time.perf_counter() - start) / number

        threads = [threading.Thread(target=work, args=(i,)) for i in range(request["executors"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answer({"seconds": statistics.mean(took[: request["executors"]])})
