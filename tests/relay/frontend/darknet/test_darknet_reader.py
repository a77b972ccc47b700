"""Reading configurations and files of weights: what is found in them, and what is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest
from darknet_cases import TEXTS, image, imported, layer, vector, written
from mutants import MUTATIONS, damaged

from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_darknet
from tvm.relay.frontend.darknet import ACTIVATION, LAYERTYPE, Network

HEAD = b"\0\0\0\0\2\0\0\0" + bytes(12)


def files(folder, name: str = "convolutional"):
    text, net, _ = written(name)
    (folder / "net.cfg").write_text(text)
    (folder / "net.weights").write_bytes(net.weights())
    return folder / "net.cfg", folder / "net.weights"


def test_a_network_is_paths_or_what_was_loaded_from_them(tmp_path):
    cfg, weights = files(tmp_path)
    found = {str(from_darknet(*args)[0]) for args in (
        (cfg,), (cfg, weights), (str(cfg), str(weights)), (os.fsencode(cfg), os.fsencode(weights)),
        (Network(cfg, weights),), (Network(cfg), (1, 3, 7, 9)), (Network(cfg), (1, 3, 7, 9), "float32"),
        (cfg, weights, "float32", (1, 3, 7, 9)),
    )}  # fmt: skip
    assert len(found) == 1
    with pytest.raises(TypeError, match="from_darknet: expected a network or the path of a configuration, got int"):
        from_darknet(3)
    with pytest.raises(TypeError, match="weights must not be given for a loaded network"):
        from_darknet(Network(cfg), weights)
    with pytest.raises(TypeError, match="from_darknet: shape must be a list of integers, got"):
        from_darknet(cfg, shape=("a",))
    with pytest.raises(TypeError, match="from_darknet: weights must be a path, got"):
        from_darknet(cfg, (1, 3, 7, 9), shape=(1, 3, 7, 9))


def test_a_loaded_network_tells_its_layers(tmp_path):
    net = Network(*files(tmp_path, "yolo"))
    assert (net.n, net.c, net.h, net.w) == (2, 3, 7, 9)
    assert [v.type for v in net] == [LAYERTYPE.CONVOLUTIONAL, LAYERTYPE.YOLO]
    assert net.layers[net.n - 1].classes == 3 and net.layers[0].activation == "linear"
    assert (LAYERTYPE.REGION, LAYERTYPE.BLANK, ACTIVATION.LEAKY, ACTIVATION.LHTAN) == (22, 28, 7, 12)
    with pytest.raises(AttributeError, match="has no option 'classes'"):
        _ = net.layers[0].classes


def test_other_sizes_of_the_input_may_be_given(tmp_path):
    cfg, _ = files(tmp_path)
    (x,) = from_darknet(cfg, shape=(2, 3, 11, 5))[0]["main"].params
    assert x.name_hint == "data" and x.type_annotation.concrete_shape == (2, 3, 11, 5)
    for wrong in ((1, 3, 7), (0, 3, 7, 9), (1 << 20, 3, 1 << 20, 9)):
        with pytest.raises(TVMError, match="does not match batch, channels, height and width"):
            from_darknet(cfg, shape=wrong)


def test_states_of_recurrent_layers_are_inputs_with_first_values_and_results():
    text, net, _ = written("lstm")
    module, params = imported(text, net.weights())
    assert sorted(params) == ["lstm_0_cell", "lstm_0_state"] and not params["lstm_0_cell"].numpy().any()
    assert [p.name_hint for p in module["main"].params] == ["data", "lstm_0_cell", "lstm_0_state"]
    assert len(module["main"].body.fields) == 3


def test_comments_spaces_and_options_given_twice_are_read_as_darknet_does():
    text = "# a comment\n [ net ]\nwidth = 4\nheight=4\n;x\nchannels=1\n[avgpool]\n[ connected ]\nou tput=2\noutput=9\n"
    module, _ = imported(text, HEAD + bytes(4 * 4))
    assert module["main"].body is not None


def test_all_layers_without_a_converter_are_named_with_their_counts():
    text = image(3, 4, 4) + layer("history") * 2 + layer("upsampling")
    with pytest.raises(OpNotImplemented) as caught:
        imported(text, HEAD)
    assert "history: 2 nodes, first 'layer 0'" in str(caught.value)
    assert "upsampling: 1 node, first 'layer 2'" in str(caught.value)


def test_errors_and_spans_name_the_layer():
    with pytest.raises(TVMError, match=r"^layer 1 \[route\]: layers=7 does not refer to a layer before this one"):
        imported(image(3, 4, 4) + layer("dropout") + layer("route", layers=7), HEAD)
    text, net, _ = written("maxpool")
    assert imported(text, net.weights())[0]["main"].body.span.source_name.name == "maxpool_0"


IMAGE = image(4, 6, 6)


WRONG = [
    ("", r"must start with \[net\]"), ("[net]\n", r"must start with \[net\]"), ("x=1\n", "line 1 .* neither"),
    ("[net\n", "line 1 .* is not a valid section name"), ("[net]\nwidth\n", "line 2 .* neither"),
    (layer("avgpool") * 2, r"the configuration must start with \[net\] and have at least one layer"),
    (IMAGE + layer("convolutional", size="a"), "size=a is not a number"),
    (IMAGE + layer("convolutional", size=1.5), "size=1.5 is not an integer"),
    (IMAGE + layer("convolutional", filters=1e30), "filters=1e\\+30 is out of range"),
    (IMAGE + layer("convolutional", filters=0), "filters=0 is not supported"),
    (IMAGE + layer("convolutional", filters=3, groups=2), "filters are not divisible into 2 groups"),
    (IMAGE + layer("convolutional", xnor=1), "xnor=1 is not supported"),
    (IMAGE + layer("convolutional", padding=-1), "padding=-1 must not be negative"),
    (IMAGE + layer("convolutional", size=3, dilation=2), "is not supported, because DarkNet reads outside the image"),
    (IMAGE + layer("convolutional", filters=2147483000, size=90000), "floats, but only 4 remain"),
    (IMAGE + layer("convolutional"), "the weights need 4 floats, but only 3 remain"),
    (IMAGE + layer("avgpool"), "the weights file has 4 unused floats; it belongs to another configuration"),
    (IMAGE + layer("activation", activation="mich"), "the activation 'mich' is not supported.*mish"),
    (IMAGE + layer("maxpool", size=9, padding=0), "a window of size 9 does not fit an image of 6 x 6"),
    (IMAGE + layer("maxpool", size=2, padding=9), "leaves windows outside the image"),
    (IMAGE + layer("maxpool", stride=0), "stride=0 is not supported"),
    (IMAGE + layer("maxpool", maxpool_depth=1, out_channels=5), "out_channels=5 must not exceed 4 channels"),
    (IMAGE + layer("route"), "the option 'layers' is missing"),
    (IMAGE + layer("dropout") + layer("route", layers=0, groups=2, group_id=2), "group_id=2 is out of range"),
    (IMAGE + layer("maxpool", size=2, stride=2) + layer("upsample") + layer("route", layers="0,1"),
     "cannot be concatenated along the channels"),
    (IMAGE + layer("shortcut"), "the option 'from' is missing"),
    (IMAGE + layer("dropout") + layer("shortcut", **{"from": 0}, weights_type="per_feature"),
     "weights_type=per_feature"),
    (IMAGE + layer("dropout") + layer("maxpool", size=3, stride_x=3) + layer("shortcut", **{"from": -2}),
     "cannot be added"),
    (IMAGE + layer("upsample", stride=0), "stride=0 is not supported"),
    (IMAGE + layer("reorg", stride=4), "are not divisible by stride 4"),
    (IMAGE + layer("reorg", flatten=1), "flatten=1 is not supported"),
    (IMAGE + layer("reorg3d", stride=4), "are not divisible by stride 4"),
    (IMAGE + layer("crop", crop_height=7, crop_width=1), "cannot crop 7 x 1 from an image of 6 x 6"),
    (IMAGE + layer("softmax", groups=5), "elements are not divisible into 5 groups"),
    (IMAGE + layer("softmax", temperature=0), "temperature=0"),
    (IMAGE + layer("local", size=2, pad=1), "is not supported, because DarkNet pads as for size 3"),
    (IMAGE + layer("local", size=7), "a kernel of size 7 does not fit an image of"),
    (IMAGE + layer("yolo", classes=3), "values need 8 channels, but the previous layer has 4"),
    (IMAGE + layer("yolo", classes=3, mask=1), "contains an index out of range for num=1"),
    (IMAGE + layer("Gaussian_yolo", classes=3, yolo_point="left_top"), "yolo_point=left_top is not supported"),
    (IMAGE + layer("Gaussian_yolo", classes=3), "1 boxes of 12 values need 12 channels, but the previous layer has"),
    (IMAGE + layer("yolo", anchors="1,2,3"), "3 anchor values for num="),
    (IMAGE + layer("region", tree="a.tree"), "tree=a.tree is not supported"),
    (IMAGE + layer("region", coords=3), "coords=3 is not supported"),
    (IMAGE + layer("detection"), "positions needs"),
    (IMAGE + layer("avgpool") + layer("dropout") + layer("scale_channels", **{"from": 0}, scale_wh=1),
     "factors of shape"),
    (IMAGE + layer("avgpool") + layer("upsample") + layer("sam", **{"from": 0}), "cannot be multiplied"),
    (IMAGE + layer("crnn", stride=2), "stride=2 is not supported"),
    (IMAGE + layer("conv_lstm", output=2), "that changes the image size"),
    (IMAGE + layer("conv_lstm", output=2, pad=1, bottleneck=1), "bottleneck=1"),
    (vector(3) + layer("avgpool"), "expected an image with channels, height and width, got a tensor of shape"),
    (vector(3, 100000) + layer("rnn"), "the maximum is 4096"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=range(len(WRONG)))
def test_a_network_that_is_wrong_is_refused(text, words):
    with pytest.raises(TVMError, match=words):
        imported(text, HEAD + bytes(16))


@pytest.mark.parametrize(("data", "words"), [
    (b"", "at least 16 bytes"), (bytes(15), "at least 16 bytes"),
    (b"\0\0\0\0\2\0\0\0" + bytes(8), "the weights file is truncated in its header"),
    (HEAD + b"x", "is corrupt"),
])  # fmt: skip
def test_a_file_of_weights_that_is_none_is_refused(data, words):
    with pytest.raises(TVMError, match=words):
        imported(IMAGE + layer("avgpool"), data)


def test_older_files_of_weights_have_a_shorter_header():
    values = np.arange(5, dtype="<f4").tobytes()
    for head in (bytes(16), b"\0\0\0\0\2\0\0\0" + bytes(12), b"\1\0\0\0" + bytes(16)):
        module, _ = imported(IMAGE + layer("convolutional", activation="linear"), head + values)
        assert module["main"].body is not None


def test_boxes_of_a_network_without_detectors_are_refused():
    with pytest.raises(TVMError, match=r"boxes=True needs a \[yolo\] or \[region\] layer, but the network has none"):
        imported(IMAGE + layer("avgpool"), HEAD, boxes=True)
    with pytest.raises(TVMError, match="dtype int32 is not supported"):
        imported(IMAGE + layer("avgpool"), HEAD, dtype="int32")


def test_the_file_of_weights_beside_a_configuration_is_no_link(tmp_path):
    cfg, weights = files(tmp_path)
    weights.rename(tmp_path / "other")
    with pytest.raises(TVMError, match="net.weights is missing in the folder of net.cfg"):
        from_darknet(cfg)
    weights.symlink_to(tmp_path / "other")
    with pytest.raises(TVMError, match="and not a link"):
        from_darknet(cfg)
    assert from_darknet(cfg, tmp_path / "other")
    with pytest.raises(TVMError, match="cannot read missing.cfg"):
        from_darknet(tmp_path / "missing.cfg", weights)


def test_mutated_files_are_converted_or_refused(rng, tmp_path):
    names = sorted(TEXTS)
    made = {name: written(name) for name in rng.choice(names, min(MUTATIONS, len(names)), replace=False)}
    for number in range(MUTATIONS):
        text, net, _ = made[list(made)[number % len(made)]]
        cfg, weights = text.encode(), net.weights()
        if number % 4:
            cfg = damaged(cfg, rng)
        else:
            weights = damaged(weights, rng)
        (tmp_path / "net.cfg").write_bytes(cfg)
        (tmp_path / "net.weights").write_bytes(weights)
        try:
            from_darknet(tmp_path / "net.cfg")
        except TVMError:
            pass
