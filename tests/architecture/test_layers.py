"""Imports go down only. Read from the source with ``ast``: nothing is imported, and a new file is covered at once."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, sources, statements

# The longest matching prefix decides. A module may import its own layer only inside its own package (the prefix).
LAYERS = {
    "tvm.error": 0,
    "tvm.docstring": 0,
    "tvm.dtype": 0,
    "tvm.registry": 0,
    "tvm.hooks": 0,
    "tvm.object_path": 0,
    "tvm.runtime": 1,
    "tvm.drawing": 1,
    "tvm._ffi": 1,
    "tvm._runtime_only": 1,
    "tvm.not_built": 2,
    "tvm.ir": 2,
    "tvm.transform": 2,
    "tvm.instrument": 2,
    "tvm.arith": 3,
    "tvm.target": 3,
    "tvm.tir": 4,
    "tvm.script": 4,
    "tvm.te": 5,
    "tvm.codegen": 6,
    "tvm.driver": 7,
    "tvm.rpc": 7,
    "tvm.tuning": 8,
    "tvm.tuning.apply_records": 12,
    "tvm.tuning.relay_model": 12,
    "tvm.autotvm": 8,
    "tvm.autotvm.task.relay_integration": 11,
    "tvm.autotvm.graph_tuner": 12,
    "tvm.auto_scheduler": 8,
    "tvm.auto_scheduler.relay_integration": 11,
    "tvm.topi": 9,
    "tvm.relay": 10,
    "tvm.relay.frontend": 11,
    "tvm.relay.testing.darknet": 12,
    "tvm.driver.tvmc": 12,
    "tvm.contrib": 12,
    "tvm.testing": 12,
    "tvm.support": 12,
    "tvm.utils": 12,
    "tvm.exec": 12,
    "tvm": 13,
}
# From here up a module may import anything: it stands where a user's script stands.
TOP = 12

# Pairs of packages of one layer, or layers that are near, where the general rule does not say it all.
FORBIDDEN = {
    ("tvm.ir", "tvm.runtime"): "the compiler's data does not need the runtime",
    ("tvm.rpc", "tvm.codegen"): "rpc stands on the runtime alone",
    ("tvm.rpc", "tvm.te"): "rpc stands on the runtime alone",
    ("tvm.rpc", "tvm.tir"): "rpc stands on the runtime alone",
}
SAME_LAYER = {
    ("tvm.script", "tvm.tir"): "text is written from and read into tir nodes",
    ("tvm._ffi", "tvm.runtime"): "a face with classic names",
    ("tvm.runtime", "tvm.drawing"): "reports draw themselves in notebooks, from plain data",
    ("tvm.transform", "tvm.ir"): "a face with the public name",
    ("tvm.instrument", "tvm.ir"): "a face with the public name",
    ("tvm.autotvm", "tvm.tuning"): "templates are one kind of search for the tuning engine",
    ("tvm.auto_scheduler", "tvm.tuning"): "sketches are one kind of search for the tuning engine",
}

# Imports inside functions that go up: (file, module imported) -> why it is right. Each line is used, or the test fails.
LAZY_UPWARD: dict[tuple[str, str], str] = {}

# Files that may import a module nobody else may.
ONLY_IN = {
    # NVRTC is a library of the compiler, not of the runtime.
    "ctypes": {"tvm/runtime/_lib.py", "tvm/codegen/cuda/nvrtc.py"},
    "pickle": set(),
    "marshal": set(),
    "shelve": set(),
}
NO_NUMPY_AT_IMPORT = {name for name, layer in LAYERS.items() if layer <= 5 and name != "tvm.target"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def prefix_of(module: str) -> str:
    """The entry of LAYERS a module falls under."""
    while module not in LAYERS:
        module = module.rpartition(".")[0]
    return module


@functools.cache
def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(absolute module, line, inside a function) of every import of a file that runs."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    modules = all_modules()

    def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            return
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in modules else base

    return [
        (target, node.lineno, in_function)
        for node, in_function in statements(sources()[path.relative_to(ROOT).as_posix()])
        if isinstance(node, ast.Import | ast.ImportFrom)
        for target in targets(node)
    ]


_MODULES: set[str] = set()


def all_modules() -> set[str]:
    if not _MODULES:
        _MODULES.update(module_name(path) for path in PACKAGE.rglob("*.py"))
    return _MODULES


def complaint(importer: str, imported: str) -> str | None:
    """Why ``importer`` may not import ``imported``, or None."""
    source, destination = prefix_of(importer), prefix_of(imported)
    if (source, destination) in FORBIDDEN:
        return FORBIDDEN[source, destination]
    above, below = LAYERS[source], LAYERS[destination]
    if source == destination or (source, destination) in SAME_LAYER or above >= TOP:
        return None
    if below > above:
        return f"layer {above} imports layer {below}"
    if below == above:
        return f"{source} and {destination} share layer {above}"
    return None


def test_imports_go_down_only():
    wrong, used = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        relative, importer = path.relative_to(ROOT).as_posix(), module_name(path)
        for imported, line, in_function in imports(path):
            if imported.split(".")[0] != "tvm":
                continue
            why = complaint(importer, imported)
            if why is None:
                continue
            if in_function and (relative, imported) in LAZY_UPWARD:
                used.add((relative, imported))
                continue
            wrong.append(f"{relative}:{line}: import of {imported}: {why}")
    unused = [f"LAZY_UPWARD entry without an import: {entry}" for entry in LAZY_UPWARD if entry not in used]
    assert not wrong + unused, "\n".join(["imports go down only (docs/map.md):", *wrong, *unused])


def test_foundations_use_the_standard_library_only():
    known = {"tvm", "__future__", "re", "typing", "functools", "collections", "enum", "dataclasses"}
    known |= {"inspect"}
    for name, layer in LAYERS.items():
        if layer == 0:
            path = ROOT / (name.replace(".", "/") + ".py")
            found = {imported.split(".")[0] for imported, _, in_function in imports(path) if not in_function}
            assert found <= known, f"{path.name} imports {sorted(found - known)}"


@pytest.mark.parametrize("module", sorted(ONLY_IN))
def test_guarded_modules_stay_in_their_file(module: str):
    allowed = ONLY_IN[module]
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for imported, line, _ in imports(path)
        if imported.split(".")[0] == module and path.relative_to(ROOT).as_posix() not in allowed
    ]
    assert not wrong, f"{module} is imported in {', '.join(wrong)}; allowed: {sorted(allowed) or 'nowhere'}"


def test_numpy_is_not_loaded_by_importing_the_core():
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if prefix_of(module_name(path)) in NO_NUMPY_AT_IMPORT
        for imported, line, in_function in imports(path)
        if imported.split(".")[0] in ("numpy", "ml_dtypes", "llvmlite") and not in_function
    ]
    assert not wrong, f"import numpy inside the function that needs it: {', '.join(wrong)}"


MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|work|opt|mnt)/\w")


def test_no_path_of_a_machine_in_the_tree():
    suffixes = {".py", ".c", ".h", ".md", ".toml", ".txt", ".cmake", ".json", ""}
    wrong = []
    for top in ("tvm", "csrc", "tests", "docs", "examples", "benchmarks", "apps", "tools", "packaging", ".ci", "."):
        folder = ROOT / top
        files = folder.glob("*") if top == "." else folder.rglob("*")
        for path in sorted(files):
            relative = path.relative_to(ROOT).as_posix()
            built = any(part in ("build", "lib", "__pycache__") for part in path.relative_to(ROOT).parts[:-1])
            if not path.is_file() or path.suffix not in suffixes or built or path.name == ".git":
                continue
            for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                if MACHINE_PATH.search(text) and path != Path(__file__).resolve():
                    wrong.append(f"{relative}:{number}: {text.strip()[:80]}")
    assert not wrong, "\n".join(wrong)


def test_no_text_names_a_package_of_somebody_else():
    """Distributions are tvm-classic and tvm-classic-runtime; these names belong to others on PyPI."""
    foreign = re.compile("py" + r"tvm(?!_)|tlc" + "pack")
    # The back end of torch.compile has one of these names in PyTorch, where it is no package.
    back_end = {ROOT / "pyproject.toml", *(ROOT / "tvm/contrib/torch").glob("*.py"),
                ROOT / "tests/contrib/test_torch_dynamo.py", ROOT / "docs/howto_importer.md",
                ROOT / "benchmarks/torch_compile.py", ROOT / "tools/torch_compile.py", ROOT / "docs/torch_compile.md"}
    wrong = []
    for top in ("tvm", "csrc", "tests", "docs", "examples", "benchmarks", "apps", "tools", "packaging", ".ci", "."):
        folder = ROOT / top
        for path in sorted(folder.glob("*") if top == "." else folder.rglob("*")):
            # Results and tuning records say which version made them.
            of_this_tree = path.is_file() and not {"results", "__pycache__", "lib", "build"} & set(path.parts)
            of_this_tree = of_this_tree and path not in back_end
            if of_this_tree and path.suffix in {".py", ".c", ".h", ".md", ".toml", ".txt", ""} and path.name != ".git":
                wrong += [str(path)] if foreign.search(path.read_text(encoding="utf-8", errors="replace")) else []
    assert not wrong, f"packages of others are named in {', '.join(wrong)}"
