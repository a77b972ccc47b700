"""Tags: every operation created inside a tag scope has the scope's tag."""

from __future__ import annotations

import functools
from typing import Any


class TagScope:
    """A scope that tags operations: ``with tag_scope("elemwise"):`` or ``@tag_scope(tag="elemwise")``."""

    current: TagScope | None = None

    def __init__(self, tag: str):
        self.tag = tag
        self._outer: TagScope | None = None

    def __enter__(self):
        if TagScope.current is not None:
            raise ValueError(f"the tag scope '{TagScope.current.tag}' is already active; tag scopes cannot be nested")
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
    """Tag the operations created inside the ``with`` block, for schedules that search by tag.

    Parameters
    ----------
    tag : str
        The tag.

    Returns
    -------
    TagScope
        A context manager that is also a decorator.
    """
    return TagScope(tag)
