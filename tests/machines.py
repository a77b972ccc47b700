"""Other machines, faked on this one: ``python -m tests.machines NAME PROGRAM...`` runs a Python module, such as pytest,
as if on the machine NAME. ``tests/test_machines.py`` runs the tests that depend on the machine on each of them.

The GPU of a fake machine is the driver of ``tests/cuda_emulator``: it has an architecture, but it runs no code that
NVRTC has made. ``TVM_HOST_CPU`` describes the CPU. Programs run as an ordinary user and without a network in name
spaces of Linux, which need no rights where the system lets users make them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

# The exit status of ``python -m tests.machines`` where this system cannot fake the machine.
IMPOSSIBLE = 77
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


class Machine(NamedTuple):
    """A machine that is not the one at hand."""

    # The number of the architecture of its GPU, as 90; 0 for no GPU.
    gpu: int = 0
    # Its CPU, as ``TVM_HOST_CPU`` describes it; empty for the one at hand.
    cpu: str = ""
    # The threads of a parallel region; 0 for those of this machine.
    threads: int = 0
    # Whether programs are run by an ordinary user without a network.
    is_confined: bool = False

    def environment(self) -> dict[str, str]:
        """The variables of a program on this machine."""
        found = {"TVM_CUDA_LIBRARY": "/nowhere/libcuda.so"}
        if self.gpu:
            from tests.cuda_emulator import library

            found = {"TVM_CUDA_LIBRARY": library(), "TVM_EMULATED_ARCH": str(self.gpu)}
        if self.is_confined:
            # A folder of packages on this machine would stand in for the index.
            found.update(PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL="http://127.0.0.1:9/simple")
            found.update(dict.fromkeys(("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"), ""))
        if self.cpu:
            found["TVM_HOST_CPU"] = self.cpu
        if self.threads:
            found["TVM_NUM_THREADS"] = str(self.threads)
        return found


MACHINES: Mapping[str, Machine] = {
    "h200": Machine(gpu=90),
    "turing": Machine(gpu=75),
    # Without the features that only AMD's CPUs have, so that compiled code runs on other x86 CPUs too.
    "zen3": Machine(cpu="znver3,-sse4a,cores=64,l1=32K,l2=512K,l3=32M", threads=16),
    "sapphire-rapids": Machine(cpu="sapphirerapids,cores=16,l1=48K,l2=2M,l3=105M", threads=16),
    "one-core": Machine(cpu="x86-64-v3,cores=1,l1=32K,l2=256K,l3=2M", threads=1),
    "confined": Machine(is_confined=True),
}


@contextlib.contextmanager
def described_cpu(text: str) -> Iterator[None]:
    """Within it the CPU of this process is the one that the text describes, as in ``TVM_HOST_CPU``; with an empty text
    it is this machine's. Targets that were made before keep what they have worked out."""
    before = os.environ.get("TVM_HOST_CPU")
    os.environ["TVM_HOST_CPU"] = text
    _forget_the_cpu()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TVM_HOST_CPU"]
        else:
            os.environ["TVM_HOST_CPU"] = before
        _forget_the_cpu()


def _forget_the_cpu() -> None:
    from tvm.runtime import host_cpu
    from tvm.target import cpu, llvm_facts

    for function in (host_cpu.described, host_cpu.usable_cores, llvm_facts.host, cpu.host_caches):
        function.cache_clear()


def confine() -> None:
    """This process goes on as an ordinary user, to whom the files of its user belong, and with no network but its own
    loopback. It must be the only thread. Raises OSError where the system refuses."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "user and network name spaces are refused")
    for name, text in (("setgroups", "deny"), ("uid_map", f"1000 {user} 1"), ("gid_map", f"1000 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    with socket.socket() as any_socket:
        name = b"lo".ljust(16, b"\0")
        asked = fcntl.ioctl(any_socket, _GET_FLAGS, name + bytes(16))
        (flags,) = struct.unpack_from("h", asked, 16)
        fcntl.ioctl(any_socket, _SET_FLAGS, name + struct.pack("h", flags | _UP) + bytes(14))


def main(name: str, *program: str) -> None:
    machine = MACHINES[name]
    # First, for libraries start threads.
    if machine.is_confined:
        try:
            confine()
        except OSError as problem:
            print(f"this system cannot fake the machine '{name}': {problem}", file=sys.stderr)
            sys.exit(IMPOSSIBLE)
    os.execve(sys.executable, [sys.executable, "-m", *program], {**os.environ, **machine.environment()})


if __name__ == "__main__":
    main(*sys.argv[1:])
