"""``tvm.relay.transform.transform``: the passes, under TVM's inner path."""

import sys

_PASSES = sys.modules[__package__]


def __getattr__(name: str):
    return getattr(_PASSES, name)
