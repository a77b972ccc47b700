"""DarkNet's layer and activation numbers, aliases of section names, and unsupported options."""

from __future__ import annotations


class LAYERTYPE:
    """The numbers of the layer types."""

    CONVOLUTIONAL, DECONVOLUTIONAL, CONNECTED, MAXPOOL, SOFTMAX, DETECTION, DROPOUT, CROP, ROUTE, COST = range(10)
    NORMALIZATION, AVGPOOL, LOCAL, SHORTCUT, ACTIVE, RNN, GRU, LSTM, CRNN, BATCHNORM = range(10, 20)
    NETWORK, XNOR, REGION, YOLO, REORG, UPSAMPLE, LOGXENT, L2NORM, BLANK = range(20, 29)


class ACTIVATION:
    """The numbers of the activation functions."""

    LOGISTIC, RELU, RELIE, LINEAR, RAMP, TANH, PLSE, LEAKY, ELU, LOGGY, STAIR, HARDTAN, LHTAN = range(13)


# Maps alternative section names to the name in the table of converters.
ALIASES = {
    "network": "net",
    "conv": "convolutional",
    "deconv": "deconvolutional",
    "conn": "connected",
    "max": "maxpool",
    "avg": "avgpool",
    "soft": "softmax",
    "lrn": "normalization",
    "logxent": "logistic",
}
# Maps sections to their layer type where the names differ.
TYPE_NAMES = {"activation": "ACTIVE", "logistic": "LOGXENT", "reorg3d": "REORG", "local_avgpool": "AVGPOOL"}

# Detection layers, whose outputs are decoded into boxes.
DETECTORS = ("yolo", "region", "Gaussian_yolo")

# Unsupported options of each section that change its output. The value 0 disables an option.
REFUSED = {
    "convolutional": (
        "binary",
        "xnor",
        "antialiasing",
        "share_index",
        "sway",
        "rotate",
        "stretch",
        "stretch_sway",
        "deform",
        "coordconv",
    ),
    "maxpool": ("antialiasing",),
    "local_avgpool": ("antialiasing",),
    "shortcut": ("weights_type", "weights_normalization"),
    "softmax": ("tree",),
    "region": ("tree",),
    "reorg": ("flatten", "extra"),
    "crnn": ("xnor",),
    "conv_lstm": ("xnor", "bottleneck"),
}


def type_number(section: str) -> int:
    """Return the number of a section's layer type, or that of BLANK for sections without a number."""
    return getattr(LAYERTYPE, TYPE_NAMES.get(section, section.upper()), LAYERTYPE.BLANK)


__all__ = ["ACTIVATION", "ALIASES", "DETECTORS", "LAYERTYPE", "REFUSED", "type_number"]
