"""What the runtime knows of its CPU without LLVM, against what LLVM says."""

from __future__ import annotations

import pytest

from tests.machines import described_cpu
from tvm.runtime import host_cpu
from tvm.target import llvm_facts


def test_what_is_lacking_agrees_with_llvm():
    with described_cpu(""):
        host = llvm_facts.host()
    here = [feature[1:] for feature in host.features if feature[0] == "+"]
    absent = [feature[1:] for feature in host.features if feature[0] == "-"]
    assert host_cpu.lacking(here) == []
    known = host_cpu._KNOWN.get(host_cpu.machine_of(host.triple)[0], ())
    assert host_cpu.lacking(absent) == [name for name in absent if name in known]
    assert host_cpu.lacking(["a feature of the future"]) == []


@pytest.mark.parametrize("machine, flags, asked, lacking", [
    ("x86_64", "flags\t\t: fpu sse sse2 pni avx", ["sse3", "avx", "sse4.1", "fma4"], ["sse4.1", "fma4"]),
    ("aarch64", "Features\t: fp asimd", ["neon", "fp-armv8", "sve", "dotprod"], ["sve", "dotprod"]),
    ("riscv64", "isa\t: rv64imafdc", ["avx2", "sve"], []),
])  # fmt: skip
def test_names_of_llvm_are_found_among_those_of_the_kernel(machine, flags, asked, lacking, monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{flags}\n")
    monkeypatch.setattr(host_cpu, "open", lambda path, **options: open(tmp_path / "cpuinfo", **options), raising=False)
    monkeypatch.setattr(host_cpu.platform, "machine", lambda: machine)
    host_cpu._flags.cache_clear()
    try:
        assert host_cpu.lacking(asked) == lacking
    finally:
        host_cpu._flags.cache_clear()


def test_this_machine_runs_code_of_its_own_triple_and_of_no_other():
    assert host_cpu.runs(llvm_facts.host().triple) and host_cpu.runs(host_cpu.triple())
    other = "aarch64" if host_cpu.machine_of(host_cpu.triple())[0] == "x86_64" else "x86_64"
    assert not host_cpu.runs(f"{other}-linux-gnu") and not host_cpu.runs("wasm32-unknown-unknown")
