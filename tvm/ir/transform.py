"""Passes, which are functions from module to module, their context, and pipelines.

A pass is an object with ``info`` and ``run(mod, ctx)``. Calling it invokes the instruments of the current context;
``Sequential`` and ``run_pipeline`` also skip passes that the context disables or whose level is too high.
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

# Passes that other passes may require: name -> function without arguments that creates the pass.
PASSES: Registry[Callable[[], Pass]] = Registry("pass")

DUMP_INSTRUMENT: Hook[[str], Any] = Hook(
    "ir.transform.DUMP_INSTRUMENT", "returns the instrument that writes the IR to the folder TVM_DUMP"
)


class PassInfo:
    """Metadata of a pass: its name, its optimization level, and the passes that it requires.

    Parameters
    ----------
    opt_level : int
        The lowest optimization level at which the pass runs.
    name : str
        The name.
    required : Iterable[str], optional
        Passes that must run before.
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
        raise TypeError(f"{what} must be a list of pass names, got {values!r}")
    return [str(v) for v in (sorted(values) if isinstance(values, (set, frozenset)) else values)]


class _Contexts(threading.local):
    """The stack of contexts of this thread, innermost last; the first is the default context."""

    def __init__(self):
        self.stack: list[PassContext] = []

    def top(self) -> PassContext:
        if not self.stack:
            self.stack.append(PassContext())
        return self.stack[-1]


class PassContext:
    """The configuration of passes: optimization level, required and disabled passes, instruments, options. Used with
    ``with``.

    An inner context replaces the outer context completely; nothing is inherited.

    Parameters
    ----------
    opt_level : int, optional
        The level of optimization.
    required_pass : Iterable[str], optional
        Passes that run at any optimization level.
    disabled_pass : Iterable[str], optional
        Passes that are skipped.
    instruments : Sequence[Any], optional
        Instruments that are called around passes.
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
            raise TypeError(f"PassContext: config must be a dictionary, got {config!r}")
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
                raise TVMError("PassContext: contexts must be exited in the reverse order in which they were entered")
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
            # If an instrument fails, exit the instruments that have already been entered.
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
        """Exit the current instruments and enter these instead.

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
        """Every option of ``config``: its type, default and description.

        Returns
        -------
        dict
            A dictionary per option.
        """
        return list_configs()

    def get_config(self, key: str, default: Any = None) -> Any:
        """The value of an option; if it is not set: ``default``, or else the declared default.

        For an option that is a record, the missing fields have their defaults.

        Parameters
        ----------
        key : str
            The option.
        default : Any, optional
            The value returned if the option is not set.

        Returns
        -------
        Any
            The value.

        Raises
        ------
        PassConfigError
            The option is unknown.
        """
        if key in self.config:
            return self.config[key]
        if default is not None:
            return default
        entry = CONFIGS.get(key)
        if entry is None:
            raise PassConfigError(f"PassContext: unknown option '{key}'; {near_matches(key, CONFIGS)}")
        if entry.default is None and entry.kind is not None and hasattr(entry.kind, "_fields"):
            return entry.kind()
        return entry.default

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a pipeline in this context runs the pass.

        Parameters
        ----------
        info : PassInfo
            The pass.

        Returns
        -------
        bool
            Whether the pass is enabled.
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
        raise TypeError(f"PassContext: instruments must be a list, got {instruments!r}")
    for instrument in instruments:
        if not hasattr(instrument, "run_before_pass") or isinstance(instrument, type):
            raise TypeError(
                f"PassContext: {instrument!r} is not a pass instrument; decorate its class with "
                "@tvm.instrument.pass_instrument and pass an instance"
            )
    return list(instruments)


_CONTEXTS = _Contexts()


class Pass:
    """Base class of passes. Subclasses define ``info`` and ``run(mod, ctx)``."""

    info: PassInfo

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The output module of the pass; subclasses implement this method. Calling the pass calls it with the current
        context and its instruments.

        Parameters
        ----------
        mod : IRModule
            The input module, which must not be modified.
        ctx : PassContext
            The context of the run.

        Returns
        -------
        IRModule

        Raises
        ------
        NotImplementedError
            The class does not implement the method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define run(mod, ctx)")

    def __call__(self, mod: IRModule) -> IRModule:
        return run_pass(self, mod, PassContext.current())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name}, opt_level={self.info.opt_level})"


def _instruments(ctx: PassContext) -> list[Any] | None:
    """Return the instruments of the context, with the one that TVM_DUMP requests."""
    directory = os.environ.get("TVM_DUMP")
    if directory and DUMP_INSTRUMENT:
        return [*(ctx.instruments or ()), DUMP_INSTRUMENT(directory)]
    return ctx.instruments


def run_pass(pass_: Pass, mod: IRModule, ctx: PassContext) -> IRModule:
    """Run one pass with the instruments of ``ctx``, regardless of the optimization level.

    Parameters
    ----------
    pass_ : Pass
        The pass.
    mod : IRModule
        The module.
    ctx : PassContext
        The context.

    Returns
    -------
    IRModule
        The output module of the pass.

    Raises
    ------
    TypeError
        ``mod`` is not a module.
    """
    if not isinstance(mod, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"pass {pass_.info.name} expects an IRModule, got {type(mod).__name__}; "
            "convert a function with tvm.IRModule.from_expr(func)"
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
        raise TypeError(f"pass {pass_.info.name} must return an IRModule, but it returned {type(new).__name__}")
    return new


def _run_instrumented(pass_: Pass, mod: IRModule, ctx: PassContext, instruments: list[Any]) -> IRModule:
    info = pass_.info
    if info.name not in ctx.required_pass:
        # Call every instrument, even after one has returned False: they may count calls.
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
        # Inform instruments that keep a stack of running passes that this pass ended.
        for instrument in started:
            failed = getattr(instrument, "pass_failed", None)
            if failed is not None:
                failed(mod, info)
        raise
    return new


def run_pipeline(mod: IRModule, passes: Iterable[Pass], ctx: PassContext | None = None) -> IRModule:
    """Run passes in order, skipping those that the context disables and running required passes first.

    Parameters
    ----------
    mod : IRModule
        The module.
    passes : Iterable[Pass]
        The passes in order.
    ctx : PassContext, optional
        The context; by default the current one.

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
    """The pass registered under ``name`` or ``layer.name``, created without arguments.

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
        No pass or several passes have the name.
    """
    make = PASSES.get(name)
    if make is None:
        ends = [full for full in PASSES if full.rsplit(".", 1)[-1] == name]
        if len(ends) != 1:
            problem = "several layers have one: " + ", ".join(ends) if ends else near_matches(name, PASSES)
            raise ValueError(f"cannot find the pass '{name}'; {problem}")
        make = PASSES[ends[0]]
    return make()


class ModulePass(Pass):
    """A pass implemented by a function ``(mod, ctx) -> mod``.

    Parameters
    ----------
    function : callable
        The function that returns the new module.
    info : PassInfo
        Name, level and requirements of the pass.
    """

    def __init__(self, function: Callable[[IRModule, PassContext], IRModule], info: PassInfo):
        self.function = function
        self.info = info

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return self.function(mod, ctx)


class FunctionPass(Pass):
    """A pass that transforms the functions of a module one by one.

    Subclasses for each IR set ``function_type``. The function ``(func, mod, ctx) -> func`` returns None to remove a
    function.

    Parameters
    ----------
    function : callable
        The function that returns the new function.
    info : PassInfo
        Name, level and requirements of the pass.
    """

    function_type: type = object

    def __init__(self, function: Callable[[Any, IRModule, PassContext], Any], info: PassInfo):
        self.function = function
        self.info = info

    def skips(self, func: Any) -> bool:
        """Whether to leave this function unchanged.

        Parameters
        ----------
        func : BaseFunc
            The function.

        Returns
        -------
        bool
            Whether the function is skipped.
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
            The module with the transformed functions.

        Raises
        ------
        TypeError
            The pass returned a value that is not a function.
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
    """A sequence of passes.

    Parameters
    ----------
    passes : Sequence[Pass], optional
        The passes.
    opt_level : int, optional
        The lowest optimization level at which the pass runs.
    name : str, optional
        The name.
    required : Iterable[str], optional
        Passes that must run before.

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
            raise TypeError(f"Sequential expects a list of passes, got {passes!r}")
        for pass_ in passes:
            if not isinstance(pass_, Pass):  # pyright: ignore[reportUnnecessaryIsInstance]
                hint = "; it must be called to make the pass" if callable(pass_) else ""
                raise TypeError(f"Sequential expects a list of passes, but {pass_!r} is not a pass{hint}")
        self.passes: list[Pass] = list(passes)
        self.info = PassInfo(opt_level, name, required)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return run_pipeline(mod, self.passes, ctx)


def _make_pass_class(base: Any, user_class: type, method: str, info: PassInfo) -> type:
    """Create a pass class for a user's class that defines ``method``; attributes are forwarded to the user's object."""
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
        raise ValueError(f"{what}: opt_level is missing; use @{what}(opt_level=0)")

    def make(argument: Any):
        if not callable(argument):
            raise TypeError(f"{what} must decorate a function or a class, got {argument!r}")
        info = PassInfo(opt_level, name or getattr(argument, "__name__", what), required)
        if isinstance(argument, type):
            return _make_pass_class(base, argument, method, info)
        return base(argument, info)

    return make(pass_func) if pass_func is not None else make


def module_pass(
    pass_func: Any = None, opt_level: Any = None, name: Any = None, required: Any = None, traceable: Any = False
):
    """Create a pass from a function ``(mod, ctx) -> mod`` or from a class with ``transform_module(self, mod, ctx)``.

    A decorated class remains a class, whose instances are passes. ``traceable`` is accepted and ignored.

    Parameters
    ----------
    pass_func : callable or type, optional
        The function or class; without it, a decorator is returned.
    opt_level : int, optional
        The lowest optimization level at which the pass runs.
    name : str, optional
        The name of the pass.
    required : list of str, optional
        Passes that must run before.
    traceable : bool, optional
        Ignored.

    Returns
    -------
    ModulePass or callable
        The pass, or a decorator if there is no function.
    """
    return _pass_decorator(ModulePass, "transform_module", "module_pass", pass_func, opt_level, name, required)


def function_pass_factory(pass_class: type, what: str = "function_pass"):
    """A decorator that creates passes of ``pass_class`` (a FunctionPass) from ``(func, mod, ctx) -> func``.

    ``prim_func_pass = function_pass_factory(PrimFuncPass, "prim_func_pass")``

    Parameters
    ----------
    pass_class : type
        The class of the passes.
    what : str, optional
        The name of the decorator in error messages.

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
    """A pass that prints the module to standard error and returns it unchanged.

    Parameters
    ----------
    header : str, optional
        A line that is printed before the module.
    show_meta_data : bool, optional
        Whether to print the constants too.

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
    """A pass that applies ``transform`` to the functions whose complete name matches; other functions stay unchanged.

    Parameters
    ----------
    transform : Pass
        The pass.
    func_name_regex : str
        A regular expression for complete names.
    error_if_no_function_matches_regex : bool, optional
        Whether to raise an error if no name matches.

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
