"""Packages name the features that their code uses, and are refused where one of them is not."""

from __future__ import annotations

import pytest

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.machine import check_machine, machine
from tvm.runtime import host_cpu
from tvm.target import Target

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
LACKING = {"cortex-a72": {"dotprod", "fullfp16"}, "neoverse-n1": {"sve"}}


def be_machine(monkeypatch, triple: str, lacking: set[str]) -> None:
    """Make this machine one of another architecture whose CPU lacks these features."""
    monkeypatch.setattr(host_cpu, "triple", lambda: triple)
    monkeypatch.setattr(host_cpu, "lacking", lambda features: [name for name in features if name in lacking])


@pytest.fixture
def board(monkeypatch):
    """This machine as an Arm board."""
    return lambda core: be_machine(monkeypatch, "aarch64-linux", LACKING[core])


def test_dot_products_of_bytes_are_among_the_features_of_a_package():
    assert "dotprod" in machine(Target(f"{ARM} -mattr=+dotprod"))["features"]
    assert "dotprod" not in machine(Target(ARM))["features"]


def test_a_package_with_dot_products_is_refused_by_a_core_without_them(board):
    wanted = machine(Target(f"{ARM} -mattr=+dotprod"))
    board("neoverse-n1")
    check_machine(wanted)
    board("cortex-a72")
    with pytest.raises(TVMCException, match=r"for cpu cortex-a72, but this machine lacks dotprod; compile it here"):
        check_machine(wanted)


@pytest.mark.parametrize("cpu, feature", [("cascadelake", "avx512vnni"), ("sapphirerapids", "amx-int8")])
def test_a_package_with_products_of_x86_is_refused_by_a_cpu_without_them(cpu, feature, monkeypatch):
    wanted = machine(Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"))
    be_machine(monkeypatch, "x86_64-linux", {feature})
    with pytest.raises(
        TVMCException,
        match=rf"for cpu {cpu}, but this machine lacks .*\b{feature}\b.*; compile it "
        rf"here",
    ):
        check_machine(wanted)


def test_a_package_of_risc_v_is_refused_by_arm(board):
    board("neoverse-n1")
    with pytest.raises(
        TVMCException, match="compiled for riscv64-unknown-linux-gnu, but this machine is aarch64-linux"
    ):
        check_machine(machine(Target("llvm -mtriple=riscv64-linux-gnu -mattr=+v")))
