"""Instruments: callbacks around every pass that runs in a context."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from typing import Any

from .transform import DUMP_INSTRUMENT


class PassInstrument:
    """Base class of instruments; a subclass overrides the callbacks that it needs."""

    name = "PassInstrument"

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def enter_pass_ctx(self) -> None:
        """Called when a context with this instrument is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when a context with this instrument is exited."""

    def should_run(self, mod: Any, info: Any) -> bool:
        """Whether the pass may run. If any instrument returns False, the pass is skipped, unless it is required.

        Parameters
        ----------
        mod : IRModule
            The input module of the pass.
        info : PassInfo
            Name and level of the pass.

        Returns
        -------
        bool
        """
        return True

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Called before the pass runs on ``mod``.

        Parameters
        ----------
        mod : IRModule
            The input module of the pass.
        info : PassInfo
            Name and level of the pass.
        """

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Called after the pass has run.

        Parameters
        ----------
        mod : IRModule
            The output module of the pass.
        info : PassInfo
            Name and level of the pass.
        """


def pass_instrument(pi_cls: Any = None):
    """Decorate a class with some of PassInstrument's methods; its instances are instruments.

    Parameters
    ----------
    pi_cls : type, optional
        The class; without it, a decorator is returned.

    Returns
    -------
    type or callable
        The class of instruments, or a decorator.
    """

    def make(cls: Any):
        if not isinstance(cls, type):
            raise TypeError(f"pass_instrument decorates a class, got {cls!r}")
        if issubclass(cls, PassInstrument):
            return cls
        made = type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__, "__module__": cls.__module__})
        made.__qualname__ = cls.__qualname__
        return made

    return make(pi_cls) if pi_cls is not None else make


class _Profile:
    """The time of one run of a pass, and of the passes that it ran."""

    __slots__ = ("children", "name", "seconds", "start")

    def __init__(self, name: str):
        self.name = name
        self.start = time.perf_counter()
        self.seconds = 0.0
        self.children: list[_Profile] = []


class _Timings(threading.local):
    def __init__(self):
        self.clear()

    def clear(self) -> None:
        self.root: list[_Profile] = []
        self.stack: list[_Profile] = []


_TIMINGS = _Timings()


class PassTimingInstrument(PassInstrument):
    """Measures every pass. ``render()`` inside the context returns the table of this thread."""

    def enter_pass_ctx(self) -> None:
        _TIMINGS.clear()

    def exit_pass_ctx(self) -> None:
        _TIMINGS.clear()

    def run_before_pass(self, mod: Any, info: Any) -> None:
        profile = _Profile(info.name)
        (_TIMINGS.stack[-1].children if _TIMINGS.stack else _TIMINGS.root).append(profile)
        _TIMINGS.stack.append(profile)

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Record the time since the start of the innermost running pass, which ended or failed.

        Parameters
        ----------
        mod : IRModule
            The output of the pass, or its input if it failed.
        info : PassInfo
            Name and level of the pass.
        """
        if _TIMINGS.stack:
            profile = _TIMINGS.stack.pop()
            profile.seconds = time.perf_counter() - profile.start

    pass_failed = run_after_pass

    @staticmethod
    def render() -> str:
        """One line per pass, indented below the pass that ran it: total time, time without inner passes, percentages.

        Returns
        -------
        str
            The table of the passes that this thread ran in the context; empty if there were none.
        """
        total = sum(p.seconds for p in _TIMINGS.root)
        lines: list[str] = []
        stack = [(p, 0, total) for p in reversed(_TIMINGS.root)]
        while stack:
            profile, depth, around = stack.pop()
            own = profile.seconds - sum(c.seconds for c in profile.children)
            lines.append(
                f"{chr(9) * depth}{profile.name}: {profile.seconds * 1e6:.0f}us [{own * 1e6:.0f}us] "
                f"({_percent(profile.seconds, total)}; {_percent(profile.seconds, around)})\n"
            )
            stack.extend((c, depth + 1, profile.seconds) for c in reversed(profile.children))
        return "".join(lines)


def _percent(part: float, whole: float) -> str:
    return f"{100.0 * part / whole if whole else 0.0:.2f}%"


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the named passes.

    Parameters
    ----------
    print_before_pass_names : Sequence[str], optional
        Passes before which to print the module.
    print_after_pass_names : Sequence[str], optional
        Passes after which to print the module.
    """

    def __init__(self, print_before_pass_names: Sequence[str] = (), print_after_pass_names: Sequence[str] = ()):
        self.print_before_pass_names = list(print_before_pass_names)
        self.print_after_pass_names = list(print_after_pass_names)

    def run_before_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.print_before_pass_names:
            print(f"Print IR before: {info.name}\n{mod}\n\n")

    def run_after_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.print_after_pass_names:
            print(f"Print IR after: {info.name}\n{mod}\n\n")


class PrintBeforeAll(PassInstrument):
    """Prints the module before every pass."""

    def run_before_pass(self, mod: Any, info: Any) -> None:
        print(f"Before Running Pass: {info}")
        print(mod)


class PrintAfterAll(PassInstrument):
    """Prints the module after every pass."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        print(f"After Running Pass: {info}")
        print(mod)


class DumpIR(PassInstrument):
    """Writes the module after every pass to numbered files in a directory, which is created if necessary.

    ``refresh`` empties the directory first; ``only_changes`` skips passes that returned their input module. File names
    contain the process ID, so several processes may write to one directory.

    Parameters
    ----------
    dump_dir : str or Path
        The directory.
    refresh : bool, optional
        Whether to empty the directory first.
    only_changes : bool, optional
        Whether to skip passes that change nothing.
    """

    def __init__(self, dump_dir: Any, refresh: bool = False, only_changes: bool = False):
        self.dump_dir = str(os.fspath(dump_dir))
        self.only_changes = only_changes
        self.count = 0
        self._lock = threading.Lock()
        self._before = threading.local()
        if refresh and os.path.isdir(self.dump_dir):
            import shutil

            shutil.rmtree(self.dump_dir)

    def run_before_pass(self, mod: Any, info: Any) -> None:
        stack = self._before.__dict__.setdefault("modules", [])
        stack.append(mod)

    def pass_failed(self, mod: Any, info: Any) -> None:
        """Called when a pass raised an error; no file is written.

        Parameters
        ----------
        mod : IRModule
            The input module of the pass.
        info : PassInfo
            Name and level of the pass.
        """
        self._before.modules.pop()

    def run_after_pass(self, mod: Any, info: Any) -> None:
        if self._before.modules.pop() is mod and self.only_changes:
            return
        with self._lock:
            number = self.count
            self.count += 1
        os.makedirs(self.dump_dir, exist_ok=True)
        names = "-".join(v.name_hint for v in mod.get_global_vars()[:2])
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{os.getpid()}_{number:04d}_{info.name}_{names}")[:120]
        with open(os.path.join(self.dump_dir, stem + ".py"), "w", encoding="utf-8") as file:
            file.write(f"# after {info.name}\n{mod}\n")


_DUMPS: dict[str, DumpIR] = {}


def _dump_to(directory: str) -> DumpIR:
    got = _DUMPS.get(directory)
    if got is None:
        got = _DUMPS.setdefault(directory, DumpIR(directory, only_changes=True))
    return got


DUMP_INSTRUMENT.give(_dump_to)

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]
