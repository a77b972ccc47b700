"""Memory pools as options describe them."""

from __future__ import annotations

import argparse

import pytest

from tvm.driver.tvmc import TVMCException
from tvm.driver.tvmc.workspace_pools import generate_workspace_pools_args, workspace_pools_recombobulate
from tvm.target import Target


def pools_of(*options, targets=("c", "llvm"), extra=()):
    parser = argparse.ArgumentParser()
    generate_workspace_pools_args(parser)
    args = parser.parse_args([f"--workspace-pools{option}" for option in options])
    made = [Target(kind) for kind in targets]
    pools = workspace_pools_recombobulate(args, made, [{"name": name} for name in extra])
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
    assert flash.target_burst_bytes == {llvm: 2} and list(flash.targets) == [c]
    assert flash.clock_frequency_hz == flash.write_bandwidth_bytes_per_cycle == -1


def test_every_number_of_a_pool():
    (sram,), _ = pools_of(
        "=sram", "-targets=sram:c", "-clock-frequency-hz=sram:1", "-read-bandwidth-bytes-per-cycle=sram:2",
        "-write-bandwidth-bytes-per-cycle=sram:3", "-read-latency-cycles=sram:4", "-write-latency-cycles=sram:5",
    )  # fmt: skip
    found = (
        sram.clock_frequency_hz, sram.read_bandwidth_bytes_per_cycle, sram.write_bandwidth_bytes_per_cycle,
        sram.read_latency_cycles, sram.write_latency_cycles,
    )  # fmt: skip
    assert found == (1, 2, 3, 4, 5)


def test_targets_given_several_times_and_code_generators():
    (sram,), (c, llvm) = pools_of("=sram", "-targets=sram:llvm", "-targets=sram:c")
    assert list(sram.targets) == [llvm, c]
    (sram,), (c,) = pools_of("=sram", "-targets=sram:cmsis-nn,c", targets=("c",), extra=("cmsis-nn",))
    assert list(sram.targets) == [c]


def test_no_option_is_no_pool():
    assert pools_of()[0] is None


@pytest.mark.parametrize(
    "options, words",
    [
        (["=sram"], "does not list the targets that can access the pool 'sram'"),
        (["=sram", "-targets=sram:c", "-size-hint-bytes=sram:big"], "-size-hint-bytes: 'big' is not a number"),
        (["=sram", "-targets=c"], "--workspace-pools-targets must have the form POOL:VALUE, got 'c'"),
        (["=sram", "-targets=sram:cuda"], r"-targets: 'cuda' is not a target of this compilation \(c, llvm\)"),
        (["=sram", "-targets=sram:c", "-size-hint-bytes=ram:1"], "ram:1: unknown pool 'ram'"),
        (["-size-hint-bytes=ram:1"], "ram:1: unknown pool 'ram'; add it to --workspace-pools"),
        (["=sram", "-targets=sram:c", "-target-burst-bytes=sram:4"], "must have the form POOL:TARGET:BYTES, got '4'"),
        (["=sram", "-targets=sram:c", "-target-burst-bytes=sram:ext:4"], "'ext' is not a target"),
    ],
)
def test_incomplete_and_wrong_descriptions(options, words):
    with pytest.raises(TVMCException, match=words):
        pools_of(*options)


def test_a_pool_has_no_other_attributes():
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        pools_of("=sram", "-targets=sram:c")[0][0].speed
