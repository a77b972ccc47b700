"""What ``import tvm`` and the command line load: each part when it is first named, so that both start at once."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(program: str) -> set[str]:
    """The modules that ``program`` loads, in a process of its own. Modules that the interpreter has loaded before,
    as packages with a .pth file make it, do not count."""
    text = f"import sys\nbefore = {{*sys.modules}}\n{program}\nsys.stderr.write(' '.join({{*sys.modules}} - before))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name == "tvm" or name.startswith("tvm.")}


def test_import_tvm_loads_the_runtime_alone():
    modules = loaded("import tvm")
    compiler = {name for name in ours(modules) if name.split(".")[1:2] not in ([], ["runtime"], ["_ffi"])}
    assert compiler <= {
        "tvm.error",
        "tvm.dtype",
        "tvm.hooks",
        "tvm.object_path",
        "tvm.registry",
        "tvm._bootstrap",
        "tvm.not_built",
    }
    assert not modules & {"numpy", "ml_dtypes", "llvmlite", "argparse", "pathlib", "tempfile", "subprocess"}
    assert len(ours(modules)) <= 40


@pytest.mark.slow("starts an interpreter for each program")
def test_programs_compare_numbers_where_pytest_is_not_installed():
    absent = "import sys; sys.modules['pytest'] = None\nimport tvm.testing\n"
    loaded(absent + "tvm.testing.assert_allclose([1.0], [1.0])")
    program = absent + "tvm.testing.parameter(1, 2)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].endswith("pip install pytest")


@pytest.mark.parametrize(
    "program",
    [
        "import tvm; assert isinstance(tvm.runtime.convert(3), tvm.runtime.Object)",
        "import tvm; assert isinstance(tvm.tir.Var('x', 'int32'), tvm.Object)",
        "import tvm; assert tvm.ir.load_json(tvm.ir.save_json(tvm.runtime.ShapeTuple([1, 2]))) == (1, 2)",
        "from tvm.ir import EnvFunc; import tvm; tvm.register_func('f', lambda: 1); assert EnvFunc.get('f')() == 1",
        "from tvm import ir, runtime; assert issubclass(ir.Node, runtime.Object)",
    ],
)
def test_the_ir_is_joined_to_the_runtime_whichever_is_named_first(program):
    assert "tvm.ir" in loaded(program)


def test_the_version_is_said_without_loading_the_compiler():
    modules = loaded("from tvm.driver.tvmc.main import _main\nassert _main(['--version']) == 0")
    assert not {name for name in ours(modules) if name.split(".")[1:2] in (["ir"], ["relay"], ["target"], ["tir"])}
    assert "numpy" not in modules and len(ours(modules)) <= 50


def test_a_command_loads_the_modules_it_needs():
    program = "from tvm.driver.tvmc.main import _main\ntry: _main(['run', '--help'])\nexcept SystemExit: pass"
    modules = loaded(program)
    assert "tvm.driver.tvmc.runner" in modules and "tvm.ir" not in modules and "tvm.driver.tvmc.compiler" not in modules


@pytest.mark.slow("starts an interpreter for each import")
def test_relay_brings_the_templates_that_scripts_name():
    loaded(
        "from tvm import autotvm, relay\n"
        "a, b = (('TENSOR', (n, 8), 'float32') for n in (4, 16))\n"
        "task = autotvm.task.create('dense_pack.x86', (a, b, None, 'float32'), 'llvm')\n"
        "assert task.flop == 2 * 4 * 8 * 16\n"
        "autotvm.task.create('dense_small_batch.gpu', (a, b, None, 'float32'), 'cuda')"
    )
