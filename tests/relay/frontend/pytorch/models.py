"""Models by name: small ones of our own, those of torchvision and of transformers.

Weights are seeded. Running statistics of batch normalization are set from a batch, so that results have a size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.relay.frontend.pytorch.detection import DETECTION, detector
from tests.relay.frontend.pytorch.support import leaves, settle
from tests.relay.frontend.pytorch.tiny_transformers import TINY, tiny

_VISION = (
    "alexnet vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn resnet18 resnet34 resnet50 resnet101 "
    "resnet152 resnext50_32x4d resnext101_32x8d resnext101_64x4d wide_resnet50_2 wide_resnet101_2 densenet121 "
    "densenet161 densenet169 densenet201 squeezenet1_0 squeezenet1_1 mobilenet_v2 mobilenet_v3_small "
    "mobilenet_v3_large mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3 shufflenet_v2_x0_5 shufflenet_v2_x1_0 "
    "shufflenet_v2_x1_5 shufflenet_v2_x2_0 efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 "
    "efficientnet_b4 efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_s efficientnet_v2_m "
    "efficientnet_v2_l regnet_x_400mf regnet_x_800mf regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf regnet_x_16gf "
    "regnet_x_32gf regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf regnet_y_16gf "
    "regnet_y_32gf regnet_y_128gf googlenet inception_v3 convnext_tiny convnext_small convnext_base convnext_large "
    "swin_t swin_s swin_b swin_v2_t swin_v2_s swin_v2_b vit_b_16 vit_b_32 vit_l_16 vit_l_32 vit_h_14 maxvit_t"
).split()
_SEGMENTATION = (
    "fcn_resnet50 fcn_resnet101 deeplabv3_resnet50 deeplabv3_resnet101 deeplabv3_mobilenet_v3_large "
    "lraspp_mobilenet_v3_large"
).split()
_VIDEO = "r3d_18 mc3_18 r2plus1d_18 s3d mvit_v1_b mvit_v2_s swin3d_t swin3d_s swin3d_b".split()
# Sides of images that are not 64; those of a vision transformer are a choice of its maker.
_SIDES = {"inception_v3": 96, "maxvit_t": 224, "alexnet": 80, "vit_h_14": 56}


# How far PyTorch's own result in single precision may be from the one in double precision, as a share of the largest
# value, for the model to be compared in single precision. A residual network of 150 layers has 1e-3.
_ROUNDING = 2e-5


def build(name: str) -> tuple[Any, list]:
    """A model in eval mode and its inputs, in double precision where single precision would compare rounding."""
    import torch

    torch.manual_seed(7)
    model, inputs = MODELS[name]()
    if not name.startswith("detection/"):
        # A batch of two: a channel of one point has statistics too.
        settle(model, lambda: model(*[torch.cat([v, v * 0.9 + 0.1]) for v in inputs]))
    model.eval()
    if name.partition("/")[0] in ("vision", "segmentation", "video"):
        with torch.no_grad():
            single = leaves(model(*inputs))
            wide = [v.double() for v in inputs]
            if _difference(single, leaves(model.double()(*wide))) > _ROUNDING:
                return model, wide
        model.float()
    return model, inputs


def _difference(some: list, others: list) -> float:
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(some, others))


def _small_convolutions():
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(3, 8, 3, 2, 1, bias=False)
            self.norm = torch.nn.BatchNorm2d(8)
            self.deep = torch.nn.Conv2d(8, 8, 3, 1, 1, groups=8)
            self.last = torch.nn.Linear(8, 5)

        def forward(self, x):
            x = torch.nn.functional.relu(self.norm(self.first(x)), inplace=True)
            x = x + torch.nn.functional.hardswish(self.deep(x))
            x = torch.nn.functional.max_pool2d(x, 2, ceil_mode=True)
            return self.last(x.mean((2, 3)))

    return Block(), [torch.randn(2, 3, 11, 9)]


def _small_transformer():
    import torch

    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, norm_first=True)

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(20, 16)
            self.layers = torch.nn.ModuleList([layer])

        def forward(self, tokens):
            x = self.words(tokens) + torch.arange(tokens.shape[1])[:, None] / 10
            mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            for one in self.layers:
                x = one(x, src_mask=mask)
            return x

    return Encoder(), [torch.randint(0, 20, (2, 7))]


def _vision(name: str):
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    size = _SIDES.get(name, 64)
    options: dict = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    if name.startswith("vit_"):
        options["image_size"] = size
    return torchvision().models.get_model(name, weights=None, **options), [torch.randn(1, 3, size, size)]


def _segmentation(name: str):
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    model = torchvision().models.get_model(name, weights=None, weights_backbone=None)
    return _FirstOut(model), [torch.randn(1, 3, 65, 49)]


def _FirstOut(model):
    import torch

    class FirstOut(torch.nn.Module):
        """The result named ``out``."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)["out"]

    return FirstOut()


def _video(name: str):
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    # The mean at the end of s3d takes a window of seven by seven; mvit has the sizes of its images in its weights.
    shape = (1, 3, 14, 224, 224) if name == "s3d" else (1, 3, 16, 224, 224) if "mvit" in name else (1, 3, 4, 32, 32)
    return torchvision().models.get_model(name, weights=None), [torch.randn(*shape)]


def _recurrent(kind: str):
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = getattr(torch.nn, kind)(5, 7, 2, batch_first=True, bidirectional=True)

        def forward(self, x):
            return self.network(x)

    return Network(), [torch.randn(2, 6, 5)]


MODELS: dict[str, Callable[[], tuple[Any, list]]] = {
    "small_convolutions": _small_convolutions,
    "small_transformer": _small_transformer,
    **{f"rnn/{kind}": (lambda kind=kind: _recurrent(kind)) for kind in ("RNN", "GRU", "LSTM")},
    **{f"vision/{name}": (lambda name=name: _vision(name)) for name in _VISION},
    **{f"segmentation/{name}": (lambda name=name: _segmentation(name)) for name in _SEGMENTATION},
    **{f"video/{name}": (lambda name=name: _video(name)) for name in _VIDEO},
    **{f"detection/{name}": (lambda name=name: detector(name)) for name in DETECTION},
    **{f"transformers/{name}": (lambda name=name: tiny(name)) for name in TINY},
}
