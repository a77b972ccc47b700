"""Times as multiples of what this machine takes for a loop of Python, so that limits hold on machines of any speed."""

from __future__ import annotations

import time
from collections.abc import Callable

# The loop as a program of its own, which leaves its processor time in ``loop``.
LOOP = """
import time
loop = time.process_time()
sum(i * i for i in range(1_000_000))
loop = time.process_time() - loop
"""


def loops(function: Callable[[], object]) -> float:
    """The processor time of a function, as a multiple of the loop's. The loop runs before and after the function,
    and the slower of both runs counts: a machine may become busy in between."""
    names: dict[str, float] = {}
    exec(LOOP, names)
    before = names["loop"]
    start = time.process_time()
    function()
    took = time.process_time() - start
    exec(LOOP, names)
    return took / max(before, names["loop"])
