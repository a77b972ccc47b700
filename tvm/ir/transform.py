"""Passes: functions from module to module, the context they run in, and pipelines of them.

A pass is an object with ``info`` and ``run(mod, ctx)``. Calling it asks the instruments of the current context first;
``Sequential`` and ``run_pipeline`` also leave out what the context disables or its level does not reach.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..error import TVMError
from ..hooks import Hook
from ..registry import Registry
from .attrs import near_matches
from .module import Definitions, IRModule
from .pass_config import CONFIGS, PassConfigError, check_config, list_configs, register_pass_config

# Passes that others may require by name: name -> function without arguments that makes the pass.
PASSES: Registry[Callable[[], Pass]] = Registry("pass")

DUMP_INSTRUMENT: Hook[[str], Any] = Hook(
    "ir.transform.DUMP_INSTRUMENT", "returns the instrument that writes the IR to the folder TVM_DUMP"
)


class PassInfo:
    """What is known of a pass before it runs: its name, the level it belongs to, the passes it needs before it.

    Parameters
    ----------
    opt_level : int
        From which level of optimization the pass runs.
    name : str
        The name.
    required : Iterable[str], optional
        Passes that must have run before.
    """

    __slots__ = ("name", "opt_level", "required")

    def __init__(self, opt_level: int, name: str, required: Iterable[str] | None = None):
        self.opt_level = int(opt_level)
        self.name = str(name)
        self.required = tuple(_names(required, "required"))

    def __repr__(self) -> str:
        return f"PassInfo(name={self.name}, opt_level={self.opt_level}, required=[{', '.join(self.required)}])"


def _names(values: Any, what: str) -> list[str]:
    if values is None:
        return []
    if isinstance(values, (str, bytes)) or not isinstance(values, (list, tuple, set, frozenset)):
        raise TypeError(f"{what} takes a list of names of passes, got {values!r}")
    return [str(v) for v in (sorted(values) if isinstance(values, (set, frozenset)) else values)]


class _Contexts(threading.local):
    """The contexts entered by this thread, innermost last; the first is the default one."""

    def __init__(self):
        self.stack: list[PassContext] = []

    def top(self) -> PassContext:
        if not self.stack:
            self.stack.append(PassContext())
        return self.stack[-1]


class PassContext:
    """How passes run: level, passes asked for or left out, instruments, options. Use with ``with``.

    An inner context replaces the outer one whole; nothing is inherited.

    Parameters
    ----------
    opt_level : int, optional
        The level of optimization.
    required_pass : Iterable[str], optional
        Passes that run at any level.
    disabled_pass : Iterable[str], optional
        Passes that do not run.
    instruments : Sequence[Any], optional
        What watches the passes.
    config : Mapping[str, Any], optional
        Options of passes by name.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ):
        self.opt_level = int(opt_level)
        self.required_pass = _names(required_pass, "required_pass")
        self.disabled_pass = _names(disabled_pass, "disabled_pass")
        if config is not None and not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"PassContext: config takes a dictionary, got {config!r}")
        self.config = check_config(config) if config else {}
        self.instruments = _check_instruments(instruments)

    def __enter__(self) -> PassContext:
        _CONTEXTS.top()
        self._enter_instruments()
        _CONTEXTS.stack.append(self)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        stack = _CONTEXTS.stack
        try:
            if stack[-1] is not self:
                raise TVMError("PassContext: contexts must be left in the reverse order they were entered")
            self._exit_instruments()
        finally:
            if stack and stack[-1] is self:
                stack.pop()

    def _enter_instruments(self) -> None:
        entered: list[Any] = []
        try:
            for instrument in self.instruments or ():
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            # An instrument that failed leaves none behind: those that were entered are told to finish.
            self.instruments = []
            for instrument in entered:
                instrument.exit_pass_ctx()
            raise

    def _exit_instruments(self) -> None:
        try:
            for instrument in self.instruments or ():
                instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = []
            raise

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Leave the present instruments and enter these instead.

        Parameters
        ----------
        instruments : list of PassInstrument, optional
            The instruments; None for none.
        """
        new = _check_instruments(instruments)
        self._exit_instruments()
        self.instruments = new
        self._enter_instruments()

    @staticmethod
    def current() -> PassContext:
        """The innermost context of this thread.

        Returns
        -------
        PassContext
            The context.
        """
        return _CONTEXTS.top()

    @staticmethod
    def list_configs() -> dict[str, dict[str, Any]]:
        """Every option ``config`` may have: its type, default and meaning.

        Returns
        -------
        dict
            A dictionary for each option.
        """
        return list_configs()

    def get_config(self, key: str, default: Any = None) -> Any:
        """The value of an option; when it was not given: ``default``, else what was declared for it.

        An option that is a record of fields gives the record with its defaults.

        Parameters
        ----------
        key : str
            The option.
        default : Any, optional
            The value where it was not given.

        Returns
        -------
        Any
            The value.

        Raises
        ------
        PassConfigError
            There is no such option.
        """
        if key in self.config:
            return self.config[key]
        if default is not None:
            return default
        entry = CONFIGS.get(key)
        if entry is None:
            raise PassConfigError(f"PassContext: '{key}' is no known option; {near_matches(key, CONFIGS)}")
        if entry.default is None and entry.kind is not None and hasattr(entry.kind, "_fields"):
            return entry.kind()
        return entry.default

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a pipeline run in this context includes the pass.

        Parameters
        ----------
        info : PassInfo
            The pass.

        Returns
        -------
        bool
            Whether it does.
        """
        if info.name in self.disabled_pass:
            return False
        return self.opt_level >= info.opt_level or info.name in self.required_pass

    def __repr__(self) -> str:
        return (
            f"PassContext(opt_level={self.opt_level}, required_pass={self.required_pass}, "
            f"disabled_pass={self.disabled_pass}, instruments={self.instruments}, config={self.config})"
        )


def _check_instruments(instruments: Any) -> list[Any] | None:
    if instruments is None:
        return None
    if not isinstance(instruments, (list, tuple)):
        raise TypeError(f"PassContext: instruments takes a list, got {instruments!r}")
    for instrument in instruments:
        if not hasattr(instrument, "run_before_pass") or isinstance(instrument, type):
            raise TypeError(
                f"PassContext: {instrument!r} is no pass instrument; decorate its class with "
                "@tvm.instrument.pass_instrument and give an instance"
            )
    return list(instruments)


_CONTEXTS = _Contexts()


class Pass:
    """Base of passes. Subclasses give ``info`` and ``run(mod, ctx)``."""

    info: PassInfo

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module that the pass makes of another; subclasses define it. Calling the pass does this with the current
        context and its instruments.

        Parameters
        ----------
        mod : IRModule
            What the pass gets, which it must not change.
        ctx : PassContext
            Levels and options of the run.

        Returns
        -------
        IRModule

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define run(mod, ctx)")

    def __call__(self, mod: IRModule) -> IRModule:
        return run_pass(self, mod, PassContext.current())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name}, opt_level={self.info.opt_level})"


def _instruments(ctx: PassContext) -> list[Any] | None:
    """The instruments of the context, with the one that TVM_DUMP asks for."""
    directory = os.environ.get("TVM_DUMP")
    if directory and DUMP_INSTRUMENT:
        return [*(ctx.instruments or ()), DUMP_INSTRUMENT(directory)]
    return ctx.instruments


def run_pass(pass_: Pass, mod: IRModule, ctx: PassContext) -> IRModule:
    """Run one pass under the instruments of ``ctx``. Its level is not consulted: the caller asked for it.

    Parameters
    ----------
    pass_ : Pass
        The pass.
    mod : IRModule
        The module.
    ctx : PassContext
        The context it runs in.

    Returns
    -------
    IRModule
        The module the pass gives.

    Raises
    ------
    TypeError
        ``mod`` is no module.
    """
    if not isinstance(mod, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"pass {pass_.info.name} works on an IRModule, got {type(mod).__name__}; "
            "wrap a function with tvm.IRModule.from_expr(func)"
        )
    instruments = _instruments(ctx)
    return _run_instrumented(pass_, mod, ctx, instruments) if instruments else _run_checked(pass_, mod, ctx)


def _run_checked(pass_: Pass, mod: IRModule, ctx: PassContext) -> IRModule:
    try:
        new: Any = pass_.run(mod, ctx)
    except Exception as error:
        if sys.version_info >= (3, 11):
            error.add_note(f"(in pass {pass_.info.name})")
        raise
    if not isinstance(new, IRModule):
        raise TypeError(f"pass {pass_.info.name} must return an IRModule, it returned {type(new).__name__}")
    return new


def _run_instrumented(pass_: Pass, mod: IRModule, ctx: PassContext, instruments: list[Any]) -> IRModule:
    info = pass_.info
    if info.name not in ctx.required_pass:
        # Every instrument is asked, also after one said no: they may count.
        answers = [instrument.should_run(mod, info) for instrument in instruments]
        if not all(answers):
            return mod
    started: list[Any] = []
    try:
        for instrument in instruments:
            instrument.run_before_pass(mod, info)
            started.append(instrument)
        new = _run_checked(pass_, mod, ctx)
        for instrument in instruments:
            started.remove(instrument)
            instrument.run_after_pass(new, info)
    except BaseException:
        # Instruments that keep a stack of running passes are told that this one ended.
        for instrument in started:
            failed = getattr(instrument, "pass_failed", None)
            if failed is not None:
                failed(mod, info)
        raise
    return new


def run_pipeline(mod: IRModule, passes: Iterable[Pass], ctx: PassContext | None = None) -> IRModule:
    """Run passes in order, leaving out those the context disables and running first what a pass requires.

    Parameters
    ----------
    mod : IRModule
        The module.
    passes : Iterable[Pass]
        The passes in order.
    ctx : PassContext, optional
        The context; without it, the current one.

    Returns
    -------
    IRModule
        The module after the last pass.
    """
    if ctx is None:
        ctx = PassContext.current()
    for pass_ in passes:
        info = pass_.info
        if not ctx.pass_enabled(info):
            continue
        for name in info.required:
            mod = run_pass(find_pass(name), mod, ctx)
        mod = run_pass(pass_, mod, ctx)
    return mod


def find_pass(name: str) -> Pass:
    """The pass registered under ``name`` (or under ``layer.name``), made without arguments.

    Parameters
    ----------
    name : str
        The name.

    Returns
    -------
    Pass

    Raises
    ------
    ValueError
        No pass, or several, have the name.
    """
    make = PASSES.get(name)
    if make is None:
        ends = [full for full in PASSES if full.rsplit(".", 1)[-1] == name]
        if len(ends) != 1:
            problem = "several layers have one: " + ", ".join(ends) if ends else near_matches(name, PASSES)
            raise ValueError(f"no single pass is named '{name}'; {problem}")
        make = PASSES[ends[0]]
    return make()


class ModulePass(Pass):
    """A pass made of a function ``(mod, ctx) -> mod``.

    Parameters
    ----------
    function : callable
        Gives the new module for a module and the context.
    info : PassInfo
        Name, level and requirements of the pass.
    """

    def __init__(self, function: Callable[[IRModule, PassContext], IRModule], info: PassInfo):
        self.function = function
        self.info = info

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return self.function(mod, ctx)


class FunctionPass(Pass):
    """A pass that treats the functions of a module one by one.

    ``function_type`` says which: a subclass per IR sets it. The function ``(func, mod, ctx) -> func`` returns None to
    drop a function.

    Parameters
    ----------
    function : callable
        Gives the new function.
    info : PassInfo
        Name, level and requirements of the pass.
    """

    function_type: type = object

    def __init__(self, function: Callable[[Any, IRModule, PassContext], Any], info: PassInfo):
        self.function = function
        self.info = info

    def skips(self, func: Any) -> bool:
        """Whether this function is to be left as it is.

        Parameters
        ----------
        func : BaseFunc
            The function.

        Returns
        -------
        bool
            Whether it is.
        """
        return False

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply the pass to the functions of a module.

        Parameters
        ----------
        mod : IRModule
            The module.
        ctx : PassContext
            The context.

        Returns
        -------
        IRModule
            The module with what the pass makes of each.

        Raises
        ------
        TypeError
            The pass gave something that is no function.
        """
        changes: dict[Any, Any] = {}
        for var, func in mod.functions.items():
            if isinstance(func, self.function_type) and not self.skips(func):
                new = self.function(func, mod, ctx)
                if new is not None and not isinstance(new, self.function_type):
                    raise TypeError(
                        f"pass {self.info.name} must return a {self.function_type.__name__} for "
                        f"'{var.name_hint}', it returned {type(new).__name__}"
                    )
                if new is not func:
                    changes[var] = new
        if not changes:
            return mod
        return mod.map_functions(lambda var, func: changes.get(var, func))


class Sequential(Pass):
    """Passes one after the other.

    Parameters
    ----------
    passes : Sequence[Pass], optional
        The passes.
    opt_level : int, optional
        From which level of optimization the pass runs.
    name : str, optional
        The name.
    required : Iterable[str], optional
        Passes that must have run before.

    Examples
    --------
    >>> passes = tvm.transform.Sequential([relay.transform.InferType(), relay.transform.FoldConstant()])
    >>> mod = tvm.IRModule.from_expr(relay.const(2.0) + relay.const(3.0))
    >>> print(passes(mod)["main"].body)
    5f
    """

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
    ):
        passes = [] if passes is None else passes
        if not isinstance(passes, (list, tuple)):
            raise TypeError(f"Sequential takes a list of passes, got {passes!r}")
        for pass_ in passes:
            if not isinstance(pass_, Pass):  # pyright: ignore[reportUnnecessaryIsInstance]
                hint = "; it must be called to make the pass" if callable(pass_) else ""
                raise TypeError(f"Sequential takes a list of passes, and {pass_!r} is none{hint}")
        self.passes: list[Pass] = list(passes)
        self.info = PassInfo(opt_level, name, required)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return run_pipeline(mod, self.passes, ctx)


def _make_pass_class(base: Any, user_class: type, method: str, info: PassInfo) -> type:
    """A pass class around a user's class that has ``method``; instances forward attributes to the user's object."""
    if not callable(getattr(user_class, method, None)):
        raise TypeError(f"the pass class {user_class.__name__} must define {method}")

    class WrappedPass(base):
        def __init__(self, *args: Any, **kwargs: Any):
            self._inner = user_class(*args, **kwargs)
            base.__init__(self, getattr(self._inner, method), info)

        def __getattr__(self, name: str):
            if name == "_inner":
                raise AttributeError(name)
            return getattr(self._inner, name)

    functools.update_wrapper(WrappedPass.__init__, user_class.__init__)
    WrappedPass.__name__ = user_class.__name__
    WrappedPass.__qualname__ = user_class.__qualname__
    WrappedPass.__doc__ = user_class.__doc__
    WrappedPass.__module__ = user_class.__module__
    return WrappedPass


def _pass_decorator(base: type, method: str, what: str, pass_func: Any, opt_level: Any, name: Any, required: Any):
    if opt_level is None:
        raise ValueError(f"{what}: opt_level is missing; write @{what}(opt_level=0)")

    def make(argument: Any):
        if not callable(argument):
            raise TypeError(f"{what} decorates a function or a class, got {argument!r}")
        info = PassInfo(opt_level, name or getattr(argument, "__name__", what), required)
        if isinstance(argument, type):
            return _make_pass_class(base, argument, method, info)
        return base(argument, info)

    return make(pass_func) if pass_func is not None else make


def module_pass(
    pass_func: Any = None, opt_level: Any = None, name: Any = None, required: Any = None, traceable: Any = False
):
    """Make a pass of a function ``(mod, ctx) -> mod`` or of a class with ``transform_module(self, mod, ctx)``.

    A decorated class stays a class: its instances are the passes. ``traceable`` is accepted and has no effect.

    Parameters
    ----------
    pass_func : callable or type, optional
        The function or class; without it, a decorator is returned.
    opt_level : int, optional
        From which level of optimization the pass runs.
    name : str, optional
        The name of the pass.
    required : list of str, optional
        Passes that must have run before.
    traceable : bool, optional
        Taken for programs that pass it.

    Returns
    -------
    ModulePass or callable
        The pass, or a decorator where there is no function.
    """
    return _pass_decorator(ModulePass, "transform_module", "module_pass", pass_func, opt_level, name, required)


def function_pass_factory(pass_class: type, what: str = "function_pass"):
    """The decorator that makes passes of ``pass_class`` (a FunctionPass) from ``(func, mod, ctx) -> func``.

    ``prim_func_pass = function_pass_factory(PrimFuncPass, "prim_func_pass")``

    Parameters
    ----------
    pass_class : type
        The class of the passes.
    what : str, optional
        How the decorator is called in errors.

    Returns
    -------
    callable
    """

    def function_pass(
        pass_func: Any = None, opt_level: Any = None, name: Any = None, required: Any = None, traceable: Any = False
    ):
        return _pass_decorator(pass_class, "transform_function", what, pass_func, opt_level, name, required)

    function_pass.__name__ = function_pass.__qualname__ = what
    function_pass.__doc__ = (
        f"Make a {pass_class.__name__} of a function ``(func, mod, ctx) -> func`` or of a class with "
        "``transform_function(self, func, mod, ctx)``; a decorated class stays a class.\n\n"
        "Parameters\n----------\n"
        "pass_func : callable or type, optional\n    The function or class; without it, a decorator is returned.\n"
        "opt_level : int\n    From which level of optimization the pass runs.\n"
        "name : str, optional\n    The name of the pass; without it, that of the function.\n"
        "required : list of str, optional\n    Passes that must have run before.\n"
        "traceable : bool, optional\n    Taken for programs that pass it; nothing is traced.\n\n"
        f"Returns\n-------\n{pass_class.__name__} or callable\n"
        "    The pass, or a decorator where there is no function.\n"
    )
    return function_pass


def PrintIR(header: str = "", show_meta_data: bool = False) -> ModulePass:
    """A pass that writes the module to standard error and leaves it as it is.

    Parameters
    ----------
    header : str, optional
        A line before the module.
    show_meta_data : bool, optional
        Whether constants are printed too.

    Returns
    -------
    ModulePass
    """

    def print_module(mod: IRModule, ctx: PassContext) -> IRModule:
        text = mod.astext(show_meta_data=show_meta_data)
        sys.stderr.write(f"PrintIR({header}):\n{text}\n")
        return mod

    return ModulePass(print_module, PassInfo(0, "PrintIR"))


def ApplyPassToFunction(
    transform: Pass, func_name_regex: str, error_if_no_function_matches_regex: bool = False
) -> ModulePass:
    """A pass that runs ``transform`` on the functions whose whole name matches; the others are put back untouched.

    Parameters
    ----------
    transform : Pass
        The pass.
    func_name_regex : str
        A regular expression for whole names.
    error_if_no_function_matches_regex : bool, optional
        Whether it is an error when no name matches.

    Returns
    -------
    ModulePass
    """
    pattern = re.compile(func_name_regex)

    def apply(mod: IRModule, ctx: PassContext) -> IRModule:
        chosen = {v: f for v, f in mod.functions.items() if pattern.fullmatch(v.name_hint)}
        if not chosen:
            if error_if_no_function_matches_regex:
                names = ", ".join(sorted(v.name_hint for v in mod.functions)) or "none"
                raise ValueError(
                    f"ApplyPassToFunction: no function matches '{func_name_regex}'; the module has: {names}"
                )
            return mod
        part = mod.clone()
        part.functions = Definitions(chosen)
        done = run_pass(transform, part, ctx)
        new = mod.map_functions(lambda var, func: done.functions.get(var) if var in chosen else func)
        for var, func in done.functions.items():
            if var not in chosen:
                new[var] = func
        return new

    return ModulePass(apply, PassInfo(0, f"ApplyPassTo_{transform.info.name}"))


__all__ = [
    "ApplyPassToFunction",
    "FunctionPass",
    "ModulePass",
    "PASSES",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrintIR",
    "Sequential",
    "find_pass",
    "function_pass_factory",
    "module_pass",
    "register_pass_config",
    "run_pass",
    "run_pipeline",
]
