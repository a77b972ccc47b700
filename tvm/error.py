"""All exceptions that this package raises. Uses only the standard library."""

from __future__ import annotations

from collections.abc import Iterable


class TVMError(RuntimeError):
    """Base class of errors that are reported to users."""


class InternalError(TVMError):
    """A violated invariant inside the compiler, which is always a bug in the compiler."""


class DiagnosticError(TVMError):
    """An error in the user's program; the message contains its location."""


class OpError(TVMError):
    """Base class of errors about operators."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator or feature that is not supported."""


class OpAttributeInvalid(OpError, AttributeError):
    """An operator attribute has a value that is not allowed."""


class OpAttributeRequired(OpError, AttributeError):
    """A required operator attribute is missing."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An operator attribute has a value that is legal but not supported."""


class ScheduleError(TVMError, ValueError):
    """A schedule primitive cannot be applied; the schedule is unchanged."""


class RPCError(TVMError):
    """An error on the remote side or in the connection."""


class RPCSessionTimeoutError(RPCError, TimeoutError):
    """The remote side did not respond in time."""


class TargetError(TVMError, ValueError):
    """A target description is invalid, or a target does not support a requested operation."""


class ExprTypeError(TVMError, TypeError):
    """The types of an expression's operands do not match."""


class ExprValueError(TVMError, ValueError):
    """A value is not allowed in an expression."""


class DivideByZeroError(TVMError, ZeroDivisionError):
    """An expression divides by the literal zero."""


# Errors that keep their class when they are sent through C or a network as text: "ValueError: message".
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
    """Register ``cls`` so that it keeps its class when sent as text; a decorator, or called with a name and a class."""
    if isinstance(func_name, type):
        func_name, cls = func_name.__name__, func_name
    if cls is None:
        return lambda kind: register_error(func_name or kind.__name__, kind)
    ERROR_TYPES[func_name] = cls
    return cls


def error_from_text(text: str) -> Exception:
    """Create the error of an error text: of the class that its first word names, else a TVMError."""
    name, colon, rest = text.partition(": ")
    kind = ERROR_TYPES.get(name) if colon else None
    return TVMError(text) if kind is None else kind(rest)


def not_defined(owner: object, method: str) -> NotImplementedError:
    """Create the error for a method that subclasses must define, for a class that does not."""
    return NotImplementedError(f"{type(owner).__name__} does not define {method}")


def did_you_mean(word: str, known: Iterable[object], before: str = "", cutoff: float = 0.6) -> str:
    """Return ``did you mean 'a' or 'b'?``, preceded by ``before``, for the most similar known names; else an empty
    text."""
    import difflib  # imported only for errors

    close = difflib.get_close_matches(word, [str(name) for name in known], n=3, cutoff=cutoff)
    return f"{before}did you mean " + " or ".join(f"'{name}'" for name in close) + "?" if close else ""
