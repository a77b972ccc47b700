"""Write the outputs of Caffe2 for the test cases to tests/relay/frontend/caffe2/cases.npz.

Run it with a Python that has Caffe2 (PyTorch up to 1.8 for x86-64 contains it); the rest of this repository is not
needed. Arguments are names of cases, whose outputs are added to the file. Cases that Caffe2 rejects are listed and left
out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "relay" / "frontend" / "caffe2"
sys.path.insert(0, str(FOLDER))

from caffe2_cases import CASES, NETWORKS  # noqa: E402


def run(case) -> list[np.ndarray]:
    from caffe2.python import core, workspace

    workspace.ResetWorkspace()
    for name, value in {**case.feeds, **case.weights}.items():
        workspace.FeedBlob(name, value)
    for step in case.steps:
        workspace.RunOperatorOnce(core.CreateOperator(step.op, step.inputs, step.outputs, **step.args))
    return [np.array(workspace.FetchBlob(name)) for name in case.outputs]


def main() -> None:
    found, refused = {}, []
    file = FOLDER / "cases.npz"
    if sys.argv[1:] and file.exists():
        with np.load(file) as before:
            found = {key: before[key] for key in before}
    for name, case in [*CASES.items(), *((n, make()) for n, make in NETWORKS.items())]:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        try:
            for i, array in enumerate(run(case)):
                found[f"{name}:{i}"] = array
        except Exception as problem:
            refused.append(f"{name}: {str(problem).strip().splitlines()[0][:200]}")
        print(name, flush=True)
    np.savez_compressed(file, **found)
    print("refused:", *refused, sep="\n  ")


if __name__ == "__main__":
    main()
