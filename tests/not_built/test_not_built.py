"""Modules whose feature is to come import; what they name refuses to be used, in words."""

from __future__ import annotations

import importlib

import pytest

import tvm
from tvm.not_built import FeatureNotBuilt, NotBuilt
from tvm.not_built.parts import PARTS


@pytest.mark.parametrize("module", sorted(PARTS))
def test_every_part_imports_and_says_what_is_missing(module):
    found = importlib.import_module(module)
    part = PARTS[module]
    assert part.feature
    for name in part.questions.split():
        assert getattr(found, name)() is False
    for name in part.names.split():
        value = getattr(found, name)
        if isinstance(value, NotBuilt):
            with pytest.raises(FeatureNotBuilt, match="is not available yet"):
                value(1, key=2)


def test_a_name_that_no_table_knows_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tvm.meta_schedule' has no attribute 'Nothing'"):
        tvm.meta_schedule.Nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from tvm.contrib.cudnn import nothing  # noqa: F401


def test_a_refusal_names_the_place_and_the_feature():
    from tvm.contrib import cudnn

    assert cudnn.exists() is False
    with pytest.raises(FeatureNotBuilt, match=r"tvm\.contrib\.cudnn\.softmax: the library cuDNN is not available yet"):
        cudnn.softmax(None)
    with pytest.raises(tvm.TVMError, match=r"tvm\.meta_schedule\.TuneContext: MetaSchedule is not available yet"):
        tvm.meta_schedule.TuneContext(None, target="llvm")


def test_decorating_and_deriving_are_no_use():
    @tvm.meta_schedule.derived_object
    def matmul(n):
        return n

    @tvm.meta_schedule.derived_object("name")
    def other(n):
        return n

    class Callback(tvm.meta_schedule.TaskScheduler):
        pass

    for use in (lambda: matmul(3), lambda: other(3), Callback, lambda: matmul.anything, lambda: matmul[0]):
        with pytest.raises(FeatureNotBuilt, match="MetaSchedule is not available yet"):
            use()
    assert not hasattr(matmul, "pytestmark")


def test_a_part_that_is_a_file_of_the_tree_wins_over_its_row():
    import tvm.rpc

    assert tvm.rpc.__spec__.origin is not None
