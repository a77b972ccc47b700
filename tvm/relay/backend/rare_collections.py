"""Python's garbage collection while a model is compiled.

A compilation makes objects by the million, most of which reference counting frees. The cyclic collector would walk over
all objects of the process again and again, whose number is that of whatever else it has loaded, and free next to
nothing. So the young generations are collected less often than usual, and the oldest one is left alone.
"""

from __future__ import annotations

import gc
import threading

# The thresholds of ``gc.set_threshold``: new objects between two collections of the youngest generation, and how many
# collections of a generation lie between two of the next.
_THRESHOLDS = (50_000, 10, 1_000_000)


class RareCollections:
    """A context; the first thread that enters it sets the thresholds, and the last that leaves it restores them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside = 0
        self.before = (0, 0, 0)

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.before = gc.get_threshold()
                # Zero turns collection off.
                if self.before[0]:
                    gc.set_threshold(*map(max, self.before, _THRESHOLDS))

    def __exit__(self, *_) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                gc.set_threshold(*self.before)


rare_collections = RareCollections()
