"""The program of docs/howto_bundle.md and the examples of apps/bundle_deploy."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.programs import Programs
from tests.relay.backend.bundle import cases
from tests.relay.backend.bundle.cases import ROOT
from tests.runtime.bindings.cases import prepare
from tvm import relay

PAGE = (ROOT / "docs" / "howto_bundle.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "apps" / "bundle_deploy"


@pytest.mark.slow("compiles the runtime")
def test_the_program_of_the_page(programs: Programs, tmp_path: Path):
    (python,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (program,) = re.findall(r"^```c\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (printed,) = re.findall(r"^   \$ \./main\n(.*?)^   ```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "write.py").write_text(python)
    (tmp_path / "main.c").write_text(program)
    done = programs.run([str(tmp_path / "write.py")], tmp_path)
    assert done.returncode == 0, done.stderr
    command = [cases.compiler("gcc"), "-std=c11", *cases.WARNINGS, "main.c", "net.a", "-lm", "-pthread", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert cases.run(tmp_path / "main").split() == printed.split()
    for line in re.findall(r"^   (#define.*|/\* Input.*)$", PAGE, re.MULTILINE):
        assert line in (tmp_path / "net.h").read_text()


@pytest.mark.slow("compiles the runtime, C and C++")
def test_the_examples_name_a_photo(tmp_path: Path, rng: np.random.Generator):
    """A random photo of an odd size, and a small classifier with a dynamic batch."""
    photo = rng.integers(0, 256, (37, 61, 3), dtype="uint8")
    (tmp_path / "photo.ppm").write_bytes(b"P6\n61 37\n255\n" + photo.tobytes())
    (tmp_path / "labels.txt").write_text("".join(f"label {i}\n" for i in range(5)))
    weights = relay.const(rng.standard_normal((5, 60)).astype("float32"))
    x = relay.var("photo", shape=(1, 3, 32, 40))
    pooled = relay.nn.avg_pool2d(x, pool_size=(8, 8), strides=(8, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(relay.nn.batch_flatten(pooled), weights)))
    model = cases.compile_static(mod, [prepare(photo, 32, 40)])
    model.export(tmp_path / "model.so", threads=False)
    model.export(tmp_path / "model.a", "static", threads=False)
    scores = model.outputs[0][0].astype("float64")
    wanted = f"{tmp_path / 'photo.ppm'}: label {scores.argmax()}, probability "
    probability = 1 / np.exp(scores - scores.max()).sum()
    shutil.copytree(EXAMPLES, tmp_path / "apps")
    make = ["make", "-s", f"ROOT={ROOT}", f"BUNDLE={tmp_path / 'model'}", "programs", "linked"]
    subprocess.run(make, cwd=tmp_path / "apps", check=True)
    files = [tmp_path / "photo.ppm", tmp_path / "labels.txt"]
    for program in ("classify", "classify_cpp", "classify_linked", "classify_linked_cpp"):
        bundle = [] if "linked" in program else [tmp_path / "model.so"]
        printed = cases.run(tmp_path / "apps" / program, *bundle, *files)
        assert printed.startswith(wanted)
        assert abs(float(printed.removeprefix(wanted).split(",")[0]) - probability) < 2e-3
    done = subprocess.run([tmp_path / "apps" / "classify", files[0], *files], capture_output=True, text=True)
    assert done.returncode == 1 and "the file is corrupt: it has no checksum" in done.stderr


@pytest.mark.slow("compiles Rust and the runtime")
def test_the_example_in_rust(tmp_path: Path, rng: np.random.Generator):
    cargo = cases.compiler("cargo")
    x = relay.var("photo", shape=(1, 3, 8, 8))
    flat = relay.nn.batch_flatten(relay.nn.avg_pool2d(x, pool_size=(4, 4), strides=(4, 4)))
    mod = tvm.IRModule.from_expr(relay.Function([x], flat))
    cases.compile_static(mod, [np.zeros((1, 3, 8, 8), "float32")]).export(
        tmp_path / "libmodel.a", "static", threads=False
    )
    (tmp_path / "photo.ppm").write_bytes(b"P6\n2 2\n255\n" + bytes([0, 255, 0] * 4))
    (tmp_path / "labels.txt").write_text("".join(f"label {i}\n" for i in range(12)))
    for folder in ("rust", "apps/bundle_deploy/rust"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    command = [
        cargo,
        "run",
        "--offline",
        "--quiet",
        "--features",
        "linked",
        "--",
        "../../../photo.ppm",
        "../../../labels.txt",
    ]
    environment = {"PATH": f"{Path(cargo).parent}:/usr/bin:/bin", "HOME": str(Path.home()), "BUNDLE_DIR": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path / "apps/bundle_deploy/rust", capture_output=True, text=True, env=environment
    )
    # A green photo: the largest values are those of the four pixels of the second color.
    assert done.returncode == 0 and re.search(r"photo.ppm: label [4-7], probability 0\.2", done.stdout), done.stderr
