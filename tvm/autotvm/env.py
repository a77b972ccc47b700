"""The global state of AutoTVM in a process."""

from __future__ import annotations


class AutotvmGlobalScope:
    """``silent`` suppresses the warning about missing configurations; ``in_tuning`` is true while a tuner runs."""

    current: AutotvmGlobalScope | None = None

    def __init__(self):
        self._old: AutotvmGlobalScope | None = None
        self.cuda_target_arch: str | None = None
        self.in_tuning = False
        self.silent = False

    def __enter__(self) -> AutotvmGlobalScope:
        self._old, AutotvmGlobalScope.current = AutotvmGlobalScope.current, self
        return self

    def __exit__(self, *_: object) -> None:
        AutotvmGlobalScope.current = self._old

    def deep_copy(self, other: AutotvmGlobalScope) -> None:
        self.cuda_target_arch, self.in_tuning, self.silent = other.cuda_target_arch, other.in_tuning, other.silent


GLOBAL_SCOPE = AutotvmGlobalScope()
AutotvmGlobalScope.current = GLOBAL_SCOPE


def reset_global_scope(global_scope: AutotvmGlobalScope) -> None:
    """Replace the settings by those of another scope."""
    GLOBAL_SCOPE.deep_copy(global_scope)
    AutotvmGlobalScope.current = GLOBAL_SCOPE
