"""Reduce Python's garbage collection during compilation.

A compilation creates millions of objects, most of which reference counting frees. The cyclic collector would repeatedly
visit all objects of the process and free almost nothing. The young generations are therefore collected less often, and
the oldest one is practically not collected.
"""

from __future__ import annotations

import gc
import threading

# The arguments of ``gc.set_threshold``: the number of new objects between two collections of the youngest generation,
# and the number of collections of a generation between two collections of the next one.
_THRESHOLDS = (50_000, 10, 1_000_000)


class RareCollections:
    """A context manager. The first thread that enters it sets the thresholds, and the last one that leaves it restores
    them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside = 0
        self.before = (0, 0, 0)

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.before = gc.get_threshold()
                # A threshold of zero means that collection is disabled.
                if self.before[0]:
                    gc.set_threshold(*map(max, self.before, _THRESHOLDS))

    def __exit__(self, *_) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                gc.set_threshold(*self.before)


rare_collections = RareCollections()
