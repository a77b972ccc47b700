"""``tvmc compile --target cuda`` where there is no GPU to ask for its architecture."""

from __future__ import annotations

import re

import pytest

from tests.cuda_emulator.marks import needs_compiler
from tvm.codegen.cuda import nvrtc
from tvm.driver.tvmc.main import _main
from tvm.target import detect


@needs_compiler
@pytest.mark.skipif(detect.local_arch() is not None, reason="the GPU that is here names its architecture")
@pytest.mark.parametrize("compiler", ["NVRTC", "nvcc"])
def test_the_architecture_that_is_chosen_is_one_the_compiler_knows_and_is_said(
        compiler, model_path, tmp_path, capsys, monkeypatch):
    if (nvrtc.library() if compiler == "NVRTC" else nvrtc.shutil.which("nvcc")) is None:
        pytest.skip(f"{compiler} is not here")
    if compiler == "nvcc":
        monkeypatch.setattr(nvrtc, "library", lambda: None)
    nvrtc.supported.cache_clear()
    output = str(tmp_path / "net.tar")
    try:
        assert _main(["compile", "--target", "cuda", "--output", output, model_path]) == 0
        (arch,) = re.findall(r"no -arch is given; compiling for sm_(\d+)\n", capsys.readouterr().out)
        assert int(arch) in nvrtc.supported()
    finally:
        nvrtc.supported.cache_clear()
    assert _main(["compile", "--target", "cuda -arch=sm_90", "--output", output, model_path]) == 0
    assert "no -arch is given" not in capsys.readouterr().out
