"""Information about processors from the installed LLVM. llvmlite is imported at first use."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tvm.error import TargetError
from tvm.runtime._lib import lib
from tvm.runtime.host_cpu import Described, arch_of, described, lacking
from tvm.target.cpu_families import family_of


@functools.cache
def binding():
    """Return ``llvmlite.binding`` with all targets initialised, or None if llvmlite is not installed."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return None
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    return llvm


class HostCPU(NamedTuple):
    triple: str
    name: str
    features: tuple[str, ...]


@functools.cache
def host() -> HostCPU:
    """Return the host CPU as detected by LLVM, with present (+) and absent (-) features.

    If LLVM derives most features from the CPU name, features that the kernel does not report, as in a virtual machine,
    are absent. ``TVM_HOST_CPU`` describes another CPU of the same architecture."""
    llvm = binding()
    if llvm is None:
        import platform

        return HostCPU(f"{platform.machine().lower()}-unknown-{platform.system().lower()}", "generic", ())
    flags = llvm.get_host_cpu_features()
    features = tuple(("+" if flags[name] else "-") + name for name in sorted(flags))
    triple = llvm.get_process_triple()
    machine = described()
    if machine is not None:
        return _described_host(triple, machine, sorted(flags))
    if flags.get("amx-tile") and lib.TVMBackendUseTiles(None):
        # The system denies this process access to the tile registers.
        features = tuple("-" + f[1:] if f.startswith("+amx") else f for f in features)
    family = family_of(arch_of(triple))
    if not family.host_list_is_whole:
        features += tuple(f"-{name}" for name in lacking(family.features) if name not in flags)
    return HostCPU(triple, llvm.get_host_cpu_name(), features)


def _described_host(triple: str, machine: Described, listed: Sequence[str]) -> HostCPU:
    """Return the CPU that ``TVM_HOST_CPU`` describes; ``listed`` are the features that LLVM lists for the host."""
    family = family_of(arch_of(triple))
    if machine.name not in family.cpus and machine.name not in known_cpus(triple):
        raise TargetError(f"TVM_HOST_CPU: unknown LLVM CPU '{machine.name}' for {triple}")
    unknown = [name for name in machine.features if name[1:] not in (*listed, *known_features(triple))]
    if unknown:
        raise TargetError(f"TVM_HOST_CPU: unknown LLVM feature '{unknown[0][1:]}' for {triple}")
    asked = tuple(sorted({*listed, *family.features}))
    enabled = enabled_features(triple, machine.name, ",".join(machine.features), asked)
    return HostCPU(triple, machine.name, tuple(("+" if name in enabled else "-") + name for name in asked))


@functools.cache
def has_triple(triple: str) -> bool:
    llvm = binding()
    if llvm is None:
        return True
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError:
        return False
    return True


def _child(script: str, *arguments: str) -> tuple[int, str, str]:
    """Run ``script`` in a new interpreter that can import this package; return status, output and error output."""
    import os
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)
    return done.returncode, done.stdout, done.stderr


@functools.cache
def _help(triple: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return CPU and feature names that LLVM lists for ``triple``. LLVM prints them, so a child process is used."""
    _, _, listing = _child(
        "import sys, llvmlite.binding as llvm; llvm.initialize_all_targets(); "
        "llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu='help')",
        triple,
    )
    cpus, _, features = listing.partition("Available features")
    row = re.compile(r"^  (\S+)\s+- ", re.MULTILINE)
    return tuple(sorted(set(row.findall(cpus)))), tuple(sorted(set(row.findall(features))))


def known_cpus(triple: str) -> tuple[str, ...]:
    return _help(triple)[0] if binding() is not None else ()


def known_features(triple: str) -> tuple[str, ...]:
    return _help(triple)[1] if binding() is not None else ()


@functools.cache
def enabled_features(triple: str, cpu: str, features: str, asked: tuple[str, ...]) -> frozenset[str]:
    """Return the features in ``asked`` that a CPU with the additional ``features`` has, including implied ones.

    LLVM inlines a function into a caller only if the caller has every feature that the function requires. Therefore
    each feature becomes a small function that requires it, called from one function compiled for ``cpu``; a feature is
    present if the call was inlined.

    LLVM terminates the process for some names and combinations: if they may occur, use ``enabled_features_in_child``.
    """
    llvm = binding()
    if llvm is None:
        return frozenset(name for name in asked if f"+{name}" in features.split(","))
    lines = [f'target triple = "{triple}"', "declare void @sink(i32)"]
    for index, name in enumerate(asked):
        wanted = f"{features},+{name}" if features else f"+{name}"
        lines.append(f"define internal void @f{index}() #{index + 1} {{\ncall void @sink(i32 {index})\nret void\n}}")
        lines.append(f'attributes #{index + 1} = {{ "target-cpu"="{cpu}" "target-features"="{wanted}" }}')
    calls = "\n".join(f"call void @f{index}()" for index in range(len(asked)))
    lines.append(f"define void @all() #0 {{\n{calls}\nret void\n}}")
    lines.append(f'attributes #0 = {{ "target-cpu"="{cpu}" "target-features"="{features}" }}')
    module = llvm.parse_assembly("\n".join(lines), llvm.create_context())
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=1)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    text = str(module)
    body = text[text.index("void @all()") :].split("\n}", 1)[0]
    return frozenset(name for index, name in enumerate(asked) if f"@f{index}()" not in body)


@functools.cache
def enabled_features_in_child(triple: str, cpu: str, features: str, asked: tuple[str, ...]) -> frozenset[str]:
    """Run ``enabled_features`` in a child process; raise a TargetError with LLVM's message if the child is
    terminated."""
    if binding() is None:
        return enabled_features(triple, cpu, features, asked)
    status, output, errors = _child(
        "import sys; from tvm.target.llvm_facts import enabled_features as ask; "
        "print(*ask(*sys.argv[1:4], tuple(sys.argv[4:])))",
        triple,
        cpu,
        features,
        *asked,
    )
    if status != 0:
        reason = errors.strip().splitlines()[-1:] or ["no reason given"]
        raise TargetError(f"LLVM cannot compile for -mtriple={triple} -mcpu={cpu} -mattr={features}: {reason[0]}")
    return frozenset(output.split())


@functools.cache
def is_intrinsic(name: str) -> bool:
    """Whether this is the name of an LLVM intrinsic, with or without its type suffix."""
    if not re.fullmatch(r"llvm(\.\w+)+", name):
        return False
    if binding() is None:
        return True
    # LLVM prints a comment after the declaration of an unknown intrinsic. The declaration of a known intrinsic has an
    # incorrect type here and can crash the process. Therefore the check runs in a child process; a crash means yes.
    status, text, _ = _child(
        "import sys, llvmlite.binding as llvm; print(llvm.parse_assembly(f'declare void @{sys.argv[1]}()'))", name
    )
    return status != 0 or "Unknown intrinsic" not in text
