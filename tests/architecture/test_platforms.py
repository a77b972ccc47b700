"""Modules are importable on Windows and macOS: those that need modules of POSIX are listed here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT

# Standard modules and functions that Python for Windows lacks.
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    "os": {
        "fork", "getpgid", "getuid", "geteuid", "killpg", "mkfifo", "pread", "pwrite", "register_at_fork",
        "sched_getaffinity", "sched_setaffinity", "setsid", "sysconf",
    },
    "select": {"poll"},
    "signal": {"ITIMER_PROF", "SIGALRM", "SIGKILL", "SIGPROF", "setitimer"},
    "socket": {"AF_UNIX"},
}  # fmt: skip
# Files that use such names, and where the error for systems without them is raised, or how they do without.
USES = {
    "tvm/codegen/llvm/build.py": "registers a fork handler where there is fork",
    "tvm/contrib/pipeline_executor.py": "does not pin threads without sched_setaffinity",
    "tvm/contrib/utils.py": "locks between threads without fcntl",
    "tvm/micro/project_api/piped_program.py": "raises an error without mkfifo",
    "tvm/micro/project_api/serial_line.py": "raises an error without termios",
    "tvm/relay/backend/library_cache.py": "does not check the owner without getuid",
    "tvm/rpc/loop.py": "assumes a limit of sockets without resource",
    "tvm/runtime/_lib.py": "raises an error without fork",
    "tvm/runtime/host_cpu.py": "counts all CPUs without sched_getaffinity",
    "tvm/runtime/measure/record_file.py": "assumes one writer without fcntl",
    "tvm/runtime/measure/worker.py": "runs in workers only, which worker_pool.py starts",
    "tvm/runtime/measure/worker_pool.py": "raises an error without poll",
    "tvm/tuning/candidate.py": "has no time limit without setitimer",
}

# Imports every module of the runtime distribution, and the compiler, in an interpreter without the names above.
IMPORT_ALL = """
import importlib, importlib.abc, os, select, signal, socket, sys
for module, names in {names!r}.items():
    for name in names:
        vars(sys.modules[module]).pop(name, None)
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {modules!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)
for name in {modules!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Finder())
failed = []
for name in {imported!r}:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{{name}}: {{type(error).__name__}}: {{error}}")
print("\\n".join(failed))
"""
ROOTS = [
    "tvm", "tvm.relay", "tvm.relay.frontend", "tvm.auto_scheduler", "tvm.autotvm", "tvm.micro", "tvm.driver.tvmc.main",
    "tvm.exec.rpc_server", "tvm.exec.rpc_tracker", "tvm.exec.rpc_proxy", "tvm.tuning.engine", "tvm.contrib.cc",
]  # fmt: skip
_WORDS = re.compile(rf"\b({'|'.join(sorted(POSIX_MODULES.union(*POSIX_NAMES.values())))})\b")


def uses_posix(text: str) -> bool:
    """Whether a source uses a module or function that Python for Windows lacks."""
    if not _WORDS.search(text):
        return False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(alias.name in POSIX_MODULES for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in POSIX_MODULES:
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX_NAMES.get(node.value.id, ()):
                return True
    return False


def test_uses_of_posix_are_listed():
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tvm").rglob("*.py"))
        if uses_posix(path.read_text(encoding="utf-8"))
    }
    assert found == set(USES)


def test_a_use_of_posix_is_found():
    assert (
        uses_posix("import os\npid = os.fork()")
        and uses_posix("import fcntl")
        and uses_posix("from pwd import getpwnam")
    )
    assert not uses_posix("import os\nos.getpid()")


@pytest.mark.slow("imports the compiler in another process")
def test_the_packages_are_imported_without_posix():
    """In an interpreter without the modules and functions that Windows lacks; it is a real import of everything."""
    names = {module: sorted(found - {"SIGKILL"}) for module, found in POSIX_NAMES.items()}
    modules = sorted(POSIX_MODULES - {"posix"})
    program = IMPORT_ALL.format(names=names, modules=modules, imported=ROOTS)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_windows_is_tested_for_in_the_layer_of_the_system_only():
    """Other sources use the features that system.h defines. The public header exports functions."""
    allowed = {
        "csrc/src/system/system.h",
        "csrc/src/system/posix.c",
        "csrc/src/system/posix_memory.c",
        "csrc/src/system/posix_threads.c",
        "csrc/src/system/windows.c",
        "csrc/include/tvm_runtime.h",
    }
    sources = [
        path for folder in ("src", "include", "server", "tests") for path in (ROOT / "csrc" / folder).rglob("*.[ch]")
    ]
    found = {
        p.relative_to(ROOT).as_posix() for p in sources if re.search(r"\b_WIN(32|64)\b", p.read_text(encoding="utf-8"))
    }
    assert found == allowed
