"""The public names of the package, each under the module in which a reader looks for it first.

The reference pages are generated from this list, and ``tests/docs/test_docstrings.py`` checks the docstring of every
name on it.

    python3 tools/public_names.py            # the names
    python3 tools/public_names.py --missing  # problems of their docstrings
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import ModuleType

# A part of the reference and its modules, in reading order. A name that several modules offer belongs to the first one.
PARTS = {
    "te": ["te", "te.hybrid"],
    "relay": [
        "relay", "relay.op.nn", "relay.op.image", "relay.op.vision", "relay.op.memory",
        "relay.op.random", "relay.qnn.op", "relay.op", "relay.transform", "relay.analysis", "relay.frontend",
        "relay.dataflow_pattern", "relay.expr_functor", "relay.backend"],
    "autotvm": [
        "autotvm", "autotvm.tuner", "autotvm.task", "autotvm.measure", "autotvm.record", "autotvm.tuner.callback",
        "autotvm.feature"],
    "auto_scheduler": [
        "auto_scheduler", "auto_scheduler.compute_dag", "auto_scheduler.loop_state", "auto_scheduler.search_task",
        "auto_scheduler.measure", "auto_scheduler.measure_record", "auto_scheduler.search_policy",
        "auto_scheduler.task_scheduler", "auto_scheduler.feature", "auto_scheduler.workload_registry",
        "auto_scheduler.cost_model", "auto_scheduler.dispatcher", "auto_scheduler.relay_integration",
        "auto_scheduler.utils"],
    "target": ["target"],
    "runtime": ["runtime", "runtime.profiling"],
    "rpc": ["rpc"],
    "tir": ["tir", "tir.transform", "tir.analysis", "tir.stmt_functor", "tir.ir_builder"],
    "arith": ["arith"],
    "topi": ["topi", "topi.nn", "topi.image", "topi.vision"],
    "contrib": [
        "contrib.graph_executor", "contrib.debugger.debug_executor", "contrib.cc", "contrib.nvcc", "contrib.clang",
        "contrib.tar", "contrib.utils", "contrib.download", "contrib.dlpack", "contrib.popen_pool",
        "contrib.pickle_memoize", "contrib.cblas", "contrib.random", "contrib.onnx_backend", "contrib.relay_viz",
        "contrib.relay_viz.interface", "contrib.relay_viz.dot", "contrib.relay_viz.terminal", "contrib.tedd",
        "contrib.pictures"],
    "tvmc": ["driver.tvmc"],
    "ir": ["ir", "ir.transform", "ir.instrument"],
    "tvm": ["", "utils"],
}  # fmt: skip


@dataclass(frozen=True)
class Public:
    """A function or class of the public interface."""

    module: str
    name: str
    value: object
    # Whether its first parameter is an object that the caller does not pass explicitly.
    is_bound: bool = False

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def is_class(self) -> bool:
        return isinstance(self.value, type)


def offered(module: ModuleType) -> list[str]:
    """Return the names that a module offers: those of its ``__all__``, else those without an underscore."""
    names = getattr(module, "__all__", None)
    return sorted(name for name in (dir(module) if names is None else names) if not name.startswith("_"))


def public_names(part: str | None = None) -> list[Public]:
    """Return the functions and classes of one part of the reference, or of all parts."""
    seen: set[int] = set()
    found = []
    for title, modules in PARTS.items():
        for suffix in modules:
            path = f"tvm.{suffix}".rstrip(".")
            module = importlib.import_module(path)
            for name in offered(module):
                value = getattr(module, name)
                if not is_ours(value) or id(value) in seen or not is_offered_by(module, value):
                    continue
                seen.add(id(value))
                if part in (None, title):
                    found.append(Public(path, name, value))
    return found


def is_offered_by(module: ModuleType, value: object) -> bool:
    """Return whether a module offers a value: a file without ``__all__`` offers only its own definitions."""
    listed = hasattr(module, "__all__") or hasattr(module, "__path__")
    return listed or getattr(value, "__module__", None) == module.__name__


def is_ours(value: object) -> bool:
    """Return whether a value is a function or class of this package."""
    written = isinstance(value, type) or inspect.isroutine(value) or hasattr(value, "__wrapped__")
    module = str(getattr(value, "__module__", ""))
    return written and module.startswith("tvm") and module != "tvm.not_built"


def methods(public: Public) -> Iterator[Public]:
    """Return the public methods that a class defines. A method without a docstring that overrides a base method is
    documented there."""
    if not isinstance(public.value, type):
        return
    for name, value in vars(public.value).items():
        function = getattr(value, "__func__", value)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        replaced = [vars(base)[name] for base in public.value.__mro__[1:] if name in vars(base)]
        if not function.__doc__ and any(getattr(other, "__doc__", None) for other in replaced):
            continue
        yield Public(public.path, name, function, not isinstance(value, staticmethod))


SECTION = re.compile(r"^(Parameters|Returns|Yields|Raises|Examples|Notes)\n(-+)$", re.MULTILINE)


def sections(doc: str) -> dict[str, str]:
    """Return the sections of a NumPy-style docstring by title; the text before them has the title ""."""
    found, title, start = {}, "", 0
    for match in SECTION.finditer(doc):
        found[title] = doc[start : match.start()].strip()
        title, start = match[1], match.end()
    found[title] = doc[start:].strip("\n")
    return found


def named_parameters(text: str) -> list[str]:
    """Return the parameters that a section describes, without stars."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    return [name.strip().lstrip("*") for line in lines for name in line.split(" : ")[0].split(",")]


def own_parameters(value: object) -> list[str]:
    """Return the parameters that a caller passes. ``span`` is the same everywhere and documented once."""
    if isinstance(value, type) and issubclass(value, (Enum, Exception)):
        return []
    try:
        given = list(inspect.signature(value).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [name for name in given if not name.startswith("_") and name != "span"]


def complaint(public: Public) -> str | None:
    """Return the problem of a name's docstring, or None."""
    doc = inspect.cleandoc(getattr(public.value, "__doc__", None) or "")
    if not doc:
        return f"{public.path} has no docstring"
    wanted = own_parameters(public.value)[1 if public.is_bound else 0 :]
    described = named_parameters(sections(doc).get("Parameters", ""))
    wrong = [name for name in described if name not in wanted]
    if wrong:
        return f"{public.path} describes {', '.join(wrong)}, which it does not take ({', '.join(wanted)})"
    missing = [name for name in wanted if name not in described]
    if missing:
        return f"{public.path} does not describe {', '.join(missing)}"
    return None


def main() -> None:
    for public in public_names():
        said = complaint(public) if "--missing" in sys.argv else public.path
        if said:
            print(said)


if __name__ == "__main__":
    main()
