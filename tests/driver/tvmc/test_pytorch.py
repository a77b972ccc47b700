"""``tvmc compile`` of PyTorch's files."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import PyTorchFrontend, guess_frontend, load_model
from tvm.driver.tvmc.main import _main as main
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
    with pytest.raises(TVMCException, match="contains pickled weights or a pickled module"):
        load_model(str(path))


@pytest.mark.slow("imports PyTorch in several processes")
def test_torchscript_says_no_shapes_and_an_exported_program_does(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 4).eval()
    script, program = str(tmp_path / "m.pt"), str(tmp_path / "m.pt2")
    torch.jit.trace(model, torch.randn(2, 3)).save(script)
    torch.export.save(torch.export.export(model, (torch.randn(2, 3),)), program)
    assert set(load_model(script).params) == {"weight", "bias"}
    said = capsys.readouterr().out
    assert 'the file gives no shape; using [?,3] float32 (--input-shapes "input:[...]" gives another)' in said
    for name in ("input", "x"):
        made = load_model(script, shape_dict={name: [2, 3]})
        assert made.mod["main"].params[0].name_hint == name and set(made.params) == {"weight", "bias"}
    assert not capsys.readouterr().out
    assert load_model(program).mod["main"].params[0].name_hint == "input"


def test_a_script_is_compiled_without_a_shape_flag_and_run(tmp_path, capsys):
    torch = pytest.importorskip("torch")

    class Total(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.total = torch.zeros(3)

        def forward(self, x, times: int):
            if times < 0:
                raise ValueError("a negative number of times")
            self.total = self.total + x.sum(0) * times
            return self.total

    script, package = str(tmp_path / "m.jit"), str(tmp_path / "m.tar")
    torch.jit.script(Total()).save(script)
    assert not main(["compile", "--target", "llvm", "--output", package, script])
    said = capsys.readouterr().out
    assert "input 'x': the file gives no shape; using [?,?] float32" in said
    assert "input 'times': the file gives no shape; using one int64" in said
    assert "input 'total': state, which a run leaves as a result; using [3] float32" in said
    inputs, outputs = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    given = {"x": np.ones((5, 3), "float32"), "times": np.int64(2), "total": np.ones(3, "float32")}
    np.savez(inputs, **given)
    assert not main(["run", "--inputs", inputs, "--outputs", outputs, package])
    assert [v.tolist() for v in np.load(outputs).values()] == [[11] * 3] * 2
    np.savez(inputs, **{**given, "times": np.int64(-1)})
    assert main(["run", "--inputs", inputs, package])
    assert "a negative number of times" in capsys.readouterr().err
    some = load_model(script, shape_dict={"x": [5, 3], "total": [3]}).mod["main"].params
    assert [str(p.type_annotation) for p in some] == ["Tensor[(5, 3), float32]", "int64", "Tensor[(3), float32]"]


def test_a_script_that_takes_no_open_sizes_asks_for_the_flag(tmp_path):
    torch = pytest.importorskip("torch")

    def nine(x):
        if x.dim() < 9:
            raise ValueError("nine dimensions are wanted")
        return x

    path = str(tmp_path / "m.jit")
    torch.jit.script(nine).save(path)
    with pytest.raises(TVMCException, match=r"the shape of 'x'.*--input-shapes \"x:\[1,3,224,224\]\""):
        load_model(path)
    assert load_model(path, shape_dict={"x": [1] * 9}).mod["main"].params[0].name_hint == "x"


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
    for name, entry, found in (
        ("script", "m/constants.pkl", True),
        ("wrong.onnx", "m/archive_format", True),
        ("weights", "m/data.pkl", True),
        ("other.zzz", "m/text", False),
    ):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(entry, b"")
        if found:
            assert isinstance(guess_frontend(str(path)), PyTorchFrontend)
        else:
            with pytest.raises(TVMCException, match="failed to infer"):
                guess_frontend(str(path))
