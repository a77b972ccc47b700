"""Every exception the project raises on purpose. Standard library only."""


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
