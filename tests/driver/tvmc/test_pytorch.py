"""``tvmc compile`` of PyTorch's files."""

from __future__ import annotations

import io
import zipfile

import pytest

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import PyTorchFrontend, guess_frontend, load_model
from tvm.ir.prim import Any_


def test_files_of_pytorch_are_found_by_their_ending():
    for name in ("m.pt", "m.pth", "m.pt2", "m.jit"):
        assert isinstance(guess_frontend(name), PyTorchFrontend)


def test_pickled_weights_are_refused_before_pytorch_is_looked_for(tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("w/data.pkl", b"")
    path = tmp_path / "weights.pth"
    path.write_bytes(data.getvalue())
    with pytest.raises(TVMCException, match="holds pickled weights or a pickled module"):
        load_model(str(path))


@pytest.mark.slow
def test_torchscript_needs_shapes_and_an_exported_program_has_them(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 4).eval()
    script, program = str(tmp_path / "m.pt"), str(tmp_path / "m.pt2")
    torch.jit.trace(model, torch.randn(2, 3)).save(script)
    torch.export.save(torch.export.export(model, (torch.randn(2, 3),)), program)
    with pytest.raises(TVMCException, match="--input-shapes"):
        load_model(script)
    assert set(load_model(script, shape_dict={"x": [2, 3]}).params) == {"weight", "bias"}
    assert load_model(program).mod["main"].params[0].name_hint == "input"


def test_open_sizes_of_an_exported_program_stay_open_or_are_given(tmp_path):
    torch = pytest.importorskip("torch")
    program = str(tmp_path / "m.pt2")
    exported = torch.export.export(torch.nn.ReLU(), (torch.randn(2, 3),), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(exported, program)
    shape = load_model(program).mod["main"].params[0].type_annotation.shape
    assert isinstance(shape[0], Any_) and int(shape[1]) == 3
    shape = load_model(program, shape_dict={"input": [5, 3]}).mod["main"].params[0].type_annotation.shape
    assert [int(d) for d in shape] == [5, 3]


def test_files_of_pytorch_are_found_by_their_content(tmp_path):
    for name, entry, found in (("script", "m/constants.pkl", True), ("wrong.onnx", "m/archive_format", True),
                               ("weights", "m/data.pkl", True), ("other.zzz", "m/text", False)):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(entry, b"")
        if found:
            assert isinstance(guess_frontend(str(path)), PyTorchFrontend)
        else:
            with pytest.raises(TVMCException, match="failed to infer"):
                guess_frontend(str(path))
