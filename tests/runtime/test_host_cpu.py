"""What the runtime knows of its CPU without LLVM, against what LLVM says."""

from __future__ import annotations

from tests.machines import described_cpu
from tvm.runtime import _lib, host_cpu
from tvm.target import llvm_facts


def test_what_is_lacking_agrees_with_llvm():
    with described_cpu(""):
        host = llvm_facts.host()
    here = [feature[1:] for feature in host.features if feature[0] == "+"]
    absent = [feature[1:] for feature in host.features if feature[0] == "-"]
    assert host_cpu.lacking(here) == []
    known = [name for name in absent if _lib.lib.TVMCpuHas(name.encode()) >= 0]
    assert host_cpu.lacking(absent) == known and known
    assert host_cpu.lacking(["a feature of the future"]) == []


def test_this_machine_runs_code_of_its_own_triple_and_of_no_other():
    assert host_cpu.runs(llvm_facts.host().triple) and host_cpu.runs(host_cpu.triple())
    other = "aarch64" if host_cpu.machine_of(host_cpu.triple())[0] == "x86_64" else "x86_64"
    assert not host_cpu.runs(f"{other}-linux-gnu") and not host_cpu.runs("wasm32-unknown-unknown")
