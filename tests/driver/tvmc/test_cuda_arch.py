"""``tvmc compile --target cuda`` where there is no GPU to ask for its architecture."""

from __future__ import annotations

import re

import pytest

from tests.cuda_emulator.marks import needs_compiler
from tvm.codegen.cuda import nvrtc
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.target import target_from_cli
from tvm.target import detect


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(detect, "local_arch", lambda: None)


@pytest.fixture
def compile_for(model_path, tmp_path, capsys):
    """What ``tvmc compile`` prints."""

    def run(*target: str) -> str:
        assert _main(["compile", "--target", *target, "--output", str(tmp_path / "net.tar"), model_path]) == 0
        return capsys.readouterr().out

    return run


@needs_compiler
@pytest.mark.parametrize("compiler", ["NVRTC", "nvcc"])
def test_the_architecture_that_is_chosen_is_one_the_compiler_knows(compiler, compile_for, monkeypatch):
    if (nvrtc.library() if compiler == "NVRTC" else nvrtc.shutil.which("nvcc")) is None:
        pytest.skip(f"{compiler} is not here")
    if compiler == "nvcc":
        monkeypatch.setattr(nvrtc, "library", lambda: None)
    nvrtc.supported.cache_clear()
    try:
        (arch,) = set(re.findall(r"sm_(\d+)", compile_for("cuda")))
        assert int(arch) in nvrtc.supported()
    finally:
        nvrtc.supported.cache_clear()


@needs_compiler
def test_every_message_names_the_architecture_that_code_is_made_for(compile_for, monkeypatch):
    monkeypatch.setattr(nvrtc, "supported", lambda: (80, 90))
    shown = compile_for("cuda")
    assert "no -arch is given and there is no GPU; compiling for sm_80" in shown
    assert set(re.findall(r"sm_\d+", shown)) == {"sm_80"}


@needs_compiler
@pytest.mark.parametrize(
    "target", [("cuda -arch=sm_90",), ("nvidia/nvidia-h100",), ("cuda", "--target-cuda-arch", "sm_90")]
)
def test_an_architecture_that_is_named_is_not_announced(target, compile_for):
    assert "no -arch is given" not in compile_for(*target)


@pytest.mark.parametrize("known, arch", [((50, 60), "sm_50"), ((75, 90), "sm_75"), ((), "sm_50")])
def test_the_default_is_the_oldest_that_the_compiler_supports(known, arch, monkeypatch, tmp_path):
    monkeypatch.setattr(nvrtc, "supported", lambda: known)
    written = tmp_path / "target.json"
    written.write_text('{"kind": "cuda", "host": "llvm"}')
    for text in ("cuda", "cuda, llvm", '{"kind": "cuda"}', str(written)):
        assert target_from_cli(text)[0].arch == arch
    assert target_from_cli('{"kind": "cuda", "arch": "sm_89"}')[0].arch == "sm_89"
    assert target_from_cli("nvidia/tesla-t4")[0].arch == "sm_75"


def test_the_default_is_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(nvrtc, "supported", lambda: (75, 90))
    monkeypatch.setattr(detect, "local_arch", lambda: "sm_61")
    assert target_from_cli("cuda")[0].arch == "sm_61"
