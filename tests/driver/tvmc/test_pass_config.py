"""Passes that are named on the command line."""

from __future__ import annotations

import pytest

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.pass_config import parse_configs


def test_a_pass_of_a_module_that_is_not_there_is_refused_as_such():
    with pytest.raises(ModuleNotFoundError, match="the pass 'nowhere.at.all'") as refusal:
        parse_configs(["tir.add_lower_pass=1,nowhere.at.all"])
    assert isinstance(refusal.value, TVMCException)
    with pytest.raises(TVMCException, match="the pass 'tvm.tir.nothing'") as refusal:
        parse_configs(["tir.add_lower_pass=1,tvm.tir.nothing"])
    assert not isinstance(refusal.value, ModuleNotFoundError)
