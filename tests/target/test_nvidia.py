"""The table of NVIDIA architectures, and what targets learn from it."""

from __future__ import annotations

import pytest

from tvm.error import TargetError
from tvm.target import Target, nvidia


@pytest.mark.parametrize(("name", "number"), [("sm_75", 75), ("sm_90a", 90), ("sm_120", 120), ("compute_80", 80)])
def test_an_architecture_is_read_from_its_name(name, number):
    assert nvidia.number_of(name) == number
    assert nvidia.architecture(name).number == number


@pytest.mark.parametrize("name", ["", "turing", "sm_", "gfx900", "sm_80x"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(TargetError, match=f"has the form sm_80, got '{name}'"):
        nvidia.architecture(name)


def test_an_architecture_without_a_row_is_like_the_nearest_older_one():
    assert nvidia.architecture("sm_88") == nvidia.architecture("sm_87")._replace(number=88)
    assert nvidia.architecture("sm_35").block_shared == nvidia.architecture("sm_50").block_shared


def test_rows_are_plausible():
    for number, row in nvidia.ARCHITECTURES.items():
        assert row.number == number
        assert nvidia.STATIC_SHARED <= row.block_shared <= row.multiprocessor_shared <= 256 * 1024
        assert row.multiprocessor_threads in (1024, 1536, 2048)
        assert row.has_bfloat == ("bfloat16" in row.mma_k) == row.has_async_copy == (number >= 80)
        assert row.has_dp4a == (number >= 61)


def test_warpgroups_are_of_code_for_exactly_sm_90():
    assert [nvidia.architecture(name).has_warpgroups for name in ("sm_90", "sm_90a", "sm_100a")] == [False, True, False]
    assert nvidia.own_architecture("sm_90") == "sm_90a" and nvidia.own_architecture("sm_80") == "sm_80"


@pytest.mark.parametrize(
    ("text", "dtypes", "shared", "dynamic"),
    [
        ("cuda -arch=sm_70", set(), 48, 96),
        ("cuda -arch=sm_75", {"float16"}, 48, 64),
        ("cuda -arch=sm_80", {"float16", "bfloat16", "float32"}, 48, 163),
        ("cuda -arch=sm_90 -max_shared_memory_per_block=100000", {"float16", "bfloat16", "float32"}, 48, 100000 / 1024),
        # LLVM's PTX has no tensor cores and no memory that is asked for at the launch.
        ("nvptx -mcpu=sm_90", set(), 48, 48),
    ],
)
def test_targets_know_tensor_cores_and_shared_memory(text, dtypes, shared, dynamic):
    features = Target(text).features
    assert features.mma_dtypes == dtypes
    assert (features.shared_bytes, features.dynamic_shared_bytes) == (shared * 1024, dynamic * 1024)


def test_copies_and_shuffles_follow_the_kind_and_its_architecture():
    assert Target("cuda -arch=sm_80").features.has_async_copy and Target("cuda").features.has_warp_shuffle
    assert not Target("cuda -arch=sm_75").features.has_async_copy
    for text in ("nvptx -mcpu=sm_80", "opencl", "rocm"):
        features = Target(text).features
        assert not features.has_async_copy and not features.has_warp_shuffle
        assert features.is_nvidia == text.startswith("nvptx")


def test_gpus_of_phones_have_rows_too():
    mali, plain = Target("opencl -device=mali").features, Target("opencl").features
    assert not mali.has_near_shared and plain.has_near_shared
    assert (mali.block_threads, mali.multiprocessors) == (64, 12)
