"""Settings of tests of models that are compiled ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...testing.aot import AOTTestRunner

AOT_DEFAULT_RUNNER = AOTTestRunner()

# The combinations of interface-api and unpacked-api that programs without the runtime can use.
_COMBINATIONS = (("packed", True), ("packed", False), ("c", True))


def parametrize_aot_options(test: Callable[..., Any]) -> Any:
    """Run a test for every valid combination of its parameters ``interface_api``, ``use_unpacked_api`` and
    ``test_runner``.

    Parameters
    ----------
    test : callable
        The test function.

    Returns
    -------
    callable
        The test function with the parameters.
    """
    import pytest  # pyright: ignore[reportMissingImports]

    rows = [(interface, unpacked, AOT_DEFAULT_RUNNER) for interface, unpacked in _COMBINATIONS]
    return pytest.mark.parametrize(["interface_api", "use_unpacked_api", "test_runner"], rows)(test)


__all__ = ["AOT_DEFAULT_RUNNER", "parametrize_aot_options"]
