"""Reading networks and weights of Caffe: what is found in them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from caffe_cases import CASES, made
from caffe_writer import inputs, layer, old_text, weights
from mutants import MUTATIONS, damaged

from tvm import relay
from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_caffe
from tvm.relay.frontend.caffe.prototxt import parse
from tvm.relay.frontend.caffe.schema import FILES

NET = inputs(x=(2, 4, 6, 5)) + layer("InnerProduct", param="inner_product_param { num_output: 3 }")
BLOBS = weights({"y": [np.ones((3, 120)), np.zeros(3)]})
EMPTY = weights({})


def imported(text: str, blobs: bytes = EMPTY, **options):
    return from_caffe(blobs, text.encode(), **options)


def test_the_two_files_are_paths_bytes_or_messages_in_either_order(tmp_path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(BLOBS)

    class Message:
        def SerializeToString(self):
            return BLOBS

    text, blobs = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    pairs = [
        (BLOBS, NET.encode()),
        (blobs, text),
        (str(blobs), str(text)),
        (text, blobs),
        (Message(), NET.encode()),
        (FILES.parse("Net", BLOBS, "it"), NET.encode()),
        (NET.encode(), BLOBS),
    ]
    assert len({str(from_caffe(*pair)[0]) for pair in pairs}) == 1
    with pytest.raises(TypeError, match="from_caffe: expected a path, bytes or a message, got int"):
        from_caffe(3, NET.encode())
    with pytest.raises(TypeError, match="shape_dict must be a dictionary by input name, got"):
        from_caffe(BLOBS, NET.encode(), [1])


def test_a_message_of_a_network_is_read_through_its_text():
    """Caffe's own classes are not here; a message with the same fields stands for one."""
    from tvm.relay.frontend.common.protobuf import Schema

    kinds = Schema("network", "Shape: dim 1* int64\nReshape: shape 1 Shape\nLayer: name 1 string, type 2 string, "
                   "bottom 3* string, top 4* string, blobs 7* Shape, reshape_param 133 Reshape\nNet: input 3* string, "
                   "input_shape 8* Shape, layer 100* Layer, layers 2* Layer").messages  # fmt: skip
    net = kinds["Net"](input=["x"])
    net.input_shape.add(dim=[2, 3])
    made_layer = net.layer.add(name="y", type="Reshape", bottom=["x"], top=["y"])
    made_layer.reshape_param.shape.dim.extend([3, -1])
    assert from_caffe(EMPTY, net)[0]["main"].body.attrs.newshape == (3, 2)


def test_inputs_are_declared_in_four_ways():
    body = layer("AbsVal")
    dims = "input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5"
    texts = [
        f'input: "x" {dims}\n',
        'input: "x" input_shape { dim: [2, 3, 4, 5] }\n',
        inputs(x=(2, 3, 4, 5)),
        'layer { name: "d" type: "MemoryData" top: "x" top: "label" memory_data_param { batch_size: 2 channels: 3 '
        "height: 4 width: 5 } }\n",
    ]
    for text in texts:
        (x,) = imported(text + body)[0]["main"].params
        assert x.name_hint == "x" and x.type_annotation.concrete_shape == (2, 3, 4, 5)
    (x,) = imported(texts[0] + body, shape_dict={"x": (7, 1)}, dtype_dict={"x": "float64"})[0]["main"].params
    assert x.type_annotation.concrete_shape == (7, 1) and x.type_annotation.dtype == "float64"


def test_layers_of_data_become_inputs_and_labels_are_left_out():
    data = 'layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST } }\n'
    with pytest.raises(TVMError, match="the network does not declare the shape of input 'data'; pass it in shape_dict"):
        imported(data + layer("AbsVal", "data"))
    (x,) = imported(data + layer("AbsVal", "data"), shape_dict={"data": (1, 3)})[0]["main"].params
    assert x.name_hint == "data"
    with pytest.raises(TVMError, match="the network has no input 'dat'; its inputs are data, label"):
        imported(data + layer("AbsVal", "data"), shape_dict={"dat": (1, 3)})


def test_layers_of_training_are_left_out_by_their_rules():
    rules = {"include { phase: TRAIN }": False, "include { phase: TEST }": True, "exclude { phase: TEST }": False,
             "exclude { phase: TRAIN }": True, 'include { stage: "deploy" }': False, "include { max_level: 1 }": True,
             'include { not_stage: "a" }': True, "include { min_level: 1 }": False,
             "include { phase: TRAIN } include { phase: 1 }": True}  # fmt: skip
    for rule, used in rules.items():
        module, _ = imported(inputs(x=(2, 3)) + layer("AbsVal") + layer("Exp", "y", "y", extra=rule))
        assert ("exp" in str(module)) == used, rule


def test_the_older_format_is_read_too(rng):
    x = rng.uniform(-1, 1, (2, 3, 5, 5)).astype("float32")
    arrays = [rng.uniform(-1, 1, s).astype("float32") for s in ((4, 3, 3, 3), (4,), (2, 36), (2,))]
    text = (
        layer("Convolution", "x", "c", "convolution_param { num_output: 4 kernel_size: 3 }")
        + layer("ReLU", "c", "c", name="r")
        + layer("InnerProduct", "c", "y", "inner_product_param { num_output: 2 }")
    )
    blobs, kinds = {"c": arrays[:2], "y": arrays[2:]}, {"c": "Convolution", "y": "InnerProduct"}
    head = 'input: "x" input_dim: [2, 3, 5, 5]\n'
    new = imported(head + text, weights(blobs))[0]
    old = imported(head + old_text(text), weights(blobs, True, kinds))[0]
    assert "type: CONVOLUTION" in old_text(text) and str(new) == str(old)
    got = relay.create_executor("graph", mod=old, target="llvm").evaluate()(x).numpy()
    assert got.shape == (2, 2)
    with pytest.raises(TVMError, match="Caffe's V0 layer format"):
        imported('layers { layer { name: "a" type: "conv" } bottom: "x" top: "y" }')
    with pytest.raises(TVMError, match="both 'layers' and 'layer' fields"):
        imported(inputs(x=(1, 2)) + old_text(layer("AbsVal")))


def test_weights_of_other_element_types_are_read():
    values = np.arange(6, dtype="float64").reshape(2, 3)
    texts = set()
    for kind, number in (("double", None), ("<f8", 0), ("<f4", 1), ("<f2", 2)):
        net = FILES.messages["Net"]()
        blob = net.layer.add(name="y").blobs.add()
        blob.shape.dim.extend([2, 3])
        if number is None:
            blob.double_data.extend(values.reshape(-1))
        else:
            blob.raw_data, blob.raw_data_type = values.astype(kind).tobytes(), number
        text = inputs(x=(1, 3)) + layer("InnerProduct", param="inner_product_param { num_output: 2 bias_term: false }")
        module = imported(text, net.SerializeToString())[0]
        texts.add(module["main"].body.args[1].data.numpy().tobytes())
    assert len(texts) == 1
    blob.raw_data_type = 3
    with pytest.raises(TVMError, match="12 bytes with element type 3"):
        imported(text, net.SerializeToString())


def test_all_layers_without_a_converter_are_named_with_their_counts():
    text = inputs(x=(1, 2)) + layer("Mine", "x", "a") + layer("Mine", "a", "b") + layer("Yours", "b", "c")
    with pytest.raises(OpNotImplemented) as caught:
        imported(text)
    assert "Mine: 2 nodes, first 'a'" in str(caught.value) and "Yours: 1 node, first 'c'" in str(caught.value)


def test_errors_and_spans_name_the_layer():
    with pytest.raises(TVMError, match="^Reshape 'fc/r': an input of shape"):
        imported(inputs(x=(2, 3)) + layer("Reshape", param="reshape_param { shape { dim: 7 } }", name="fc/r"))
    assert imported(inputs(x=(2, 3)) + layer("AbsVal", name="own"))[0]["main"].body.span.source_name.name == "own"


def test_outputs_are_the_values_that_no_layer_takes_in_the_order_of_the_layers():
    text = inputs(x=(2, 3)) + layer("AbsVal", "x", "b") + layer("Exp", "x", "a") + layer("ReLU", "b", "b", name="r")
    module = imported(text)[0]
    names = [v.span.source_name.name for v in module["main"].body.fields]
    assert names == ["a", "r"]


IMAGE = inputs(x=(2, 4, 6, 5))


def convolution(fields: str) -> str:
    return IMAGE + layer("Convolution", param=f"convolution_param {{ {fields} }}")


def pooling(fields: str) -> str:
    return IMAGE + layer("Pooling", param=f"pooling_param {{ {fields} }}")


WRONG = [
    ("", "not a Caffe network"), ("layer", "unexpected end"), ("layer {", "unexpected end"),
    ("a: }", "expected a value of the field a, got '}'"), ("a 3", "expected a value of the field a, got '"),
    ('"a": 3', "expected a field name, got '"),
    ("a: 'x", "unexpected character '"), ("a: [1", "unexpected end"), ("a { " * 70, "nested deeper than 64"),
    ("layer: 3", "the field layer must be a message"), ("layer { name { } }", "field name must be a scalar"),
    ('input: "x" input_dim: 1 ' + layer("AbsVal"), "have 1 sizes"),
    (layer("AbsVal"), "uses 'x', which is neither an input"),
    ('input: "x" input_dim: a input_dim: 1 input_dim: 1 input_dim: 1 ' + layer("AbsVal"),
     "the field input_dim must be an integer, got a, 1"),
    (inputs(x=(2, -3)) + layer("AbsVal"), "\\[2, -3\\] is not supported"),
    (inputs(x=(1, 2)) + layer("Silence", "x", "", name="s"), "the network has no outputs: a layer reads every blob"),
    (IMAGE + layer("AbsVal", tops="a b"), "the layer has 1 outputs, but the network names 2"),
    (IMAGE + layer("AbsVal", "x x"), "expected 1 input, got 2"),
    (IMAGE + layer("Convolution"), "0 outputs are not divisible into"),
    (convolution("num_output: 2 kernel_size: 3"), "the weights are missing"),
    (convolution("num_output: 2"), "kernel_size .* is not supported"),
    (convolution("num_output: 2 kernel_size: 0"), "kernel_size .* not supp"),
    (convolution("num_output: 2 kernel_size: 1 kernel_h: 3"), "kernel_w need an image with 2 spatial axes"),
    (convolution("num_output: 3 group: 2 kernel_size: 1"), "into 2 groups"),
    (convolution("axis: 2"), "axis: only the second axis is supported as the channel axis"),
    (pooling("kernel_size: 3 new_field: 1"), "new_field of pooling_param is not"),
    (pooling("kernel_size: 3 pool: STOCHASTIC"), "STOCHASTIC is not supported"),
    (pooling("kernel_size: 3 pool: SUM"), "pool must be one of"),
    (pooling("kernel_size: 2 pad: 2"), "do not fit an image"),
    (pooling("kernel_size: 99"), "do not fit an image"),
    (pooling("kernel_size: a"), "must be a number, got a"),
    (pooling("kernel_size: 1.5"), "must be an integer"),
    (pooling("global_pooling: maybe"), "must be true or false"),
    (IMAGE + layer("LRN", param="lrn_param { local_size: 4 }"), "is not supported; it must be odd and positive"),
    (IMAGE + layer("Slice", tops="a b c"), "elements cannot be split into 3 equal parts"),
    (IMAGE + layer("Slice", tops="a b", param="slice_param { slice_point: 9 }"), "does not split 4 elements into 2"),
    (IMAGE + layer("Permute", param="permute_param { order: 0 order: 0 }"), "is not a permutation of 4 axes"),
    (IMAGE + layer("Concat", param="concat_param { axis: 4 }"), "axis 4 is out of range"),
    (IMAGE + layer("Tile", param="tile_param { tiles: 999999999 }"), "the maximum at compile time is"),
    (IMAGE + layer("ArgMax", param="argmax_param { top_k: 0 }"), "top_k 0 is out of range"),
    (IMAGE + layer("Exp", param="exp_param { base: -3 }"), "base -3.0 is not supported"),
    (IMAGE + layer("Log", param="log_param { base: 1 }"), "Log: base 1 is not supported, because its logarithm is 0"),
    (IMAGE + layer("Power", param="power_param { power: nan }"), "out of range or not a number"),
    (IMAGE + layer("Clip"), "Clip: the parameters min and max are required"),
    (IMAGE + layer("Scale", param="scale_param { axis: 1 num_axes: 9 }"), "num_axes 9"),
    (IMAGE + layer("Eltwise", "x"), "at least 2 inputs"),
    (IMAGE + layer("Interp", param="interp_param { height: 0 width: 3 }"), r"an output size of \[0, 3\]"),
    (IMAGE + layer("Reorg", param="reorg_param { stride: 3 }"), "are not divisible by a stride of 3"),
    (IMAGE + layer("PriorBox", "x x", param="prior_box_param { }"), "min_size"),
    (IMAGE + layer("PriorBox", "x x", param="prior_box_param { min_size: 9 max_size: 4 }"), "greater than min_size"),
    (IMAGE + layer("DetectionOutput", "x x x"), "num_classes 0"),
    (IMAGE + layer("DummyData", "", param='dummy_data_param { shape { dim: 1 } data_filler { type: "xavier" } }'),
     "is not supported; only constant is"),
    (IMAGE + layer("LSTM", "x x"), "are not supported"),
    (IMAGE + layer("PSROIPooling", "x"), "expected 2 inputs"),
    (IMAGE + layer("PSROIPooling", "x x"), "rois with 5 values each"),
    (inputs(x=(1, 4, 6, 5), r=(2, 5)) + layer("PSROIPooling", "x r", param="psroi_pooling_param { output_dim: 5 }"),
     "do not match"),
    (IMAGE + layer("Proposal", "x x"), "expected 3 inputs .*, got 2"),
    (IMAGE + layer("Proposal", "x x x"), "do not match 9 anchors and one image"),
    (IMAGE + layer("Proposal", "x x x", param="proposal_param { ratio: 0 }"), "ratios \\[0.0\\]"),
    (inputs(s=(1, 2, 2, 2), m=(1, 4, 2, 2), i=(1, 3)) + layer("Proposal", "s m i", param="proposal_param { ratio: 1 "
     "scale: 1 post_nms_topn: 0 }"), "0 output regions"),
    (IMAGE + layer("Python", param="python_param { module: 'os' layer: 'system' param_str: 'true' }"),
     "Python layer 'system' is not supported; only ProposalLayer is"),
    (IMAGE + layer("Python", param="python_param { layer: 'ProposalLayer' param_str: '__import__' }"),
     "'__import__' is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=range(len(WRONG)))
def test_a_network_that_is_wrong_is_refused(text, words):
    with pytest.raises(TVMError, match=words):
        imported(text)


@pytest.mark.parametrize(("data", "words"), [
    (b"\xff", "is damaged or has another format"), (b"\x0a", "is damaged or has another format"),
    (weights({"y": [np.ones(3)]}), r"must have shape \(3, 120\), but the weights file has \(3,\)"),
    (BLOBS[:-20], "is damaged or has another format"),
])  # fmt: skip
def test_a_file_of_weights_that_is_wrong_is_refused(data, words):
    with pytest.raises(TVMError, match=words):
        imported(NET, data)


def test_weights_that_say_another_size_than_they_have_are_refused():
    net = FILES.messages["Net"]()
    blob = net.layer.add(name="y").blobs.add()
    blob.data.extend([1.0, 2.0])
    for dims in ([3], [1 << 40, 1 << 40], [-1, -2]):
        del blob.shape.dim[:]
        blob.shape.dim.extend(dims)
        with pytest.raises(TVMError, match="the weights of layer 'y'"):
            imported(NET, net.SerializeToString())


def test_the_text_of_protobuf_is_read_in_all_its_forms():
    found = parse("a: 1 # comment\nb { c: \"x\\n\" 'y' ; d: [2, 3], } e < f: -1e-5f > a: 2 g: TRUE ")
    assert found.words("a") == ["1", "2"] and found.word("g") == "TRUE"
    (b,) = found.messages("b")
    assert b.words("c") == ["x\ny"] and b.words("d") == ["2", "3"]
    assert found.merged("e").word("f") == "-1e-5f"


def test_mutated_files_are_converted_or_refused(rng):
    names = rng.choice(sorted(CASES), min(MUTATIONS, len(CASES)), replace=False)
    files = [(made(name).text.encode(), weights(made(name).blobs)) for name in names]
    for number in range(MUTATIONS):
        text, blobs = files[number % len(files)]
        if number % 3 or not blobs:
            text = damaged(text, rng)
        else:
            blobs = damaged(blobs, rng)
        try:
            from_caffe(blobs, text)
        except TVMError:
            pass
