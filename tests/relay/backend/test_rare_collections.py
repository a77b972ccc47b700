"""Compiling leaves how often Python searches for garbage as it was."""

from __future__ import annotations

import gc

import pytest

import tvm
from tvm import relay
from tvm.relay.backend.rare_collections import RareCollections


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def compiled(compile_model, action):
    """What ``action()`` gives while a model is compiled."""
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(func, mod, ctx):
        seen.append(action())
        return func

    x = relay.var("x", shape=(3,))
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(0, look)]}):
        compile_model(tvm.IRModule.from_expr(relay.Function([x], x + relay.const(1.0))), target="llvm")
    return seen


@pytest.mark.parametrize("compile_model", [relay.build, relay.vm.compile])
def test_what_a_process_holds_is_not_searched_while_compiling(thresholds, compile_model):
    seen = compiled(compile_model, gc.get_threshold)
    assert seen and all(oldest > 1000 * thresholds[2] for _, _, oldest in seen)
    assert gc.get_threshold() == thresholds


def test_an_error_restores_the_thresholds(thresholds):
    def fail():
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        compiled(relay.build, fail)
    assert gc.get_threshold() == thresholds


def test_the_last_that_leaves_restores_the_thresholds(thresholds):
    rare = RareCollections()
    rare.__enter__()
    with rare:
        rare.__exit__()
        assert gc.get_threshold() != thresholds
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("chosen", [(0, 10, 10), (90_000, 20, 5_000_000)])
def test_thresholds_of_those_who_search_less_stay(thresholds, chosen):
    gc.set_threshold(*chosen)
    with RareCollections():
        assert gc.get_threshold() == chosen
