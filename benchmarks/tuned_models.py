"""A model compiled without tuning beside the same model compiled with records, in turn, each in its own process.

    python -m benchmarks.tuned_models MODEL.onnx [RECORDS ...] [--searched RECORDS] [--rounds 100] [--json FILE]

Records after ``--searched`` are used without those of the analytic choice, to show the result of the search alone.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import commit, interleave, save

_SPEC = "TUNED_MODEL"


def searched(records: str) -> list[tuple[Any, Any]]:
    """Return records without those of the analytic choice."""
    from tvm.autotvm.record import load_from_file
    from tvm.autotvm.task import create, relay_integration

    # The import registers the operators' templates.
    assert relay_integration.TEMPLATES_OF

    known: dict[Any, Any] = {}
    out = []
    for inp, result in load_from_file(records):
        key = (inp.task.name, inp.task.args)
        if key not in known:
            known[key] = create(inp.task.name, inp.task.args, inp.target).config_space
        space = known[key]
        if space.index_of(inp.config.values()) not in space.start:
            out.append((inp, result))
    return out


def program() -> Callable[[], float]:
    """Return a round of the model that the environment names; write its first output once."""
    from tvm.driver.tvmc import frontends
    from tvm.tuning.relay_model import compiled, timed

    spec = json.loads(os.environ[_SPEC])
    model = frontends.load_model(spec["model"])
    np.random.seed(0)
    records = searched(spec["records"]) if spec["searched"] else spec["records"]
    module, device = compiled(model.mod, model.params, spec["target"], records)
    module.run()
    np.save(spec["output"], module.get_output(0).numpy())
    return timed(module, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("records", nargs="*")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--searched", action="append", default=[])
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peers = {}
        for records in ("", *arguments.records, *arguments.searched):
            alone = records in arguments.searched
            name = (os.path.basename(records) or "untuned") + (", searched alone" if alone else "")
            spec = {"model": arguments.model, "target": arguments.target, "records": records,
                    "searched": alone, "output": os.path.join(folder, f"{name}.npy")}  # fmt: skip
            peers[name] = ("benchmarks.tuned_models:program", {_SPEC: json.dumps(spec)})
        results = interleave(peers, arguments.rounds)
        outputs = {name: np.load(os.path.join(folder, f"{name}.npy")) for name in peers}
    wanted = outputs["untuned"]
    rows = {}
    print("| records | ms, 20th percentile | of untuned | median of ratios | outputs differ by |")
    print("|---|---|---|---|---|")
    for name, result in results.items():
        base = results["untuned"]
        middle = float(np.median(np.array(result.seconds) / np.array(base.seconds)))
        low, high = result.interval()
        error = float(np.linalg.norm(outputs[name] - wanted) / np.linalg.norm(wanted))
        rows[name] = {"p20_ms": result.p20 * 1e3, "of_untuned": result.p20 / base.p20, "median_ratio": middle}
        print(f"| {name} | {result.p20 * 1e3:.2f} ({low * 1e3:.2f}-{high * 1e3:.2f}) | {result.p20 / base.p20:.3f} "
              f"| {middle:.3f} | {error:.1e} |")  # fmt: skip
        if not error <= 1e-3:
            raise SystemExit(f"{name}: the outputs have a relative error of {error:.2g}")
    if arguments.json:
        save(arguments.json, {"model": os.path.basename(arguments.model), "commit": commit(), "rows": rows,
                              "rounds": arguments.rounds})  # fmt: skip


if __name__ == "__main__":
    main()
