"""Write the outputs of LiteRT for the models of tests/relay/frontend/tflite/tflite_cases.py into expected.npz beside
them.

Run it with a Python that has NumPy and ai-edge-litert: ``python tools/tflite_reference.py [NAME ...]``. It uses
LiteRT's reference kernels, or the optimized ones where an operator has no reference kernel or a wrong one; for float
activations with integer weights it uses the default, the delegate XNNPACK. Existing outputs are kept, since other
machines round real numbers differently; the named cases, or ``all``, run again.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "relay" / "frontend" / "tflite"
sys.path[:0] = [str(ROOT), str(FOLDER)]


# Wrong reference kernels: one omits the last neighbor, one returns -1 for sums of int8.
FAULTY = ("LOCAL_RESPONSE_NORMALIZATION", "SUM")
# Operators that only the delegate computes, and those that it computes with float activations and integer weights.
CUSTOM = ("Convolution2DTransposeBias",)
DELEGATED = ("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def outputs(name: str, operator: str, model: bytes, feeds: dict, runs: int) -> list:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    others = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    kernels = others if operator in FAULTY else OpResolverType.BUILTIN_REF
    if "_hybrid" in name and operator in DELEGATED or operator in CUSTOM:
        kernels = OpResolverType.AUTO
    try:
        interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kernels)
    except ValueError:
        interpreter = Interpreter(model_content=model, experimental_op_resolver_type=others)
    interpreter.allocate_tensors()
    places = {row["name"]: row["index"] for row in interpreter.get_input_details()}
    found = []
    for _ in range(runs):
        for name, value in feeds.items():
            interpreter.set_tensor(places[name], value)
        interpreter.invoke()
        found += [interpreter.get_tensor(row["index"]) for row in interpreter.get_output_details()]
    return found


def apart(name: str, operator: str, model: bytes, feeds: dict, runs: int):
    """Return the outputs of all runs of a model, or the reason why there are none; a kernel that aborts ends only
    its own process."""
    import numpy as np

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            found = outputs(name, operator, model, feeds, runs)
        except Exception as problem:
            found = [np.array(f"failed: {problem}")]
        file = io.BytesIO()
        np.savez(file, *found)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(file.getvalue())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(child, 0)
    if not raw:
        return "the kernel aborted"
    with np.load(io.BytesIO(raw)) as arrays:
        found = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
    return str(found[0]) if found[0].dtype.kind == "U" else found


def main() -> int:
    import numpy as np
    from tflite_cases import CASES

    again, arrays, failed = set(sys.argv[1:]), {}, 0
    if (FOLDER / "expected.npz").exists() and "all" not in again:
        with np.load(FOLDER / "expected.npz") as kept:
            arrays = {k: kept[k] for k in kept if (n := k.rpartition("/")[0]) in CASES and n not in again}
    there = {k.rpartition("/")[0] for k in arrays}
    for name, case in CASES.items():
        if name in there:
            continue
        found = apart(name, case.operator, case.model, case.feeds, case.runs)
        if isinstance(found, str):
            failed += 1
            print(f"{name}: {found}")
            continue
        for i, value in enumerate(found):
            arrays[f"{name}/{i}"] = value
    np.savez_compressed(FOLDER / "expected.npz", **arrays)
    print(f"{len(CASES) - failed} of {len(CASES)} models")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
