"""Postprocess the outputs of DarkNet detectors: box decoding, non-maximum suppression, drawing.

A detection is a dictionary with ``bbox`` (a ``Box``), ``objectness``, ``prob`` (one probability for each class) and
``classes``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...error import TVMError


class Box(NamedTuple):
    """The center, width and height of a box."""

    x: float
    y: float
    w: float
    h: float


def fill_network_boxes(net_shape, im_shape, thresh, relative, tvm_out) -> list[dict[str, Any]]:
    """Decode the outputs of a network into detections.

    Parameters
    ----------
    net_shape : tuple of int
        The width and the height of the network's input.
    im_shape : tuple of int
        The width and the height of the image, which was letterboxed into the network's input.
    thresh : float
        The minimum probability of a detection.
    relative : int
        Whether boxes are fractions of the image size rather than pixels.
    tvm_out : list of dict
        For each detection layer, its ``type`` ("Yolo" or "Region"), ``output`` (boxes per position, values per box,
        height, width), ``biases`` and ``classes``; "Yolo" also needs ``mask``, "Region" ``coords`` and ``background``.

    Returns
    -------
    list of dict
        The detections, in the order of the layers.

    Raises
    ------
    TVMError
        A layer has another type.
    """
    found: list[dict[str, Any]] = []
    for layer in tvm_out:
        if layer["type"] not in ("Yolo", "Region"):
            raise TVMError(f"fill_network_boxes: the type of a layer must be Yolo or Region, got {layer['type']!r}")
        made = _yolo(layer, net_shape, thresh) if layer["type"] == "Yolo" else _region(layer, thresh)
        found += [{**d, "bbox": _to_image(d["bbox"], im_shape, net_shape, relative)} for d in made]
    return found


def _box(layer, n: int, anchor: int, row: int, column: int, across) -> Box:
    """Decode the box of one position, as fractions of the network's input size."""
    data, anchors = layer["output"], layer["biases"]
    height, width = data.shape[2:]
    x, y, w, h = (float(v) for v in data[n, :4, row, column])
    return Box(
        (column + x) / width,
        (row + y) / height,
        float(np.exp(w)) * float(anchors[2 * anchor]) / across[0],
        float(np.exp(h)) * float(anchors[2 * anchor + 1]) / across[1],
    )


def _detection(layer, box: Box, objectness: float, kinds: np.ndarray, thresh: float) -> dict[str, Any]:
    prob = objectness * kinds
    return {
        "bbox": box,
        "classes": int(layer["classes"]),
        "prob": np.where(prob < thresh, 0, prob),
        "objectness": objectness,
        "sort_class": -1,
    }


def _yolo(layer, net_shape, thresh: float) -> list[dict[str, Any]]:
    data, mask = layer["output"], np.asarray(layer["mask"])
    out = []
    for n, row, column in np.argwhere(data[:, 4] > thresh):
        box = _box(layer, n, int(mask[n]), row, column, net_shape)
        kinds = data[n, 5 : 5 + int(layer["classes"]), row, column]
        out.append(_detection(layer, box, float(data[n, 4, row, column]), kinds, thresh))
    return out


def _region(layer, thresh: float) -> list[dict[str, Any]]:
    data, first = layer["output"], int(layer["coords"])
    height, width = data.shape[2:]
    out = []
    for row, column, n in np.ndindex(height, width, data.shape[0]):
        score = 1.0 if layer["background"] else float(data[n, first, row, column])
        box = _box(layer, n, n, row, column, (width, height))
        kinds = data[n, first + 1 : first + 1 + int(layer["classes"]), row, column]
        objectness = score if score > thresh else 0.0
        out.append(_detection(layer, box, objectness, kinds, thresh))
    return out


def _to_image(box: Box, im_shape, net_shape, relative) -> Box:
    """Convert a box from coordinates of the network's input to coordinates of the letterboxed image."""
    (width, height), (netw, neth) = im_shape, net_shape
    if netw / width < neth / height:
        wide, high = netw, max(height * netw // width, 1)
    else:
        wide, high = max(width * neth // height, 1), neth
    x = (box.x - (netw - wide) / 2 / netw) / (wide / netw)
    y = (box.y - (neth - high) / 2 / neth) / (high / neth)
    w, h = box.w * netw / wide, box.h * neth / high
    return Box(x, y, w, h) if relative else Box(x * width, y * height, w * width, h * height)


def _iou(a: Box, b: Box) -> float:
    """Return the intersection over union (IoU) of two boxes."""
    w = min(a.x + a.w / 2, b.x + b.w / 2) - max(a.x - a.w / 2, b.x - b.w / 2)
    h = min(a.y + a.h / 2, b.y + b.h / 2) - max(a.y - a.h / 2, b.y - b.h / 2)
    both = w * h if w > 0 and h > 0 else 0.0
    either = a.w * a.h + b.w * b.h - both
    return both / either if either > 0 else 0.0


def do_nms_sort(dets, classes, thresh) -> None:
    """Apply non-maximum suppression to each class: set the probability of suppressed detections to 0.

    Parameters
    ----------
    dets : list of dict
        The detections, which are modified and sorted in place; those without objectness come last.
    classes : int
        The number of classes.
    thresh : float
        The IoU above which two boxes overlap.
    """
    held = [d for d in dets if d["objectness"] != 0]
    dets[:] = held + [d for d in dets if d["objectness"] == 0]
    for k in range(int(classes)):
        held.sort(key=lambda d, k=k: -d["prob"][k])
        for i, best in enumerate(held):
            if best["prob"][k] == 0:
                break
            for other in held[i + 1 :]:
                if other["prob"][k] != 0 and _iou(best["bbox"], other["bbox"]) > thresh:
                    other["prob"][k] = 0
    dets[: len(held)] = held


def _labels(det, thresh: float, names, classes: int) -> list[tuple[int, str]]:
    found = [j for j in range(int(classes)) if det["prob"][j] > thresh]
    return [(j, f"{names[j]} {round(float(det['prob'][j]), 4)}") for j in found]


def _edges(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """Return the left, right, top and bottom edges of a box in pixels, clipped to the image."""
    left, right = int((box.x - box.w / 2) * width), int((box.x + box.w / 2) * width)
    top, bottom = int((box.y - box.h / 2) * height), int((box.y + box.h / 2) * height)
    return max(left, 0), min(right, width - 1), max(top, 0), min(bottom, height - 1)


def show_detections(im, dets, thresh, names, classes) -> None:
    """Print the labels and the boxes of detections.

    Parameters
    ----------
    im : numpy.ndarray
        The image, channels first.
    dets : list of dict
        The detections, with boxes as fractions of the image size.
    thresh : float
        The minimum probability of a printed detection.
    names : list of str
        The names of the classes.
    classes : int
        The number of classes.
    """
    for det in dets:
        labels = _labels(det, thresh, names, classes)
        if labels:
            left, right, top, bottom = _edges(det["bbox"], im.shape[2], im.shape[1])
            text = ", ".join(label for _, label in labels)
            print(f"{text}: left={left}, top={top}, right={right}, bottom={bottom}")


_COLORS = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0], [1, 1, 0], [1, 0, 0]], "float64")


def _color(number: int, classes: int) -> np.ndarray:
    """Return the color of a class, interpolated between six base colors."""
    at = number * 123457 % classes / classes * 5
    low = int(at)
    return ((1 - (at - low)) * _COLORS[low] + (at - low) * _COLORS[min(low + 1, 5)])[::-1]


def draw_detections(font_path, im, dets, thresh, names, classes) -> None:
    """Draw the boxes and labels of detections into an image.

    Parameters
    ----------
    font_path : str
        A TrueType file, or None for Pillow's default font.
    im : numpy.ndarray
        The image, channels first, which is modified in place.
    dets : list of dict
        The detections, with boxes as fractions of the image size.
    thresh : float
        The minimum probability of a drawn detection.
    names : list of str
        The names of the classes.
    classes : int
        The number of classes.

    Raises
    ------
    TVMError
        The package Pillow is missing, or the font cannot be read.
    """
    for det in dets:
        labels = _labels(det, thresh, names, classes)
        if not labels:
            continue
        color = _color(labels[0][0], int(classes))
        left, right, top, bottom = _edges(det["bbox"], im.shape[2], im.shape[1])
        line = max(int(im.shape[1] * 0.006), 1)
        if right <= left or bottom <= top:
            continue
        im[:, top : bottom + 1, left : right + 1] = _draw_frame(im[:, top : bottom + 1, left : right + 1], line, color)
        label = _label(font_path, ", ".join(text for _, text in labels), color)
        row = top + line - label.shape[1] if top + line >= label.shape[1] else top + line
        part = im[:, row : row + label.shape[1], left : left + label.shape[2]]
        part[:] = label[:, : part.shape[1], : part.shape[2]]


def _draw_frame(part: np.ndarray, line: int, color: np.ndarray) -> np.ndarray:
    """Return a part of an image with a border."""
    out = np.broadcast_to(color[:, None, None], part.shape).copy()
    inner = (slice(None), slice(line, -line), slice(line, -line))
    out[inner] = part[inner]
    return out


def _label(font_path, text: str, color: np.ndarray) -> np.ndarray:
    """Render a line of text as an image, black on the color of its class."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as problem:
        raise TVMError("drawing labels requires the package Pillow") from problem
    try:
        font = ImageFont.load_default() if font_path is None else ImageFont.truetype(font_path, 25)
    except OSError as problem:
        raise TVMError(f"draw_detections: cannot read the font: {problem}") from problem
    left, top, right, bottom = (int(v) for v in font.getbbox(text))
    back = tuple(int(v * 255) for v in color)
    picture = Image.new("RGB", (max(right, 1), max(bottom, 1)), back)
    ImageDraw.Draw(picture).text((0, 0), text, fill="black", font=font)
    return np.asarray(picture, "float64").transpose(2, 0, 1) / 255


__all__ = ["Box", "do_nms_sort", "draw_detections", "fill_network_boxes", "show_detections"]
