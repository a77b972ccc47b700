"""Imports go down only. Read from the source with ``ast``: nothing is imported, and a new file is covered at once."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, all_texts, outlines, texts

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
    "tvm.micro": 12,
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
    ("tvm.dtype", "tvm.error"): "a custom type that nobody registered is an error that users are shown",
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
    # NVRTC is a library of the compiler, and the simulated accelerator a device library, not of the runtime.
    "ctypes": {"tvm/runtime/_abi.py", "tvm/runtime/_lib.py", "tvm/codegen/cuda/nvrtc.py", "tvm/contrib/vta/_lib.py"},
    "pickle": set(),
    # Closures for a worker go through a pipe between this process and its child.
    "cloudpickle": {"tvm/contrib/popen_pool.py"},
    "marshal": set(),
    "shelve": set(),
}
NO_NUMPY_AT_IMPORT = {name for name, layer in LAYERS.items() if layer <= 5 and name != "tvm.target"}


def module_name(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def prefix_of(module: str) -> str:
    """The entry of LAYERS a module falls under."""
    while module not in LAYERS:
        module = module.rpartition(".")[0]
    return module


@functools.cache
def all_modules() -> frozenset[str]:
    return frozenset(map(module_name, texts()))


@functools.cache
def imports(path: str) -> list[tuple[str, int, bool]]:
    """(absolute module, line, inside a function) of every import of a file that runs."""
    name = module_name(path)
    package = (name if path.endswith("/__init__.py") else name.rpartition(".")[0]).split(".")
    found = []
    for base, dots, names, line, in_function in outlines()[path][0]:
        if dots:
            above = package[: len(package) - dots + 1]
            base = ".".join([*above, base] if base else above)
        full = [f"{base}.{n}" for n in names] if names is not None else [base]
        found += [(f if f in all_modules() or names is None else base, line, in_function) for f in full]
    return found


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
    for relative in texts():
        importer = module_name(relative)
        for imported, line, in_function in imports(relative):
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
            path = name.replace(".", "/") + ".py"
            found = {imported.split(".")[0] for imported, _, in_function in imports(path) if not in_function}
            assert found <= known, f"{path} imports {sorted(found - known)}"


@pytest.mark.parametrize("module", sorted(ONLY_IN))
def test_guarded_modules_stay_in_their_file(module: str):
    allowed = ONLY_IN[module]
    wrong = [
        f"{path}:{line}"
        for path in texts()
        for imported, line, _ in imports(path)
        if imported.split(".")[0] == module and path not in allowed
    ]
    assert not wrong, f"{module} is imported in {', '.join(wrong)}; allowed: {sorted(allowed) or 'nowhere'}"


def test_numpy_is_not_loaded_by_importing_the_core():
    wrong = [
        f"{path}:{line}"
        for path in texts()
        if prefix_of(module_name(path)) in NO_NUMPY_AT_IMPORT
        for imported, line, in_function in imports(path)
        if imported.split(".")[0] in ("numpy", "ml_dtypes", "llvmlite") and not in_function
    ]
    assert not wrong, f"import numpy inside the function that needs it: {', '.join(wrong)}"


FOLDERS_OF_MACHINES = ("home", "Users", "root", "work", "opt", "mnt")
MACHINE_PATH = re.compile(rf"(?<![\w.])/(?:{'|'.join(FOLDERS_OF_MACHINES)})/\w")


def test_no_path_of_a_machine_in_the_tree():
    own = Path(__file__).relative_to(ROOT).as_posix()
    wrong = []
    for name, text in all_texts().items():
        # Few texts have such a word at all, which is seen sooner than the pattern.
        if name != own and any(f"/{folder}/" in text for folder in FOLDERS_OF_MACHINES):
            lines = enumerate(text.splitlines(), 1)
            wrong += [f"{name}:{number}: {line.strip()[:80]}" for number, line in lines if MACHINE_PATH.search(line)]
    assert not wrong, "\n".join(wrong)


def test_no_text_names_a_package_of_somebody_else():
    """Distributions are tvm-classic and tvm-classic-runtime; these names belong to others on PyPI."""
    foreign = re.compile("py" + r"tvm(?!_)|tlc" + "pack")
    words = "py" + "tvm", "tlc" + "pack"
    wrong = [name for name, text in all_texts().items() if any(w in text for w in words) and foreign.search(text)]
    assert not wrong, f"packages of others are named in {', '.join(wrong)}"
