"""What the CNTK importer takes, and what it refuses in words."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_cases import cases
from mutants import MUTATIONS, damaged

from tvm.error import OpNotImplemented, TVMError
from tvm.ir.visit import components
from tvm.relay.frontend import from_cntk
from tvm.relay.frontend.cntk.binary import read
from tvm.relay.frontend.cntk.schema import FILES


def _wide(text: str) -> bytes:
    return f"{text}\0".encode("utf-16-le")


def test_files_are_taken_as_paths_and_bytes(tmp_path):
    data = cases()["Times"].files["v2"]
    (tmp_path / "m.model").write_bytes(data)
    assert str(from_cntk(tmp_path / "m.model")[0]) == str(from_cntk(str(tmp_path / "m.model"))[0])
    module, params = from_cntk(data, {"x": (3, 5)})
    assert module["main"].params[0].type_annotation.concrete_shape == (3, 5)
    assert [v.shape for v in params.values()] == [(5, 3)]


def test_an_output_may_be_any_operator_by_its_name():
    data = cases()["Block/dense"].files["v2"]
    names = [n.name or n.key for n in __import__("tvm").relay.frontend.cntk.load.load(data).nodes.values()]
    times = next(n for n in names if n.startswith("Times"))
    assert "relu" not in str(from_cntk(data, outputs=[times])[0])
    assert "relu" in str(from_cntk(data)[0])
    with pytest.raises(TVMError, match="no output 'nothing'"):
        from_cntk(data, outputs="nothing")


def test_the_element_type_of_inputs_can_be_another_one():
    module, _ = from_cntk(cases()["ReLU"].files["v2"], dtype="float16")
    assert module["main"].params[0].type_annotation.dtype == "float16"
    assert (
        from_cntk(cases()["ReLU"].files["v2"], dtype={"x": "float64"})[0]["main"].params[0].type_annotation.dtype
        == "float64"
    )


def test_a_sequence_needs_its_length():
    data = cases()["PastValue/sum"].files["v2"]
    with pytest.raises(TVMError, match="including its sequence length; give it: shape="):
        from_cntk(data)
    assert from_cntk(data, {"x": (1, 3, 3)})[0]["main"].params


def test_wrong_arguments_are_named():
    data = cases()["Times"].files["v2"]
    with pytest.raises(TypeError, match="a path or bytes"):
        from_cntk(3)
    with pytest.raises(TypeError, match="from_cntk: shape must be a dictionary by input name, got"):
        from_cntk(data, [1, 5])
    with pytest.raises(TVMError, match="no input 'y'; its inputs are x"):
        from_cntk(data, {"y": (1, 5)})
    with pytest.raises(TVMError, match="got 3 dimensions, but the model has 2"):
        from_cntk(data, {"x": (1, 1, 5)})
    with pytest.raises(TVMError, match="not positive"):
        from_cntk(data, {"x": (0, 5)})
    with pytest.raises(TVMError, match="cannot read"):
        from_cntk("no/such/file.dnn")


def test_all_operators_that_are_missing_are_in_one_list():
    model = FILES.parse("Dictionary", cases()["Combine"].files["v2"], "model")
    functions = next(p.value for p in model.data if p.key == "primitive_functions").vector_value.value
    for function, number in zip(functions, (66, 60)):
        next(p.value for p in function.dictionary_value.data if p.key == "op").size_t_value = number
    with pytest.raises(OpNotImplemented, match=r"(?s)ForwardBackward: 1 node.*NDCG: 1 node"):
        from_cntk(model.SerializeToString())


def test_an_unknown_node_of_the_first_format_is_named():
    head = b"".join(
        [
            _wide("BCN"),
            _wide("BVersion"),
            (14).to_bytes(8, "little"),
            _wide("EVersion"),
            (1).to_bytes(8, "little"),
            _wide("BNodeList"),
        ]
    )
    node = _wide("float") + _wide("Lattice") + _wide("z")
    with pytest.raises(OpNotImplemented, match="Lattice, node 'z'"):
        from_cntk(head + node)
    with pytest.raises(TVMError, match="file version 99 is not supported; the newest supported version is"):
        from_cntk(head.replace((14).to_bytes(8, "little"), (99).to_bytes(8, "little")))
    with pytest.raises(TVMError, match="unknown element type 'quad' of the node at byte"):
        from_cntk(head + _wide("quad") + node)
    with pytest.raises(TVMError, match="unexpected end of the file"):
        from_cntk(head + node[:-2])


def test_a_matrix_of_any_size_is_not_allocated():
    data = cases()["Times"].files["v1"]
    at = data.index(_wide("BMAT")) + len(_wide("BMAT"))
    rows = data.index(_wide("unnamed"), at) + len(_wide("unnamed")) + 4
    huge = bytearray(data)
    huge[rows : rows + 8] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(TVMError, match="unexpected end of the file"):
        read(bytes(huge))


def test_sparse_weights_of_the_first_format_are_made_dense():
    network = read(cases()["Times"].files["v1"])
    name, node = next((k, n) for k, n in network.nodes.items() if n.type == "LearnableParameter")
    dense = node.fields["value"].reshape(5, 3)
    data = cases()["Times"].files["v1"]
    begin, end = data.index(b"d" + _wide("BMAT")), data.index(_wide("EMAT"))
    values = dense.reshape(-1).astype("<f4").tobytes()
    rows = np.tile(np.arange(3, dtype="<i4"), 5).tobytes()
    begins = np.arange(0, 16, 3, dtype="<i4").tobytes()
    sparse = b"".join([b"s", _wide("BMAT"), (4).to_bytes(8, "little"), _wide("nnmatrix"), bytes(4),
                       (15).to_bytes(8, "little"), (5).to_bytes(8, "little"), (3).to_bytes(8, "little"), values, rows,
                       begins])  # fmt: skip
    got = read(data[:begin] + sparse + data[end:]).nodes[name].fields["value"]
    np.testing.assert_array_equal(got.reshape(5, 3), dense)


def test_nodes_come_after_what_they_need_and_circles_are_groups():
    needs = {"a": ["b"], "b": ["c", "d"], "c": ["b"], "d": [], "e": ["a"]}
    assert [sorted(g) for g in components(["e"], needs.__getitem__)] == [["d"], ["b", "c"], ["a"], ["e"]]
    long = {str(i): [str(i + 1)] if i < 50_000 else [] for i in range(50_001)}
    assert len(components(["0"], long.__getitem__)) == 50_001


def test_mutated_models_are_converted_or_refused(rng):
    files = [(data, {k: v.shape for k, v in c.feeds.items()}) for c in cases().values() for data in c.files.values()]
    refused = 0
    for _ in range(MUTATIONS):
        data, shapes = files[int(rng.integers(len(files)))]
        try:
            from_cntk(damaged(data, rng), shapes)
        except TVMError:
            refused += 1
    assert refused or MUTATIONS < 50
