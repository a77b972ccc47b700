"""The commands of the guides, word for word, on a model like the one they use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.driver.tvmc import guide_model

pytestmark = pytest.mark.slow("compiles and runs a whole network with the command line")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# The whole model takes a minute more; its operators are the same.
WIDTH, DEPTH = (1, 6) if os.environ.get("TVM_TEST_FULL") else (8, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the model, where `tvmc` and `python` are commands."""
    made = tmp_path_factory.mktemp("guide")
    guide_model.write(str(made / "resnet50-v2-7.onnx"), WIDTH, DEPTH)
    (made / "bin").mkdir()
    for name, arguments in (("tvmc", "-m tvm.driver.tvmc"), ("python", "")):
        script = made / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(0o755)
    for name in ("preprocess.py", "postprocess.py"):
        (made / name).symlink_to(EXAMPLES / name)
    return made


def shell(folder: Path, command: str) -> str:
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def compiled(folder) -> Path:
    shell(
        folder,
        """tvmc compile \\
--target "llvm" \\
--input-shapes "data:[1,3,224,224]" \\
--output resnet50-v2-7-tvm.tar \\
resnet50-v2-7.onnx""",
    )
    return folder


def test_compile_and_list(compiled):
    listed = shell(
        compiled,
        """mkdir model
tar -xvf resnet50-v2-7-tvm.tar -C model
ls model""",
    )
    assert {"mod.so", "mod.json", "mod.params"} <= set(listed.split())


def test_run_gives_what_onnxruntime_gives(compiled):
    onnxruntime = pytest.importorskip("onnxruntime")
    shell(
        compiled,
        """python preprocess.py
tvmc run \\
--inputs imagenet_cat.npz \\
--output predictions.npz \\
resnet50-v2-7-tvm.tar""",
    )
    session = onnxruntime.InferenceSession(str(compiled / "resnet50-v2-7.onnx"), providers=["CPUExecutionProvider"])
    data = np.load(compiled / "imagenet_cat.npz")["data"]
    expected = session.run(None, {"data": data})[0]
    got = np.load(compiled / "predictions.npz")["output_0"]
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    shown = shell(compiled, "python postprocess.py").splitlines()
    assert len(shown) == 5 and all(line.startswith("class='n") and "with probability=" in line for line in shown)


def test_times(compiled):
    shell(compiled, "python preprocess.py")
    shown = shell(
        compiled,
        """tvmc run \\
--inputs imagenet_cat.npz \\
--output predictions.npz  \\
--print-time \\
--repeat 100 \\
resnet50-v2-7-tvm.tar""",
    )
    head, numbers = shown.splitlines()[-2:] if "mean (ms)" in shown.splitlines()[-2] else shown.splitlines()[1:3]
    assert head.split("(ms)")[0].strip() == "mean" and all(float(n) > 0 for n in numbers.split()[:4])
