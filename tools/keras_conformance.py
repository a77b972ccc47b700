"""Compare the models of tests/relay/frontend/keras with the stored outputs of Keras, and write the table in
docs/coverage.md."""

from __future__ import annotations

import sys
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "relay" / "frontend" / "keras"
sys.path[:0] = [str(ROOT), str(FOLDER)]
TABLE = ROOT / "docs" / "coverage.md"
BEGIN, END = "<!-- keras layers: begin -->", "<!-- keras layers: end -->"


def run_model(model, feeds: dict, layout: str = "NHWC") -> list:
    """Return the outputs of a model compiled for this machine."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    mod, params = relay.frontend.from_keras(model, {k: v.shape for k, v in feeds.items()}, layout)
    with tvm.transform.PassContext(opt_level=3):
        compiled = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(compiled["default"](tvm.cpu()))
    module.run(**feeds)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def moved(case) -> dict:
    """Return the images of a case in NCHW layout."""
    import numpy as np

    return {k: np.ascontiguousarray(np.moveaxis(v, -1, 1)) if v.ndim == 4 else v for k, v in case.feeds.items()}


def problem_of(got: list, wanted: list) -> str:
    """Return the problem of outputs; "" if they are correct."""
    import numpy as np

    if len(got) != len(wanted):
        return f"{len(wanted)} outputs are wanted, got {len(got)}"
    for value, right in zip(got, wanted):
        if value.shape != right.shape or value.dtype != right.dtype:
            return f"{right.dtype}{list(right.shape)} is wanted, got {value.dtype}{list(value.shape)}"
        near = 2e-2 if right.dtype == "float16" else 2e-5
        if not np.allclose(value.astype("float64"), right.astype("float64"), rtol=near, atol=near, equal_nan=True):
            return f"off by {np.abs(value.astype('float64') - right.astype('float64')).max()}"
    return ""


def is_first(name: str) -> bool:
    """Return whether a case has its channels first."""
    return "_first" in name or "flatten_1" in name


def difference(case, ending: str) -> str:
    """Return the problem of the outputs of a case from a file with this suffix."""
    return problem_of(run_model(case.file(ending), case.feeds, layout_of(case.name)), case.wanted)


def layout_of(name: str) -> str:
    return "NCHW" if is_first(name) else "NHWC"


def check(name: str) -> tuple[str, str]:
    from keras_archive import cases

    from tvm.ir import structural_equal
    from tvm.relay.frontend import from_keras

    case = cases()[name]
    try:
        problem = difference(case, "h5")
        shapes = {k: v.shape for k, v in case.feeds.items()}
        old, new = (from_keras(case.file(e), shapes, layout_of(name))[0] for e in ("h5", "keras"))
        return name, problem or ("" if structural_equal(old, new) else "the archive becomes another graph")
    except Exception as problem:
        return name, f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"


def table(results: dict[str, str]) -> str:
    """Return a table with a row for each layer that has a converter."""
    from keras_cases import CASES

    from tvm.relay.frontend.keras.table import CONVERTERS

    rows = ["| layer | cases of Keras 3 | of Keras 2 | equal to Keras |", "|---|---|---|---|"]
    names = [n for n in CONVERTERS.names() if not n.startswith("tf.")]
    for kind in names:
        own = [n for n, (k, _) in CASES.items() if k == kind]
        old = [n for n in own if n.startswith("v2_")]
        bad = [f"{n}: {results[n]}" for n in own if results.get(n)]
        shown = kind.replace("ops.", "keras.ops ")
        rows.append(
            f"| {shown} | {len(own) - len(old)} | {len(old)} | {'; '.join(bad) or ('yes' if own else 'no case')} |"
        )
    head = (
        f"## Keras layers\n\n{len(names)} layers and operations; `python -m tools conformance keras` writes this "
        "table. Each case is a small model in an HDF5 file and in an archive (.keras), which give equal graphs; "
        "outputs agree within 2e-5.\n"
    )
    return "\n".join([head, *rows])


def main() -> int:
    from keras_archive import cases

    with get_context("spawn").Pool(2) as pool:
        chosen = [n for n in cases() if not sys.argv[1:] or any(a in n for a in sys.argv[1:])]
        results = dict(pool.imap_unordered(check, chosen, chunksize=8))
    for name, problem in results.items():
        if problem:
            print(f"{name}: {problem}")
    wrong = sum(1 for p in results.values() if p)
    print(f"{len(results) - wrong} passed, {wrong} failed")
    if len(chosen) == len(cases()):
        text = TABLE.read_text()
        part = f"{BEGIN}\n{table(results)}\n{END}"
        if BEGIN in text:
            text = text[: text.index(BEGIN)] + part + text[text.index(END) + len(END) :]
        else:
            text = f"{text.rstrip()}\n\n{part}\n"
        TABLE.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
