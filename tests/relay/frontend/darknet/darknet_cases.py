"""Small networks of DarkNet for every layer, compared with NumPy (``darknet_numpy``)."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from darknet_numpy import SCALAR, Net

from tvm import relay
from tvm.relay.frontend import from_darknet

ORACLE = "NumPy code written from DarkNet's C sources"
_NAMES = [*SCALAR, "normalize_channels", "normalize_channels_softmax", "normalize_channels_softmax_maxval"]


def image(*sizes: int) -> str:
    channels, height, width = sizes
    return f"[net]\nbatch=64\nchannels={channels}\nheight={height}\nwidth={width}\n"


def layer(name: str, **options) -> str:
    return f"\n[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in options.items())


def conv(**options) -> str:
    return layer("convolutional", **options)


def vector(inputs: int, steps: int = 1) -> str:
    return f"[net]\ninputs={inputs}\ntime_steps={steps}\n"


SMALL = image(3, 7, 9)
_LINEAR = {"activation": "linear"}
_CONV = {"filters": 4, "size": 3, "activation": "leaky"}
_YOLO = {"mask": "1,2", "anchors": "3,4, 5,6.5, 9,8, 20,11", "classes": 3, "num": 4}


def _activations() -> str:
    """Every activation of one image, joined."""
    text = image(2, 5, 4) + conv(filters=3, **_LINEAR)
    for k, name in enumerate(_NAMES):
        text += (layer("route", layers=0) if k else "") + layer("activation", activation=name)
    return text + layer("route", layers=",".join(str(1 + 2 * k) for k in range(len(_NAMES))))


TEXTS: dict[str, str] = {
    "activation": _activations(),
    "convolutional": SMALL + conv(**_CONV),
    "convolutional/pad and stride": SMALL + conv(**_CONV, pad=1, stride=2, batch_normalize=1),
    "convolutional/two strides": SMALL + conv(**_CONV, padding=2, stride_x=3, stride_y=2),
    "convolutional/even size": SMALL + conv(filters=2, size=4, pad=1, activation="mish"),
    "convolutional/groups": image(6, 5, 5) + conv(filters=4, size=3, groups=2, pad=1, activation="relu"),
    "convolutional/each channel": image(5, 6, 5) + conv(filters=10, size=3, groups=5, pad=1,
                                                         batch_normalize=1, activation="swish"),
    "convolutional/dilation": SMALL + conv(**_CONV, pad=1, dilation=2),
    "convolutional/flipped": SMALL + conv(**_CONV, flipped=1),
    "convolutional/defaults": SMALL + conv(),
    "convolutional/other name": SMALL.replace("[net]", "[network]") + layer("conv", **_CONV),
    "local": SMALL + layer("local", filters=3, size=2, stride=2, activation="tanh"),
    "local/pad": SMALL + layer("local", filters=2, size=3, pad=1, activation="ramp"),
    "connected": SMALL + layer("connected", output=5, activation="leaky"),
    "connected/normalized": vector(7) + layer("connected", output=3, batch_normalize=1),
    "connected/transposed": vector(6) + layer("connected", output=4, activation="elu"),
    "batchnorm": SMALL + layer("batchnorm"),
    "l2norm": SMALL + layer("l2norm"),
    "logistic": SMALL + layer("logistic"),
    "normalization": image(7, 3, 2) + layer("normalization", size=5, alpha=0.1, beta=0.6, kappa=2),
    "normalization/even size": image(5, 3, 2) + layer("normalization", size=4, alpha=0.05),
    "maxpool": SMALL + layer("maxpool", size=2, stride=2),
    "maxpool/stride 1": SMALL + layer("maxpool", size=2, stride=1),
    "maxpool/overlapping": SMALL + layer("maxpool", size=5, stride=2),
    "maxpool/no padding": SMALL + layer("maxpool", size=3, stride=2, padding=0),
    "maxpool/two strides": SMALL + layer("maxpool", size=3, stride_x=1, stride_y=2),
    "maxpool/only stride": SMALL + layer("maxpool", stride=3),
    "maxpool/depth": image(7, 2, 3) + layer("maxpool", maxpool_depth=1, out_channels=3),
    "local_avgpool": SMALL + layer("local_avgpool", size=3, stride=2),
    "avgpool": SMALL + layer("avgpool"),
    "upsample": SMALL + layer("upsample"),
    "upsample/scale": SMALL + layer("upsample", stride=3, scale=0.5),
    "upsample/down": image(2, 6, 9) + layer("upsample", stride=-3),
    "reorg": image(8, 6, 4) + layer("reorg", stride=2),
    "reorg/reverse": image(8, 3, 5) + layer("reorg", stride=2, reverse=1),
    "reorg3d": image(3, 6, 4) + layer("reorg3d", stride=2),
    "reorg3d/reverse": image(12, 3, 2) + layer("reorg3d", stride=2, reverse=1),
    "crop": SMALL + layer("crop", crop_height=4, crop_width=6),
    "crop/plain": SMALL + layer("crop", crop_height=3, crop_width=9, noadjust=1),
    "dropout": SMALL + conv(**_CONV) + layer("dropout", probability=0.5),
    "cost": SMALL + layer("softmax") + layer("cost", type="sse"),
    "silence": SMALL + layer("silence"),
    "empty": SMALL + layer("empty"),
    "softmax": SMALL + layer("softmax"),
    "softmax/groups": vector(12) + layer("softmax", groups=3, temperature=0.5),
    "softmax/spatial": SMALL + layer("softmax", spatial=1),
    "shortcut": SMALL + conv(filters=3, size=3, pad=1) + conv(filters=3)
    + layer("shortcut", **{"from": -2}, activation="leaky"),
    "shortcut/several": SMALL + conv(filters=3) * 3 + layer("shortcut", **{"from": "-2,0"}),
    "shortcut/other channels": SMALL + conv(filters=5) + conv(filters=3)
    + layer("shortcut", **{"from": -2}) + conv(filters=6) + layer("shortcut", **{"from": 0}, beta=0.5),
    "shortcut/smaller": image(2, 8, 8) + conv(filters=3) + conv(filters=3, size=2, stride=2)
    + layer("shortcut", **{"from": 0}, alpha=2),
    "shortcut/larger": image(2, 4, 4) + conv(filters=3) + layer("upsample") + layer("shortcut", **{"from": 0}),
    "route": SMALL + conv(filters=2) + conv(filters=3) + layer("route", layers="-1, -2"),
    "route/one": SMALL + conv(filters=2) + layer("maxpool", size=2, stride=2) + layer("route", layers=0),
    "route/groups": SMALL + conv(filters=6) + conv(filters=4)
    + layer("route", layers="0,1", groups=2, group_id=1),
    "scale_channels": SMALL + conv(filters=4) + layer("avgpool") + conv(filters=4)
    + layer("scale_channels", **{"from": 0}),
    "scale_channels/places": SMALL + conv(filters=4) + conv(filters=1)
    + layer("scale_channels", **{"from": -2}, scale_wh=1, activation="relu"),
    "sam": SMALL + conv(filters=4) * 2 + layer("sam", **{"from": -2}),
    "Gaussian_yolo": SMALL + conv(filters=24, **_LINEAR) + layer("Gaussian_yolo", **_YOLO, scale_x_y=1.1),
    "yolo": SMALL + conv(filters=16, **_LINEAR) + layer("yolo", **_YOLO),
    "yolo/scale": SMALL + conv(filters=16, **_LINEAR) + layer("yolo", **_YOLO, scale_x_y=1.2),
    "yolo/new coordinates": SMALL + conv(filters=16) + layer("yolo", **_YOLO, scale_x_y=2, new_coords=1),
    "yolo/two": SMALL + conv(filters=16, **_LINEAR) + layer("yolo", **_YOLO)
    + layer("route", layers=0) + conv(filters=9, **_LINEAR)
    + layer("yolo", classes=4, num=1, anchors="2,3"),
    "yolo/not last": SMALL + conv(filters=16, **_LINEAR) + layer("yolo", **_YOLO)
    + layer("route", layers=0) + layer("avgpool"),
    "region": SMALL + conv(filters=18, **_LINEAR)
    + layer("region", classes=4, num=2, coords=4, softmax=1, anchors="1,2,3,4"),
    "region/logistic": SMALL + conv(filters=8, **_LINEAR) + layer("region", classes=3),
    "region/background": SMALL + conv(filters=16, **_LINEAR)
    + layer("region", classes=3, num=2, background=1, softmax=1, anchors="1,2"),
    "region/background, logistic": SMALL + conv(filters=16, **_LINEAR)
    + layer("region", classes=3, num=2, background=1),
    "detection": vector(9) + layer("connected", output=4 * (3 + 2 * 5), **_LINEAR)
    + layer("detection", side=2, classes=3, num=2, coords=4, softmax=1),
    "detection/plain": vector(9) + layer("connected", output=13, **_LINEAR)
    + layer("detection", side=1, classes=3, num=2, coords=4),
    "rnn": vector(5, 3) + layer("rnn", output=4, activation="tanh") + layer("connected", output=2),
    "rnn/hidden": vector(5, 2) + layer("rnn", output=4, hidden=3, batch_normalize=1, shortcut=1, logistic=2),
    "gru": vector(4, 3) + layer("gru", output=3, tanh=1),
    "gru/logistic": vector(4, 1) + layer("gru", output=3, batch_normalize=1),
    "lstm": vector(4, 3) + layer("lstm", output=3),
    "lstm/two": vector(4, 2) + layer("lstm", output=3, batch_normalize=1) + layer("lstm", output=2),
    "crnn": image(2, 4, 3) + "time_steps=2\n" + layer("crnn", hidden_filters=3, output_filters=2, activation="leaky",
                                                     batch_normalize=1),
    "conv_lstm": image(2, 4, 3) + "time_steps=3\n" + layer("conv_lstm", output=3, pad=1, batch_normalize=1),
    "conv_lstm/peephole": image(4, 3, 5) + "time_steps=2\n" + layer("conv_lstm", output=2, pad=1, peephole=1, groups=2,
                                                                   activation="leaky", state_constrain=1),
    "conv_lstm/one": image(2, 4, 3) + layer("conv_lstm", output=2, size=1),
}  # fmt: skip


def written(name: str, batch: int = 1) -> tuple[str, Net, np.ndarray]:
    """The text of a case, its network computed on drawn numbers, and these."""
    rng, text = np.random.default_rng(zlib.crc32(name.encode())), TEXTS[name]
    net = Net(text, rng, name.endswith("transposed"))
    steps = int(net.options.get("time_steps", 1))
    if "inputs" in net.options:
        shape = (batch * steps, int(net.options["inputs"]))
    else:
        shape = (batch * steps, *(int(net.options[k]) for k in ("channels", "height", "width")))
    data = rng.uniform(-2, 2, shape).astype("float32")
    net.run(data)
    return text, net, data


def expected(net: Net, boxes: bool) -> list[np.ndarray]:
    """The results in the importer's order."""
    if boxes:
        return net.boxes
    found = [value for rows in net.detections for value in rows]
    last = net.layers[-1][0] in ("yolo", "region", "Gaussian_yolo")
    return [*([] if last else [net.results[-1]]), *found, *net.states]


def imported(text: str, weights: bytes, **options):
    """The module and parameters of a network whose files are written for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.cfg"
        path.write_text(text)
        path.with_suffix(".weights").write_bytes(weights)
        return from_darknet(path, **options)


def run(name: str, batch: int = 1, boxes: bool = False) -> None:
    text, net, data = written(name, batch)
    module, params = imported(text, net.weights(), shape=data.shape, boxes=boxes)
    got = relay.create_executor("graph", mod=module, target="llvm", params=params).evaluate()(data)
    got = [got] if hasattr(got, "numpy") else list(got)
    for value, want in zip(got, expected(net, boxes), strict=True):
        np.testing.assert_allclose(value.numpy(), want, rtol=2e-5, atol=2e-5)
        assert str(value.dtype) == (str(want.dtype) if want.dtype != "float64" else "float32")


def cases() -> dict[str, Callable[[], None]]:
    out: dict[str, Callable[[], None]] = {name: partial(run, name) for name in TEXTS}
    out.update(
        {
            f"{name}{'' if '/' in name else '/'} boxes".replace("/ ", "/"): partial(run, name, boxes=True)
            for name in TEXTS
            if name.startswith(("yolo", "region", "Gaussian"))
        }
    )
    whole = ("convolutional", "yolo", "lstm", "crnn", "conv_lstm", "local")
    out.update({f"{name}/batch": partial(run, name, 3) for name in whole})
    return out
