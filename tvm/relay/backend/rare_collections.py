"""Python's search for cycles of garbage, while a model is compiled.

A compilation makes objects by the million, most of which reference counting frees. After so many new ones Python would
walk over all objects of the process, whose number is that of whatever else it has loaded, and find next to nothing. So
young objects are searched, less often than usual, and the others are left alone.
"""

from __future__ import annotations

import gc
import threading

# New objects between two searches, searches of the youngest between those of the next generation, and of that one
# between searches of all.
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
                # Zero says that nothing is to be searched at all.
                if self.before[0]:
                    gc.set_threshold(*map(max, self.before, _THRESHOLDS))

    def __exit__(self, *_) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                gc.set_threshold(*self.before)


rare_collections = RareCollections()
