"""Run the node tests of the installed onnx package through our backend and write the table in docs/coverage.md."""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import multiprocessing
import os
import pkgutil
import queue as queue_module
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TABLE = ROOT / "docs" / "coverage.md"
# The beginning of the result of a test that only the virtual machine runs.
BUNDLE = "pass, as a bundle with the virtual machine"
BEGIN, END = "<!-- onnx conformance: begin -->", "<!-- onnx conformance: end -->"


@functools.cache
def modules() -> list[str]:
    """Return the modules of the onnx package that create the node tests, most of them one module per operator."""
    from onnx.backend.test.case import node

    found = pkgutil.walk_packages(node.__path__, f"{node.__name__}.")
    return sorted(module.name for module in found if not module.ispkg)


@functools.cache
def cases_of(module: str) -> list:
    """Return the node tests of a module. Importing the module creates them, which takes ten seconds for all modules."""
    from onnx.backend.test.case import node

    count = len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(module)
    return node._NodeTestCases[count:]


@functools.cache
def cases() -> list:
    """Return all node tests, in the order of their names."""
    return sorted((case for module in modules() for case in cases_of(module)), key=lambda c: c.name)


def run_case(case) -> str:
    """Return "pass", or the reason of the failure in one line."""
    return _outcome(lambda: _check(case, _prepare(case)))


def run_ahead_of_time(batch: list, folder: Path) -> list[str]:
    """Return the results of tests whose models are compiled to C: models with static shapes ahead of time, linked into
    one program, and the others as bundles that contain the virtual machine."""
    from tvm.testing.aot import PlainBatch

    plain, results, prepared = PlainBatch(folder), [], []
    bundles = c_bundles(folder)

    def prepare(case) -> None:
        prepared.append(_prepare(case, compile=plain.add, compile_dynamic=bundles))

    for case in batch:
        results.append(_outcome(lambda case=case: prepare(case)))
        if results[-1] != "pass":
            prepared.append(None)

    for number, (case, compiled) in enumerate(zip(batch, prepared)):
        if compiled is not None:
            results[number] = _outcome(lambda case=case, compiled=compiled: _check(case, compiled))
            if results[number] == "pass" and compiled.program.reason is not None:
                results[number] = BUNDLE
    return results


def c_bundles(folder: Path):
    """Return a function that compiles a model for the virtual machine to a bundle, one C file, and returns a function
    that runs it."""
    from tools.run_bundle import run_bundle
    from tvm import nd, relay
    from tvm.ir.type import TupleType
    from tvm.relay.backend.bundle import export_bundle
    from tvm.relay.infer import infer_module
    from tvm.runtime import link

    made = iter(range(sys.maxsize))

    def compile(module, params):
        stem = folder / f"bundle{next(made)}"
        export_bundle(relay.vm.compile(module, "c", params=params), f"{stem}.c", "c", threads=False, ir_mod=module)
        options = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-o", f"{stem}.so", f"{stem}.c", "-lm"]
        link.run_compiler([*link.find_compiler(), *options], f"compiling {stem}.c")
        main = infer_module(module)["main"]
        names = [p.name_hint for p in main.params if p.name_hint not in params]

        def run(values):
            found = iter(run_bundle(f"{stem}.so", [_array_of(values[name]) for name in names]))

            def value(t):
                return [value(field) for field in t.fields] if isinstance(t, TupleType) else nd.array(next(found))

            return value(main.checked_type.ret_type)

        return run

    return compile


def _array_of(value):
    return value.numpy() if hasattr(value, "numpy") else value


def _prepare(case, **options):
    from tvm.contrib import onnx_backend

    return onnx_backend.prepare(case.model or _load(case), **options)


def _check(case, compiled) -> None:
    """Run the model of a test and compare its outputs."""
    from onnx.backend.test.runner import Runner

    for inputs, outputs in case.data_sets or _data(case, compiled.model):
        inputs, outputs = [_array(v) for v in inputs], [_array(v) for v in outputs]
        got = compiled.run(inputs)
        Runner.assert_similar_outputs(outputs, list(got), rtol=case.rtol, atol=case.atol, model_dir=case.model_dir)


def _outcome(step) -> str:
    """Return "pass", or the reason of the failure of a step in one line."""
    from tvm.error import TVMError

    try:
        step()
    except AssertionError as problem:
        return "wrong: " + " ".join(str(problem).split())[:160]
    except TVMError as problem:
        return "refused: " + _reason(str(problem))
    except Exception as problem:
        return f"failed: {type(problem).__name__}: " + " ".join(str(problem).split())[:200]
    return "pass"


def _array(value):
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _load(case):
    import onnx

    return onnx.load(os.path.join(case.model_dir, "model.onnx"))


def _data(case, model):
    import glob

    import onnx
    from onnx import numpy_helper

    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set*"))):
        sides = []
        for side in ("input", "output"):
            rows = []
            for i in range(len(glob.glob(os.path.join(folder, f"{side}_*.pb")))):
                tensor = onnx.TensorProto()
                tensor.ParseFromString(Path(folder, f"{side}_{i}.pb").read_bytes())
                rows.append(numpy_helper.to_array(tensor))
            sides.append(rows)
        yield sides


def _reason(text: str) -> str:
    text = " ".join(text.split())
    return text.split("': ", 1)[1] if "node '" in text and "': " in text else text


# What a test needs to pass: the first entry with a word that is in the reason of the failure.
_NEEDS = (
    ("training", ("training", "Momentum", "Adagrad", "Adam")),
    ("strings", ("string", "String", "RegexFullMatch")),
    ("sequences", ("Sequence", "sequences, maps")),
    ("optionals", ("Optional", "opt_in", "opt_seq")),
    ("run-time control flow", ("number of steps", "the condition is computed")),
    ("decoders of image files", ("ImageDecoder",)),
    ("run-time sizes", ("when compiling", "known only when the model runs")),
)
_ALIGNED = (
    "the expected output divides by the unrounded output length; the specification and onnxruntime by the rounded one"
)
# Tests whose expected outputs a correct implementation does not produce.
_NOTES = {
    "bernoulli": ("random numbers", "the outputs are random; the expected output is one sample"),
    "training_dropout": ("random numbers", "dropout is random; the expected output is one sample"),
    "scales_linear_align_corners": ("another interpretation", _ALIGNED),
    "scales_cubic_align_corners": ("another interpretation", _ALIGNED),
    "dft_inverse": ("rounding", "the exact output is 0; the expected output is rounding noise, 1.9e-7"),
}


def needs(name: str, reason: str) -> tuple[str, str]:
    """Return what a failing test needs, and the reason as the table shows it."""
    for key, note in _NOTES.items():
        if key in name and (reason.startswith("wrong") or reason == note[1]):
            return note
    for need, words in _NEEDS:
        if any(w in reason for w in words):
            return need, reason
    return "a fix", reason


def _worker(index: int, count: int, names: set | None, queue, ahead_of_time: bool) -> None:
    warnings.simplefilter("ignore")
    chosen = [c for c in cases() if names is None or c.name in names][index::count]

    def late(number, frame):
        raise TimeoutError("took longer than 60 s of processor time")

    signal.signal(signal.SIGPROF, late)
    size = BATCH if ahead_of_time else 1
    for batch in (chosen[at : at + size] for at in range(0, len(chosen), size)):
        signal.setitimer(signal.ITIMER_PROF, 60 * len(batch))
        if ahead_of_time:
            with tempfile.TemporaryDirectory(prefix="tvm-onnx-") as folder:
                results = run_ahead_of_time(batch, Path(folder))
        else:
            results = [run_case(case) for case in batch]
        signal.setitimer(signal.ITIMER_PROF, 0)
        for case, result in zip(batch, results):
            queue.put((case.name, result))
    queue.put(None)


# Models of one program.
BATCH = 20


def run_all(
    names: set | None = None, jobs: int = 2, journal: Path | None = None, ahead_of_time: bool = False
) -> dict[str, str]:  # fmt: skip
    """Return results by name. A journal stores them as they arrive, so that an interrupted run continues."""
    results: dict[str, str] = {}
    if journal is not None and journal.exists():
        results = dict(line.split("\t", 1) for line in journal.read_text().splitlines())
        names = {c.name for c in cases() if (names is None or c.name in names) and c.name not in results}
    cases()  # created before the workers start, which then share them
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_worker, args=(i, jobs, names, queue, ahead_of_time)) for i in range(jobs)]
    for w in workers:
        w.start()
    running = jobs
    while running:
        try:
            row = queue.get(timeout=120)
        except queue_module.Empty:
            if any(w.is_alive() for w in workers):
                continue
            raise RuntimeError(f"the worker processes ended early, after {len(results)} tests") from None
        if row is None:
            running -= 1
        else:
            results[row[0]] = row[1]
            if journal is not None:
                with journal.open("a") as file:
                    file.write("\t".join(row) + "\n")
            if len(results) % 100 == 0:
                print(
                    f"{len(results)} tests, {sum(r == 'pass' for r in results.values())} pass",
                    file=sys.stderr,
                    flush=True,
                )
    for w in workers:
        w.join(timeout=5)
    return results


def known_failures() -> dict[str, str]:
    """Return the tests that the table lists as failing, with their reasons."""
    text = TABLE.read_text() if TABLE.exists() else ""
    if BEGIN not in text:
        return {}
    rows = [line.split("|") for line in text.split(BEGIN)[1].split(END)[0].splitlines() if line.startswith("| test_")]
    return {r[1].strip(): r[-2].strip() for r in rows}


def write_table(results: dict[str, str]) -> None:
    import onnx

    passed = sum(r == "pass" for r in results.values())
    total = len(results)
    rows = [(name, *needs(name, reason)) for name, reason in sorted(results.items()) if reason != "pass"]
    kinds = collections.Counter(need for _, need, _ in rows)
    lines = [
        BEGIN,
        "## ONNX node tests",
        "",
        f"`python -m tools conformance onnx` runs every node test of the installed onnx package "
        f"({onnx.__version__}) through the backend interface; "
        "the data of a test are inputs of the compiled program, not constants.",
        "",
        f"{passed} of {total} pass ({100 * passed / total:.1f} %). The other tests need: "
        + (", ".join(f"{k} ({n})" for k, n in sorted(kinds.items())) or "nothing")
        + ".",
        "",
        "| test | needs | why it does not pass |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {need} | {reason.replace('|', '/')} |" for name, need, reason in rows]
    lines.append(END)
    text = TABLE.read_text() if TABLE.exists() else "# Coverage\n\n"
    if BEGIN in text:
        text = text.split(BEGIN)[0] + "\n".join(lines) + text.split(END)[1]
    else:
        text = text.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n"
    TABLE.write_text(text)


def sample(count: int, seed: int) -> list:
    """Return cases chosen at random by the seed, two of a module where it has that many."""
    rng = random.Random(seed)
    found: list = []
    for module in rng.sample(modules(), len(modules())):
        if len(found) >= count:
            break
        found += rng.sample(cases_of(module), min(2, len(cases_of(module))))
    if len(found) < count:
        found = rng.sample(cases(), min(count, len(cases())))
    return found[:count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--match", default="", help="run only tests whose name contains this text; writes no table")
    parser.add_argument("--again", action="store_true", help="run only the tests in the table; keep other results")
    parser.add_argument("--journal", type=Path, help="file of results, with which an interrupted run continues")
    parser.add_argument("--failures", action="store_true", help="print every test that does not pass")
    parser.add_argument(
        "--aot", action="store_true", help="compile to C: ahead of time, or as bundles with the VM; writes no table"
    )
    args = parser.parse_args()
    started = time.time()
    names = {c.name for c in cases() if args.match in c.name} if args.match else None
    kept: dict[str, str] = {}
    if args.again:
        listed = known_failures()
        names = {n for n in listed if args.match in n}
        kept = {c.name: listed.get(c.name, "pass") for c in cases()}
    results = {**kept, **run_all(names, args.jobs, args.journal, args.aot)}
    bundles = sum(r == BUNDLE for r in results.values())
    results = {name: "pass" if r == BUNDLE else r for name, r in results.items()}
    passed = sum(r == "pass" for r in results.values())
    if args.failures or args.match:
        for name, reason in sorted(results.items()):
            if reason != "pass":
                print(f"{name}: {reason}")
    if args.aot:
        print(f"{bundles} of them as bundles with the virtual machine")
    print(
        f"{passed} of {len(results)} node tests pass ({100 * passed / max(len(results), 1):.1f} %), "
        f"{time.time() - started:.0f} s"
    )
    if (not args.match or args.again) and not args.aot:
        write_table(results)
        print(f"table written: {TABLE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
