"""Virtual devices and the targets of one build."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tvm.error import TargetError
from tvm.target import Target, VirtualDevice, make_compilation_config

GPU = SimpleNamespace(device_type=2, device_id=3)
NO_CONFIG = SimpleNamespace(config={})


def test_parts_may_be_left_open():
    free = VirtualDevice()
    assert free.is_fully_unconstrained and (free.device_type, free.virtual_device_id) == (-1, -1)
    only_device = VirtualDevice(GPU)
    assert (only_device.device_type_int, only_device.virtual_device_id, only_device.target) == (2, 3, None)
    only_target = VirtualDevice(target="cuda")
    assert (only_target.device_type, only_target.virtual_device_id) == (2, 0)
    full = VirtualDevice(GPU, "cuda", "global")
    assert full.is_fully_constrained and full.memory_scope == "global"


def test_equality_is_by_content():
    assert VirtualDevice(GPU, "cuda") == VirtualDevice(GPU, Target("cuda"))
    assert hash(VirtualDevice(GPU)) == hash(VirtualDevice(GPU))
    assert VirtualDevice(GPU) != VirtualDevice(GPU, memory_scope="global")


def test_device_and_target_must_agree():
    with pytest.raises(TargetError, match="runs on devices of type 1, but the device has type 2"):
        VirtualDevice(GPU, "llvm")


def test_one_target_is_homogeneous_and_hosts_itself():
    config = make_compilation_config(NO_CONFIG, "llvm")
    assert config.optional_homogeneous_target == Target("llvm", host="llvm")
    assert config.host_target == Target("llvm")
    assert config.default_primitive_virtual_device.device_type == 1


def test_gpu_alone_gets_a_host():
    config = make_compilation_config(None, "cuda")
    assert config.host_target.kind.name == "llvm"
    assert config.host_virtual_device.device_type == 1
    assert config.default_primitive_virtual_device.device_type == 2


def test_several_targets_default_to_the_fallback_device():
    config = make_compilation_config(NO_CONFIG, ["cuda", "llvm"])
    assert config.optional_homogeneous_target is None
    assert config.default_primitive_virtual_device.device_type == 1
    context = SimpleNamespace(config={"relay.fallback_device_type": 2})
    assert make_compilation_config(context, ["cuda", "llvm"]).default_primitive_virtual_device.device_type == 2
    filled = config.canonical_virtual_device(VirtualDevice(GPU))
    assert filled.target.kind.name == "cuda" and filled.virtual_device_id == 3
    with pytest.raises(TargetError, match="no target of this build runs on devices of type 8"):
        config.find_primitive_target_for_device_type(8)
    with pytest.raises(TargetError, match="none of the targets runs on the default device type 8"):
        make_compilation_config(SimpleNamespace(config={"relay.fallback_device_type": 8}), ["cuda", "llvm"])
