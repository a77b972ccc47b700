"""Helpers of programs for DarkNet: pictures, boxes, suppression, drawing, and the program that uses them all."""

from __future__ import annotations

import numpy as np
import pytest
from darknet_cases import written

import tvm
import tvm.relay.testing.darknet
import tvm.relay.testing.yolo_detection
from tvm import relay
from tvm.error import TVMError
from tvm.relay.testing.darknet import __darknetffi__, letterbox_image, load_image, load_image_color
from tvm.relay.testing.yolo_detection import (
    Box,
    do_nms_sort,
    draw_detections,
    fill_network_boxes,
    show_detections,
)


def outputs_of(name: str) -> tuple[list[dict], np.ndarray]:
    """The results of a network as programs hand them on, and its boxes as rows."""
    _, net, _ = written(name)
    layers = []
    for found in net.detections:
        attributes = found[-1]
        count = attributes[0]
        shape = (count, attributes[1] // count, *attributes[2:4])
        made = {
            "type": "Yolo" if len(found) == 4 else "Region",
            "output": found[0].reshape(shape),
            "biases": found[-2],
            "classes": attributes[4],
        }
        if len(found) == 4:
            made["mask"] = found[1]
        else:
            made.update(coords=attributes[5], background=attributes[6])
        layers.append(made)
    return layers, net.boxes[-1][0]


@pytest.mark.parametrize("name", ["yolo", "region", "region/background"])
def test_boxes_above_a_threshold_are_those_of_the_rows(name):
    layers, rows = outputs_of(name)
    thresh = 0.4
    found = fill_network_boxes((9, 7), (9, 7), thresh, 1, layers)
    kept = [d for d in found if d["objectness"] > thresh]
    wanted = rows[rows[:, 4] > thresh]
    assert len(kept) == len(wanted) > 0
    for row, d in zip(sorted(wanted.tolist()), sorted(kept, key=lambda d: d["bbox"])):
        np.testing.assert_allclose([*d["bbox"], d["objectness"]], row[:5], rtol=1e-6)
        np.testing.assert_allclose(d["prob"], [0 if v < thresh else v for v in row[5:]], rtol=1e-6)


def test_boxes_are_brought_to_the_picture_in_the_middle_of_the_input():
    layers, _ = outputs_of("yolo")
    (inside,) = {len(fill_network_boxes((9, 7), size, 0.4, 1, layers)) for size in ((9, 7), (36, 14), (4, 40), (1, 99))}
    assert inside
    plain, wide, points = (
        fill_network_boxes((9, 7), size, 0.4, relative, layers)[0]["bbox"]
        for size, relative in (((9, 7), 1), ((36, 14), 1), ((36, 14), 0))
    )
    # A picture of 36 x 14 is 9 x 3 in the input, with two rows above and below.
    np.testing.assert_allclose(wide, [plain.x, (plain.y - 2 / 7) / (3 / 7), plain.w, plain.h * 7 / 3])
    np.testing.assert_allclose(points, [wide.x * 36, wide.y * 14, wide.w * 36, wide.h * 14])


def test_a_layer_of_another_type_is_refused():
    with pytest.raises(TVMError, match="Yolo or Region, got 'Other'"):
        fill_network_boxes((1, 1), (1, 1), 0.5, 1, [{"type": "Other"}])


def detection(x, score, prob, size=1.0):
    return {"bbox": Box(x, 0.5, size, size), "objectness": score, "prob": np.array(prob), "classes": len(prob)}


def test_of_overlapping_boxes_of_a_class_the_most_probable_stays():
    dets = [
        detection(0.5, 0.9, [0.3, 0.8]),
        detection(9.0, 0.0, [0.0, 0.0]),
        detection(0.6, 0.8, [0.7, 0.6]),
        detection(1.4, 0.7, [0.5, 0.0]),
        detection(5.0, 0.6, [0.2, 0.5]),
    ]
    do_nms_sort(dets, 2, 0.45)
    assert dets[-1]["objectness"] == 0
    left = {d["bbox"].x: d["prob"].tolist() for d in dets}
    assert left == {0.5: [0.0, 0.8], 0.6: [0.7, 0.0], 1.4: [0.5, 0.0], 5.0: [0.2, 0.5], 9.0: [0.0, 0.0]}


def test_boxes_without_area_overlap_nothing():
    dets = [detection(0.5, 0.9, [0.8], 0.0), detection(0.5, 0.8, [0.7], 0.0)]
    do_nms_sort(dets, 1, 0.0)
    assert [d["prob"][0] for d in dets] == [0.8, 0.7]


def test_a_picture_keeps_its_proportions_between_grey_borders():
    picture = np.stack([np.arange(12.0).reshape(3, 4) / 12] * 3)
    out = letterbox_image(picture, 7, 9)
    assert out.shape == (3, 9, 7) and (out[:, [0, 1, 7, 8]] == 0.5).all()
    # Corners lie upon corners, and what is between is between.
    np.testing.assert_allclose(out[0, 2, [0, 6]], picture[0, 0, [0, 3]])
    np.testing.assert_allclose(out[0, 6, 3], (picture[0, 2, 1] + picture[0, 2, 2]) / 2)
    np.testing.assert_array_equal(letterbox_image(picture, 4, 3), picture)
    assert letterbox_image(picture[:, :1, :1], 5, 3).shape == (3, 3, 5)


def test_a_picture_is_read_with_its_channels_first(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 2), (255, 51, 0)).save(tmp_path / "a.png")
    out = load_image_color(str(tmp_path / "a.png"))
    assert out.shape == (3, 2, 4)
    np.testing.assert_allclose(out[:, 0, 0], [1.0, 0.2, 0.0])
    assert load_image(tmp_path / "a.png", 8, 6).shape == (3, 6, 8)
    (tmp_path / "b.png").write_bytes(b"none")
    with pytest.raises(TVMError, match="cannot read b.png"):
        load_image_color(tmp_path / "b.png")


def test_borders_and_labels_are_drawn_and_shown(capsys):
    pytest.importorskip("PIL")
    picture = np.zeros((3, 60, 80))
    dets = [detection(0.5, 0.9, [0.0, 0.9], 0.5), detection(0.5, 0.1, [0.1, 0.1], 0.5)]
    show_detections(picture, dets, 0.5, ["cat", "dog"], 2)
    assert capsys.readouterr().out == "dog 0.9: left=20, top=15, right=60, bottom=45\n"
    draw_detections(None, picture, dets, 0.5, ["cat", "dog"], 2)
    assert picture[:, 45, 20:61].any(0).all() and picture[:, 15:46, 60].any(0).all()
    assert not picture[:, 25:44, 30:59].any() and not picture[:, 50:].any()
    with pytest.raises(TVMError, match="cannot read the font"):
        draw_detections("none.ttf", picture, dets, 0.5, ["cat", "dog"], 2)


def test_the_classic_program_runs_with_local_files(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    text, written_net, _ = written("yolo/two")
    (tmp_path / "yolo.cfg").write_text(text)
    (tmp_path / "yolo.weights").write_bytes(written_net.weights())
    image.new("RGB", (20, 10), (200, 100, 50)).save(tmp_path / "dog.png")
    library = __darknetffi__.dlopen(str(tmp_path / "libdarknet.so"))
    net = library.load_network(str(tmp_path / "yolo.cfg").encode(), str(tmp_path / "yolo.weights").encode(), 0)
    data = np.empty([1, net.c, net.h, net.w], "float32")
    mod, params = relay.frontend.from_darknet(net, dtype="float32", shape=data.shape)
    lib = relay.build(mod, target="llvm", params=params)
    module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    picture = tvm.relay.testing.darknet.load_image(tmp_path / "dog.png", net.w, net.h)
    module.set_input("data", tvm.nd.array(picture.astype("float32")))
    module.run()
    layers = []
    for i in range(2):
        attributes = module.get_output(i * 4 + 3).numpy()
        shape = (attributes[0], attributes[1] // attributes[0], attributes[2], attributes[3])
        layers.append(
            {
                "type": "Yolo",
                "biases": module.get_output(i * 4 + 2).numpy(),
                "mask": module.get_output(i * 4 + 1).numpy(),
                "classes": attributes[4],
                "output": module.get_output(i * 4).numpy().reshape(shape),
            }
        )
    # The last detector of the network comes first.
    assert [v["classes"] for v in layers] == [4, 3]
    color = tvm.relay.testing.darknet.load_image_color(tmp_path / "dog.png")
    dets = tvm.relay.testing.yolo_detection.fill_network_boxes((net.w, net.h), (20, 10), 0.3, 1, layers[1:])
    do_nms_sort(dets, net.layers[1].classes, 0.45)
    show_detections(color, dets, 0.3, ["a", "b", "c"], 3)
    draw_detections(None, color, dets, 0.3, ["a", "b", "c"], 3)
    assert dets and "left=" in capsys.readouterr().out
