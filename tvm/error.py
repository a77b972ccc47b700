"""Every exception the project raises on purpose. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable


class TVMError(RuntimeError):
    """Base of all errors a user can be shown."""


class InternalError(TVMError):
    """A broken invariant inside the compiler: always a bug of ours."""


class DiagnosticError(TVMError):
    """A program the user wrote is wrong; the message points at the place."""


class OpError(TVMError):
    """Base of errors about operators."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator or feature that is not supported."""


class OpAttributeInvalid(OpError, AttributeError):
    """An operator attribute has a value that is not allowed."""


class OpAttributeRequired(OpError, AttributeError):
    """A required operator attribute is missing."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An operator attribute has a value that is legal but not supported."""


class ScheduleError(TVMError, ValueError):
    """A schedule primitive refused; the schedule is unchanged."""


class RPCError(TVMError):
    """The remote side failed."""


class RPCSessionTimeoutError(RPCError, TimeoutError):
    """The remote side did not answer in time."""


class TargetError(TVMError, ValueError):
    """A target description is wrong, or a target cannot do what was asked of it."""


class ExprTypeError(TVMError, TypeError):
    """An expression was built from operands whose types do not fit."""


class ExprValueError(TVMError, ValueError):
    """An expression was built from a value that is not allowed there."""


class DivideByZeroError(TVMError, ZeroDivisionError):
    """An expression divides by the literal zero."""


# Errors that keep their class when they cross C or a network as text: "ValueError: what happened".
ERROR_TYPES: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        *(AttributeError, IndexError, KeyError, NotImplementedError, TypeError, ValueError),
        *(DiagnosticError, InternalError, OpError, OpNotImplemented, RPCError, RPCSessionTimeoutError),
        *(OpAttributeInvalid, OpAttributeRequired, OpAttributeUnImplemented, ScheduleError, TargetError),
        *(ExprTypeError, ExprValueError, DivideByZeroError),
    )
}


def register_error(func_name=None, cls: type[Exception] | None = None):
    """Let ``cls`` keep its class when it crosses as text; a decorator, or called with a name and a class."""
    if isinstance(func_name, type):
        func_name, cls = func_name.__name__, func_name
    if cls is None:
        return lambda kind: register_error(func_name or kind.__name__, kind)
    ERROR_TYPES[func_name] = cls
    return cls


def error_from_text(text: str) -> Exception:
    """The error an error text stands for: of the class its first word names, else TVMError."""
    name, colon, rest = text.partition(": ")
    kind = ERROR_TYPES.get(name) if colon else None
    return TVMError(text) if kind is None else kind(rest)


def not_defined(owner: object, method: str) -> NotImplementedError:
    """The error of a method that every subclass defines, for a class that does not."""
    return NotImplementedError(f"{type(owner).__name__} does not define {method}")


def did_you_mean(word: str, known: Iterable[object], before: str = "", cutoff: float = 0.6) -> str:
    """``did you mean 'a' or 'b'?``, behind ``before``, of the known names closest to a word; else nothing."""
    import difflib  # only errors need it

    close = difflib.get_close_matches(word, [str(name) for name in known], n=3, cutoff=cutoff)
    return f"{before}did you mean " + " or ".join(f"'{name}'" for name in close) + "?" if close else ""
