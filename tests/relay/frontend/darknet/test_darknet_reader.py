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
    with pytest.raises(TypeError, match="a network or the path of a configuration is wanted, got int"):
        from_darknet(3)
    with pytest.raises(TypeError, match="has its weights"):
        from_darknet(Network(cfg), weights)
    with pytest.raises(TypeError, match="shape is a list of numbers"):
        from_darknet(cfg, shape=("a",))
    with pytest.raises(TypeError, match="weights is a path"):
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
        with pytest.raises(TVMError, match="is not that of batch, channels, height and width"):
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
    with pytest.raises(TVMError, match=r"^layer 1 \[route\]: layers=7 names no layer before this one"):
        imported(image(3, 4, 4) + layer("dropout") + layer("route", layers=7), HEAD)
    text, net, _ = written("maxpool")
    assert imported(text, net.weights())[0]["main"].body.span.source_name.name == "maxpool_0"


IMAGE = image(4, 6, 6)


WRONG = [
    ("", "must begin with \\[net\\]"), ("[net]\n", "must begin with \\[net\\]"), ("x=1\n", "line 1 .* neither"),
    ("[net\n", "line 1 .* is no name of a section"), ("[net]\nwidth\n", "line 2 .* neither"),
    (layer("avgpool") * 2, "must begin with \\[net\\]"),
    (IMAGE + layer("convolutional", size="a"), "size=a is no number"),
    (IMAGE + layer("convolutional", size=1.5), "size=1.5 is no whole number"),
    (IMAGE + layer("convolutional", filters=1e30), "filters=1e\\+30 is too large"),
    (IMAGE + layer("convolutional", filters=0), "filters=0 is not supported"),
    (IMAGE + layer("convolutional", filters=3, groups=2), "do not divide into 2 groups"),
    (IMAGE + layer("convolutional", xnor=1), "xnor=1 is not supported"),
    (IMAGE + layer("convolutional", padding=-1), "padding=-1 is negative"),
    (IMAGE + layer("convolutional", size=3, dilation=2), "reads beyond the image"),
    (IMAGE + layer("convolutional", filters=2147483000, size=90000), "numbers, the file of weights has 4 left"),
    (IMAGE + layer("convolutional"), "the weights take 4 numbers, the file of weights has 3 left"),
    (IMAGE + layer("avgpool"), "has 4 numbers more than the layers take"),
    (IMAGE + layer("activation", activation="mich"), "the activation 'mich' is not supported.*mish"),
    (IMAGE + layer("maxpool", size=9, padding=0), "a window of 9 does not fit into 6 x 6"),
    (IMAGE + layer("maxpool", size=2, padding=9), "leaves windows outside the image"),
    (IMAGE + layer("maxpool", stride=0), "stride=0 is not supported"),
    (IMAGE + layer("maxpool", maxpool_depth=1, out_channels=5), "out_channels=5 of 4 channels"),
    (IMAGE + layer("route"), "the option layers is missing"),
    (IMAGE + layer("dropout") + layer("route", layers=0, groups=2, group_id=2), "group_id=2 is none of 2 groups"),
    (IMAGE + layer("maxpool", size=2, stride=2) + layer("upsample") + layer("route", layers="0,1"),
     "cannot be joined"),
    (IMAGE + layer("shortcut"), "the option from is missing"),
    (IMAGE + layer("dropout") + layer("shortcut", **{"from": 0}, weights_type="per_feature"),
     "weights_type=per_feature"),
    (IMAGE + layer("dropout") + layer("maxpool", size=3, stride_x=3) + layer("shortcut", **{"from": -2}),
     "cannot be added"),
    (IMAGE + layer("upsample", stride=0), "stride=0 is not supported"),
    (IMAGE + layer("reorg", stride=4), "do not divide by a stride of 4"),
    (IMAGE + layer("reorg", flatten=1), "flatten=1 is not supported"),
    (IMAGE + layer("reorg3d", stride=4), "do not divide by a stride of 4"),
    (IMAGE + layer("crop", crop_height=7, crop_width=1), "7 x 1 cannot be cut from 6 x 6"),
    (IMAGE + layer("softmax", groups=5), "do not divide into 5 groups"),
    (IMAGE + layer("softmax", temperature=0), "temperature=0"),
    (IMAGE + layer("local", size=2, pad=1), "pads them as those of 3"),
    (IMAGE + layer("local", size=7), "a window of 7 does not fit"),
    (IMAGE + layer("yolo", classes=3), "take 8 channels, the layer before has 4"),
    (IMAGE + layer("yolo", classes=3, mask=1), "names boxes beyond num=1"),
    (IMAGE + layer("Gaussian_yolo", classes=3, yolo_point="left_top"), "yolo_point=left_top is not supported"),
    (IMAGE + layer("Gaussian_yolo", classes=3), "1 boxes of 12 numbers take 12 channels"),
    (IMAGE + layer("yolo", anchors="1,2,3"), "3 numbers are given as anchors"),
    (IMAGE + layer("region", tree="a.tree"), "tree=a.tree is not supported"),
    (IMAGE + layer("region", coords=3), "coords=3 is not supported"),
    (IMAGE + layer("detection"), "places take"),
    (IMAGE + layer("avgpool") + layer("dropout") + layer("scale_channels", **{"from": 0}, scale_wh=1),
     "factors of shape"),
    (IMAGE + layer("avgpool") + layer("upsample") + layer("sam", **{"from": 0}), "cannot be multiplied"),
    (IMAGE + layer("crnn", stride=2), "stride=2 is not supported"),
    (IMAGE + layer("conv_lstm", output=2), "change the size of the image"),
    (IMAGE + layer("conv_lstm", output=2, pad=1, bottleneck=1), "bottleneck=1"),
    (vector(3) + layer("avgpool"), "an image with channels, height and width is wanted"),
    (vector(3, 100000) + layer("rnn"), "at most 4096 are written out"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=range(len(WRONG)))
def test_a_network_that_is_wrong_is_refused(text, words):
    with pytest.raises(TVMError, match=words):
        imported(text, HEAD + bytes(16))


@pytest.mark.parametrize(("data", "words"), [
    (b"", "at least 16 bytes"), (bytes(15), "at least 16 bytes"),
    (b"\0\0\0\0\2\0\0\0" + bytes(8), "ends in its header"),
    (HEAD + b"x", "is damaged"),
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
    with pytest.raises(TVMError, match="no layer \\[yolo\\] or \\[region\\]"):
        imported(IMAGE + layer("avgpool"), HEAD, boxes=True)
    with pytest.raises(TVMError, match="dtype int32 is not supported"):
        imported(IMAGE + layer("avgpool"), HEAD, dtype="int32")


def test_the_file_of_weights_beside_a_configuration_is_no_link(tmp_path):
    cfg, weights = files(tmp_path)
    weights.rename(tmp_path / "other")
    with pytest.raises(TVMError, match="there is no net.weights beside net.cfg"):
        from_darknet(cfg)
    weights.symlink_to(tmp_path / "other")
    with pytest.raises(TVMError, match="not through a link"):
        from_darknet(cfg)
    assert from_darknet(cfg, tmp_path / "other")
    with pytest.raises(TVMError, match="missing.cfg cannot be read"):
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
