"""The private cache of compiled libraries."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.codegen.llvm.build import ENOUGH_FUNCTIONS
from tvm.contrib import graph_executor
from tvm.relay.backend import library_cache, te_compiler


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache that is on."""
    monkeypatch.delenv("TVM_NO_CACHE", raising=False)
    monkeypatch.setenv("TVM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lowered(monkeypatch) -> list[str]:
    """Names of the kernels that were lowered."""
    names: list[str] = []
    original = te_compiler.Kernel._lower

    def lower(self):
        names.append(self.name)
        return original(self)

    monkeypatch.setattr(te_compiler.Kernel, "_lower", lower)
    return names


def model(size: int = 8) -> tvm.IRModule:
    x = relay.var("x", shape=(2, size))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.exp(x))))


def run(lib, size: int = 8) -> None:
    value = np.random.default_rng(0).standard_normal((2, size)).astype("float32")
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.run(x=value)
    e = np.exp(np.exp(value))
    np.testing.assert_allclose(executor.get_output(0).numpy(), e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_the_second_compile_is_found_and_right(cache, lowered, tmp_path):
    first = relay.build(model(), "llvm")
    assert lowered
    lowered.clear()
    second = relay.build(model(), "llvm")
    assert not lowered
    run(first), run(second)
    for name, lib in (("a.so", first), ("b.so", second)):
        lib.export_library(str(tmp_path / name))
        loaded = graph_executor.GraphModule(tvm.runtime.load_module(str(tmp_path / name))["default"](tvm.cpu()))
        assert loaded.get_num_outputs() == 1
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()
    # Text is made again when it is asked for.
    assert second.get_lib().get_source("ll").startswith("; ModuleID")


@pytest.mark.slow("compiles a network of several objects")
def test_a_library_of_several_objects_is_found_and_right(cache, lowered, tmp_path):
    x = relay.var("x", shape=(2, 8))
    value = x
    for number in range(2 * ENOUGH_FUNCTIONS):
        value = relay.exp(relay.sin(value + relay.const(float(number))))
    mod = tvm.IRModule.from_expr(relay.Function([x], value))
    with tvm.transform.PassContext(config={"relay.FuseOps.max_depth": 3}):
        first = relay.build(mod, "llvm")
        lowered.clear()
        second = relay.build(mod, "llvm")
    assert not lowered and len(list(second.lib._info.objects())) > 1
    second.export_library(tmp_path / "kept.so")
    data = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")
    results = []
    for lib in (first, second, tvm.runtime.load_module(str(tmp_path / "kept.so"))):
        executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        executor.run(x=data)
        results.append(executor.get_output(0).numpy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.slow("compiles a model in two processes")
def test_another_process_finds_it(cache):
    script = """if True:
        import tvm
        from tvm import relay
        x = relay.var("x", shape=(2, 8))
        relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm")
    """
    for seed in ("1", "2"):
        subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert len(list(cache.glob("*.lib"))) == 1


def test_everything_the_code_follows_from_makes_another_entry(cache, lowered, monkeypatch):
    def compiles(build) -> bool:
        lowered.clear()
        build()
        return bool(lowered)

    def at_level(level: int):
        with tvm.transform.PassContext(opt_level=level):
            relay.build(model(), "llvm")

    assert compiles(lambda: relay.build(model(), "llvm"))
    assert compiles(lambda: relay.build(model(9), "llvm"))
    assert compiles(lambda: relay.build(model(), "llvm -opt-level=1"))
    assert compiles(lambda: at_level(0))
    assert compiles(lambda: relay.build(model(), "llvm", mod_name="other"))
    assert not compiles(lambda: relay.build(model(), "llvm"))
    monkeypatch.setattr(library_cache, "_sources", lambda: "another version")
    assert compiles(lambda: relay.build(model(), "llvm"))


def test_what_the_user_adds_switches_it_off(cache, lowered):
    relay.build(model(), "llvm")
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def watch(function, mod, ctx):
        seen.append(function)
        return function

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, watch)]}):
        relay.build(model(), "llvm")
    assert seen
    lowered.clear()
    with relay.testing.TempOpAttr("exp", "mine", lambda: None):
        relay.build(model(), "llvm")
    assert lowered


def test_a_damaged_entry_is_compiled_again(cache, lowered):
    relay.build(model(), "llvm")
    (entry,) = cache.glob("*.lib")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    lowered.clear()
    run(relay.build(model(), "llvm"))
    assert lowered


@pytest.mark.parametrize(
    "header",
    [
        b"no JSON",
        b"[]",
        b"{}",
        b'{"names": 5, "sizes": []}',
        b'{"names": [1], "sizes": []}',
        b"[" * 100000,
        b'"x"',
        b'{"names": ["f"], "sizes": 5}',
        b'{"names": ["f"], "sizes": ["x"]}',
    ],
)
def test_an_entry_whose_header_is_no_header_is_compiled_again(cache, lowered, header):
    relay.build(model(), "llvm")
    (entry,) = cache.glob("*.lib")
    body = library_cache._MAGIC + struct.pack("<Q", len(header)) + header
    for content in (body, library_cache._MAGIC + b"\1"):
        entry.write_bytes(content + hashlib.blake2b(content, digest_size=16).digest())
        lowered.clear()
        run(relay.build(model(), "llvm"))
        assert lowered


def test_code_that_cannot_be_loaded_is_compiled_again(cache, lowered):
    relay.build(model(), "llvm")
    (entry,) = cache.glob("*.lib")
    names, _ = library_cache._read(entry)
    code = b"this is no object file"
    header = json.dumps({"names": names, "sizes": [len(code)]}).encode()
    body = library_cache._MAGIC + struct.pack("<Q", len(header)) + header + code
    entry.write_bytes(body + hashlib.blake2b(body, digest_size=16).digest())
    lowered.clear()
    run(relay.build(model(), "llvm"))
    assert lowered


def test_the_folder_is_private(cache, lowered):
    relay.build(model(), "llvm")
    assert os.stat(cache).st_mode & 0o777 == 0o700
    cache.chmod(0o755)
    lowered.clear()
    relay.build(model(), "llvm")
    assert lowered, "a folder others may read is not used"


def test_it_can_be_switched_off(cache, lowered, monkeypatch):
    monkeypatch.setenv("TVM_NO_CACHE", "1")
    relay.build(model(), "llvm")
    assert not cache.exists()


def test_without_llvmlite_what_is_missing_is_said(cache, monkeypatch):
    monkeypatch.setattr(library_cache.llvm_facts, "binding", lambda: None)
    with pytest.raises(tvm.TVMError, match="the llvm target needs the package llvmlite; pip install llvmlite"):
        relay.build(model(), "llvm")
