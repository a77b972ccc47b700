"""2x2 matmul and dot product instructions of Arm on any machine: plain vector code in their place, and qemu-user."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from tvm import tir
from tvm.ir.prim import Shuffle
from tvm.topi.cpu import dot_products, pair_products
from tvm.topi.cpu.dot_products import DotProduct

TYPES = (("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("bfloat16", "bfloat16"))
_CALL = tir.call_llvm_pure_intrin


def _product(dtype: str, name: str, sums, a, b):
    """Compute what an instruction computes in plain vectors."""
    if not name.startswith("emulated"):
        return _CALL(dtype, name, sums, a, b)
    _, kind, _, depth = name.split(".")
    size = int(depth)
    for term in range(size):
        if kind == "dots":
            lanes = [[size * lane + term for lane in range(4)]] * 2
        else:
            lanes = [[size * at + term for at in places] for places in ((0, 0, 1, 1), (0, 1, 0, 1))]
        x, y = (
            Shuffle((operand,), tuple(tir.const(at, "int32") for at in own)).astype(dtype)
            for operand, own in zip((a, b), lanes)
        )
        sums = sums + x * y
    return sums


@contextmanager
def emulated() -> Iterator[str]:
    """A scope in which this machine has the instructions of Arm; gives the target."""
    dots = [DotProduct("", "", *t, 4, f"emulated.dots.of.{2 if 'bfloat16' in t else 4}", True) for t in TYPES]
    pairs = {(i.lhs, i.rhs): i._replace(name=f"emulated.pairs.of.{i.depth}") for i in pair_products.INSTRUCTIONS}
    with (
        mock.patch.object(dot_products, "instructions", lambda target: dots),
        mock.patch.object(pair_products, "pair_product", lambda target, lhs, rhs: pairs.get((lhs, rhs))),
        mock.patch.object(tir, "call_llvm_pure_intrin", _product),
    ):
        yield "llvm -mattr=-amx-bf16,-amx-int8" if platform.machine() == "x86_64" else "llvm"


@contextmanager
def session() -> Iterator:
    """A session with a machine that has the instructions: the C server under qemu-user. The test is skipped without
    it."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
    import cross_check

    if platform.machine() not in ("aarch64", "x86_64"):
        pytest.skip("qemu-user is for Linux on common machines")
    command = cross_check.command_of(cross_check.MACHINES["aarch64, Neoverse-V1"], Path("/usr"))
    if isinstance(command, str):
        pytest.skip("a machine with products of pairs wants qemu-user and a C compiler for aarch64")
    with cross_check.session(command) as remote:
        yield remote
