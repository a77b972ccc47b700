"""Bundles and programs that several tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.relay.backend.bundle import cases
from tests.relay.backend.bundle.cases import Compiled

Small = Callable[..., Compiled]
Exported = Callable[..., Path]


@pytest.fixture(scope="package")
def small() -> Small:
    """Compile the small model once for each engine and target."""
    made: dict[tuple[str, str], Compiled] = {}

    def small(engine: str, target: str = "llvm") -> Compiled:
        key = engine, target
        if key not in made:
            made[key] = cases.small(*key)
        return made[key]

    return small


@pytest.fixture(scope="package")
def exported(small: Small, tmp_path_factory) -> Exported:
    """Write each bundle of the small model once; return its path."""
    folder, made = tmp_path_factory.mktemp("bundles"), {}

    def exported(engine: str, kind: str = "shared", threads: bool = True) -> Path:
        key = engine, kind, threads
        if key not in made:
            path = folder / f"{engine}_{kind}_{threads}.{cases.SUFFIXES[kind]}"
            small(engine, "c" if kind == "c" else "llvm").export(path, kind, threads)
            made[key] = path
        return made[key]

    return exported


@pytest.fixture(scope="package")
def check_program(tmp_path_factory) -> Callable[[], Path]:
    """Compile the C program that opens shared bundles, with sanitizers."""
    made: list[Path] = []

    def check_program() -> Path:
        if not made:
            made.append(cases.build_program("check.c", tmp_path_factory.mktemp("check") / "check", *cases.SANITIZE))
        return made[0]

    return check_program
