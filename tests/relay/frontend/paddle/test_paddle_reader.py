"""What the reader of PaddlePaddle's files takes and refuses."""

from __future__ import annotations

import numpy as np
import pytest
from mutants import MUTATIONS, damaged
from paddle_networks import networks, weights
from paddle_writer import From, parameters, program, tensor, write

from tests.relay.frontend.paddle.operator_cases import compare, run
from tvm.error import OpNotImplemented, TVMError
from tvm.ir.prim import Any_
from tvm.relay.frontend import from_paddle
from tvm.relay.frontend.paddlepaddle import reader

W = {"w": np.arange(6, dtype="float32").reshape(2, 3), "a": np.array([3.0], "float32")}
ROWS = [
    ("elementwise_add", {"X": "x", "Y": "w"}, {"Out": "s"}, {}),
    ("elementwise_mul", {"X": "s", "Y": "a"}, {"Out": "y"}, {}),
]
FEEDS = {"x": ((-1, 3), "float32")}
X = np.ones((2, 3), "float32")


def _program(rows=ROWS, feeds=None, fetches=("y",), **more) -> bytes:
    return program(rows, FEEDS if feeds is None else feeds, fetches, **{"weights": W, **more})


def _works(path) -> None:
    compare(run(from_paddle(path, {"x": (2, 3)})[0], {"x": X}), [(X + W["w"]) * 3])


# -- what a model may be ----------------------------------------------------------------------------------------------


def test_a_program_with_its_parameters_beside_it(tmp_path):
    path = write(tmp_path, "net", _program(), W)
    _works(path)
    _works(str(path))


def test_an_older_program_with_all_parameters_in_one_file_and_with_a_file_for_each(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "__model__").write_bytes(_program())
    (tmp_path / "one" / "__params__").write_bytes(parameters(W))
    _works(tmp_path / "one" / "__model__")
    _works(tmp_path / "one")
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "__model__").write_bytes(_program())
    for name, array in W.items():
        (tmp_path / "many" / name).write_bytes(tensor(array))
    _works(tmp_path / "many")


def test_a_folder_has_a_program_of_a_usual_name(tmp_path):
    write(tmp_path, "inference", _program(), W)
    _works(tmp_path)


def test_open_sizes_stay_open_where_no_shape_is_given(tmp_path):
    path = write(tmp_path, "net", _program(), W)
    (x,) = from_paddle(path)[0]["main"].params
    assert isinstance(x.type_annotation.shape[0], Any_) and x.type_annotation.shape[1].value == 3
    (x,) = from_paddle(path, {"x": [None, 3]})[0]["main"].params
    assert isinstance(x.type_annotation.shape[0], Any_)


def test_a_variable_that_is_written_twice_has_its_last_value(tmp_path):
    rows = [
        ("scale", {"X": "x"}, {"Out": "y"}, {"scale": 2.0}),
        ("elementwise_add", {"X": "y", "Y": "x"}, {"Out": "y"}, {}),
    ]
    path = write(tmp_path, "net", program(rows, {"x": ((2, 3), "float32")}, ["y"]))
    compare(run(from_paddle(path)[0], {"x": X}), [X * 3])


def test_operators_that_no_output_needs_are_left_out(tmp_path):
    rows = [("made_up", {"X": "x"}, {"Out": "z"}, {}), *ROWS]
    _works(write(tmp_path, "net", _program(rows), W))


def test_programs_without_a_frame_say_inputs_and_outputs_by_their_use(tmp_path):
    _works(write(tmp_path, "net", _program(framed=False), W))


def test_older_programs_have_vectors_of_one_element_where_newer_ones_have_numbers(tmp_path):
    rows = [("mean", {"X": "x"}, {"Out": "y"}, {})]
    for shape, name in (((1,), "old"), ((), "new")):
        path = write(tmp_path, name, program(rows, {"x": ((2, 3), "float32")}, ["y"], declared={"y": shape}))
        compare(run(from_paddle(path)[0], {"x": X}), [np.ones(shape, "float32")])


def test_an_attribute_may_be_a_variable(tmp_path):
    rows = [
        ("fill_constant", {}, {"Out": "k"}, {"shape": [1], "dtype": 2, "value": 1.0}),
        ("softmax", {"X": "x"}, {"Out": "y"}, {"axis": From("k")}),
    ]
    path = write(tmp_path, "net", program(rows, {"x": ((2, 3), "float32")}, ["y"]))
    compare(run(from_paddle(path)[0], {"x": X}), [np.full((2, 3), 1 / 3, "float32")])


class _Layer:
    """What a TranslatedLayer offers."""

    class _Named:
        def __init__(self, name, array=None):
            self.name, self.array = name, array

        def numpy(self):
            return self.array

    class _Desc:
        def __init__(self, data):
            self.data = data

        def serialize_to_string(self):
            return self.data

    def __init__(self, data):
        self.desc = self._Desc(data)

    def program(self):
        return self

    def parameters(self):
        return [self._Named(n, a) for n, a in W.items()]

    def buffers(self):
        return []

    def _input_spec(self):
        return [self._Named("x")]

    def _output_spec(self):
        return [self._Named("y")]


class _Scope:
    class _Value:
        def __init__(self, array):
            self.array = array

        def get_tensor(self):
            return self.array

    def find_var(self, name):
        return self._Value(W[name]) if name in W else None


def test_live_layers_and_programs_are_asked_for_their_program_and_parameters():
    _works(_Layer(_program(framed=False)))

    class Program:
        desc = _Layer._Desc(_program())

    compare(run(from_paddle(Program(), {"x": (2, 3)}, _Scope())[0], {"x": X}), [(X + W["w"]) * 3])


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_arguments_of_other_types_are_refused(tmp_path):
    path = write(tmp_path, "net", _program(), W)
    with pytest.raises(TypeError, match="the path of a program"):
        from_paddle(3)
    with pytest.raises(TypeError, match="from_paddle: shape_dict must be a dictionary by input name, got"):
        from_paddle(path, [1])
    with pytest.raises(TVMError, match="scope is only valid with a Program object"):
        from_paddle(path, scope=_Scope())
    with pytest.raises(TVMError, match="no input 'z'; its inputs are x"):
        from_paddle(path, {"z": (2, 3)})
    with pytest.raises(TVMError, match="the model declares 2"):
        from_paddle(path, {"x": (2, 3, 4)})
    with pytest.raises(TVMError, match="negative dimension"):
        from_paddle(path, {"x": (-4, 3)})


def test_all_operators_without_a_converter_are_named_at_once(tmp_path):
    rows = [
        ("made_up", {"X": "x"}, {"Out": "s"}, {}),
        ("other", {"X": "s"}, {"Out": "t"}, {}),
        ("made_up", {"X": "t"}, {"Out": "y"}, {}),
    ]
    with pytest.raises(OpNotImplemented, match="made_up: 2 nodes, first 's'; other: 1 node, first 't'"):
        from_paddle(write(tmp_path, "net", _program(rows), W))


def test_missing_and_wrong_parameters_are_refused(tmp_path):
    path = write(tmp_path, "net", _program())
    with pytest.raises(TVMError, match="cannot be read from 'net.pdiparams'"):
        from_paddle(path)
    (tmp_path / "net.pdiparams").write_bytes(parameters({**W, "w": W["w"].T.copy()}))
    with pytest.raises(TVMError, match="the parameters do not match the program: 'w' is float32 of shape"):
        from_paddle(path)
    (tmp_path / "net.pdiparams").write_bytes(parameters(W) + b"x")
    with pytest.raises(TVMError, match="1 bytes remain"):
        from_paddle(path)
    with pytest.raises(TVMError, match="no PaddlePaddle program"):
        from_paddle(tmp_path)
    with pytest.raises(TVMError, match="cannot read"):
        from_paddle(tmp_path / "nothing.pdmodel")


def test_parameters_are_read_from_the_models_folder_only(tmp_path):
    outside = {"../w": W["w"]}
    data = program([("scale", {"X": "../w"}, {"Out": "y"}, {})], {}, ["y"], outside)
    (tmp_path / "net").mkdir()
    (tmp_path / "w").write_bytes(tensor(W["w"]))
    (tmp_path / "net" / "__model__").write_bytes(data)
    with pytest.raises(TVMError, match="outside the model's folder"):
        from_paddle(tmp_path / "net" / "__model__")
    path = write(tmp_path / "link", "net", _program())
    (tmp_path / "link" / "net.pdiparams").symlink_to(tmp_path / "w")
    with pytest.raises(TVMError, match="and not a link"):
        from_paddle(path)


@pytest.mark.parametrize(("row", "words"), [
    (("relu", {}, {"Out": "y"}, {}), "relu 'y': the input 'X' is missing"),
    (("softmax", {"X": "x"}, {"Out": "y"}, {"axis": 5}), "axis 5 is out of range"),
    (("softmax", {"X": "x"}, {"Out": "y"}, {"axis": [1]}), "' must be a single value, got"),
    (("transpose2", {"X": "x"}, {"Out": "y"}, {"axis": [0, 0]}), "is not a permutation of 2 axes"),
    (("reshape2", {"X": "w"}, {"Out": "y"}, {"shape": [-1, -1]}), "is not valid"),
    (("reshape2", {"X": "w"}, {"Out": "y"}, {"shape": [4, 2]}), "reshape2 'y'"),
    (("scale", {"X": "gone"}, {"Out": "y"}, {}), "which is neither an input"),
    (("cast", {"X": "x"}, {"Out": "y"}, {"out_dtype": 23}), "type 23"),
    (("elementwise_add", {"X": "x", "Y": "a"}, {"Out": "y"}, {"axis": 7}), "axis 7 is out of range"),
    (("fill_constant", {}, {"Out": "y"}, {"shape": [1 << 20, 1 << 20], "dtype": 5}), "the maximum at compile time is"),
    (("fill_constant", {}, {"Out": "y"}, {"shape": [-3], "dtype": 5}), "fill_constant 'y'"),
    (("split", {"X": "w"}, {"Out": ["y", "z"]}, {"axis": 1, "num": 2}), "elements cannot be split into 2 equal parts"),
    (("pool2d", {"X": "x"}, {"Out": "y"}, {"ksize": [2, 2], "pooling_type": "max"}), "2 dimensions"),
    (("batch_norm", {"X": "x", "Scale": "w"}, {"Y": "y"}, {"is_test": False}), "training mode"),
    (("dropout", {"X": "x"}, {"Out": "y"}, {"dropout_prob": 0.5, "is_test": False}), "training mode"),
    (("conditional_block", {"Cond": "x"}, {"Out": "y"}, {"is_scalar_condition": True}), "does not exist"),
    (("while", {"Condition": "x"}, {"Out": "y"}, {}), "does not exist"),
    (("read_from_array", {"X": "x", "I": "a"}, {"Out": "y"}, {}), "' is not a tensor array"),
    (("one_hot_v2", {"X": "x"}, {"Out": "y"}, {"depth": -4}), "elements"),
    (("bilinear_interp_v2", {"X": "x"}, {"Out": "y"}, {"scale": [1e30, 1.0]}), "dimensions"),
    (("slice", {"Input": "w"}, {"Out": "y"}, {"axes": [0], "starts": [0, 1], "ends": [1]}), "do not match 1 axes"),
    (("strided_slice", {"Input": "w"}, {"Out": "y"}, {"axes": [0], "starts": [0], "ends": [1], "strides": [0]}),
     "the stride of a slice must not be 0"),
    (("sequence_pool", {"X": "w"}, {"Out": "y"}, {"pooltype": "MEDIAN"}), "the attribute 'pooltype' must be one of"),
    (("sequence_softmax", {"X": "w"}, {"Out": "y"}, {}), "expected one value for each step, got a tensor of shape"),
    (("sequence_conv", {"X": "w", "Filter": "w"}, {"Out": "y"}, {"contextLength": 2, "contextStart": 1}), "start 1"),
    (("sequence_conv", {"X": "w", "Filter": "w"}, {"Out": "y"}, {"contextStride": 2}), "'contextStride' is 2"),
    (("sequence_conv", {"X": "w", "Filter": "w"}, {"Out": "y"}, {"contextLength": 7, "contextStart": -1}),
     "do not match windows of 7 rows of size"),
    (("sequence_expand", {"X": "w", "Y": "w"}, {"Out": "y"}, {}), "expected a tensor with one row, got shape"),
])  # fmt: skip
def test_hostile_operators_are_refused_in_words(row, words, tmp_path):
    with pytest.raises(TVMError, match=words):
        from_paddle(write(tmp_path, "net", _program([row]), W))


def test_loops_that_never_end_are_refused(tmp_path):
    from paddle_writer import Block

    rows = [
        ("fill_constant", {}, {"Out": "go"}, {"shape": [1], "dtype": 0, "value": 1.0}),
        ("scale", {"X": "x"}, {"Out": "y"}, {}),
        ("while", {"X": ["y"], "Condition": "go"}, {"Out": ["y", "go"]}, {"sub_block": Block(1)}),
    ]
    body = [("assign", {"X": "go"}, {"Out": "go"}, {}), ("assign", {"X": "y"}, {"Out": "y"}, {})]
    with pytest.raises(TVMError, match="the maximum is 4096"):
        from_paddle(write(tmp_path, "net", _program(rows, blocks=[body]), W))
    rows[2] = ("while", {"X": ["y"], "Condition": "go"}, {"Out": ["y", "go"]}, {"sub_block": Block(1)})
    with pytest.raises(TVMError, match="nested deeper|circle"):
        from_paddle(write(tmp_path, "net", _program(rows, blocks=[[*body, rows[2]]]), W))


def test_a_mutated_file_is_refused_or_imported(tmp_path, rng):
    """Damaged programs and parameters end in an error of TVM's own; ``python -m tools fuzz paddle`` tries 20,000."""
    net = networks()["reader"]
    pairs = [(_program(), parameters(W)), (net.program, parameters(weights(net.program)))]
    for _ in range(MUTATIONS):
        data, params = pairs[int(rng.random() < 0.3)]
        if rng.random() < 0.8:
            data = damaged(data, rng)
        else:
            params = damaged(params, rng)
        (tmp_path / "net.pdmodel").write_bytes(data)
        (tmp_path / "net.pdiparams").write_bytes(params)
        try:
            from_paddle(tmp_path / "net.pdmodel")
        except TVMError:
            pass


def test_the_importer_has_a_limit_of_operators(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_NODES", 1)
    with pytest.raises(TVMError, match="more than 1 operators"):
        from_paddle(write(tmp_path, "net", _program(), W))
