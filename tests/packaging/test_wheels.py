"""Both distributions are built, installed beside each other and removed again; what stays works."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.architecture.test_layers import LAYERS, imports
from tests.packaging.wheels import ROOT, deploy_programs, files_of, run
from tests.required import required

CONTENTS = (ROOT / "packaging" / "runtime" / "contents.txt").read_text(encoding="utf-8").split()
COMPILER_NAMES = """
import importlib, tvm
asked = [lambda: tvm.te, lambda: tvm.build, lambda: tvm.IRModule, lambda: importlib.import_module("tvm.relay"),
         lambda: tvm.driver.build, lambda: tvm.driver.tvmc.compile, lambda: exec("from tvm.contrib import nvcc")]
for ask in asked:
    try:
        ask()
    except ImportError as error:
        print(error)
"""
WHERE = "import os, tvm; print(os.path.basename(os.path.dirname(tvm.__file__)))"


def check_network(folder: Path) -> None:
    """Skip where pip cannot get the build system, which it installs for every build of a wheel."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (wanted,) = re.findall(r'^requires = \["(.*)"\]$', project, re.MULTILINE)
    options = ["--quiet", "--no-deps", "--retries", "1", "--timeout", "10", "--dest", folder]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], capture_output=True, text=True)
    if done.returncode and not required("network"):
        pytest.skip(f"no network, or no package index in it: pip cannot download {wanted}")
    assert not done.returncode, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Both wheels, compiled by the compiler of this machine."""
    check_network(tmp_path_factory.mktemp("build-system"))
    made = {}
    for name, source in (("tvm-classic", ROOT), ("tvm-classic-runtime", ROOT / "packaging" / "runtime")):
        folder = tmp_path_factory.mktemp(name)
        options = ["--quiet", "--no-deps", "--wheel-dir", folder, "--config-settings", f"build-dir={folder / 'build'}"]
        run(sys.executable, "-m", "pip", "wheel", *options, source, cwd=folder)
        (made[name],) = folder.glob("*.whl")
    return made


class Environment:
    """An empty environment that finds NumPy and the like where the tests do."""

    def __init__(self, folder: Path, wheels: dict[str, Path]):
        self.folder, self.wheels = folder, wheels
        run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)

    def pip(self, *arguments: object) -> None:
        python = self.folder / "env" / "bin" / "python"
        run(sys.executable, "-m", "pip", "--python", python, *arguments, cwd=self.folder)

    def install(self, name: str) -> None:
        self.pip("install", "--quiet", "--no-deps", "--no-index", "--no-compile", self.wheels[name])

    def remove(self, name: str) -> None:
        self.pip("uninstall", "--quiet", "--yes", name)

    def run(self, command: str, *arguments: object, fails: bool = False) -> str:
        packages = sysconfig.get_path("purelib")
        return run(self.folder / "env" / "bin" / command, *arguments, cwd=self.folder, fails=fails, PYTHONPATH=packages)


def check_full(environment: Environment) -> None:
    """The full distribution compiles, runs and has its command."""
    assert environment.run("python", "-c", WHERE) == "tvm\n"
    for program in deploy_programs():
        environment.run("python", "-c", program)
    assert "compile a model" in environment.run("tvmc", "--help")


def check_runtime(environment: Environment) -> None:
    """The runtime runs a model, and says where the compiler is."""
    assert environment.run("python", "-c", WHERE) == "tvm_classic_runtime\n"
    compiled = (environment.folder / "model.so").exists()
    assert compiled, "compiled when the full distribution was here"
    loaded = "import sys; print([name for name in ('llvmlite', 'onnx') if name in sys.modules])"
    assert environment.run("python", "-c", f"{deploy_programs()[1]}\n{loaded}").endswith("[]\n")
    said = environment.run("python", "-c", COMPILER_NAMES).splitlines()
    assert len(said) == 7
    assert all(
        "tvm-classic-runtime contains only the runtime" in line and "pip install tvm-classic" in line for line in said
    )
    assert "Measure built candidates" in environment.run("python", "-m", "tvm.runtime.measure_files", "--help")
    said = environment.run("tvmc-runtime", "compile", "--target", "llvm", "model.onnx", fails=True)
    assert said.startswith("Error: tvmc compile: ") and "pip install tvm-classic" in said
    environment.run("tvmc-runtime", "run", "--fill-mode", "ones", "--outputs", "out.npz", "--print-time", "model.tar")


PACKAGE = """
import numpy, tvm
from tvm import relay
from tvm.driver import tvmc
x = relay.var("x", shape=(2, 3), dtype="float32")
model = tvmc.TVMCModel(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), {})
tvmc.compile(model, target="llvm", package_path="model.tar")
"""


@pytest.mark.slow("builds wheels")
def test_both_wheels_have_the_headers(wheels):
    headers = {path.relative_to(ROOT / "csrc") for path in (ROOT / "csrc" / "include").rglob("*.h*")}
    for name, folder in (("tvm-classic", "tvm"), ("tvm-classic-runtime", "tvm_classic_runtime")):
        assert {f"{folder}/{path}" for path in headers} <= files_of(wheels[name])


@pytest.mark.slow("builds wheels")
def test_the_full_wheel_has_the_parts_for_microcontrollers(wheels):
    found = files_of(wheels["tvm-classic"])
    for folder, target in (("csrc/crt", "tvm/standalone_crt"), ("tvm/micro/templates", "tvm/micro/templates")):
        files = {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.is_file()}
        wanted = {f"{target}/{path}" for path in files if "__pycache__" not in path.parts}
        assert len(wanted) > 5 and wanted <= found, sorted(wanted - found)
    assert not any("standalone_crt" in name for name in files_of(wheels["tvm-classic-runtime"]))


@pytest.mark.slow("builds and installs wheels")
def test_either_distribution_can_be_removed_and_the_other_works(wheels, tmp_path: Path):
    """One test, so that each wheel is built once. Installed in both orders, removed in both."""
    environment = Environment(tmp_path, wheels)
    environment.install("tvm-classic")
    check_full(environment)
    environment.run("python", "-c", PACKAGE)
    environment.install("tvm-classic-runtime")
    check_full(environment)
    environment.remove("tvm-classic")
    check_runtime(environment)
    environment.install("tvm-classic")
    check_full(environment)
    environment.remove("tvm-classic-runtime")
    check_full(environment)


@pytest.mark.slow("builds and installs wheels")
def test_no_file_belongs_to_both_and_the_runtime_is_small(wheels):
    full, runtime = files_of(wheels["tvm-classic"]), files_of(wheels["tvm-classic-runtime"])
    assert not full & runtime
    assert "bin/tvmc" in full and "bin/tvmc-runtime" in runtime and "tvm.py" in runtime
    assert wheels["tvm-classic-runtime"].stat().st_size < 620_000


def runtime_files() -> set[str]:
    """The Python files of the runtime distribution, as paths in the tree."""
    found = set()
    for part in CONTENTS:
        path = ROOT / "tvm" / part
        assert path.exists(), f"contents.txt names {part}"
        found |= {p.relative_to(ROOT).as_posix() for p in ([path] if path.is_file() else path.rglob("*.py"))}
    return found


def test_runtime_distribution_has_every_file_of_the_two_lowest_layers():
    lowest = {name.split(".")[1] for name, layer in LAYERS.items() if layer <= 1}
    wanted = {f"{name}.py" for name in lowest} | lowest
    assert {name for name in wanted if (ROOT / "tvm" / name).exists()} <= set(CONTENTS)


@pytest.mark.slow("builds and installs wheels")
def test_what_the_runtime_distribution_imports_at_once_is_in_it():
    files = runtime_files()
    missing = []
    for file in sorted(files - {"tvm/__init__.py"}):
        for module, line, in_function in imports(file):
            path = module.replace(".", "/")
            if module.split(".")[0] == "tvm" and not in_function and not {f"{path}.py", f"{path}/__init__.py"} & files:
                missing.append(f"{file}:{line}: {module}")
    assert not missing, "\n".join(missing)
