"""The format as data: numbers of layers and activations, other names of sections, and what is not supported of them."""

from __future__ import annotations


class LAYERTYPE:
    """The numbers of layers."""

    CONVOLUTIONAL, DECONVOLUTIONAL, CONNECTED, MAXPOOL, SOFTMAX, DETECTION, DROPOUT, CROP, ROUTE, COST = range(10)
    NORMALIZATION, AVGPOOL, LOCAL, SHORTCUT, ACTIVE, RNN, GRU, LSTM, CRNN, BATCHNORM = range(10, 20)
    NETWORK, XNOR, REGION, YOLO, REORG, UPSAMPLE, LOGXENT, L2NORM, BLANK = range(20, 29)


class ACTIVATION:
    """The numbers of activations."""

    LOGISTIC, RELU, RELIE, LINEAR, RAMP, TANH, PLSE, LEAKY, ELU, LOGGY, STAIR, HARDTAN, LHTAN = range(13)


# Sections that have more than one name; the table of converters has the first.
ALIASES = {"network": "net", "conv": "convolutional", "deconv": "deconvolutional", "conn": "connected",
           "max": "maxpool", "avg": "avgpool", "soft": "softmax", "lrn": "normalization", "logxent": "logistic"}
# Sections whose number has another name than theirs.
TYPE_NAMES = {"activation": "ACTIVE", "logistic": "LOGXENT", "reorg3d": "REORG", "local_avgpool": "AVGPOOL"}

# Sections whose results boxes are made of.
DETECTORS = ("yolo", "region", "Gaussian_yolo")

# Options of a section that change what it computes and are not supported; 0 is none of them.
REFUSED = {
    "convolutional": ("binary", "xnor", "antialiasing", "share_index", "sway", "rotate", "stretch", "stretch_sway",
                      "deform", "coordconv"),
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
    """The number of a section's layer; that of a blank one where the format gives it none."""
    return getattr(LAYERTYPE, TYPE_NAMES.get(section, section.upper()), LAYERTYPE.BLANK)


__all__ = ["ACTIVATION", "ALIASES", "DETECTORS", "LAYERTYPE", "REFUSED", "type_number"]
