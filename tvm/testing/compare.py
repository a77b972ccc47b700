"""Tests of passes that compare functions before and after."""

from __future__ import annotations

import inspect
from typing import Any

import tvm
from tvm.ir.structural import assert_structural_equal


def _as_fixture(value: Any) -> Any:
    """Convert an attribute of a test class to a fixture: methods may use other fixtures; other values are returned."""
    import pytest

    if _is_fixture(value):
        return value
    if inspect.isfunction(value) and "self" in inspect.signature(value).parameters:
        return pytest.fixture(value)
    if inspect.isfunction(value):
        raise TypeError(
            f"CompareBeforeAfter: '{value.__name__}' is a function without self; define a method that returns the "
            "PrimFunc or IRModule (reading TVMScript is not available yet)"
        )
    return pytest.fixture(lambda *_instance: value)


def _is_fixture(value: Any) -> bool:
    """Whether ``pytest.fixture`` created the object: an instance of a class since pytest 8.4, a marked function
    before."""
    from _pytest import fixtures

    definition = getattr(fixtures, "FixtureFunctionDefinition", ())
    return isinstance(value, definition) or hasattr(value, "_pytestfixturefunction")


class CompareBeforeAfter:
    """Base class of pass tests: subclasses define ``transform``, ``before`` and ``expected`` (a PrimFunc, a module, a
    method or fixture that returns one; ``expected`` may also be an exception class)."""

    def __init_subclass__(cls):
        for name in ("before", "expected", "transform"):
            value = next((vars(cls)[n] for n in (name, name.capitalize()) if n in vars(cls)), None)
            if value is not None:
                setattr(cls, name, _as_fixture(value))

    def transform(self):
        raise TypeError("a subclass of CompareBeforeAfter needs a fixture or method 'transform'")

    def test_compare(self, before, expected, transform):
        if inspect.isclass(expected) and issubclass(expected, Exception):
            import pytest

            with pytest.raises(expected):
                transform(_module(before))
            return
        assert_structural_equal(transform(_module(before)), _module(expected))


def _module(value: Any) -> Any:
    return tvm.IRModule({"main": value}) if isinstance(value, tvm.tir.PrimFunc) else value
