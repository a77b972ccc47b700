"""Tags: every compute made inside a tag scope carries the scope's tag."""

from __future__ import annotations

import functools
from typing import Any


class TagScope:
    """``with tag_scope("elemwise"):`` or ``@tag_scope(tag="elemwise")``."""

    current: TagScope | None = None

    def __init__(self, tag: str):
        self.tag = tag
        self._outer: TagScope | None = None

    def __enter__(self):
        if TagScope.current is not None:
            raise ValueError(f"a tag scope is open already: '{TagScope.current.tag}'")
        TagScope.current = self
        return self

    def __exit__(self, *exc: Any):
        TagScope.current = None

    def __call__(self, fdecl: Any):
        @functools.wraps(fdecl)
        def tagged(*args: Any, **kwargs: Any):
            with TagScope(self.tag):
                return fdecl(*args, **kwargs)

        return tagged


def tag_scope(tag: str) -> TagScope:
    """Tag the operations made inside of ``with``, for schedules that look for them.

    Parameters
    ----------
    tag : str
        The tag.

    Returns
    -------
    TagScope
        What ``with`` takes; it decorates functions too.
    """
    return TagScope(tag)
