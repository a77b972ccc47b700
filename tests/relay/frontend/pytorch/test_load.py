"""Files of PyTorch are told apart by their table of contents; what would be unpickled is refused. These tests need no
PyTorch."""

from __future__ import annotations

import io
import json
import os
import pickletools
import random
import zipfile

import pytest
from mutants import watched

from tvm.error import TVMError
from tvm.relay.frontend.pytorch.load import EXPORTED, TORCHSCRIPT, file_kind

# Many more with ``python -m tools fuzz pytorch``.
MUTATIONS = int(os.environ.get("TVM_FUZZ_CASES", "300"))
_PLAIN = {"config": {"w": {"path_name": "weight_0", "use_pickle": False}}}
_NONE = {"config": {}}
# A pickle that would run a program: GLOBAL os system.
_HOSTILE = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00trueq\x00\x85R."
_TENSOR = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00."


def archive(entries: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return data.getvalue()


def exported() -> dict[str, bytes]:
    return {
        "m/archive_format": b"pt2",
        "m/models/model.json": b"{}",
        "m/data/weights/model_weights_config.json": json.dumps(_PLAIN).encode(),
        "m/data/weights/weight_0": b"\0" * 4,
        "m/data/constants/model_constants_config.json": json.dumps(_NONE).encode(),
        "m/data/sample_inputs/model.pt": archive({"s/data.pkl": _TENSOR}),
    }


def written(tmp_path, entries: dict[str, bytes]) -> str:
    path = tmp_path / "m.pt"
    path.write_bytes(archive(entries))
    return str(path)


def test_torchscript_and_exported_programs_are_told_apart(tmp_path):
    script = {"m/data.pkl": b"", "m/constants.pkl": b"", "m/code/__torch__.py": b"", "m/version": b"3"}
    assert file_kind(written(tmp_path, script)) == TORCHSCRIPT
    assert file_kind(written(tmp_path, exported())) == EXPORTED


_NEW, _OLD = archive({"w/data.pkl": b"", "w/data/0": b"", "w/version": b"3"}), b"\x80\x02}q\x00."


@pytest.mark.parametrize("content", [_NEW, _OLD], ids=["zip", "pickle"])
def test_pickled_weights_are_refused_with_what_to_do(tmp_path, content):
    path = tmp_path / "w.pth"
    path.write_bytes(content)
    with pytest.raises(TVMError, match=r"contains pickled weights .* is not opened\. Save the model with torch"):
        file_kind(str(path))


def test_archives_whose_reader_would_unpickle_are_refused(tmp_path):
    pickled = {"config": {"w": {"path_name": "weight_0", "use_pickle": True}}}
    silent = {"config": {"w": {"path_name": "weight_0"}}}
    custom = {"config": {"o": {"path_name": "custom_obj_0", "use_pickle": False}}}
    for name, row in (("weights", pickled), ("weights", silent), ("constants", custom)):
        entries = exported()
        entries[f"m/data/{name}/model_{name}_config.json"] = json.dumps(row).encode()
        with pytest.raises(TVMError, match="is a pickled object, which is not supported"):
            file_kind(written(tmp_path, entries))
    entries = exported()
    entries["m/data/sample_inputs/model.pt"] = archive({"s/data.pkl": _HOSTILE})
    assert "GLOBAL" in {code.name for code, _, _ in pickletools.genops(_HOSTILE)}
    with pytest.raises(TVMError, match=r"sample inputs use os\.system"):
        file_kind(written(tmp_path, entries))
    entries["m/data/aotinductor/model.so"] = b""
    with pytest.raises(TVMError, match="compiled code and other data are not supported"):
        file_kind(written(tmp_path, entries))


def test_entries_outside_of_one_folder_are_refused(tmp_path):
    for entries in ({"a/version": b"", "b/version": b""}, {"a/../../x": b""}, {"/a/data.pkl": b""}):
        with pytest.raises(TVMError, match="are not in one folder"):
            file_kind(written(tmp_path, entries))
    with pytest.raises(TVMError, match="neither TorchScript nor an exported program"):
        file_kind(written(tmp_path, {"a/notes.txt": b""}))


def test_a_mutated_file_is_told_or_refused_in_words(tmp_path, seed):
    rng = random.Random(seed)
    whole = archive(exported())
    path = tmp_path / "damaged.pt2"
    for _ in range(MUTATIONS):
        content = bytearray(whole[: rng.randrange(1, len(whole) + 1)] if rng.random() < 0.3 else whole)
        for _ in range(rng.randrange(1, 6)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content))
        try:
            with watched(tmp_path):
                assert file_kind(str(path)) in (TORCHSCRIPT, EXPORTED)
        except TVMError as problem:
            assert str(path) in str(problem)
