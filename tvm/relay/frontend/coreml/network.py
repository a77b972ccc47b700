"""Convert a neural network layer by layer. A scope maps blob names to the last value written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .layer_schema import FIRST_KIND
from .schema import BGR, GRAYSCALE, GRAYSCALE_HALF, RGB
from .table import LAYERS, Context, check_count, constant, results

# Layers over sequences, which need inputs of five dimensions.
_SEQUENCES = ("simpleRecurrent", "gru", "uniDirectionalLSTM", "biDirectionalLSTM", "sequenceRepeat", "cropResize")
EXACT = 1


def kind_of(layer: Any) -> str:
    """Return the type of a layer."""
    kinds = [field.name for field, _ in layer.ListFields() if field.number >= FIRST_KIND]
    if len(kinds) != 1:
        raise TVMError(f"the layer '{layer.name}' has {'an unknown type' if not kinds else 'two types'}")
    return kinds[0]


def layers_of(network: Any) -> list:
    """Return all layers, including those of nested networks."""
    found, work = [], [network]
    while work:
        one = work.pop()
        for layer in one.layers:
            found.append(layer)
            for field, value in layer.ListFields():
                if field.name == "branch":
                    work += [value.ifBranch, value.elseBranch]
                elif field.name == "loop":
                    work += [value.conditionNetwork, value.bodyNetwork]
    return found


class Network:
    """A neural network.

    If its inputs are mapped to five dimensions [sequence, batch, channels, height, width], the sequence dimension is
    omitted unless a layer needs it. ``rank`` is the number of dimensions, or 0 if shapes are not mapped.
    """

    def __init__(self, importer: Any, model: Any, network: Any):
        self.importer, self.network, self.description = importer, network, model.description
        self.is_exact = network.arrayInputShapeMapping == EXACT
        self.image_rank = 4 if network.imageInputShapeMapping == EXACT else 0
        self.rank = 0 if self.is_exact else 5 if self._has_sequences() else 4

    def _has_sequences(self) -> bool:
        for layer in layers_of(self.network):
            kind = kind_of(layer)
            if kind in _SEQUENCES or kind == "concat" and layer.concat.sequenceConcat:
                return True
            if kind == "permute" and layer.permute.axis and layer.permute.axis[0] != 0:
                return True
            if kind == "reshape" and len(layer.reshape.targetShape) == 4:
                return True
        return any(len(shape) == 5 for shape in self.importer.shapes.values())

    def used(self) -> list[tuple[str, str]]:
        return [(kind_of(layer), layer.name) for layer in layers_of(self.network)]

    @staticmethod
    def knows(kind: str) -> bool:
        return False

    # -- inputs and outputs ---------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, RelayExpr]) -> dict[str, Any]:
        """Convert the network. Return its outputs by name."""
        context = Context(self.importer, "the inputs", None, self)
        scope = {}
        for feature in self.description.input:
            scope[feature.name] = self.mapped(context, feature, inputs[feature.name])
        self.walk(self.network, scope)
        return {feature.name: self.result(context, feature, scope) for feature in self.description.output
                if self.made_as(feature, scope) in scope}  # fmt: skip

    def mapped(self, ctx: Context, feature: Any, value: RelayExpr) -> RelayExpr:
        """Convert an input to the element type and rank that the layers use."""
        value = ctx.cast(value, "float32")
        is_image = feature.type.HasField("imageType")
        value = self.preprocessed(ctx, feature, value)
        wanted = self.image_rank or self.rank if is_image else self.rank
        return self.spread(ctx, value, wanted) if wanted else value

    def spread(self, ctx: Context, value: RelayExpr, wanted: int) -> RelayExpr:
        """Add the missing dimensions to an input of shape [C], [B, C], [C, H, W] or [B, C, H, W]."""
        sizes = ctx.known_shape(value)
        if len(sizes) in (1, 2):
            sizes = (*sizes, 1, 1)
        if not 3 <= len(sizes) <= 5:
            raise TVMError(f"an input of {len(sizes)} dimensions is not supported")
        sizes = (*[1] * (wanted - len(sizes)), *sizes)
        if len(sizes) > wanted:
            if sizes[0] != 1:
                raise TVMError(
                    f"the input has a sequence of length {sizes[0]}, but the network does not support sequences"
                )
            sizes = sizes[1:]
        return value if sizes == ctx.known_shape(value) else ctx.made(relay.reshape(value, sizes, True))

    def preprocessed(self, ctx: Context, feature: Any, value: RelayExpr) -> RelayExpr:
        only = len(self.description.input) == 1
        for rule in self.network.preprocessing:
            if rule.featureName == feature.name or not rule.featureName and only:
                if rule.HasField("scaler"):
                    value = _rescaled(ctx, value, rule.scaler, feature)
                elif rule.HasField("meanImage"):
                    sizes = ctx.known_shape(value)[-3:]
                    check_count("the mean image", sizes)
                    mean = constant(rule.meanImage.meanImage, "float32")
                    value = ctx.made(relay.subtract(value, relay.reshape(mean, sizes)))
                else:
                    raise TVMError(f"the preprocessing type of input '{feature.name}' is not supported")
        return value

    def made_as(self, feature: Any, scope: Mapping[str, Any]) -> str:
        """Return the blob name of an output. The class probabilities may have the name of a layer."""
        if feature.name in scope or not hasattr(self.network, "labelProbabilityLayerName"):
            return feature.name
        is_probability = feature.name == self.description.predictedProbabilitiesName
        name = self.network.labelProbabilityLayerName if is_probability else feature.name
        if is_probability and name not in scope:
            # Without a name, the class probabilities are the output of the last layer.
            outputs = [layer.output[-1] for layer in self.network.layers if layer.output]
            owner = [layer.output[0] for layer in self.network.layers if layer.name == name and layer.output]
            return owner[0] if owner else outputs[-1] if outputs else name
        return name

    def result(self, ctx: Context, feature: Any, scope: Mapping[str, Any]) -> RelayExpr:
        """Reshape an output as the model describes it: drop a sequence dimension of 1, and height and width of 1 if the
        description has only channels."""
        value = scope[self.made_as(feature, scope)]
        if not self.rank or not self.rank - 1 <= ctx.rank(value) <= self.rank:
            return value
        sizes = ctx.known_shape(value)
        if len(sizes) == 5 and sizes[0] == 1:
            sizes = sizes[1:]
        described = len(feature.type.multiArrayType.shape)
        if described <= 1 and not feature.type.HasField("imageType") and sizes[-2:] == (1, 1):
            sizes = sizes[:-2]
        return value if sizes == ctx.known_shape(value) else ctx.made(relay.reshape(value, sizes, True))

    # -- layers ---------------------------------------------------------------------------------------------------

    def walk(self, network: Any, scope: dict[str, Any]) -> None:
        for layer in network.layers:
            self.convert(layer, scope)

    def convert(self, layer: Any, scope: dict[str, Any]) -> None:
        kind = kind_of(layer)
        where = f"{kind} '{layer.name}'"
        self.importer.count_node()
        context = Context(self.importer, where, layer, self, len(layer.output))
        with self.importer.at_node(where, layer.name, partial(_in_words, layer)):
            inputs = [self.value(scope, name, where) for name in layer.input]
            if kind in ("branch", "loop"):
                LAYERS.find(kind, 0)(context, inputs, getattr(layer, kind), scope)
                return
            convert = LAYERS.find(kind, 0)
            if convert is None:
                raise TVMError("the layer is not supported in this position")
            made = results(convert(context, inputs, getattr(layer, kind)))
            if len(made) < len(layer.output) or not layer.output:
                raise TVMError(f"the layer has {len(made)} outputs, but the network names {len(layer.output)}")
            for name, value in zip(layer.output, made):
                # A blob has at least one dimension.
                value = context.made(value)
                scope[name] = context.made(relay.expand_dims(value, 0)) if not context.rank(value) else value

    def value(self, scope: Mapping[str, Any], name: str, where: str) -> RelayExpr:
        if name not in scope:
            raise TVMError(f"'{name}', an input of {where}, is not produced by any layer")
        return scope[name]


def _rescaled(ctx: Context, value: RelayExpr, rule: Any, feature: Any) -> RelayExpr:
    """Scale pixels and add a bias for each color channel, in the channel order of the image."""
    space = feature.type.imageType.colorSpace
    channels = ctx.known_size(value, -3)
    if space in (GRAYSCALE, GRAYSCALE_HALF) or channels == 1:
        biases = [rule.grayBias]
    elif space in (RGB, BGR, 0):
        biases = [rule.redBias, rule.greenBias, rule.blueBias]
        biases = biases if space == RGB else biases[::-1]
    else:
        raise TVMError(f"the color space {space} of input '{feature.name}' is not supported")
    if channels != len(biases):
        raise TVMError(f"input '{feature.name}' has {channels} channels, but its color space has {len(biases)}")
    scale = rule.channelScale if rule.HasField("channelScale") else 1.0
    value = relay.multiply(value, constant(scale, "float32")) if scale != 1 else value
    if any(biases):
        value = relay.add(value, constant([[[b]] for b in biases], "float32"))
    return ctx.made(value)


def _in_words(layer: Any, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory to convert the layer"
    return f"with {len(layer.input)} inputs: {str(problem) or type(problem).__name__}"


__all__ = ["Network", "kind_of", "layers_of"]
