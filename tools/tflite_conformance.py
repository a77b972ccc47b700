"""Compare the models of tests/relay/frontend/tflite/tflite_cases.py with the stored outputs of LiteRT, and write the
table in docs/coverage.md."""

from __future__ import annotations

import sys
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "relay" / "frontend" / "tflite"
sys.path[:0] = [str(ROOT), str(FOLDER)]
TABLE = ROOT / "docs" / "coverage.md"
BEGIN, END = "<!-- tflite operators: begin -->", "<!-- tflite operators: end -->"


def run_model(model: bytes, feeds: dict, runs: int = 1, **options) -> list:
    """Return the outputs of all runs of a model that is imported with these options and compiled for this machine;
    each run passes its state to the next."""
    import tvm
    from tvm import relay

    mod, state = relay.frontend.from_tflite(model, **options)
    found = []
    with tvm.transform.PassContext(opt_level=3):
        run = relay.create_executor("vm" if relay.vm.needs_vm(mod, {}) else "graph", mod=mod, target="llvm").evaluate()
    for _ in range(runs):
        got = run(**{k: tvm.nd.array(v) for k, v in feeds.items()}, **state)
        results = list(got) if isinstance(got, (list, tvm.runtime.container.ADT)) else [got]
        own = len(results) - len(state)
        found += [r.numpy() for r in results[:own]]
        state = dict(zip(state, results[own:]))
    return found


def difference(case, expected: list) -> str:
    """Return the problem of the outputs of a case; "" if they are correct."""
    import numpy as np

    got = run_model(case.model, case.feeds, case.runs)
    if len(got) != len(expected):
        return f"{len(expected)} outputs are wanted, got {len(got)}"
    for value, wanted in zip(got, expected):
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            return f"{wanted.dtype}{list(wanted.shape)} is wanted, got {value.dtype}{list(value.shape)}"
        if wanted.dtype.kind == "f":
            if not np.allclose(value, wanted, rtol=1e-5, atol=1e-5, equal_nan=True):
                return f"off by {np.abs(value - wanted).max()}"
        elif wanted.size and np.abs(value.astype("int64") - wanted.astype("int64")).max() > (0 if case.exact else 1):
            return f"{(value != wanted).sum()} of {wanted.size} integers are wrong"
    return ""


def expected_outputs() -> dict[str, list]:
    """Return the outputs of LiteRT by the name of a case."""
    import numpy as np

    out: dict[str, list] = {}
    with np.load(FOLDER / "expected.npz") as arrays:
        for key in sorted(arrays, key=lambda k: (k.rpartition("/")[0], int(k.rpartition("/")[2]))):
            out.setdefault(key.rpartition("/")[0], []).append(arrays[key])
    return out


def check(name: str) -> tuple[str, str]:
    from tflite_cases import CASES

    try:
        return name, difference(CASES[name], expected_outputs()[name])
    except Exception as problem:
        return name, f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"


def kind(name: str) -> str:
    return next((t for t in ("uint8", "int8", "int16") if f"_{t}" in name), "plain")


# The reason why an operator has no converter.
REASONS = {
    "complex tensors are not supported": "COMPLEX_ABS IMAG REAL RFFT2D",
    "strings and tables of strings are not supported": "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_LOOKUP"
    " HASHTABLE_SIZE LSH_PROJECTION SKIP_GRAM",
    "random numbers differ between implementations": "MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM",
    "the converter of TensorFlow writes one operator for each direction": "BIDIRECTIONAL_SEQUENCE_LSTM"
    " BIDIRECTIONAL_SEQUENCE_RNN",
    "lookups by sparse rows are not supported": "EMBEDDING_LOOKUP_SPARSE",
    "LiteRT has no kernel": "CALL CONCAT_EMBEDDINGS DELEGATE PLACEHOLDER_FOR_GREATER_OP_CODES",
    "only converters other than that of TensorFlow write them": "DILATE REDUCE_WINDOW",
}


def missing(names: list[str]) -> list[str]:
    """Return a line for each reason, with the operators of the format that have no converter."""
    from tvm.relay.frontend.tflite.schema import OPERATORS

    reasons = {n: why for why, row in REASONS.items() for n in row.split()}
    stable = "StableHLO operators are in the files of other frameworks' converters"
    rows: dict[str, list[str]] = {}
    for name in sorted(set(OPERATORS) - set(names) - {"CUSTOM"}):
        rows.setdefault(stable if name.startswith("STABLEHLO_") else reasons[name], []).append(name)
    return [f"- {why}: {', '.join(row)}" for why, row in rows.items()]


def table(results: dict[str, str]) -> str:
    """Return a table with a row for each operator that has a converter, and the other operators with the reason."""
    from tflite_cases import CASES

    from tvm.relay.frontend.tflite.table import CONVERTERS, MOVING, QUANTIZED, TABLED

    rows = ["| operator | on integers | cases | equal to LiteRT |", "|---|---|---|---|"]
    names = sorted({*CONVERTERS.names(), *QUANTIZED.names()})
    for operator in names:
        own = [n for n, c in CASES.items() if c.operator == operator.removeprefix("CUSTOM ")]
        way = (
            "as the reference kernel"
            if operator in QUANTIZED.names()
            else "moved"
            if operator in MOVING
            else ("by a table" if operator in TABLED else "dequantized")
        )
        bad = [f"{n}: {results[n]}" for n in own if results[n]]
        verdict = "; ".join(bad) or ("yes" if own else "no case")
        rows.append(f"| {operator} | {way} | {len(own)} | {verdict} |")
    head = (
        f"## TFLite operators\n\n{len(names)} operators; `python -m tools conformance tflite` writes this table. "
        "Float outputs agree within 1e-5, integers exactly, except `RESIZE_BILINEAR` of uint8 within one step: its "
        "sums can be exactly between two integers and depend on the order of additions. Lookup tables of float "
        "values (int16, and concatenations of uint8 with several scales) are those of LiteRT for AArch64, which "
        "uses fused multiply-adds.\n"
    )
    tail = ["", "Operators without a converter:", "", *missing(names)]
    return "\n".join([head, *rows, *tail])


def main() -> int:
    from tflite_cases import CASES

    with get_context("spawn").Pool(2) as pool:
        results = dict(pool.imap_unordered(check, CASES, chunksize=4))
    for name, problem in results.items():
        if problem:
            print(f"{name}: {problem}")
    text = TABLE.read_text()
    part = f"{BEGIN}\n{table(results)}\n{END}"
    if BEGIN in text:
        text = text[: text.index(BEGIN)] + part + text[text.index(END) + len(END) :]
    else:
        text = f"{text.rstrip()}\n\n{part}\n"
    TABLE.write_text(text)
    wrong = sum(1 for p in results.values() if p)
    print(f"{len(results) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
