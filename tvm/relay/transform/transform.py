"""``tvm.relay.transform.transform``: the passes under the module path of Apache TVM."""

import sys

_PASSES = sys.modules[__package__]


def __getattr__(name: str):
    return getattr(_PASSES, name)
