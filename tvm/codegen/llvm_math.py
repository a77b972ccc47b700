from ..error import TVMError
FUNCTIONS = {}
def call_math(b, name, dtype, operands):
    raise TVMError(name)
