"""Name the pass that changes the output of a random graph: ``python tools/bisect_pass.py SEED``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "tests" / "relay")]

import random_graphs  # noqa: E402

import tvm  # noqa: E402
from tvm import relay  # noqa: E402
from tvm.ir.transform import run_pipeline  # noqa: E402
from tvm.relay.pipeline import optimize  # noqa: E402


def main(seed: int) -> int:
    mod, values = random_graphs.graph(seed)
    want = random_graphs.interpret(mod, values)
    print(relay.astext(mod, show_meta_data=False))
    with tvm.transform.PassContext(opt_level=3) as ctx:
        for number, pass_ in enumerate(optimize(tvm.target.Target("llvm"))):
            new = run_pipeline(mod, (pass_,), ctx)
            problem = random_graphs.close(random_graphs.interpret(new, values), want)
            if problem:
                print(
                    f"seed {seed}: pass {number} ({pass_.info.name}) changes the result: {problem}\nbefore it:\n{mod}\n"
                    f"after it:\n{new}"
                )
                return 1
            mod = new
    for level in (0, 3):
        problem = random_graphs.close(random_graphs.compile_and_run(mod, values, level), want)
        if problem:
            print(f"seed {seed}: no graph pass changes the output; compiled at level {level}, {problem}")
            return 1
    print(f"seed {seed}: no pass changes the output")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
