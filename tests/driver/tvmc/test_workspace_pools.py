"""Memory pools as options describe them."""

from __future__ import annotations

import argparse

import pytest

from tvm.driver.tvmc import TVMCException
from tvm.driver.tvmc.workspace_pools import generate_workspace_pools_args, workspace_pools_recombobulate
from tvm.target import Target


def pools_of(*options, targets=("c", "llvm")):
    parser = argparse.ArgumentParser()
    generate_workspace_pools_args(parser)
    args = parser.parse_args([f"--workspace-pools{option}" for option in options])
    made = [Target(kind) for kind in targets]
    pools = workspace_pools_recombobulate(args, made, [])
    return (None if pools is None else pools.pools), made


def test_pools_come_in_their_order_with_what_is_said_of_them():
    (sram, flash), (c, llvm) = pools_of(
        "=sram,flash", "-targets=flash:c", "-targets=sram:c,llvm", "-size-hint-bytes=flash:2048",
        "-size-hint-bytes=sram:1", "-size-hint-bytes=sram:1024", "-read-latency-cycles=flash:7",
        "-target-burst-bytes=sram:c:8", "-target-burst-bytes=sram:llvm:4", "-target-burst-bytes=flash:llvm:2",
    )  # fmt: skip
    assert (sram.pool_name, sram.size_hint_bytes, sram.read_latency_cycles) == ("sram", 1024, 0)
    assert (flash.pool_name, flash.size_hint_bytes, flash.read_latency_cycles) == ("flash", 2048, 7)
    assert sram.target_burst_bytes == {c: 8, llvm: 4} and list(sram.targets) == [c, llvm]
    assert flash.target_burst_bytes == {} and list(flash.targets) == [c]
    assert flash.clock_frequency_hz == flash.write_bandwidth_bytes_per_cycle == -1


def test_no_option_is_no_pool_and_half_a_description_is_refused():
    assert pools_of()[0] is None
    with pytest.raises(TVMCException, match="does not name the targets that can access the pool 'sram'"):
        pools_of("=sram")
    with pytest.raises(TVMCException, match="--workspace-pools-size-hint-bytes: 'big' is not a number"):
        pools_of("=sram", "-targets=sram:c", "-size-hint-bytes=sram:big")
    with pytest.raises(TVMCException, match="--workspace-pools-targets must have the form POOL:VALUE, got 'c'"):
        pools_of("=sram", "-targets=c")
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        pools_of("=sram", "-targets=sram:c")[0][0].speed
