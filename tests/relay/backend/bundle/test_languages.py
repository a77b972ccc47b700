"""Bundles from C++ and Rust, and damaged bundles and wrong calls in C, C++ and Rust."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.relay.backend.bundle import cases

# `python -m tools fuzz bindings` sets the number.
CASES = os.environ.get("TVM_FUZZ_CASES", "60")


@pytest.fixture(scope="module")
def shared_cpp(tmp_path_factory) -> Path:
    """The C++ program that opens shared bundles. It needs no library of the runtime."""
    return cases.build_program("check.cpp", tmp_path_factory.mktemp("cpp") / "check", *cases.SANITIZE)


@pytest.fixture(scope="module")
def crate(tmp_path_factory) -> Path:
    """A copy of the crate."""
    cases.compiler("cargo")
    folder = tmp_path_factory.mktemp("rust") / "crate"
    return Path(shutil.copytree(cases.ROOT / "rust", folder, ignore=shutil.ignore_patterns("target", "Cargo.lock")))


def cargo(crate: Path, *words: str, **variables: object) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TVM_")}
    given = {key: str(value) for key, value in variables.items()}
    command = ["cargo", words[0], "--offline", "--quiet", *words[1:]]
    done = subprocess.run(command, cwd=crate, env={**kept, **given}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow("compiles C++ and the runtime")
def test_cpp_opens_a_bundle(small, exported, shared_cpp: Path, tmp_path: Path, seed: int):
    small("static").save(tmp_path)
    assert cases.run(shared_cpp, exported("static"), "run", tmp_path) == "ok\n"
    small("static").check(tmp_path)


@pytest.mark.slow("compiles C++ and the runtime")
def test_cpp_links_a_bundle(small, exported, tmp_path: Path, seed: int):
    bundle = exported("static", "static")
    small("static").save(tmp_path)
    header = f'-DHEADER="{bundle.with_suffix(".h")}"'
    program = cases.build_program("check.cpp", tmp_path / "check", "-DLINKED", header, bundle)
    assert cases.run(program, "run", tmp_path) == "ok\n"
    small("static").check(tmp_path)
    assert cases.run(program, "wrong", 1000, seed) == "ok\n"


@pytest.mark.slow("compiles Rust and the runtime")
def test_rust_opens_a_bundle(small, exported, crate: Path, tmp_path: Path):
    small("static").save(tmp_path)
    command = ("test", "--test", "bundle", "--", "--nocapture", "outputs")
    printed = cargo(crate, *command, TVM_TEST_BUNDLE=exported("static"), TVM_TEST_DATA=tmp_path)
    assert "2 outputs are equal" in printed and "1 passed" in printed


LINKED = """
fn main() {
    let mut model = unsafe { tvm_classic::Bundle::linked(tvm_classic::linked_bundle!("tvm_bundle")) }.unwrap();
    for i in 0..2 {
        let bytes = std::fs::read(format!("input_{i}.bin")).unwrap();
        let values: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
        model.set_input(i, &values, None).unwrap();
    }
    model.run().unwrap();
    for i in 0..2 {
        let values: Vec<u8> = model.output::<f32>(i).unwrap().iter().flat_map(|x| x.to_ne_bytes()).collect();
        std::fs::write(format!("result_{i}.bin"), values).unwrap();
    }
}
"""


@pytest.mark.slow("compiles Rust and the runtime")
def test_rust_links_a_bundle(small, exported, crate: Path, tmp_path: Path):
    bundle = exported("static", "static")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(LINKED)
    shutil.copyfile(bundle, tmp_path / "libmodel.a")
    flags = (f"search=native={tmp_path}", "lib=static=model", "lib=m")
    lines = "".join(f'println!("cargo:rustc-link-{flag}");' for flag in flags)
    (tmp_path / "build.rs").write_text(f"fn main() {{ {lines} }}")
    package = '[package]\nname = "linked"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
    (tmp_path / "Cargo.toml").write_text(f'{package}tvm-classic = {{ path = "{crate}" }}\n')
    small("static").save(tmp_path)
    cargo(tmp_path, "run")
    small("static").check(tmp_path)


# ---- damaged bundles and wrong calls ----


@pytest.mark.slow("compiles C with sanitizers and opens many files")
@pytest.mark.parametrize("engine", ("static", "dynamic"))
def test_damaged_bundles_in_c(exported, check_program, engine: str, tmp_path: Path, seed: int):
    print("seed", seed)
    assert cases.run(check_program(), exported(engine), "damaged", tmp_path / "copy.so", CASES, seed) == "ok\n"
    assert cases.run(check_program(), exported(engine), "wrong", CASES, seed) == "ok\n"


@pytest.mark.slow("compiles C++ with sanitizers and opens many files")
@pytest.mark.parametrize("engine", ("static", "dynamic"))
def test_damaged_bundles_in_cpp(exported, shared_cpp: Path, engine: str, tmp_path: Path, seed: int):
    print("seed", seed)
    assert cases.run(shared_cpp, exported(engine), "damaged", tmp_path / "copy.so", CASES, seed) == "ok\n"
    assert cases.run(shared_cpp, exported(engine), "wrong", CASES, seed) == "ok\n"


@pytest.mark.slow("compiles Rust and opens many files")
@pytest.mark.parametrize("engine", ("static", "dynamic"))
def test_damaged_bundles_in_rust(exported, crate: Path, engine: str, seed: int):
    print("seed", seed)
    variables = {"TVM_TEST_BUNDLE": exported(engine), "TVM_FUZZ_CASES": CASES, "TVM_TEST_SEED": seed}
    assert "2 passed" in cargo(crate, "test", "--test", "bundle", "--", "errors", **variables)
