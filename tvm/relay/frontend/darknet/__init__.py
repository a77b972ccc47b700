"""The DarkNet importer."""

# Importing a converter module registers its converters.
from . import activations, conv_ops, detection_ops, recurrent, shape_ops
from .load import Network
from .reader import from_darknet
from .schema import ACTIVATION, LAYERTYPE

__all__ = ["ACTIVATION", "LAYERTYPE", "Network", "from_darknet"]
