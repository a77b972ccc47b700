"""Image files decoded while a program runs."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.runtime.image_files import decoded

Image = pytest.importorskip("PIL.Image")
HEIGHT, WIDTH = 5, 7


def picture(seed=3, shape=(HEIGHT, WIDTH, 3)):
    return np.random.default_rng(seed).integers(0, 256, shape, "uint8")


def written(array, kind):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def machine():
    """``run(bytes, pixel format)`` of programs compiled once for files of any length."""
    made = {}

    def run(data, pixel_format="RGB"):
        if pixel_format not in made:
            file = relay.var("file", relay.TensorType([relay.Any()], "uint8"))
            mod = tvm.IRModule.from_expr(relay.Function([file], relay.image.decode(file, pixel_format)))
            made[pixel_format] = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
        return made[pixel_format].run(np.frombuffer(data, "uint8")).numpy()

    return run


@pytest.mark.parametrize("kind", ["BMP", "PNG", "PPM", "TIFF"])
def test_files_without_losses_give_the_pixels_they_were_written_from(machine, kind):
    want = picture()
    np.testing.assert_array_equal(machine(written(want, kind)), want)
    np.testing.assert_array_equal(machine(written(want, kind), "BGR"), want[:, :, ::-1])


def test_one_program_decodes_files_of_any_size(machine):
    for height, width in ((1, 1), (3, 17), (64, 2)):
        want = picture(height, (height, width, 3))
        np.testing.assert_array_equal(machine(written(want, "PNG")), want)


def test_grey_palette_alpha_and_sixteen_bits_become_bytes_of_the_format_asked_for(machine):
    grey, alpha = picture(1, (HEIGHT, WIDTH)), picture(2, (HEIGHT, WIDTH, 4))
    np.testing.assert_array_equal(machine(written(grey, "PNG"), "Grayscale"), grey[:, :, None])
    np.testing.assert_array_equal(machine(written(grey, "PNG")), np.repeat(grey[:, :, None], 3, 2))
    np.testing.assert_array_equal(machine(written(alpha, "PNG")), alpha[:, :, :3])
    wide = grey.astype("uint16") * 256 + 77
    np.testing.assert_array_equal(machine(written(wide, "PNG"), "Grayscale"), grey[:, :, None])
    few = Image.fromarray(grey % 4)
    few.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
    file = io.BytesIO()
    few.save(file, "PNG")
    table = np.arange(10, 130, 10, "uint8").reshape(4, 3)
    np.testing.assert_array_equal(machine(file.getvalue()), table[grey % 4])


def test_a_file_that_cannot_be_decoded_gives_no_pixels(machine):
    whole = written(picture(), "PNG")
    for data in (b"", b"no image", whole[:20], whole[:-30], bytes(100), written(picture(), "GIF")):
        assert machine(data).shape == (0, 0, 3)
        assert machine(data, "Grayscale").shape == (0, 0, 1)
    np.testing.assert_array_equal(machine(whole), picture())


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_never_end_the_program_otherwise():
    rng = np.random.default_rng(11)
    for kind in ("BMP", "JPEG", "PNG", "PPM", "TIFF"):
        whole = np.frombuffer(written(picture(), kind), "uint8")
        for _ in range(20):
            data = whole.copy()
            data[rng.integers(0, len(data), 3)] = rng.integers(0, 256, 3)
            got = decoded(data.tobytes(), "RGB")
            assert got.dtype == "uint8" and got.ndim == 3 and got.shape[2] == 3


def test_pixels_that_wait_are_those_of_the_same_file_only():
    shape, decode = (tvm.get_global_func(f"tvm.contrib.image.{n}") for n in ("decoded_shape", "decode"))
    first, second = (tvm.nd.array(np.frombuffer(written(picture(s), "PNG"), "uint8")) for s in (5, 6))
    sizes, pixels = tvm.nd.empty((3,), "int64"), tvm.nd.empty((HEIGHT, WIDTH, 3), "uint8")
    shape(first, "RGB", sizes)
    assert sizes.numpy().tolist() == [HEIGHT, WIDTH, 3]
    decode(second, "RGB", pixels)
    np.testing.assert_array_equal(pixels.numpy(), picture(6))
    decode(first, "BGR", pixels)
    np.testing.assert_array_equal(pixels.numpy(), picture(5)[:, :, ::-1])


def test_what_is_no_file_and_no_pixel_format_is_refused_when_compiling():
    with pytest.raises(ValueError, match="RGB, BGR or Grayscale, got 'CMYK'"):
        relay.image.decode(relay.var("file", shape=(9,), dtype="uint8"), "CMYK")
    with pytest.raises(tvm.TVMError, match="an encoded file must be a vector of uint8, got float32 with 1 dimensions"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.image.decode(relay.var("file", shape=(9,)))))
    with pytest.raises(tvm.error.ExprValueError, match="got 'XYZ'"):
        tvm.topi.image.decoded_shape(tvm.te.placeholder((9,), "uint8"), "XYZ")


def test_another_process_decodes_with_the_runtime_alone(tmp_path):
    file = relay.var("file", relay.TensorType([relay.Any()], "uint8"))
    mod = tvm.IRModule.from_expr(relay.Function([file], relay.image.decode(file)))
    relay.vm.compile(mod, "llvm").mod.export_library(str(tmp_path / "decode.so"))
    (tmp_path / "picture.png").write_bytes(written(picture(), "PNG"))
    np.save(tmp_path / "want.npy", picture())
    code = f"""if True:
        import numpy as np, sys, tvm
        machine = tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module({str(tmp_path / "decode.so")!r}), tvm.cpu())
        got = machine.run(np.fromfile({str(tmp_path / "picture.png")!r}, "uint8")).numpy()
        assert (got == np.load({str(tmp_path / "want.npy")!r})).all() and "tvm.relay" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)
