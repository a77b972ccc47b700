"""Writes networks of Caffe: their text and their file of weights, in both formats."""

from __future__ import annotations

import numpy as np

from tvm.relay.frontend.caffe.schema import FILES, OLD_TYPES

NUMBERS = {new: (number, old) for number, (old, new) in OLD_TYPES.items()}


def inputs(**shapes) -> str:
    """Layers of the type Input."""
    out = ""
    for name, shape in shapes.items():
        dims = " ".join(f"dim: {d}" for d in shape)
        out += f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'
    return out


def layer(kind: str, bottoms: str = "x", tops: str = "y", param: str = "", name: str = "", extra: str = "") -> str:
    """A layer of the newer format; ``param`` is the field of its parameters with its braces."""
    named = " ".join([*(f'bottom: "{b}"' for b in bottoms.split()), *(f'top: "{t}"' for t in tops.split())])
    return f'layer {{ name: "{name or tops.split()[0] if tops else kind}" type: "{kind}" {named} {param} {extra} }}\n'


def weights(blobs: dict[str, list], old: bool = False, kinds: dict[str, str] | None = None) -> bytes:
    """A file of weights: by layer its arrays, in the format of their time."""
    net = FILES.messages["Net"](name="written")
    for name, arrays in blobs.items():
        made = (net.layers if old else net.layer).add(name=name)
        if kinds:
            made.type = NUMBERS[kinds[name]][0] if old else kinds[name]
        for array in arrays:
            array = np.asarray(array, "float32")
            blob = made.blobs.add()
            blob.data.extend(array.reshape(-1).tolist())
            if old:
                four = (1,) * (4 - array.ndim) + array.shape
                blob.num, blob.channels, blob.height, blob.width = four
            else:
                blob.shape.dim.extend(array.shape)
    return net.SerializeToString()


def old_text(text: str) -> str:
    """A text of the newer format in the older one."""
    out = text.replace("layer {", "layers {")
    for new, (_, old) in NUMBERS.items():
        out = out.replace(f'type: "{new}"', f"type: {old}")
    return out
